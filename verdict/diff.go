package verdict

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/rundir"
	"dyno/stat"
)

// What holds for every Difference.
const (
	diffConfidence = 0.95
	defaultMargin  = 0.02 // of runs whose plan says none

	// UnpairedCaveat is what a reader of a Difference must know.
	UnpairedCaveat = "unpaired: the two runs were made at different times, so whatever else changed in between is part of the ratio; " +
		"to know what a change of the target does, measure both side by side in one run (dyno compare)"
)

// A Difference is what two finished runs show side by side. It is unpaired, as its
// caveat says: weaker than a comparison within one run.
type Difference struct {
	Caveat  string     `json:"caveat"`
	Old     RunSummary `json:"old"`
	New     RunSummary `json:"new"`
	Metric  string     `json:"metric"` // the primary one, of the new run's plan
	Margin  float64    `json:"margin"` // the difference that matters, a share; of the new run's plan
	OnlyOld []string   `json:"only_old,omitempty"`
	OnlyNew []string   `json:"only_new,omitempty"`
	// Disparities are what else is known to be different.
	Disparities []Disparity          `json:"disparities"`
	Comparisons []UnpairedComparison `json:"comparisons"` // by variant, the plan's order
	Notes       []string             `json:"notes,omitempty"`
}

// A RunSummary says which run it is, and whether it can be relied on.
type RunSummary struct {
	Name        string    `json:"name"`
	StartedAt   time.Time `json:"started_at"`
	DynoVersion string    `json:"dyno_version,omitempty"`
	Complete    bool      `json:"complete"`
	Valid       bool      `json:"valid"`
	Rounds      int       `json:"rounds"`
}

// The places of a Disparity; that of a variant is its name.
const (
	OnMachine = "machine"
	InPlan    = "plan"
)

