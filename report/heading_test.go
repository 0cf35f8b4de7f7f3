package report

import (
	"strings"
	"testing"

	"dyno/report/judged"
	"dyno/results/rundir"
)

// The plan's line says who is measured at once, and where.
func TestHeadingOfADuet(t *testing.T) {
	for _, c := range []struct {
		sets [2]rundir.CPUSet
		want string
	}{
		{[2]rundir.CPUSet{{LoadCPUs: []int{0}, TargetCPUs: []int{0}}, {LoadCPUs: []int{1}, TargetCPUs: []int{1}}},
			"duet: a and another at once, on CPU 0 and CPU 1, exchanged every round; only ratios are known"},
		{[2]rundir.CPUSet{{LoadCPUs: []int{0}, TargetCPUs: []int{1, 2}}, {LoadCPUs: []int{3}, TargetCPUs: []int{4, 5}}},
			"on CPU 1-2 (generator 0) and CPU 4-5 (generator 3), exchanged"},
	} {
		run := rundir.Run{Plan: rundir.Plan{Base: "a", Rounds: 8, Duet: &rundir.PlanDuet{CPUSets: c.sets}}}
		if got := (&page{Result: &judged.Result{Run: &run}}).load(); !strings.Contains(got, c.want) {
			t.Errorf("%q does not say %q", got, c.want)
		}
	}
}
