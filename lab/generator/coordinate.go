package generator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// An Account is what a process brought to a load.
type Account struct {
	Clock   Clock
	Late    time.Duration  // by how much it began after the others were to, as wrong as the clock
	Share   float64        // of the load that it was to carry
	Workers int            // threads
	Cost    *record.Result // its figures of CPU time, its window and what was done in it, and no others
	// Observed is what was seen of its machine; nil: nothing was.
	Observed *Observed
}

// Coordinate runs the load of a variant in processes that the carriers start, one for each portion from
// Divide. This process sends nothing. There is no result unless all have one. The error is a *LostError
// if it is due to a process that is lost. The accounts are in the carriers' order.
func Coordinate(ctx context.Context, v *plan.Variant, seed uint64, c config.Config, portions []Portion, by []Carrier) (*record.Result, []Account, error) {
	plan := partPlan{Variant: v, Seed: seed, Warmup: c.Warmup, Window: c.Window, Interval: c.Interval, Times: c.Times, Observe: true}
	parts, release, err := startParts(ctx, plan, portions, by)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	k := &coordinator{parts: parts, stamps: c.Subscribers != nil && c.Connections > 0}
	// The first error ends all parts: what follows from that is no news.
	failed, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	defer context.AfterFunc(failed, k.abandon)()
	defer k.bound(ctx, &c, fail)()
	_, start, err := k.Join(ctx, config.Party{})
	if cause := context.Cause(failed); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, nil, err
	}
	if c.OnStart != nil {
		c.OnStart(config.Start{Time: start})
	}
	results := make([]*record.Result, len(parts))
	published := make(chan []wire.Source, len(parts))
	var attending, announcing sync.WaitGroup
	for i, p := range parts {
		attending.Go(func() {
			var err error
			if results[i], err = p.result(failed, published); err != nil {
				fail(err)
			}
			p.ended.Store(true)
		})
	}
	if c.Subscribers != nil {
		attending.Go(func() {
			if err := k.shareOut(failed, published); err != nil {
				fail(err)
			}
		})
	}
	done := make(chan struct{})
	announcing.Go(func() { k.announceIntervals(&c, start, done) })
	go func() {
		attending.Wait()
		close(done)
	}()
	c.AnnouncePhases(start, done)
	<-done
	announcing.Wait()
	if err := context.Cause(failed); err != nil {
		return nil, nil, err
	}
	var accounts []Account
	for i, r := range results {
		cost := &record.Result{Window: r.Window, Process: r.Process, Workers: r.Workers, Spun: r.Spun, Completed: r.Completed}
		cost.Streams.Requested, cost.Streams.Delivered = r.Streams.Requested, r.Streams.Delivered
		accounts = append(accounts, Account{
			Clock: parts[i].clock, Late: parts[i].late, Share: portions[i].share(&c), Workers: parts[i].workers,
			Cost: cost, Observed: parts[i].observed,
		})
	}
	result := results[0]
	for i, of := range results[1:] {
		if err := result.Merge(of); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", parts[i+1].name, err)
		}
	}
	return result, accounts, nil
}

// bound ends all parts if they take longer than they may. Stop ends that.
func (k *coordinator) bound(ctx context.Context, c *config.Config, fail func(error)) (stop func()) {
	rest := c.Finish + c.Drain + c.Timeout + 2*partGrace
	all := rampOf(*c) + c.Warmup + c.Window + rest
	if c.Window == 0 {
		all = math.MaxInt64 // the length is unknown
	}
	timer := time.AfterFunc(all, func() {
		var late []error
		for _, p := range k.parts {
			if !p.ended.Load() {
				late = append(late, p.gone(errors.New("it takes longer than it should")))
			}
		}
		fail(errors.Join(late...))
	})
	interrupted := context.AfterFunc(ctx, func() { timer.Reset(rest) })
	return func() {
		interrupted()
		timer.Stop()
	}
}

// shareOut collects what each part has published, and tells all parts.
func (k *coordinator) shareOut(ctx context.Context, published <-chan []wire.Source) error {
	var all []wire.Source
	for range k.parts {
		select {
		case of := <-published:
			all = append(all, of...)
		case <-ctx.Done():
			return nil // a part has failed
		}
	}
	return k.sendPublished(all)
}

// announceIntervals reports what all parts did in each interval, until done. The last has the rest.
func (k *coordinator) announceIntervals(c *config.Config, start time.Time, done <-chan struct{}) {
	if c.OnInterval == nil {
		return
	}
	for i := (record.Interval{Length: c.Interval}); ; i = (record.Interval{Start: i.Start + i.Length, Length: i.Length}) {
		ended := false
		select {
		case <-done:
			ended = true
		case <-time.After(time.Until(start.Add(i.Start + i.Length))):
		}
		for _, p := range k.parts {
			p.addTo(&i)
		}
		if c.OnInterval(i); ended {
			return
		}
	}
}
