package verdict

import "dyno/results/rundir"

// Regressions returns the comparisons of a judged run that are a reason to reject a change. They are in the
// plan's metric, with the base or of a ladder's steps. Their verdict is worse, and their estimate is beyond
// the plan's margin. A run that is not valid has none, because it has no verdicts.
func Regressions(run *rundir.Run) []rundir.Comparison {
	var found []rundir.Comparison
	for _, c := range run.Comparisons {
		if !gates(c) || c.Verdict != rundir.Worse || c.Ratio.Estimate == nil {
			continue
		}
		change := *c.Ratio.Estimate - 1
		if c.Good == "higher" {
			change = -change
		}
		if change > run.Plan.Margin {
			found = append(found, c)
		}
	}
	return found
}

// gates tells whether a comparison may be a reason to reject a change.
func gates(c rundir.Comparison) bool {
	return c.Primary && c.Role != rundir.RoleControl && c.Role != rundir.RolePair
}

// TooImprecise returns the inconclusive comparisons that would probably have missed a
// regression as large as the plan's margin: the smallest change that they find (Detectable) is
// larger, or not known. It returns only those that could be a reason to reject a change.
func TooImprecise(run *rundir.Run) []rundir.Comparison {
	var found []rundir.Comparison
	for _, c := range run.Comparisons {
		undecided := c.Verdict == rundir.Inconclusive || c.Verdict == ""
		if gates(c) && undecided && (c.Detectable == nil || *c.Detectable > run.Plan.Margin) {
			found = append(found, c)
		}
	}
	return found
}
