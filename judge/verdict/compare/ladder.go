package compare

import (
	"slices"

	"dyno/results/rundir"
)

// steps pairs each step of a ladder with the first and with the one before, in one
// family. For the second step the two pairs are the same, and are listed once.
func steps(l rundir.PlanLadder) Family {
	var f Family
	for i := 1; i < len(l.Steps); i++ {
		f = append(f, Pair{Variant: l.Steps[i], Base: l.Steps[0]})
		if i > 1 {
			f = append(f, Pair{l.Steps[i], l.Steps[i-1], rundir.RoleStep})
		}
	}
	return f
}

// leftOut pairs the whole ladder with the ladder without each step that was left
// out.
func leftOut(l rundir.PlanLadder) Family {
	var f Family
	for _, step := range l.Steps {
		if without, ok := withoutStep(l, step); ok {
			f = append(f, Pair{l.Steps[len(l.Steps)-1], without, rundir.RoleLeftOut})
		}
	}
	return f
}

// withoutStep returns the variant that is the whole ladder without a step.
func withoutStep(l rundir.PlanLadder, step string) (variant string, ok bool) {
	for variant, left := range l.WithoutStep {
		if left == step {
			return variant, true
		}
	}
	return "", false
}

// Ladder summarises a ladder in the primary metric.
func Ladder(l *rundir.PlanLadder, comparisons []rundir.Comparison) []rundir.Step {
	if l == nil {
		return nil
	}
	find := func(variant, base string) (*rundir.Estimate, string) {
		i := slices.IndexFunc(comparisons, func(c rundir.Comparison) bool {
			return c.Primary && c.Role != rundir.RoleControl && c.Variant == variant && c.Base == base
		})
		if i < 0 {
			return nil, ""
		}
		return &comparisons[i].Ratio, comparisons[i].Verdict
	}
	var list []rundir.Step
	for i, name := range l.Steps {
		s := rundir.Step{Variant: name}
		if i > 0 {
			s.Marginal, s.Verdict = find(name, l.Steps[i-1])
			s.Total, s.TotalVerdict = find(name, l.Steps[0])
		}
		if without, ok := withoutStep(*l, name); ok {
			s.LeftOut, s.LeftOutVerdict = find(l.Steps[len(l.Steps)-1], without)
		}
		list = append(list, s)
	}
	return list
}
