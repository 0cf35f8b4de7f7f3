package report

import (
	"cmp"
	"strings"

	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// capacities writes the highest rates at which all thresholds held.
func (p *page) capacities() {
	if len(p.Run.Capacities) == 0 {
		return
	}
	p.Section("capacity: the highest rate at which all thresholds hold")
	t := layout.Table{Head: []string{"", "capacity", "rounds", "trials", "limited by"}, Left: []int{4}, Prose: true}
	for _, c := range p.Run.Capacities {
		trials := 0
		for _, s := range c.Searches {
			trials += s.Trials
		}
		found := p.Run.Variant(c.Variant).Figure(rundir.MetricCapacity)
		rate := figure.Rates().Estimate(found)
		if found.Estimate != nil && !figure.Bounded(found) {
			rate += " " + p.Footnote("one search, or none that found both ends: no interval (design.rounds)")
		}
		limit := cmp.Or(c.Limit, c.LimitBecause.English())
		if c.Detail != nil {
			limit = strings.TrimPrefix(limit+"; "+c.Detail.English(), "; ")
		}
		t.Add(c.Variant, rate, figure.Whole(int64(len(c.Searches))), figure.Whole(int64(trials)), limit)
	}
	p.Table(t)

	p.Section("the highest good and the lowest bad rate of each round's search, requests/s")
	t = layout.Table{Left: []int{1}, Prose: true}
	for _, c := range p.Run.Capacities {
		var brackets []string
		for _, s := range c.Searches {
			brackets = append(brackets, bracket(s))
		}
		t.Add(c.Variant, strings.Join(brackets, ", "))
	}
	p.Table(t)
}

// bracket writes what a search found.
func bracket(s rundir.Bracket) string {
	low, high := "below the range", "beyond the range"
	if s.Low != nil {
		low = figure.Count(*s.Low)
	}
	if s.High != nil {
		high = figure.Count(*s.High)
	}
	return low + " … " + high
}
