// Package duet plans a duet: which variants are measured at the same time, and on which CPUs. A disturbance of
// the machine then affects both (Bulej, Horký, Tůma et al., "Duet Benchmarking: Improving Measurement Accuracy
// in the Cloud", ICPE 2020).
package duet

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"dyno/host/target"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

// A Pair is the base and another variant that are measured at the same time.
type Pair struct {
	Base, Variant *plan.Variant
	CPUSet        int // the base's, 0 or 1; the variant has the other one
}

// Pairs plans the given number of rounds. Each round holds every variant except the base once, paired
// with the base. Its order is random, from the seed. The base's first CPU set is drawn for each
// variant, and changes from round to round.
func Pairs(e *plan.Experiment, count int) [][]Pair {
	rng := rand.New(rand.NewPCG(e.Design.Seed, 0x0d0e7)) //nolint:gosec // an order, not a secret
	var base *plan.Variant
	var others []*plan.Variant
	for i := range e.Variants {
		if v := &e.Variants[i]; v.Name == e.Base {
			base = v
		} else {
			others = append(others, v)
		}
	}
	first := make([]int, len(others))
	for i := range first {
		first[i] = rng.IntN(2)
	}
	rounds := make([][]Pair, count)
	for round := range rounds {
		for _, i := range rng.Perm(len(others)) {
			rounds[round] = append(rounds[round], Pair{base, others[i], (first[i] + round) % 2})
		}
	}
	return rounds
}

// cpuSets divides CPUs between two variants that are measured at the same time: the CPUs
// that the plan gives generator and target, or else all that dyno may use. With four or
// more in all, each generator has CPUs of its own. With two or three, it shares one with
// its target. Both sets have the same number of CPUs.
func cpuSets(load, processes, allowed []int) (*rundir.PlanDuet, error) {
	pool := slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool {
		return len(load)+len(processes) > 0 && !slices.Contains(load, cpu) && !slices.Contains(processes, cpu)
	})
	for _, cpu := range Union(load, processes) {
		if !slices.Contains(allowed, cpu) {
			return nil, fmt.Errorf("CPU %d is not one that dyno may use (%s)", cpu, listed(allowed))
		}
	}
	if len(pool) < 2 {
		return nil, fmt.Errorf("a duet needs two CPUs, one for each variant, and has %s: want two or more in load.cpus and target.cpus", listed(pool))
	}
	var shared []int
	for _, cpu := range load {
		if slices.Contains(processes, cpu) {
			shared = append(shared, cpu)
		}
	}
	switch {
	case len(load) == 0 || len(processes) == 0:
		return fromPool(pool), nil
	case len(shared) == 0 && len(load) == 1 && len(processes) == 1:
		return fromPool(pool), nil
	case len(shared) == 0 && len(load)%2 == 0 && len(processes)%2 == 0:
		l, p := len(load)/2, len(processes)/2
		return &rundir.PlanDuet{CPUSets: [2]rundir.CPUSet{
			{LoadCPUs: load[:l], TargetCPUs: processes[:p]}, {LoadCPUs: load[l:], TargetCPUs: processes[p:]},
		}}, nil
	case slices.Equal(load, processes) && len(load)%2 == 0:
		half := len(load) / 2
		return &rundir.PlanDuet{CPUSets: [2]rundir.CPUSet{
			{LoadCPUs: load[:half], TargetCPUs: load[:half]}, {LoadCPUs: load[half:], TargetCPUs: load[half:]},
		}}, nil
	}
	return nil, fmt.Errorf("load.cpus %s and target.cpus %s cannot be divided between two variants: want an even number in both and none in common, or one in each, or leave them out",
		listed(load), listed(processes))
}

// fromPool divides CPUs that may be used for anything. An odd one stays idle.
func fromPool(pool []int) *rundir.PlanDuet {
	each := len(pool) / 2
	var d rundir.PlanDuet
	for i := range d.CPUSets {
		own := pool[i*each : (i+1)*each]
		generator := each / 2
		if generator == 0 {
			d.CPUSets[i] = rundir.CPUSet{LoadCPUs: own, TargetCPUs: own}
			continue
		}
		d.CPUSets[i] = rundir.CPUSet{LoadCPUs: own[:generator], TargetCPUs: own[generator:]}
	}
	return &d
}

func listed(cpus []int) string {
	if len(cpus) == 0 {
		return "none"
	}
	return fmt.Sprint(cpus)
}

// Possible tells whether this machine has the CPUs for a duet.
func Possible(e *plan.Experiment) bool {
	_, err := Place(e)
	return err == nil
}

// Place finds CPUs for a duet on this machine; nil if the plan is not a duet. Services run on the CPUs of
// their targets.
func Place(e *plan.Experiment) (*rundir.PlanDuet, error) {
	if !e.Design.Duet {
		return nil, nil
	}
	allowed, err := target.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	v := &e.Variants[0]
	d, err := cpuSets(v.Load.CPUs, v.Target.CPUs, allowed)
	if err != nil {
		return nil, fmt.Errorf("design.duet: %w", err)
	}
	return d, nil
}

// OnCPUSet returns a variant with its load and its processes on the CPUs of a set.
func OnCPUSet(v plan.Variant, set rundir.CPUSet) plan.Variant {
	v.Load.CPUs, v.Target.CPUs = set.LoadCPUs, set.TargetCPUs
	v.Services = slices.Clone(v.Services)
	for i := range v.Services {
		v.Services[i].CPUs = set.TargetCPUs
	}
	return v
}

// Union returns the CPUs that stand in one of two lists, in order.
func Union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
