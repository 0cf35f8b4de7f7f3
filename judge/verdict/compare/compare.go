// Package compare compares variants by the ratios of their rounds, and says what may be said of
// these ratios. It knows which pairs a plan asks for, when their rounds are enough, and how a
// duet's sides are paired.
package compare

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

// A Comparer compares the variants of a dataset with each other.
type Comparer struct{ validity.Assessor }

// New returns a comparer of a dataset.
func New(d *dataset.Dataset) Comparer { return Comparer{validity.Assessor{Dataset: d}} }

// Compare makes all comparisons, the control's first. It leaves out comparisons for which
// no round has the figures. The notes say where a ratio would have no meaning.
func (s Comparer) Compare() (list []rundir.Comparison, notes []rundir.Message, err error) {
	list = []rundir.Comparison{}
	for _, f := range Families(s.Plan) {
		byMetric := map[string][]*rundir.Comparison{}
		var made []*rundir.Comparison
		for _, p := range f {
			confidence := s.confidence(p)
			for _, m := range s.compared(p) {
				c, err := s.comparison(p, m, confidence)
				var none *noRatio
				switch {
				case errors.As(err, &none):
					if none.zero {
						notes = append(notes, none.Message)
					}
				case err != nil:
					return nil, nil, fmt.Errorf("%s over %s: %s: %w", p.Variant, p.Base, m.Name, err)
				default:
					made = append(made, c)
					byMetric[m.Name] = append(byMetric[m.Name], c)
				}
			}
		}
		for _, metric := range slices.Sorted(maps.Keys(byMetric)) {
			if err := judgeFamily(byMetric[metric], s.Plan.Margin); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", metric, err)
			}
		}
		for _, c := range made {
			list = append(list, *c)
		}
	}
	return list, notes, nil
}

// PairedRatio is a metric of a pair, with its interval: paired by rounds, because neighbours in a
// round ran close together, so that drift cancels.
func (s Comparer) PairedRatio(p Pair, m dataset.Metric) (rundir.Estimate, error) {
	alike, _ := s.sameClock(p, m)
	e, err := s.effect(p, alike, s.Rounds, s.confidence(p))
	if err != nil {
		return rundir.Estimate{}, err
	}
	return s.widen(p, m, e).ratio(), nil
}

// comparison compares a pair in one metric. The verdict is added later.
func (s Comparer) comparison(p Pair, m dataset.Metric, confidence float64) (*rundir.Comparison, error) {
	m, _ = s.sameClock(p, m)
	e, err := s.effect(p, m, s.Rounds, confidence)
	if err != nil {
		return nil, err
	}
	e = s.widen(p, m, e)
	n := len(e.logs)
	c := &rundir.Comparison{
		Base: p.Base, Variant: p.Variant, Metric: m.Name, Role: p.Role,
		Primary: m.Name == s.Plan.PrimaryMetric(), Good: "lower", Rounds: n, Ratio: e.ratio(),
	}
	c.Figure, c.BaseFigure = e.figures()
	if m.Direction() == stat.HigherIsBetter {
		c.Good = "higher"
	}
	if s.LeftOutRounds {
		all, err := s.effect(p, m, s.AllRounds, confidence)
		if err != nil && !errors.As(err, new(*noRatio)) {
			return nil, err
		}
		if err == nil && len(all.logs) > n {
			r := all.ratio()
			c.AllRounds = &r
		}
	}
	if n < 2 {
		return c, nil
	}
	flip, err := stat.SignFlip(e.logs, s.Plan.Seed)
	if err != nil {
		return nil, err
	}
	// The level of the test for equivalence is 5 %, or that of the comparison
	// where it is stricter.
	alpha := min(0.05, 1-confidence)
	same, err := s.effect(p, m, s.Rounds, 1-2*alpha)
	if err != nil {
		return nil, err
	}
	c.P, c.SignFlipP = &e.p, &flip.P
	equivalence := s.widen(p, m, same).ratio()
	equivalence.Values = nil
	c.Equivalence = &equivalence
	if d := math.Expm1(stat.DetectableEffect(e.stdDev, n, confidence, 0.8) + e.width); !e.lost && !math.IsInf(e.interval.Low, 0) && !math.IsInf(d, 0) {
		c.Detectable = &d
	}
	return c, nil
}
