package dataset

import (
	"cmp"
	"math"
	"slices"

	"dyno/results/rundir"
)

// agents sums up, by name, the agents that carried the load in some of the trials.
func agents(trials []*rundir.Trial) (list []rundir.Agent) {
	of := map[string][]*rundir.Trial{} // each with one agent only
	for _, t := range trials {
		for _, a := range t.Agents {
			if of[a.Name] == nil {
				list = append(list, rundir.Agent{Name: a.Name})
			}
			of[a.Name] = append(of[a.Name], &rundir.Trial{Agents: []rundir.Agent{a}, Generator: a.Generator})
		}
	}
	for i := range list {
		to := &list[i]
		parts := of[to.Name]
		off := func(t *rundir.Trial) float64 { return math.Abs(t.Agents[0].StartDeviation) + t.Agents[0].ClockError }
		worst := slices.MaxFunc(parts, func(a, b *rundir.Trial) int { return cmp.Compare(off(a), off(b)) })
		*to = worst.Agents[0]
		to.Trials, to.Work, to.Machine, to.Generator = len(parts), 0, rundir.Machine{}, generator(parts)
		to.Share = *known(parts, func(t *rundir.Trial) *float64 { return &t.Agents[0].Share })
		for _, p := range parts {
			to.Work += p.Agents[0].Work
		}
	}
	return list
}

// placed lists the processes that ran on agents' machines in some of the trials, each once for each agent.
func placed(trials []*rundir.Trial) (list []rundir.Placement) {
	for _, t := range trials {
		for _, p := range t.Placed {
			at := slices.IndexFunc(list, func(of rundir.Placement) bool { return of.Process == p.Process && of.Agent == p.Agent })
			if at < 0 {
				list = append(list, p)
				continue
			}
			list[at].ClockError = max(list[at].ClockError, p.ClockError)
		}
	}
	return list
}
