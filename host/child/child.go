// Package child starts dyno's own program again in another role, as a process of its own.
// It is for work that must outlive dyno or must not share its runtime. No command of dyno
// shows these roles to people.
//
// A package that needs such a process has a Role. The program's main function hands over
// before it does anything else:
//
//	if code, ran := child.Run(os.Args[1:], target.Role(), sysctl.Role()); ran {
//		os.Exit(code)
//	}
package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A Role is what the program does when it is started with the role's name as its first
// argument.
type Role struct {
	Name string                  // no command has this name
	Main func(args []string) int // args are those after the name; returns the exit code
}

// Run runs the role that args name, and reports whether they name one.
func Run(args []string, roles ...Role) (code int, ran bool) {
	for _, r := range roles {
		if len(args) > 0 && args[0] == r.Name {
			return r.Main(args[1:]), true
		}
	}
	return 0, false
}

// A User is whose rights a process gets. Its groups are further ones.
type User struct {
	ID, Group uint32
	Groups    []uint32
}

// Command returns the command that starts the role. The environment is the
// given one, plus the variables that instrumented builds need from this process.
func (r Role) Command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(), append([]string{r.Name}, args...)...) //nolint:gosec // this very program
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(env, instrumented()...)
	return cmd
}

// A Process is a program that is written to and read from.
type Process struct {
	io.Reader
	io.WriteCloser
	Command *exec.Cmd
}

// Start starts a command. Its standard error goes to this process's.
func Start(command *exec.Cmd) (*Process, error) {
	p := &Process{Command: command}
	command.Stderr = os.Stderr
	var failed, err error
	if p.WriteCloser, failed = command.StdinPipe(); failed != nil {
		return nil, failed
	}
	if p.Reader, err = command.StdoutPipe(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, command.Start() // if this fails, it closes the pipes
}

// CloseWrite ends what the process reads.
func (p *Process) CloseWrite() error { return p.Close() }

// Kill ends the process.
func (p *Process) Kill() { _ = p.Command.Process.Kill() } // it may have ended

// Wait waits until the process has ended. It is called once, after the last Read.
func (p *Process) Wait() error { return p.Command.Wait() }

// instrumented returns the variables for builds that count coverage or find races.
// Without them a process built with the race detector waits for a second when it ends.
func instrumented() []string {
	env := []string{"GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")}
	if v, ok := os.LookupEnv("GOCOVERDIR"); ok {
		env = append(env, "GOCOVERDIR="+v)
	}
	return env
}
