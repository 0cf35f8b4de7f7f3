package report

import (
	"maps"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// sweeps writes a table for each curve, with its knee and its fit.
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
		p.scalability(s)
		if s.Detail != nil {
			p.Line("%s", s.Detail.English())
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

// scalability writes the fit of the Universal Scalability Law.
func (p *page) scalability(s rundir.Sweep) {
	f := s.Scalability
	if f == nil {
		return
	}
	law := p.Footnote("X(N) = λN / (1 + σ(N−1) + κN(N−1)): λ is the rate of one, σ what is serial (contention), κ what each costs each other (coherency); intervals by bootstrap over rounds")
	p.Line("Universal Scalability Law %s: λ %s, σ %s, κ %s; the curve misses the levels by %s (root mean square)",
		law, figure.Rates().Estimate(f.Lambda), ratioEstimate(f.Sigma), ratioEstimate(f.Kappa), figure.Margin(f.Misfit))
	if f.PeakLevel == nil || f.PeakLevel.Estimate == nil {
		p.Line("no peak claimed: κ's interval includes 0")
		return
	}
	text := "peak at " + s.Variable + " " + figure.Plain().Estimate(*f.PeakLevel)
	if f.Peak != nil {
		text += ", of " + figure.Rates().Estimate(*f.Peak)
	}
	if f.Extrapolated {
		text += ": extrapolated, beyond the levels measured"
	}
	p.Line("%s", text)
}

// ratioEstimate writes a coefficient with both ends, which may include 0.
func ratioEstimate(e rundir.Estimate) string {
	switch {
	case e.Estimate == nil:
		return figure.Unknown
	case !figure.Bounded(e):
		return units.Figure(*e.Estimate)
	}
	return units.Figure(*e.Estimate) + " " + figure.Plain().Ends(e)
}
