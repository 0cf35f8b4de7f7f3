// Package diff compares two finished runs, as they were judged. It is unpaired, and so weaker than
// a comparison within one run.
package diff

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/results/rundir"
)

// These hold for every Difference.
const (
	diffConfidence = 0.95
	defaultMargin  = 0.02 // of runs whose plan has none
)

// A Difference compares two finished runs. It is unpaired, as its caveat says: weaker
// than a comparison within one run.
type Difference struct {
	Caveat  rundir.Message `json:"caveat"`
	Old     Summary        `json:"old"`
	New     Summary        `json:"new"`
	Metric  string         `json:"metric"` // the primary one, of the new run's plan
	Margin  float64        `json:"margin"` // the difference that matters, a share; of the new run's plan
	OnlyOld []string       `json:"only_old,omitempty"`
	OnlyNew []string       `json:"only_new,omitempty"`
	// Disparities are other known differences between the runs.
	Disparities []Disparity      `json:"disparities"`
	Comparisons []Comparison     `json:"comparisons"` // by variant, the plan's order
	Notes       []rundir.Message `json:"notes,omitempty"`
}

// A Summary identifies a run and says whether it is reliable.
type Summary struct {
	Name        string    `json:"name"`
	StartedAt   time.Time `json:"started_at"`
	DynoVersion string    `json:"dyno_version,omitempty"`
	Complete    bool      `json:"complete"`
	Valid       bool      `json:"valid"`
	Rounds      int       `json:"rounds"`
}

// The places of a Disparity. The place of a variant is its name.
const (
	OnMachine = "machine"
	InPlan    = "plan"
)

// A Disparity is one thing, other than results, that differs between two runs. What is dyno's word for
// it, or a setting's or variable's name, verbatim.
type Disparity struct {
	Where   string         `json:"where"`             // machine or plan
	Variant string         `json:"variant,omitempty"` // whose part of the plan
	What    rundir.Message `json:"what"`
	Old     rundir.Message `json:"old"`
	New     rundir.Message `json:"new"`
}

// An Comparison is one variant's metric in both runs. Old and New are as in
// the runs, in the metric's unit; the ratio is new over old, of the geometric means
// over the trials.
type Comparison struct {
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
	// Detectable is the smallest change, a share, that this number of trials finds in four
	// comparisons of five.
	Detectable *float64        `json:"detectable,omitempty"`
	Verdict    string          `json:"verdict"`          // better, worse, equivalent, inconclusive or invalid
	Detail     *rundir.Message `json:"detail,omitempty"` // why there is no ratio
}

// Regressions returns the comparisons in the primary metric in which the new run is worse by more than
// the margin.
func (d *Difference) Regressions() []Comparison {
	var worse []Comparison
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

// TooImprecise returns inconclusive comparisons in the primary metric. They would most likely be
// inconclusive for a regression as large as the margin, too.
func (d *Difference) TooImprecise() []Comparison {
	var found []Comparison
	for _, c := range d.Comparisons {
		undecided := c.Verdict == rundir.Inconclusive || c.Verdict == ""
		if c.Primary && undecided && (c.Detectable == nil || *c.Detectable > d.Margin) {
			found = append(found, c)
		}
	}
	return found
}

// Runs compares two judged runs, variant by variant of the same name: throughput, p50 and p99, CPU per
// request, capacity, what programs printed, and the primary metric. Quantiles are of response times in
// an open loop, and of service times in a closed one. Welch's t on logarithms at 95 % compares the
// values of the trials. A verdict of better or worse must hold after Holm's adjustment over all of it.
// Controls are left out: they are their base once more. Where a figure is not identified in one of the
// runs, the verdict is invalid.
//
// It fails when one of the runs is not judged, or when they have no variant in common.
func Runs(older, newer *rundir.Run) (Difference, error) {
	if err := errors.Join(judgedRun("which.old", older), judgedRun("which.new", newer)); err != nil {
		return Difference{}, err
	}
	d := Difference{
		Caveat: texts.New("differ.caveat"), Old: summaryOf(older), New: summaryOf(newer),
		Metric: newer.Plan.PrimaryMetric(), Margin: newer.Plan.Margin,
		Disparities: disparities(older, newer), Comparisons: []Comparison{},
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
		return Difference{}, texts.NewError("differ.apart", "old", strings.Join(d.OnlyOld, ", "), "new", strings.Join(d.OnlyNew, ", "))
	}
	if err := d.judge(); err != nil {
		return Difference{}, fmt.Errorf("diff: %w", err)
	}
	d.distrust(older, newer)
	d.note(older, newer)
	return d, nil
}

// judgedRun refuses a run that lacks the trials' values.
func judgedRun(which string, run *rundir.Run) error {
	if slices.ContainsFunc(run.Variants, func(v rundir.Variant) bool { return len(v.Figures) > 0 }) {
		return nil
	}
	return &texts.Error{Message: texts.New("differ.unjudged", "name", run.Name).With("which", texts.New(which))}
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
			ratio = stat.Ends(c.Ratio.Low, c.Ratio.High)
		}
		c.Verdict = stat.Judge(ratio, stat.Ends(c.Equivalence.Low, c.Equivalence.High), d.Margin, directionOf(c.Metric)).String()
	}
	return nil
}

