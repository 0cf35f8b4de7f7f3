package remote

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/host/child"
	"dyno/host/target"
	"dyno/internal/roles"
)

// TestMain lets the test binary be the agent's side, the supervisor, and a target.
func TestMain(m *testing.M) {
	if code, ran := child.Run(os.Args[1:], Role(), target.Role()); ran {
		os.Exit(code)
	}
	roles.Main(m, map[string]func([]string) error{"serve": accept})
}

// accept accepts connections at an address until it is asked to stop, or for one connection only.
func accept(args []string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM) // before the first connection
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", args[0])
	if err != nil {
		return err
	}
	if len(args) > 1 {
		fmt.Println("about to fail")
		if _, err := l.Accept(); err != nil {
			return err
		}
		os.Exit(7)
	}
	fmt.Println("serving")
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	<-stop
	fmt.Println("stopped")
	return nil
}

// here is this machine as an agent's, with some limits.
type here struct {
	*testing.T
	limits Limits
}

func (h here) Host(context.Context) (Channel, error) {
	command, err := h.limits.Command(nil)
	if err != nil {
		return nil, err
	}
	return start(h.T, command)
}

func (here) String() string { return "agent a" }

func start(t *testing.T, command *exec.Cmd) (Channel, error) {
	p, err := child.Start(command)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		p.Kill()
		_ = p.Wait() // it was killed, or has ended
	})
	return &channel{Process: p}, nil
}

func dial(t *testing.T, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
}

// A channel leads to a process of this machine.
type channel struct {
	*child.Process
	mute atomic.Bool // what is written is lost
}

func (c *channel) Write(b []byte) (int, error) {
	if c.mute.Load() {
		return len(b), nil
	}
	return c.Process.Write(b)
}

func (*channel) At(ours int64) (theirs, within int64) { return ours, 1000 }
func (*channel) Silence() time.Duration               { return time.Hour }
