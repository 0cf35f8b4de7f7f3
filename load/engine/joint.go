package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dyno/load/hist"
	"dyno/load/wire"
)

// A Joint connects the engines of several processes that carry one load together: so
// many connections that one process has no descriptors for them. They begin together,
// and where there are subscribers each learns what the others have published, so that its
// subscribers know what is missing. Its methods block until the others have come as far, or
// fail. They are called once each, in this order, and not at all by an engine that fails
// before; Settle only with subscribers.
type Joint interface {
	// Meet tells the others of this engine, all of whose connections have been tried.
	// It returns what all of them are together, and when the warm-up begins.
	Meet(ctx context.Context, self Party) (all Party, start time.Time, err error)

	// Settle tells the others what this engine has published, which is done with it,
	// and returns what all have.
	Settle(ctx context.Context, published []wire.Source) (all []wire.Source, err error)
}

// A Party is what an engine brings to a load.
type Party struct {
	Threads []int         // that carry it: ids as of gettid(2)
	Sources []wire.Source // that may publish
}

// settleTimeout bounds how long an engine that has ended waits to hear what the others
// have published: they end when it does, but for their last requests.
const settleTimeout = 10 * time.Second

// meet finds out when the warm-up begins, and who carries the load.
func (e *engine) meet(ctx context.Context) (origin int64, threads []int, err error) {
	for _, w := range e.workers {
		threads = append(threads, w.thread)
	}
	if e.config.Joint == nil {
		return int64(time.Since(e.base) + lead), threads, nil
	}
	self := Party{Threads: threads}
	for _, w := range e.workers {
		self.Sources = append(self.Sources, w.sources(true)...)
	}
	all, start, err := e.config.Joint.Meet(ctx, self)
	if err != nil {
		return 0, nil, fmt.Errorf("engine: meet the others: %w", err)
	}
	for _, s := range all.Sources {
		e.ours[s.ID] = struct{}{}
	}
	return start.UnixNano() - e.epoch, all.Threads, nil
}

// settle learns what the other engines have published, once this one is done with that.
func (e *engine) settle(ctx context.Context) {
	defer close(e.settled)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.drain()+settleTimeout)
	defer cancel()
	own := e.published.list()
	all, err := e.config.Joint.Settle(ctx, own)
	if err != nil {
		e.unsettled = fmt.Errorf("engine: what the others have published: %w", err)
		return
	}
	known := map[uint32]bool{}
	for _, s := range own {
		known[s.ID] = true
	}
	e.published.add(slices.DeleteFunc(slices.Clone(all), func(s wire.Source) bool { return known[s.ID] }))
}

// drain is how long the others' last requests may take beyond the window.
func (e *engine) drain() time.Duration { return e.config.Drain + e.config.Timeout }

// Join adds what another engine saw of the same load to the result. Both have the same
// time line. What is of the other's process, such as CPU time, is added up, too.
func (r *Result) Join(o *Result) error {
	if !r.Start.Equal(o.Start) {
		return errors.New("engine: two results with different beginnings")
	}
	r.Interrupted = r.Interrupted || o.Interrupted
	r.Counts.add(&o.Counts)
	r.Carried.add(&o.Carried)
	r.AllCounts.add(&o.AllCounts)
	r.Completed += o.Completed
	r.Connections.add(&o.Connections)
	r.Handshakes.add(&o.Handshakes)
	r.Ends.add(o.Ends)
	r.Connections.Requested += o.Connections.Requested
	for code, n := range o.Status {
		r.Status[code] += n
	}
	for text, n := range o.Failures {
		r.Failures[text] += n
	}
	if err := r.joinSteps(o); err != nil {
		return err
	}
	r.Window = max(r.Window, o.Window) // a number of requests may have ended them apart
	if o.Connections.Requested > 0 {
		r.Silence.join(&o.Silence)
	}
	r.Streams.add(&o.Streams)
	r.Process = r.Process.plus(o.Process)
	r.Workers = r.Workers.plus(o.Workers)
	r.Spun += o.Spun
	for tag, h := range o.Latency {
		r.Latency[tag].Merge(h)
	}
	r.Intervals = joined(r.Intervals, o.Intervals)
	return nil
}

// joined merges intervals of two engines that began together: those that begin within
// the same one of the longer list, which is as wide as the widest.
func joined(a, b []Interval) []Interval {
	open := map[int]int{} // connections of b that an interval of a has: the latest of those that belong to it
	for _, i := range b {
		at, _ := slices.BinarySearchFunc(a, i.Start+i.Length/2, func(x Interval, t time.Duration) int {
			if x.Start+x.Length <= t {
				return -1
			}
			return 1
		})
		if at == len(a) {
			a = append(a, i)
			open[at] = i.Connections
			continue
		}
		x := &a[at]
		x.Completed += i.Completed
		x.Failed += i.Failed
		x.Delivered += i.Delivered
		x.Connections += i.Connections - open[at]
		open[at] = i.Connections
		for tag, h := range i.Latency {
			switch {
			case h == nil:
			case x.Latency[tag] == nil:
				x.Latency[tag] = h
			default:
				merged := hist.New()
				merged.Merge(x.Latency[tag])
				merged.Merge(h)
				x.Latency[tag] = merged
			}
		}
	}
	return a
}

// add adds the accounts of another audience.
func (s *Streams) add(o *Streams) {
	s.Requested += o.Requested
	s.Opened += o.Opened
	s.Failed += o.Failed
	s.Reconnects += o.Reconnects
	s.Ended += o.Ended
	s.Broken += o.Broken
	s.Closed += o.Closed
	s.Peak += o.Peak
	s.Generator += o.Generator
	s.Served += o.Served
	s.Silent += o.Silent
	s.Quiet += o.Quiet
	s.Away += o.Away
	s.Subscribed += o.Subscribed
	s.Silence.join(&o.Silence)
	s.Delivered += o.Delivered
	s.DeliveredBytes += o.DeliveredBytes
	s.AllDelivered += o.AllDelivered
	s.Gaps += o.Gaps
	s.Unstamped += o.Unstamped
	s.Repeated += o.Repeated
	s.Disordered += o.Disordered
	s.Announced += o.Announced
	s.Uncertain += o.Uncertain
	s.Pending += o.Pending
	s.Lost += o.Lost
	s.Untracked += o.Untracked
	s.Unlisted += o.Unlisted
	s.Missing = append(s.Missing, o.Missing[:min(len(o.Missing), MaxMissing-min(len(s.Missing), MaxMissing))]...)
	s.Slow.add(&o.Slow)
	for text, n := range o.Failures {
		if s.Failures == nil {
			s.Failures = map[string]uint64{}
		}
		s.Failures[text] += n
	}
}

func (s *SlowStreams) add(o *SlowStreams) {
	s.Requested += o.Requested
	s.Opened += o.Opened
	s.Ended += o.Ended
	s.Delivered += o.Delivered
	s.Gaps += o.Gaps
	s.Announced += o.Announced
	s.Missing += o.Missing
}
