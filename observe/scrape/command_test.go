package scrape

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/observe"
)

func command(t *testing.T, argv ...string) *Command {
	t.Helper()
	c, err := NewCommand(t.Context(), "own", argv, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A command may print JSON or lines.
func TestCommand(t *testing.T) {
	for _, print := range []string{
		`echo "jobs_total 5"; echo "depth 2"`,
		`echo '{"jobs_total": 5, "depth": 2}'`,
	} {
		c := command(t, "sh", "-c", print)
		if k := kinds(c); len(k) != 3 || k["jobs_total"] != observe.Counter || k["depth"] != observe.Gauge || c.Name() != "own" {
			t.Errorf("%s: columns %v", print, k)
		}
		if v := values(t, c); v["jobs_total"] != 5 || v["depth"] != 2 {
			t.Errorf("%s: %v", print, v)
		}
	}
}

// A command that is to end is killed with all that it has started.
func TestCommandKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	started := make(chan int)
	go func() {
		for ctx.Err() == nil {
			text, _ := os.ReadFile(file) // until it is there
			if pid, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n")); err == nil && strings.HasSuffix(string(text), "\n") {
				cancel()
				started <- pid
				return
			}
		}
		started <- 0
	}()
	_, err := NewCommand(ctx, "own", []string{"sh", "-c", "/proc/" + strconv.Itoa(os.Getpid()) + "/exe hang & echo $! > " + file + "; wait"}, time.Hour)
	wantError(t, err, "was killed")
	pid := <-started
	if pid == 0 {
		t.Fatal("the command never started anything")
	}
	// Reaping may take a while, which leaves a zombie.
	for end := time.Now().Add(hangGuard); alive(pid); {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("what the command has started lives on")
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// A command that takes longer than its period is killed.
func TestCommandTooSlow(t *testing.T) {
	_, err := NewCommand(t.Context(), "own", []string{"/proc/self/exe", "hang"}, leastEvery)
	wantError(t, err, "took too long", "deadline")
}

func TestCommandFaults(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want []string
	}{
		{[]string{"/no/such/program"}, []string{"no such file"}},
		{[]string{"sh", "-c", "echo why >&2; exit 3"}, []string{"exit status 3", `"why"`}},
		{[]string{"true"}, []string{"no numbers"}},
		{[]string{"echo", "hello"}, []string{"line 1", "want a name and a number"}},
		{[]string{"sh", "-c", "yes 'a 1' | head -c 100000"}, []string{"more than 65536 bytes"}},
		{[]string{"seq", "-f", "n%g 1", "65"}, []string{"65 numbers", "at most 64"}},
		{[]string{"sh", "-c", "echo a 1; /proc/" + strconv.Itoa(os.Getpid()) + "/exe hang &"}, []string{"WaitDelay"}},
	} {
		cmd, err := NewCommand(t.Context(), "own", c.argv, 20*time.Second)
		var u *observe.Unavailable
		if !errors.As(err, &u) {
			t.Errorf("%q: %v, %v", c.argv, cmd, err)
		}
		wantError(t, err, c.want...)
	}
	_, err := NewCommand(t.Context(), "", nil, 1)
	wantError(t, err, "name: empty", "command: empty", "every: 1ns")
}
