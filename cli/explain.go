package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/judge/explain"
	"dyno/judge/verdict"
	"dyno/report"
	"dyno/results/rundir"
)

func (a *app) explainCommand() *cobra.Command {
	var (
		base, variant, asJSON, format string
		top                           int
	)
	cmd := &cobra.Command{
		Use:   "explain RUN",
		Short: "Say which functions and resources account for a difference",
		Long: `explain ranks what changed between two variants of a run, per request: functions
and groups of functions, by the profiles that the run took in trials of their own,
and what the target used in the ordinary trials. The functions' changes add up. The
output begins with how much of the measured change they account for, and what is
left over. It ranks only what has changed by more than chance. A function of a library,
a runtime or the kernel is named with the nearest function of the target's own module
that called it, if most of the change belongs to that one.

Without --variant, each variant is explained against the base, and each step of a
ladder against the one before.`,
		Example: `  dyno run --profile cpu relay.yaml
  dyno explain runs/relay-20260101-120000
  dyno explain --base goroutine-100 --variant epoll-100 runs/relay-models-20260101-120000`,
		Args: arguments.ExactArgs(1, "a run folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "text" && format != "markdown" {
				return exit.Misused("text or markdown", "--format %q is not possible", format)
			}
			folder, err := verdict.Open(args[0])
			if err != nil {
				return exit.With(exit.Usage, err, "a run folder holds a run.json; dyno run creates one")
			}
			pairs, err := differences(&folder.Run, base, variant)
			if err != nil {
				return err
			}
			explained := []*explain.Explanation{}
			for _, p := range pairs {
				e, err := explain.Explain(folder, p[0], p[1])
				var missing *explain.NotFoundError
				if errors.As(err, &missing) {
					return exit.Misused("one of "+strings.Join(missing.Have, ", "), "%s: %v", args[0], err)
				}
				if err != nil {
					return fmt.Errorf("%s: %s over %s: %w", args[0], p[1], p[0], err)
				}
				explained = append(explained, e)
			}
			return output.Write(a.stdout, asJSON, explained, func(w io.Writer) error {
				if format == "markdown" {
					return report.ExplanationsMarkdown(w, explained, top)
				}
				return report.Explanations(w, explained, top)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&base, "base", "", "what to compare with (default the run's base; for a ladder's step, the one before)")
	f.StringVar(&variant, "variant", "", "what to explain (default each)")
	f.StringVar(&asJSON, "json", "", "write the explanations as JSON to `FILE`, or - for standard output")
	f.StringVar(&format, "format", "text", "text or markdown")
	f.IntVar(&top, "top", 12, "how many rows a table has; ranked ones are always written")
	return cmd
}

// differences returns the pairs of variants to explain: those asked for, or those that
// the plan compares.
func differences(run *rundir.Run, base, variant string) (pairs [][2]string, err error) {
	plan := run.Plan
	if variant != "" && base == "" {
		base = plan.Base
		if l := plan.Ladder; l != nil {
			for i, step := range l.Steps {
				if step == variant && i > 0 {
					base = l.Steps[i-1]
				}
			}
		}
	}
	switch {
	case variant != "" && base == "":
		return nil, exit.Misused("--base NAME", "%s: the run has no base", run.Name)
	case variant != "":
		return [][2]string{{base, variant}}, nil
	case plan.Ladder != nil && base == "":
		for i, step := range plan.Ladder.Steps[1:] {
			pairs = append(pairs, [2]string{plan.Ladder.Steps[i], step})
		}
		return pairs, nil
	}
	if base == "" {
		base = plan.Base
	}
	if base == "" {
		return nil, exit.Misused("--base NAME --variant NAME", "%s: the run compares nothing by itself", run.Name)
	}
	for _, v := range plan.Variants {
		if v.Name != base {
			pairs = append(pairs, [2]string{base, v.Name})
		}
	}
	if len(pairs) == 0 {
		return nil, exit.Misused("", "%s: there is only one variant", run.Name)
	}
	return pairs, nil
}
