package verdict

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const (
	// A figure is as it is printed when the disturbances cannot move it by more than
	// withinInterval of its interval's half-width, or withinMargin of the plan's margin.
	withinInterval = 0.5
	withinMargin   = 0.25
	// refill is how much longer a target's own work takes, as a share of the time that
	// others used on its CPUs: it finds caches and branch predictors filled by them.
	// Beside a neighbour that used 30 %, it took up to 10 % longer.
	refill = 0.5
	// fewestReadings is how often the speed of the CPUs must have been read in a window
	// before its variation means anything.
	fewestReadings = 5
	// causeSpeed and causeClocks are causes without a check.
	causeSpeed  = "cpu_speed"
	causeClocks = "clocks"
	// cleanEnough is the share of its requests that every trial of a comparison must have
	// in clean stretches. Otherwise all requests of both sides are used.
	cleanEnough = 0.5
)

// An assessor says how far the figures of a dataset can be relied on.
type assessor struct{ *scene }

// A bounds is the range of a figure's true value, whatever happened in the disturbed
// stretches. An infinite end is open.
type bounds struct {
	low, high float64
	why       *rundir.Message
	causes    []string
}

// spoiltBy says that a check of some trial found something that spoils all its figures.
func spoiltBy(trials []*figures, kind string) *rundir.Message {
	for _, t := range trials {
		for _, f := range t.flags {
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

// explain says why a figure is not as it is printed.
func explain(v *rundir.Validity, why *rundir.Message) {
	v.Because, v.Why = why, why.English()
}

// exact is a figure that nothing disturbed.
func exact(v float64) bounds { return bounds{low: v, high: v} }

// validities returns what may be said of each variant's figures, and of each comparison.
func (s comparer) validities(comparisons []rundir.Comparison) []rundir.Validity {
	list := []rundir.Validity{}
	for _, v := range s.plan.Variants {
		list = append(list, s.own(v.Name)...)
	}
	for _, c := range comparisons {
		if m, ok := lookup(c.Metric); ok {
			list = append(list, s.ratioValidity(pair{variant: c.Variant, base: c.Base, role: c.Role}, m))
		}
	}
	return list
}

// own says what may be said of a variant's figures.
func (s assessor) own(variant string) (list []rundir.Validity) {
	for _, m := range s.metrics() {
		if judged(m) && s.whole[variant].Intervals[m.name].Estimate != nil {
			list = append(list, s.validity(variant, m))
		}
	}
	return list
}

// judged tells whether a disturbance can affect a metric at all: it can affect times, and
// counts per time.
func judged(m metric) bool {
	return m.counting() || m.name == rundir.MetricCPU || latencyTag(m) != "" || m.kind() == rundir.MetricErrorRatio
}

// latencyTag is the tag of a latency by which the target is judged; empty for all other
// metrics. Send lag is the generator's own, and true.
func latencyTag(m metric) string {
	if c, ok := rundir.ClockOf(m.name); ok && c.Target {
		return c.Tag
	}
	return ""
}

// validity says what may be said of a figure of one variant.
func (s assessor) validity(variant string, m metric) rundir.Validity {
	f := s.whole[variant]
	e := f.Intervals[m.name]
	v := rundir.Validity{Figure: m.name, Variant: variant, State: rundir.StateOK}
	if e.Estimate == nil {
		return v
	}
	if s.plan.Duet != nil && m.kind() != rundir.MetricErrorRatio { // a failure remains one, whatever the neighbour does
		return s.state(v, e, bounds{math.Inf(-1), math.Inf(1), new(texts.New("why.duet")), nil})
	}
	b := s.bounds(variant, m)
	return s.state(v, e, b)
}

// state decides what may be said of an estimate with its bounds.
func (s assessor) state(v rundir.Validity, e rundir.Estimate, b bounds) rundir.Validity {
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
		explain(&v, b.why)
		return v
	}
	margin := s.plan.Margin
	if !(margin > 0) {
		margin = 0.02
	}
	allowed := withinMargin * margin * math.Abs(estimate)
	if w := stat.Ends(e.Low, e.High); e.Interval != rundir.NoInterval && !math.IsInf(w.High-w.Low, 0) {
		allowed = max(allowed, withinInterval*(w.High-w.Low)/2)
	}
	if max(b.high-estimate, estimate-b.low) <= allowed {
		v.Low, v.High, v.Causes = nil, nil, nil
		return v
	}
	v.State = rundir.StateBounded
	explain(&v, b.why)
	return v
}

// widened adds the sampling error to the bounds: at either end the estimate's own
// interval, in proportion.
func widened(e rundir.Estimate, b bounds) (low, high float64) {
	low, high = b.low, b.high
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

// bounds returns the range of a variant's true figure.
func (s assessor) bounds(variant string, m metric) bounds {
	f, trials := s.whole[variant], s.inOrder(variant)
	estimate := *f.Intervals[m.name].Estimate
	if kinds := spoiling(trials, checks.BiasAll); len(kinds) > 0 {
		return bounds{math.Inf(-1), math.Inf(1), spoiltBy(trials, kinds[0]), kinds}
	}
	switch tag := latencyTag(m); {
	case tag != "":
		return s.latencyBounds(variant, m, tag)
	case m.counting():
		b := s.throughputBounds(variant, m, estimate).slower(s.speed(variant, m), -s.working(variant))
		if m.kind() == rundir.MetricGoodput {
			return s.goodputBounds(b, variant, m, estimate)
		}
		return b
	case m.name == rundir.MetricCPU:
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
func (s assessor) speed(variant string, m metric) speed {
	steady := speed{1, 1}
	if s.whole[variant].Intervals[m.name].Interval != rundir.NoInterval {
		return steady
	}
	var works []float64
	for _, t := range s.inOrder(variant) {
		if t.disturbed == nil {
			return steady
		}
		works = append(works, t.disturbed.Works...)
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
func (s assessor) working(variant string) float64 {
	trials := s.inOrder(variant)
	if s.plan.Variant(variant).Loop != "closed" {
		return 0
	}
	sum := 0.0
	for _, t := range trials {
		sum += busy(t)
	}
	return sum / float64(max(len(trials), 1))
}

// busy is the share that the target used of the CPU time that others left it.
func busy(f *figures) float64 {
	switch {
	case f.Target.CPUShare == nil:
		return 0
	case saturated(f):
		return 1
	}
	left := 1 - known0(f.Target.StealShare)
	if f.disturbed != nil {
		left -= f.disturbed.Foreign
	}
	return min(max(*f.Target.CPUShare/max(left, 0.01), 0), 1)
}

// slower widens bounds by the effect of the CPUs' speed on a figure that is proportional
// to a power of how long work takes.
func (b bounds) slower(v speed, power float64) bounds {
	low, high := math.Pow(v.fastest, power), math.Pow(v.slowest, power)
	low, high = min(low, high), max(low, high)
	if low == 1 && high == 1 {
		return b
	}
	was := b.high - b.low
	b.low, b.high = b.low*low, b.high*high
	b.causes = append(slices.Clone(b.causes), causeSpeed)
	if b.why == nil || !(b.high-b.low < 2*was) { // it is the most of it
		b.why = new(texts.New("why.speed", "fast", units.Percent(1-v.fastest), "slow", units.Percent(v.slowest-1)))
	}
	return b
}

// spoiling lists the kinds of flags beyond their limits that bias a figure of one of the
// trials.
func spoiling(trials []*figures, bias string) (kinds []string) {
	for _, t := range trials {
		for _, f := range t.flags {
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
func (s assessor) latencyBounds(variant string, m metric, tag string) bounds {
	f, trials := s.whole[variant], s.inOrder(variant)
	estimate := *f.Intervals[m.name].Estimate
	all := f.times[tag]
	if m.step != "" {
		all = f.times[rundir.StepTag(tag, m.step)]
	}
	if all == nil || all.Count() == 0 {
		return exact(estimate)
	}
	closed := s.plan.Variant(variant).Loop == "closed"
	clean, bad, of, contaminated, counted := recording.Times{}, 0.0, 0.0, 0.0, 0.0
	var shortened []disturbance.Shortening
	epsilon := disturbance.Noticeable(estimate)
	causes := map[string]int{}
	for _, t := range trials {
		h := t.times[tag]
		if t.disturbed == nil || h == nil {
			continue
		}
		d, n := t.disturbed.Affected(tag, h, closed)
		bad, of = bad+d, of+n
		part, by := t.disturbed.Contaminated(epsilon, disturbance.LongStall.Seconds())
		contaminated, counted = contaminated+part*n, counted+t.disturbed.DelayedShare(epsilon)*n
		if c := t.disturbed.Clean[tag]; c != nil {
			clean.Add(tag, c)
		}
		if closed {
			shortened = append(shortened, t.disturbed.Shortened...)
			if slices.ContainsFunc(t.disturbed.Whole, checks.LimitsGenerator) {
				shortened = append(shortened, disturbance.Shortening{Requests: n, By: math.Inf(1)})
			}
		}
		kinds := t.disturbed.Causes()
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
	if m.step != "" {
		clean, of = recording.Times{}, float64(all.Count())
	}
	share := min(bad/of, 1)
	// Even of the requests in clean stretches, this many may have been moved.
	moved := min(contaminated/of*(1-share), 1-share)
	b := bounds{low: 0, high: estimate, causes: mostFirst(causes), // no time is negative
		why: new(texts.New("why.disturbed", "share", units.Percent(min(share+moved, counted/of, 1))))}
	h := clean[tag]
	switch {
	case m.quantile != nil:
		// Nothing is assumed about the requests in disturbed stretches. Of the others, in
		// the worst case those that were moved are the slowest and would have been the
		// fastest.
		if low, _ := stat.CleanLevels(m.quantile.q-moved, share); low > 0 && h != nil {
			b.low = min(recording.Seconds(float64(h.Quantile(low))), estimate)
		}
		if level := m.quantile.q - share - moved; m.step != "" && level > 0 {
			b.low = min(recording.Seconds(float64(all.Quantile(level))), estimate)
		}
		b.low = max(b.low, min(lengthenedFrom(all, m.quantile.q, epsilon, func(delay float64) float64 {
			sum := 0.0
			for _, t := range trials {
				if h := t.times[tag]; t.disturbed != nil && h != nil {
					sum += t.disturbed.DelayedShare(delay) * float64(h.Count())
				}
			}
			return sum / of
		}), estimate))
		if len(shortened) > 0 {
			b.high = max(shortenedTo(all, m.quantile.q, shortened), estimate)
		}
	case m.isMaximum():
		if h != nil {
			b.low = recording.Seconds(float64(h.Max()))
		}
		if counted < of {
			b.low = max(b.low, min(recording.Seconds(float64(all.Quantile(1-counted/of))), estimate))
		}
	default: // the mean: the disturbed ones may have taken no time at all
		if h != nil {
			b.low = min(max(0, (1-share)*recording.Seconds(h.Mean())-moved*recording.Seconds(float64(h.Max()))), estimate)
		}
		if m.step != "" {
			b.low = max(0, estimate-(share+moved)*recording.Seconds(float64(all.Max())))
		}
		for _, x := range shortened {
			if x.Requests > 0 { // nothing times an infinite time is nothing
				b.high += min(x.Requests, of) / of * x.By
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
func (s assessor) throughputBounds(variant string, m metric, estimate float64) bounds {
	trials := s.inOrder(variant)
	if kinds := spoiling(trials, checks.BiasThroughput); slices.ContainsFunc(kinds, checks.LimitsGenerator) {
		return bounds{estimate, math.Inf(1), new(texts.New("why.generator")), kinds}
	}
	if slices.Contains(s.spent, variant) {
		return bounds{estimate, math.Inf(1), new(texts.New("why.generator")), []string{checks.FlagPlateau}}
	}
	if s.plan.Variant(variant).Loop != "closed" {
		return openThroughput(trials, m, estimate)
	}
	sum, n := 0.0, 0
	lostOf, byCause := disturbance.LostTime{}, map[string]float64{}
	for _, t := range trials {
		if t.disturbed == nil {
			continue
		}
		l := t.disturbed.Lost
		if saturated(t) {
			// The target lost no more of the generator's time than the time in which it
			// had nothing to do.
			l.Generator = min(l.Generator, max(0, 1-*t.Target.CPUShare-known0(t.Target.StealShare)))
		}
		sum -= math.Log1p(-min(l.Generator+l.Target, 0.99))
		sum += math.Log1p(refill * t.disturbed.Foreign * busy(t))
		lostOf.Generator, lostOf.Target = max(lostOf.Generator, l.Generator), max(lostOf.Target, l.Target)
		byCause[checks.FlagSteal] += l.Stolen
		byCause[checks.FlagForeignCPU] += l.Target - l.Stolen
		byCause[checks.FlagRunQueue] += l.Generator
		n++
	}
	if n == 0 {
		return exact(estimate)
	}
	b := bounds{low: estimate, high: estimate * math.Exp(sum/float64(n))}
	b.why = new(texts.New("why.lost", "generator", units.Percent(lostOf.Generator), "target", units.Percent(lostOf.Target)))
	maps.DeleteFunc(byCause, func(_ string, lost float64) bool { return lost <= 0 })
	b.causes = mostFirst(byCause)
	return b
}

// goodputBounds widens the bounds that hold for a goodput as a throughput. A disturbance
// only lengthens times: it may have moved good answers beyond the goal, and none within. Of a
// step, all that it may have moved count as if they had been this step's.
func (s assessor) goodputBounds(b bounds, variant string, m metric, estimate float64) bounds {
	f := s.whole[variant]
	answers, throughput := f.Tokens, f.Throughput.Estimate
	if m.step != "" {
		answers = nil
		if i := slices.IndexFunc(f.Steps, func(of rundir.ScenarioStep) bool { return of.Name == m.step }); i >= 0 {
			answers, throughput = f.Steps[i].Tokens, f.Steps[i].Throughput
		}
	}
	if answers == nil || throughput == nil {
		return b
	}
	closed := s.plan.Variant(variant).Loop == "closed"
	bad, of := 0.0, 0.0
	causes := map[string]int{}
	// A small delay moves an answer beyond the goal only if it was close to it.
	epsilon := disturbance.Noticeable(known0(answers.FirstToken.P50))
	for _, t := range s.inOrder(variant) {
		h := t.times[rundir.TagFirstToken]
		if t.disturbed == nil || h == nil {
			continue
		}
		d, n := t.disturbed.Affected(rundir.TagFirstToken, h, closed)
		part, by := t.disturbed.Contaminated(epsilon, disturbance.LongStall.Seconds())
		bad, of = bad+min(n, d+part*n), of+n
		for _, kind := range slices.Concat(t.disturbed.Causes(), by) {
			causes[kind]++
		}
	}
	if bad == 0 {
		return b
	}
	if m.step != "" {
		of = float64(max(answers.FirstToken.Count, 1))
	}
	all := *throughput
	b.high = max(b.high, estimate+min(bad/of*all, max(0, all-estimate)))
	if b.why == nil {
		b.why, b.causes = new(texts.New("why.disturbed", "share", units.Percent(min(bad/of, 1)))), mostFirst(causes)
	}
	return b
}

// openThroughput bounds the throughput of an open loop. A disturbance at an end of the
// window moves answers to the other side of that end; only answers within the window are
// counted. If no end is disturbed, the target alone decides.
func openThroughput(trials []*figures, m metric, estimate float64) bounds {
	off, n := 0.0, 0
	for _, t := range trials {
		if done := m.get(t); t.disturbed != nil && t.disturbed.AtEdge && done != nil && *done > 0 && t.disturbed.Window > 0 {
			if due := float64(goodResponses(t, m.step)) / t.disturbed.Window; due > 0 {
				off += math.Log(due / *done)
			}
		}
		n++
	}
	if n == 0 || off == 0 {
		return exact(estimate)
	}
	other := estimate * math.Exp(off/float64(n))
	return bounds{min(estimate, other), max(estimate, other),
		new(texts.New("why.edge")), []string{checks.FlagDisturbed}}
}

// goodResponses is how many requests of a trial's window had a good response: of one step, or of
// all.
func goodResponses(t *figures, step string) int64 {
	for i := range t.Steps {
		if t.Steps[i].Name == step {
			return t.Steps[i].OK
		}
	}
	return t.Counts.OK
}

// saturated tells whether the target used all the CPU time that it had, including what
// the hypervisor took.
func saturated(f *figures) bool {
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
func (s assessor) cpuBounds(variant string, estimate float64) bounds {
	trials := s.inOrder(variant)
	if kinds := spoiling(trials, checks.BiasCPU); len(kinds) > 0 {
		return bounds{math.Inf(-1), estimate, new(texts.New("why.shared")), kinds}
	}
	stolen, busy, foreign := 0.0, 0.0, 0.0
	for _, t := range trials {
		if t.disturbed != nil {
			foreign += t.disturbed.Foreign / float64(len(trials))
		}
		if t.Target.CPUShare != nil && t.Target.StealShare != nil {
			stolen, busy = stolen+*t.Target.StealShare, busy+*t.Target.CPUShare
		}
	}
	b := exact(estimate)
	if foreign > 0 {
		b.low /= 1 + refill*foreign
		b.why, b.causes = new(texts.New("why.shared")), append(b.causes, checks.FlagForeignCPU)
	}
	if busy > 0 && stolen > 0 {
		b.low *= max(0, 1-stolen/busy)
		b.why, b.causes = new(texts.New("why.stolen", "share", units.Percent(stolen/busy))), append(b.causes, checks.FlagSteal)
	}
	return b
}

// ratioValidity returns what may be said of a comparison. A disturbance of both variants
// alike is in its interval already. A disturbance of one variant more than the other bounds
// it. A generator that was the limit of either makes it meaningless.
func (s comparer) ratioValidity(p pair, m metric) rundir.Validity {
	v := rundir.Validity{Figure: m.name, Variant: p.variant, Base: p.base, State: rundir.StateOK}
	bad := func(why *rundir.Message, causes ...string) rundir.Validity {
		v.State, v.Causes = rundir.StateNotIdentified, causes
		explain(&v, why)
		return v
	}
	if why := s.duetFault(p, m); why != nil {
		return bad(why)
	}
	trials := slices.Concat(s.inOrder(p.variant), s.inOrder(p.base))
	if kinds := spoiling(trials, checks.BiasAll); len(kinds) > 0 {
		return bad(spoiltBy(trials, kinds[0]), kinds...)
	}
	if m.counting() {
		kinds := spoiling(trials, checks.BiasThroughput)
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return !checks.LimitsGenerator(k) })
		if slices.Contains(s.spent, p.variant) || slices.Contains(s.spent, p.base) {
			kinds = append(kinds, checks.FlagPlateau)
		}
		if len(kinds) > 0 {
			return bad(new(texts.New("why.alike")), kinds...)
		}
	}
	if latencyTag(m) != "" {
		for _, t := range trials {
			if t.disturbed != nil && slices.ContainsFunc(t.disturbed.Whole, checks.LimitsGenerator) {
				return bad(new(texts.New("why.alike")), t.disturbed.Whole...)
			}
		}
		if _, same := s.sameClock(p, m); !same {
			return bad(new(texts.New("why.clocks", "variant", p.variant, "base", p.base)), causeClocks)
		}
	}
	if why, causes := s.uneven(p, m); why != nil {
		return s.unevenValidity(v, p, m, why, causes)
	}
	return v
}

// otherClock tells whether most of one variant's responses ended at their arrival, and
// most of the other's at the read. The generator's read delay is then in one side of the
// ratio only.
func (s comparer) otherClock(p pair, m metric) bool {
	if tag := latencyTag(m); tag == rundir.TagConnect || tag == rundir.TagHandshake || tag == rundir.TagOpening {
		return false // a connection that opens bears no stamp
	}
	ends := func(variant string) *rundir.Ends {
		if f := s.whole[variant]; f != nil {
			return f.Ends
		}
		return nil
	}
	a, b := ends(p.variant), ends(p.base)
	return a != nil && b != nil && a.ArrivalShare != nil && b.ArrivalShare != nil && math.Abs(*a.ArrivalShare-*b.ArrivalShare) > 0.5
}

// sameClock returns a metric that ends the responses of both variants by the same clock,
// if there is one. For the service time, the read is always recorded.
func (s comparer) sameClock(p pair, m metric) (alike metric, same bool) {
	if !s.otherClock(p, m) {
		return m, true
	}
	if latencyTag(m) != rundir.TagService || m.step != "" {
		return m, false
	}
	alike, same = lookup(rundir.TagServiceRead + strings.TrimPrefix(m.name, rundir.TagService))
	alike.name = m.name
	return alike, same
}

// masked returns the metric by which a pair is compared: by the same clock, and by the
// clean stretches of both if those hold enough requests.
func (s comparer) masked(p pair, m metric, rounds byRound) metric {
	if latencyTag(m) == "" {
		return m
	}
	m, _ = s.sameClock(p, m)
	if m.quantile == nil || m.step != "" || s.plan.Duet != nil { // of a duet, both halves had the same stretches
		return m
	}
	tag := m.quantile.tag
	for _, variant := range []string{p.variant, p.base} {
		for _, f := range rounds[variant] {
			if f.disturbed == nil || f.times[tag] == nil {
				return m
			}
			if bad, of := f.disturbed.Affected(tag, f.times[tag], false); bad > (1-cleanEnough)*of {
				return m
			}
			if f.disturbed.CleanQuantile(tag, m.quantile.q) == nil && m.get(f) != nil {
				return m
			}
		}
	}
	q := m.quantile.q
	m.get = func(f *figures) *float64 { return f.disturbed.CleanQuantile(tag, q) }
	return m
}

// markRelative turns absolute figures that are not identified into relative ones,
// where their ratios stand.
func markRelative(list []rundir.Validity) {
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

// raiseLows has no lower bound of a latency below the smallest time recorded. That is for
// readers: expressions are decided by bounds that assume nothing.
func (s assessor) raiseLows(list []rundir.Validity) {
	for i := range list {
		v := &list[i]
		m, ok := lookup(v.Figure)
		if !ok || v.Base != "" || v.Low == nil || latencyTag(m) == "" {
			continue
		}
		f := s.whole[v.Variant]
		tag := latencyTag(m)
		if m.step != "" {
			tag = rundir.StepTag(tag, m.step)
		}
		if h := f.times[tag]; h != nil && h.Count() > 0 {
			low := max(*v.Low, min(recording.Seconds(float64(h.Min())), *f.Intervals[v.Figure].Estimate))
			v.Low = &low
		}
	}
}
