package dataset

import (
	"math"
	"sort"

	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// Doubt is the chance, at either end, that the requests of a run leave a threshold on the wrong side.
const Doubt = 0.05

// A Sample holds the requests of a variant that stand behind a quantile.
type Sample struct {
	q      float64
	all    *hist.Histogram
	early  *hist.Histogram // those of all that were given up, with the times until then; nil: none
	late   float64         // requests of a step that were given up, whatever their times
	trials []*hist.Histogram
}

// SampleOf returns the requests behind a quantile of a variant; nil if none was recorded.
func (s *Dataset) SampleOf(variant string, m Metric) *Sample {
	return m.sample(s.Whole[variant], s.InOrder(variant))
}

func (m Metric) sample(whole *Stats, trials []*Stats) *Sample {
	if whole == nil || m.Quantile == nil || whole.Histograms[m.Quantile.Tag] == nil {
		return nil
	}
	x := &Sample{q: m.Quantile.Q, all: whole.Histograms[m.Quantile.Tag]}
	if x.all.Count() == 0 {
		return nil
	}
	switch c, _ := rundir.ClockOf(m.Name); {
	case c.Tag != rundir.TagResponse && c.Tag != rundir.TagService:
	case m.Step == "" && c.Tag == rundir.TagResponse:
		x.early = whole.Histograms[rundir.TagGivenUp]
	case m.Step == "":
		x.early = whole.Histograms[rundir.TagGivenService]
	default:
		for i := range whole.Steps {
			if of := &whole.Steps[i]; of.Name == m.Step {
				x.late = float64(of.ByKind[wire.Timeout.String()] + of.ByKind[wire.Unfinished.String()])
			}
		}
	}
	for _, t := range trials {
		if h := t.Histograms[m.Quantile.Tag]; h != nil && h.Count() > 0 {
			x.trials = append(x.trials, h)
		}
	}
	return x
}

// Count is how many requests there are.
func (x *Sample) Count() int64 { return x.all.Count() }

// Measured is the lowest recorded time, in seconds, that no more requests exceed than the quantile allows.
func (x *Sample) Measured() float64 {
	n := float64(x.all.Count())
	return recording.Seconds(float64(x.all.Quantile(math.Ceil(x.q*n-1e-6) / n)))
}

// Above is the share of the requests that took longer than a time, in seconds, or may have: the time's own
// bucket counts, and so does what was given up.
func (x *Sample) Above(seconds float64) float64 {
	return min(x.above(nanoseconds(seconds)-1), float64(x.all.Count())) / float64(x.all.Count())
}

func nanoseconds(seconds float64) int64 {
	return int64(math.Round(min(max(seconds, -1)*1e9, math.MaxInt64/2)))
}

// above counts the requests beyond a time's bucket, and those that were given up before.
func (x *Sample) above(ns int64) float64 {
	n := float64(x.all.Count()-x.all.CountAtOrBelow(ns)) + x.late
	if x.early != nil {
		n += float64(x.early.CountAtOrBelow(ns))
	}
	return n
}

// A Range is the interval of a quantile, in seconds. UpToLow is the share of the requests up to its low end. Without
// enough requests an end is open.
type Range struct{ Low, High, UpToLow float64 }

// Range lies between the recorded times between which the binomial test of the requests above decides neither way. At
// either end the test may be wrong with the given chance. Requests of several trials depend on each other: there the
// test is that of fewer requests (effectiveSize).
//
// So it is the inversion of a test of the share above (Woodruff: Confidence intervals for medians and other position measures,
// JASA 47, 1952), of trials as clusters.
func (x *Sample) Range(wrong float64) (r Range) {
	var lows, highs []int64 // of the buckets
	upTo := []float64{0}    // requests in the first buckets
	x.all.Each(func(low, high, count int64) bool {
		lows, highs, upTo = append(lows, low), append(highs, min(high, x.all.Max())), append(upTo, upTo[len(upTo)-1]+float64(count))
		return true
	})
	n, beyond := upTo[len(lows)], 1-x.q
	// Many requests may be in the quantile's own bucket, such as those of one long stall.
	at := min(sort.SearchFloat64s(upTo[1:], x.q*n), len(lows)-1)
	size := min(x.effectiveSize(lows[at]-1, wrong), x.effectiveSize(highs[at], wrong))
	r = Range{math.Inf(-1), math.Inf(1), 0}
	if i := sort.Search(len(lows), func(i int) bool { return stat.AtLeast((1-upTo[i]/n)*size, size, beyond) > wrong }) - 1; i >= 0 {
		r.Low, r.UpToLow = recording.Seconds(float64(max(lows[i], x.all.Min()))), (upTo[i]+1)/n
	}
	if i := sort.Search(len(highs), func(i int) bool { return stat.AtMost(x.above(highs[i])/n*size, size, beyond) <= wrong }); i < len(highs) {
		r.High = recording.Seconds(float64(highs[i]))
	}
	return r
}

// effectiveSize is how many independent requests say as much of the share above a time as those of the trials.
func (x *Sample) effectiveSize(ns int64, wrong float64) float64 {
	var parts, wholes []float64
	for _, t := range x.trials {
		parts, wholes = append(parts, float64(t.Count()-t.CountAtOrBelow(ns))), append(wholes, float64(t.Count()))
	}
	return stat.EffectiveSize(parts, wholes, wrong)
}
