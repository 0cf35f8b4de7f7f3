package disturbance

import (
	"testing"

	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A generator on its target's CPUs waits for the target, which takes no time from it.
func TestSharedCPUsLoseNothing(t *testing.T) {
	s := &detector{recording.Recording{Trial: &rundir.Trial{WindowSeconds: 10}, Plan: rundir.PlanVariant{Loop: "closed"}}}
	s.Trial.Generator.RunQueueWaitShare = new(0.7)
	if l := s.lostBy(); l.Generator < 0.5 {
		t.Fatalf("alone, it loses %v", l.Generator)
	}
	s.Trial.Duet = &rundir.Duet{Peer: "b", Shared: true}
	if l := s.lostBy(); l.Generator > 0.01 {
		t.Errorf("lost %v by waiting for its own target", l.Generator)
	}
}
