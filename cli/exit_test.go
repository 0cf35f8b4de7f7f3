package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"dyno/host/target"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/results/rundir"
)

func TestExitCode(t *testing.T) {
	died := &target.Failure{Target: "x", Reason: target.ErrExited}
	refused := &engine.Unreachable{Address: "127.0.0.1:1", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name   string
		err    error
		signal syscall.Signal
		want   int
	}{
		{"nothing", nil, 0, exit.Done},
		{"usage", exit.Misused("so", "wrong"), 0, exit.Usage},
		{"usage and a signal", exit.Misused("so", "wrong"), syscall.SIGINT, exit.Usage},
		{"faults of a file", errors.Join(&fields.Faults{}, errors.New("x")), 0, exit.Usage},
		{"no such file", fmt.Errorf("experiment: %w", os.ErrNotExist), 0, exit.Usage},
		{"folder in use", &trial.FolderError{Err: rundir.ErrNotEmpty}, 0, exit.Usage},
		{"folder without room", &trial.FolderError{Err: syscall.ENOSPC}, 0, exit.Failed},
		{"plan that cannot be", fmt.Errorf("trial 1: %w", &trial.PlanError{Err: errors.New("no such CPU")}), 0, exit.Usage},
		{"dead target", fmt.Errorf("trial 1: %w", died), 0, exit.Target},
		{"target not permitted", &target.Failure{Target: "x", Reason: syscall.EACCES}, 0, exit.Target},
		{"target not found", &target.Failure{Target: "x", Reason: target.ErrNotFound}, 0, exit.Target},
		{"refused", refused, 0, exit.Target},
		{"dead and refused", errors.Join(refused, died), 0, exit.Target},
		{"not ended", &trial.Fault{Err: errors.New("has not ended")}, 0, exit.Target},
		{"no agent", &trial.AgentsError{Err: errors.Join(&trial.PlanError{Err: refused}, syscall.ECONNREFUSED)}, 0, exit.Target},
		{"no descriptors", &engine.Exhausted{Err: errors.New("too many open files")}, 0, exit.Invalid},
		{"address in use", fmt.Errorf("listen: %w", syscall.EADDRINUSE), 0, exit.Target},
		{"full disk", fmt.Errorf("write: %w", syscall.ENOSPC), 0, exit.Failed},
		{"anything", errors.New("x"), 0, exit.Failed},
		{"SIGINT", signalled{syscall.SIGINT}, syscall.SIGINT, exit.Interrupted},
		{"SIGTERM", fmt.Errorf("trial 1: %w", signalled{syscall.SIGTERM}), syscall.SIGTERM, exit.Terminated},
		{"SIGTERM and what came of it", died, syscall.SIGTERM, exit.Terminated},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.signal != 0 {
			cancel(signalled{c.signal})
		}
		var out strings.Builder
		if got := exitCode(ctx, c.err, &out); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		switch text := out.String(); {
		case c.err == nil && text != "":
			t.Errorf("%s: printed %q", c.name, text)
		case c.err != nil && !strings.HasPrefix(text, "dyno: "+c.err.Error()+"\n"):
			t.Errorf("%s: printed %q", c.name, text)
		}
		cancel(nil)
	}
}
