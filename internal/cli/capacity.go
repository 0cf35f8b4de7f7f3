package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/internal/cli/command"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/lab/experiment"
	"dyno/lab/trial"
	"dyno/results/rundir"
)

// What a search from flags is like where they do not say it: it should be over within a minute or
// two for a server that answers within milliseconds.
const (
	searchWindow     = 2 * time.Second // of the load at each rate, if that is enough requests
	searchWarmup     = 500 * time.Millisecond
	searchResolution = 0.05
	searchTrials     = 3 // at most at each rate, of which two decide
	searchTolerate   = 0.5

	// The search begins at a part of what a closed loop reached, and doubles the rate from there.
	firstShare = 1. / 16
	// slowShare bounds how far beyond that a search begins whose conditions need many requests.
	slowShare   = 1. / 4
	mostDoubled = 1024 // times the first rate is the last one
	mostRate    = 10_000_000

	reachWindow = 2 * time.Second // of that closed loop
	leastReach  = 10              // good responses in it
	leastWindow = 100 * time.Millisecond
)

// A searchFlags says that the highest rate is searched for at which conditions hold.
type searchFlags struct {
	flag       string // that gives them, without dashes
	conditions []string
}

func (s *searchFlags) register(f *pflag.FlagSet, flag string) {
	s.flag = flag
	f.StringArrayVar(&s.conditions, flag, nil, "search for the highest rate at which `CONDITIONS` hold, such as 'p99 < 20ms'; p99 stands for the response.p99 of thresholds; several with commas between; may be repeated")
	f.Lookup("from").Usage = "the lowest rate of the search (default: a 16th of what a closed loop with these connections reaches)"
	f.Lookup("to").Usage = "the highest rate of the search (default: 1,024 times the lowest)"
}

// capacityCommand is the quick load that finds a rate instead of keeping to one.
func (a *app) capacityCommand() *cobra.Command {
	var (
		q   quickLoad
		out output
	)
	cmd := &cobra.Command{
		Use:   "capacity URL",
		Short: "Find the highest rate within an SLO",
		Long: `Find the highest rate at which a server keeps the conditions of an SLO.

A closed loop of two seconds shows what the server reaches. From a 16th of that on, the rate is
doubled until a condition is broken; then the rates between are halved until 5 % are left.
Requests are sent at each rate for --duration (2s, or as long as the percentiles of the conditions
need), whatever becomes of earlier ones, and at least twice.

The URL names the protocol: http:// and https://, tcp://HOST:PORT, or grpc://HOST:PORT with
--call, which names the method. dyno sse and dyno llm have --capacity instead of this command.`,
		Example: `  dyno capacity http://127.0.0.1:8080/ --slo 'p99 < 20ms'
  dyno capacity http://127.0.0.1:8080/ --slo 'p99 < 20ms, errors.ratio < 1%' --to 50000
  dyno capacity tcp://127.0.0.1:7000 --payload 1KiB --slo 'p99.9 < 5ms' -z 10s`,
		Args: command.ExactArgs(1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(q.search.conditions) == 0 {
				return command.Usage("as in: dyno capacity --slo 'p99 < 20ms' "+args[0], "dyno capacity: there is no condition; give it with --slo")
			}
			protocol, where := q.spoken(args[0])
			faults := q.misplaced(protocol)
			if protocol == experiment.GRPC && q.calls.method == "" && q.scenario == "" {
				faults = append(faults, errors.New("--call: is missing; name the method, as pkg.Service/Method"))
			}
			if len(faults) > 0 {
				return command.Fail(command.ExitUsage, errors.Join(faults...), "")
			}
			if protocol == experiment.GRPC {
				return a.call(cmd.Context(), &q, []string{where}, out)
			}
			return a.quick(cmd.Context(), &q, protocol, where, out)
		},
	}
	q.flagsWith(cmd.Flags(), "slo", experiment.HTTP, experiment.TCP, experiment.GRPC)
	f := cmd.Flags()
	f.Lookup("call").Usage = "gRPC: the `method`, pkg.Service/Method"
	window := f.Lookup("duration")
	window.Usage, window.DefValue = "how long to measure at each rate (default: 2s, or as long as the percentiles of the conditions need)", ""
	for _, flag := range []string{"rate", "stages", "requests"} {
		f.Lookup(flag).Hidden = true // they are refused: the search says how much is sent
	}
	q.stdin = q.fields.UseStdin(a.stdin)
	out.flags(f, "none is kept")
	a.groupHelp(cmd, "slo from to connections streams duration method header body payload call data out json")
	return cmd
}

