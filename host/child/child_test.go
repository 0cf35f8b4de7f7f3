package child

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// says prints its arguments and its environment.
func says() Role {
	return Role{"__say", func(args []string) int {
		fmt.Println(strings.Join(args, " "))
		fmt.Println(strings.Join(os.Environ(), " "))
		return 7
	}}
}

func TestMain(m *testing.M) {
	if code, ran := Run(os.Args[1:], Role{"__nothing", nil}, says(), answers()); ran {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestRole(t *testing.T) {
	t.Setenv("GOCOVERDIR", "/dev/null")
	t.Setenv("SECRET", "x")
	cmd := says().Command([]string{"OWN=1"}, "one", "two")
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	lines := strings.Split(string(out), "\n")
	if lines[0] != "one two" || !strings.HasPrefix(lines[1], "OWN=1 GORACE=") || !strings.Contains(lines[1], "GOCOVERDIR=/dev/null") || strings.Contains(lines[1], "SECRET") {
		t.Errorf("%q", lines)
	}
	for _, args := range [][]string{nil, {"say"}, {"run", "__say"}} {
		if _, ran := Run(slices.Clone(args), says()); ran {
			t.Errorf("%v names the role", args)
		}
	}
}
