package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/lab/planfile"
)

// fileFlags registers the flags that say in which form an experiment file is read.
func fileFlags(f *pflag.FlagSet, o *planfile.Options) {
	f.BoolVar(&o.Short, "short", false, "the experiment's short form: fewer rounds, shorter windows")
	f.StringToStringVar(&o.Set, "set", nil, "set a variable of the experiment, or its "+strings.Join(planfile.Settings(), ", ")+", as `NAME=VALUE`")
}

func (a *app) checkCommand() *cobra.Command {
	o := fileOptions()
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Check experiment files, and say what a run of each would do",
		Long: `Check reads experiment files as dyno run does, and reports all faults of each with
file, line and field. Of a file without a fault it says how many trials a run has,
and how long they load the target, without starts and stops.`,
		Example: `  dyno check relay.yaml
  dyno check --short --set rounds=3 experiments/reports/*.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misused("as in: dyno check experiment.yaml", "dyno check: want at least one file")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var faults []error
			for _, file := range args {
				e, err := planfile.ReadFile(file, o)
				if err != nil {
					faults = append(faults, err)
					continue
				}
				for _, w := range e.Warnings {
					fmt.Fprintf(a.stderr, "warning: %v\n", w)
				}
				if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", file, extent(e)); err != nil {
					return err
				}
			}
			if err := errors.Join(faults...); err != nil {
				return exit.With(exit.Usage, err, "")
			}
			return nil
		},
	}
	fileFlags(cmd.Flags(), &o)
	return cmd
}

// extent says what a run of an experiment does, and how long it takes.
func extent(e *plan.Experiment) string {
	variants, rounds := len(e.Variants), e.Design.Rounds
	text := fmt.Sprintf("%s: %s × %s", e.Name, quantity(variants, "variant"), quantity(rounds, "round"))
	switch {
	case e.Capacity != nil:
		text += fmt.Sprintf(", each a search for the highest rate from %g/s to %g/s", e.Capacity.From, e.Capacity.To)
	case e.Design.Stop != plan.StopFixed:
		text += fmt.Sprintf(" = at most %s", quantity(variants*rounds, "trial"))
	default:
		text += " = " + quantity(variants*rounds, "trial")
	}
	if p := e.Profile; p != nil {
		text += fmt.Sprintf(", and %d to profile", variants*min(p.Rounds, rounds))
	}
	if load := e.LoadTime(); load > 0 {
		return text + fmt.Sprintf(", %s of load", load)
	}
	return text + "; what it finds decides how long it takes"
}

// quantity writes a number of things.
func quantity(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
