package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/lab/experiment"
)

// automatic is the warm-up that a pilot finds.
const automatic = "auto"

// A contest is a comparison of two commands, made of flags.
type contest struct {
	quickLoad

	commands   [2]string // the base's and the other's
	targetCPUs string
	ready      string
	rounds     int
	stop       string
	margin     string
	metric     string
	pilot      string
	control    bool
	remeasure  bool
	duet       bool
	profile    string
	pprof      string
}

func (a *app) compareCommand() *cobra.Command {
	var (
		c          contest
		out        output
		o          = fileOptions()
		regression bool
	)
	cmd := &cobra.Command{
		Use:   "compare FILE | compare --a 'CMD' --b 'CMD' URL",
		Short: "Compare variants in pairs: those of a file, or two commands",
		Long: `Compare measures variants in interleaved rounds and says how they differ, with an
interval. With a file, they are the variants of its compare section or the steps
of its ladder. With --a and --b they are two commands that serve the same URL:
a is the base. Each trial starts its command anew and stops it again. {{port}} in the
commands and the URL is a free port. No shell is involved; for its features, give
the command sh -c '…'. The base is measured twice, as a control.`,
		Example: `  dyno compare --a './old --listen 127.0.0.1:{{port}}' --b './new --listen 127.0.0.1:{{port}}' 'http://127.0.0.1:{{port}}/'
  dyno compare --a 'nginx -p a' --b 'nginx -p b' --cpus 1 --target-cpus 0 http://127.0.0.1:8080/
  dyno compare --fail-on-regression --margin 2% relay.yaml`,
		Args: exactArgs(1, "an experiment file, or a URL with --a and --b"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var (
				e   *experiment.Experiment
				err error
			)
			commands := cmd.Flags().Changed("a") || cmd.Flags().Changed("b")
			switch {
			case commands:
				e, err = c.experiment(args[0])
			case strings.Contains(args[0], "://") || isAddress(args[0]):
				return usage("as in: dyno compare --a './old' --b './new' URL", "%s: want two commands to compare, --a and --b", cmd.CommandPath())
			default:
				if e, err = c.file(args[0], o, cmd.Flags()); err == nil && e.Base == "" {
					return usage("add a compare section or a ladder, or use dyno run", "%s: there is nothing to compare", args[0])
				}
			}
			if err != nil {
				return &failure{exitUsage, err, ""}
			}
			return a.measure(cmd.Context(), job{experiment: e, output: out, regression: regression})
		},
	}
	f := cmd.Flags()
	c.defaults()
	c.duration, c.warmup = "3s", "1s"
	c.rounds, c.margin, c.stop, c.pilot, c.control = 8, "2%", experiment.StopFixed, "30s", true
	f.StringVar(&c.commands[0], "a", "", "the `command` that starts the base")
	f.StringVar(&c.commands[1], "b", "", "the `command` that starts what is compared with it")
	f.StringVar(&c.targetCPUs, "target-cpus", "", "CPUs of the commands, such as 0")
	f.StringVar(&c.ready, "ready", experiment.ReadyTCP, "how to tell that a command can be loaded: tcp, none, or a path that must answer")
	f.IntVar(&c.rounds, "rounds", c.rounds, "how often each is measured; with --stop, at most")
	f.StringVar(&c.stop, "stop", c.stop, "fixed: after all rounds; precision: when the interval is narrower than the margin; looks: at one of three looks")
	f.StringVar(&c.margin, "margin", c.margin, "the smallest difference that matters")
	f.StringVar(&c.metric, "metric", "", "what the verdict is about (default throughput; with --rate, response.p99)")
	f.StringVar(&c.pilot, "pilot", c.pilot, "how long the pilots last that find the warm-up, with --warmup auto")
	f.BoolVar(&c.control, "control", c.control, "measure the base twice, to see that no difference is found where there is none")
	f.BoolVar(&c.remeasure, "remeasure", true, "measure rounds that the machine spoilt again, up to half as many as --rounds")
	f.BoolVar(&c.duet, "duet", false, "measure both at once, on CPUs of their own that change hands every round: only the ratio is known, and noise that hits both is not in it")
	f.BoolVar(&regression, "fail-on-regression", false, "exit code 5 when what is compared is worse than the base, and by more than the margin")
	f.StringVar(&c.profile, "profile", "", profileHelp)
	f.StringVar(&c.pprof, "pprof", "", "`URL` of the commands' /debug/pprof, for their Go runtime and for heap, allocs, goroutine, mutex and block; {{admin}} is a free port")
	c.flags(f)
	c.httpFlags(f)
	c.tcpFlags(f)
	f.BoolVar(&o.Short, "short", false, "with a file: its short form")
	f.StringToStringVar(&o.Set, "set", nil, "with a file: set a variable, as `NAME=VALUE`")
	out.flags(f, "runs/NAME-TIME")
	return cmd
}

// file reads an experiment, with the flags that say how to compare in the place
// of what the file says.
func (c *contest) file(path string, o experiment.Options, given *pflag.FlagSet) (*experiment.Experiment, error) {
	for _, name := range []string{"rounds", "stop", "margin", "metric", "seed", "profile", "remeasure", "duet"} {
		if given.Changed(name) {
			o.Set = with(o.Set, name, given.Lookup(name).Value.String())
		}
	}
	return experiment.ReadFile(path, o)
}

// experiment makes the plan of two commands.
func (c *contest) experiment(url string) (*experiment.Experiment, error) {
	var (
		v      experiment.Variant
		faults []error
	)
	if address, ok := strings.CutPrefix(url, "tcp://"); ok {
		v, faults = c.tcpVariant(address)
	} else {
		v, faults = c.httpVariant(url)
	}
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if c.targetCPUs != "" {
		cpus, err := experiment.ParseCPUs(c.targetCPUs)
		fault("target-cpus", err)
		v.Target.CPUs = cpus
	}
	v.Target.Pprof = c.pprof
	v.Target.Ready.Kind = c.ready
	if strings.HasPrefix(c.ready, "/") {
		v.Target.Ready = experiment.Ready{Kind: experiment.ReadyHTTP, URL: c.ready}
	}
	var variants []experiment.Variant
	for i, name := range []string{"a", "b"} {
		words, err := split(c.commands[i])
		fault(name, err)
		variant := v
		variant.Name, variant.Target.Start = name, words
		variant.Vars = map[string]string{"command": c.commands[i]}
		variants = append(variants, variant)
	}
	e := &experiment.Experiment{
		Name:       "compare",
		Base:       "a",
		Awake:      c.awake,
		Design:     experiment.Design{Rounds: c.rounds, Seed: c.seed, Stop: c.stop, Metric: c.metric, Duet: c.duet, KeepSpoilt: !c.remeasure},
		Variants:   variants,
		Thresholds: c.thresholds,
	}
	if c.profile != "" {
		e.Profile = experiment.DefaultProfile()
		e.Profile.Kinds, e.Profile.Rounds = strings.Split(c.profile, ","), c.rounds
	}
	d := &e.Design
	var err error
	d.Margin, err = experiment.ParseShare(c.margin)
	fault("margin", err)
	if c.warmup == automatic {
		d.Pilot, err = experiment.ParseDuration(c.pilot)
		fault("pilot", err)
	}
	if c.control {
		fault("control", e.AddControl("a"))
	}
	return judgedPlan(e, faults)
}

// split takes a command apart as a shell would, and refuses what only a shell
// could do.
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
