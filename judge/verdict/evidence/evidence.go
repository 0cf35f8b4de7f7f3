// Package evidence gives expressions the figures of a dataset, each with what may be said of it.
package evidence

import (
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// Evidence has the figures of a dataset with what may be said of each, for expressions.
type Evidence struct {
	compare.Comparer
	// trusted holds what may be said of figures: of a variant's, or of its ratio to a base.
	trusted map[expr.Ref]rundir.Validity
}

var _ expr.Evidence = (*Evidence)(nil)

// New joins the figures of a dataset with what may be said of them.
func New(c compare.Comparer, validities []rundir.Validity) *Evidence {
	s := &Evidence{c, map[expr.Ref]rundir.Validity{}}
	for _, v := range validities {
		s.trusted[expr.Ref{Metric: v.Figure, Variant: v.Variant, Base: v.Base}] = v
	}
	return s
}

// Validity returns what may be said of a figure, if anything is.
func (s *Evidence) Validity(at expr.Ref) rundir.Validity { return s.trusted[at] }

// IsDisturbed tells whether disturbances can have moved a figure.
func (s *Evidence) IsDisturbed(at expr.Ref) bool {
	v := s.trusted[at]
	return v.Low != nil || v.High != nil || v.State == rundir.StateNotIdentified
}

// Value is a metric of one variant.
func (s *Evidence) Value(variant, metric string) (expr.Quantity, error) {
	f := s.Whole[variant]
	if f == nil {
		return expr.Quantity{}, texts.NewError("lacks.variant", "variant", variant)
	}
	e, ok := f.Figures[metric]
	switch {
	case ok && e.Estimate != nil:
		f := figureOf(e)
		f.Bounded = f.Bounded || rundir.MetricOf(metric).IsFact() // it has no uncertainty
		if v, ok := s.trusted[expr.Ref{Metric: metric, Variant: variant, Base: ""}]; ok && (v.State != rundir.StateOK || v.Low != nil) {
			w := stat.Ends(v.Low, v.High)
			f.Low, f.High, f.Bounded = w.Low, w.High, true
		}
		return f, nil
	case metric == rundir.MetricCapacity:
		return expr.Quantity{}, texts.NewError("lacks.capacity", "variant", variant)
	case f.Trials == 0:
		return expr.Quantity{}, texts.NewError("lacks.trial", "variant", variant)
	}
	return expr.Quantity{}, texts.NewError("lacks.figure", "metric", metric, "variant", variant)
}

// Ratio is a metric of one variant over that of another, paired by rounds.
func (s *Evidence) Ratio(variant, base, metric string) (expr.Quantity, error) {
	m, ok := dataset.Lookup(metric)
	if !ok {
		return expr.Quantity{}, texts.NewError("lacks.figure", "metric", metric, "variant", variant)
	}
	p := compare.Pair{Variant: variant, Base: base}
	if v := s.RatioValidity(p, m); v.State == rundir.StateNotIdentified {
		return expr.Quantity{}, &texts.Error{Message: texts.New("lacks.ratio", "metric", m.Name, "variant", variant, "base", base).With("why", reasonOf(&v))}
	}
	e, err := s.PairedRatio(p, m)
	if err != nil {
		return expr.Quantity{}, err
	}
	return figureOf(e), nil
}

// Slope is the growth of a gauge of the target.
func (s *Evidence) Slope(variant, gauge string) (expr.Quantity, error) {
	return steepest(s.Trends, variant, gauge)
}

// Spread is how much a metric of one variant varied from trial to trial. What disturbed some
// trials more than others is part of it. A bias that all trials share is not: it changes the
// mean as it changes the standard deviation.
func (s *Evidence) Spread(variant, metric string) (expr.Quantity, error) {
	if _, err := s.Value(variant, metric); err != nil {
		return expr.Quantity{}, err
	}
	values := s.Whole[variant].Figures[metric].Values
	if len(values) < 2 {
		return expr.Quantity{}, texts.NewError("lacks.spread", "metric", metric, "variant", variant)
	}
	for _, v := range values {
		if !(v > 0) {
			return expr.Quantity{}, texts.NewError("lacks.spread.positive", "metric", metric, "variant", variant, "value", units.FourDigits(v))
		}
	}
	c, err := stat.CoefficientOfVariation(values, dataset.Confidence)
	if err != nil {
		return expr.Quantity{}, err
	}
	f := expr.Quantity{Estimate: c.Estimate, Low: c.Interval.Low, High: c.Interval.High, Bounded: true}
	if s.trusted[expr.Ref{Metric: metric, Variant: variant, Base: ""}].State == rundir.StateNotIdentified {
		f.Low, f.High = 0, math.Inf(1)
	}
	return f, nil
}

// figureOf reads an estimate that is known.
func figureOf(e rundir.Estimate) expr.Quantity {
	f := expr.Quantity{Estimate: *e.Estimate, Low: *e.Estimate, High: *e.Estimate, Bounded: e.Interval != rundir.NoInterval}
	if !f.Bounded {
		return f
	}
	w := stat.Ends(e.Low, e.High)
	f.Low, f.High = w.Low, w.High
	return f
}

// steepest returns the slope of a variant's gauge, per second and relative to its level
// when the window began. If there are several trials, it is the largest.
func steepest(ts []rundir.Trend, variant, gauge string) (expr.Quantity, error) {
	var (
		most *rundir.Trend
		why  = texts.New("lacks.gauge")
	)
	for i := range ts {
		t := &ts[i]
		switch {
		case t.Variant != variant || t.Metric != gauge:
		case t.Slope.Estimate == nil:
			why = texts.New("lacks.growth", "trial", strconv.Itoa(t.Trial)).With("why", *t.Detail)
		case most == nil || *t.Slope.Estimate > *most.Slope.Estimate:
			most = t
		}
	}
	if most == nil {
		return expr.Quantity{}, &texts.Error{Message: texts.New("lacks.slope", "gauge", gauge, "variant", variant).With("why", why)}
	}
	w := stat.Ends(most.Slope.Low, most.Slope.High)
	return expr.Quantity{Estimate: *most.Slope.Estimate, Low: w.Low, High: w.High, Bounded: true}, nil
}

// soundRounds is how many undisturbed rounds figures need to speak against a claim. A ratio needs none if it has
// enoughRounds: what disturbs both variants of each round moves their ratio little.
const (
	soundRounds  = 2
	enoughRounds = 4
)

// FewRounds says that figures come from too few undisturbed rounds to speak against a claim; nil if they can.
func (s *Evidence) FewRounds(figures []expr.Ref) *rundir.Message {
	for _, at := range figures {
		for _, variant := range []string{at.Variant, at.Base} {
			if variant == "" {
				continue
			}
			rounds := s.InOrder(variant)
			sound := 0
			for _, r := range rounds {
				if !r.IsDisturbed() {
					sound++
				}
			}
			n, of := strconv.Itoa(len(rounds)-sound), strconv.Itoa(len(rounds))
			switch {
			case at.Base == "" && rundir.MetricOf(at.Metric).IsFact() && sound < len(rounds): // which one round can decide
				return new(texts.New("undecided.extreme", "metric", at.Metric, "variant", variant, "n", n, "of", of))
			case sound >= soundRounds || at.Base != "" && len(rounds) >= enoughRounds:
			case len(rounds) < soundRounds:
				return new(texts.New("undecided.one_round"))
			default:
				return new(texts.New("undecided.disturbed", "variant", variant, "n", n, "of", of))
			}
		}
	}
	return nil
}

// Unidentified says why the first figure of several is not identified; nil if all are.
func (s *Evidence) Unidentified(places []expr.Ref) *rundir.Message {
	return s.stateReason(places, rundir.StateNotIdentified, rundir.StateRelative)
}

// Doubtful says what disturbed the first figure of several that is not as it is printed;
// nil if nothing did.
func (s *Evidence) Doubtful(places []expr.Ref) *rundir.Message {
	return s.stateReason(places, rundir.StateNotIdentified, rundir.StateRelative, rundir.StateBounded)
}

// stateReason says why the first figure of several is in one of the states.
func (s *Evidence) stateReason(places []expr.Ref, states ...string) *rundir.Message {
	for _, at := range places {
		v, ok := s.trusted[at]
		if !ok && at.Base != "" {
			if m, known := dataset.Lookup(at.Metric); known {
				v = s.RatioValidity(compare.Pair{Variant: at.Variant, Base: at.Base}, m)
			}
		}
		if slices.Contains(states, v.State) {
			return new(s.SayUnidentified(at, &v))
		}
	}
	return nil
}

// SayUnidentified says that a figure is not identified, and why.
func (s *Evidence) SayUnidentified(at expr.Ref, v *rundir.Validity) rundir.Message {
	var m rundir.Message
	switch {
	case at.Base != "":
		m = texts.New("unidentified.over", "metric", at.Metric, "variant", at.Variant, "base", at.Base)
	case len(s.Plan.Variants) == 1: // which needs no name
		m = texts.New("unidentified.only", "metric", at.Metric)
	default:
		m = texts.New("unidentified", "metric", at.Metric, "variant", at.Variant)
	}
	return m.With("why", reasonOf(v))
}

// reasonOf says why a figure is not as it is printed, as far as that is known.
func reasonOf(v *rundir.Validity) rundir.Message {
	if v.Why == nil {
		return texts.New("why.unknown")
	}
	return *v.Why
}
