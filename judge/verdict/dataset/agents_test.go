package dataset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/results/rundir"
)

// An agent has the figures of the trials that it took part in. Its clock has those of the trial with the least
// certain start.
func TestAgents(t *testing.T) {
	of := func(name string, deviation, within, cpu float64, work int64) rundir.Agent {
		return rundir.Agent{
			Name: name, ClockOffset: 10 * within, ClockError: within, StartDeviation: deviation, Share: 0.5, Work: work,
			Generator: rundir.Generator{CPUSecondsPerRequest: &cpu, Workers: 1}, Machine: rundir.Machine{StealShare: new(0.1)},
		}
	}
	got := agents([]*rundir.Trial{
		{Agents: []rundir.Agent{of("a", 1e-6, 5e-6, 2e-5, 100), of("b", 1e-6, 1e-6, 1e-5, 50)}},
		{Agents: []rundir.Agent{of("a", 4e-6, 3e-6, 8e-5, 10)}},
		{},
	})
	a, b := of("a", 4e-6, 3e-6, 4e-5, 110), of("b", 1e-6, 1e-6, 1e-5, 50)
	a.Trials, b.Trials, a.Machine, b.Machine = 2, 1, rundir.Machine{}, rundir.Machine{}
	a.Generator.Workers, b.Generator.Workers = 0, 0
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if diff := cmp.Diff([]rundir.Agent{a, b}, got, near); diff != "" {
		t.Error(diff)
	}
}

// A process that ran on several agents' machines is listed for each.
func TestPlaced(t *testing.T) {
	of := func(process, agent string, within float64) rundir.Placement {
		return rundir.Placement{Process: process, Agent: agent, Address: agent + ":1", CPUs: 2, ClockError: within}
	}
	got := placed([]*rundir.Trial{
		{Placed: []rundir.Placement{of("back", "b", 1), of("target", "a", 1)}},
		{Placed: []rundir.Placement{of("back", "b", 3), of("target", "c", 2)}},
		{Placed: []rundir.Placement{of("back", "b", 2)}},
		{},
	})
	if diff := cmp.Diff([]rundir.Placement{of("back", "b", 3), of("target", "a", 1), of("target", "c", 2)}, got); diff != "" {
		t.Error(diff)
	}
}
