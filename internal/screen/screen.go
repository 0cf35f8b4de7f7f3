// Package screen runs a program on a terminal that dyno did not write, tmux, and says what a person
// would see on it. It is for tests.
package screen

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds the wait for a picture. Only a failing test takes that long.
const patience = 30 * time.Second

// A Screen is a terminal on which a program runs.
type Screen struct {
	t      testing.TB
	socket string // of a tmux server that no other has
}

// Start runs a command, which must not end by itself, on a terminal of that size until the test
// ends. Its environment has the given NAME=VALUE too. The test is skipped where there is no tmux.
func Start(t testing.TB, columns, rows int, environment []string, command ...string) *Screen {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux (Debian: tmux)")
	}
	dir, err := os.MkdirTemp("", "screen") // a test's own folder may be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	s := &Screen{t: t, socket: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	config := filepath.Join(dir, "conf")
	if err := os.WriteFile(config, []byte("set -g status off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-f", config, "new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows)}
	for _, variable := range environment {
		arguments = append(arguments, "-e", variable)
	}
	s.tmux(append(append(arguments, "--"), command...)...)
	return s
}

// Until waits for a picture and returns it: lines without blanks at their ends, and without empty
// lines below the last. If none comes, it fails the test and returns what there is.
func (s *Screen) Until(holds func(picture string) bool) string {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var lines []string
		for line := range strings.Lines(s.tmux("capture-pane", "-p")) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		picture := strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
		if holds(picture) {
			return picture
		}
		if time.Now().After(end) {
			s.t.Errorf("never what is expected on the screen, but:\n%s", picture)
			return picture
		}
	}
}

func (s *Screen) tmux(arguments ...string) string {
	s.t.Helper()
	command := exec.Command("tmux", append([]string{"-u", "-S", s.socket}, arguments...)...)
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", arguments[0], err, out)
	}
	return string(out)
}