// shorthand is the name of a quantile, or of another summary of a latency, at the beginning of a
// condition.
var shorthand = regexp.MustCompile(`^\s*(p[0-9.]+|mean|max)\b`)

// slowWanted is a condition that slow answers keep.
var slowWanted = regexp.MustCompile(`^[a-z_]+\.(p[0-9.]+|mean|max)(\{[^}]*\})?\s*>`)

// expand takes conditions apart that have commas between them, and names the figures that they
// leave out.
func expand(texts []string, latency string) (conditions []string) {
	for _, text := range texts {
		depth, from := 0, 0
		add := func(to int) {
			if c := strings.TrimSpace(text[from:to]); c != "" {
				conditions = append(conditions, shorthand.ReplaceAllString(c, latency+".$1"))
			}
			from = to + 1
		}
		for i, r := range text {
			switch {
			case strings.ContainsRune("({", r):
				depth++
			case strings.ContainsRune(")}", r):
				depth--
			case r == ',' && depth == 0:
				add(i)
			}
		}
		add(len(text))
	}
	return conditions
}

// seek makes a plan a search, if flags ask for one.
func (q *quickLoad) seek(e *experiment.Experiment) (faults []error) {
	s, l := &q.search, &e.Variants[0].Load
	if len(s.conditions) == 0 {
		e.Capacity = nil
		for _, flag := range []string{"from", "to"} {
			if s.flag != "" && q.given(flag) {
				faults = append(faults, fmt.Errorf("--%s: there is no search; say with --%s what must hold", flag, s.flag))
			}
		}
		return faults
	}
	for _, flag := range []string{"rate", "stages", "requests"} {
		if q.given(flag) {
			faults = append(faults, fmt.Errorf("--%s: with --%s, the search says how much is sent; leave it out", flag, s.flag))
		}
	}
	if l.Open == nil {
		l.Open = experiment.DefaultOpen()
	}
	if !q.given("duration") {
		l.Window = searchWindow
	}
	if !q.given("warmup") {
		l.Warmup = searchWarmup
	}
	latency := rundir.TagResponse
	if l.Subscribers != nil {
		latency = rundir.TagDelivery
	}
	conditions := expand(s.conditions, latency)
	for _, c := range conditions {
		if slowWanted.MatchString(c) {
			faults = append(faults, fmt.Errorf("--%s: %s asks for slow answers, and a higher rate makes them slower; write <", s.flag, c))
		}
	}
	e.Thresholds = append(conditions, e.Thresholds...)
	c := experiment.Capacity{Resolution: searchResolution, Trials: searchTrials, Tolerate: searchTolerate}
	if e.Capacity != nil {
		c.From, c.To = e.Capacity.From, e.Capacity.To
	}
	switch {
	case q.given("from") && q.given("to") && c.To <= c.From*(1+c.Resolution):
		faults = append(faults, fmt.Errorf("--to: %s/s is not above --from, %s/s; a higher rate", units.Figure(c.To), units.Figure(c.From)))
	case q.given("from") && !q.given("to"):
		c.To = min(mostDoubled*c.From, mostRate)
	case !q.given("from"): // until a closed loop has shown what the server reaches
		c.From, c.To = 1, max(c.To, 2)
	}
	e.Capacity = &c
	return faults
}

// needed is how many requests a load needs for the percentiles of the conditions to be known.
func needed(e *experiment.Experiment) float64 {
	v := &e.Variants[0]
	if v.Load.Scenario != nil || v.Load.Subscribers != nil {
		return 0
	}
	most := 0
	for _, t := range e.Thresholds {
		most = max(most, expr.RequestsNeeded(t, []string{v.Name}, e.Steps()))
	}
	return v.Load.Open.Sending(most)
}

