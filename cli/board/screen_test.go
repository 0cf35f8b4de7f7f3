package board

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dyno/internal/roles"
)

// expectScreen runs a command on a terminal of that size, and waits for a picture. The terminal is tmux, which is not
// dyno's own code. The command must not end by itself. A picture is lines without blanks at their ends, and without
// empty lines below the last. The command's environment also has the NAME=VALUE. Without tmux, the test is skipped.
func expectScreen(t *testing.T, columns, rows int, variable, want string, command ...string) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux (Debian: tmux)")
	}
	dir, err := os.MkdirTemp("", "screen") // a test's own folder may be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "conf")
	tmux := func(arguments ...string) string {
		t.Helper()
		command := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(dir, "s"), "-f", config}, arguments...)...)
		command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v\n%s", arguments[0], err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", filepath.Join(dir, "s"), "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	if err := os.WriteFile(config, []byte("set -g status off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tmux(append([]string{"new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "-e", variable, "--"}, command...)...)
	picture := ""
	defer func() {
		if picture != want {
			t.Logf("on the screen:\n%s", picture)
		}
	}()
	roles.Until(t, "what is expected on the screen", func() bool {
		var lines []string
		for line := range strings.Lines(tmux("capture-pane", "-p")) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		picture = strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
		return picture == want
	})
}
