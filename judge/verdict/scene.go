package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/expr"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A scene holds the figures of a run, for comparisons and expressions.
type scene struct {
	plan     rundir.Plan
	whole    map[string]*figures         // by variant, over all trials that count
	rounds   map[string]map[int]*figures // by variant (of a duet by its key, see seatKey) and round, without those left out
	all      map[string]map[int]*figures // the same with them
	seen     map[string]map[int]*figures // those that the rule heard of by which the run ends
	searches map[string][]*bracket       // for capacity, by variant in the rounds' order
	cut      map[string][]*figures       // by variant, of interrupted trials where none stands
	alone    map[string]map[int]*figures // of a duet's base, by the variant without load that was beside it, and round
	trends   []rundir.Trend
	excluded bool     // some rounds were left out
	spent    []string // variants whose throughput the generator limited
	// trusted holds what may be said of figures: of a variant's, or of its ratio to a
	// base.
	trusted map[expr.Ref]rundir.Validity
}

var _ expr.Evidence = (*scene)(nil)

// newScene collects the trials that count.
func newScene(plan rundir.Plan, samples []*sample) *scene {
	s := &scene{
		plan:   plan,
		whole:  map[string]*figures{},
		rounds: map[string]map[int]*figures{},
		all:    map[string]map[int]*figures{},
		seen:   map[string]map[int]*figures{},
		cut:    map[string][]*figures{},
		alone:  map[string]map[int]*figures{},

		searches: map[string][]*bracket{},
	}
	for _, v := range plan.Variants {
		for _, key := range s.keysOf(v.Name) {
			s.rounds[key], s.all[key], s.seen[key] = map[int]*figures{}, map[int]*figures{}, map[int]*figures{}
		}
		s.alone[v.Name] = map[int]*figures{}
	}
	again := measuredAgain(plan, samples)
	for _, x := range samples {
		if x.Purpose == rundir.PurposeIdle && x.Complete && s.alone[x.Beside()] != nil {
			s.alone[x.Beside()][x.Round] = x.figures // a later one takes the place of those before it
		}
		if x.substitute {
			s.cut[x.Variant] = append(s.cut[x.Variant], x.figures)
		}
		key := s.seatKey(x.Variant, x.Beside())
		if !x.counts() || s.all[key] == nil {
			continue
		}
		s.all[key][x.Round] = x.figures
		if !again[x.Round] {
			s.seen[key][x.Round] = x.figures
		}
		if x.excluded {
			s.excluded = true
			continue
		}
		s.rounds[key][x.Round] = x.figures
		s.trends = append(s.trends, x.trends...)
	}
	return s
}

// wholeRounds counts the rounds that hold every variant, and of a duet every pair.
func (s *scene) wholeRounds() int {
	held := map[int]int{}
	for _, rounds := range s.all {
		for round := range rounds {
			held[round]++
		}
	}
	n := 0
	for _, variants := range held {
		if variants == len(s.all) {
			n++
		}
	}
	return n
}

// inOrder returns a variant's figures in the order of the rounds, or else those of its
// interrupted trials.
func (s *scene) inOrder(variant string) []*figures {
	byRound := map[int][]*figures{}
	for _, key := range s.keysOf(variant) {
		for round, f := range s.rounds[key] {
			byRound[round] = append(byRound[round], f)
		}
	}
	var f []*figures
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		f = append(f, byRound[round]...)
	}
	if f == nil {
		return s.cut[variant]
	}
	return f
}