// findRange completes a search: where it begins, where it ends and how long there is load at each
// rate, where flags do not say it. Any load before the search fails if the server is not there, which a
// search would take for a slow one.
func (a *app) findRange(ctx context.Context, q *quickLoad, e *experiment.Experiment, quiet bool) error {
	c := e.Capacity
	first, slow := c.From, c.From
	if !q.given("from") {
		reached, err := a.reached(ctx, q, e, quiet)
		if err != nil {
			return err
		}
		if q.given("to") {
			reached = min(reached, c.To)
		}
		first, slow = firstShare*reached, slowShare*reached
	}
	least, err := q.lastEnough(e, slow)
	if err != nil {
		return err
	}
	if q.given("from") {
		_, err := a.tryOut(ctx, q, e, leastWindow)
		return err
	}
	c.From = rounded(max(first, least))
	if !q.given("to") {
		c.To = min(mostDoubled*c.From, mostRate)
	}
	return nil
}

// lastEnough has the load at a rate last until there are enough requests for the conditions, or
// refuses a duration in which there are not. It returns the lowest rate at which there are.
func (q *quickLoad) lastEnough(e *experiment.Experiment, rate float64) (least float64, err error) {
	l, enough := &e.Variants[0].Load, needed(e)
	if !q.given("duration") {
		seconds := math.Ceil(enough/rate*10) / 10
		l.Window = max(l.Window, time.Duration(seconds*float64(time.Second)))
	}
	if sent := rate * l.Window.Seconds(); sent < enough {
		return 0, command.Usage("a longer --duration, or a higher --from", "--%s: %s needs about %s requests at each rate, and %s/s for %v are %s",
			q.search.flag, strings.Join(e.Thresholds, ", "), units.Whole(int64(math.Ceil(enough))), units.Figure(rate), l.Window, units.Figure(sent))
	}
	return enough / l.Window.Seconds(), nil
}

// rounded is a rate in two digits, not below it.
func rounded(rate float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	if step < 1 { // fractions are divided out: a tenth is no binary number, ten is one
		unit := math.Round(1 / step)
		return math.Ceil(rate*unit) / unit
	}
	return math.Ceil(rate/step) * step
}

// reached is how many requests per second a closed loop of a load gets answered.
func (a *app) reached(ctx context.Context, q *quickLoad, e *experiment.Experiment, quiet bool) (rate float64, err error) {
	if !quiet {
		fmt.Fprintf(a.stderr, "finding a rate to begin with: %d connections, %v\n", q.closed(e), reachWindow)
	}
	run, err := a.tryOut(ctx, q, e, reachWindow)
	if err != nil {
		return 0, err
	}
	if err := unanswered(&run.Run, gate{}); err != nil {
		return 0, err
	}
	t := &run.Trials[0].Trial
	if t.Counts.OK < leastReach {
		return 0, command.Fail(command.ExitInvalid, fmt.Errorf("a closed loop of %d connections got only %d good responses in %v, too few to tell where a search should begin", q.closed(e), t.Counts.OK, reachWindow),
			"say it with --from and --to")
	}
	return float64(t.Counts.OK) / t.WindowSeconds, nil
}

// closed is how many connections a closed loop instead of a search has.
func (q *quickLoad) closed(e *experiment.Experiment) int {
	if e.Variants[0].Load.Subscribers != nil {
		return q.publishers
	}
	return q.connections
}

// tryOut has a closed loop instead of a search. Nothing of it is kept.
func (a *app) tryOut(ctx context.Context, q *quickLoad, e *experiment.Experiment, window time.Duration) (_ *rundir.Folder, err error) {
	closed := *e
	closed.Capacity, closed.Thresholds, closed.Design.Metric = nil, nil, ""
	closed.Variants = slices.Clone(e.Variants)
	v := &closed.Variants[0]
	v.Observe.Server = false
	l := &v.Load
	l.Open, l.Closed = nil, &experiment.Closed{Connections: q.closed(e)}
	l.Warmup, l.Window = 0, window
	closed.Complete()
	dir, err := os.MkdirTemp("", "dyno-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dir = filepath.Join(dir, "run")
	o, err := a.options(dir)
	if err != nil {
		return nil, err
	}
	if err := trial.Run(ctx, &closed, o); err != nil {
		return nil, trial.Cause(err)
	}
	folder, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	return folder, verdict.Judge(folder)
}
