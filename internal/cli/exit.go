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
	"dyno/lab/experiment"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// The exit codes. exitCodes says what they mean.
const (
	exitDone        = 0
	exitFailed      = 1 // errors without a code of their own, such as a full disk
	exitUsage       = 2
	exitTarget      = 3
	exitInvalid     = 4
	exitRegression  = 5
	exitThreshold   = 99
	exitSignalled   = 128 // and the signal's number
	exitInterrupted = exitSignalled + int(syscall.SIGINT)
	exitUnread      = exitSignalled + int(syscall.SIGPIPE) // nobody reads the output any more
	exitTerminated  = exitSignalled + int(syscall.SIGTERM)
)

// An exitMeaning is what an exit code means.
type exitMeaning struct {
	code  int
	means string
}

// exitCodes lists the exit codes.
func exitCodes() []exitMeaning {
	return []exitMeaning{
		{exitDone, "done, and all thresholds hold"},
		{exitFailed, "an error without a code of its own, such as a full disk"},
		{exitUsage, "the command line or an experiment file has a fault; nothing was measured"},
		{exitTarget, "the target could not be started or reached, died, or did not answer"},
		{exitInvalid, "the run is invalid: a figure that was asked for is not identified"},
		{exitRegression, "a regression, with --fail-on-regression; or a comparison that could not have found one, with --fail-on-inconclusive"},
		{exitThreshold, "a threshold is broken, or not shown to hold"},
		{exitSignalled + int(syscall.SIGHUP), "interrupted by SIGHUP; as with the other signals, what was measured is printed, kept and marked"},
		{exitInterrupted, "interrupted by SIGINT (Ctrl-C)"},
		{exitUnread, "nobody reads the output any more, as in dyno … | head"},
		{exitTerminated, "interrupted by SIGTERM"},
	}
}

// A failure is an error with its exit code and, if there is something the user can do, a
// hint.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), hint}
}

// exitCode returns the code for an error, and prints the error. Every error passes
// through here exactly once. For a closed pipe it prints nothing.
func exitCode(ctx context.Context, err error, stderr io.Writer) int {
	if signalOf(ctx) == syscall.SIGPIPE {
		return exitUnread
	}
	if err == nil {
		return exitDone
	}
	code, hint := classify(err)
	if sig := signalOf(ctx); sig != 0 && code != exitUsage {
		code = exitSignalled + int(sig)
	}
	fmt.Fprintf(stderr, "dyno: %v\n", err)
	if hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", strings.ReplaceAll(hint, "\n", "\n      "))
	}
	return code
}

func classify(err error) (code int, hint string) {
	var (
		f           *failure
		faults      *experiment.Faults
		unreachable *engine.Unreachable
		exhausted   *engine.Exhausted
		fault       *trial.Fault
		failed      *target.Failure
		folder      *trial.FolderError
		plan        *trial.PlanError
	)
	if code, hint, ok := ofCtl(err); ok {
		return code, hint
	}
	switch {
	case errors.As(err, &f):
		return f.code, f.hint
	case errors.As(err, &faults):
		return exitUsage, ""
	case errors.Is(err, syscall.ENOSPC):
		return exitFailed, "make room on the disk, or name a folder on another one with --out"
	case errors.Is(err, rundir.ErrFinished):
		return exitUsage, "dyno report prints it"
	case errors.Is(err, rundir.ErrBusy):
		return exitUsage, ""
	case errors.As(err, &folder):
		return exitUsage, "name another folder with --out"
	case errors.As(err, &plan):
		return exitUsage, ""
	case errors.As(err, &failed): // before a refused connection, which a dead target causes
		return exitTarget, ""
	case errors.As(err, &fault):
		return exitTarget, ""
	case errors.As(err, &exhausted):
		return exitInvalid, "the generator lacks descriptors (ulimit -n), local ports (net.ipv4.ip_local_port_range) or memory"
	case errors.As(err, &unreachable) && wire.KindOf(unreachable.Err) == wire.TLS:
		return exitTarget, "" // it says itself what would help
	case errors.As(err, &unreachable):
		if unreachable.Proxied {
			return exitTarget, "check --proxy (target.proxy), its user and password, and whether it may reach the target"
		}
		return exitTarget, "is a server listening there?"
	case errors.Is(err, syscall.EADDRINUSE):
		return exitTarget, "another process listens there"
	case errors.Is(err, os.ErrNotExist):
		return exitUsage, ""
	}
	return exitFailed, ""
}
