package child

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// memory is the limit of the tests. Go reserves address space by 64 MiB, so that a smaller one would be passed by chance.
const memory = 512 << 20

// answers passes one limit of those that Ask sets, or repeats its input.
func answers() Role {
	return Role{"__answer", func(args []string) int {
		return Answer(memory, func(input []byte) ([]byte, error) {
			switch args[0] {
			case "loop":
				for n := 0; ; n++ {
					input[0] = byte(n)
				}
			case "wait":
				select {}
			case "grow":
				for {
					input = append(input, bytes.Repeat([]byte{1}, 1<<20)...)
				}
			case "reserve":
				all := make([]byte, 8<<30)
				<-make(chan byte, all[0])
			case "talk":
				return bytes.Repeat(input, 10), nil
			case "nest":
				return make([]byte, nest(0)), nil
			case "fail":
				return nil, errors.New(strings.Repeat("why", mostFaults))
			}
			return input, nil
		})
	}}
}

// nest calls itself until the stack is full.
func nest(n int) int {
	if n < 0 {
		return 0
	}
	return nest(n+1) + 1
}

// A process that passes a limit is ended, and the error says which one it was.
func TestLimits(t *testing.T) {
	input := bytes.Repeat([]byte("line\n"), 100_000)
	for does, want := range map[string]string{
		"repeat":  "",
		"loop":    "more than 1s of processor time",
		"grow":    "more than 512 MiB of memory",
		"reserve": "more than 512 MiB of memory",
		"talk":    "more than 1 MiB of output",
	} {
		l := Limits{time.Minute, time.Minute, memory, 1 << 20}
		if does == "loop" {
			l.CPU = time.Second
		}
		output, err := Ask(answers().Command(nil, does), input, l)
		limit := (*LimitError)(nil)
		switch {
		case want == "" && (err != nil || !bytes.Equal(output, input)):
			t.Errorf("%s: %d bytes, %v", does, len(output), err)
		case want != "" && (!errors.As(err, &limit) || limit.Error() != want):
			says := ""
			if failed := (*FailedError)(nil); errors.As(err, &failed) {
				says = failed.Says
			}
			t.Errorf("%s: %v, want %s; it says: %s", does, err, want, says)
		}
	}
	l := Limits{100 * time.Millisecond, time.Minute, 1 << 30, 1 << 20}
	if _, err := Ask(answers().Command(nil, "wait"), input, l); err == nil || err.Error() != "more than 100ms" {
		t.Error(err)
	}
	l = Limits{time.Minute, time.Minute, 8 << 30, 1 << 20} // the race detector needs several times the stack
	if _, err := Ask(answers().Command(nil, "nest"), input, l); err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Error(err)
	}
}

// Standard error is kept up to a bound. A program that is not ready gets no input.
func TestFailures(t *testing.T) {
	l := Limits{time.Minute, time.Minute, 1 << 30, 1 << 20}
	_, err := Ask(answers().Command(nil, "fail"), nil, l)
	if failed := (*FailedError)(nil); !errors.As(err, &failed) || len(failed.Says) != mostFaults {
		t.Error(err)
	}
	if _, err := Ask(exec.Command("echo", "ready"), nil, l); err == nil || !strings.Contains(err.Error(), "empty line") {
		t.Error(err)
	}
	if _, err := Ask(exec.Command("true"), nil, l); err == nil {
		t.Error("a program that says nothing is ready")
	}
}
