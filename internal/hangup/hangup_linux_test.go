package hangup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/roles"
)

func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{
		"service": func([]string) error { return say(true) },
		"command": func([]string) error { return say(false) },
	})
}

// say prints what each SIGHUP means, until one ends the process.
func say(service bool) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	ctx = Watch(ctx, end)
	if service {
		Outlive(ctx)
	}
	fmt.Println("ready")
	for {
		select {
		case <-Requests(ctx):
			fmt.Println("asked")
		case <-ctx.Done():
			fmt.Println("ended")
			return nil
		}
	}
}

// terminal opens a new terminal: what a terminal emulator holds of it, and what programs do.
func terminal(t *testing.T) (emulator, programs *os.File) {
	t.Helper()
	emulator, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = emulator.Close() })
	if err := unix.IoctlSetPointerInt(int(emulator.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(emulator.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if programs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return emulator, programs
}

func hear(t *testing.T, c *roles.Child, want string) {
	t.Helper()
	if line := c.Line(t); line != want {
		t.Errorf("it says %q, want %q", line, want)
	}
}

func signalled(t *testing.T, c *roles.Child) {
	t.Helper()
	if err := c.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutATerminal(t *testing.T) {
	for role, want := range map[string]string{"service": "asked", "command": "ended"} {
		cmd := roles.Command(role)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c := roles.Start(t, cmd)
		hear(t, c, "ready")
		signalled(t, c)
		hear(t, c, want)
		if role == "service" {
			signalled(t, c)
			hear(t, c, want)
		}
	}
}

// A service on a terminal is asked as long as the terminal is there, and ends with it. One that began with SIGHUP
// ignored outlives its terminal.
func TestOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name   string
		cmd    *exec.Cmd
		closed string
	}{
		{"service", roles.Command("service"), "ended"},
		{"under nohup", exec.Command("sh", "-c", `trap "" HUP; exec "$0" service`, "/proc/"+strconv.Itoa(os.Getpid())+"/exe"), "asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			emulator, programs := terminal(t)
			c.cmd.ExtraFiles = []*os.File{programs}
			c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
			child := roles.Start(t, c.cmd)
			_ = programs.Close()
			hear(t, child, "ready")
			signalled(t, child)
			hear(t, child, "asked")
			if err := emulator.Close(); err != nil {
				t.Fatal(err)
			}
			hear(t, child, c.closed)
		})
	}
}
