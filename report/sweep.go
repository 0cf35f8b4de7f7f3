package report

import (
	"maps"
	"slices"
	"strings"

	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// sweeps writes a table for each curve, with its knee.
func (p *page) sweeps() {
	for _, s := range p.Run.Sweeps {
		title := s.Metric + " by " + s.Variable
		for _, name := range slices.Sorted(maps.Keys(s.Fixed)) {
			title += ", " + name + " " + s.Fixed[name]
		}
		p.Section(title)
		t := layout.Table{Head: []string{s.Variable, s.Metric, ""}, Left: []int{2}}
		for _, l := range s.Levels {
			text := figure.UnitOf(s.Metric).Estimate(l.Figure)
			if l.Figure.Estimate == nil {
				p.Footnote(fewValues)
			} else if !figure.Bounded(l.Figure) {
				text += " " + p.Footnote("one trial of this level: no interval")
			}
			t.Add(figure.Level(l.Value), text, bar(l, s.Levels))
		}
		p.Table(t)
		if s.Knee != nil {
			p.Line("knee: after %s the curve bends most %s", figure.Level(*s.Knee), p.Footnote("the knee sums up the shape of the curve and has no interval; it is no limit"))
		}
	}
}

// barWidth is how many characters the longest of several bars has.
const barWidth = 40

// bar draws a level next to the others.
func bar(l rundir.Level, all []rundir.Level) string {
	most := 0.
	for _, x := range all {
		if v := x.Figure.Estimate; v != nil {
			most = max(most, *v)
		}
	}
	if l.Figure.Estimate == nil || *l.Figure.Estimate <= 0 || most <= 0 {
		return ""
	}
	return strings.Repeat("▪", max(1, int(barWidth**l.Figure.Estimate/most+0.5)))
}
