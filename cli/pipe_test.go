package cli

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/internal/exit"
	"dyno/selftest/oracle"
)

// broken returns the write end of a pipe without a reader.
func broken(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

// end waits for a started program, and returns its exit code, -1 for a signal.
func end(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	guard := time.AfterFunc(hangGuard, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// If the results have no reader, as in dyno … | head, dyno leaves no files or processes. It
// prints what it measured on standard error.
func TestUnreadResults(t *testing.T) {
	t.Parallel()
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a load": {[]string{"http", "-q", "-c", "1", "-n", "50", server.Addr().String()}, " 50 ok · 0 failed"},
		"help":   {[]string{"--help"}, ""},
	} {
		temp := t.TempDir()
		cmd := exec.Command("dyno", c.args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = broken(t), &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if code := end(t, cmd); code != exit.Unread || !strings.Contains(stderr.String(), c.says) || c.says == "" && stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d and %q: %s", name, code, exit.Unread, c.says, &stderr)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%s: left over: %v, %v", name, left, err)
		}
	}
}

// If the reader of the progress has gone away, the run ends in order, as after a signal.
func TestUnreadProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "long.yaml"), long)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("dyno", "run", "-o", "out", "long.yaml")
	var stdout bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("ended before it measured: %v", err)
		}
		if strings.Contains(line, " p50 ") {
			break
		}
	}
	tree := below(t, cmd.Process.Pid)
	r.Close()
	if code := end(t, cmd); code != exit.Unread {
		t.Errorf("exit code %d, want %d", code, exit.Unread)
	}
	if len(tree) < 3 || anyAlive(tree) {
		t.Errorf("of %v something still runs", tree)
	}
	if !strings.Contains(stdout.String(), "INCOMPLETE: 0 of 2 planned trials measured") {
		t.Errorf("the results do not say that they are incomplete:\n%s", &stdout)
	}
	if !printed.MatchString(stdout.String()) {
		t.Errorf("what was measured is not printed:\n%s", &stdout)
	}
	if f := open(t, filepath.Join(dir, "out")); f.Complete() || len(f.Trials) != 1 || f.Trials[0].Counts.OK == 0 {
		t.Errorf("%v: what was measured is not kept", f.Incomplete)
	}
}
