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
	"strings"
	"time"

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
	"dyno/internal/units"
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
	var c calibration
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
			c.given = cmd.Flags().Changed
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
	long, strict, quiet, awake bool

	docs, raw   string
	only, slow  []string
	comparisons int
	rounds      int
	trials      int
	explained   int
	noiseRuns   int
	noises      []string
	duet        bool
	seed        uint64
	window      string
	trial       string

	given func(flag string) bool
}

// flags registers them.
func (c *calibration) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.long, "long", false, "the long form: takes hours, and writes a document")
	f.BoolVar(&c.strict, "strict", false, "exit with 4 when a figure missed its limit")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no progress")
	f.BoolVar(&c.awake, "awake", false, "keep the CPUs from halting, for virtual machines whose host takes halted CPUs away")
	f.StringVar(&c.docs, "docs", "docs/development", "folder for calibration.md, and for the folder calibration with the raw data; with --long")
	f.StringVar(&c.raw, "raw", "", "folder for the raw data (default with --long DOCS/calibration, else none)")
	f.StringSliceVar(&c.only, "only", nil, "tables to make, of "+strings.Join(calibrate.Tables(), ","))
	f.StringSliceVar(&c.slow, "slow", nil, "planted slowdowns, such as 1%,2%,5%,10%")
	f.IntVar(&c.comparisons, "comparisons", 0, "runs for the tables aa and power (default 10, long 200)")
	f.IntVar(&c.rounds, "rounds", 0, "of each of them (default 8)")
	f.IntVar(&c.trials, "flag-trials", 0, "trials of each kind in the table flags (default 5, long 100)")
	f.IntVar(&c.explained, "explained", 0, "runs of the table explain (default 3, long 60)")
	f.IntVar(&c.noiseRuns, "noise-runs", 0, "disturbed runs of the table noise (default 36, long 200)")
	f.StringSliceVar(&c.noises, "noises", nil, "noises during the comparisons of aa and power, in turn, out of "+strings.Join(calibrate.Noises(), ",")+", or all")
	f.BoolVar(&c.duet, "duet", false, "measure two servers of a comparison at the same time, on CPUs that they exchange")
	f.Uint64Var(&c.seed, "seed", 1, "of noises and of the order of runs")
	f.StringVar(&c.window, "window", "", "of an oracle (default 3s, long 20s)")
	f.StringVar(&c.trial, "trial-window", "", "of a comparison's trial (default 250ms)")
}

// config turns the flags into a configuration. It reports the faults of all flags.
func (c *calibration) config() (calibrate.Config, error) {
	k := calibrate.Quick()
	if c.long {
		k = calibrate.Long()
		k.Raw = filepath.Join(c.docs, "calibration")
	}
	k.Awake = c.awake
	var faults []error
	duration := func(flag, text string, to *time.Duration) {
		if text == "" {
			return
		}
		d, err := units.ParseDuration(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		*to = d
	}
	duration("window", c.window, &k.Window)
	duration("trial-window", c.trial, &k.Trial)
	if c.raw != "" {
		k.Raw = c.raw
	}
	if len(c.only) > 0 {
		k.Only = c.only
	}
	for _, n := range []struct {
		flag      string
		given, to *int
	}{
		{"comparisons", &c.comparisons, &k.Comparisons},
		{"rounds", &c.rounds, &k.Rounds},
		{"flag-trials", &c.trials, &k.FlagTrials},
		{"explained", &c.explained, &k.Explained},
		{"noise-runs", &c.noiseRuns, &k.NoiseRuns},
	} {
		if c.given(n.flag) {
			*n.to = *n.given
		}
	}
	if k.Noises = c.noises; slices.Equal(c.noises, []string{"all"}) {
		k.Noises = calibrate.Noises()
	}
	k.Seed, k.Duet = c.seed, c.duet
	if len(c.slow) > 0 {
		k.Slow = nil
	}
	for _, s := range c.slow {
		share, err := units.ParseShare(s)
		if err != nil {
			faults = append(faults, fmt.Errorf("--slow: %w", err))
			continue
		}
		k.Slow = append(k.Slow, share)
	}
	if c.given("docs") && !c.long {
		faults = append(faults, errors.New("--docs: want --long with it; --raw keeps the raw data of the short form"))
	}
	return k, errors.Join(faults...)
}

// run measures, prints the tables, and with --long writes the document. It prints
// what was measured even after an error or an interruption.
func (c *calibration) run(cmd *cobra.Command, args []string) error {
	k, err := c.config()
	if err == nil {
		if k.Program, err = serve.FindProgram("dyno"); err != nil {
			return err
		}
		k.Command, k.Version = append([]string{"dyno-calibrate"}, args...), buildinfo.Version()
		err = k.Validate()
	}
	if err != nil {
		return exit.With(exit.Usage, err, "dyno-calibrate --help lists the flags")
	}
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
