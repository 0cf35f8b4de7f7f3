package validity

import (
	"maps"
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/results/rundir"
)

// A Bounds is the range of a figure's true value, whatever happened in the disturbed
// stretches. An infinite end is open.
type Bounds struct {
	Low, High float64
	why       *rundir.Message
	causes    []string
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
		return s.latencyBounds(variant, m, tag).withClocks(s.ClockError(variant, m))
	case m.IsThroughput():
		b := s.throughputBounds(variant, m, estimate).withSpeed(s.speed(variant, m), -s.cpuDependence(variant))
		if m.Kind() == rundir.MetricGoodput {
			return s.goodputBounds(b, variant, m, estimate)
		}
		return b
	case m.Name == rundir.MetricCPU:
		return s.cpuBounds(variant, estimate).withSpeed(s.speed(variant, m), 1)
	}
	return exact(estimate)
}

// ClockError is by how much a figure of a variant may be wrong, either way, because the clocks of several machines
// are in it.
func (s Assessor) ClockError(variant string, m dataset.Metric) (seconds float64) {
	if f := s.Whole[variant]; f != nil && f.Streams != nil && LatencyTag(m) == rundir.TagDelivery {
		return f.Streams.DeliveryError
	}
	return 0
}

// WhyClocks says that figures have an error of clocks.
func WhyClocks(seconds float64) rundir.Message {
	return texts.New("why.agents", "error", units.ShortTime(seconds))
}

// withClocks widens bounds by the error of clocks.
func (b Bounds) withClocks(seconds float64) Bounds {
	if seconds == 0 {
		return b
	}
	b.Low, b.High = max(0, b.Low-seconds), b.High+seconds
	why := []rundir.Message{WhyClocks(seconds)}
	if b.why != nil {
		why = append(why, *b.why)
	}
	b.why, b.causes = texts.Joint(why), append([]string{rundir.CauseAgentClocks}, b.causes...)
	return b
}

// A speed says by how much the target's CPUs were at times faster and slower than usual, as
// ratios of how long the same work took: fastest is at most 1, slowest at least 1.
type speed struct{ fastest, slowest float64 }

// speed returns how the speed of the CPUs varied in the trials that a variant's figure is made of.
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

// cpuDependence is how much the throughput of a closed loop depends on the speed of the
// target's CPUs: the share of the available CPU time that the target used. The throughput
// of an open loop does not depend on it.
func (s Assessor) cpuDependence(variant string) float64 {
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
	left := 1 - orZero(f.Target.StealShare)
	if f.Disturbance != nil {
		left -= f.Disturbance.Foreign
	}
	return min(max(*f.Target.CPUShare/max(left, 0.01), 0), 1)
}

// withSpeed widens bounds by the effect of the CPUs' speed on a figure that is proportional
// to a power of how long work takes.
func (b Bounds) withSpeed(v speed, power float64) Bounds {
	low, high := math.Pow(v.fastest, power), math.Pow(v.slowest, power)
	low, high = min(low, high), max(low, high)
	if low == 1 && high == 1 {
		return b
	}
	was := b.High - b.Low
	b.Low, b.High = b.Low*low, b.High*high
	b.causes = append(slices.Clone(b.causes), causeSpeed)
	if b.why == nil || !(b.High-b.Low < 2*was) { // the speed is most of it
		b.why = new(texts.New("why.speed", "fast", units.Percent(1-v.fastest), "slow", units.Percent(v.slowest-1)))
	}
	return b
}

// Biasing lists the kinds of flags beyond their limits that bias a figure of one of the
// trials.
func Biasing(trials []*dataset.Stats, bias string) (kinds []string) {
	for _, t := range trials {
		for _, f := range t.Flags {
			if f.Disturbs && slices.Contains(f.Biases, bias) && !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
	}
	return kinds
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
			l.Generator = min(l.Generator, max(0, 1-*t.Target.CPUShare-orZero(t.Target.StealShare)))
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
// only lengthens times: it may have moved good answers beyond the goal, and moved none within it.
// For a step, all answers that it may have moved count as this step's.
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
	epsilon := disturbance.Noticeable(orZero(answers.FirstToken.P50))
	for _, t := range s.InOrder(variant) {
		h := t.Histograms[rundir.TagFirstToken]
		if t.Disturbance == nil || h == nil {
			continue
		}
		d, n := t.Disturbance.Affected(rundir.TagFirstToken, h, closed)
		part, by := t.Disturbance.ShortlyDelayed(epsilon)
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
	return t.CPUShare != nil && *t.CPUShare+orZero(t.StealShare) >= checks.SaturatedTarget
}

// orZero is a value, or 0 if it is not known.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// cpuBounds bounds the CPU time of a request. The kernel leaves stolen time out of a
// process's account only approximately. Other programs that ran at the same time share
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