// metrics lists the metrics that may have figures, with those of steps and those that
// programs printed among them.
func (s *scene) metrics() []metric {
	all := append(metrics(), s.ofSteps()...)
	asked := []string{s.plan.PrimaryMetric()}
	for _, at := range expr.RefsIn(s.plan) {
		asked = append(asked, at.Metric)
	}
	for _, name := range asked {
		if _, listed := find(all, name); !listed {
			if m, ok := quantileMetric(name); ok {
				all = append(all, m)
			}
		}
	}
	measures, observed := map[string]bool{}, map[string]bool{}
	for _, v := range s.plan.Variants {
		for _, f := range s.inOrder(v.Name) {
			for name := range f.measures {
				measures[name] = true
			}
			for name := range f.observed {
				observed[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		all = append(all, programMetric(name))
	}
	for _, name := range slices.Sorted(maps.Keys(observed)) {
		all = append(all, observedMetric(name))
	}
	return all
}

// sumUp makes each variant's figures from all trials that count, with their intervals.
func (s *scene) sumUp(samples []*sample) error {
	trials, merged := map[string][]*rundir.Trial{}, map[string]recording.Times{}
	for _, x := range samples {
		if !x.substitute && (!x.counts() || x.excluded) {
			continue
		}
		if merged[x.Variant] == nil {
			merged[x.Variant] = recording.Times{}
		}
		trials[x.Variant] = append(trials[x.Variant], x.Trial)
		merged[x.Variant].AddAll(x.figures.times)
	}
	all := s.metrics()
	for _, v := range s.plan.Variants {
		f := summarize(v.Name, trials[v.Name], merged[v.Name])
		rounds := s.inOrder(v.Name)
		f.capacity = typical(valuesOf(rounds, func(f *figures) *float64 { return f.capacity }))
		var err error
		if s.whole[v.Name], err = withIntervals(f, rounds, all); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

// valuesOf returns the known values of a figure.
func valuesOf(trials []*figures, get func(*figures) *float64) (values []float64) {
	for _, t := range trials {
		if v := get(t); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// Value is a metric of one variant.
func (s *scene) Value(variant, metric string) (expr.Quantity, error) {
	f := s.whole[variant]
	if f == nil {
		return expr.Quantity{}, texts.NewError("lacks.variant", "variant", variant)
	}
	e, ok := f.Intervals[metric]
	switch {
	case ok && e.Estimate != nil:
		f := figureOf(e)
		f.Bounded = f.Bounded || rundir.MetricOf(metric).IsFact() // it has no uncertainty
		if v, ok := s.trusted[expr.Ref{Metric: metric, Variant: variant, Base: ""}]; ok && v.State != rundir.StateOK {
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

// Ratio is a metric of one variant over that of another, paired by rounds:
// neighbours in a round ran close together, so that drift cancels.
func (s *scene) Ratio(variant, base, metric string) (expr.Quantity, error) {
	m, ok := lookup(metric)
	if !ok {
		return expr.Quantity{}, texts.NewError("lacks.figure", "metric", metric, "variant", variant)
	}
	p := pair{variant: variant, base: base}
	if v := s.ratioValidity(p, m); v.State == rundir.StateNotIdentified {
		return expr.Quantity{}, &texts.Error{Message: texts.New("lacks.ratio", "metric", m.name, "variant", variant, "base", base).With("why", reasonOf(&v))}
	}
	e, err := s.effect(p, s.masked(p, m, s.rounds), s.rounds, s.confidence(p))
	if err != nil {
		return expr.Quantity{}, err
	}
	return figureOf(s.widen(p, m, e).ratio()), nil
}

// Slope is the growth of a gauge of the target.
func (s *scene) Slope(variant, gauge string) (expr.Quantity, error) {
	return steepest(s.trends, variant, gauge)
}

// Spread is how much a metric of one variant varied from trial to trial. What disturbed some
// trials more than others is part of it. A bias that all trials share is not: it changes the
// mean as it changes the standard deviation.
func (s *scene) Spread(variant, metric string) (expr.Quantity, error) {
	if _, err := s.Value(variant, metric); err != nil {
		return expr.Quantity{}, err
	}
	values := s.whole[variant].Intervals[metric].Values
	if len(values) < 2 {
		return expr.Quantity{}, texts.NewError("lacks.spread", "metric", metric, "variant", variant)
	}
	for _, v := range values {
		if !(v > 0) {
			return expr.Quantity{}, texts.NewError("lacks.spread.positive", "metric", metric, "variant", variant, "value", units.FourDigits(v))
		}
	}
	c, err := stat.CoefficientOfVariation(values, confidence)
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
			why = texts.New("lacks.growth", "trial", strconv.Itoa(t.Trial)).With("why", texts.OrVerbatim(t.Because, t.Detail))
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
