package engine

import (
	"errors"
	"slices"
	"time"

	"dyno/load/hist"
)

// Merge adds what another engine saw of the same load to the result. Both have the same
// time line. What is of the other's process, such as CPU time, is added up, too.
func (r *Result) Merge(o *Result) error {
	if !r.Start.Equal(o.Start) {
		return errors.New("engine: two results with different beginnings")
	}
	r.Interrupted = r.Interrupted || o.Interrupted
	r.Counts.add(&o.Counts)
	r.Carried.add(&o.Carried)
	r.AllCounts.add(&o.AllCounts)
	r.Completed += o.Completed
	r.Received += o.Received
	r.addTokens(o.Tokens)
	r.addRedirects(o.Redirects)
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
	for name, n := range o.Deviations {
		if r.Deviations == nil {
			r.Deviations = map[string]uint64{}
		}
		r.Deviations[name] += n
	}
	for text, n := range o.GoAways {
		if r.GoAways == nil {
			r.GoAways = map[string]uint64{}
		}
		r.GoAways[text] += n
	}
	if err := r.mergeSteps(o); err != nil {
		return err
	}
	r.Window = max(r.Window, o.Window) // a number of requests may have ended them apart
	if o.Connections.Requested > 0 {
		r.Silence.merge(&o.Silence)
	}
	r.Streams.add(&o.Streams)
	r.Process = r.Process.plus(o.Process)
	r.Workers = r.Workers.plus(o.Workers)
	r.Spun += o.Spun
	for tag, h := range o.Latency {
		r.Latency[tag].Merge(h)
	}
	r.Intervals = mergeIntervals(r.Intervals, o.Intervals)
	return nil
}

// mergeIntervals merges intervals of two engines that began together: those that begin within
// the same one of the longer list, which is as wide as the widest.
func mergeIntervals(a, b []Interval) []Interval {
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
		x.AddCounts(&i)
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

// add adds what became of other subscribers.
func (s *Streams) add(o *Streams) {
	s.Requested += o.Requested
	s.Untried += o.Untried
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
	s.Silence.merge(&o.Silence)
	s.Delivered += o.Delivered
	s.DeliveredBytes += o.DeliveredBytes
	s.AllDelivered += o.AllDelivered
	s.Gaps += o.Gaps
	s.Unstamped += o.Unstamped
	s.Add(&o.Account)
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
