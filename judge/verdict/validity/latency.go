package validity

import (
	"cmp"
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

// A latency holds the values behind a latency of a variant, and what disturbances may have done
// to them. Counts are of values, over all trials.
type latency struct {
	estimate float64
	all      *hist.Histogram
	clean    *hist.Histogram // those of clean stretches; nil where nobody knows which these are
	tag      string
	trials   []*dataset.Stats
	step     string // of a scenario, if they are those of a step
	// of is how many values there would be if disturbances had suppressed none, and inDisturbed
	// how many of them are in disturbed stretches.
	of, inDisturbed float64
	// moved is how many values short delays may have moved noticeably, wherever they are, and
	// delayed how many any delay may have moved.
	moved, delayed float64
	noticeable     float64                  // the delay from which a value counts as moved, in seconds
	shortened      []disturbance.Shortening // of a closed loop
	causes         map[string]int           // in how many trials
}

// latencyBounds bounds a latency. Disturbances make responses late, so the recorded
// figure is the upper end. The exception is a closed loop, in which a late generator
// gives the target less to do. The lower end is that of the clean stretches; nothing is
// assumed about the others. Of a step nobody knows which requests were in clean stretches:
// those that a disturbance may have moved count as if they had all been this step's, and
// its slowest.
func (s Assessor) latencyBounds(variant string, m dataset.Metric, tag string) Bounds {
	l := s.latency(variant, m, tag, *s.Whole[variant].Intervals[m.Name].Estimate)
	if !l.isDisturbed() {
		return exact(l.estimate)
	}
	b := Bounds{
		Low: 0, High: l.estimate, // no time is negative
		causes: MostFirst(l.causes),
		why:    l.why(),
	}
	switch {
	case m.Quantile != nil:
		b.Low, b.High = l.leastQuantile(m.Quantile.Q), l.mostQuantile(m.Quantile.Q)
	case m.IsMaximum():
		b.Low = l.leastMaximum()
	default:
		b.Low, b.High = l.leastMean(), l.mostMean()
	}
	return b
}

// Widened lowers the low end of a quantile's range, and raises its high end, by what disturbances may have done to the
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
	if l := s.latency(variant, m, tag, r.High); l.isDisturbed() && !math.IsInf(r.High, 1) {
		b.High, b.why = l.mostQuantile(r.UpToHigh), l.why()
	}
	if l := s.latency(variant, m, tag, r.Low); l.isDisturbed() && r.Low > 0 {
		b.Low, b.why = l.leastQuantile(r.UpToLow), l.why()
	}
	b = b.withClocks(s.ClockError(variant, m))
	return b.Low, b.High, b.why
}

// why says what disturbed the values.
func (l *latency) why() *rundir.Message {
	return new(texts.New("why.disturbed", "share", units.Percent(min(l.disturbedShare()+l.movedShare(), l.delayed/l.of, 1))))
}

// isDisturbed tells whether anything may have moved the values.
func (l *latency) isDisturbed() bool { return l.inDisturbed > 0 || l.moved > 0 }

// latency collects the values behind a latency.
func (s Assessor) latency(variant string, m dataset.Metric, tag string, estimate float64) latency {
	f := s.Whole[variant]
	l := latency{estimate: estimate, tag: tag, step: m.Step, all: f.Histograms[tag], noticeable: disturbance.Noticeable(estimate), causes: map[string]int{}}
	if m.Step != "" {
		l.all = f.Histograms[rundir.StepTag(tag, m.Step)]
	}
	if l.all == nil || l.all.Count() == 0 {
		return l
	}
	closed := s.Plan.Variant(variant).Loop == "closed"
	clean := recording.Times{}
	for _, t := range s.InOrder(variant) {
		if t.Disturbance == nil || t.Histograms[tag] == nil {
			continue
		}
		l.add(t, closed)
		if c := t.Disturbance.Clean[tag]; c != nil {
			clean.Add(tag, c)
		}
	}
	l.clean = clean[tag]
	if m.Step != "" {
		l.clean, l.of = nil, float64(l.all.Count())
	}
	return l
}

