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
	"dyno/lab/experiment"
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
		{"nothing", nil, 0, exitDone},
		{"usage", usage("so", "wrong"), 0, exitUsage},
		{"usage and a signal", usage("so", "wrong"), syscall.SIGINT, exitUsage},
		{"faults of a file", errors.Join(&experiment.Faults{}, errors.New("x")), 0, exitUsage},
		{"no such file", fmt.Errorf("experiment: %w", os.ErrNotExist), 0, exitUsage},
		{"folder in use", &trial.FolderError{Err: rundir.ErrNotEmpty}, 0, exitUsage},
		{"folder without room", &trial.FolderError{Err: syscall.ENOSPC}, 0, exitFailed},
		{"plan that cannot be", fmt.Errorf("trial 1: %w", &trial.PlanError{Err: errors.New("no such CPU")}), 0, exitUsage},
		{"dead target", fmt.Errorf("trial 1: %w", died), 0, exitTarget},
		{"target not permitted", &target.Failure{Target: "x", Reason: syscall.EACCES}, 0, exitTarget},
		{"target not found", &target.Failure{Target: "x", Reason: target.ErrNotFound}, 0, exitTarget},
		{"refused", refused, 0, exitTarget},
		{"dead and refused", errors.Join(refused, died), 0, exitTarget},
		{"address in use", fmt.Errorf("listen: %w", syscall.EADDRINUSE), 0, exitTarget},
		{"full disk", fmt.Errorf("write: %w", syscall.ENOSPC), 0, exitFailed},
		{"anything", errors.New("x"), 0, exitFailed},
		{"SIGINT", signalled{syscall.SIGINT}, syscall.SIGINT, exitInterrupted},
		{"SIGTERM", fmt.Errorf("trial 1: %w", signalled{syscall.SIGTERM}), syscall.SIGTERM, exitTerminated},
		{"SIGTERM and what came of it", died, syscall.SIGTERM, exitTerminated},
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

// Findings about the target come before figures that are not identified.
func TestJudged(t *testing.T) {
	broken := []rundir.Threshold{{Text: "a < 1", OK: true, Outcome: rundir.Kept}, {Text: "b < 1", Outcome: rundir.Broken}}
	for _, c := range []struct {
		run  rundir.Run
		want int
	}{
		{rundir.Run{Valid: true}, exitDone},
		{rundir.Run{Valid: true, Thresholds: broken}, exitThreshold},
		{rundir.Run{Thresholds: broken}, exitThreshold},
		{rundir.Run{Thresholds: broken[:1]}, exitInvalid},
	} {
		err := judged(&c.run, gate{})
		if got := exitCode(t.Context(), err, new(strings.Builder)); got != c.want {
			t.Errorf("%+v: %d, want %d", c.run, got, c.want)
		}
		if c.want == exitThreshold && (!strings.Contains(err.Error(), "b < 1") || strings.Contains(err.Error(), "a < 1")) {
			t.Errorf("%v: want the broken threshold and no other", err)
		}
	}
}
