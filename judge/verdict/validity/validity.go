// Package validity says what may be said of a variant's figures: a figure is as it is printed, or
// it is bounded, known relative to others only, or not identified. Bounds hold whatever happened
// in disturbed stretches.
package validity

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const (
	// A figure is as it is printed when the disturbances cannot move it by more than
	// withinInterval of its interval's half-width, or withinMargin of the plan's margin.
	WithinInterval = 0.5
	WithinMargin   = 0.25
	// refill is how much longer a target's own work takes, as a share of the time that
	// others used on its CPUs: it finds caches and branch predictors filled by them.
	// Beside a neighbour that used 30 %, it took up to 10 % longer.
	refill = 0.5
	// fewestReadings is how often the speed of the CPUs must have been read in a window
	// before its variation means anything.
	fewestReadings = 5
	// causeSpeed is a cause without a check.
	causeSpeed = "cpu_speed"
)

// An Assessor says how far the figures of a dataset can be relied on.
type Assessor struct{ *dataset.Dataset }

// A Bounds is the range of a figure's true value, whatever happened in the disturbed
// stretches. An infinite end is open.
type Bounds struct {
	Low, High float64
	why       *rundir.Message
	causes    []string
}

// WhyBiased says that a check of some trial found something that spoils all its figures.
func WhyBiased(trials []*dataset.Stats, kind string) *rundir.Message {
	for _, t := range trials {
		for _, f := range t.Flags {
			if f.Kind == kind && kind == checks.FlagOwnLimit { // which says how to raise it
				return f.Because
			}
		}
	}
	if own := "why." + kind; texts.Has(own) {
		return new(texts.New(own))
	}
	return new(texts.New("why.spoilt", "check", kind))
}

// Explain says why a figure is not as it is printed.
func Explain(v *rundir.Validity, why *rundir.Message) {
	v.Because, v.Why = why, why.English()
}

// exact is a figure that nothing disturbed.
func exact(v float64) Bounds { return Bounds{Low: v, High: v} }

// OfVariant says what may be said of a variant's figures.
func (s Assessor) OfVariant(variant string) (list []rundir.Validity) {
	for _, m := range s.Metrics() {
		if CanBeDisturbed(m) && s.Whole[variant].Intervals[m.Name].Estimate != nil {
			list = append(list, s.validity(variant, m))
		}
	}
	return list
}

// CanBeDisturbed tells whether a disturbance can affect a metric at all: it can affect times, and
// counts per time.
func CanBeDisturbed(m dataset.Metric) bool {
	return m.IsThroughput() || m.Name == rundir.MetricCPU || LatencyTag(m) != "" || m.Kind() == rundir.MetricErrorRatio
}

// LatencyTag is the tag of a latency by which the target is judged; empty for all other
// metrics. Send lag is the generator's own, and true.
func LatencyTag(m dataset.Metric) string {
	if c, ok := rundir.ClockOf(m.Name); ok && c.Target {
		return c.Tag
	}
	return ""
}

// validity says what may be said of a figure of one variant.
func (s Assessor) validity(variant string, m dataset.Metric) rundir.Validity {
	f := s.Whole[variant]
	e := f.Intervals[m.Name]
	v := rundir.Validity{Figure: m.Name, Variant: variant, State: rundir.StateOK}
	if e.Estimate == nil {
		return v
	}
	if s.Plan.Duet != nil && m.Kind() != rundir.MetricErrorRatio { // a failure remains one, whatever the neighbour does
		return s.state(v, e, Bounds{math.Inf(-1), math.Inf(1), new(texts.New("why.duet")), nil})
	}
	b := s.Bounds(variant, m)
	return s.state(v, e, b)
}

