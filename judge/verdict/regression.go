package verdict

import "dyno/results/rundir"

// Regressions returns the comparisons of a judged run that are a reason to reject a
// change: in the plan's metric, with the base or of a ladder's steps, judged worse, and by an estimate that
// is beyond the plan's margin. A run that is not valid has none, because it has no
// verdicts.
func Regressions(run *rundir.Run) []rundir.Comparison {
	var found []rundir.Comparison
	for _, c := range run.Comparisons {
		if !c.Primary || c.Role == rundir.RoleControl || c.Role == rundir.RolePair || c.Verdict != rundir.Worse || c.Ratio.Estimate == nil {
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
