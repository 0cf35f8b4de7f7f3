package disturbance

import (
	"testing"
	"time"

	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// A generator on its target's CPUs waits for the target, which takes no time from it.
func TestSharedCPUsLoseNothing(t *testing.T) {
	s := recording.Recording{Trial: &rundir.Trial{WindowSeconds: 10}, Plan: rundir.PlanVariant{Loop: "closed"}}
	s.Trial.Generator.RunQueueWaitShare = new(0.7)
	if lost := Find(s).Lost; lost < 0.5 {
		t.Fatalf("alone, it loses %v", lost)
	}
	s.Trial.Duet = &rundir.Duet{Peer: "b", Shared: true}
	if lost := Find(s).Lost; lost > 0.01 {
		t.Errorf("lost %v by waiting for its own target", lost)
	}
}

// A stall on one agent's machine delays that agent's share of the load.
func TestStallOfOneAgent(t *testing.T) {
	s := recording.Recording{Trial: &rundir.Trial{WindowSeconds: 10}, Plan: rundir.PlanVariant{Loop: "closed"}, Stalls: []series.Stall{{Due: time.Second, Late: 2 * time.Second}}}
	if d := Find(s); d.Lost != 0.2 {
		t.Errorf("alone, it takes %v of the window", d.Lost)
	}
	s.Trial.Agents = make([]rundir.Agent, 4)
	if d := Find(s); d.Lost != 0.05 {
		t.Errorf("one of four, it takes %v of the window", d.Lost)
	}
}
