package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/help"
	"dyno/cli/quick"
	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/lab/planfile"
)

func (a *app) compareCommand() *cobra.Command {
	var (
		c   quick.Comparison
		out outputFlags
		o   = fileOptions()
		g   gate
	)
	cmd := &cobra.Command{
		Use:   "compare FILE | compare --a 'CMD' --b 'CMD' URL",
		Short: "Compare variants in pairs: those of a file, or two commands",
		Long: `Compare measures variants in interleaved rounds and says how they differ, with an
interval. With a file, they are the variants of its compare section or the steps
of its ladder. With --a and --b they are two commands that serve the same URL:
a is the base. Each trial starts its command and stops it again. {{port}} in the
commands and the URL is a free port, and {{admin}} another; other braces are text.
No shell is involved; for its features, give
the command sh -c '…'. The base is measured twice, as a control. Without --rounds, a pilot of
some seconds chooses what flags leave open: the metric, rounds or a duet, the window, and the
connections; and the rounds end when the result is sure, after two minutes at most in most cases.

The URL names the protocol: http:// and https://, tcp://HOST:PORT, or grpc://HOST:PORT. With
--call, which names the method, every URL is one of gRPC; its flags are those of dyno grpc.`,
		Example: `  dyno compare --a './old -port {{port}}' --b './new -port {{port}}' 'http://127.0.0.1:{{port}}/'
  dyno compare --a 'nginx -p a' --b 'nginx -p b' --cpus 1 --target-cpus 0 http://127.0.0.1:8080/
  dyno compare --a './a {{port}}' --b './b {{port}}' --call p.Shop/Buy 'grpc://127.0.0.1:{{port}}'
  dyno compare --fail-on-regression --margin 2% relay.yaml`,
		Args: arguments.ExactArgs(1, "an experiment file, or a URL with --a and --b"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var (
				e   *plan.Experiment
				err error
			)
			commands := cmd.Flags().Changed("a") || cmd.Flags().Changed("b")
			switch {
			case commands && cmd.Flags().Changed("set"):
				return exit.Misused("--rounds, --duration and the like set what --a and --b are measured with", "--set: is for the variables of a file")
			case commands:
				e, err = c.Experiment(args[0])
			case strings.Contains(args[0], "://") || arguments.IsAddress(args[0]):
				return exit.Misused("as in: dyno compare --a './old' --b './new' URL", "%s: want two commands to compare, --a and --b", cmd.CommandPath())
			default:
				if e, err = planfile.ReadFile(args[0], c.Settings(o)); err == nil && e.Base == "" {
					return exit.Misused("add a compare section or a ladder, or use dyno run", "%s: there is nothing to compare", args[0])
				}
			}
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			j := job{experiment: e, output: out, gate: g}
			if commands {
				j.comparison = &c
			}
			return a.measure(cmd.Context(), j)
		},
	}
	f := cmd.Flags()
	c.Flags(f, a.stdin)
	g.flags(f, "exit code 5 if a variant is worse than the base by more than the margin")
	f.BoolVar(&o.Short, "short", false, "with a file: its short form")
	f.StringToStringVar(&o.Set, "set", nil, "with a file: set a variable, as `NAME=VALUE`")
	out.flags(f, "runs/NAME-TIME", a.outputs)
	a.agents.Flags(f)
	help.ByGroup(cmd, "a b connections duration rounds rate margin threshold fail-on-regression set short out json")
	return cmd
}
