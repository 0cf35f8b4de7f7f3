package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict/expr"
	"dyno/load/hist"
	"dyno/report/answer"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// Make condenses a judged run folder. Files that are missing or cannot be read are left
// out and listed in Unreadable.
func Make(f *rundir.Folder) *Document {
	d := &Document{Version: Version, Run: f.Run, Incomplete: judged.Incomplete(f), Answer: answer.Make(f)}
	d.Run.Trials = nil
	d.Run.Environment.Hostname = "" // readers of the mailed page should not see it
	examined := map[int]rundir.Examined{}
	for _, e := range f.Run.Trials {
		examined[e.Number] = e
	}
	result := judged.Of(f)
	d.Checks, d.Agents, d.Slowest = checks(f.Run.Trials), result.Agents(), result.Slowest()
	d.Calls = result.Calls()
	d.SLO = slo(&f.Run.Plan)
	counted := map[int]bool{}
	for _, t := range f.Measured() {
		counted[t.Number] = true
	}
	var lacking []rundir.Message
	for _, t := range f.Trials {
		e := examined[t.Number]
		d.Trials = append(d.Trials, Trial{
			Number: t.Number, Round: t.Round, Variant: t.Variant, Purpose: t.Purpose, Counted: counted[t.Number],
			Disturbed: e.Disturbed, Warmup: t.WarmupSeconds, Window: t.WindowSeconds, Rate: t.Rate, Good: e.Good,
			Latency: d.SLO.probe(t),
		})
		lacking = append(lacking, t.Unavailable...)
	}
	d.Unavailable = texts.Once(append(slices.Clone(f.Run.Environment.Unavailable), lacking...)...)
	if f.Run.Plan.Protocol != "program" {
		d.measure(f, counted)
	}
	d.explain(f)
	d.flames(f)
	d.Units = expr.UnitsOf(&f.Run)
	return d
}

// slo returns what a search for capacity keeps a latency below, if it does.
func slo(p *rundir.Plan) *SLO {
	if p.Capacity == nil {
		return nil
	}
	for _, text := range p.Thresholds {
		metric, limit, ok := expr.LimitIn(text, *p)
		if _, isLatency := rundir.ClockOf(metric); ok && isLatency {
			return &SLO{metric, limit}
		}
	}
	return nil
}

// probe returns a probe's latency in the metric of the SLO.
func (s *SLO) probe(t *rundir.TrialFolder) *float64 {
	if s == nil || t.Purpose != rundir.PurposeProbe || !t.Complete {
		return nil
	}
	clock, name, _ := strings.Cut(s.Metric, ".")
	h, err := t.Latency(clock)
	if err != nil || h == nil || h.Count() == 0 {
		return nil // a step's metric, or a log that is missing
	}
	ns := float64(h.Max())
	switch q, ok := rundir.QuantileOf(name); {
	case ok:
		ns = float64(h.Quantile(q))
	case name == "mean":
		ns = h.Mean()
	case name != "max":
		return nil
	}
	return new(ns / 1e9)
}

// checks sums up by kind the checks of all trials that are not replaced.
func checks(trials []rundir.Examined) []Check {
	var list []Check
	at := map[string]int{}
	for _, t := range trials {
		if t.Replaced || t.Purpose != "" {
			continue
		}
		for _, c := range t.Checks {
			i, known := at[c.Kind]
			if !known {
				i = len(list)
				at[c.Kind] = i
				list = append(list, Check{Kind: c.Kind, Unit: c.Unit, Limit: c.Limit})
			}
			sum := &list[i]
			switch c.Outcome {
			case rundir.CheckOK:
				sum.OK++
			case rundir.CheckWarning:
				sum.Warning++
			case rundir.CheckDisturbed:
				sum.Disturbed++
			default:
				sum.Unknown++
			}
			if c.Measured != nil && (sum.Worst == nil || worse(c, *sum.Worst)) {
				sum.Worst, sum.Limit = c.Measured, c.Limit
			}
		}
	}
	return list
}

// worse tells whether a check's figure is farther towards its limit than another, or
// farther beyond. Limits of ratios that should be near 1 are met from below.
func worse(c rundir.Check, than float64) bool {
	if c.Limit != nil && *c.Limit > *c.Measured && c.Outcome == rundir.CheckDisturbed || c.Kind == "achieved_rate" {
		return *c.Measured < than
	}
	return math.Abs(*c.Measured) > math.Abs(than)
}

// mostCurves bounds what a page draws: readers cannot tell more curves apart.
const mostCurves = 600

// A reading holds the contents of one trial's files.
type reading struct {
	curves   []Curve
	merged   map[string]*hist.Histogram // by clock
	timeline *Timeline
	faults   []string
}

