package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

func (p *page) thresholds() {
	if len(p.Run.Thresholds) == 0 {
		return
	}
	p.Section("thresholds")
	t := layout.Table{Left: []int{1, 2, 3, 4}, Prose: true}
	for rest := p.Run.Thresholds; len(rest) > 0; {
		same := rest[:alike(rest)]
		rest = rest[len(same):]
		kept := !slices.ContainsFunc(same, func(x rundir.Threshold) bool { return !x.OK })
		if len(same) > mostKept && kept {
			t.Add("ok", same[0].Text, fmt.Sprintf("all %d variants", len(same)), p.span(same), "")
			continue
		}
		for _, x := range same {
			t.Add(outcome(x), x.Text, x.Variant, p.Measured(x), x.Detail.English())
		}
	}
	p.Table(t)
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
	from := p.Measured(first)
	to := p.Measured(last)
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
	if len(p.Run.Claims) == 0 {
		return
	}
	p.Section("claims")
	t := layout.Table{Head: []string{"", "outcome", "published", "measured", "claim"}, Left: []int{1, 2, 3, 4}, Prose: true}
	if !p.HasSizes() {
		t.Head, t.Left = slices.Delete(t.Head, 2, 3), t.Left[:3]
	}
	for _, c := range p.Run.Claims {
		row := []string{c.ID, c.Outcome, c.Published, p.Claimed(c), judged.Says(c)}
		if !p.HasSizes() {
			row = slices.Delete(row, 2, 3)
		}
		t.Add(row...)
	}
	p.Table(t)
}
