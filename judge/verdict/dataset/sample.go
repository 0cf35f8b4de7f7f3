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
	whole := s.Whole[variant]
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
	for _, t := range s.InOrder(variant) {
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

// A Range is the interval of a quantile, in seconds, with the share of the requests up to either end. Without enough requests an
// end is open.
type Range struct{ Low, High, UpToLow, UpToHigh float64 }

// Range lies between the recorded times between which the binomial test of the requests above decides neither way. With several
// trials, whose requests depend on each other, their spread decides as well.
func (x *Sample) Range() (r Range, err error) {
	var lows, highs []int64 // of the buckets
	x.all.Each(func(low, high, _ int64) bool {
		lows, highs = append(lows, low), append(highs, min(high, x.all.Max()))
		return true
	})
	n, beyond := float64(x.all.Count()), 1-x.q
	shows := func(ns int64, above bool) bool {
		share := 1 - float64(x.all.CountAtOrBelow(ns))/n
		if above && stat.AtLeast(share*n, n, beyond) > Doubt || !above && stat.AtMost(x.above(ns), n, beyond) > Doubt {
			return false
		}
		between, wrong := x.spread(ns, share)
		err = wrong
		return above && between.Low > beyond || !above && between.High < beyond
	}
	r = Range{math.Inf(-1), math.Inf(1), 0, 1}
	if i := sort.Search(len(lows), func(i int) bool { return !shows(lows[i]-1, true) }) - 1; i >= 0 {
		r.Low, r.UpToLow = recording.Seconds(float64(max(lows[i], x.all.Min()))), float64(x.all.CountAtOrBelow(lows[i]-1)+1)/n
	}
	if i := sort.Search(len(highs), func(i int) bool { return shows(highs[i], false) }); i < len(highs) {
		r.High, r.UpToHigh = recording.Seconds(float64(highs[i])), float64(x.all.CountAtOrBelow(highs[i]))/n
	}
	return r, err
}

// spread is the interval that the trials leave for the share above a time. Trials that all have the same share show
// no spread, and one shows none.
func (x *Sample) spread(ns int64, share float64) (stat.Interval, error) {
	var parts, wholes []float64
	differ := false
	for _, t := range x.trials {
		part, whole := float64(t.Count()-t.CountAtOrBelow(ns)), float64(t.Count())
		parts, wholes = append(parts, part), append(wholes, whole)
		differ = differ || part*wholes[0] != parts[0]*whole
	}
	if !differ || share <= 0 || share >= 1 {
		return stat.Interval{Low: share, High: share}, nil
	}
	return overTrials(share, parts, wholes)
}