// measure reads the trials that the figures use, as many at once as there are processors.
func (d *Document) measure(f *rundir.Folder, counted map[int]bool) {
	var trials []*rundir.TrialFolder
	for _, t := range f.Trials {
		if counted[t.Number] {
			trials = append(trials, t)
		}
	}
	room := d.divide(trials)
	readings := make([]reading, len(trials))
	sideBySide(len(trials), func(i int) { readings[i] = read(trials[i], loop(&f.Run.Plan, trials[i].Variant), room[i]) })

	merged := map[string]map[string]*hist.Histogram{} // by variant, then clock
	for i, t := range trials {
		r := &readings[i]
		d.Unreadable = append(d.Unreadable, r.faults...)
		d.Curves = append(d.Curves, r.curves...)
		if r.timeline != nil {
			d.Timelines = append(d.Timelines, *r.timeline)
		}
		if merged[t.Variant] == nil {
			merged[t.Variant] = map[string]*hist.Histogram{}
		}
		for clock, h := range r.merged {
			if merged[t.Variant][clock] == nil {
				merged[t.Variant][clock] = hist.New()
			}
			merged[t.Variant][clock].Merge(h)
		}
	}
	for _, v := range f.Run.Plan.Variants {
		for _, c := range rundir.Clocks() {
			if h := merged[v.Name][c.Tag]; h != nil && h.Count() > 0 {
				d.Curves = append(d.Curves, curve(v.Name, c.Tag, 0, h))
			}
		}
	}
	// If there are too many, single trials are left out first: merged ones come last.
	d.Curves = d.Curves[max(0, len(d.Curves)-mostCurves):]
}

// loop describes how a variant's load was made.
func loop(plan *rundir.Plan, variant string) string {
	for _, v := range plan.Variants {
		if v.Name == variant {
			return v.Loop
		}
	}
	return plan.Loop
}

// Bounds of what all time lines hold together.
const (
	mostPoints  = 600
	leastPoints = 60
	mostLines   = 14                // of one trial
	allNumbers  = 400_000           // of all trials' lines
	ofAPoint    = 3 * mostLines / 2 // numbers; not every line is there, nor has ends
)

// divide returns how many points each trial's lines may have. If there is no room for all
// rounds, later rounds have none.
func (d *Document) divide(trials []*rundir.TrialFolder) []int {
	byRound := map[int]int{}
	for _, t := range trials {
		byRound[t.Round]++
	}
	rounds := make([]int, 0, len(byRound))
	for r := range byRound {
		rounds = append(rounds, r)
	}
	slices.Sort(rounds)
	within, n := map[int]bool{}, 0
	for _, r := range rounds {
		if n+byRound[r] > allNumbers/ofAPoint/leastPoints && n > 0 {
			break
		}
		within[r] = true
		n += byRound[r]
	}
	d.LinesLeftOut = len(rounds) - len(within)
	points := min(mostPoints, allNumbers/ofAPoint/max(n, 1))
	room := make([]int, len(trials))
	for i, t := range trials {
		if within[t.Round] {
			room[i] = points
		}
	}
	return room
}

// read reads one trial's files. Without room it has no time line.
func read(t *rundir.TrialFolder, loop string, room int) (r reading) {
	r.merged = map[string]*hist.Histogram{}
	fault := func(err error) { r.faults = append(r.faults, fmt.Sprintf("trial %d: %v", t.Number, err)) }
	_, intervals, err := t.Intervals()
	if err != nil && !t.Unrecorded(err) {
		fault(err) // the part before the fault is there
	}
	for _, i := range intervals {
		if c, ok := rundir.ClockOf(i.Tag); !ok || !c.Curve {
			continue
		}
		if r.merged[i.Tag] == nil {
			r.merged[i.Tag] = hist.New()
		}
		r.merged[i.Tag].Merge(i.Hist)
	}
	for _, c := range rundir.Clocks() {
		if h := r.merged[c.Tag]; h != nil && h.Count() > 0 {
			r.curves = append(r.curves, curve(t.Variant, c.Tag, t.Number, h))
		}
	}
	if room == 0 {
		return r
	}
	clock := mainClock(loop, intervals)
	line := &Timeline{Trial: t.Number, Load: load(intervals, clock, room), Heat: heat(intervals, clock, min(room, mostColumns))}
	series, err := t.Series()
	if err != nil && !t.Unrecorded(err) {
		fault(err)
	}
	if series != nil {
		line.Observed = observed(series, room)
	}
	if line.Load != nil || line.Observed != nil {
		r.timeline = line
	}
	return r
}

// mainClock is the clock that represents a load's latency: where there are subscribers,
// that of their events, whatever publishes them.
func mainClock(loop string, intervals []hist.Interval) string {
	switch {
	case slices.ContainsFunc(intervals, func(i hist.Interval) bool { return i.Tag == rundir.TagDelivery }):
		return rundir.TagDelivery
	case loop == "open":
		return rundir.TagResponse
	}
	return rundir.TagService
}

// curve makes the percentiles of a histogram.
func curve(variant, clock string, trial int, h *hist.Histogram) Curve {
	c := Curve{Variant: variant, Clock: clock, Trial: trial, Count: h.Count()}
	for i := 0; ; i++ {
		beyond := math.Pow(10, -float64(i)/PerDecade)
		if beyond*float64(h.Count()) < 1 {
			break
		}
		c.Values = append(c.Values, float64(h.Quantile(1-beyond))/1e9)
		if beyond*float64(h.Count()) >= 10 {
			c.Firm++
		}
	}
	return c
}
