package report

import (
	"strings"

	"dyno/results/rundir"
)

// capacities writes the highest rates at which all thresholds held.
func (p *page) capacities() {
	if len(p.run.Capacities) == 0 {
		return
	}
	p.section("capacity: the highest rate at which all thresholds hold")
	t := table{head: []string{"", "capacity", "rounds", "trials", "limited by"}, left: []int{4}, prose: true}
	for _, c := range p.run.Capacities {
		trials := 0
		for _, s := range c.Searches {
			trials += s.Trials
		}
		rate := rates().estimate(c.Rate)
		if c.Rate.Estimate != nil && !bounded(c.Rate) {
			rate += " " + p.footnote("one search, or none that found both ends: no interval (design.rounds)")
		}
		limit := c.Limit
		if c.Detail != "" {
			limit = strings.TrimPrefix(limit+"; "+c.Detail, "; ")
		}
		t.add(c.Variant, rate, whole(int64(len(c.Searches))), whole(int64(trials)), limit)
	}
	p.table(t)

	p.section("the highest good and the lowest bad rate of each round's search, requests/s")
	t = table{left: []int{1}, prose: true}
	for _, c := range p.run.Capacities {
		var brackets []string
		for _, s := range c.Searches {
			brackets = append(brackets, bracket(s))
		}
		t.add(c.Variant, strings.Join(brackets, ", "))
	}
	p.table(t)
}

// bracket writes what a search found.
func bracket(s rundir.Bracket) string {
	low, high := "below the range", "beyond the range"
	if s.Low != nil {
		low = Count(*s.Low)
	}
	if s.High != nil {
		high = Count(*s.High)
	}
	return low + " … " + high
}
