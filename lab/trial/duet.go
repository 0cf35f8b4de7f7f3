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
	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// A duet measures two variants at the same time, on CPUs of their own and with the same
// arrivals, so that a disturbance of the machine affects both (Bulej, Horký, Tůma et al.,
// "Duet Benchmarking: Improving Measurement Accuracy in the Cloud", ICPE 2020). Both
// halves are trials. Each has an engine in this process, whose workers are on the half's
// CPUs.

// A pair is the base and another variant that are measured at the same time.
type pair struct {
	base, variant *experiment.Variant
	seat          int // the base's; the variant has the other one
}

// pairs plans the given number of rounds. Each round holds every variant except the
// base once, with the base beside it, in a random order of its own from the seed. The
// base's first seat is drawn for each variant, and changes from round to round.
func pairs(e *experiment.Experiment, count int) [][]pair {
	rng := rand.New(rand.NewPCG(e.Design.Seed, 0x0d0e7)) //nolint:gosec // an order, not a secret
	var base *experiment.Variant
	var others []*experiment.Variant
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

// seats divides CPUs between two variants that are measured at the same time: the CPUs
// that the plan gives generator and target, or else all that dyno may use. With four or
// more in all, each generator has CPUs of its own. With two or three, it shares one with
// its target. The two seats are alike: they have the same number of CPUs.
func seats(load, processes, allowed []int) (*rundir.PlanDuet, error) {
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
		return &rundir.PlanDuet{Seats: [2]rundir.Seat{
			{LoadCPUs: load[:l], TargetCPUs: processes[:p]}, {LoadCPUs: load[l:], TargetCPUs: processes[p:]},
		}}, nil
	case slices.Equal(load, processes) && len(load)%2 == 0:
		half := len(load) / 2
		return &rundir.PlanDuet{Seats: [2]rundir.Seat{
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
	for i := range d.Seats {
		own := pool[i*each : (i+1)*each]
		generator := each / 2
		if generator == 0 {
			d.Seats[i] = rundir.Seat{LoadCPUs: own, TargetCPUs: own}
			continue
		}
		d.Seats[i] = rundir.Seat{LoadCPUs: own[:generator], TargetCPUs: own[generator:]}
	}
	return &d
}

func listed(cpus []int) string {
	if len(cpus) == 0 {
		return "none"
	}
	return fmt.Sprint(cpus)
}

// planDuet places a duet on this machine; nil if the plan is not a duet. Services run on
// the CPUs of their targets.
func planDuet(e *experiment.Experiment) (*rundir.PlanDuet, error) {
	if !e.Design.Duet {
		return nil, nil
	}
	allowed, err := target.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	v := &e.Variants[0]
	d, err := seats(v.Load.CPUs, v.Target.CPUs, allowed)
	if err != nil {
		return nil, fmt.Errorf("design.duet: %w", err)
	}
	return d, nil
}

// seated returns a variant with its load and its processes on the CPUs of a seat.
func seated(v experiment.Variant, seat rundir.Seat) experiment.Variant {
	v.Load.CPUs, v.Target.CPUs = seat.LoadCPUs, seat.TargetCPUs
	v.Services = slices.Clone(v.Services)
	for i := range v.Services {
		v.Services[i].CPUs = seat.TargetCPUs
	}
	return v
}

// duetRound measures the pairs of one round. In the first rounds it also measures the
// base beside each variant that has no load.
func (r *runner) duetRound(ctx context.Context, round int, couples []pair) error {
	if r.whole(round) {
		return nil
	}
	for _, c := range couples {
		if err := r.both(ctx, round, c); err != nil {
			return err
		}
	}
	if round > experiment.IdleRounds {
		return nil
	}
	for _, c := range couples {
		if c.variant.AliasOf != "" {
			continue
		}
		s := task{round: round, variant: c.base, purpose: rundir.PurposeIdle, seat: c.seat, peer: c.variant}
		if _, err := r.measure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// both measures the two variants of a pair at the same time. The watcher gets the
// intervals of the base, and is told about the other variant when both have ended.
func (r *runner) both(ctx context.Context, round int, c pair) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	p := newPartners(func() error {
		s := r.run.Plan.Duet.Seats
		return target.SetAffinity(union(s[0].LoadCPUs, s[1].LoadCPUs))
	})
	tasks := [2]task{
		{round: round, variant: c.base, seat: c.seat, peer: c.variant},
		{round: round, variant: c.variant, seat: 1 - c.seat, peer: c.base},
	}
	var begun [2]*begun
	for i := range tasks {
		tasks[i].half = &half{partners: p, number: i}
		var err error
		if begun[i], err = r.begin(tasks[i]); err != nil {
			return err
		}
	}
	begun[0].trial.Duet.Trial, begun[1].trial.Duet.Trial = begun[1].trial.Number, begun[0].trial.Number
	before, err := target.AllowedCPUs()
	if err != nil {
		return err
	}
	workers := 0
	for _, s := range tasks {
		workers += max(s.variant.Load.Workers, len(r.run.Plan.Duet.Seats[s.seat].LoadCPUs))
	}
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(procs, workers+2*processorsBeside))
	r.announce(tasks[0], begun[0])
	var failed [2]error
	var halves sync.WaitGroup
	for i := range tasks {
		halves.Go(func() {
			defer p.leave(i)
			failed[i] = r.carryOut(ctx, tasks[i], begun[i].trial, begun[i].folder)
		})
	}
	halves.Wait()
	_ = target.SetAffinity(before) // dyno was allowed to use these CPUs before
	runtime.GOMAXPROCS(procs)
	_, err = r.end(ctx, tasks[0], begun[0], failed[0])
	r.announce(tasks[1], begun[1])
	_, other := r.end(ctx, tasks[1], begun[1], failed[1])
	return errors.Join(err, other)
}

// A half is one of two trials that are measured at the same time.
type half struct {
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
	p.start = newBarrier(func() { p.at = time.Now().Add(partLead) })
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

// other returns the other half's stage; nil if that half failed.
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

var _ engine.Barrier = (*half)(nil)

// Join returns when both halves have their connections.
func (h *half) Join(ctx context.Context, self engine.Party) (engine.Party, time.Time, error) {
	if err := h.partners.start.pass(ctx, h.number); err != nil {
		return self, time.Time{}, err
	}
	return self, h.partners.at, nil
}

// WaitPublished returns what this half has published: each half has events of its own.
func (h *half) WaitPublished(_ context.Context, published []wire.Source) ([]wire.Source, error) {
	return published, nil
}

// A barrier holds two halves until both have come. Then it runs an action and lets them go
// on. It is used once.
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
