// Package command has what the commands of dyno share: exit codes, errors with hints, and checks of
// arguments.
package command

import (
	"fmt"
	"syscall"
)

// The exit codes. [ExitCodes] says what they mean.
const (
	ExitDone        = 0
	ExitFailed      = 1 // errors without a code of their own, such as a full disk
	ExitUsage       = 2
	ExitTarget      = 3
	ExitInvalid     = 4
	ExitRegression  = 5
	ExitThreshold   = 99
	ExitSignalled   = 128 // and the signal's number
	ExitInterrupted = ExitSignalled + int(syscall.SIGINT)
	ExitUnread      = ExitSignalled + int(syscall.SIGPIPE) // nobody reads the output any more
	ExitTerminated  = ExitSignalled + int(syscall.SIGTERM)
)

// An ExitCode is what an exit code means.
type ExitCode struct {
	Code  int
	Means string
}

// ExitCodes lists the exit codes.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{ExitDone, "done, and all thresholds are kept"},
		{ExitFailed, "an error without a code of its own, such as a full disk"},
		{ExitUsage, "the command line or an experiment file has a fault; nothing was measured"},
		{ExitTarget, "the target could not be started or reached, died, or did not answer"},
		{ExitInvalid, "the run is invalid: a figure that was asked for is not identified"},
		{ExitRegression, "a regression, with --fail-on-regression; or a comparison that could not have found one, with --fail-on-inconclusive"},
		{ExitThreshold, "a threshold is broken, or was not measured; with --strict also one that is kept only as measured"},
		{ExitSignalled + int(syscall.SIGHUP), "interrupted by SIGHUP; as with the other signals, what was measured is printed, kept and marked"},
		{ExitInterrupted, "interrupted by SIGINT (Ctrl-C)"},
		{ExitUnread, "nobody reads the output any more, as in dyno … | head"},
		{ExitTerminated, "interrupted by SIGTERM"},
	}
}

// A Failure is an error with its exit code and, if there is something the user can do, a
// hint.
type Failure struct {
	Code int
	Err  error
	Hint string
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Usage returns an error of the command line, or of a file that it names.
func Usage(hint, format string, args ...any) error {
	return Fail(ExitUsage, fmt.Errorf(format, args...), hint)
}

// Fail returns an error with its exit code and, unless it is empty, a hint.
func Fail(code int, err error, hint string) error { return &Failure{code, err, hint} }