// distrust withdraws verdicts that rest on a figure which is not identified in one of the
// runs: two runs do not share their disturbances.
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

// note adds the notes that a reader needs next to the figures.
func (d *Difference) note(older, newer *rundir.Run) {
	add := func(m rundir.Message) { d.Notes = append(d.Notes, m) }
	if older.Name != newer.Name {
		add(texts.New("differ.experiments", "old", older.Name, "new", newer.Name))
	}
	if newer.StartedAt.Before(older.StartedAt) {
		add(texts.New("differ.order"))
	}
	for _, run := range []struct {
		which rundir.Message
		*rundir.Run
	}{{texts.New("which.old"), older}, {texts.New("which.new"), newer}} {
		if !run.Complete {
			add(texts.New("differ.incomplete").With("which", run.which))
		}
		if !run.Valid {
			var why []rundir.Message
			if run.Reason != nil {
				why = append(why, *run.Reason)
			}
			add(texts.New("differ.invalid").With("which", run.which).With("why", why...))
		}
	}
	if len(d.Comparisons) > 0 && !slices.ContainsFunc(d.Comparisons, func(c Comparison) bool { return c.Verdict != rundir.Invalid }) {
		add(texts.New("differ.nothing"))
	}
	on := func(where string) bool {
		return slices.ContainsFunc(d.Disparities, func(x Disparity) bool { return x.Where == where })
	}
	if on(OnMachine) {
		add(texts.New("differ.machine"))
	}
	if on(InPlan) {
		add(texts.New("differ.plan"))
	}
}

// unpaired compares one metric of a variant. The verdict is not final.
func unpaired(older, newer *rundir.Variant, metric string, primary bool) Comparison {
	a, b := older.Figures[metric], newer.Figures[metric]
	c := Comparison{
		Variant: newer.Name, Metric: metric, Primary: primary, Good: goodWay(metric),
		Old: a, New: b, Ratio: rundir.Estimate{Interval: rundir.NoInterval}, Verdict: rundir.Inconclusive,
	}
	u, err := stat.UnpairedRatio(a.Values, b.Values, diffConfidence)
	narrower, fault := stat.UnpairedRatio(a.Values, b.Values, 0.9)
	switch err := errors.Join(err, fault); {
	case errors.Is(err, stat.ErrTooFew):
		c.Detail = new(texts.New("differ.few", "old", strconv.Itoa(len(a.Values)), "new", strconv.Itoa(len(b.Values))))
	case err != nil:
		c.Detail = texts.Joint(texts.Reasons(err))
	}
	if c.Detail != nil {
		return c
	}
	c.Ratio = welch(u, diffConfidence)
	equivalence := welch(narrower, 0.9)
	c.Equivalence = &equivalence
	c.DegreesOfFreedom, c.P, c.Detectable = &u.DF, &u.P, finite(u.Detectable)
	return c
}

