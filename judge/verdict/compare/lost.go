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

// A variant loses a round when its target ended or answered nothing. In such a round it
// is worse by as much as possible. Leaving the round out would make the variant look
// better. A logarithm of zero would make any mean of logarithms not a number.
//
// Where more is better, a lost round has a ratio of zero. The pair is then compared by
// ranks (Hodges-Lehmann and signed ranks): the smallest value has the first rank, however
// small it is. On the scale of logarithms lostRound represents such a ratio. It is so far
// out that its mean with any ratio of two figures is zero again, or infinite. For times,
// a lost round counts as at least the window's length, which is how long dyno waited. A
// variant that lost every round is worse without any test.
const lostRound = 2000

// lostBy tells whether the target lost the trial, as far as the metric goes. A metric
// that only some trials have, such as CPU time per request, is not known for such a
// trial.
func lostBy(m dataset.Metric, f *dataset.Stats) bool {
	v := m.Get(f)
	switch {
	case m.IsThroughput():
		return v != nil && *v <= 0 || v == nil && f.Lost
	case m.Name == rundir.MetricCapacity:
		return false
	case m.Quantile != nil:
		return f.Lost
	case m.IsProgram() && m.Dimension() == units.Rate:
		return f.Lost || v != nil && *v <= 0
	}
	return false
}

// lostLog is the value that replaces the logarithm of a ratio where one of the two lost
// the round.
func lostLog(m dataset.Metric, f, b *dataset.Stats) (log float64, lost bool) {
	over, under := lostBy(m, f), lostBy(m, b)
	switch {
	case !over && !under:
		return 0, false
	case over && under:
		return 0, true
	case m.Quantile != nil:
		if x, y := leastTime(m, f), leastTime(m, b); x > 0 && y > 0 {
			return math.Log(x / y), true
		}
		return 0, false // the other has no figure
	case over:
		return -lostRound, true
	}
	return lostRound, true
}

// leastTime is a time, in seconds; for a lost trial, at least the window's length.
func leastTime(m dataset.Metric, f *dataset.Stats) float64 {
	v := m.Get(f)
	switch {
	case lostBy(m, f) && v != nil:
		return max(f.Waited, *v)
	case lostBy(m, f):
		return f.Waited
	case v != nil:
		return *v
	}
	return 0
}

// allLost is the effect for a variant that lost every round while its base lost none. For
// times only a lower bound is known.
func (e effect) allLost(m dataset.Metric) (effect, error) {
	mean := 0.0
	for _, l := range e.logs {
		mean += l / float64(len(e.logs))
	}
	e.estimate, e.method = mean, rundir.ByLostRounds
	e.interval = stat.Interval{Low: mean, High: mean}
	if m.Quantile != nil {
		e.interval.High = math.Inf(1)
	}
	if len(e.logs) > 1 {
		rank, err := stat.SignedRank(e.logs)
		if err != nil {
			return effect{}, err
		}
		e.p = rank.P
	}
	return e, nil
}

// finite returns why a pair has no ratio if the base lost enough rounds to make it infinite.
func (e effect) finite(p Pair, m dataset.Metric) error {
	if e.estimate < lostRound/4 {
		return nil
	}
	return &noRatio{texts.New("lacks.base", "metric", m.Name, "variant", p.Variant, "base", p.Base, "n", strconv.Itoa(len(e.logs))), true}
}

// isLost tells whether a round's ratio is that of a lost round.
func isLost(ratio float64) bool { return ratio == 0 || ratio == math.MaxFloat64 }
