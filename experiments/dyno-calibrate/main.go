// Dyno-calibrate proves on this machine that dyno's figures are right: it measures servers whose answer is known, and
// prints how far off the figures are. It starts them, and limited generators, by dyno's own program.
//
//	go build -o bin/ ./cmd/dyno ./experiments/dyno-calibrate
//	bin/dyno-calibrate --help
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/cli/output"
	"dyno/cli/serve"
	"dyno/experiments/calibrate"
	"dyno/experiments/disturb"
	"dyno/host/child"
	"dyno/host/target"
	"dyno/internal/buildinfo"
	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/settings"
)

func main() { os.Exit(run(os.Args[1:])) }

// run does what the arguments say and returns the exit code.
func run(args []string) int {
	if code, ran := child.Run(args, target.Role(), disturb.Role()); ran {
		return code
	}
	return command.Main(context.Background(), newCommand(args), args, os.Stdout, os.Stderr)
}

// newCommand returns the program's command. The arguments are what it records.
func newCommand(args []string) *cobra.Command {
	c := calibration{config: calibrate.Quick()}
	c.settings = settings.New(&c.config)
	cmd := &cobra.Command{
		Use:   "dyno-calibrate",
		Short: "Prove that dyno's figures are right on this machine",
		Long: `Dyno-calibrate proves that dyno's figures are right on this machine.

It measures servers whose answer is known, checks that comparisons find planted
differences and no others, and starves generators to check that their trials are
called invalid. That takes some minutes. With --long it takes hours, and writes a
document with its raw data. Figures that miss their limits are in the tables; they
are an error only with --strict.`,
		Example: `  dyno-calibrate
  dyno-calibrate --only aa,power --comparisons 50 --slow 2%,5%
  dyno-calibrate --long --docs docs`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.run(cmd, args)
			if err != nil && cmd.Context().Err() != nil {
				return exit.With(exit.Interrupted, err, "")
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// A calibration holds the flags.
type calibration struct {
	long, strict, quiet bool

	docs     string
	config   calibrate.Config
	settings *settings.Settings
}

// flags registers them.
func (c *calibration) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.long, "long", false, "the long form: takes hours, and writes a document")
	f.BoolVar(&c.strict, "strict", false, "exit with 4 when a figure missed its limit")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no progress")
	f.StringVar(&c.docs, "docs", "docs/development", "folder for calibration.md, and for the folder calibration with the raw data; with --long")
	c.settings.AddFieldFlags(f)
}

// read fills the configuration, and reports the faults of all flags.
func (c *calibration) read(isDocsGiven bool) error {
	if c.long {
		c.config = calibrate.Long()
		c.config.Raw = filepath.Join(c.docs, "calibration")
	}
	c.settings.Read()
	if slices.Equal(c.config.Noises, []string{"all"}) {
		c.config.Noises = calibrate.Noises()
	}
	return c.settings.Validate(func(r *fields.Report) {
		r.Check(c.long || !isDocsGiven, "docs", "belongs to --long", "--raw keeps the raw data of the short form")
		c.config.Check(r)
	})
}

// run measures, prints the tables, and with --long writes the document. It prints
// what was measured even after an error or an interruption.
func (c *calibration) run(cmd *cobra.Command, args []string) error {
	if err := c.read(cmd.Flags().Changed("docs")); err != nil {
		return exit.With(exit.Usage, err, "dyno-calibrate --help lists the flags")
	}
	var err error
	k := c.config
	if k.Program, err = serve.FindProgram("dyno"); err != nil {
		return err
	}
	k.Command, k.Version = append([]string{"dyno-calibrate"}, args...), buildinfo.Version()
	if !c.quiet {
		k.Progress = cmd.ErrOrStderr()
	}
	result, err := calibrate.Run(cmd.Context(), k)
	if result == nil {
		return err
	}
	err = errors.Join(err, calibrate.Text(cmd.OutOrStdout(), result))
	if err == nil && c.long {
		err = output.Replace(filepath.Join(c.docs, "calibration.md"), func(w io.Writer) error { return calibrate.Markdown(w, result, c.docs) })
	}
	if err != nil {
		return err
	}
	if n := result.Missed(); n > 0 && c.strict {
		return exit.With(exit.Invalid, fmt.Errorf("%d figures missed their limits", n), "a busy machine is the usual cause: see steal and foreign CPU time, and try again")
	}
	return nil
}
