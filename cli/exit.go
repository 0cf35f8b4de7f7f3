package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"dyno/host/target"
	"dyno/internal/errno"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/lab/generator"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// exitCode returns the code for an error, and prints the error. Every error passes
// through here exactly once. For a closed pipe it prints nothing.
func exitCode(ctx context.Context, err error, stderr io.Writer) int {
	if signalOf(ctx) == syscall.SIGPIPE {
		return exit.Unread
	}
	if err == nil {
		return exit.Done
	}
	code, hint := classify(err)
	if sig := signalOf(ctx); sig != 0 && code != exit.Usage {
		code = exit.Signalled + int(sig)
	}
	fmt.Fprintf(stderr, "dyno: %v\n", err)
	if hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", strings.ReplaceAll(hint, "\n", "\n      "))
	}
	return code
}

func classify(err error) (code int, hint string) {
	var (
		f           *exit.Failure
		faults      *fields.Faults
		unreachable *engine.Unreachable
		exhausted   *engine.Exhausted
		fault       *trial.Fault
		failed      *target.Failure
		folder      *trial.FolderError
		plan        *trial.PlanError
		agents      *trial.AgentsError
		step        *generator.StepError
	)
	switch {
	case isAborted(err):
		return exit.Threshold, ""
	case errors.As(err, &f):
		return f.Code, f.Hint
	case errors.As(err, &faults):
		return exit.Usage, ""
	case errno.Is(err, syscall.ENOSPC):
		return exit.Failed, "make room on the disk, or name a folder on another one with --out"
	case errors.As(err, &agents):
		return exit.Target, "start the agents again; a run of a file goes on with dyno run --resume FOLDER, a quick load begins again with other agents (--agent, --fleet)"
	case errors.Is(err, rundir.ErrFinished):
		return exit.Usage, "dyno report prints it"
	case errors.Is(err, rundir.ErrBusy):
		return exit.Usage, ""
	case errors.As(err, &folder):
		return exit.Usage, "name another folder with --out"
	case errors.As(err, &plan):
		return exit.Usage, ""
	case errors.As(err, &step):
		return exit.Target, "nothing was loaded: correct the step, or what it needs of the target"
	case errors.As(err, &failed): // before a refused connection, which a dead target causes
		return exit.Target, ""
	case errors.As(err, &fault):
		return exit.Target, ""
	case errors.As(err, &exhausted):
		return exit.Invalid, "the generator lacks descriptors (ulimit -n), local ports (net.ipv4.ip_local_port_range) or memory"
	case errors.As(err, &unreachable) && wire.KindOf(unreachable.Err) == wire.TLS:
		return exit.Target, "" // it says itself what would help
	case errors.As(err, &unreachable):
		if unreachable.Proxied {
			return exit.Target, "check --proxy (target.proxy), its user and password, and whether it may reach the target"
		}
		return exit.Target, "is a server listening there?"
	case errno.Is(err, syscall.EADDRINUSE):
		return exit.Target, "another process listens there"
	case errors.Is(err, os.ErrNotExist):
		return exit.Usage, ""
	}
	return exit.Failed, ""
}
