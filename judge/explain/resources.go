package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// A Resource is what the target used, in the ordinary trials.
type Resource struct {
	Name     string          `json:"name"`
	Unit     rundir.Unit     `json:"unit"`
	Base     float64         `json:"base"`
	Variant  float64         `json:"variant"`
	Change   rundir.Estimate `json:"change"` // variant − base
	P        *float64        `json:"p,omitempty"`
	Adjusted *float64        `json:"adjusted_p,omitempty"` // by Holm, among all resources
	Changed  bool            `json:"changed"`
}

// cpuTime is the first resource.
const cpuTime = "CPU time per request"

// adopt has a resource say what the run's comparison says of it.
func (r *Resource) adopt(c *rundir.Comparison) {
	r.Base, r.Variant, r.Change = *c.BaseFigure, *c.Figure, difference(c)
	r.P, r.Adjusted = c.P, cmp.Or(c.AdjustedP, c.P)
	r.Changed = c.Verdict == rundir.Better || c.Verdict == rundir.Worse
}

// A reading is one resource of a trial.
type reading struct {
	name  string
	unit  rundir.Unit
	value *float64
}

// readings are all resources of a trial, in the order in which they are shown, which is the same
// for all trials. calls are the names of system calls: one that the trial does not list was not
// made in it, and nothing is known of any unless they were counted.
func readings(t *rundir.Trial, calls []string, counted bool) []reading {
	x := &t.Target
	whole := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	part := func(share *float64) *float64 {
		if share == nil || x.CPUSecondsPerRequest == nil {
			return nil
		}
		return new(*share * *x.CPUSecondsPerRequest)
	}
	var system *float64
	if x.UserShare != nil {
		rest := 1 - *x.UserShare
		system = part(&rest)
	}
	list := []reading{
		{cpuTime, rundir.Seconds, x.CPUSecondsPerRequest},
		{"of it in user mode", rundir.Seconds, part(x.UserShare)},
		{"of it in the kernel", rundir.Seconds, system},
		{"run-queue wait per request", rundir.Seconds, x.RunQueueWaitSecondsPerRequest},
		{"voluntary context switches per request", rundir.Count, x.VoluntarySwitchesPerRequest},
		{"involuntary context switches per request", rundir.Count, x.InvoluntarySwitchesPerRequest},
		{"system calls per request", rundir.Count, x.SyscallsPerRequest},
	}
	for _, name := range calls {
		r := reading{"of them " + name, rundir.Count, nil}
		if counted {
			v := x.Syscalls[name]
			r.value = &v
		}
		list = append(list, r)
	}
	return append(list,
		reading{"GC pauses per request", rundir.Seconds, x.GCPauseSecondsPerRequest},
		reading{"allocated per request", rundir.Bytes, x.AllocatedBytesPerRequest},
		reading{"allocations per request", rundir.Count, x.AllocationsPerRequest},
		reading{"resident memory", rundir.Bytes, whole(x.RSSBytes)},
		reading{"threads", rundir.Count, whole(x.Threads)},
		reading{"descriptors", rundir.Count, whole(x.Descriptors)},
		reading{"goroutines", rundir.Count, whole(x.Goroutines)},
		reading{"connection reuse ratio", rundir.Share, x.ConnectionReuseRatio},
	)
}

// counted reports whether the system calls of both trials were counted.
func (p pair) counted() bool {
	return p.base.Target.SyscallsPerRequest != nil && p.variant.Target.SyscallsPerRequest != nil
}

// resources compares the resources that both variants used, in pairs over rounds. A
// system call that is made in some trials only counts as zero in the others in which calls
// were counted. Holm's adjustment is over all resources that can be compared.
func resources(trials []pair) ([]Resource, error) {
	type sums struct {
		Resource
		values []float64
	}
	names := map[string]bool{}
	for _, p := range trials {
		if p.counted() {
			for _, t := range []*rundir.TrialFolder{p.base, p.variant} {
				for name := range t.Target.Syscalls {
					names[name] = true
				}
			}
		}
	}
	calls := slices.Sorted(maps.Keys(names))
	var all []sums // in the order of the readings
	for _, p := range trials {
		base, variant := readings(&p.base.Trial, calls, p.counted()), readings(&p.variant.Trial, calls, p.counted())
		if all == nil {
			all = make([]sums, len(base))
		}
		for i, b := range base {
			s, v := &all[i], variant[i]
			s.Name, s.Unit = b.name, b.unit
			if b.value == nil || v.value == nil {
				continue
			}
			s.Base += *b.value
			s.Variant += *v.value
			s.values = append(s.values, *v.value-*b.value)
		}
	}
	var (
		list   []Resource
		tested []int
		ps     []float64
	)
	for _, s := range all {
		if len(s.values) == 0 {
			continue
		}
		n := float64(len(s.values))
		s.Base /= n
		s.Variant /= n
		change, err := summed(s.values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		s.Change = change
		if len(s.values) > 1 {
			m, err := stat.PairedMean(s.values, confidence)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			s.P = &m.P
			tested, ps = append(tested, len(list)), append(ps, m.P)
		}
		list = append(list, s.Resource)
	}
	if len(ps) == 0 {
		return list, nil
	}
	adjusted, err := stat.Holm(ps)
	if err != nil {
		return nil, err
	}
	for i, at := range tested {
		list[at].Adjusted, list[at].Changed = &adjusted[i], adjusted[i] < alpha
	}
	return list, nil
}
