package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"

	"dyno/host/target"
	"dyno/internal/errno"
	"dyno/internal/texts"
	"dyno/lab/detect"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/plan"
	"dyno/lab/profiling"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/results/rundir"
)

// A drive is one load of a trial, and what watches it.
type drive struct {
	variant  *plan.Variant // within the run's limits
	config   config.Config
	codecs   protocols.Codecs
	watch    *observation.Watch
	profiler *profiling.Profiler // of a trial that profiles; else nil
	workers  int                 // of all processes
}

// load places the generator, drives the load and records it.
func (r *runner) load(ctx context.Context, up *stage, t *rundir.Trial, folder *rundir.TrialWriter) (err error) {
	d := &drive{variant: up.variant}
	if len(r.agents) == 0 {
		var end context.CancelFunc
		if ctx, end, d.variant, err = r.options.Limits.bound(ctx, d.variant); err != nil {
			return &PlanError{err}
		}
		defer end()
	}
	tearDown, err := r.setUp(ctx, d, t)
	if err != nil {
		return err
	}
	defer tearDown()
	switch err := r.configure(ctx, d, t.Purpose); {
	case err != nil && ctx.Err() != nil: // a server was being asked what it offers
		return context.Cause(ctx)
	case err != nil:
		return &PlanError{err}
	}
	defer func() {
		if failed := d.codecs.Close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	restore, err := r.placeGenerator(up)
	if err != nil {
		return err
	}
	defer restore()
	r.observe(ctx, d, up, t.Purpose)
	switch {
	case up.side != nil:
		d.config.Barrier = up.side
	case len(r.agents) == 0:
		procs := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(max(procs, d.config.Workers+generator.SpareProcessors))
		defer runtime.GOMAXPROCS(procs)
	}
	collectIfSoon()
	result, accounts, err := r.carry(ctx, d.variant, d.config)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if d.profiler != nil {
		d.profiler.Settle(ctx, t)
	}
	d.watch.Stop()
	if refused := (*engine.Unreachable)(nil); up.variant.Target.Proxy != "" && errors.As(err, &refused) {
		refused.Proxied = refused.Proxied || errno.Is(refused, syscall.ECONNREFUSED)
	}
	other := detect.Mismatch(ctx, up.variant, &d.config, result, err)
	if other != nil {
		other = &Fault{other}
	}
	switch {
	case result == nil && other != nil:
		return other
	case result == nil:
		return err
	}
	err = errors.Join(err, r.save(d, t, folder, result, accounts))
	if result.Interrupted {
		t.Interrupted = err == nil && result.Window > 0 // with its files, or its figures could not be judged
		return errors.Join(err, context.Cause(ctx))
	}
	if other != nil {
		return errors.Join(err, other)
	}
	if err == nil && r.countsAfter(up, t.Purpose, t.Round) {
		observation.CountCalls(up.local().Supervisor(), d.config, t, func(c config.Config) (*record.Result, error) {
			result, _, err := r.carry(ctx, d.variant, c)
			return result, err
		})
	}
	return err
}

// configure makes the engine's configuration and the codecs of a load.
func (r *runner) configure(ctx context.Context, d *drive, purpose string) (err error) {
	if d.config, d.codecs, err = generator.Config(ctx, d.variant, r.experiment.Design.Seed); err != nil {
		return err
	}
	if purpose == rundir.PurposePilot {
		d.config.Interval = generator.ShortestInterval
	}
	d.workers = d.config.Workers
	if r.options.Limits == nil || len(r.agents) > 0 {
		return nil
	}
	if err := r.options.Limits.Loads.AdmitConnections(&d.config); err != nil {
		return errors.Join(err, d.codecs.Close())
	}
	return nil
}

// observe connects a load's intervals and phases to its watchers.
func (r *runner) observe(ctx context.Context, d *drive, up *stage, purpose string) {
	d.watch = r.watch(up, purpose)
	d.watch.Open(ctx)
	if watcher := r.options.Watcher; watcher != nil && (up.side == nil || up.side.number == 0) {
		d.config.OnInterval, d.config.Times = follow(watcher, d.watch), r.options.Times
	}
	d.config.OnStart = func(s config.Start) {
		d.workers = len(s.Threads)
		d.watch.Start(s)
	}
	d.config.OnPhase = d.watch.Phase
	if purpose != rundir.PurposeProfile {
		return
	}
	d.profiler = profiling.New(ctx, r.experiment.Profile, up.variant, up.local(), &r.symbols)
	d.config.OnPhase = func(phase config.Phase) {
		d.watch.Phase(phase)
		d.profiler.Phase(ctx, phase)
	}
}

// save puts what a load has measured into the trial and its folder.
func (r *runner) save(d *drive, t *rundir.Trial, folder *rundir.TrialWriter, result *record.Result, accounts []generator.Account) error {
	for _, a := range accounts {
		d.workers += a.Workers // none of them is here
		if a.Observed != nil {
			d.watch.AddPart(a.Observed, a.Cost.Process.Total())
		}
	}
	translate(t, d.variant, result, d.workers)
	d.watch.Record(t, result)
	r.recordAgents(t, d.watch, accounts)
	if fault := result.Ends.Fault; fault != "" {
		t.AddUnavailable(texts.NewError("unavailable.stamps", "error", fault))
	}
	err := errors.Join(
		folder.Save(rundir.LatencyFile, func(f io.Writer) error { return generator.WriteLog(f, result) }),
		d.watch.Save(folder))
	if d.profiler != nil {
		err = errors.Join(err, d.profiler.Save(t, folder))
	}
	return err
}

// collectIfSoon collects garbage before a window if the heap has grown half way to the next collection.
// Otherwise that would come in the window. It takes ten milliseconds.
func collectIfSoon() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	if metrics.Read(heap); heap[0].Value.Uint64() > heap[1].Value.Uint64()/2 {
		runtime.GC()
	}
}

