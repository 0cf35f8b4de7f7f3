package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"dyno/lab/exchange"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/wire"
)

// A part is a process that carries a part of the load.
type part struct {
	process Process
	name    string // in errors
	line    *exchange.Line

	// reports has the part's messages, except for its intervals. It has room for all of
	// them, and is closed after the last one; from then on its receiver may read the line.
	reports chan partReport
	lost    error // why there were no more messages; to be read when reports is closed
	counted tally

	waited bool
	// To be read once it has joined the others.
	workers int       // threads
	start   time.Time // when the warm-up begins, by this process's clock
	ours    int64     // the same, by CLOCK_MONOTONIC
	at      int64     // start by its machine's clock, as sent to it
	clock   Clock     // whole once there is a result
	// To be read once there is a result.
	late     time.Duration // by how much it began after that, by its own clock
	observed *Observed     // of its machine; nil: nothing

	ended atomic.Bool // there is a result, or none will come
}

// A tally sums up what a part did since the last reading.
type tally struct {
	mu sync.Mutex // guards of
	of record.Interval
}

// startPart starts a process that carries a part of a load.
func startPart(ctx context.Context, by Carrier, plan partPlan) (*part, error) {
	process, err := by.Start(ctx)
	if err != nil {
		return nil, &LostError{err}
	}
	p := &part{
		process: process, name: process.String(), line: exchange.New(process, process, maxPartLine), reports: make(chan partReport, maxReports),
	}
	plan.Silence = process.Silence()
	if plan.Silence > 0 {
		p.line.Watch(plan.Silence, process.Kill)
	}
	go p.listen()
	if err := p.send(partOrder{Plan: &plan}); err != nil {
		_ = p.kill() // it is lost already
		return nil, err
	}
	if plan.Silence > 0 {
		p.line.Beat(plan.Silence/beats, partOrder{})
	}
	return p, nil
}

// gone returns the error of a part that is lost.
func (p *part) gone(err error) error {
	return &LostError{fmt.Errorf("%s: %w", p.name, err)}
}

// letGo ends the watch over a part that is waited for.
func (p *part) letGo() {
	p.waited = true
	p.line.Close()
}

func (p *part) send(o partOrder) error {
	if err := p.line.Send(o); err != nil {
		return p.gone(err)
	}
	return nil
}

// listen reads the part's messages up to the outcome of the load.
func (p *part) listen() {
	defer close(p.reports)
	for range maxReports {
		r, err := p.next()
		if err != nil {
			p.lost = err
			return
		}
		p.reports <- r
		if r.Result != nil {
			return
		}
	}
	p.lost = errors.New("it sends more messages than it should")
}

// next reads the next message that says more than that the part is there, and is not an interval. It adds up the
// intervals before it.
func (p *part) next() (partReport, error) {
	for {
		var r partReport
		switch err := p.line.Receive(&r); {
		case err != nil:
			return r, err
		case r == (partReport{}):
			continue
		case r.Interval == nil:
			return r, nil
		}
		p.counted.mu.Lock()
		sum := &p.counted.of
		sum.AddCounts(r.Interval)
		sum.AddTimes(r.Interval)
		sum.Connections = r.Interval.Connections
		p.counted.mu.Unlock()
	}
}

// addTo adds what the part did since the last reading to an interval. It leaves the interval's histograms as they are:
// they belong to who recorded them.
func (p *part) addTo(i *record.Interval) {
	p.counted.mu.Lock()
	defer p.counted.mu.Unlock()
	sum := &p.counted.of
	i.AddCounts(sum)
	i.Connections += sum.Connections
	for tag, h := range sum.Latency {
		if h == nil || h.Count() == 0 {
			continue
		}
		if before := i.Latency[tag]; before != nil {
			h.Merge(before)
		}
		i.Latency[tag] = h.Clone()
		h.Reset()
	}
	*sum = record.Interval{Connections: sum.Connections, Latency: sum.Latency}
}

// hear waits for the next message.
func (p *part) hear() (partReport, error) {
	r, more := <-p.reports
	if !more {
		return r, p.gone(fmt.Errorf("its reports ended: %w", p.lost))
	}
	return r, p.failure(&r)
}

// failure returns the error that a part reports, or nil.
func (p *part) failure(r *partReport) error {
	switch {
	case r.Failed == "":
		return nil
	case r.Unreachable != "":
		return fmt.Errorf("%s: %w", p.name, &engine.Unreachable{Address: r.Unreachable, Err: errors.New(r.Failed)})
	}
	if r.Refused {
		return fmt.Errorf("%s: %w", p.name, &RefusedError{errors.New(r.Failed)})
	}
	return fmt.Errorf("%s: %s", p.name, r.Failed)
}

