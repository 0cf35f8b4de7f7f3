package compare

import (
	"math"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// An effect is the result of the rounds for a pair in one metric. It is on the scale of
// logarithms, where a ratio and its inverse are equally far from no effect.
type effect struct {
	logs       []float64 // of each round's ratio
	estimate   float64
	level      float64 // of both figures: the estimate lies half above and half below it
	stdDev     float64
	interval   stat.Interval // at the confidence; known from two rounds on
	confidence float64
	p          float64 // two-sided, for no effect
	method     string
	width      float64 // to either side: how far off each round's ratio may be by itself
	lost       bool    // one of the two lost some rounds
}

// A noRatio says why a pair has no ratio.
type noRatio struct {
	rundir.Message
	zero bool // there are figures, but not all above zero
}

func (e *noRatio) Error() string { return e.String() }

// AsMessage returns the error as a message.
func (e *noRatio) AsMessage() rundir.Message { return e.Message }

// effect returns the effect in the given rounds. Quantiles are compared by ranks, up to
// the number of rounds that ranks can handle; all other metrics by Student's t. If there
// is no effect, the error is a *noRatio.
func (s Comparer) effect(p Pair, m dataset.Metric, rounds dataset.ByRound, confidence float64) (effect, error) {
	e := effect{confidence: confidence, method: rundir.NoInterval}
	var widths float64
	var sums []float64 // of both figures
	lostByVariant := 0
	var second []bool // of a duet: the variant had the second CPU set
	for _, round := range s.roundsOf(p, rounds) {
		f, b := s.sides(p, rounds, round)
		if f == nil || b == nil {
			continue
		}
		if l, lost := lostLog(m, f, b); lost {
			e.lost = true
			e.logs = append(e.logs, l)
			if !lostBy(m, b) {
				lostByVariant++
			}
			continue
		}
		if m.Get(f) == nil || m.Get(b) == nil {
			continue
		}
		over, under := *m.Get(f), *m.Get(b)
		if over <= 0 || under <= 0 {
			return effect{}, &noRatio{texts.New("lacks.positive", "metric", m.Name, "variant", p.Variant, "base", p.Base,
				"over", units.FourDigits(over), "under", units.FourDigits(under), "round", strconv.Itoa(round)), true}
		}
		e.logs, second = append(e.logs, math.Log(over)-math.Log(under)), append(second, f.CPUSet == 1)
		sums = append(sums, math.Log(over)+math.Log(under))
		widths += logWidth(m, f) + logWidth(m, b)
	}
	n := len(e.logs)
	if n == 0 {
		return effect{}, &noRatio{texts.New("lacks.round", "metric", m.Name, "variant", p.Variant, "base", p.Base), false}
	}
	if lostByVariant == n {
		return e.allLost(m)
	}
	if n == 1 {
		e.estimate, e.level = e.logs[0], sum(sums)/2
		return e, e.finite(p, m)
	}
	e.width = widths / float64(n) / 2
	mean, err := stat.PairedMean(e.logs, confidence)
	if err != nil {
		return effect{}, err
	}
	e.level = sum(sums) / float64(n) / 2
	if s.Plan.Duet != nil && !e.lost {
		x, err := stat.Exchanged(e.logs, second, confidence)
		if err != nil {
			return effect{}, err
		}
		level, err := stat.Exchanged(sums, second, confidence)
		if err != nil {
			return effect{}, err
		}
		mean, e.logs, e.level, sums = x.Mean, x.Values, level.Estimate/2, level.Values
	}
	e.estimate, e.stdDev, e.interval, e.p, e.method = mean.Estimate, mean.StdDev, mean.Interval, mean.P, rundir.ByPairedStudent
	if (m.IsRanked() || e.lost) && n <= stat.MaxSignedRank {
		at, err := stat.HodgesLehmann(e.logs, confidence)
		if err != nil {
			return effect{}, err
		}
		rank, err := stat.SignedRank(e.logs)
		if err != nil {
			return effect{}, err
		}
		e.estimate, e.interval, e.p, e.method = at.Estimate, at.Interval, rank.P, rundir.ByHodgesLehmann
		if !e.lost {
			level, err := stat.HodgesLehmann(sums, confidence)
			if err != nil {
				return effect{}, err
			}
			e.level = level.Estimate / 2
		}
	}
	// More rounds do not narrow the bracket around the edge.
	e.interval.Low = min(e.interval.Low, e.estimate-e.width)
	e.interval.High = max(e.interval.High, e.estimate+e.width)
	return e, e.finite(p, m)
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// figures returns what variant and base did in the rounds, by the estimator of the ratio: it is their quotient. They are
// nil if a round was lost, for nothing was measured of it.
func (e effect) figures() (variant, base *float64) {
	if e.lost || e.method == rundir.ByLostRounds {
		return nil, nil
	}
	return new(math.Exp(e.level + e.estimate/2)), new(math.Exp(e.level - e.estimate/2))
}

// ratio returns the effect as a ratio.
func (e effect) ratio() rundir.Estimate {
	estimate := math.Exp(e.estimate)
	r := rundir.Estimate{Estimate: &estimate, Interval: e.method}
	for _, l := range e.logs {
		r.Values = append(r.Values, min(math.Exp(l), math.MaxFloat64))
	}
	if e.method != rundir.NoInterval {
		low, high := e.interval.Low, e.interval.High
		if !math.IsInf(low, 0) {
			low = math.Exp(low)
		}
		if !math.IsInf(high, 0) {
			high = math.Exp(high)
		}
		r.SetInterval(low, high, e.confidence, e.method)
	}
	return r
}

// logWidth is the width of the range in which the figure itself is known to lie. It is
// the logarithm of the ratio of the range's ends. It is 0 for a figure that is a single
// value.
func logWidth(m dataset.Metric, f *dataset.Stats) float64 {
	if m.Width == nil {
		return 0
	}
	low, high, ok := m.Width(f)
	if !ok {
		return 0
	}
	return math.Log(high / low)
}
