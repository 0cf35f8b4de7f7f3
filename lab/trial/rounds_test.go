package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/lab/plan"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// A referee gives the answers that a test sets. It records its calls.
type referee struct {
	warmup    func([]*rundir.TrialFolder) (*rundir.Pilot, error)
	enough    func([]rundir.Trial) (bool, string, error)
	good      func(*rundir.TrialFolder) (bool, error)
	disturbed func(round []*rundir.TrialFolder) (bool, error) // nil: no round is disturbed

	warmups int
	looks   []int // how many trials there were at each call
}

func (r *referee) Warmup(_ rundir.Plan, pilots []*rundir.TrialFolder) (*rundir.Pilot, error) {
	r.warmups++
	return r.warmup(pilots)
}

func (r *referee) Disturbed(_ rundir.Plan, round []*rundir.TrialFolder) (bool, error) {
	if r.disturbed == nil {
		return false, nil
	}
	return r.disturbed(round)
}

func (r *referee) Enough(_ rundir.Plan, trials []rundir.Trial) (bool, rundir.Message, error) {
	r.looks = append(r.looks, len(trials))
	stop, reason, err := r.enough(trials)
	return stop, texts.Verbatim(reason), err
}

func (r *referee) Probe(_ rundir.Plan, probe *rundir.TrialFolder) (capacity.Trial, error) {
	good, err := r.good(probe)
	return capacity.Trial{Rate: *probe.Rate, Good: good}, err
}

func (r *referee) Examine(_ rundir.Plan, t *rundir.TrialFolder) ([]rundir.Flag, error) {
	return []rundir.Flag{{Kind: "examined", Trial: t.Number}}, nil
}

func (r *referee) Judge(f *rundir.Folder) error {
	for _, v := range f.Run.Plan.Variants {
		f.Run.Variants = append(f.Run.Variants, rundir.Variant{Name: v.Name, Trials: len(f.Trials)})
	}
	return nil
}

// twoVariants is an experiment against a server that is already running.
func twoVariants(t *testing.T, server *oracle.Server, rounds int) *plan.Experiment {
	t.Helper()
	return parse(t, fmt.Sprintf(`name: two
target: {protocol: http, address: "%s"}
load: {closed: {connections: "{{connections}}"}, warmup: 0, requests: 50}
design: {rounds: %d, seed: 5, control: false}
compare: {base: few, variants: {few: {connections: 1}, several: {connections: 4}}}
`, server.Addr(), rounds))
}

