package dataset

import (
	"slices"
	"testing"

	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// A round is measured again for other activity on the machine, never for what the target or the load
// did.
func TestDisturbedRounds(t *testing.T) {
	for _, c := range checks.All() {
		kind := c.Kind
		want := slices.Contains([]string{
			checks.FlagSteal, checks.FlagForeignCPU, checks.FlagLateWakeups, checks.FlagMemoryPressure, checks.FlagIOPressure, checks.FlagRunQueue, checks.FlagDisturbed, checks.FlagGeneratorStarved,
		}, kind)
		for _, disturbs := range []bool{false, true} {
			s := Trial{AllFlags: []rundir.Flag{checks.NewFlag(checks.FlagNotSteady, "v", false, nil), checks.NewFlag(kind, "v", disturbs, nil)}}
			if got := s.isDisturbed(); got != (want && disturbs) {
				t.Errorf("%s, beyond its limit %v: disturbed %v", kind, disturbs, got)
			}
		}
	}
}