// add counts what disturbed a trial's values.
func (l *latency) add(t *dataset.Stats, closed bool) {
	l.trials = append(l.trials, t)
	d := t.Disturbance
	affected, n := d.Affected(l.tag, t.Histograms[l.tag], closed)
	moved, by := d.ShortlyDelayed(l.noticeable)
	l.inDisturbed += affected
	l.of += n
	l.moved += moved * n
	l.delayed += d.DelayedShare(l.noticeable) * n
	if closed {
		l.shortened = append(l.shortened, d.Shortened...)
		if slices.ContainsFunc(d.Whole, checks.LimitsGenerator) {
			l.shortened = append(l.shortened, disturbance.Shortening{Requests: n, By: math.Inf(1)})
		}
	}
	causes := d.Causes()
	for _, kind := range by {
		if !slices.Contains(causes, kind) {
			causes = append(causes, kind)
		}
	}
	for _, kind := range causes {
		l.causes[kind]++
	}
}

// disturbedShare is the share of the values in disturbed stretches.
func (l *latency) disturbedShare() float64 { return min(l.inDisturbed/l.of, 1) }

// movedShare is the share of the values in clean stretches that may have been moved even so.
func (l *latency) movedShare() float64 {
	share := l.disturbedShare()
	return min(l.moved/l.of*(1-share), 1-share)
}

// leastQuantile is the lower end of a quantile. Nothing is assumed about the values in disturbed
// stretches. Of the others, in the worst case those that were moved are the slowest and would
// have been the fastest.
func (l *latency) leastQuantile(q float64) float64 {
	low := 0.0
	if l.step != "" {
		if level := q - l.disturbedShare() - l.movedShare(); level > 0 {
			low = min(recording.Seconds(float64(l.all.Quantile(level))), l.estimate)
		}
	} else if level, _ := stat.CleanLevels(q-l.movedShare(), l.disturbedShare()); level > 0 && l.clean != nil {
		low = min(recording.Seconds(float64(l.clean.Quantile(level))), l.estimate)
	}
	return max(low, min(lengthenedFrom(l.all, q, l.noticeable, l.delayedBy), l.estimate))
}

// delayedBy is the share of the values that may have been delayed by more than a time.
func (l *latency) delayedBy(seconds float64) float64 {
	sum := 0.0
	for _, t := range l.trials {
		sum += t.Disturbance.DelayedShare(seconds) * float64(t.Histograms[l.tag].Count())
	}
	return sum / l.of
}

// mostQuantile is the upper end of a quantile.
func (l *latency) mostQuantile(q float64) float64 {
	if len(l.shortened) == 0 {
		return l.estimate
	}
	return max(shortenedTo(l.all, q, l.shortened), l.estimate)
}

// leastMaximum is the lower end of the longest time: the longest of the clean stretches, and the
// longest that no delay can have made.
func (l *latency) leastMaximum() float64 {
	low := 0.0
	if l.clean != nil {
		low = recording.Seconds(float64(l.clean.Max()))
	}
	if l.delayed < l.of {
		low = max(low, min(recording.Seconds(float64(l.all.Quantile(1-l.delayed/l.of))), l.estimate))
	}
	return low
}

// leastMean is the lower end of the mean: values that were disturbed may have taken no time.
func (l *latency) leastMean() float64 {
	switch {
	case l.step != "":
		return max(0, l.estimate-(l.disturbedShare()+l.movedShare())*recording.Seconds(float64(l.all.Max())))
	case l.clean == nil:
		return 0
	}
	clean := (1 - l.disturbedShare()) * recording.Seconds(l.clean.Mean())
	return min(max(0, clean-l.movedShare()*recording.Seconds(float64(l.clean.Max()))), l.estimate)
}

// mostMean is the upper end of the mean: each shortening comes on top.
func (l *latency) mostMean() float64 {
	high := l.estimate
	for _, x := range l.shortened {
		if x.Requests > 0 { // nothing times an infinite time is nothing
			high += min(x.Requests, l.of) / l.of * x.By
		}
	}
	return high
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
