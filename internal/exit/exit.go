// Package exit is how commands fail: with an exit code, and with a hint.
package exit

import (
	"fmt"
	"syscall"
)

// The exit codes. [Codes] says what they mean. Services have the first ones only.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	Target      = 3
	Invalid     = 4
	Regression  = 5
	Threshold   = 99
	Signalled   = 128 // and the signal's number
	Interrupted = Signalled + int(syscall.SIGINT)
	Unread      = Signalled + int(syscall.SIGPIPE) // the output is no longer read
	Terminated  = Signalled + int(syscall.SIGTERM)
)

// A Code is what an exit code means.
type Code struct {
	Code  int
	Means string
}

// Codes lists the exit codes.
func Codes() []Code {
	return []Code{
		{Done, "done, and all thresholds are kept"},
		{Failed, "an error without a code of its own, such as a full disk"},
		{Usage, "the command line or an experiment file has a fault; nothing was measured"},
		{Target, "the target could not be started or reached, died, or did not answer"},
		{Invalid, "the run is invalid: a figure that was asked for is not identified"},
		{Regression, "a regression, with --fail-on-regression; or a comparison that could not have found one, with --fail-on-inconclusive"},
		{Threshold, "a threshold is broken, or was not measured; with --strict also one that is kept only as measured"},
		{Signalled + int(syscall.SIGHUP), "interrupted by SIGHUP; as with the other signals, what was measured is printed, kept and marked"},
		{Interrupted, "interrupted by SIGINT (Ctrl-C)"},
		{Unread, "the output is no longer read, as in dyno … | head"},
		{Terminated, "interrupted by SIGTERM"},
	}
}

// A Failure is an error with its exit code and, if there is something the user can do, a
// hint.
type Failure struct {
	Code int
	Err  error
	Hint string // empty: none
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// With returns an error with its exit code and, unless it is empty, a hint.
func With(code int, err error, hint string) error { return &Failure{code, err, hint} }

// Misused returns an error of the command line, or of a file that it names. The hint says what would be right.
func Misused(hint, format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...), hint)
}