// state decides what may be said of an estimate with its bounds.
func (s Assessor) state(v rundir.Validity, e rundir.Estimate, b Bounds) rundir.Validity {
	estimate := *e.Estimate
	v.Causes = b.causes
	// An end that cannot be calculated is no end; and JSON knows no NaN.
	known := func(end float64) bool { return !math.IsInf(end, 0) && !math.IsNaN(end) }
	low, high := widened(e, b)
	if known(low) {
		v.Low = &low
	}
	if known(high) {
		v.High = &high
	}
	if v.Low == nil || v.High == nil {
		v.State = rundir.StateNotIdentified
		Explain(&v, b.why)
		return v
	}
	margin := s.Plan.Margin
	if !(margin > 0) {
		margin = 0.02
	}
	allowed := WithinMargin * margin * math.Abs(estimate)
	if w := stat.Ends(e.Low, e.High); e.Interval != rundir.NoInterval && !math.IsInf(w.High-w.Low, 0) {
		allowed = max(allowed, WithinInterval*(w.High-w.Low)/2)
	}
	if max(b.High-estimate, estimate-b.Low) <= allowed {
		v.Low, v.High, v.Causes = nil, nil, nil
		return v
	}
	v.State = rundir.StateBounded
	Explain(&v, b.why)
	return v
}

// widened adds the sampling error to the bounds: at either end the estimate's own
// interval, in proportion.
func widened(e rundir.Estimate, b Bounds) (low, high float64) {
	low, high = b.Low, b.High
	if w := stat.Ends(e.Low, e.High); e.Interval != rundir.NoInterval && *e.Estimate != 0 {
		if !math.IsInf(low, 0) && !math.IsInf(w.Low, 0) {
			low = min(low, low*w.Low / *e.Estimate)
		}
		if !math.IsInf(high, 0) && !math.IsInf(w.High, 0) {
			high = max(high, high*w.High / *e.Estimate)
		}
	}
	return low, high
}

// Bounds returns the range of a variant's true figure.
func (s Assessor) Bounds(variant string, m dataset.Metric) Bounds {
	f, trials := s.Whole[variant], s.InOrder(variant)
	estimate := *f.Intervals[m.Name].Estimate
	if kinds := Biasing(trials, checks.BiasAll); len(kinds) > 0 {
		return Bounds{math.Inf(-1), math.Inf(1), WhyBiased(trials, kinds[0]), kinds}
	}
	switch tag := LatencyTag(m); {
	case tag != "":
		return s.latencyBounds(variant, m, tag)
	case m.IsThroughput():
		b := s.throughputBounds(variant, m, estimate).slower(s.speed(variant, m), -s.working(variant))
		if m.Kind() == rundir.MetricGoodput {
			return s.goodputBounds(b, variant, m, estimate)
		}
		return b
	case m.Name == rundir.MetricCPU:
		return s.cpuBounds(variant, estimate).slower(s.speed(variant, m), 1)
	}
	return exact(estimate)
}

// A speed says by how much the target's CPUs were at times faster and slower than most of
// the time: ratios of how long the same work took, at most and at least 1.
type speed struct{ fastest, slowest float64 }

// speed returns how the speed of the CPUs varied in the trials behind a variant's figure.
// An interval over rounds contains this already: the speed varies between rounds as much
// as within one.
func (s Assessor) speed(variant string, m dataset.Metric) speed {
	steady := speed{1, 1}
	if s.Whole[variant].Intervals[m.Name].Interval != rundir.NoInterval {
		return steady
	}
	var works []float64
	for _, t := range s.InOrder(variant) {
		if t.Disturbance == nil {
			return steady
		}
		works = append(works, t.Disturbance.Works...)
	}
	if len(works) < fewestReadings {
		return steady
	}
	slices.Sort(works)
	middle := works[len(works)/2]
	return speed{works[0] / middle, works[len(works)-1] / middle}
}

// working is how much the throughput of a closed loop depends on the speed of the
// target's CPUs: the share of the available CPU time that the target used. The throughput
// of an open loop does not depend on it.
func (s Assessor) working(variant string) float64 {
	trials := s.InOrder(variant)
	if s.Plan.Variant(variant).Loop != "closed" {
		return 0
	}
	sum := 0.0
	for _, t := range trials {
		sum += busy(t)
	}
	return sum / float64(max(len(trials), 1))
}

// busy is the share that the target used of the CPU time that others left it.
func busy(f *dataset.Stats) float64 {
	switch {
	case f.Target.CPUShare == nil:
		return 0
	case saturated(f):
		return 1
	}
	left := 1 - known0(f.Target.StealShare)
	if f.Disturbance != nil {
		left -= f.Disturbance.Foreign
	}
	return min(max(*f.Target.CPUShare/max(left, 0.01), 0), 1)
}

