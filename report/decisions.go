package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dyno/internal/units"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

func (p *page) thresholds() {
	if len(p.run.Thresholds) == 0 {
		return
	}
	p.section("thresholds")
	t := table{left: []int{1, 2, 3, 4}, prose: true}
	for rest := p.run.Thresholds; len(rest) > 0; {
		same := rest[:alike(rest)]
		rest = rest[len(same):]
		kept := !slices.ContainsFunc(same, func(x rundir.Threshold) bool { return !x.OK })
		if len(same) > mostKept && kept {
			t.add("ok", same[0].Text, fmt.Sprintf("all %d variants", len(same)), p.span(same), "")
			continue
		}
		for _, x := range same {
			t.add(outcome(x), x.Text, x.Variant, p.measured(x.Text, expr.ForThreshold, x.Measured, x.Low, x.High), x.Detail)
		}
	}
	p.table(t)
}

// outcome writes a threshold's outcome so that a threshold that is not kept stands out.
func outcome(x rundir.Threshold) string {
	switch {
	case x.OK:
		return "ok"
	case x.Outcome == rundir.Broken:
		return "BROKEN"
	}
	return "INCONCLUSIVE"
}

// mostKept is how many variants are listed that keep a threshold which all keep.
const mostKept = 3

// alike returns for how many variants in a row the first threshold is listed.
func alike(list []rundir.Threshold) int {
	n := slices.IndexFunc(list, func(x rundir.Threshold) bool { return x.Text != list[0].Text })
	if n < 0 {
		return len(list)
	}
	return n
}

// span writes the lowest and the highest value that was measured, and how far all
// intervals reach.
func (p *page) span(list []rundir.Threshold) string {
	byValue := func(a, b rundir.Threshold) int { return cmp.Compare(value(a.Measured), value(b.Measured)) }
	first, last := slices.MinFunc(list, byValue), slices.MaxFunc(list, byValue)
	from := p.measured(first.Text, expr.ForThreshold, first.Measured, first.Low, first.High)
	to := p.measured(last.Text, expr.ForThreshold, last.Measured, last.Low, last.High)
	if from == to {
		return from
	}
	return from + " to " + to
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN() // sorts before all others, and is written as nothing
	}
	return *v
}

func (p *page) claims() {
	if len(p.run.Claims) == 0 {
		return
	}
	p.section("claims")
	t := table{head: []string{"", "outcome", "measured", "claim"}, left: []int{1, 2, 3}, prose: true}
	for _, c := range p.run.Claims {
		t.add(c.ID, c.Outcome, p.claimed(c), says(c))
	}
	p.table(t)
}

// says is a claim's statement with the reason of its outcome.
func says(c rundir.Claim) string {
	if c.Detail == "" {
		return c.Says
	}
	return c.Says + " (" + c.Detail + ")"
}

// measured writes a measured value with its interval, in the unit that the
// expression knows.
func (p *page) measured(text string, kind expr.Kind, v, low, high *float64) string {
	if v == nil {
		return ""
	}
	of := expr.UnitIn(text, kind, p.run.Plan)
	if of == rundir.SharePerSecond {
		// The expression's growth is that of its own time.
		return over(rundir.Estimate{Estimate: v, Low: low, High: high}, mostSpan) + " in " + units.FormatSeconds(mostSpan)
	}
	u := unit{of.Scale()}
	if low == nil && high == nil || low != nil && high != nil && *low == *v && *high == *v {
		return u.Write(*v)
	}
	return u.Write(*v) + " " + u.ends(rundir.Estimate{Estimate: v, Low: low, High: high})
}
