// Package sweep follows the primary metric along the variables of a sweep: its knee, and plateaus
// at which the generator was the limit.
package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// leastForKnee is the fewest levels of which a knee is looked for.
const leastForKnee = 5

// All follows the primary metric along each variable whose values are numbers,
// for each combination of the other variables' values.
func All(s *dataset.Dataset) ([]rundir.Sweep, error) {
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
					Value: values[v.Variables[d.Name]], Variant: v.Name, Figure: s.Whole[v.Name].Figures[m.Name],
				})
			}
			slices.SortStableFunc(w.Levels, func(a, b rundir.Level) int { return cmp.Compare(a.Value, b.Value) })
			var err error
			if w.Knee, err = knee(w, m); err != nil {
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

// knee returns the level after which a curve bends most, if it has such a level.
func knee(w rundir.Sweep, m dataset.Metric) (*float64, error) {
	var x, y []float64
	for _, l := range w.Levels {
		if l.Figure.Estimate != nil {
			x, y = append(x, l.Value), append(y, *l.Figure.Estimate)
		}
	}
	curve := map[units.Dimension]stat.Curve{units.Rate: stat.Concave, units.Duration: stat.Convex}
	shape, ok := curve[m.Dimension()]
	if !ok || len(x) < leastForKnee {
		return nil, nil
	}
	at, found, err := stat.Knee(x, y, shape, 1)
	if err != nil || !found {
		return nil, err
	}
	return &x[at], nil
}
