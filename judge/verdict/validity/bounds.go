package validity

import (
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A Bounds is the range of a figure's true value. An infinite end is open. Why says why it is not the figure alone.
type Bounds struct {
	Low, High float64
	Why       *rundir.Message
	causes    []string
}

// exact is a figure that nothing disturbed.
func exact(v float64) Bounds { return Bounds{Low: v, High: v} }

// Bounds returns the range of a variant's true figure. The longest time is a fact of the run.
func (s Assessor) Bounds(variant string, m dataset.Metric) Bounds {
	estimate := *s.Whole[variant].Figures[m.Name].Estimate
	if m.Quantile != nil {
		return s.Widened(variant, m, dataset.Range{Low: estimate, High: estimate, UpToLow: m.Quantile.Q})
	}
	if b := s.unlimited(variant, m, estimate); b != nil {
		return *b
	}
	switch {
	case LatencyTag(m) != "":
		b := exact(estimate)
		if d := s.delayed(variant, m, estimate); d.share > 0 && !m.IsMaximum() {
			b = Bounds{min(leastMean(d.all, d.share), estimate), estimate, d.why(), d.causes}
		}
		return b.withClocks(s.ClockError(variant, m))
	case m.IsThroughput():
		b := s.throughputBounds(variant, estimate)
		if m.Kind() == rundir.MetricGoodput {
			return s.goodputBounds(b, variant, m, estimate)
		}
		return b
	case m.Name == rundir.MetricCPU:
		return s.cpuBounds(variant, estimate)
	}
	return exact(estimate)
}

// open is what is known of a figure that something disturbed in an unknown way.
func open(why *rundir.Message, causes ...string) Bounds {
	return Bounds{math.Inf(-1), math.Inf(1), why, causes}
}

// unlimited is the range of a figure that a check leaves without a low end, or without any; nil: none does.
func (s Assessor) unlimited(variant string, m dataset.Metric, high float64) *Bounds {
	trials := s.InOrder(variant)
	if kinds := Biasing(trials, checks.BiasAll); len(kinds) > 0 {
		return new(open(WhyBiased(trials, kinds[0]), kinds...))
	}
	if held := held(trials, m); len(held) > 0 {
		return &Bounds{math.Inf(-1), high, WhyBiased(trials, held[0]), held}
	}
	return nil
}

// Widened lowers the low end of a quantile's range by what disturbances may have done to requests.
// It also says what disturbed them.
func (s Assessor) Widened(variant string, m dataset.Metric, r dataset.Range) Bounds {
	if b := s.unlimited(variant, m, r.High); b != nil {
		return *b
	}
	if s.Plan.Duet != nil && LatencyTag(m) != "" {
		return open(new(texts.New("why.duet")))
	}
	b := Bounds{Low: r.Low, High: r.High}
	if d := s.delayed(variant, m, r.Low); d.share > 0 && r.Low > 0 {
		b.Low, b.Why, b.causes = min(r.Low, leastQuantile(d.all, r.UpToLow, d.share)), d.why(), d.causes
	}
	return b.withClocks(s.ClockError(variant, m))
}

// A delayed is the share of a variant's values of a clock that may have been delayed. Which they are is not known: they
// count as the slowest, and as if they had been the fastest.
type delayed struct {
	share  float64
	causes []string
	all    *hist.Histogram
}

// delayed finds the share of the values that may have been delayed by so much that a latency notices it. It is
// unknown which steps these belong to: they count as if they had all been this step's.
func (s Assessor) delayed(variant string, m dataset.Metric, latency float64) (d delayed) {
	tag := LatencyTag(m)
	d.all = s.Whole[variant].Histograms[tag]
	if m.Step != "" {
		d.all = s.Whole[variant].Histograms[rundir.StepTag(tag, m.Step)]
	}
	if d.all == nil || d.all.Count() == 0 {
		return d
	}
	by := map[string]float64{}
	for _, t := range s.InOrder(variant) {
		if h := t.Histograms[tag]; t.Disturbance != nil && h != nil {
			share, kinds := t.Disturbance.Delayed(disturbance.Noticeable(resolution(m), latency))
			share *= float64(h.Count()) / float64(d.all.Count())
			d.share += share
			for i, kind := range kinds {
				by[kind] += share / float64(i+1)
			}
		}
	}
	d.share, d.causes = min(d.share, 1), checks.MostFirst(by)
	return d
}

// why says what disturbed the values.
func (d *delayed) why() *rundir.Message {
	return new(texts.New("why.disturbed", "share", units.Percent(d.share)))
}

// ClockError is by how much the clocks of several machines may make a figure wrong, either way.
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
	if b.Why != nil {
		why = append(why, *b.Why)
	}
	b.Why, b.causes = texts.Joint(why), append([]string{rundir.CauseAgentClocks}, b.causes...)
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

// held lists the flags of dyno's own limits that held requests back, where those can have made a figure
// larger: a response time, or the share of those that failed.
func held(trials []*dataset.Stats, m dataset.Metric) []string {
	if LatencyTag(m) != rundir.TagResponse && m.Kind() != rundir.MetricErrorRatio {
		return nil
	}
	return Biasing(trials, rundir.TagResponse)
}

// throughputBounds bounds a throughput. In a closed loop, time in which the generator or
// the target had no CPU is lost. In an open loop the rate is given.
func (s Assessor) throughputBounds(variant string, estimate float64) Bounds {
	trials := s.InOrder(variant)
	kinds := slices.DeleteFunc(Biasing(trials, checks.BiasThroughput), func(kind string) bool { return !checks.LimitsGenerator(kind) })
	if slices.Contains(s.GeneratorLimited, variant) {
		kinds = append(kinds, checks.FlagPlateau)
	}
	if len(kinds) > 0 {
		why := new(texts.New("why.generator"))
		if slices.Contains(kinds, checks.FlagFewConnections) {
			why = WhyBiased(trials, checks.FlagFewConnections)
		}
		return Bounds{estimate, math.Inf(1), why, kinds}
	}
	sum, most, causes := 0.0, 0.0, map[string]float64{}
	for _, t := range trials {
		if d := t.Disturbance; d != nil && s.Plan.Variant(variant).Loop == "closed" {
			sum, most = sum-math.Log1p(-d.Lost), max(most, d.Lost)
			for i, kind := range d.Causes() {
				causes[kind] += d.Lost / float64(i+1)
			}
		}
	}
	if sum == 0 {
		return exact(estimate)
	}
	return Bounds{estimate, mostThroughput(estimate, -math.Expm1(-sum/float64(len(trials)))), new(texts.New("why.lost", "share", units.Percent(most))), checks.MostFirst(causes)}
}

// goodputBounds widens the bounds that hold for a goodput as a throughput: a disturbance may have moved good answers beyond
// the goal, and moved none within it. For a step, all answers that it may have moved count as this step's.
func (s Assessor) goodputBounds(b Bounds, variant string, m dataset.Metric, estimate float64) Bounds {
	other := func(metric string) (dataset.Metric, *float64) {
		of, _ := dataset.Lookup(strings.Replace(m.Name, rundir.MetricGoodput, metric, 1))
		return of, of.Get(s.Whole[variant])
	}
	_, all := other(rundir.MetricThroughput)
	first, latency := other(rundir.TagFirstToken + ".p50")
	if all == nil || latency == nil {
		return b
	}
	if d := s.delayed(variant, first, *latency); d.share > 0 {
		b.High, b.Why, b.causes = max(b.High, mostGoodput(estimate, *all, d.share)), d.why(), d.causes
	}
	return b
}

// cpuBounds bounds the CPU time of a request. The kernel leaves stolen time out of a
// process's account only approximately. Other programs that ran at the same time share
// its caches.
func (s Assessor) cpuBounds(variant string, estimate float64) Bounds {
	trials := s.InOrder(variant)
	stolen, busy, foreign := 0.0, 0.0, 0.0
	for _, t := range trials {
		if t.Disturbance != nil {
			foreign += t.Disturbance.Foreign / float64(len(trials))
		}
		used, hasUsed := t.Values[rundir.MetricCPUShare]
		if taken, hasTaken := t.Values[rundir.MetricStealShare]; hasUsed && hasTaken {
			stolen, busy = stolen+taken, busy+used
		}
	}
	b := exact(estimate)
	if foreign > 0 {
		b.Why, b.causes = new(texts.New("why.shared")), append(b.causes, checks.FlagForeignCPU)
	}
	inBusy := 0.0 // share of the account that may have been stolen
	if busy > 0 && stolen > 0 {
		inBusy = stolen / busy
		b.Why, b.causes = new(texts.New("why.stolen", "share", units.Percent(inBusy))), append(b.causes, checks.FlagSteal)
	}
	b.Low = leastCPU(estimate, inBusy, foreign)
	return b
}
