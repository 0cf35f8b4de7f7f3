package validity

import (
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A Bounds is the range of a figure's true value. An infinite end is open.
type Bounds struct {
	Low, High float64
	why       *rundir.Message
	causes    []string
}

// exact is a figure that nothing disturbed.
func exact(v float64) Bounds { return Bounds{Low: v, High: v} }

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

// latencyBounds bounds a latency. Disturbances make responses late, so the recorded figure is the upper end.
func (s Assessor) latencyBounds(variant string, m dataset.Metric, tag string) Bounds {
	estimate := *s.Whole[variant].Intervals[m.Name].Estimate
	d := s.delayed(variant, m, tag, estimate)
	if d.share == 0 {
		return exact(estimate)
	}
	var low float64
	switch {
	case m.Quantile != nil:
		low = d.quantile(m.Quantile.Q - d.share)
	case m.IsMaximum():
		low = d.quantile(1 - max(d.share, 1/float64(d.all.Count())))
	default:
		low = d.leastMean()
	}
	return Bounds{min(low, estimate), estimate, d.why(), d.causes}
}

// Widened lowers the low end of a quantile's range by what disturbances may have done to the
// requests there, and says what that is.
func (s Assessor) Widened(variant string, m dataset.Metric, r dataset.Range) (low, high float64, why *rundir.Message) {
	if kinds := Biasing(s.InOrder(variant), checks.BiasAll); len(kinds) > 0 {
		return math.Inf(-1), math.Inf(1), WhyBiased(s.InOrder(variant), kinds[0])
	}
	tag := LatencyTag(m)
	switch {
	case s.Plan.Duet != nil:
		return math.Inf(-1), math.Inf(1), new(texts.New("why.duet"))
	case tag == "":
		return r.Low, r.High, nil
	}
	b := Bounds{Low: r.Low, High: r.High}
	if d := s.delayed(variant, m, tag, r.Low); d.share > 0 && r.Low > 0 {
		b.Low, b.why = min(r.Low, d.quantile(r.UpToLow-d.share)), d.why()
	}
	b = b.withClocks(s.ClockError(variant, m))
	return b.Low, b.High, b.why
}

// A delayed is the share of a variant's values of a clock that may have been delayed. Which they are is not known: they
// count as the slowest, and as if they had been the fastest.
type delayed struct {
	share  float64
	causes []string
	all    *hist.Histogram
}

// delayed finds the share of the values that may have been delayed by so much that a latency notices it. Of a step
// nobody knows which were: they count as if they had all been this step's.
func (s Assessor) delayed(variant string, m dataset.Metric, tag string, latency float64) (d delayed) {
	d.all = s.Whole[variant].Histograms[tag]
	if m.Step != "" {
		d.all = s.Whole[variant].Histograms[rundir.StepTag(tag, m.Step)]
	}
	if d.all == nil || d.all.Count() == 0 {
		return d
	}
	moved, causes := s.moved(variant, tag, latency)
	d.share, d.causes = min(moved/float64(d.all.Count()), 1), causes
	return d
}

// why says what disturbed the values.
func (d *delayed) why() *rundir.Message {
	return new(texts.New("why.disturbed", "share", units.Percent(d.share)))
}

// quantile is a quantile of all values, in seconds: the smallest for q below 0.
func (d *delayed) quantile(q float64) float64 {
	return recording.Seconds(float64(d.all.Quantile(max(q, 0))))
}

// leastMean is the mean of the values if those that were delayed were the largest, and as small as the smallest.
func (d *delayed) leastMean() (mean float64) {
	const parts = 200
	for i := range parts {
		mean += (1 - d.share) * d.quantile((1-d.share)*float64(i)/parts) / parts // the lower end of each part
	}
	return mean + d.share*d.quantile(0)
}

// moved is how many values of a clock may have been delayed by so much that a latency notices it.
func (s Assessor) moved(variant, tag string, latency float64) (n float64, causes []string) {
	by := map[string]float64{}
	for _, t := range s.InOrder(variant) {
		if h := t.Histograms[tag]; t.Disturbance != nil && h != nil {
			share, kinds := t.Disturbance.Delayed(disturbance.Noticeable(latency))
			n += share * float64(h.Count())
			for i, kind := range kinds {
				by[kind] += share / float64(i+1)
			}
		}
	}
	return n, checks.MostFirst(by)
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
// the target had no CPU is lost. In an open loop the rate is given.
func (s Assessor) throughputBounds(variant string, estimate float64) Bounds {
	trials := s.InOrder(variant)
	kinds := slices.DeleteFunc(Biasing(trials, checks.BiasThroughput), func(kind string) bool { return !checks.LimitsGenerator(kind) })
	if slices.Contains(s.GeneratorLimited, variant) {
		kinds = append(kinds, checks.FlagPlateau)
	}
	if len(kinds) > 0 {
		return Bounds{estimate, math.Inf(1), new(texts.New("why.generator")), kinds}
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
	return Bounds{estimate, estimate * math.Exp(sum/float64(len(trials))), new(texts.New("why.lost", "share", units.Percent(most))), checks.MostFirst(causes)}
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
	if answers == nil || throughput == nil || answers.FirstToken.P50 == nil {
		return b
	}
	if moved, causes := s.moved(variant, rundir.TagFirstToken, *answers.FirstToken.P50); moved > 0 {
		share := min(moved/float64(answers.FirstToken.Count), 1)
		b.High = max(b.High, min(estimate+share**throughput, max(estimate, *throughput)))
		b.why, b.causes = new(texts.New("why.disturbed", "share", units.Percent(share))), causes
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
