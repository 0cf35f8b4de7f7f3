package trial

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"dyno/host/target"
	"dyno/lab/duet"
	"dyno/lab/generator"
	"dyno/load/engine/config"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// A duet measures two variants at the same time, on separate CPUs and with the same arrivals. Package duet
// plans it. Both sides are trials. Each has an engine in this process, whose workers are on the side's CPUs.

// duetRound measures the pairs of one round. In the first rounds it also measures the base
// next to each variant without load.
func (r *runner) duetRound(ctx context.Context, round int, planned []duet.Pair) error {
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
		if c.Variant.AliasOf != "" {
			continue
		}
		s := task{round: round, variant: c.Base, purpose: rundir.PurposeIdle, cpuSet: c.CPUSet, peer: c.Variant}
		if _, err := r.measure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// both measures the two variants of a pair at the same time. The watcher gets the intervals
// of the base, and the result of the other variant when both have ended.
func (r *runner) both(ctx context.Context, round int, c duet.Pair) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	p := newPartners(func() error {
		s := r.run.Plan.Duet.CPUSets
		return target.SetAffinity(duet.Union(s[0].LoadCPUs, s[1].LoadCPUs))
	})
	tasks := [2]task{
		{round: round, variant: c.Base, cpuSet: c.CPUSet, peer: c.Variant},
		{round: round, variant: c.Variant, cpuSet: 1 - c.CPUSet, peer: c.Base},
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

var _ config.Barrier = (*side)(nil)

// Join returns when both sides have their connections.
func (s *side) Join(ctx context.Context, self config.Party) (config.Party, time.Time, error) {
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
