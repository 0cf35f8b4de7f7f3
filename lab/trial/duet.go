package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"dyno/host/target"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// A duet measures two variants at the same time, on separate CPUs and with the same arrivals. So a
// disturbance of the machine affects both (Bulej, Horký, Tůma et al., "Duet Benchmarking: Improving
// Measurement Accuracy in the Cloud", ICPE 2020). Both sides are trials. Each has an engine in this
// process, whose workers are on the side's CPUs.

// A pair is the base and another variant that are measured at the same time.
type pair struct {
	base, variant *plan.Variant
	cpuSet        int // the base's, 0 or 1; the variant has the other one
}

// pairs plans the given number of rounds. Each round holds every variant except the base once, paired
// with the base. Its order is random, from the seed. The base's first CPU set is drawn for each
// variant, and changes from round to round.
func pairs(e *plan.Experiment, count int) [][]pair {
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
	rounds := make([][]pair, count)
	for round := range rounds {
		for _, i := range rng.Perm(len(others)) {
			rounds[round] = append(rounds[round], pair{base, others[i], (first[i] + round) % 2})
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
	for _, cpu := range union(load, processes) {
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

// CanDuet tells whether this machine has the CPUs for a duet.
func CanDuet(e *plan.Experiment) bool {
	_, err := planDuet(e)
	return err == nil
}

// planDuet places a duet on this machine; nil if the plan is not a duet. Services run on
// the CPUs of their targets.
func planDuet(e *plan.Experiment) (*rundir.PlanDuet, error) {
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

// onCPUSet returns a variant with its load and its processes on the CPUs of a set.
func onCPUSet(v plan.Variant, set rundir.CPUSet) plan.Variant {
	v.Load.CPUs, v.Target.CPUs = set.LoadCPUs, set.TargetCPUs
	v.Services = slices.Clone(v.Services)
	for i := range v.Services {
		v.Services[i].CPUs = set.TargetCPUs
	}
	return v
}

// duetRound measures the pairs of one round. In the first rounds it also measures the base
// next to each variant without load.
func (r *runner) duetRound(ctx context.Context, round int, planned []pair) error {
	if r.whole(round) {
		return nil
	}
	for _, c := range planned {
		if err := r.both(ctx, round, c); err != nil {
			return err
		}
	}
	if round > r.experiment.Design.IdleRounds() {
		return nil
	}
	for _, c := range planned {
		if c.variant.AliasOf != "" {
			continue
		}
		s := task{round: round, variant: c.base, purpose: rundir.PurposeIdle, cpuSet: c.cpuSet, peer: c.variant}
		if _, err := r.measure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// both measures the two variants of a pair at the same time. The watcher gets the intervals
// of the base, and the result of the other variant when both have ended.
func (r *runner) both(ctx context.Context, round int, c pair) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	p := newPartners(func() error {
		s := r.run.Plan.Duet.CPUSets
		return target.SetAffinity(union(s[0].LoadCPUs, s[1].LoadCPUs))
	})
	tasks := [2]task{
		{round: round, variant: c.base, cpuSet: c.cpuSet, peer: c.variant},
		{round: round, variant: c.variant, cpuSet: 1 - c.cpuSet, peer: c.base},
	}
	var started [2]*startedTrial
	for i := range tasks {
		tasks[i].side = &side{partners: p, number: i}
		var err error
		if started[i], err = r.begin(tasks[i]); err != nil {
			return err
		}
	}
	started[0].trial.Duet.Trial, started[1].trial.Duet.Trial = started[1].trial.Number, started[0].trial.Number
	before, err := target.AllowedCPUs()
	if err != nil {
		return err
	}
	workers := 0
	for _, s := range tasks {
		workers += max(s.variant.Load.Workers, len(r.run.Plan.Duet.CPUSets[s.cpuSet].LoadCPUs))
	}
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(procs, workers+2*generator.SpareProcessors))
	r.announce(tasks[0], started[0])
	var failed [2]error
	var sides sync.WaitGroup
	for i := range tasks {
		sides.Go(func() {
			defer p.leave(i)
			failed[i] = r.carryOut(ctx, tasks[i], started[i].trial, started[i].folder)
		})
	}
	sides.Wait()
	_ = target.SetAffinity(before) // dyno was allowed to use these CPUs before
	runtime.GOMAXPROCS(procs)
	_, err = r.end(ctx, tasks[0], started[0], failed[0])
	r.announce(tasks[1], started[1])
	_, other := r.end(ctx, tasks[1], started[1], failed[1])
	return errors.Join(err, other)
}

// A side is one of two simultaneous trials.
type side struct {
	partners *partners
	number   int // 0 or 1
}

// Partners wait for each other: once when the processes of both are up, and once when the
// connections of both are. If one has left, the other does not wait for it and goes on
// alone.
type partners struct {
	up, start *barrier
	placed    error     // the error of placing the generator, once both are up
	at        time.Time // when the warm-up of both begins

	mu     sync.Mutex // guards stages
	stages [2]*stage  // nil: not up
}

// newPartners returns partners that place the generator once both are up.
func newPartners(place func() error) *partners {
	p := &partners{}
	p.up = newBarrier(func() { p.placed = place() })
	p.start = newBarrier(func() { p.at = time.Now().Add(generator.StartLead) })
	return p
}

// ready waits until the other's processes are up, too.
func (p *partners) ready(ctx context.Context, number int, up *stage) error {
	p.mu.Lock()
	p.stages[number] = up
	p.mu.Unlock()
	if err := p.up.pass(ctx, number); err != nil {
		return err
	}
	return p.placed
}

// other returns the other side's stage; nil if that side failed.
func (p *partners) other(number int) *stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stages[1-number]
}

// leave records that one no longer waits for the other and need not be waited for.
func (p *partners) leave(number int) {
	p.up.come(number)
	p.start.come(number)
}

var _ engine.Barrier = (*side)(nil)

// Join returns when both sides have their connections.
func (s *side) Join(ctx context.Context, self engine.Party) (engine.Party, time.Time, error) {
	if err := s.partners.start.pass(ctx, s.number); err != nil {
		return self, time.Time{}, err
	}
	return self, s.partners.at, nil
}

// WaitPublished returns what this side has published: each side has events of its own.
func (s *side) WaitPublished(_ context.Context, published []wire.Source) ([]wire.Source, error) {
	return published, nil
}

// A barrier holds two sides until both have arrived. Then it runs an action and lets them
// go on. It is used once.
type barrier struct {
	act  func()
	open chan struct{}

	mu   sync.Mutex // guards here
	here [2]bool
}

func newBarrier(act func()) *barrier { return &barrier{act: act, open: make(chan struct{})} }

// pass arrives at the barrier and waits for the other one.
func (b *barrier) pass(ctx context.Context, number int) error {
	b.come(number)
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *barrier) come(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.here[number] {
		return
	}
	b.here[number] = true
	if b.here[1-number] {
		b.act()
		close(b.open)
	}
}
