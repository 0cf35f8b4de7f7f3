package report

import (
	"slices"

	"dyno/report/layout"
	"dyno/results/rundir"
)

// ladder writes the steps with their effects.
func (p *page) ladder() {
	if len(p.Run.Ladder) == 0 {
		return
	}
	metric := p.Run.Plan.Metric
	p.Section("ladder, in " + metric)
	marginal := "marginal " + p.Footnote("a step's effect on top of all before it: it belongs to this order of the steps, and may differ in another")
	for _, c := range p.Run.Comparisons {
		if c.Role != rundir.RoleControl && c.AdjustedP != nil {
			marginal += " " + p.Footnote(adjustment(c.Adjustment))
			break
		}
	}
	t := layout.Table{Left: []int{2, 3, 4}, Head: []string{"step", metric, marginal, "total"}}
	leftOut := slices.ContainsFunc(p.Run.Ladder, func(s rundir.Step) bool { return s.LeftOut != nil })
	if leftOut {
		t.Head = append(t.Head, "of the whole "+p.Footnote("the whole ladder compared with the ladder without this step (ladder.leave_one_out): what the step still adds when all others are there"))
	}
	for _, s := range p.Run.Ladder {
		row := []string{s.Variant, p.cell(s.Variant, metric), p.effect(s.Variant, rundir.RoleStep, s.Marginal, s.Verdict), p.effect(s.Variant, "", s.Total, s.TotalVerdict)}
		if leftOut {
			row = append(row, p.effect(s.Variant, rundir.RoleLeftOut, s.LeftOut, s.LeftOutVerdict))
		}
		t.Add(row...)
	}
	p.Table(t)
}

// effect writes a step's ratio with its verdict.
func (p *page) effect(step, role string, e *rundir.Estimate, verdict string) string {
	if e == nil {
		return ""
	}
	text := p.shown(rundir.Comparison{Ratio: *e, Verdict: verdict, Equivalence: p.equivalence(step, role)})
	switch verdict {
	case rundir.Better, rundir.Worse:
		text += " " + verdict
	}
	return text
}

// equivalence is the interval that shows a step's equivalence, which its
// comparison holds; nil when there is none.
func (p *page) equivalence(step, role string) *rundir.Estimate {
	for _, c := range p.Run.Comparisons {
		of := c.Variant
		if role == rundir.RoleLeftOut && p.Run.Plan.Ladder != nil {
			without := p.Run.Plan.Ladder.WithoutStep
			of = without[c.Base] + without[c.Variant] // one of them is the ladder without the step
		}
		if c.Primary && c.Role == role && of == step {
			return c.Equivalence
		}
	}
	return nil
}
