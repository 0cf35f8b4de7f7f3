package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
	"dyno/lab/experiment"
)

// A contest is a comparison of two commands, made from flags.
type contest struct {
	quickLoad

	commands [2]string // the base's and the other's
	control  bool
}

func (a *app) compareCommand() *cobra.Command {
	var (
		c   contest
		out output
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
the command sh -c '…'. The base is measured twice, as a control.

The URL names the protocol: http:// and https://, tcp://HOST:PORT, or grpc://HOST:PORT. With
--call, which names the method, every URL is one of gRPC; its flags are those of dyno grpc.`,
		Example: `  dyno compare --a './old -port {{port}}' --b './new -port {{port}}' 'http://127.0.0.1:{{port}}/'
  dyno compare --a 'nginx -p a' --b 'nginx -p b' --cpus 1 --target-cpus 0 http://127.0.0.1:8080/
  dyno compare --a './a {{port}}' --b './b {{port}}' --call p.Shop/Buy 'grpc://127.0.0.1:{{port}}'
  dyno compare --fail-on-regression --margin 2% relay.yaml`,
		Args: command.ExactArgs(1, "an experiment file, or a URL with --a and --b"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var (
				e   *experiment.Experiment
				err error
			)
			commands := cmd.Flags().Changed("a") || cmd.Flags().Changed("b")
			switch {
			case commands && cmd.Flags().Changed("set"):
				return command.Usage("--rounds, --duration and the like set what --a and --b are measured with", "--set: is for the variables of a file")
			case commands:
				e, err = c.experiment(args[0])
			case strings.Contains(args[0], "://") || command.IsAddress(args[0]):
				return command.Usage("as in: dyno compare --a './old' --b './new' URL", "%s: want two commands to compare, --a and --b", cmd.CommandPath())
			default:
				if e, err = experiment.ReadFile(args[0], c.fields.Settings(o)); err == nil && e.Base == "" {
					return command.Usage("add a compare section or a ladder, or use dyno run", "%s: there is nothing to compare", args[0])
				}
			}
			if err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			return a.measure(cmd.Context(), job{experiment: e, output: out, gate: g})
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.commands[0], "a", "", "the `command` that starts the base")
	f.StringVar(&c.commands[1], "b", "", "the `command` that starts what is compared with it")
	f.BoolVar(&c.control, "control", true, "measure the base twice, to check that no difference is found where there is none")
	g.flags(f, "exit code 5 if a variant is worse than the base by more than the margin")
	// --data-file is for rows here, as in dyno http; a message is in a file as -d @FILE.
	but := func(field string) bool {
		return field != "load.call.message_file" && !strings.HasPrefix(field, "capacity.")
	}
	protocols := []string{experiment.HTTP, experiment.TCP, experiment.GRPC}
	c.fields.Register(f, but, map[string]string{"duration": "3s", "warmup": "1s"}, protocols...)
	c.stdin = c.fields.UseStdin(a.stdin)
	c.ownFlags(f, protocols...)
	f.Lookup("call").Usage = "gRPC: the `method`, pkg.Service/Method"
	f.BoolVar(&o.Short, "short", false, "with a file: its short form")
	f.StringToStringVar(&o.Set, "set", nil, "with a file: set a variable, as `NAME=VALUE`")
	out.flags(f, "runs/NAME-TIME")
	a.groupHelp(cmd, "a b connections duration rounds rate margin threshold fail-on-regression set short out json")
	return cmd
}

// experiment makes the plan for two commands.
func (c *contest) experiment(url string) (*experiment.Experiment, error) {
	protocol, where := c.spoken(url)
	c.ports = experiment.RuntimeNames()
	e, faults := c.unjudged(protocol, where)
	faults = append(faults, c.misplaced(protocol)...)
	if protocol == experiment.GRPC && c.calls.method == "" && c.scenario == "" {
		faults = append(faults, errors.New("--call: is missing; name the method, as pkg.Service/Method"))
	}
	e.Name, e.Base = "compare", "a"
	variant := e.Variants[0]
	e.Variants = nil
	for i, name := range []string{"a", "b"} {
		words, err := split(c.commands[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", name, err))
		}
		for w := range words {
			words[w] = experiment.Quote(words[w], c.ports...)
		}
		variant.Name, variant.Target.Start = name, words
		variant.Vars = map[string]string{"command": c.commands[i]}
		e.Variants = append(e.Variants, variant)
	}
	if c.control {
		if err := e.AddControl("a"); err != nil {
			faults = append(faults, fmt.Errorf("--control: %w", err))
		}
	}
	return c.judgedPlan(e, faults)
}

// spoken tells the protocol of a URL, and what of it is the target's URL or address.
func (q *quickLoad) spoken(url string) (protocol, where string) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch {
	case scheme == experiment.TCP:
		return experiment.TCP, rest
	case scheme == experiment.GRPC:
		return experiment.GRPC, rest
	case q.calls.method != "":
		return experiment.GRPC, url
	}
	return experiment.HTTP, url
}

// misplaced reports the flags that were given and that targets with a protocol do not have.
// Those that are fields of the file say so themselves.
func (q *quickLoad) misplaced(protocol string) (faults []error) {
	for _, o := range []struct {
		flag      string
		protocols []string // that have it
		instead   string
	}{
		{"http1", []string{experiment.HTTP, experiment.GRPC}, "leave it out"},
		{"http2", []string{experiment.HTTP, experiment.GRPC}, "leave it out"},
		{"basic-auth", []string{experiment.HTTP}, "use --header (-H)"},
		{"form", []string{experiment.HTTP}, "leave it out"},
		{"targets", []string{experiment.HTTP}, "use --scenario"},
		{"resolve", []string{experiment.HTTP}, "write the address into the URL"},
		{"connect-to", []string{experiment.HTTP}, "write the address into the URL"},
		{"scenario", []string{experiment.HTTP, experiment.GRPC, experiment.TCP}, "write an experiment file"},
		{"data-file", []string{experiment.HTTP, experiment.TCP}, "in gRPC, rows are --rows FILE, and a message in a file is -d @FILE"},
		{"users", []string{experiment.HTTP, experiment.GRPC, experiment.TCP}, "say how many there are with --connections (-c)"},
		{"call", []string{experiment.GRPC}, "leave it out"},
		{"metadata", []string{experiment.GRPC}, "use --header (-H)"},
		{"metadata-file", []string{experiment.GRPC}, "use --header (-H)"},
		{"rows", []string{experiment.GRPC}, "use --data-file"},
		{"tls", []string{experiment.GRPC}, "write https:// before the address"},
	} {
		if q.given(o.flag) && !slices.Contains(o.protocols, protocol) {
			faults = append(faults, fmt.Errorf("--%s: is not for %s; %s", o.flag, protocol, o.instead))
		}
	}
	return faults
}

// split splits a command as a shell would, and refuses what only a shell could do.
func split(command string) ([]string, error) {
	p := shellwords.NewParser()
	words, err := p.Parse(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q: %w", command, err)
	case p.Position >= 0:
		return nil, fmt.Errorf("%q: column %d: no shell is involved; give sh -c '…'", command, p.Position+1)
	case len(words) == 0:
		return nil, errors.New("is missing; want a command")
	}
	return words, nil
}