func startNull(t *testing.T) *oracle.Server {
	t.Helper()
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// The referee ends a run after any whole round; the run is complete then.
func TestRunStops(t *testing.T) {
	server := startNull(t)
	for _, c := range []struct {
		name    string
		enough  func(trials []rundir.Trial) (bool, string, error)
		rounds  int
		stopped string
	}{
		{"after two rounds", func(trials []rundir.Trial) (bool, string, error) {
			return len(trials) >= 4, "narrow enough", nil
		}, 2, "narrow enough"},
		{"never", func([]rundir.Trial) (bool, string, error) { return false, "", nil }, 3, "the plan allows no more than 3 rounds"},
	} {
		e := twoVariants(t, server, 3)
		e.Design.Stop, e.Design.Margin, e.Design.Metric = plan.StopPrecision, 0.03, "throughput"
		ref := &referee{enough: c.enough}
		var l log
		o := options(t, &l)
		o.Referee = ref
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		f := open(t, o.Dir)
		if !f.Complete() || !f.Run.Complete || f.Run.Rounds != c.rounds || len(f.Trials) != 2*c.rounds || f.Run.TrialsPlanned != 2*c.rounds ||
			f.Run.Stopped.English() != c.stopped {
			t.Errorf("%s: %d trials of %d in %d rounds, stopped because %q, incomplete: %v",
				c.name, len(f.Trials), f.Run.TrialsPlanned, f.Run.Rounds, f.Run.Stopped, f.Incomplete)
		}
		if want := []int{2, 4, 6}[:c.rounds]; !slices.Equal(ref.looks, want) {
			t.Errorf("%s: asked at %v trials, want %v", c.name, ref.looks, want)
		}
		if len(l.flags) != len(f.Trials) || l.flags[1].Kind != "examined" || l.flags[1].Trial != 2 {
			t.Errorf("%s: the watcher got flags %+v, want what the referee said of each trial", c.name, l.flags)
		}
		if p := l.planned[2]; p.Of != 0 || p.Round != 2 || p.Rounds != 3 {
			t.Errorf("%s: planned %+v", c.name, p)
		}
		if p := f.Run.Plan; p.Stop != "precision" || p.Margin != 0.03 || p.Metric != "throughput" {
			t.Errorf("%s: plan %+v", c.name, p)
		}
	}
}

// An experiment that needs a referee does not begin without one.
func TestRunWithoutReferee(t *testing.T) {
	server := startNull(t)
	open := func(e *plan.Experiment) {
		for i := range e.Variants {
			e.Variants[i].Load.Closed, e.Variants[i].Load.Open = nil, plan.DefaultOpen()
		}
	}
	search := &plan.Capacity{From: 10, To: 100, Resolution: 0.1, Trials: 1}
	some := &referee{}
	for _, c := range []struct {
		name    string
		change  func(*plan.Experiment)
		referee Referee
		want    string
	}{
		{"looks", func(e *plan.Experiment) { e.Design.Stop = plan.StopLooks }, nil, "need a referee"},
		{"pilot", func(e *plan.Experiment) { e.Design.Pilot = time.Second }, nil, "need a referee"},
		{"capacity", func(e *plan.Experiment) { open(e); e.Capacity = search }, nil, "need a referee"},
		{"closed capacity", func(e *plan.Experiment) { e.Capacity = search }, some, "variant several: a search for capacity wants an open load"},
		{"range", func(e *plan.Experiment) { open(e); e.Capacity = &plan.Capacity{From: 5} }, some, "resolution"},
		{"program", func(e *plan.Experiment) {
			e.Design.Pilot, e.Variants[0].Target.Protocol = time.Second, plan.Program
		}, some, "a program has no load"},
	} {
		e := twoVariants(t, server, 1)
		c.change(e)
		o := options(t, &log{})
		o.Referee = c.referee
		err := Run(t.Context(), e, o)
		var plan *PlanError
		if !errors.As(err, &plan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if _, err := rundir.Open(o.Dir); err == nil {
			t.Errorf("%s: a folder was made", c.name)
		}
	}
}

// withControl adds an alias of the first variant, as the reader of files does.
func withControl(e *plan.Experiment) {
	alias := e.Variants[0]
	alias.AliasOf, alias.Name = alias.Name, alias.Name+".control"
	e.Variants = append(e.Variants, alias)
	e.Design.Control = alias.Name
}

// Pilots come before the first round, once for each variant but the control, and
// give all trials their warm-up.
func TestRunPilots(t *testing.T) {
	e := twoVariants(t, startNull(t), 1)
	withControl(e)
	e.Design.Pilot = 350 * time.Millisecond
	ref := &referee{warmup: func(pilots []*rundir.TrialFolder) (*rundir.Pilot, error) {
		found := &rundir.Pilot{WarmupSeconds: 0.125}
		for _, p := range pilots {
			_, intervals, err := p.Intervals()
			if err != nil || len(intervals) == 0 || intervals[len(intervals)-1].Start < 250*time.Millisecond {
				return nil, fmt.Errorf("%s: intervals %v, %w", p.Variant, intervals, err)
			}
			found.Variants = append(found.Variants, rundir.PilotVariant{Variant: p.Variant, Steady: true})
		}
		return found, nil
	}}
	var l log
	o := options(t, &l)
	o.Referee = ref
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 5 || f.Run.TrialsPlanned != 5 || f.Run.Rounds != 1 || ref.warmups != 1 {
		t.Fatalf("%d trials of %d, asked %d times, incomplete: %v", len(f.Trials), f.Run.TrialsPlanned, ref.warmups, f.Incomplete)
	}
	for i, trial := range f.Trials {
		pilot := i < 2
		if (trial.Purpose == rundir.PurposePilot) != pilot || (trial.Round == 0) != pilot || trial.WarmupSeconds != []float64{0, 0.125}[min(1, i/2)] {
			t.Errorf("trial %d: %q in round %d, warm-up of %v s", trial.Number, trial.Purpose, trial.Round, trial.WarmupSeconds)
		}
		if pilot && (trial.Variant != e.Variants[i].Name || trial.WindowSeconds < 0.349 || trial.Counts.OK == 50) {
			t.Errorf("pilot of %s: a window of %v s, %+v", trial.Variant, trial.WindowSeconds, trial.Counts)
		}
		if !pilot && trial.Counts.OK != 50 {
			t.Errorf("trial %d: %+v", trial.Number, trial.Counts)
		}
		if p := l.planned[i]; p.Of != 5 || p.Purpose != trial.Purpose || p.Round != trial.Round {
			t.Errorf("planned %+v", p)
		}
	}
	if p := f.Run.Pilot; p == nil || p.WarmupSeconds != 0.125 || len(p.Variants) != 2 {
		t.Errorf("pilot %+v", p)
	}
	plan := f.Run.Plan
	for _, v := range plan.Variants {
		if v.WarmupSeconds != 0.125 {
			t.Errorf("plan: %s warms up for %v s", v.Name, v.WarmupSeconds)
		}
	}
	if plan.PilotSeconds != 0.35 || plan.Control != "few.control" || plan.Variants[2].AliasOf != "few" {
		t.Errorf("plan %+v", plan)
	}
}

// A pilot has the rate with which a trial's window begins.
func TestPilotLoad(t *testing.T) {
	stage := func(from, to float64) []plan.Stage {
		return []plan.Stage{{Duration: time.Second, From: from, To: to}}
	}
	for _, c := range []struct {
		name   string
		load   plan.Load
		search *plan.Capacity
		want   float64
	}{
		{"closed", plan.Load{Closed: &plan.Closed{}, Requests: 7}, nil, 0},
		{"steady", plan.Load{Open: &plan.Open{Rate: 5}}, nil, 5},
		{"stages", plan.Load{Open: &plan.Open{}, Stages: stage(3, 9)}, nil, 3},
		{"ramp", plan.Load{Open: &plan.Open{}, Stages: stage(0, 9)}, nil, 9},
		{"users", plan.Load{Closed: &plan.Closed{}, Stages: stage(0, 9)}, nil, 0},
		{"search", plan.Load{Open: &plan.Open{}}, &plan.Capacity{From: 4, To: 40}, 4},
	} {
		e := &plan.Experiment{Design: plan.Design{Pilot: time.Minute}, Capacity: c.search}
		c.load.Warmup = time.Second
		pilotLoad(&c.load, e)
		if c.load.Warmup != 0 || c.load.Window != time.Minute || c.load.Requests != 0 || c.load.Stages != nil {
			t.Errorf("%s: %+v", c.name, c.load)
		}
		if o := c.load.Open; o != nil && (o.Rate != c.want) {
			t.Errorf("%s: %+v, want a rate of %v", c.name, o, c.want)
		}
	}
}

// searched is an experiment with searches for a capacity between 240 and 3,840 requests a second. They
// end when the bracket's ends differ by at most a factor of two.
func searched(t *testing.T, server *oracle.Server, rounds int) *plan.Experiment {
	t.Helper()
	e := parse(t, fmt.Sprintf(`name: searched
target: {protocol: http, address: "%s"}
load: {open: {rate: 1/s, max_connections: "{{connections}}", max_waiting: 64}, warmup: 0, window: 250ms}
design: {rounds: %d, seed: 5, control: false}
compare: {base: few, variants: {few: {connections: 2}, several: {connections: 4}}}
`, server.Addr(), rounds))
	for i := range e.Variants {
		e.Variants[i].Load.Open.Rate = 0
	}
	e.Capacity = &plan.Capacity{From: 240, To: 3840, Resolution: 1, Trials: 1}
	return e
}

// replayed checks that each search's probes are those that the search asks for, one after the other. It
// returns where each search ended.
func replayed(t *testing.T, e *plan.Experiment, f *rundir.Folder, ref *referee) (found []capacity.State) {
	t.Helper()
	edges := map[string][]float64{}
	for i, variants := range order(e, e.Design.Rounds) {
		for _, v := range variants {
			var done []capacity.Trial
			hint, last := geometricMean(edges[v.Name]), 0
			for _, trial := range f.Trials {
				if trial.Purpose != rundir.PurposeProbe || !trial.Complete || trial.Round != i+1 || trial.Variant != v.Name {
					continue
				}
				state, err := goal(e.Capacity).Next(done, hint)
				if err != nil || state.Done || trial.Rate == nil || *trial.Rate != state.Next || last > 0 && trial.Number != last+1 {
					t.Errorf("round %d, %s: trial %d, after %d, is a probe at %v, want one in state %+v, %v", i+1, v.Name, trial.Number, last, *trial.Rate, state, err)
				}
				good, _ := ref.good(trial)
				done, last = append(done, capacity.Trial{Rate: *trial.Rate, Good: good}), trial.Number
			}
			state, err := goal(e.Capacity).Next(done, hint)
			if err != nil || !state.Done {
				t.Errorf("round %d, %s: %+v after %v, %v", i+1, v.Name, state, done, err)
			}
			found = append(found, state)
			edges[v.Name] = append(edges[v.Name], geometricMean([]float64{state.Low, state.High}))
		}
	}
	return found
}

// The server answers at most 1,000 requests a second. A window holds 60 requests at the lowest rate,
// which cannot fill the queue. At the highest it holds 960, and the server answers 250 at best. So
// drops are impossible at one end and certain at the other, however the machine behaves.
func TestRunSearches(t *testing.T) {
	server, err := oracle.StartQueue(t.Context(), oracle.Config{}, 1, oracle.Fixed(time.Millisecond), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := searched(t, server.Server, 2)
	e.Base, e.Variants = "", e.Variants[1:]
	var l log
	o := options(t, &l)
	ref := &referee{good: func(probe *rundir.TrialFolder) (bool, error) { return probe.Counts.Dropped == 0, nil }}
	o.Referee = ref
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || f.Run.TrialsPlanned != 0 || f.Run.Rounds != 2 {
		t.Fatalf("%d trials planned, %d rounds, incomplete: %v", f.Run.TrialsPlanned, f.Run.Rounds, f.Incomplete)
	}
	found := replayed(t, e, f, ref)
	if len(found) != 2 {
		t.Fatalf("%d searches", len(found))
	}
	for _, s := range found {
		if !(s.Low >= 240 && s.High <= 3840 && s.High <= s.Low*2.01) {
			t.Errorf("found %+v", s)
		}
	}
	for i, trial := range f.Trials {
		// A schedule of constant gaps may have a request more or less. A request that is
		// due while the machine stands still at the window's end is not scheduled.
		if want := *trial.Rate * 0.25; float64(trial.Counts.Scheduled) < want/2 || float64(trial.Counts.Scheduled) > want+1 {
			t.Errorf("trial %d at %v/s: %+v", trial.Number, *trial.Rate, trial.Counts)
		}
		if p := l.planned[i]; p.Rate != *trial.Rate || p.Purpose != rundir.PurposeProbe || p.Of != 0 || p.Round != trial.Round {
			t.Errorf("planned %+v", p)
		}
	}
	plan := f.Run.Plan
	if c := plan.Capacity; c == nil || c.From != 240 || c.To != 3840 || c.Resolution != 1 || c.Trials != 1 || plan.Variants[0].Rate != nil {
		t.Errorf("plan %+v", plan)
	}
}

// A search that was cut short begins again when the run is resumed; pilots and finished
// searches are kept.
func TestResumeSearch(t *testing.T) {
	e := searched(t, startNull(t), 1)
	e.Design.Pilot = 100 * time.Millisecond
	for i := range e.Variants {
		e.Variants[i].Load.Window = 150 * time.Millisecond
	}
	ref := &referee{
		good:   func(probe *rundir.TrialFolder) (bool, error) { return *probe.Rate < 1000, nil },
		warmup: func([]*rundir.TrialFolder) (*rundir.Pilot, error) { return &rundir.Pilot{WarmupSeconds: 0.05}, nil },
	}
	interrupted := errors.New("interrupted")
	// interrupt runs until the n-th trial of a variant and a purpose begins.
	interrupt := func(run func(context.Context, Options) error, o Options, variant, purpose string, n int) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Watcher = &log{onStart: func(p Planned) {
			if p.Variant == variant && p.Purpose == purpose {
				if n--; n == 0 {
					cancel(interrupted)
				}
			}
		}}
		if err := run(ctx, o); !errors.Is(err, interrupted) {
			t.Fatal(err)
		}
	}
	o := options(t, &log{})
	o.Referee = ref
	resume := func(ctx context.Context, o Options) error { return Resume(ctx, e, o) }

	interrupt(func(ctx context.Context, o Options) error { return Run(ctx, e, o) }, o, "several", rundir.PurposePilot, 1)
	if f := open(t, o.Dir); len(f.Trials) != 2 || f.Run.Pilot != nil {
		t.Fatalf("%d trials, pilot %+v", len(f.Trials), f.Run.Pilot)
	}
	second := order(e, e.Design.Rounds)[0][1].Name
	interrupt(resume, o, second, rundir.PurposeProbe, 3)
	if f := open(t, o.Dir); f.Trials[2].Variant != "several" || f.Trials[2].Purpose != rundir.PurposePilot || f.Trials[3].Purpose != rundir.PurposeProbe {
		t.Fatalf("the second attempt began with %+v, %+v", f.Trials[2].Trial, f.Trials[3].Trial)
	}
	if err := resume(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || ref.warmups != 1 || f.Run.Pilot.WarmupSeconds != 0.05 || f.Run.Plan.Variants[0].WarmupSeconds != 0.05 {
		t.Fatalf("asked for the warm-up %d times, incomplete: %v", ref.warmups, f.Incomplete)
	}
	if found := replayed(t, e, f, ref); len(found) != 2 || !(found[0].Low < 1000 && found[0].High >= 1000) {
		t.Errorf("found %+v", found)
	}
	abandoned := 0
	for _, trial := range f.Trials {
		if strings.Contains(trial.Error, "begun again") {
			abandoned++
			if trial.Complete || trial.Variant != second || trial.Counts.Sent == 0 {
				t.Errorf("abandoned: %+v", trial.Trial)
			}
		}
	}
	if abandoned != 2 {
		t.Errorf("%d probes were abandoned, want those 2 of the interrupted search", abandoned)
	}
}