// fault returns why a part failed, if it has reported that. The part has nothing more to
// do.
func (p *part) fault() error {
	_ = p.process.CloseWrite() // if this fails, the part is already gone, and may have reported why
	r, err := p.hear()
	for err == nil && r.Result == nil {
		r, err = p.hear()
	}
	return p.failure(&r)
}

// result waits for the part's result, compares its clock once more, and waits for its end. A part that
// could not do all it should has a result, too. Sources that the part publishes until then go to
// published, which has room for them, or may be nil.
func (p *part) result(ctx context.Context, published chan<- []wire.Source) (*record.Result, error) {
	var (
		r   partReport
		err error
	)
	for err == nil && r.Result == nil {
		if r, err = p.hear(); r.Published != nil && published != nil {
			published <- r.Published.Sources
		}
	}
	if r.Result == nil {
		return nil, err
	}
	// The log has its own length, and does not end with the reports: a connection that breaks would
	// make it shorter, and what is left would look whole.
	log := io.LimitedReader{R: p.line, N: r.Log}
	_, intervals, failed := hist.ReadLog(&log)
	if failed == nil && log.N > 0 {
		failed = io.ErrUnexpectedEOF
	}
	if failed != nil {
		return nil, p.gone(fmt.Errorf("its latencies: %w", failed))
	}
	restore(r.Result, intervals)
	// Both are readings of one instant. The result has no other trace of the part's clock.
	p.clock.Offset = r.Result.Start.Sub(p.start.Round(0))
	r.Result.Start = p.start
	p.late, p.observed = time.Duration(r.Began-p.at), r.Observed
	within, failed := p.process.Drift(ctx, p.ours, p.at)
	if failed != nil {
		return nil, p.gone(failed)
	}
	p.clock.Drifted = time.Duration(within)
	p.letGo()
	if failed = p.process.Wait(); failed != nil {
		failed = &LostError{failed}
	}
	return r.Result, errors.Join(err, failed)
}

// kill ends a part that was not waited for.
func (p *part) kill() error {
	if p.waited {
		return nil
	}
	p.letGo()
	p.process.Kill() // whatever it was doing
	return p.process.Wait()
}

// A coordinator joins dyno's own engine to the parts' engines.
type coordinator struct {
	parts []*part
	// stamps tells that some parts publish to others: events are stamped by this machine's clock, as far as each
	// knows it.
	stamps bool
}

var _ config.Barrier = (*coordinator)(nil)

// Join collects the shares of all parts and sets when the warm-up begins.
func (c *coordinator) Join(ctx context.Context, self config.Party) (all config.Party, start time.Time, err error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all = self
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return all, start, cmp.Or(context.Cause(ctx), err) // the parts end with ctx
		}
		if r.Party == nil {
			return all, start, fmt.Errorf("%s: it did not report its start", p.name)
		}
		p.workers = len(r.Party.Threads)
		all.Threads = append(all.Threads, r.Party.Threads...)
		all.Sources = append(all.Sources, r.Party.Sources...)
	}
	begin, ours := now()
	lead := StartLead
	for _, p := range c.parts {
		// An order is on its way for about as long as the clock may be wrong.
		_, within := p.process.At(ours)
		lead = max(lead, StartLead+4*time.Duration(within))
	}
	start = begin.Add(lead)
	if c.stamps {
		all.Epoch = start.UnixNano()
	}
	for _, p := range c.parts {
		at, within := p.process.At(ours + lead.Nanoseconds())
		p.start, p.ours, p.at, p.clock.Error = start, ours+lead.Nanoseconds(), at, time.Duration(within)
		if err := p.send(partOrder{Start: &startSignal{At: at, All: all}}); err != nil {
			return all, start, err
		}
	}
	return all, start, nil
}

// WaitPublished collects what was published and tells the parts.
func (c *coordinator) WaitPublished(ctx context.Context, published []wire.Source) ([]wire.Source, error) {
	release := context.AfterFunc(ctx, c.abandon)
	defer release()
	all := published
	for _, p := range c.parts {
		r, err := p.hear()
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		if r.Published == nil {
			return nil, fmt.Errorf("%s: it did not report what it published", p.name)
		}
		all = append(all, r.Published.Sources...)
	}
	return all, c.sendPublished(all)
}

// sendPublished tells the parts what all have published.
func (c *coordinator) sendPublished(all []wire.Source) error {
	for _, p := range c.parts {
		if err := p.send(partOrder{Published: &publications{all}}); err != nil {
			return err
		}
	}
	return nil
}

// abandon ends all parts, and every wait for one.
func (c *coordinator) abandon() {
	for _, p := range c.parts {
		p.process.Kill()
	}
}
