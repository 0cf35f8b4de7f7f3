// Package command is what services have in common that are programs of their own: how they
// are run, what they say when they fail, and their exit codes, which are those of dyno.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/buildinfo"
	"dyno/internal/hangup"
	"dyno/internal/units"
)

// The exit codes, as dyno has them.
const (
	Done   = 0
	Failed = 1 // errors without a code of their own, such as a full disk
	Usage  = 2
)

// A Failure is an error with its exit code and, if there is something the user can do, a
// hint.
type Failure struct {
	Code int
	Err  error
	Hint string // empty: none
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Misused returns a failure of the command line. The hint says what would be right.
func Misused(hint, format string, args ...any) error {
	return &Failure{Usage, fmt.Errorf(format, args...), hint}
}

// NoArgs refuses arguments that are not flags.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Misused("it has flags only: --help lists them", "unexpected argument %q", args[0])
	}
	return nil
}

// Logger returns a service's logger, which writes JSON lines. What libraries write by package log is written by it, too.
func Logger(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	l := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(l)
	return l
}

// Main runs a command until it ends, by itself or because of SIGINT or SIGTERM, or SIGHUP as package hangup has it. A
// second signal ends the process at once. It prints what failed, once, and returns the exit code.
func Main(ctx context.Context, cmd *cobra.Command, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // the second signal is not caught any more
	ctx = hangup.Watch(ctx, stop)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.Version = buildinfo.Text() // in cobra's own words: a template of ours would link unused methods of all types
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			flag := invalid.GetFlag()
			err = fmt.Errorf("--%s: %w", flag.Name, units.Misread(flag.Value.Type(), invalid.GetValue(), errors.Unwrap(invalid)))
		}
		return &Failure{Usage, err, cmd.Name() + " --help lists the flags"}
	})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return Done
	}
	code, hint := Failed, ""
	var f *Failure
	if errors.As(err, &f) {
		code, hint = f.Code, f.Hint
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.Name(), err)
	if hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", hint)
	}
	return code
}
