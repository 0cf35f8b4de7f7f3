package judged

import (
	"cmp"
	"maps"
	"slices"

	"dyno/results/rundir"
)

// Calls are the system calls of targets for each request.
type Calls struct {
	Most []Call `json:"most"` // those that some target made most often
	All  int    `json:"all"`  // how many there are
}

// A Call is a system call that targets made.
type Call struct {
	Name       string             `json:"name"`
	PerRequest map[string]float64 `json:"per_request"` // by variant, those whose calls were counted
}

// mostCalls is how many system calls are shown of a run.
const mostCalls = 10

// Calls are means over the trials in which system calls were counted; nil if there are none.
func (r *Result) Calls() *Calls {
	counted := map[string]float64{} // trials by variant
	names := map[string]bool{}
	var trials []*rundir.TrialFolder
	for _, t := range r.Folder.Measured() {
		if t.Target.SyscallsPerRequest != nil && len(t.Target.Syscalls) > 0 {
			counted[t.Variant]++
			trials = append(trials, t)
			for name := range t.Target.Syscalls {
				names[name] = true
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	var list []Call
	for _, name := range slices.Sorted(maps.Keys(names)) {
		call := Call{name, map[string]float64{}}
		for _, t := range trials {
			call.PerRequest[t.Variant] += t.Target.Syscalls[name] / counted[t.Variant]
		}
		list = append(list, call)
	}
	most := func(c Call) float64 { return slices.Max(slices.Collect(maps.Values(c.PerRequest))) }
	slices.SortStableFunc(list, func(a, b Call) int { return cmp.Compare(most(b), most(a)) })
	return &Calls{list[:min(len(list), mostCalls)], len(list)}
}
