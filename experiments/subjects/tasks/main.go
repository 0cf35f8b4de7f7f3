// Command tasks measures the task platform of report R1: dyno's queue of experiments (dyno submit, dyno queue work), and
// the stages on the way to it. It starts dyno, dyno-control and redis-server, which must be on PATH.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/command"
	"dyno/lab/fleet/queue"
	"dyno/lab/fleet/registry"
)

func main() {
	os.Exit(command.Main(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

func newCommand() *cobra.Command {
	root := measurement.NewCommand("tasks", "Measure a queue of tasks, and the stages on the way to it")
	measurement.Add[Sustained](root, "sustained", "Tasks that are submitted at a rate, and run by workers")
	measurement.Add[Dispatch](root, "dispatch", "How fast a task gets to a worker: in one process, by registration, by Redis, by the queue")
	measurement.Add[Predict](root, "predict", "What predictions of durations bring")
	measurement.Add[Shares](root, "shares", "How tenants share the workers")
	return root
}

const readyIn = 30 * time.Second // for a program that starts

// A process is a program that was started for a measurement.
type process struct{ cmd *exec.Cmd }

// start starts a program. It ends with stop, or when ctx ends.
func start(ctx context.Context, dir string, env []string, name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, filepath.Base(name)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // this program's own words
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return &process{cmd}, errors.Join(cmd.Start(), log.Close())
}

// stop ends the program and returns the CPU time that it used, with the programs it started and waited for.
func (p *process) stop() time.Duration {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = p.cmd.Wait()                          // by the signal
	s := p.cmd.ProcessState
	return s.UserTime() + s.SystemTime()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// A bench is a control plane, and a folder that is removed in the end.
type bench struct {
	dir     string
	url     string
	queue   *queue.Queue
	control *process
}

func newBench(ctx context.Context) (_ *bench, err error) {
	b := &bench{}
	if b.dir, err = os.MkdirTemp("", "tasks"); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err == nil {
		b.url = "http://" + address
		b.control, err = start(ctx, b.dir, nil, "dyno-control", "--listen", address, "--data", "data", "--drain-timeout", "0s", "--grace", "0s")
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	r, err := registry.Open(registry.Config{Namespace: registry.Queue, Servers: []string{b.url}})
	if err == nil {
		b.queue = &queue.Queue{Registry: r}
		err = retry(ctx, func() error { _, _, err := b.queue.Tasks(ctx); return err })
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("dyno-control: %w", err)
	}
	return b, nil
}

// close ends the control plane and returns the CPU time that it used.
func (b *bench) close() time.Duration {
	if b.queue != nil {
		b.queue.Registry.Close()
	}
	used := b.control.stop()
	_ = os.RemoveAll(b.dir)
	return used
}

// retry repeats what fails while a program starts.
func retry(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// quantile returns a value of a sorted list; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func sorted(of []float64) []float64 {
	slices.Sort(of)
	return of
}
