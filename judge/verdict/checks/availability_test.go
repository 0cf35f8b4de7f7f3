package checks

import (
	"testing"

	"dyno/results/rundir"
)

// The time that users waited in vain is a share of their time, not of the connections'.
func TestOmittedByUsers(t *testing.T) {
	trial := &rundir.Trial{WindowSeconds: 10, Connections: rundir.Connections{Requested: 2, Omitted: 10}}
	if got := Omitted(trial); got != 0.5 {
		t.Errorf("of two connections %v, want 0.5", got)
	}
	if trial.Users = (&rundir.Users{Count: 20}); Omitted(trial) != 0.05 {
		t.Errorf("of twenty users %v, want 0.05", Omitted(trial))
	}
}
