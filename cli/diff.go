package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/internal/units"
	"dyno/judge/diff"
	"dyno/judge/verdict"
	"dyno/report/changes"
	"dyno/results/rundir"
)

func (a *app) diffCommand() *cobra.Command {
	var (
		asJSON, margin string
		g              gate
	)
	cmd := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "Compare two finished runs (unpaired)",
		Long: `diff compares what two runs found, variant by variant. The runs were made at
different times, so the difference includes everything else that changed in between;
compare measures two versions side by side. Without OLD, it is the baseline among the runs
next to NEW (dyno history pin).`,
		Example: `  dyno diff runs/relay-20260101-030000 runs/relay-20260102-030000
  dyno diff --fail-on-regression --margin 5% runs/relay-20260101-030000 runs/relay-20260102-030000
  dyno diff runs/relay-20260102-030000`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return exit.Misused("as in: "+cmd.UseLine(), "%s: want one or two run folders, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			runs, err := runsToCompare(args)
			if err != nil {
				return err
			}
			if margin != "" {
				m, err := units.ParseShare(margin)
				if err != nil || m <= 0 || m > 1 {
					return exit.Misused("as in: --margin 2%", "--margin %q: want a share above 0 and at most 100%%", margin)
				}
				runs[1].Plan.Margin = m
			}
			d, err := diff.Runs(runs[0], runs[1])
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			err = output.Write(a.stdout, asJSON, &d, func(w io.Writer) error { return changes.Diff(w, &d) })
			if err != nil || !g.isClosed() {
				return err
			}
			// A target that did not answer is worse than any that did.
			if findings := verdict.Breaking(runs[1]); len(findings) > 0 {
				return g.pass([]string{seen(findings)}, nil)
			}
			if !d.Old.Valid || !d.New.Valid {
				return exit.With(exit.Invalid, errors.New("one of the runs is invalid: they cannot be compared"), "dyno report says why")
			}
			var worse []string
			for _, c := range d.Regressions() {
				worse = append(worse, fmt.Sprintf("%s of %s is %.3g times the old", c.Metric, c.Variant, *c.Ratio.Estimate))
			}
			var open []string
			for _, c := range d.TooImprecise() {
				open = append(open, tooImprecise(c.Metric, c.Variant, c.Detectable, d.Margin))
			}
			err = g.pass(worse, open)
			if err == nil {
				for _, text := range open {
					a.warn(text)
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&asJSON, "json", "", "write the comparison as JSON to `FILE`, or - for standard output")
	g.flags(f, "exit with 5 if the new run is worse in its metric by more than the margin, or its target did not answer, with 4 if one of the runs is invalid")
	f.StringVar(&margin, "margin", "", "the difference that matters, a `SHARE` such as 2% (default the new run's)")
	return cmd
}

// runsToCompare reads two runs: those named, or the baseline and the one named.
func runsToCompare(args []string) (runs [2]*rundir.Run, err error) {
	read := func(dir string) *rundir.Run {
		if err != nil {
			return nil
		}
		var run *rundir.Run
		if run, err = verdict.ReadRun(dir); err != nil {
			err = exit.With(exit.Usage, err, "a run folder holds a run.json; dyno run creates one")
		}
		return run
	}
	older := args[0]
	if runs[1] = read(args[len(args)-1]); err == nil && len(args) == 1 {
		older, err = baselineOf(args[0], runs[1])
	}
	runs[0] = read(older)
	return runs, err
}
