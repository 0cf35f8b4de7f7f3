package record

import (
	"slices"
	"time"

	"dyno/internal/sums"
	"dyno/load/hist"
)

// An Interval is what happened in one stretch of the time line. In JSON, it has only what is not zero: a
// coordinator reads many, of which few have latencies.
type Interval struct {
	Start, Length time.Duration         `sum:"-"`                  // from the beginning of the warm-up
	Measured      Outcomes              `json:",omitzero"`         // requests of the window, and those carried into it, that ended in the interval
	Warmup        Outcomes              `json:",omitzero"`         // other requests that ended in it
	Delivered     uint64                `json:",omitzero"`         // events that arrived in it, of the warm-up too; slow subscribers' not
	Connections   int                   `json:",omitzero" sum:"-"` // open at its end, subscriptions included, as each worker last counted its own
	Status        map[int]uint64        `json:",omitzero"`         // complete responses to the window's requests by status code; nil without any
	Slowest       Slow                  `json:",omitzero" sum:"-"` // of the window's requests that ended in it and carried a trace id; zero without
	Latency       [Tags]*hist.Histogram `json:",omitzero" sum:"-"` // of the window's requests; nil where empty
}

// Completed is the number of good responses that ended in the interval, of the warm-up too.
func (i *Interval) Completed() uint64 { return i.Measured.OK + i.Warmup.OK }

// AddCounts adds what another interval counted, except connections, which are a state.
func (i *Interval) AddCounts(o *Interval) {
	sums.Add(i, o)
	if o.Slowest.Response > i.Slowest.Response {
		i.Slowest = o.Slowest
	}
}

// AddTimes adds another interval's latencies, to histograms of this interval's own.
func (i *Interval) AddTimes(o *Interval) {
	for tag, h := range o.Latency {
		switch {
		case h == nil:
			continue
		case i.Latency[tag] == nil:
			i.Latency[tag] = hist.New()
		}
		i.Latency[tag].Merge(h)
	}
}

// KeepTimes drops the latencies of all other tags.
func (i *Interval) KeepTimes(times TagSet) {
	for tag, wanted := range times {
		if !wanted {
			i.Latency[tag] = nil
		}
	}
}

// mergeIntervals merges intervals of two engines that began together: those that begin within
// the same one of the longer list, which is as wide as the widest.
func mergeIntervals(a, b []Interval) []Interval {
	open := map[int]int{} // connections of b that an interval of a has: the latest of those that belong to it
	sum := hist.New()     // its clones take some kB, and there is one for each interval and tag
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
				sum.Reset()
				sum.Merge(x.Latency[tag])
				sum.Merge(h)
				x.Latency[tag] = sum.Clone()
			}
		}
	}
	return a
}
