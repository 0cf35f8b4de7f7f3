package judged

import (
	"math"
	"slices"
)

// An Agent carried a part of the run's load on another machine.
type Agent struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Share   float64 `json:"share"` // of what was done in the windows of the trials that it took part in
	// Least and Most are the extremes of its CPU time per request, or per event, over the variants.
	Least *float64 `json:"least_cpu_seconds_per_request,omitempty"`
	Most  *float64 `json:"most_cpu_seconds_per_request,omitempty"`
	// Clock and start are those of the trial whose start is the least certain. ClockOffset is how far its clock was
	// ahead of dyno's. StartDeviation is how long after the common start it began. ClockError bounds the error of both.
	ClockOffset    float64  `json:"clock_offset_seconds"`
	ClockError     float64  `json:"clock_error_seconds"`
	StartDeviation float64  `json:"start_deviation_seconds"`
	Flags          []string `json:"flags,omitempty"` // the kinds of those about it
}

// Agents are those that carried the load, in the order in which trials name them; none where dyno's machine did.
func (r *Result) Agents() (list []Agent) {
	done := map[string]float64{} // in all variants that an agent took part in
	worked := map[string]float64{}
	for _, v := range r.Run.Variants {
		all := 0.0
		for _, a := range v.Agents {
			all += float64(a.Work)
		}
		for _, a := range v.Agents {
			done[a.Name] += all
			worked[a.Name] += float64(a.Work)
			at := slices.IndexFunc(list, func(x Agent) bool { return x.Name == a.Name })
			if at < 0 {
				at = len(list)
				list = append(list, Agent{Name: a.Name, Address: a.Address, ClockError: math.Inf(-1)})
			}
			x := &list[at]
			if math.Abs(a.StartDeviation)+a.ClockError > math.Abs(x.StartDeviation)+x.ClockError {
				x.ClockOffset, x.ClockError, x.StartDeviation = a.ClockOffset, a.ClockError, a.StartDeviation
			}
			if cpu := a.Generator.CPUSecondsPerRequest; cpu != nil {
				if x.Least == nil || *cpu < *x.Least {
					x.Least = cpu
				}
				if x.Most == nil || *cpu > *x.Most {
					x.Most = cpu
				}
			}
		}
	}
	for i := range list {
		x := &list[i]
		if all := done[x.Name]; all > 0 {
			x.Share = worked[x.Name] / all
		}
		for _, f := range r.Run.Flags {
			if f.Agent == x.Name && !slices.Contains(x.Flags, f.Kind) {
				x.Flags = append(x.Flags, f.Kind)
			}
		}
	}
	return list
}
