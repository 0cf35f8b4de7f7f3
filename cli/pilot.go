package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dyno/cli/quick"
	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict"
	"dyno/lab/duet"
	"dyno/lab/plan"
	"dyno/lab/trial"
	"dyno/results/rundir"
)

// The bounds of a pilot. Its load lasts ten windows, but at least leastPilot and at most mostPilot. It waits for a
// quiet machine for at most briefQuiet, as does a comparison of CPU time.
const (
	leastPilot = time.Second
	mostPilot  = 2500 * time.Millisecond
	briefQuiet = 3 * time.Second
)

// design completes a comparison whose rounds the flags leave open. A pilot shows how the two are best compared; flags
// that were given stay. If it shows nothing, the rounds without it will say why. It returns why the design is as it is.
func (a *app) design(ctx context.Context, c *quick.Comparison, e *plan.Experiment, quiet bool) (why *rundir.Message) {
	l := &e.Variants[0].Load
	if c.Given("rounds") || c.Given("stop") || l.Counted() || len(l.Stages)+len(l.Paces) > 0 {
		return nil
	}
	say := func(format string, args ...any) {
		if !quiet {
			fmt.Fprintf(a.stderr, format+"\n", args...)
		}
	}
	say("pilot: some seconds of a and b show how to compare them")
	given, trials := verdict.Design{Duet: e.Design.Duet}, len(e.Variants)
	if c.Given("metric") {
		given.Metric = e.Design.Metric
	}
	if c.Given("duration") {
		given.Window = l.Window.Seconds()
	}
	if l.Closed != nil && (c.Given("connections") || l.Scenario != nil) {
		given.Connections = l.Closed.Connections
	}
	if e.Profile != nil { // functions need all rounds
		given.Rounds, trials = e.Design.Rounds, 2*trials
	}
	var d verdict.Design
	err := a.scratch(ctx, pilotOf(e, !c.Given("duet") && e.Profile == nil && !a.agents.CarryLoad()), func(f *rundir.Folder) (err error) {
		d, err = verdict.Choose(f, trials, given)
		return err
	})
	if err != nil {
		return nil
	}
	e.Design.Metric, e.Design.Duet = d.Metric, d.Duet
	if e.Design.Rounds = d.Rounds; given.Rounds == 0 {
		e.Design.Stop = plan.StopLooks
	}
	if !c.Given("remeasure") {
		// What disturbs CPU time per request is in its interval, and others in place of its rounds are no better.
		e.Design.KeepDisturbed = d.Metric == rundir.MetricCPU
	}
	if d.Metric == rundir.MetricCPU && !c.Given("quiet-wait") {
		e.Design.QuietWait = min(e.Design.QuietWait, briefQuiet) // more rounds do more for it than waiting
	}
	for i := range e.Variants {
		l := &e.Variants[i].Load
		l.Window = seconds(d.Window)
		if !c.Given("warmup") {
			l.Warmup = seconds(d.Warmup)
		}
		if l.Closed != nil {
			closed := *l.Closed
			closed.Connections = d.Connections
			l.Closed = &closed
		}
	}
	say("%s: at most %s (%d rounds, windows of %v, %d connections)", d.Why.In(texts.English), units.FormatSeconds(math.Ceil(d.Lasts)), d.Rounds, l.Window, d.Connections)
	return &d.Why
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// pilotOf is a pilot of a comparison: one round of base and variant without a warm-up, at once if they can be.
func pilotOf(e *plan.Experiment, atOnce bool) *plan.Experiment {
	p := *e
	p.Design.Duet, p.Thresholds, p.Profile = true, nil, nil
	p.Design.Duet = atOnce && p.Validate() == nil && duet.Possible(&p) || e.Design.Duet
	p.Design.Rounds, p.Design.Stop, p.Design.Control, p.Design.KeepDisturbed = 1, plan.StopFixed, "", true
	p.Design.QuietWait = min(p.Design.QuietWait, briefQuiet)
	p.Variants = slices.DeleteFunc(slices.Clone(e.Variants), func(v plan.Variant) bool { return v.AliasOf != "" })
	for i := range p.Variants {
		v := &p.Variants[i]
		v.Load.Warmup, v.Load.Window, v.Observe.Kernel = 0, max(leastPilot, min(10*v.Load.Window, mostPilot)), plan.KernelNone
	}
	return &p
}

// scratch runs an experiment without a display, and has its folder used before that is removed.
func (a *app) scratch(ctx context.Context, e *plan.Experiment, use func(*rundir.Folder) error) error {
	dir, err := os.MkdirTemp("", "dyno-")
	if err != nil {
		return err
	}
	defer a.discard(dir)
	dir = filepath.Join(dir, "run")
	o, err := a.options(ctx, e, dir, false)
	if err != nil {
		return err
	}
	if err := trial.Run(ctx, e, o); err != nil {
		return trial.Cause(err)
	}
	f, err := verdict.Open(dir)
	if err != nil {
		return err
	}
	return use(f)
}
