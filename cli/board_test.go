package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/exit"
	"dyno/selftest/oracle"
)

// openTerminal opens a pseudo-terminal of a size, and returns the program's side. Once that side is
// closed, written returns what the program wrote.
func openTerminal(t *testing.T, columns, rows uint16) (program *os.File, written func() string) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	var (
		text   strings.Builder
		reader sync.WaitGroup
	)
	reader.Go(func() { _, _ = io.Copy(&text, keyboard) }) // ends with EIO
	return program, func() string {
		_ = program.Close()
		reader.Wait()
		_ = keyboard.Close()
		return text.String()
	}
}

// A row of progress begins with how long the load goes on.
var second = regexp.MustCompile(`  [12]\.[0-9]s  `)

// On a terminal a load draws a board, takes it off, and prints its result; a dumb one gets rows, and so
// does who wants no board.
func TestBoardOnATerminal(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("NO_COLOR", "")
	for name, c := range map[string]struct {
		term  string
		args  []string
		board bool
	}{
		"a board": {"xterm-256color", nil, true}, "dumb": {"dumb", nil, false}, "no board": {"xterm-256color", []string{"--no-tui"}, false}, "quiet": {"xterm-256color", []string{"-q"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			screen, written := openTerminal(t, 100, 30)
			code := Main(t.Context(), append([]string{"http", "-c", "2", "-z", "1.2", "--no-server"}, append(c.args, "http://"+server.Addr().String()+"/")...), nil, screen, screen)
			got := written()
			if code != exit.Done && code != exit.Invalid {
				t.Errorf("exit code %d", code)
			}
			if drawn := strings.Contains(got, "█░"); drawn != c.board || !strings.Contains(got, " · closed loop · ") {
				t.Errorf("a board: %v, want %v, in %q", drawn, c.board, got)
			}
			if rows := second.MatchString(got); rows != (c.term == "dumb" || name == "no board") {
				t.Errorf("rows: %v, in %q", rows, got)
			}
		})
	}
}
