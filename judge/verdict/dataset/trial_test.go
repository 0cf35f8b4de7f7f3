package dataset

import (
	"slices"
	"testing"

	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// A round is measured again for what went on beside it, never for what the target or the
// load did.
func TestSpoiltRounds(t *testing.T) {
	for _, c := range checks.All() {
		kind := c.Kind
		want := slices.Contains([]string{
			checks.FlagSteal, checks.FlagForeignCPU, checks.FlagLateWakeups, checks.FlagMemoryPressure, checks.FlagIOPressure, checks.FlagRunQueue, checks.FlagDisturbed, checks.FlagGeneratorStarved,
		}, kind)
		for _, spoils := range []bool{false, true} {
			s := Trial{AllFlags: []rundir.Flag{checks.NewFlag(checks.FlagNotSteady, "v", false, nil), checks.NewFlag(kind, "v", spoils, nil)}}
			if got := s.isDisturbed(); got != (want && spoils) {
				t.Errorf("%s, beyond its limit %v: spoilt %v", kind, spoils, got)
			}
		}
	}
}
