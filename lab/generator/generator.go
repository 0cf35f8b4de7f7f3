// Package generator runs the load of a variant, in one process or in several.
//
// Several processes carry a load with more connections than one process has descriptors for, or if the
// plan says so: dyno itself, and parts, which are dyno's own executable started again. Subscribers are
// divided by their numbers, and dyno itself has all publishers. A load of requests is divided by
// pace.Shard: arrivals, users and rows of data, each once; its connections, and whatever is counted or
// bounded, are divided evenly. The processes exchange lines of JSON over a part's standard input and
// output. So a part learns at once when dyno is gone. A Carrier may start parts on other machines: then
// they carry the whole load, and dyno itself coordinates them.
//
//	to a part:   its plan, when to start, what was published
//	from a part: who it is, its intervals, what it has published, its result and its latency log
package generator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"dyno/host/child"
	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
)

// Role is the role of a process that carries a part of a load. Where the plan says so, what watch returns
// observes its machine; nil: nothing does.
func Role(watch func(*plan.Variant) Watch) child.Role {
	return child.Role{Name: "__carry-part", Main: func(args []string) int { return runPart(args, os.Stdin, os.Stdout, watch) }}
}

// Run runs the load of a variant, which Config has made and Split has divided among processes.
func Run(ctx context.Context, v *plan.Variant, seed uint64, c config.Config, portions []Portion) (*record.Result, error) {
	if len(portions) == 1 {
		return engine.Run(ctx, c)
	}
	plan := partPlan{Variant: v, Seed: seed, Warmup: c.Warmup, Window: c.Window, Interval: c.Interval, Times: c.Times}
	parts, release, err := startParts(ctx, plan, portions[1:], slices.Repeat([]Carrier{Local{}}, len(portions)-1))
	if err != nil {
		return nil, err
	}
	defer release()
	own := partOf(c, portions[0])
	own.Barrier = &coordinator{parts: parts}
	end := time.Duration(0) // of the last interval
	if c.OnInterval != nil {
		own.OnInterval = func(i record.Interval) {
			for _, p := range parts {
				p.addTo(&i)
			}
			c.OnInterval(i)
			end = i.Start + i.Length
		}
	}
	result, err := engine.Run(ctx, own)
	if result == nil {
		for _, p := range parts {
			err = errors.Join(err, p.fault())
		}
		return nil, err
	}
	for _, p := range parts {
		of, failed := p.result(ctx, nil)
		if of != nil {
			if err != nil {
				failed = nil // the same is wrong for all of them
			}
			failed = errors.Join(failed, result.Merge(of))
		}
		err = errors.Join(err, failed)
	}
	if c.OnInterval != nil {
		own.OnInterval(record.Interval{Start: end}) // what the parts did after that
	}
	return result, err
}

// startParts starts the process of each portion by its carrier; but for the portion, they have the same plan. They
// stop when ctx ends. Release ends those that were not waited for.
func startParts(ctx context.Context, plan partPlan, portions []Portion, by []Carrier) (parts []*part, release func(), err error) {
	if plan.Variant, err = protocols.WithSecrets(plan.Variant); err != nil {
		return nil, nil, err
	}
	// All at once: agents are some way off, and their processes take a while to start.
	parts = make([]*part, len(portions))
	failed := make([]error, len(portions))
	var starting sync.WaitGroup
	for n, of := range portions {
		mine := plan
		mine.Portion = of
		starting.Go(func() { parts[n], failed[n] = startPart(ctx, by[n], mine) })
	}
	starting.Wait()
	kill := func() {
		for _, p := range parts {
			if p != nil {
				_ = p.kill() // its exit no longer matters
			}
		}
	}
	for n, err := range failed {
		if err != nil {
			kill()
			return nil, nil, fmt.Errorf("start process %d of %d that carry parts of the load: %w", n+1, len(portions), err)
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, p := range parts {
			_ = p.send(partOrder{Stop: true}) // if this fails, the part is already gone
		}
	})
	return parts, func() { stop(); kill() }, nil
}
