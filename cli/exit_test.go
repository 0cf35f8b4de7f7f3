package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"dyno/cli/command"
	"dyno/host/target"
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
		{"nothing", nil, 0, command.ExitDone},
		{"usage", command.Usage("so", "wrong"), 0, command.ExitUsage},
		{"usage and a signal", command.Usage("so", "wrong"), syscall.SIGINT, command.ExitUsage},
		{"faults of a file", errors.Join(&fields.Faults{}, errors.New("x")), 0, command.ExitUsage},
		{"no such file", fmt.Errorf("experiment: %w", os.ErrNotExist), 0, command.ExitUsage},
		{"folder in use", &trial.FolderError{Err: rundir.ErrNotEmpty}, 0, command.ExitUsage},
		{"folder without room", &trial.FolderError{Err: syscall.ENOSPC}, 0, command.ExitFailed},
		{"plan that cannot be", fmt.Errorf("trial 1: %w", &trial.PlanError{Err: errors.New("no such CPU")}), 0, command.ExitUsage},
		{"dead target", fmt.Errorf("trial 1: %w", died), 0, command.ExitTarget},
		{"target not permitted", &target.Failure{Target: "x", Reason: syscall.EACCES}, 0, command.ExitTarget},
		{"target not found", &target.Failure{Target: "x", Reason: target.ErrNotFound}, 0, command.ExitTarget},
		{"refused", refused, 0, command.ExitTarget},
		{"dead and refused", errors.Join(refused, died), 0, command.ExitTarget},
		{"not ended", &trial.Fault{Err: errors.New("has not ended")}, 0, command.ExitTarget},
		{"no agent", &trial.AgentsError{Err: errors.Join(&trial.PlanError{Err: refused}, syscall.ECONNREFUSED)}, 0, command.ExitTarget},
		{"no descriptors", &engine.Exhausted{Err: errors.New("too many open files")}, 0, command.ExitInvalid},
		{"address in use", fmt.Errorf("listen: %w", syscall.EADDRINUSE), 0, command.ExitTarget},
		{"full disk", fmt.Errorf("write: %w", syscall.ENOSPC), 0, command.ExitFailed},
		{"anything", errors.New("x"), 0, command.ExitFailed},
		{"SIGINT", signalled{syscall.SIGINT}, syscall.SIGINT, command.ExitInterrupted},
		{"SIGTERM", fmt.Errorf("trial 1: %w", signalled{syscall.SIGTERM}), syscall.SIGTERM, command.ExitTerminated},
		{"SIGTERM and what came of it", died, syscall.SIGTERM, command.ExitTerminated},
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
