package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/units"
	"dyno/results/rundir"
)

// sweeps writes a table for each curve, with its knee and its fit.
func (p *page) sweeps() {
	for _, s := range p.run.Sweeps {
		title := s.Metric + " by " + s.Variable
		for _, name := range slices.Sorted(maps.Keys(s.Fixed)) {
			title += ", " + name + " " + s.Fixed[name]
		}
		p.section(title)
		t := table{head: []string{s.Variable, s.Metric, ""}, left: []int{2}}
		for _, l := range s.Levels {
			text := unitOf(s.Metric).estimate(l.Figure)
			if l.Figure.Estimate == nil {
				p.footnote(fewValues)
			} else if !bounded(l.Figure) {
				text += " " + p.footnote("one trial of this level: no interval")
			}
			t.add(level(l.Value), text, bar(l, s.Levels))
		}
		p.table(t)
		if s.Knee != nil {
			p.line("knee: after %s the curve bends most %s", level(*s.Knee), p.footnote("the knee sums up the shape of the curve and has no interval; it is no limit"))
		}
		p.scalability(s)
		if s.Detail != "" {
			p.line("%s", s.Detail)
		}
	}
}

// level writes a value of a sweep's variable in full.
func level(v float64) string { return fmt.Sprintf("%.10g", v) }

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
	law := p.footnote("X(N) = λN / (1 + σ(N−1) + κN(N−1)): λ is the rate of one, σ what is serial (contention), κ what each costs each other (coherency); intervals by bootstrap over rounds")
	p.line("Universal Scalability Law %s: λ %s, σ %s, κ %s; the curve misses the levels by %s (root mean square)",
		law, rates().estimate(f.Lambda), ratioEstimate(f.Sigma), ratioEstimate(f.Kappa), margin(f.Misfit))
	if f.PeakLevel == nil || f.PeakLevel.Estimate == nil {
		p.line("no peak claimed: κ's interval includes 0")
		return
	}
	text := "peak at " + s.Variable + " " + plain().estimate(*f.PeakLevel)
	if f.Peak != nil {
		text += ", of " + rates().estimate(*f.Peak)
	}
	if f.Extrapolated {
		text += ": extrapolated, beyond the levels measured"
	}
	p.line("%s", text)
}

// ratioEstimate writes a coefficient with both ends, which may include 0.
func ratioEstimate(e rundir.Estimate) string {
	switch {
	case e.Estimate == nil:
		return unknown
	case !bounded(e):
		return units.Figure(*e.Estimate)
	}
	return units.Figure(*e.Estimate) + " " + plain().ends(e)
}
