package record

import (
	"fmt"
	"slices"
	"time"

	"dyno/load/hist"
)

// A buffer is what one worker records during one interval. Two or more go round
// between the worker and the collector: the worker never waits for one.
type buffer struct {
	worker     int
	start, end int64 // engine time
	measured   Outcomes
	warmup     Outcomes
	status     [statusCodes]uint64
	delivered  uint64
	open       int // connections, at the end
	slowest    Slow
	latency    [Tags]*hist.Histogram
}

// buffers is how many buffers a worker owns: one to write, the others on their way
// to the collector and back. With none back in time, the worker goes on writing to the one
// it has, and that interval is longer.
const buffers = 3

func newBuffer(worker int) *buffer {
	b := &buffer{worker: worker}
	for t := range b.latency {
		b.latency[t] = hist.New()
	}
	return b
}

func (b *buffer) reset() {
	b.delivered, b.slowest = 0, Slow{}
	clear(b.status[:])
	for _, h := range b.latency {
		h.Reset()
	}
}

// statuses are the codes that came.
func (b *buffer) statuses() map[int]uint64 {
	var some map[int]uint64
	for code, n := range b.status {
		if n > 0 {
			if some == nil {
				some = map[int]uint64{}
			}
			some[code] = n
		}
	}
	return some
}

// A Collector merges the workers' buffers into intervals. It runs in a goroutine
// of its own and owns its fields until Run has returned.
type Collector struct {
	workers   int
	interval  time.Duration
	full      chan *buffer   // its capacity is the number of all buffers: a send never blocks
	free      []chan *buffer // per worker, of the same capacity
	origin    int64          // engine time of the time line's zero; set before the first buffer is sent
	report    func(Interval)
	intervals []Interval
	latency   [Tags]*hist.Histogram

	pending map[int64]*gathered // by number
	next    int64               // the first interval not reported yet
	seen    []int64             // per worker: the end of its last buffer
	open    []int               // per worker: connections at that end
}

// gathered is an interval for which buffers are still to come.
type gathered struct {
	Interval
	open []int // per worker: connections at the end; unsaid by those without a buffer
}

// unsaid are the connections of a worker whose buffer of the interval before reached over
// this one.
const unsaid = -1

// Intervals says how a load is recorded over time.
type Intervals struct {
	Interval time.Duration // the length of each; default 1 s

	// OnInterval receives each interval once it is complete, in order, from a goroutine of its own. It must not keep what it
	// was given.
	OnInterval func(Interval)

	// Times are the latencies that OnInterval gets of every process that carries the load. Of all others it gets those of
	// the engine in its own process.
	Times TagSet
}

// Validate reports what is wrong with the intervals.
func (i *Intervals) Validate() error {
	if i.Interval < time.Millisecond {
		return fmt.Errorf("engine: interval %v: want at least 1ms", i.Interval)
	}
	return nil
}

// NewCollector returns a collector for a number of workers.
func NewCollector(workers int, intervals Intervals) *Collector {
	c := &Collector{
		workers:  workers,
		interval: intervals.Interval,
		full:     make(chan *buffer, workers*buffers),
		report:   intervals.OnInterval,
		pending:  map[int64]*gathered{},
		seen:     make([]int64, workers),
		open:     make([]int, workers),
	}
	for range workers {
		c.free = append(c.free, make(chan *buffer, buffers))
	}
	for t := range c.latency {
		c.latency[t] = hist.New()
	}
	return c
}

// Start sets the zero of the time line. It comes before the first buffer.
func (c *Collector) Start(origin int64) { c.origin = origin }

// Stop says that all workers have handed over their last buffers.
func (c *Collector) Stop() { close(c.full) }

// Run collects until Stop.
func (c *Collector) Run() {
	for b := range c.full {
		c.take(b)
		b.reset()
		c.free[b.worker] <- b
	}
	c.flush(1 << 62)
}

func (c *Collector) take(b *buffer) {
	number := max(c.next, (b.start-c.origin)/int64(c.interval))
	start, end := time.Duration(b.start-c.origin), time.Duration(b.end-c.origin)
	p := c.pending[number]
	if p == nil {
		p = &gathered{Interval{Start: start, Length: end - start}, slices.Repeat([]int{unsaid}, c.workers)}
		c.pending[number] = p
	}
	// The workers hand over their buffers when they come round to it, not at the same
	// instant: an interval is as wide as its widest buffers.
	end = max(end, p.Start+p.Length)
	p.Start = min(p.Start, start)
	p.Length = end - p.Start
	b.slowest.Written -= c.origin
	p.AddCounts(&Interval{Measured: b.measured, Warmup: b.warmup, Delivered: b.delivered, Status: b.statuses(), Slowest: b.slowest})
	p.open[b.worker] = b.open
	for t, h := range b.latency {
		if h.Count() == 0 {
			continue
		}
		c.latency[t].Merge(h)
		if p.Latency[t] == nil {
			p.Latency[t] = h.Clone()
		} else {
			p.Latency[t].Merge(h)
		}
	}
	c.seen[b.worker] = b.end
	slowest := c.seen[0]
	for _, end := range c.seen {
		slowest = min(slowest, end)
	}
	c.flush((slowest - c.origin) / int64(c.interval))
}

// flush reports the intervals before limit, in order: all workers are past them.
func (c *Collector) flush(limit int64) {
	for len(c.pending) > 0 && c.next < limit {
		p := c.pending[c.next]
		if p == nil {
			c.next++
			continue
		}
		delete(c.pending, c.next)
		c.next++
		for worker, n := range p.open {
			if n != unsaid {
				c.open[worker] = n
			}
			p.Connections += c.open[worker]
		}
		c.intervals = append(c.intervals, p.Interval)
		if c.report != nil {
			c.report(p.Interval)
		}
	}
}