// slower widens bounds by the effect of the CPUs' speed on a figure that is proportional
// to a power of how long work takes.
func (b Bounds) slower(v speed, power float64) Bounds {
	low, high := math.Pow(v.fastest, power), math.Pow(v.slowest, power)
	low, high = min(low, high), max(low, high)
	if low == 1 && high == 1 {
		return b
	}
	was := b.High - b.Low
	b.Low, b.High = b.Low*low, b.High*high
	b.causes = append(slices.Clone(b.causes), causeSpeed)
	if b.why == nil || !(b.High-b.Low < 2*was) { // it is the most of it
		b.why = new(texts.New("why.speed", "fast", units.Percent(1-v.fastest), "slow", units.Percent(v.slowest-1)))
	}
	return b
}

// Biasing lists the kinds of flags beyond their limits that bias a figure of one of the
// trials.
func Biasing(trials []*dataset.Stats, bias string) (kinds []string) {
	for _, t := range trials {
		for _, f := range t.Flags {
			if f.Spoils && slices.Contains(f.Biases, bias) && !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
	}
	return kinds
}

// latencyBounds bounds a latency. Disturbances make responses late, so the recorded
// figure is the upper end. The exception is a closed loop, in which a late generator
// gives the target less to do. The lower end is that of the clean stretches; nothing is
// assumed about the others. Of a step nobody knows which requests were in clean stretches:
// those that a disturbance may have moved count as if they had all been this step's, and
// its slowest.
func (s Assessor) latencyBounds(variant string, m dataset.Metric, tag string) Bounds {
	f, trials := s.Whole[variant], s.InOrder(variant)
	estimate := *f.Intervals[m.Name].Estimate
	all := f.Histograms[tag]
	if m.Step != "" {
		all = f.Histograms[rundir.StepTag(tag, m.Step)]
	}
	if all == nil || all.Count() == 0 {
		return exact(estimate)
	}
	closed := s.Plan.Variant(variant).Loop == "closed"
	clean, bad, of, contaminated, counted := recording.Times{}, 0.0, 0.0, 0.0, 0.0
	var shortened []disturbance.Shortening
	epsilon := disturbance.Noticeable(estimate)
	causes := map[string]int{}
	for _, t := range trials {
		h := t.Histograms[tag]
		if t.Disturbance == nil || h == nil {
			continue
		}
		d, n := t.Disturbance.Affected(tag, h, closed)
		bad, of = bad+d, of+n
		part, by := t.Disturbance.Contaminated(epsilon, disturbance.LongStall.Seconds())
		contaminated, counted = contaminated+part*n, counted+t.Disturbance.DelayedShare(epsilon)*n
		if c := t.Disturbance.Clean[tag]; c != nil {
			clean.Add(tag, c)
		}
		if closed {
			shortened = append(shortened, t.Disturbance.Shortened...)
			if slices.ContainsFunc(t.Disturbance.Whole, checks.LimitsGenerator) {
				shortened = append(shortened, disturbance.Shortening{Requests: n, By: math.Inf(1)})
			}
		}
		kinds := t.Disturbance.Causes()
		for _, kind := range by {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		for _, kind := range kinds {
			causes[kind]++
		}
	}
	if of == 0 || bad == 0 && contaminated == 0 {
		return exact(estimate)
	}
	if m.Step != "" {
		clean, of = recording.Times{}, float64(all.Count())
	}
	share := min(bad/of, 1)
	// Even of the requests in clean stretches, this many may have been moved.
	moved := min(contaminated/of*(1-share), 1-share)
	b := Bounds{Low: 0, High: estimate, causes: MostFirst(causes), // no time is negative
		why: new(texts.New("why.disturbed", "share", units.Percent(min(share+moved, counted/of, 1))))}
	h := clean[tag]
	switch {
	case m.Quantile != nil:
		// Nothing is assumed about the requests in disturbed stretches. Of the others, in
		// the worst case those that were moved are the slowest and would have been the
		// fastest.
		if low, _ := stat.CleanLevels(m.Quantile.Q-moved, share); low > 0 && h != nil {
			b.Low = min(recording.Seconds(float64(h.Quantile(low))), estimate)
		}
		if level := m.Quantile.Q - share - moved; m.Step != "" && level > 0 {
			b.Low = min(recording.Seconds(float64(all.Quantile(level))), estimate)
		}
		b.Low = max(b.Low, min(lengthenedFrom(all, m.Quantile.Q, epsilon, func(delay float64) float64 {
			sum := 0.0
			for _, t := range trials {
				if h := t.Histograms[tag]; t.Disturbance != nil && h != nil {
					sum += t.Disturbance.DelayedShare(delay) * float64(h.Count())
				}
			}
			return sum / of
		}), estimate))
		if len(shortened) > 0 {
			b.High = max(shortenedTo(all, m.Quantile.Q, shortened), estimate)
		}
	case m.IsMaximum():
		if h != nil {
			b.Low = recording.Seconds(float64(h.Max()))
		}
		if counted < of {
			b.Low = max(b.Low, min(recording.Seconds(float64(all.Quantile(1-counted/of))), estimate))
		}
	default: // the mean: the disturbed ones may have taken no time at all
		if h != nil {
			b.Low = min(max(0, (1-share)*recording.Seconds(h.Mean())-moved*recording.Seconds(float64(h.Max()))), estimate)
		}
		if m.Step != "" {
			b.Low = max(0, estimate-(share+moved)*recording.Seconds(float64(all.Max())))
		}
		for _, x := range shortened {
			if x.Requests > 0 { // nothing times an infinite time is nothing
				b.High += min(x.Requests, of) / of * x.By
			}
		}
	}
	return b
}

// lengthenedFrom bounds a quantile of values from below, a share of which would have been
// shorter. Values delayed by more may in truth have been the fastest, whichever they are.
// A delay of the target lengthens a request by no more than itself, and late arrivals
// delay a queue by no more than the latest of them; a request may meet both. This holds
// for short delays only. Nothing is assumed about the consequences of a long one. An
// infinite bound says that too many were delayed.
func lengthenedFrom(all *hist.Histogram, q, noticed float64, delayed func(by float64) float64) float64 {
	low := math.Inf(-1)
	for delay, less := noticed, 0.0; delay <= max(noticed, disturbance.LongStall.Seconds()); delay *= 1.5 {
		if level := q - delayed(delay); level > 0 {
			if v := recording.Seconds(float64(all.Quantile(level))) - less; v > 0 {
				low = max(low, v)
			}
		}
		less = 2 * 1.5 * delay
	}
	return low
}

// shortenedTo bounds a quantile of values from above, some of which would have been
// longer. Those shortened by much may all have been above it; the others by no more than
// the largest of their shortenings. An infinite bound says that too many would have been
// longer.
func shortenedTo(all *hist.Histogram, q float64, by []disturbance.Shortening) float64 {
	slices.SortFunc(by, func(a, b disturbance.Shortening) int { return cmp.Compare(b.By, a.By) })
	count := float64(all.Count())
	rank := max(q*count, 0.5) // the lowest value stands for a rank below it, which is not one rank below the next
	high, above := math.Inf(1), 0.0
	for i := 0; i <= len(by); i++ {
		more := 0.0
		if i < len(by) {
			more = by[i].By
		}
		if up := (rank + above) / count; up < 1 {
			high = min(high, recording.Seconds(float64(all.Quantile(up)))+more)
		}
		if i < len(by) {
			above += by[i].Requests
		}
	}
	return high
}

// throughputBounds bounds a throughput. In a closed loop, time in which the generator or
// the target had no CPU is lost, and a target at its own limit loses none of the
// generator's. In an open loop the rate is given.
func (s Assessor) throughputBounds(variant string, m dataset.Metric, estimate float64) Bounds {
	trials := s.InOrder(variant)
	if kinds := Biasing(trials, checks.BiasThroughput); slices.ContainsFunc(kinds, checks.LimitsGenerator) {
		return Bounds{estimate, math.Inf(1), new(texts.New("why.generator")), kinds}
	}
	if slices.Contains(s.GeneratorLimited, variant) {
		return Bounds{estimate, math.Inf(1), new(texts.New("why.generator")), []string{checks.FlagPlateau}}
	}
	if s.Plan.Variant(variant).Loop != "closed" {
		return openThroughput(trials, m, estimate)
	}
	sum, n := 0.0, 0
	lostOf, byCause := disturbance.LostTime{}, map[string]float64{}
	for _, t := range trials {
		if t.Disturbance == nil {
			continue
		}
		l := t.Disturbance.Lost
		if saturated(t) {
			// The target lost no more of the generator's time than the time in which it
			// had nothing to do.
			l.Generator = min(l.Generator, max(0, 1-*t.Target.CPUShare-known0(t.Target.StealShare)))
		}
		sum -= math.Log1p(-min(l.Generator+l.Target, 0.99))
		sum += math.Log1p(refill * t.Disturbance.Foreign * busy(t))
		lostOf.Generator, lostOf.Target = max(lostOf.Generator, l.Generator), max(lostOf.Target, l.Target)
		byCause[checks.FlagSteal] += l.Stolen
		byCause[checks.FlagForeignCPU] += l.Target - l.Stolen
		byCause[checks.FlagRunQueue] += l.Generator
		n++
	}
	if n == 0 {
		return exact(estimate)
	}
	b := Bounds{Low: estimate, High: estimate * math.Exp(sum/float64(n))}
	b.why = new(texts.New("why.lost", "generator", units.Percent(lostOf.Generator), "target", units.Percent(lostOf.Target)))
	maps.DeleteFunc(byCause, func(_ string, lost float64) bool { return lost <= 0 })
	b.causes = MostFirst(byCause)
	return b
}

// goodputBounds widens the bounds that hold for a goodput as a throughput. A disturbance
// only lengthens times: it may have moved good answers beyond the goal, and none within. Of a
// step, all that it may have moved count as if they had been this step's.
func (s Assessor) goodputBounds(b Bounds, variant string, m dataset.Metric, estimate float64) Bounds {
	f := s.Whole[variant]
	answers, throughput := f.Tokens, f.Throughput.Estimate
	if m.Step != "" {
		answers = nil
		if i := slices.IndexFunc(f.Steps, func(of rundir.ScenarioStep) bool { return of.Name == m.Step }); i >= 0 {
			answers, throughput = f.Steps[i].Tokens, f.Steps[i].Throughput
		}
	}
	if answers == nil || throughput == nil {
		return b
	}
	closed := s.Plan.Variant(variant).Loop == "closed"
	bad, of := 0.0, 0.0
	causes := map[string]int{}
	// A small delay moves an answer beyond the goal only if it was close to it.
	epsilon := disturbance.Noticeable(known0(answers.FirstToken.P50))
	for _, t := range s.InOrder(variant) {
		h := t.Histograms[rundir.TagFirstToken]
		if t.Disturbance == nil || h == nil {
			continue
		}
		d, n := t.Disturbance.Affected(rundir.TagFirstToken, h, closed)
		part, by := t.Disturbance.Contaminated(epsilon, disturbance.LongStall.Seconds())
		bad, of = bad+min(n, d+part*n), of+n
		for _, kind := range slices.Concat(t.Disturbance.Causes(), by) {
			causes[kind]++
		}
	}
	if bad == 0 {
		return b
	}
	if m.Step != "" {
		of = float64(max(answers.FirstToken.Count, 1))
	}
	all := *throughput
	b.High = max(b.High, estimate+min(bad/of*all, max(0, all-estimate)))
	if b.why == nil {
		b.why, b.causes = new(texts.New("why.disturbed", "share", units.Percent(min(bad/of, 1)))), MostFirst(causes)
	}
	return b
}

// openThroughput bounds the throughput of an open loop. A disturbance at an end of the
// window moves answers to the other side of that end; only answers within the window are
// counted. If no end is disturbed, the target alone decides.
func openThroughput(trials []*dataset.Stats, m dataset.Metric, estimate float64) Bounds {
	off, n := 0.0, 0
	for _, t := range trials {
		if done := m.Get(t); t.Disturbance != nil && t.Disturbance.AtEdge && done != nil && *done > 0 && t.Disturbance.Window > 0 {
			if due := float64(goodResponses(t, m.Step)) / t.Disturbance.Window; due > 0 {
				off += math.Log(due / *done)
			}
		}
		n++
	}
	if n == 0 || off == 0 {
		return exact(estimate)
	}
	other := estimate * math.Exp(off/float64(n))
	return Bounds{min(estimate, other), max(estimate, other),
		new(texts.New("why.edge")), []string{checks.FlagDisturbed}}
}

// goodResponses is how many requests of a trial's window had a good response: of one step, or of
// all.
func goodResponses(t *dataset.Stats, step string) int64 {
	for i := range t.Steps {
		if t.Steps[i].Name == step {
			return t.Steps[i].OK
		}
	}
	return t.Counts.OK
}

// saturated tells whether the target used all the CPU time that it had, including what
// the hypervisor took.
func saturated(f *dataset.Stats) bool {
	t := f.Target
	return t.CPUShare != nil && *t.CPUShare+known0(t.StealShare) >= checks.SaturatedTarget
}

func known0(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// cpuBounds bounds the CPU time of a request. The kernel leaves stolen time out of a
// process's account only approximately. Other programs that ran beside the process share
// its caches.
func (s Assessor) cpuBounds(variant string, estimate float64) Bounds {
	trials := s.InOrder(variant)
	if kinds := Biasing(trials, checks.BiasCPU); len(kinds) > 0 {
		return Bounds{math.Inf(-1), estimate, new(texts.New("why.shared")), kinds}
	}
	stolen, busy, foreign := 0.0, 0.0, 0.0
	for _, t := range trials {
		if t.Disturbance != nil {
			foreign += t.Disturbance.Foreign / float64(len(trials))
		}
		if t.Target.CPUShare != nil && t.Target.StealShare != nil {
			stolen, busy = stolen+*t.Target.StealShare, busy+*t.Target.CPUShare
		}
	}
	b := exact(estimate)
	if foreign > 0 {
		b.Low /= 1 + refill*foreign
		b.why, b.causes = new(texts.New("why.shared")), append(b.causes, checks.FlagForeignCPU)
	}
	if busy > 0 && stolen > 0 {
		b.Low *= max(0, 1-stolen/busy)
		b.why, b.causes = new(texts.New("why.stolen", "share", units.Percent(stolen/busy))), append(b.causes, checks.FlagSteal)
	}
	return b
}

// MarkRelative turns absolute figures that are not identified into relative ones,
// where their ratios stand.
func MarkRelative(list []rundir.Validity) {
	stands := map[[2]string]bool{}
	for _, v := range list {
		if v.Base != "" && v.State == rundir.StateOK {
			stands[[2]string{v.Figure, v.Variant}], stands[[2]string{v.Figure, v.Base}] = true, true
		}
	}
	for i := range list {
		if v := &list[i]; v.Base == "" && v.State == rundir.StateNotIdentified && stands[[2]string{v.Figure, v.Variant}] {
			v.State = rundir.StateRelative
		}
	}
}

// RaiseLows has no lower bound of a latency below the smallest time recorded. That is for
// readers: expressions are decided by bounds that assume nothing.
func (s Assessor) RaiseLows(list []rundir.Validity) {
	for i := range list {
		v := &list[i]
		m, ok := dataset.Lookup(v.Figure)
		if !ok || v.Base != "" || v.Low == nil || LatencyTag(m) == "" {
			continue
		}
		f := s.Whole[v.Variant]
		tag := LatencyTag(m)
		if m.Step != "" {
			tag = rundir.StepTag(tag, m.Step)
		}
		if h := f.Histograms[tag]; h != nil && h.Count() > 0 {
			low := max(*v.Low, min(recording.Seconds(float64(h.Min())), *f.Intervals[v.Figure].Estimate))
			v.Low = &low
		}
	}
}

// MostFirst orders names by how often they came.
func MostFirst[N int | float64](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
