// Package command is what programs next to dyno have in common: how they are run, what they say when they fail, and
// their exit codes, which are those of dyno.
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
	"dyno/internal/exit"
	"dyno/internal/hangup"
	"dyno/internal/units"
)

// NoArgs refuses arguments that are not flags.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Misused("it has flags only: --help lists them", "unexpected argument %q", args[0])
	}
	return nil
}

// Logger returns a program's logger, which writes JSON lines. What libraries write by package log is written by it, too.
func Logger(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	l := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(l)
	return l
}

// Main runs a command until it ends, by itself or by SIGINT, SIGTERM, or SIGHUP as package hangup has
// it. A second signal ends the process at once. It prints what failed, once, and returns the exit code.
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
		return exit.With(exit.Usage, err, cmd.Name()+" --help lists the flags")
	})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exit.Done
	}
	code, hint := exit.Failed, ""
	var f *exit.Failure
	if errors.As(err, &f) {
		code, hint = f.Code, f.Hint
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.Name(), err)
	if hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", hint)
	}
	return code
}
