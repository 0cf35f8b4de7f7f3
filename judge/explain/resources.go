package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// A Resource is a use of the target, in the ordinary trials.
type Resource struct {
	Name     string          `json:"name"`
	Unit     rundir.Unit     `json:"unit"`
	Base     float64         `json:"base"`
	Variant  float64         `json:"variant"`
	Change   rundir.Estimate `json:"change"` // variant − base
	P        *float64        `json:"p,omitempty"`
	Adjusted *float64        `json:"adjusted_p,omitempty"` // by Holm, among all resources
	Changed  bool            `json:"changed"`

	metric string // what the run calls it; empty: it does not compare it
}

// adopt copies the run's comparison of two variants into a resource, if it has their figures.
func (r *Resource) adopt(run *rundir.Run, base, variant string) {
	for i := range run.Comparisons {
		if c := &run.Comparisons[i]; c.Metric == r.metric && c.Base == base && c.Variant == variant && c.Figure != nil && c.BaseFigure != nil {
			r.Base, r.Variant, r.Change = *c.BaseFigure, *c.Figure, difference(c)
			r.P, r.Adjusted = c.P, cmp.Or(c.AdjustedP, c.P)
			r.Changed = c.Verdict == rundir.Better || c.Verdict == rundir.Worse
		}
	}
}

// A reading is one resource of a trial.
type reading struct {
	metric, name string
	unit         rundir.Unit
	value        *float64
}

// readings are all resources of a trial, in the order of display, which is the same for all trials.
// calls are the names of system calls: a name that the trial does not list was not called. Without
// counting, none is known.
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
		{rundir.MetricCPU, "CPU time per request", rundir.Seconds, x.CPUSecondsPerRequest},
		{"", "of it in user mode", rundir.Seconds, part(x.UserShare)},
		{"", "of it in the kernel", rundir.Seconds, system},
		{"target.run_queue_wait_per_request", "run-queue wait per request", rundir.Seconds, x.RunQueueWaitSecondsPerRequest},
		{"target.voluntary_switches_per_request", "voluntary context switches per request", rundir.Count, x.VoluntarySwitchesPerRequest},
		{"target.involuntary_switches_per_request", "involuntary context switches per request", rundir.Count, x.InvoluntarySwitchesPerRequest},
		{"target.syscalls_per_request", "system calls per request", rundir.Count, x.SyscallsPerRequest},
	}
	for _, name := range calls {
		r := reading{"", "of them " + name, rundir.Count, nil}
		if counted {
			v := x.Syscalls[name]
			r.value = &v
		}
		list = append(list, r)
	}
	return append(list,
		reading{"target.gc_pause_per_request", "GC pauses per request", rundir.Seconds, x.GCPauseSecondsPerRequest},
		reading{"target.allocated_per_request", "allocated per request", rundir.Bytes, x.AllocatedBytesPerRequest},
		reading{"target.allocations_per_request", "allocations per request", rundir.Count, x.AllocationsPerRequest},
		reading{rundir.MetricMemory, "resident memory", rundir.Bytes, whole(x.RSSBytes)},
		reading{"target.threads", "threads", rundir.Count, whole(x.Threads)},
		reading{"target.descriptors", "descriptors", rundir.Count, whole(x.Descriptors)},
		reading{"target.goroutines", "goroutines", rundir.Count, whole(x.Goroutines)},
		reading{"target.connection_reuse_ratio", "connection reuse ratio", rundir.Share, x.ConnectionReuseRatio},
	)
}

// counted reports whether the system calls of both trials were counted.
func (p pair) counted() bool {
	return p.base.Target.SyscallsPerRequest != nil && p.variant.Target.SyscallsPerRequest != nil
}

// resources compares the resources that both variants used, in pairs over rounds. A system call that is
// made in some trials only counts as zero in the others that counted calls. Holm's adjustment is over
// all resources that can be compared.
func resources(trials []pair) ([]Resource, error) {
	type sums struct {
		Resource
		bases, variants []float64
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
			s.metric, s.Name, s.Unit = b.metric, b.name, b.unit
			if b.value != nil && v.value != nil {
				s.bases, s.variants = append(s.bases, *b.value), append(s.variants, *v.value)
			}
		}
	}
	var (
		list   []Resource
		tested []int
		ps     []float64
	)
	for _, s := range all {
		if len(s.bases) == 0 {
			continue
		}
		if err := s.compare(s.bases, s.variants); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if s.P != nil {
			tested, ps = append(tested, len(list)), append(ps, *s.P)
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

// compare compares a resource over rounds as the run's comparisons do: by ratios. If a round has a zero, differences are left.
func (r *Resource) compare(bases, variants []float64) error {
	r.Base, r.Variant = *stat.Typical(bases), *stat.Typical(variants)
	back, method := func(log float64) float64 { return r.Base * math.Expm1(log) }, rundir.ByPairedStudent
	ratios := stat.AllPositive(bases) && stat.AllPositive(variants)
	if !ratios {
		r.Base, r.Variant = stat.Average(bases), stat.Average(variants)
		back, method = func(change float64) float64 { return change }, rundir.ByStudentPairs
	}
	r.Change = rundir.Estimate{Estimate: new(r.Variant - r.Base), Interval: rundir.NoInterval}
	var changes []float64
	for i, base := range bases {
		change := variants[i] - base
		if ratios {
			change = math.Log(variants[i] / base)
		}
		changes, r.Change.Values = append(changes, change), append(r.Change.Values, back(change))
	}
	if len(changes) < 2 {
		return nil
	}
	m, err := stat.PairedMean(changes, confidence)
	if err == nil {
		r.P = &m.P
		r.Change.SetInterval(back(m.Interval.Low), back(m.Interval.High), confidence, method)
	}
	return err
}