// widen keeps the intervals from being narrower than the uncertainty of each value: their
// logarithms may be off by slack together, to either side.
func (c *Comparison) widen(slack float64) {
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

// bracketWidth returns the mean width, in logarithms, of the final brackets of a run's searches for a
// variant's capacity. Rounds that end at the same two rates agree only because the rates are coarse.
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

// finite returns nil for a number that JSON cannot hold.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// comparedIn lists the metrics in which a variant of two runs, judged by such times, is
// compared: those that either run has, and the primary one in any case.
func comparedIn(older, newer *rundir.Variant, times, primary string) []string {
	has := func(metric string) bool {
		_, before := older.Figures[metric]
		_, after := newer.Figures[metric]
		return before || after
	}
	var list []string
	for _, metric := range []string{"throughput", times + ".p50", times + ".p99", "target.cpu_per_request", "capacity"} {
		if has(metric) {
			list = append(list, metric)
		}
	}
	programs := map[string]bool{}
	for _, intervals := range []map[string]rundir.Estimate{older.Figures, newer.Figures} {
		for metric := range intervals {
			if strings.HasPrefix(metric, rundir.OfPrograms) {
				programs[metric] = true
			}
		}
	}
	list = append(list, slices.Sorted(maps.Keys(programs))...)
	for _, step := range stepsOf(older, newer) {
		for _, of := range []string{times + ".p50", times + ".p99"} {
			if metric := rundir.StepMetric(of, step); has(metric) {
				list = append(list, metric)
			}
		}
	}
	if !slices.Contains(list, primary) {
		list = slices.Insert(list, 0, primary)
	}
	return list
}

// stepsOf lists the steps of scenarios, the newer run's first.
func stepsOf(older, newer *rundir.Variant) (names []string) {
	for _, s := range slices.Concat(newer.Steps, older.Steps) {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// directionOf returns which direction of a metric is good.
func directionOf(name string) stat.Direction {
	if rundir.MetricOf(name).Higher {
		return stat.HigherIsBetter
	}
	return stat.LowerIsBetter
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

func summaryOf(run *rundir.Run) Summary {
	return Summary{
		Name: run.Name, StartedAt: run.StartedAt, DynoVersion: run.DynoVersion,
		Complete: run.Complete, Valid: run.Valid, Rounds: run.Rounds,
	}
}

// disparities lists the differences between the machines and the plans of two runs. Seeds
// do not count: they only change the order.
func disparities(older, newer *rundir.Run) []Disparity {
	found := []Disparity{}
	where, variant := OnMachine, ""
	add := func(what, before, after rundir.Message) {
		if !reflect.DeepEqual(before, after) {
			found = append(found, Disparity{where, variant, what, before, after})
		}
	}
	differ := func(item, before, after string) { add(texts.New(item), orUnknown(before), orUnknown(after)) }
	differTexts := func(a, b map[string]string) {
		for _, name := range namesOf(a, b) {
			add(texts.Verbatim(name), orUnknown(a[name]), orUnknown(b[name]))
		}
	}
	a, b := older.Environment, newer.Environment
	differ("item.host", a.Hostname, b.Hostname)
	differ("item.system", a.OS+"/"+a.Arch, b.OS+"/"+b.Arch)
	differ("item.kernel", a.Kernel, b.Kernel)
	differ("item.cpu", a.CPUModel, b.CPUModel)
	differ("item.cpus", strconv.Itoa(a.CPUs), strconv.Itoa(b.CPUs))
	differ("item.memory", bytesOf(a.MemoryBytes), bytesOf(b.MemoryBytes))
	differ("item.virtualization", a.Virtualization, b.Virtualization)
	differ("item.clock", a.ClockSource, b.ClockSource)
	differ("item.governor", a.Governor, b.Governor)
	differ("item.target", units.FormatCPUs(a.TargetCPUs), units.FormatCPUs(b.TargetCPUs))
	differ("item.generator", units.FormatCPUs(a.GeneratorCPUs), units.FormatCPUs(b.GeneratorCPUs))
	differ("item.awake", units.FormatCPUs(a.AwakeCPUs), units.FormatCPUs(b.AwakeCPUs))
	differTexts(a.Sysctls, b.Sysctls)
	differ("item.dyno", older.DynoVersion, newer.DynoVersion)
	differ("item.go", a.GoVersion, b.GoVersion)

	where = InPlan
	p, q := older.Plan, newer.Plan
	differ("item.protocol", p.Protocol, q.Protocol)
	differ("item.short", strconv.FormatBool(p.Short), strconv.FormatBool(q.Short))
	differ("item.rounds", strconv.Itoa(p.Rounds), strconv.Itoa(q.Rounds))
	differ("item.stop", p.Stop, q.Stop)
	differ("item.metric", p.Metric, q.Metric)
	differ("item.thresholds", strings.Join(p.Thresholds, "; "), strings.Join(q.Thresholds, "; "))
	add(texts.New("item.capacity"), searchOf(p.Capacity), searchOf(q.Capacity))
	for _, v := range p.Variants {
		i := slices.IndexFunc(q.Variants, func(w rundir.PlanVariant) bool { return w.Name == v.Name })
		if i < 0 || v.AliasOf != "" {
			continue
		}
		w := q.Variants[i]
		variant = v.Name
		differ("item.loop", v.Loop, w.Loop)
		differ("item.connections", strconv.Itoa(v.Connections), strconv.Itoa(w.Connections))
		add(texts.New("item.rate"), perSecond(v.Rate), perSecond(w.Rate))
		differ("item.warmup", units.FormatSeconds(v.WarmupSeconds), units.FormatSeconds(w.WarmupSeconds))
		differ("item.window", units.FormatSeconds(v.WindowSeconds), units.FormatSeconds(w.WindowSeconds))
		differTexts(v.Variables, w.Variables)
	}
	return found
}

func orUnknown(text string) rundir.Message {
	if text == "" {
		return texts.New("cell.unknown")
	}
	return texts.Verbatim(text)
}

// namesOf lists the names of two maps, in their order.
func namesOf(a, b map[string]string) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func bytesOf(n *int64) string {
	if n == nil {
		return ""
	}
	return units.Sizes().Write(float64(*n))
}

func perSecond(rate *float64) rundir.Message {
	if rate == nil {
		return texts.New("cell.none")
	}
	return texts.Verbatim(units.FormatRate(*rate))
}

func searchOf(c *rundir.PlanCapacity) rundir.Message {
	if c == nil {
		return texts.New("cell.unsearched")
	}
	return texts.New("cell.search", "from", fmt.Sprint(c.From), "to", fmt.Sprint(c.To), "resolution", fmt.Sprint(c.Resolution),
		"trials", strconv.Itoa(c.Trials), "tolerate", fmt.Sprint(c.Tolerate))
}
