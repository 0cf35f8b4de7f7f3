package explain

import (
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

// A reading is one resource of a trial.
type reading struct {
	name  string
	unit  rundir.Unit
	value *float64
}

// readings are all resources of a trial, in the order in which they are shown.
func readings(t *rundir.Trial) []reading {
	x := &t.Target
	whole := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		v := float64(*n)
		return &v
	}
	part := func(share *float64) *float64 {
		if share == nil || x.CPUSecondsPerRequest == nil {
			return nil
		}
		v := *share * *x.CPUSecondsPerRequest
		return &v
	}
	var system *float64
	if x.UserShare != nil {
		rest := 1 - *x.UserShare
		system = part(&rest)
	}
	list := []reading{
		{"CPU time per request", rundir.Seconds, x.CPUSecondsPerRequest},
		{"of it in user mode", rundir.Seconds, part(x.UserShare)},
		{"of it in the kernel", rundir.Seconds, system},
		{"run-queue wait per request", rundir.Seconds, x.RunQueueWaitSecondsPerRequest},
		{"voluntary context switches per request", rundir.Count, x.VoluntarySwitchesPerRequest},
		{"involuntary context switches per request", rundir.Count, x.InvoluntarySwitchesPerRequest},
		{"system calls per request", rundir.Count, x.SyscallsPerRequest},
	}
	for _, name := range slices.Sorted(maps.Keys(x.Syscalls)) {
		v := x.Syscalls[name]
		list = append(list, reading{"of them " + name, rundir.Count, &v})
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

// resources compares the resources that both variants used, in pairs over rounds. A
// system call that only one of them makes counts as zero for the other. Holm's adjustment
// is over all resources that can be compared.
func resources(trials []pair) ([]Resource, error) {
	type sums struct {
		Resource
		values []float64
	}
	var (
		order []string
		all   = map[string]*sums{}
	)
	for _, p := range trials {
		base, variant := readings(&p.base.Trial), readings(&p.variant.Trial)
		merged := merge(base, variant)
		for _, m := range merged {
			if m.base == nil || m.variant == nil {
				continue
			}
			if all[m.name] == nil {
				all[m.name] = &sums{Resource: Resource{Name: m.name, Unit: m.unit}}
				order = append(order, m.name)
			}
			s := all[m.name]
			s.Base += *m.base
			s.Variant += *m.variant
			s.values = append(s.values, *m.variant-*m.base)
		}
	}
	var (
		list   []Resource
		tested []int
		ps     []float64
	)
	for _, name := range order {
		s := all[name]
		n := float64(len(s.values))
		s.Base /= n
		s.Variant /= n
		change, err := summed(s.values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.Change = change
		if len(s.values) > 1 {
			m, err := stat.PairedMean(s.values, confidence)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
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

// A both holds one resource of two trials.
type both struct {
	name          string
	unit          rundir.Unit
	base, variant *float64
}

// merge joins the readings of two trials, in the order of the first. A system call that
// only one trial has is zero in the other.
func merge(base, variant []reading) []both {
	of := map[string]*float64{}
	for _, r := range variant {
		of[r.name] = r.value
	}
	known := map[string]bool{}
	zero := 0.0
	var list []both
	for _, r := range base {
		known[r.name] = true
		v, ok := of[r.name]
		if !ok {
			v = &zero
		}
		list = append(list, both{r.name, r.unit, r.value, v})
	}
	at := 0
	for _, r := range variant {
		if known[r.name] {
			at = slices.IndexFunc(list, func(b both) bool { return b.name == r.name }) + 1
			continue
		}
		list = slices.Insert(list, at, both{r.name, r.unit, &zero, r.value})
		at++
	}
	return list
}
