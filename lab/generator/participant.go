package generator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"dyno/lab/exchange"
	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
)

// runPart carries a part of a load as standard input says, and returns the exit code. It
// ends as soon as standard input does. The arguments are its limits.
func runPart(args []string, stdin io.Reader, stdout io.Writer, watch func(*plan.Variant) Watch) int {
	// Ctrl-C in a terminal reaches every process, but dyno decides when to stop.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := &participant{watch: watch, line: exchange.New(stdin, stdout, maxPartLine), start: make(chan startSignal, 1), published: make(chan publications, 1)}
	var plan partOrder
	limits, err := limitsOf(args)
	if err == nil {
		err = m.line.Receive(&plan)
	}
	if err == nil && (plan.Plan == nil || plan.Plan.Variant == nil) {
		err = errors.New("no plan")
	}
	if err == nil {
		go m.follow(plan.Plan.Silence, cancel, func() { os.Exit(1) })
		err = m.carry(ctx, plan.Plan, limits)
	}
	if err != nil {
		var r partReport
		r.fail(err)
		_ = m.line.Send(r) // if this fails, there is no reader
		return 1
	}
	return 0
}

// A participant is the part's own side of the exchange.
type participant struct {
	watch   func(*plan.Variant) Watch // nil: nothing is observed
	threads []int                     // the part's own, once it has joined

	line *exchange.Line

	start     chan startSignal  // one
	published chan publications // one
}

// follow reads orders until they end, which means that dyno is dead. If none comes in time, dyno cannot
// be reached, and may measure with others: this part must not send any longer. Then it exits, too.
func (m *participant) follow(silence time.Duration, cancel, exit func()) {
	defer m.line.Close()
	if silence > 0 {
		m.line.Watch(silence, exit)
		m.line.Beat(silence/beats, partReport{})
	}
	for {
		var o partOrder
		switch err := m.line.Receive(&o); {
		case err != nil:
			exit()
			return
		case o.Start != nil:
			m.start <- *o.Start
		case o.Published != nil:
			m.published <- *o.Published
		case o.Stop:
			cancel()
		}
	}
}

func (m *participant) carry(ctx context.Context, plan *partPlan, limits *Limits) (err error) {
	if limits != nil {
		var release func()
		ctx, release = limits.Bound(ctx)
		defer release()
		if err := limits.admit(ctx, plan); err != nil {
			return &RefusedError{err}
		}
	}
	whole, codecs, err := Config(ctx, plan.Variant, plan.Seed)
	if err != nil {
		return err
	}
	defer func() {
		if failed := codecs.Close(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	c := partOf(whole, plan.Portion)
	if limits != nil {
		if err := limits.AdmitConnections(&c); err != nil {
			return &RefusedError{err}
		}
	}
	c.Warmup, c.Window, c.Interval, c.Barrier = plan.Warmup, plan.Window, plan.Interval, m
	c.OnInterval = func(i record.Interval) {
		i.KeepTimes(plan.Times)
		_ = m.line.Send(partReport{Interval: &i}) // if this fails, dyno is dead: the orders end, and so does this process
	}
	var watch Watch
	if plan.Observe && m.watch != nil {
		watch = m.watch(plan.Variant)
		c.OnStart, c.OnPhase = func(s config.Start) { watch.Start(config.Start{Time: s.Time, Threads: m.threads}) }, watch.Phase
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), c.Workers+SpareProcessors))
	runtime.GC()
	if c.Window > 0 { // otherwise only the number of requests ends it
		var release func()
		ctx, release = context.WithTimeout(ctx, rampOf(c)+c.Warmup+c.Window+c.Finish+c.Drain+partGrace)
		defer release()
	}
	result, err := engine.Run(ctx, c)
	if over, ok := errors.AsType[*overtimeError](context.Cause(ctx)); ok {
		return over // a partial result does not belong to this plan
	}
	if result == nil {
		return err
	}
	bare := *result
	bare.Intervals, bare.Latency = nil, [record.Tags]*hist.Histogram{}
	for _, i := range result.Intervals {
		i.KeepTimes(record.TagSet{})
		bare.Intervals = append(bare.Intervals, i)
	}
	bare.Steps = slices.Clone(result.Steps)
	for i := range bare.Steps {
		s := &bare.Steps[i]
		s.Response, s.Service, s.FirstToken, s.TokenTime = nil, nil, nil, nil
	}
	var log bytes.Buffer
	if err := WriteLog(&log, result); err != nil {
		return err
	}
	r := partReport{Result: &bare, Log: int64(log.Len()), Began: monotonicAt(result.Start.Add(result.Began))}
	if watch != nil {
		r.Observed = watch.Stop(len(m.threads))
	}
	r.fail(err)
	return m.line.Send(r, log.Bytes()...)
}

// fail reports an error, unless it is nil, or the part has a result and tried no connection: then
// nothing was due from it.
func (r *partReport) fail(err error) {
	var unreachable *engine.Unreachable
	switch {
	case err == nil:
	case errors.As(err, &unreachable) && unreachable.Err != nil:
		r.Failed, r.Unreachable = unreachable.Err.Error(), unreachable.Address
	case unreachable == nil || r.Result == nil:
		r.Failed = err.Error()
		_, r.Refused = errors.AsType[*RefusedError](err)
	}
}

// rampOf is how long a part may take until it has tried to open all its connections.
func rampOf(c config.Config) time.Duration {
	d := 2 * c.ConnectTimeout
	if s := c.Subscribers; s != nil && s.Ramp > 0 {
		d += time.Duration(float64(s.Count) / s.Ramp * float64(time.Second))
	}
	return d
}

// Join reports this part's share and waits for the start.
func (m *participant) Join(ctx context.Context, self config.Party) (all config.Party, start time.Time, err error) {
	m.threads = self.Threads
	if err := m.line.Send(partReport{Party: &self}); err != nil {
		return all, start, err
	}
	select {
	case begin := <-m.start:
		return begin.All, timeOf(begin.At), nil
	case <-ctx.Done():
		return all, start, context.Cause(ctx)
	}
}

// WaitPublished reports what this part has published and waits for what all have published.
func (m *participant) WaitPublished(ctx context.Context, published []wire.Source) ([]wire.Source, error) {
	if err := m.line.Send(partReport{Published: &publications{published}}); err != nil {
		return nil, err
	}
	select {
	case s := <-m.published:
		return s.Sources, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
