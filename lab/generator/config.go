package generator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/users"
	"dyno/load/pace"
	"dyno/load/wire"
)

// SpareProcessors is how many of Go's processors there are in addition to one for each
// worker: one for each sleeper, which keeps it, and two for everything else, whatever the
// number of CPUs. With fewer, Go's scheduler would take turns between a worker and the
// rest, and wake threads to do so.
const SpareProcessors = 4

// Config translates a variant's load for the engine. The run-time variables are
// filled in. The codecs are to be closed when the load has ended.
func Config(ctx context.Context, v *plan.Variant, seed uint64) (c config.Config, codecs protocols.Codecs, err error) {
	l := &v.Load
	c = config.Config{
		Seed:       seed,
		Warmup:     l.Warmup,
		Window:     l.Window,
		Requests:   l.Requests,
		Finish:     l.Finish,
		Timeouts:   l.Timeouts,
		MaxBackoff: l.Reconnect.MaxBackoff,
		Threads:    l.Threads,
		Clock:      clock(l.Clock),
		Keepalive:  l.Keepalive,

		ExchangesPerConnection: l.RequestsPerConnection,
	}
	c.Network, c.Address = "tcp", v.Target.Peer()
	c.OneAddress = v.Target.ResolveTo == plan.ResolveOne
	if path, ok := strings.CutPrefix(v.Target.Address, "unix:"); ok {
		c.Network, c.Address = "unix", path
	}
	switch {
	case l.Paces != nil:
		if l.Open != nil {
			c.Waiting = l.Open.Waiting
		}
		c.Paces, err = paces(l, seed)
		for _, p := range c.Paces {
			c.Connections += p.Connections
		}
	case l.Closed != nil:
		c.Connections = l.Closed.Connections
		c.Think = l.Closed.Think
		if len(l.Stages) > 0 {
			c.Population, err = pace.NewPopulation(staged(l))
		}
	case l.Open != nil:
		c.Connections = l.Open.Connections()
		c.Waiting = l.Open.Waiting
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
	if c.Paces != nil {
		c.Workers = 0
		for _, p := range c.Paces {
			c.Workers += p.Workers
		}
	}
	if codecs, err = protocols.CodecsOf(ctx, v, seed, c.Workers); err != nil {
		return c, codecs, err
	}
	c.NewClients, c.NewMuxes, c.Streams, c.TLS = codecs.Clients, codecs.Muxes, codecs.Exchanges, codecs.TLS
	c.Standing, c.Owned = codecs.Standing, codecs.Owned
	c.NewFollower, c.NewTunnels, c.Traces = codecs.Follower, codecs.Tunnels, codecs.Traces
	if m := codecs.Messages; m != nil {
		c.Messages = &messages.Config{Answered: m.Answered, Interval: m.Interval, Goal: record.Goal{First: m.FirstToken, Each: m.TokenTime}}
	}
	if c.TimedOut = codecs.TimedOut; codecs.Timeout > 0 {
		c.Deadline = codecs.Timeout <= c.Timeout
		c.Timeout = min(c.Timeout, codecs.Timeout)
	}
	if l.Subscribers != nil {
		c.Subscribers = subscribers(l, codecs.Streams)
	}
	if s := l.Scenario; s != nil {
		c.Users = &users.Config{Scenario: codecs.Scenario, Count: s.Users, Answers: codecs.Answers, Restart: s.Restart, Iterations: l.Iterations.Iterations, IterationsEach: l.IterationsEach}
		if c.Population != nil {
			c.Users.Count = c.Population.Most()
		}
		switch {
		case c.Paces != nil:
			c.Users.Count = c.Connections
		case c.Owned:
			c.Connections = cmp.Or(c.Users.Count, c.Connections)
			c.Users.Count = c.Connections
		}
		if n := c.Users.Count; n > 0 && c.Paces == nil {
			c.Workers = min(c.Workers, n)
		}
	}
	c.Interval = interval(l)
	if l.Open != nil && ownCPUs(v) {
		c.Spin = spin
	}
	return c, codecs, nil
}

// clock translates the setting for what ends a response.
func clock(name string) config.Clock {
	switch name {
	case plan.ClockArrival:
		return config.ClockArrival
	case plan.ClockRead:
		return config.ClockRead
	}
	return config.ClockAuto
}

// spin covers the time that a sleeping thread usually takes to wake up. Only generators with their own
// CPUs use it, because there nothing else needs the CPU time.
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
	process := map[string]pace.Process{plan.ArrivalsConstant: pace.Constant, plan.ArrivalsPoisson: pace.Poisson}[l.Open.Arrivals]
	var stages []pace.Stage
	if len(l.Stages) == 0 {
		if l.Open.Ramp > 0 {
			stages = append(stages, pace.Stage{Duration: l.Open.Ramp, To: l.Open.Rate})
		}
		return pace.New(append(stages, pace.Steady(l.Open.Rate, 0)...), process, seed)
	}
	return pace.New(staged(l), process, seed)
}

// staged returns the stages of a load after its warm-up, which is as the window begins.
func staged(l *plan.Load) (stages []pace.Stage) {
	if l.Warmup > 0 {
		stages = append(stages, pace.Stage{Duration: l.Warmup, From: l.Stages[0].From, To: l.Stages[0].From})
	}
	for _, s := range l.Stages {
		stages = append(stages, pace.Stage{Duration: s.Duration, From: s.From, To: s.To})
	}
	return stages
}

// The bounds of a trial's log: its number of intervals, and the number of requests recorded in short
// intervals. The latter counts when a number of requests ends the window, whose length is unknown.
const (
	mostIntervals  = 4096
	finelyRecorded = 1_000_000
)

// ShortestInterval is the length of the shortest intervals in which a load is recorded. Pilots are, and so are their
// observers: the steady state is looked for in bins of this length.
const ShortestInterval = 100 * time.Millisecond

// interval returns the length of the intervals in which a load is recorded. Disturbances
// are left out by whole intervals, so these are as short as the log allows: 100 ms up to
// seven minutes, and almost a second for an hour.
func interval(l *plan.Load) time.Duration {
	switch {
	case l.Requests > finelyRecorded:
		return time.Second
	case l.Counted():
		return ShortestInterval
	}
	return max(ShortestInterval, ((l.Warmup + l.Window) / mostIntervals).Round(time.Millisecond))
}

// subscribers translates a plan's subscribers for the engine.
func subscribers(l *plan.Load, streams func(worker int) func(subscriber int) wire.Stream) *subscribe.Config {
	s := l.Subscribers
	c := &subscribe.Config{
		Count:         s.Connections,
		Ramp:          s.Ramp,
		Backoff:       l.Reconnect,
		ReceiveBuffer: s.ReceiveBuffer,
		NewStreams:    streams,
	}
	if s.Slow != nil {
		c.Slow, c.SlowRate = s.Slow.Connections, s.Slow.Rate
	}
	return c
}
