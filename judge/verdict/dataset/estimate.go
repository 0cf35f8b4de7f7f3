package dataset

import (
	"fmt"
	"math"
	"slices"

	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/results/rundir"
)

// Confidence is that of every interval, except in comparisons whose number of rounds
// depended on results.
const Confidence = 0.95

// estimate returns a metric of several trials, given in the order of the rounds,
// with its interval. whole has their figures together: the estimate is that of
// the metric there.
func (m Metric) estimate(whole *Stats, trials []*Stats) (rundir.Estimate, error) {
	e := rundir.Estimate{Estimate: m.Get(whole), Values: valuesOf(trials, m.Get), Interval: rundir.NoInterval}
	var err error
	switch {
	case e.Estimate == nil:
	case rundir.MetricOf(m.Name).IsFact(): // it is what this run counted, or the most it saw, and estimates nothing beyond
	case len(trials) < 2:
	case m.Quantile != nil:
		m.bound(&e, whole, trials)
	case m.Share != nil:
		err = byShares(&e, m, trials)
	case len(e.Values) >= 2:
		err = byStudent(&e)
		if err == nil && m.Width != nil {
			m.widen(&e, trials)
		}
	}
	if m.upTo != nil && err == nil {
		m.raise(&e, whole)
	}
	return e, err
}

// byStudent gives the mean of the values its interval.
func byStudent(e *rundir.Estimate) error {
	values, back := e.Values, func(x float64) float64 { return x }
	if stat.AllPositive(values) && !stat.AllEqual(values) {
		values, back = stat.Logs(values), math.Exp
	}
	m, err := stat.PairedMean(values, Confidence)
	if err != nil {
		return err
	}
	low := back(m.Interval.Low)
	if slices.Min(e.Values) >= 0 {
		low = max(0, low) // a mean of values that are never negative is not negative
	}
	method := rundir.ByStudent
	if slices.Contains(e.Values, 0) && !stat.AllEqual(e.Values) {
		method = rundir.ByStudentWithZero
	}
	e.SetInterval(low, back(m.Interval.High), Confidence, method)
	return nil
}

// widen makes an interval no narrower than the ranges in which the values
// themselves are known to lie.
func (m Metric) widen(e *rundir.Estimate, trials []*Stats) {
	var lows, highs []float64
	for _, t := range trials {
		if low, high, ok := m.Width(t); ok && m.Get(t) != nil {
			lows, highs = append(lows, low), append(highs, high)
		}
	}
	if low, high := stat.Typical(lows), stat.Typical(highs); low != nil {
		*e.Low, *e.High = min(*e.Low, *low), max(*e.High, *high)
	}
}

// withIntervals gives the figures of several trials their intervals.
func withIntervals(f *Stats, trials []*Stats, all []Metric) (*Stats, error) {
	w := *f
	w.Figures, w.Few = map[string]rundir.Estimate{}, map[string]float64{}
	for _, m := range all {
		e, err := m.estimate(&w, trials)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		if e.Estimate != nil {
			w.Figures[m.Name] = e
		} else if m.few != nil {
			if v, few := m.few(&w); v != nil && few {
				w.Few[m.Name] = *v
			}
		}
	}
	return &w, nil
}

// byShares gives an interval to a sum of parts over a sum of wholes, such as errors over
// requests: that of a ratio estimator over trials, linearised (Cochran: Sampling techniques,
// 6.4). A trial counts in proportion to its size.
//
// A share of a whole is between 0 and 1, and so is its interval: it is made on the scale
// of logits, by the delta method. If no trial has any part, the trials show no spread. The
// upper end is the share at which n independent requests have no part with the chance of one
// tail: 1 − (α/2)^(1/n), some 3.7/n at 95 % (Clopper and Pearson: The use of confidence or
// fiducial limits illustrated in the case of the binomial, Biometrika 26, 1934). The rule of
// three, 3/n, is the end of a one-sided interval. If the parts are the whole, the interval
// is mirrored.
func byShares(e *rundir.Estimate, m Metric, trials []*Stats) error {
	var parts, wholes []float64
	sum := 0.0
	for _, t := range trials {
		if part, whole := m.Share(t); whole > 0 {
			parts, wholes = append(parts, part), append(wholes, whole)
			sum += whole
		}
	}
	if len(parts) < 2 {
		return nil
	}
	share := *e.Estimate
	if beyond := -math.Expm1(math.Log((1-Confidence)/2) / sum); m.Dimension() == units.Plain && (share <= 0 || share >= 1) {
		if share <= 0 {
			e.SetInterval(0, beyond, Confidence, rundir.ByClopperPearson)
		} else {
			e.SetInterval(1-beyond, 1, Confidence, rundir.ByClopperPearson)
		}
		return nil
	}
	over, err := stat.PairedMean(linear(share, parts, wholes), Confidence)
	if err != nil {
		return err
	}
	if m.Dimension() != units.Plain {
		// No time is below zero.
		e.SetInterval(max(0, over.Interval.Low), over.Interval.High, Confidence, rundir.ByStudent)
		return nil
	}
	half := (over.Interval.High - over.Interval.Low) / 2 / (share * (1 - share))
	logit := math.Log(share) - math.Log1p(-share)
	expit := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	e.SetInterval(min(share, expit(logit-half)), max(share, expit(logit+half)), Confidence, rundir.ByStudentLogit)
	return nil
}

// linear returns the values of trials whose mean is the sum of the parts over that of the wholes.
func linear(ratio float64, parts, wholes []float64) []float64 {
	sum := 0.0
	for _, whole := range wholes {
		sum += whole
	}
	values := make([]float64, len(parts))
	for i := range parts {
		values[i] = ratio + (parts[i]-ratio*wholes[i])*float64(len(parts))/sum
	}
	return values
}

// bound gives a quantile of merged histograms the interval of its requests.
func (m Metric) bound(e *rundir.Estimate, whole *Stats, trials []*Stats) {
	if x := m.sample(whole, trials); x != nil && len(x.trials) > 1 {
		r := x.Range((1 - Confidence) / 2)
		e.SetInterval(min(r.Low, *e.Estimate), max(r.High, *e.Estimate), Confidence, rundir.ByShare)
	}
}

// raise extends an interval to the largest value that a figure can have.
func (m Metric) raise(e *rundir.Estimate, whole *Stats) {
	high, ok := m.upTo(whole)
	if !ok {
		return
	}
	low := *e.Estimate
	if e.Low != nil {
		low = *e.Low
	}
	if e.High != nil {
		high = max(high, *e.High)
	}
	e.SetInterval(low, high, e.Confidence, rundir.ByOmission)
}
