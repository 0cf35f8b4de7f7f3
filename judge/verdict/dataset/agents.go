package dataset

import (
	"cmp"
	"math"
	"slices"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// agents sums up, by name, the agents that carried the load in some of the trials.
func agents(trials []*rundir.Trial) (list []rundir.Agent) {
	of := map[string][]rundir.Agent{}
	for _, t := range trials {
		for _, a := range t.Agents {
			if of[a.Name] == nil {
				list = append(list, rundir.Agent{Name: a.Name})
			}
			of[a.Name] = append(of[a.Name], a)
		}
	}
	for i := range list {
		to := &list[i]
		parts := of[to.Name]
		off := func(a rundir.Agent) float64 { return math.Abs(a.StartDeviation) + a.ClockError }
		*to = slices.MaxFunc(parts, func(a, b rundir.Agent) int { return cmp.Compare(off(a), off(b)) })
		var shares, costs []float64
		work := int64(0)
		for _, p := range parts {
			shares, work = append(shares, p.Share), work+p.Work
			if cpu := p.Generator.CPUSecondsPerRequest; cpu != nil {
				costs = append(costs, *cpu)
			}
		}
		to.Trials, to.Work, to.Share, to.Machine = len(parts), work, *stat.Typical(shares), rundir.Machine{}
		to.Generator = rundir.Generator{CPUSecondsPerRequest: stat.Typical(costs)}
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
