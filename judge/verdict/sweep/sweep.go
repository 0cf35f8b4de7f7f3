// Package sweep follows the primary metric along the variables of a sweep: its knee, a law of
// scalability, and plateaus at which the generator was the limit.
package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// draws is how often the rounds of a sweep are resampled, enough for an interval.
const draws = 2000

// leastForKnee is the fewest levels of which a knee is looked for.
const leastForKnee = 5

// curves are the metrics of a dataset along its variables.
type curves struct{ *dataset.Dataset }

// All follows the primary metric along each variable whose values are numbers,
// for each combination of the other variables' values.
func All(of *dataset.Dataset) ([]rundir.Sweep, error) {
	s := curves{of}
	m, ok := dataset.Lookup(s.Plan.PrimaryMetric())
	if !ok {
		return nil, nil
	}
	var list []rundir.Sweep
	for _, d := range s.Plan.Sweep {
		values, ok := numbers(d.Values)
		if !ok {
			continue
		}
		for _, line := range lines(s.Plan, d.Name) {
			w := rundir.Sweep{Variable: d.Name, Fixed: line.fixed, Metric: m.Name}
			for _, v := range line.variants {
				w.Levels = append(w.Levels, rundir.Level{
					Value: values[v.Variables[d.Name]], Variant: v.Name, Figure: s.Whole[v.Name].Intervals[m.Name],
				})
			}
			slices.SortStableFunc(w.Levels, func(a, b rundir.Level) int { return cmp.Compare(a.Value, b.Value) })
			if err := s.shape(&w, m); err != nil {
				return nil, fmt.Errorf("sweep of %s: %w", d.Name, err)
			}
			list = append(list, w)
		}
	}
	return list, nil
}

// numbers reads the values of a variable, if all are different numbers.
func numbers(texts []string) (map[string]float64, bool) {
	values, seen := map[string]float64{}, map[float64]bool{}
	for _, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || seen[v] {
			return nil, false
		}
		values[text], seen[v] = v, true
	}
	return values, true
}

// A line holds the variants of a sweep that differ in one variable only.
type line struct {
	fixed    map[string]string // the others; nil without any
	variants []rundir.PlanVariant
}

// lines groups a sweep's variants, in the plan's order, by all variables but one.
func lines(plan rundir.Plan, variable string) []*line {
	var all []*line
	for _, v := range plan.Variants {
		if v.AliasOf != "" {
			continue
		}
		var fixed map[string]string
		for _, d := range plan.Sweep {
			if d.Name == variable {
				continue
			}
			if fixed == nil {
				fixed = map[string]string{}
			}
			fixed[d.Name] = v.Variables[d.Name]
		}
		i := slices.IndexFunc(all, func(l *line) bool { return maps.Equal(l.fixed, fixed) })
		if i < 0 {
			i, all = len(all), append(all, &line{fixed: fixed})
		}
		all[i].variants = append(all[i].variants, v)
	}
	return all
}

// shape looks for a knee and fits the scalability law, or says why it does not.
func (s curves) shape(w *rundir.Sweep, m dataset.Metric) error {
	var x, y []float64
	for _, l := range w.Levels {
		if l.Figure.Estimate != nil {
			x, y = append(x, l.Value), append(y, *l.Figure.Estimate)
		}
	}
	curve := map[units.Dimension]stat.Curve{units.Rate: stat.Concave, units.Duration: stat.Convex}
	if shape, ok := curve[m.Dimension()]; ok && len(x) >= leastForKnee {
		at, found, err := stat.Knee(x, y, shape, 1)
		if err != nil {
			return err
		}
		if found {
			w.Knee = &x[at]
		}
	}
	w.Detail = s.unfit(w, m)
	if w.Detail == nil {
		var err error
		if w.Scalability, err = s.scalability(x, s.table(w, m)); err != nil {
			why := texts.Together(texts.Reasons(err)...)
			w.Detail = &why
		}
	}
	return nil
}

// unfit says why the scalability law is not fitted; nil if it can be.
func (s curves) unfit(w *rundir.Sweep, m dataset.Metric) *rundir.Message {
	switch {
	case m.Name != rundir.MetricThroughput:
		return new(texts.New("unfitted.metric", "metric", m.Name))
	case s.Plan.Loop == "open":
		return new(texts.New("unfitted.open"))
	case len(w.Levels) < stat.MinLevels:
		return new(texts.New("unfitted.levels", "n", strconv.Itoa(len(w.Levels)), "least", strconv.Itoa(stat.MinLevels)))
	case w.Levels[0].Value < 1:
		return new(texts.New("unfitted.first", "level", fmt.Sprintf("%g", w.Levels[0].Value)))
	}
	if rounds := len(s.table(w, m)); rounds < stat.MinRounds {
		return new(texts.New("unfitted.rounds", "n", strconv.Itoa(rounds), "least", strconv.Itoa(stat.MinRounds)))
	}
	return nil
}

// table returns the metric of each level, in the rounds that have it for all levels.
func (s curves) table(w *rundir.Sweep, m dataset.Metric) (rows [][]float64) {
	for _, round := range slices.Sorted(maps.Keys(s.Rounds[w.Levels[0].Variant])) {
		var row []float64
		for _, l := range w.Levels {
			if f := s.Rounds[l.Variant][round]; f != nil && m.Get(f) != nil {
				row = append(row, *m.Get(f))
			}
		}
		if len(row) == len(w.Levels) {
			rows = append(rows, row)
		}
	}
	return rows
}

// scalability fits the law to rounds of throughputs at the levels.
func (s curves) scalability(levels []float64, rounds [][]float64) (*rundir.Scalability, error) {
	e, err := stat.BootstrapScalability(levels, rounds, nil, stat.Resampling{Draws: draws, Seed: s.Plan.Seed, Confidence: dataset.Confidence})
	if err != nil {
		return nil, err
	}
	resampled := func(v float64, i stat.Interval) rundir.Estimate {
		r := rundir.Estimate{Estimate: &v}
		r.SetInterval(i.Low, i.High, dataset.Confidence, rundir.ByResampledRounds)
		return r
	}
	fit := &rundir.Scalability{
		Lambda: resampled(e.Fit.Lambda, e.Lambda),
		Sigma:  resampled(e.Fit.Sigma, e.Sigma),
		Kappa:  resampled(e.Fit.Kappa, e.Kappa),
		Misfit: e.Misfit,
	}
	if e.Peaked {
		level, peak := resampled(e.PeakLevel, e.PeakLevelInterval), resampled(e.PeakThroughput, e.PeakThroughputInterval)
		fit.PeakLevel, fit.Peak = &level, &peak
		fit.Extrapolated = e.PeakLevel < levels[0] || e.PeakLevel > levels[len(levels)-1]
	}
	return fit, nil
}