// A Disparity is one thing that differs between two runs, beside what they found.
type Disparity struct {
	Where   string `json:"where"`             // machine or plan
	Variant string `json:"variant,omitempty"` // whose part of the plan
	What    string `json:"what"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

// An UnpairedComparison is one variant's metric in both runs. Old and New are as in
// the runs, in the metric's unit; the ratio is new over old, of the geometric means
// over the trials.
type UnpairedComparison struct {
	Variant string          `json:"variant"`
	Metric  string          `json:"metric"`
	Primary bool            `json:"primary,omitempty"`
	Good    string          `json:"good"` // which direction is: higher or lower
	Old     rundir.Estimate `json:"old"`
	New     rundir.Estimate `json:"new"`
	Ratio   rundir.Estimate `json:"ratio"`
	// DegreesOfFreedom are Welch's, of the interval.
	DegreesOfFreedom *float64 `json:"degrees_of_freedom,omitempty"`
	P                *float64 `json:"p,omitempty"`          // two-sided, for a ratio of one
	AdjustedP        *float64 `json:"adjusted_p,omitempty"` // among all comparisons of the two runs
	Adjustment       string   `json:"adjustment,omitempty"`
	// Equivalence is the interval that lies within the margin when the two are
	// equivalent.
	Equivalence *rundir.Estimate `json:"equivalence,omitempty"`
	// Detectable is the smallest change, a share, that so many trials find in four
	// comparisons of five.
	Detectable *float64 `json:"detectable,omitempty"`
	Verdict    string   `json:"verdict"`          // better, worse, equivalent, inconclusive or invalid
	Detail     string   `json:"detail,omitempty"` // why there is no ratio
}

// Regressions returns the comparisons in the primary metric in which the new run is
// worse, and by more than the margin.
func (d *Difference) Regressions() []UnpairedComparison {
	var worse []UnpairedComparison
	for _, c := range d.Comparisons {
		if !c.Primary || c.Verdict != rundir.Worse {
			continue
		}
		loss := *c.Ratio.Estimate
		if directionOf(c.Metric) == stat.HigherIsBetter {
			loss = 1 / loss
		}
		if loss > 1+d.Margin {
			worse = append(worse, c)
		}
	}
	return worse
}

// Diff compares two judged runs, variant by variant of the same name: throughput,
// p50 and p99 (of response times in an open loop, of service times in a closed one),
// CPU per request, capacity, what programs printed, and the primary metric. The values
// of the trials are compared by Welch's t on logarithms at 95 %, and a verdict of better
// or worse must hold after Holm's adjustment over all of it. Controls are left out:
// they are their base once more. Where a figure is not identified in one of the runs, the
// verdict is invalid.
//
// It fails when one of the runs is not judged, or when they have no variant in common.
func Diff(older, newer *rundir.Run) (Difference, error) {
	if err := errors.Join(judgedRun("old", older), judgedRun("new", newer)); err != nil {
		return Difference{}, err
	}
	d := Difference{
		Caveat: UnpairedCaveat, Old: summaryOf(older), New: summaryOf(newer),
		Metric: primaryMetric(newer.Plan), Margin: newer.Plan.Margin,
		Disparities: disparities(older, newer), Comparisons: []UnpairedComparison{},
	}
	if d.Margin == 0 {
		d.Margin = defaultMargin
	}
	controls := map[string]bool{}
	for _, v := range slices.Concat(older.Plan.Variants, newer.Plan.Variants) {
		if v.AliasOf != "" {
			controls[v.Name] = true
		}
	}
	for _, v := range newer.Variants {
		before := variantOf(older, v.Name)
		switch {
		case controls[v.Name]:
		case before == nil:
			d.OnlyNew = append(d.OnlyNew, v.Name)
		default:
			for _, metric := range comparedIn(before, &v, newer.Plan.Variant(v.Name).Latency(), d.Metric) {
				c := unpaired(before, &v, metric, metric == d.Metric)
				if metric == "capacity" {
					c.widen((bracketWidth(older, v.Name) + bracketWidth(newer, v.Name)) / 2)
				}
				d.Comparisons = append(d.Comparisons, c)
			}
		}
	}
	for _, v := range older.Variants {
		if !controls[v.Name] && variantOf(newer, v.Name) == nil {
			d.OnlyOld = append(d.OnlyOld, v.Name)
		}
	}
	if len(d.Comparisons) == 0 {
		return Difference{}, errors.New("diff: the runs have no variant in common: " +
			"old " + strings.Join(d.OnlyOld, ", ") + "; new " + strings.Join(d.OnlyNew, ", "))
	}
	if err := d.judge(); err != nil {
		return Difference{}, fmt.Errorf("diff: %w", err)
	}
	d.distrust(older, newer)
	d.note(older, newer)
	return d, nil
}

// judgedRun refuses a run without the trials' values behind its figures.
func judgedRun(which string, run *rundir.Run) error {
	if slices.ContainsFunc(run.Variants, func(v rundir.Variant) bool { return len(v.Intervals) > 0 }) {
		return nil
	}
	return fmt.Errorf("diff: the %s run, %s, holds no figures with their trials: it has no complete trial, or was judged by another version", which, run.Name)
}

// judge adjusts the p-values and finds the verdicts.
func (d *Difference) judge() error {
	var family []int
	var p []float64
	for i, c := range d.Comparisons {
		if c.P != nil {
			family, p = append(family, i), append(p, *c.P)
		}
	}
	adjusted, err := stat.Holm(p)
	if err != nil {
		return err
	}
	for k, i := range family {
		c := &d.Comparisons[i]
		if len(family) > 1 {
			c.AdjustedP, c.Adjustment = &adjusted[k], "Holm"
		}
		ratio := stat.Interval{Low: math.Inf(-1), High: math.Inf(1)} // shows no difference
		if adjusted[k] <= 1-diffConfidence {
			ratio = intervalOf(c.Ratio)
		}
		c.Verdict = stat.Judge(ratio, intervalOf(*c.Equivalence), d.Margin, directionOf(c.Metric)).String()
	}
	return nil
}

// distrust takes the verdicts back that rest on a figure of which nothing can be said in
// one of the runs: two runs do not share what disturbs them.
func (d *Difference) distrust(runs ...*rundir.Run) {
	for i := range d.Comparisons {
		c := &d.Comparisons[i]
		for _, run := range runs {
			for _, v := range run.Validity {
				if v.Base == "" && v.Variant == c.Variant && v.Figure == c.Metric && (v.State == rundir.StateNotIdentified || v.State == rundir.StateRelative) {
					c.Verdict = rundir.Invalid
				}
			}
		}
	}
}

// note says what a reader should know beside the figures.
func (d *Difference) note(older, newer *rundir.Run) {
	add := func(format string, args ...any) { d.Notes = append(d.Notes, fmt.Sprintf(format, args...)) }
	if older.Name != newer.Name {
		add("the runs are of two experiments, %s and %s", older.Name, newer.Name)
	}
	if newer.StartedAt.Before(older.StartedAt) {
		add("the run taken as the old one was made after the other")
	}
	for _, run := range []struct {
		which string
		*rundir.Run
	}{{"old", older}, {"new", newer}} {
		if !run.Complete {
			add("the %s run is not complete: its figures are of the trials that were measured", run.which)
		}
		if !run.Valid {
			add("the %s run is invalid: %s", run.which, run.Reason)
		}
	}
	on := func(where string) bool {
		return slices.ContainsFunc(d.Disparities, func(x Disparity) bool { return x.Where == where })
	}
	if on(OnMachine) {
		add("the machine or its settings are not the same: a difference may be theirs")
	}
	if on(InPlan) {
		add("the plans are not the same: a difference may be theirs")
	}
}

// unpaired compares one metric of a variant. The verdict is not final.
func unpaired(older, newer *rundir.Variant, metric string, primary bool) UnpairedComparison {
	a, b := older.Intervals[metric], newer.Intervals[metric]
	c := UnpairedComparison{
		Variant: newer.Name, Metric: metric, Primary: primary, Good: goodWay(metric),
		Old: a, New: b, Ratio: rundir.Estimate{Interval: rundir.NoInterval}, Verdict: rundir.Inconclusive,
	}
	u, err := stat.UnpairedRatio(a.Values, b.Values, diffConfidence)
	switch {
	case errors.Is(err, stat.ErrTooFew):
		c.Detail = fmt.Sprintf("%d and %d trials have this figure: an interval needs two of each (design.rounds)", len(a.Values), len(b.Values))
		return c
	case err != nil:
		c.Detail = err.Error()
		return c
	}
	narrower, err := stat.UnpairedRatio(a.Values, b.Values, 0.9)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.Ratio = welch(u, diffConfidence)
	equivalence := welch(narrower, 0.9)
	c.Equivalence = &equivalence
	c.DegreesOfFreedom, c.P, c.Detectable = &u.DF, &u.P, finite(u.Detectable)
	return c
}

// widen keeps the intervals from being narrower than what is known of each value: their
// logarithms may be off by so much together, to either side.
func (c *UnpairedComparison) widen(slack float64) {
	if c.Ratio.Estimate == nil {
		return
	}
	for _, e := range []*rundir.Estimate{&c.Ratio, c.Equivalence} {
		low, high := *e.Estimate/math.Exp(slack), *e.Estimate*math.Exp(slack)
		if e.Low != nil && low < *e.Low {
			e.Low = &low
		}
		if e.High != nil && high > *e.High {
			e.High = &high
		}
	}
	if c.Detectable != nil {
		c.Detectable = finite((1+*c.Detectable)*math.Exp(slack) - 1)
	}
}

// bracketWidth returns how wide a run's searches for a variant's capacity left the
// edge, on the scale of logarithms and on average: rounds that end at the same two
// rates agree by being coarse.
func bracketWidth(run *rundir.Run, variant string) float64 {
	sum, n := 0.0, 0
	for _, c := range run.Capacities {
		for _, b := range c.Searches {
			if c.Variant == variant && b.Low != nil && b.High != nil {
				sum += math.Log(*b.High / *b.Low)
				n++
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

func welch(u stat.Unpaired, confidence float64) rundir.Estimate {
	return rundir.Estimate{
		Estimate: finite(u.Estimate), Low: finite(u.Interval.Low), High: finite(u.Interval.High),
		Confidence: confidence, Interval: rundir.ByWelch,
	}
}

// finite returns nil for what JSON cannot hold.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// intervalOf returns an estimate's interval, unbounded where an end is nil.
func intervalOf(e rundir.Estimate) stat.Interval {
	i := stat.Interval{Low: math.Inf(-1), High: math.Inf(1)}
	if e.Low != nil {
		i.Low = *e.Low
	}
	if e.High != nil {
		i.High = *e.High
	}
	return i
}

// comparedIn lists the metrics in which a variant of two runs, judged by such times, is compared: those that
// either run has, and the primary one even if neither does.
func comparedIn(older, newer *rundir.Variant, times, primary string) []string {
	known := func(metric string) bool {
		_, before := older.Intervals[metric]
		_, after := newer.Intervals[metric]
		return before || after
	}
	var list []string
	for _, metric := range []string{"throughput", times + ".p50", times + ".p99", "target.cpu_per_request", "capacity"} {
		if known(metric) {
			list = append(list, metric)
		}
	}
	programs := map[string]bool{}
	for _, intervals := range []map[string]rundir.Estimate{older.Intervals, newer.Intervals} {
		for metric := range intervals {
			if strings.HasPrefix(metric, "program.") {
				programs[metric] = true
			}
		}
	}
	list = append(list, slices.Sorted(maps.Keys(programs))...)
	if !slices.Contains(list, primary) {
		list = slices.Insert(list, 0, primary)
	}
	return list
}

// directionOf says which way a metric is good. A plan's metric is one, so a name that is
// none stems from a folder that was edited.
func directionOf(name string) stat.Direction {
	m, _ := lookup(name)
	return m.good()
}

func goodWay(metric string) string {
	if directionOf(metric) == stat.HigherIsBetter {
		return "higher"
	}
	return "lower"
}

func variantOf(run *rundir.Run, name string) *rundir.Variant {
	for i := range run.Variants {
		if run.Variants[i].Name == name {
			return &run.Variants[i]
		}
	}
	return nil
}

func summaryOf(run *rundir.Run) RunSummary {
	return RunSummary{
		Name: run.Name, StartedAt: run.StartedAt, DynoVersion: run.DynoVersion,
		Complete: run.Complete, Valid: run.Valid, Rounds: run.Rounds,
	}
}

// disparities lists what differs between the machines and the plans of two runs. Seeds
// do not count: they change the order and no more.
func disparities(older, newer *rundir.Run) []Disparity {
	found := []Disparity{}
	place := Disparity{Where: OnMachine}
	differ := func(what, before, after string) {
		if before == after {
			return
		}
		x := place
		x.What, x.Old, x.New = what, orUnknown(before), orUnknown(after)
		found = append(found, x)
	}
	a, b := older.Environment, newer.Environment
	differ("host", a.Hostname, b.Hostname)
	differ("system", a.OS+"/"+a.Arch, b.OS+"/"+b.Arch)
	differ("kernel", a.Kernel, b.Kernel)
	differ("CPU model", a.CPUModel, b.CPUModel)
	differ("CPUs", strconv.Itoa(a.CPUs), strconv.Itoa(b.CPUs))
	differ("memory", bytesOf(a.MemoryBytes), bytesOf(b.MemoryBytes))
	differ("virtualization", a.Virtualization, b.Virtualization)
	differ("clock source", a.ClockSource, b.ClockSource)
	differ("CPU governor", a.Governor, b.Governor)
	differ("target's CPUs", cpuList(a.TargetCPUs), cpuList(b.TargetCPUs))
	differ("generator's CPUs", cpuList(a.GeneratorCPUs), cpuList(b.GeneratorCPUs))
	differ("CPUs kept from halting", cpuList(a.AwakeCPUs), cpuList(b.AwakeCPUs))
	differTexts(a.Sysctls, b.Sysctls, differ)
	differ("dyno", older.DynoVersion, newer.DynoVersion)
	differ("dyno's Go", a.GoVersion, b.GoVersion)

	place = Disparity{Where: InPlan}
	p, q := older.Plan, newer.Plan
	differ("protocol", p.Protocol, q.Protocol)
	differ("short form", strconv.FormatBool(p.Short), strconv.FormatBool(q.Short))
	differ("rounds", strconv.Itoa(p.Rounds), strconv.Itoa(q.Rounds))
	differ("stop", p.Stop, q.Stop)
	differ("metric", p.Metric, q.Metric)
	differ("thresholds", strings.Join(p.Thresholds, "; "), strings.Join(q.Thresholds, "; "))
	differ("capacity", searchOf(p.Capacity), searchOf(q.Capacity))
	for _, v := range p.Variants {
		i := slices.IndexFunc(q.Variants, func(w rundir.PlanVariant) bool { return w.Name == v.Name })
		if i < 0 || v.AliasOf != "" {
			continue
		}
		w := q.Variants[i]
		place.Variant = v.Name
		differ("loop", v.Loop, w.Loop)
		differ("connections", strconv.Itoa(v.Connections), strconv.Itoa(w.Connections))
		differ("rate", perSecond(v.Rate), perSecond(w.Rate))
		differ("warm-up", secondsText(v.WarmupSeconds), secondsText(w.WarmupSeconds))
		differ("window", secondsText(v.WindowSeconds), secondsText(w.WindowSeconds))
		differTexts(v.Variables, w.Variables, differ)
	}
	return found
}

// differTexts compares two maps name by name, in the names' order.
func differTexts(a, b map[string]string, differ func(what, before, after string)) {
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		differ(name, a[name], b[name])
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func cpuList(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}

func bytesOf(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10) + " B"
}

func perSecond(rate *float64) string {
	if rate == nil {
		return "none"
	}
	return strconv.FormatFloat(*rate, 'g', -1, 64) + "/s"
}

func secondsText(s float64) string { return strconv.FormatFloat(s, 'g', -1, 64) + " s" }

func searchOf(c *rundir.PlanCapacity) string {
	if c == nil {
		return "no search"
	}
	return fmt.Sprintf("%v to %v/s, resolution %v, %d trials, tolerating %v", c.From, c.To, c.Resolution, c.Trials, c.Tolerate)
}