// placeGenerator has dyno run on the CPUs that the plan gives it, until restore.
func (r *runner) placeGenerator(up *stage) (restore func(), err error) {
	cpus := up.variant.Load.CPUs
	if len(cpus) == 0 || up.side != nil || len(r.agents) > 0 { // or others are placed already
		return func() {}, nil
	}
	before, err := target.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	if err := target.SetAffinity(cpus); err != nil {
		return nil, &PlanError{fmt.Errorf("load.cpus: %w", err)}
	}
	return func() { _ = target.SetAffinity(before) }, nil // dyno was allowed to use these CPUs before
}

// watch returns what records a trial whose processes are up.
func (r *runner) watch(up *stage, purpose string) *observation.Watch {
	c := observation.Config{
		Variant: up.variant, Target: up.local(), Services: up.services(), Neighbours: up.neighbours,
		Purpose: purpose, Soak: r.experiment.Soak, Carried: len(r.agents) > 0, Pods: up.pods,
	}
	if up.watched != nil {
		c.Agent = up.watched
	}
	return observation.New(c)
}

// follow returns what gives the watcher each interval, and before it a reading if it wants one.
func follow(watcher Watcher, w *observation.Watch) func(record.Interval) {
	reader, ok := watcher.(ReadingWatcher)
	if !ok {
		return watcher.Interval
	}
	return func(i record.Interval) {
		cpu, rss := w.Reading()
		reader.Reading(Reading{CPUSeconds: cpu, RSSBytes: rss})
		watcher.Interval(i)
	}
}

// mostCounted is the number of rounds in which system calls are counted at most.
const mostCounted = 3

// countsIn tells whether system calls are counted in a round. Their number per request hardly varies.
// So one round that counts is enough, unless a condition on it needs an interval.
func (r *runner) countsIn(round int) bool {
	asked := strings.Join(r.experiment.Conditions(), " ") + r.experiment.Design.Metric
	for _, c := range r.experiment.Claims {
		asked += " " + c.Holds + " " + c.Measured
	}
	wanted := 1
	if strings.Contains(asked, "target.syscalls") {
		wanted = mostCounted
	}
	for i := 1; i < round; i++ {
		uncounted := func(t *rundir.TrialFolder) bool {
			return t.Round == i && t.Purpose == "" && t.Target.SyscallsPerRequest == nil
		}
		if !r.disturbed[i] && !slices.ContainsFunc(r.trials, uncounted) {
			wanted--
		}
	}
	return wanted > 0 && round <= mostCounted+len(r.disturbed)
}

// countsAfter reports whether a trial's system calls are counted after its window. A load with a fixed
// number of requests must not send more of them. A load in stages has no single rate to continue with,
// and a ramp would begin again.
func (r *runner) countsAfter(up *stage, purpose string, round int) bool {
	l := &up.variant.Load
	// In a duet the hooks would also cost the other side an unknown amount.
	return up.local() != nil && up.side == nil && up.idle == nil && up.variant.Observe.Kernel == plan.KernelAfter &&
		purpose == "" && r.countsIn(round) &&
		!l.Counted() && len(l.Stages)+len(l.Paces) == 0 && (l.Open == nil || l.Open.Ramp == 0)
}

// carry runs a load: on the agents, or in as many processes as its connections need, or as the plan says. Only
// agents have accounts.
func (r *runner) carry(ctx context.Context, v *plan.Variant, c config.Config) (*record.Result, []generator.Account, error) {
	seed := r.experiment.Design.Seed
	if len(r.agents) > 0 {
		var carriers []generator.Carrier
		var descriptors []int
		for _, a := range r.present() {
			carriers, descriptors = append(carriers, a.Carrier), append(descriptors, a.Descriptors)
		}
		portions, err := generator.Divide(c, carriers, descriptors)
		switch {
		case c.Barrier != nil:
			err = errors.New("design.duet: agents carry one load at a time: leave out the agents, or the duet")
		case v.Load.Processes > 0:
			err = errors.New("load.processes: each agent carries its part in one process: leave it out, or use more agents")
		}
		if err != nil {
			return nil, nil, r.unable(err)
		}
		result, accounts, err := generator.Coordinate(ctx, v, seed, c, portions, carriers)
		if _, refused := errors.AsType[*generator.RefusedError](err); refused {
			err = r.unable(err)
		}
		return result, accounts, err
	}
	portions, err := generator.Split(c, v.Load.Processes)
	if err == nil && len(portions) > 1 && c.Barrier != nil {
		err = errors.New("load: it takes several processes, and each variant of a duet has one: raise the limit of descriptors (ulimit -n)")
	}
	if err != nil {
		return nil, nil, &PlanError{err}
	}
	result, err := generator.Run(ctx, v, seed, c, portions)
	return result, nil, err
}
