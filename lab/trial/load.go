package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// load places the generator, drives the load and records it.
func (r *runner) load(ctx context.Context, up *stage, t *rundir.Trial, folder *rundir.TrialWriter) (err error) {
	c, codecs, err := generator.Config(up.variant, r.experiment.Design.Seed)
	if err != nil {
		return &PlanError{err}
	}
	defer func() {
		if failed := codecs.Close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	if t.Purpose == rundir.PurposePilot {
		c.Interval = generator.ShortestInterval
	}
	if cpus := up.variant.Load.CPUs; len(cpus) > 0 && up.side == nil { // otherwise both are placed already
		before, err := target.AllowedCPUs()
		if err != nil {
			return err
		}
		if err := target.SetAffinity(cpus); err != nil {
			return &PlanError{fmt.Errorf("load.cpus: %w", err)}
		}
		defer func() { _ = target.SetAffinity(before) }() // dyno was allowed to use these CPUs before
	}
	w := r.newWatch(up, t.Purpose)
	w.open(ctx, up.variant)
	if watcher := r.options.Watcher; watcher != nil && (up.side == nil || up.side.number == 0) {
		c.OnInterval = watcher.Interval
		if reader, ok := watcher.(ReadingWatcher); ok {
			c.OnInterval = func(i record.Interval) {
				reader.Reading(w.reading())
				watcher.Interval(i)
			}
		}
	}
	workers := c.Workers // of all processes
	c.OnStart, c.OnPhase = func(s engine.Start) { workers = len(s.Threads); w.start(s) }, w.phase
	var p *profiler
	if t.Purpose == rundir.PurposeProfile {
		p = r.newProfiler(ctx, up)
		c.OnPhase = func(phase engine.Phase) {
			w.phase(phase)
			p.phase(ctx, phase)
		}
	}
	if up.side == nil {
		procs := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(max(procs, c.Workers+generator.SpareProcessors))
		defer runtime.GOMAXPROCS(procs)
	} else {
		c.Barrier = up.side
	}
	// Collect garbage before the window rather than in it.
	runtime.GC()
	result, err := carry(ctx, up.variant, r.experiment.Design.Seed, c)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if p != nil {
		p.settle(ctx, t)
	}
	w.stop()
	if refused := (*engine.Unreachable)(nil); up.variant.Target.Proxy != "" && errors.As(err, &refused) {
		refused.Proxied = refused.Proxied || errors.Is(refused, unix.ECONNREFUSED)
	}
	other := otherwise(ctx, up.variant, &c, result, err)
	switch {
	case result == nil && other != nil:
		return other
	case result == nil:
		return err
	}
	translate(t, up.variant.Target.Protocol, result, workers)
	w.record(t, result)
	if fault := result.Ends.Fault; fault != "" {
		t.AddUnavailable(texts.NewError("unavailable.stamps", "error", fault))
	}
	err = errors.Join(err,
		save(folder, rundir.LatencyFile, func(f io.Writer) error { return generator.WriteLog(f, result) }),
		w.save(folder))
	if p != nil {
		err = errors.Join(err, p.save(t, folder))
	}
	if result.Interrupted {
		t.Interrupted = err == nil && result.Window > 0 // with its files, or its figures could not be judged
		return errors.Join(err, context.Cause(ctx))
	}
	if other != nil {
		return errors.Join(err, other)
	}
	if err == nil && countsAfter(up, t.Purpose, t.Round) {
		r.countCalls(ctx, up, c, t)
	}
	return err
}

// carry runs a load, in as many processes as its connections need, or as the plan says.
func carry(ctx context.Context, v *plan.Variant, seed uint64, c engine.Config) (*record.Result, error) {
	portions, err := generator.Split(c, v.Load.Processes)
	if err == nil && len(portions) > 1 && c.Barrier != nil {
		err = errors.New("load: it takes several processes, and each variant of a duet has one: raise the limit of descriptors (ulimit -n)")
	}
	if err != nil {
		return nil, &PlanError{err}
	}
	return generator.Run(ctx, v, seed, c, portions)
}
