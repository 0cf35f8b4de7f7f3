package evidence

import (
	"math"

	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// Sampled is evidence for thresholds. Quantiles and shares of errors have the interval that their requests
// leave, which is exact at any number. Disturbances widen it.
type Sampled struct{ *Evidence }

// Value is a metric of one variant.
func (s Sampled) Value(variant, metric string) (expr.Quantity, error) {
	f, err := s.Evidence.Value(variant, metric)
	m, _ := dataset.Lookup(metric)
	if failed, due, ok := s.failed(variant, m); ok && err == nil {
		i := stat.ShareInterval(failed, due, dataset.Doubt)
		f.Low, f.High, f.Bounded = min(f.Low, i.Low), max(f.High, i.High), true
	}
	x := s.SampleOf(variant, m)
	if x == nil {
		return f, err
	}
	if err != nil {
		f.Estimate = x.Measured()
	}
	b := s.Widened(variant, m, x.Range(dataset.Doubt))
	f.Low, f.High = b.Low, b.High
	if f.Bounded = true; f.Low <= 0 { // which is no bound of a time
		f.Low = math.Inf(-1)
	}
	return f, nil
}

// Doubtful says what disturbed the first figure that is not as it is printed; nil if nothing did. It also looks at
// quantiles with too few requests to be printed.
func (s Sampled) Doubtful(figures []expr.Ref) *rundir.Message {
	if why := s.Evidence.Doubtful(figures); why != nil {
		return why
	}
	for _, at := range figures {
		m, _ := dataset.Lookup(at.Metric)
		if x := s.SampleOf(at.Variant, m); x != nil && at.Base == "" {
			if why := s.Widened(at.Variant, m, dataset.Range{Low: x.Measured(), High: x.Measured(), UpToLow: m.Quantile.Q}).Why; why != nil {
				return new(s.SayUnidentified(at, &rundir.Validity{Why: why}))
			}
		}
	}
	return nil
}

// Needed returns how many requests a figure rests on. It also returns how many would show, with the measured
// share, on which side of a limit the figure is; 0 if no number would, or if that is unknown.
func (s *Evidence) Needed(at expr.Ref, limit float64) (requests, needed int64) {
	m, _ := dataset.Lookup(at.Metric)
	if failed, due, ok := s.failed(at.Variant, m); ok {
		return int64(due), stat.Settling(failed/due, limit, dataset.Doubt)
	}
	if x := s.SampleOf(at.Variant, m); x != nil && at.Base == "" {
		return x.Count(), stat.Settling(x.Above(limit), 1-m.Quantile.Q, dataset.Doubt)
	}
	return 0, 0
}

// failed returns how many requests failed, of those that were due, if a metric is their share.
func (s *Evidence) failed(variant string, m dataset.Metric) (failed, due float64, ok bool) {
	if m.Kind() != rundir.MetricErrorRatio || s.Whole[variant] == nil {
		return 0, 0, false
	}
	failed, due = m.Share(s.Whole[variant])
	return failed, due, due > 0
}
