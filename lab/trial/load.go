package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/engine/users"
	"dyno/load/pace"
	"dyno/results/rundir"
)

// load places the generator, drives the load and records it.
func (r *runner) load(ctx context.Context, up *stage, t *rundir.Trial, folder *rundir.TrialWriter) (err error) {
	c, codecs, err := engineConfig(up.variant, r.experiment.Design.Seed)
	if err != nil {
		return &PlanError{err}
	}
	defer func() {
		if failed := codecs.Close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	if t.Purpose == rundir.PurposePilot {
		c.Interval = fine
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
		runtime.GOMAXPROCS(max(procs, c.Workers+processorsBeside))
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
		save(folder, rundir.LatencyFile, func(f io.Writer) error { return writeLatency(f, result) }),
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

// processorsBeside is how many of Go's processors there are in addition to one for each
// worker: one for each sleeper, which keeps it, and two for everything else, whatever the
// number of CPUs. With fewer, Go's scheduler would take turns between a worker and the
// rest, and wake threads to do so.
const processorsBeside = 4

// engineConfig translates a variant's load for the engine. The run-time variables are
// filled in. The codecs are to be closed when the load has ended.
func engineConfig(v *plan.Variant, seed uint64) (c engine.Config, codecs protocols.Codecs, err error) {
	l := &v.Load
	c = engine.Config{
		Seed:           seed,
		Warmup:         l.Warmup,
		Window:         l.Window,
		Requests:       l.Requests,
		Timeout:        l.Timeout,
		ConnectTimeout: l.ConnectTimeout,
		MaxBackoff:     l.Reconnect.MaxBackoff,
		Workers:        l.Workers,
		CPUs:           l.CPUs,
		Clock:          clock(l.Clock),

		ExchangesPerConnection: l.RequestsPerConnection,
	}
	c.Network, c.Address = "tcp", v.Target.Peer()
	if path, ok := strings.CutPrefix(v.Target.Address, "unix:"); ok {
		c.Network, c.Address = "unix", path
	}
	switch {
	case l.Closed != nil:
		c.Connections = l.Closed.Connections
		c.Think = l.Closed.Think.Pace()
	case l.Open != nil:
		c.Connections = l.Open.MaxConnections
		c.MaxWaiting = l.Open.MaxWaiting
		c.Schedule, err = schedule(l, seed)
	}
	if err != nil {
		return c, codecs, err
	}
	carried := c.Connections
	if s := l.Subscribers; s != nil {
		carried = max(carried, s.Connections)
	}
	if c.Workers == 0 {
		c.Workers = max(1, len(l.CPUs))
	}
	c.Workers = min(c.Workers, carried)
	if codecs, err = protocols.CodecsOf(v, seed, c.Workers); err != nil {
		return c, codecs, err
	}
	c.NewClients, c.NewMuxes, c.Streams, c.TLS = codecs.Clients, codecs.Muxes, codecs.Exchanges, codecs.TLS
	c.NewFollower, c.NewTunnels = codecs.Follower, codecs.Tunnels
	if m := codecs.Messages; m != nil {
		c.Messages = &messages.Config{Answered: m.Answered, Interval: m.Interval, Goal: record.Goal{First: m.FirstToken, Each: m.TokenTime}}
	}
	if k := l.Keepalive; k != nil {
		c.Keepalive = &engine.Keepalive{Time: k.Time, Timeout: k.Timeout, WithoutCalls: k.WithoutCalls}
	}
	if c.TimedOut = codecs.TimedOut; codecs.Timeout > 0 {
		c.Deadline = codecs.Timeout <= c.Timeout
		c.Timeout = min(c.Timeout, codecs.Timeout)
	}
	if l.Subscribers != nil {
		c.Subscribers = subscribers(l, codecs.Streams)
	}
	if s := l.Scenario; s != nil {
		c.Users = &users.Config{Scenario: codecs.Scenario, Count: s.Users, Answers: codecs.Answers, Restart: s.Restart}
		if s.Users > 0 {
			c.Workers = min(c.Workers, s.Users)
		}
	}
	c.Interval = interval(l)
	if l.Open != nil && ownCPUs(v) {
		c.Spin = spin
	}
	return c, codecs, nil
}

// clock translates the setting for what ends a response.
func clock(name string) engine.Clock {
	switch name {
	case plan.ClockArrival:
		return engine.ClockArrival
	case plan.ClockRead:
		return engine.ClockRead
	}
	return engine.ClockAuto
}

// spin covers the time that a sleeping thread usually takes to wake up. It is used only
// where the generator's CPUs are its own, because there nobody else needs the CPU time.
const spin = 60 * time.Microsecond

// ownCPUs reports whether the plan gives the generator CPUs that neither the target nor a
// service may use.
func ownCPUs(v *plan.Variant) bool {
	processes := []plan.Process{v.Target.Process}
	for _, s := range v.Services {
		processes = append(processes, s.Process)
	}
	for _, p := range processes {
		if len(p.Start) == 0 {
			continue // dyno did not start it and cannot know where it runs
		}
		shares := func(cpu int) bool { return slices.Contains(v.Load.CPUs, cpu) }
		if len(p.CPUs) == 0 || slices.ContainsFunc(p.CPUs, shares) {
			return false
		}
	}
	return len(v.Load.CPUs) > 0
}

// schedule makes the schedule of arrivals. The warm-up has the rate with which the window
// begins, after the ramp if there is one.
func schedule(l *plan.Load, seed uint64) (*pace.Schedule, error) {
	process, err := pace.ParseProcess(l.Open.Arrivals)
	if err != nil {
		return nil, err
	}
	var stages []pace.Stage
	if len(l.Open.Stages) == 0 {
		if l.Open.Ramp > 0 {
			stages = append(stages, pace.Stage{Duration: l.Open.Ramp, To: l.Open.Rate})
		}
		return pace.New(append(stages, pace.Steady(l.Open.Rate, 0)...), process, seed)
	}
	if l.Warmup > 0 {
		stages = append(stages, pace.Stage{Duration: l.Warmup, From: l.Open.Stages[0].From, To: l.Open.Stages[0].From})
	}
	for _, s := range l.Open.Stages {
		stages = append(stages, pace.Stage{Duration: s.Duration, From: s.From, To: s.To})
	}
	return pace.New(stages, process, seed)
}

// The bounds of a trial's log: how many intervals it may have, and how many requests may
// be recorded in short intervals if the number of requests ends the window and nobody
// knows how long they take.
const (
	mostIntervals  = 4096
	finelyRecorded = 1_000_000
)

// interval returns the length of the intervals in which a load is recorded. Disturbances
// are left out by whole intervals, so these are as short as the log allows: 100 ms up to
// seven minutes, and almost a second for an hour.
func interval(l *plan.Load) time.Duration {
	switch {
	case l.Requests > finelyRecorded:
		return time.Second
	case l.Requests > 0:
		return fine
	}
	return max(fine, ((l.Warmup + l.Window) / mostIntervals).Round(time.Millisecond))
}
