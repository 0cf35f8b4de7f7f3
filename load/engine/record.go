package engine

import (
	"slices"
	"time"

	"dyno/load/hist"
)

// A sheet is what one worker writes during one interval. Two or more go round
// between the worker and the collector: the worker never waits for one.
type sheet struct {
	worker            int
	start, end        int64 // engine time
	completed, failed uint64
	delivered         uint64
	open              int // connections, at the end
	latency           [Tags]*hist.Histogram
}

// sheets is how many sheets a worker owns: one to write, the others on their way
// to the collector and back. With none back in time, the worker goes on writing
// on the one it has, and that interval is longer.
const sheets = 3

func newSheet(worker int) *sheet {
	s := &sheet{worker: worker}
	for t := range s.latency {
		s.latency[t] = hist.New()
	}
	return s
}

func (s *sheet) reset() {
	s.completed, s.failed, s.delivered = 0, 0, 0
	for _, h := range s.latency {
		h.Reset()
	}
}

// A collector merges the workers' sheets into intervals. It runs in a goroutine
// of its own and owns its fields until Run has awaited it.
type collector struct {
	workers   int
	interval  time.Duration
	full      chan *sheet   // its capacity is the number of all sheets: a send never blocks
	free      []chan *sheet // per worker, likewise
	origin    int64         // engine time of the time line's zero; set before the first sheet is sent
	report    func(Interval)
	intervals []Interval
	latency   [Tags]*hist.Histogram

	pending map[int64]*gathered // by number
	next    int64               // the first interval not reported yet
	seen    []int64             // per worker: the end of its last sheet
	open    []int               // per worker: connections at that end
}

// gathered is an interval for which sheets are still to come.
type gathered struct {
	Interval
	open []int // per worker: connections at the end; unsaid by those without a sheet
}

// unsaid are the connections of a worker whose sheet of the interval before reached over
// this one.
const unsaid = -1

func newCollector(workers int, interval time.Duration, report func(Interval)) *collector {
	c := &collector{
		workers:  workers,
		interval: interval,
		full:     make(chan *sheet, workers*sheets),
		report:   report,
		pending:  map[int64]*gathered{},
		seen:     make([]int64, workers),
		open:     make([]int, workers),
	}
	for range workers {
		c.free = append(c.free, make(chan *sheet, sheets))
	}
	for t := range c.latency {
		c.latency[t] = hist.New()
	}
	return c
}

// run collects until the channel of full sheets is closed.
func (c *collector) run() {
	for s := range c.full {
		c.take(s)
		s.reset()
		c.free[s.worker] <- s
	}
	c.flush(1 << 62)
}

func (c *collector) take(s *sheet) {
	number := max(c.next, (s.start-c.origin)/int64(c.interval))
	start, end := time.Duration(s.start-c.origin), time.Duration(s.end-c.origin)
	p := c.pending[number]
	if p == nil {
		p = &gathered{Interval{Start: start, Length: end - start}, slices.Repeat([]int{unsaid}, c.workers)}
		c.pending[number] = p
	}
	// The workers turn their sheets when they come round to it, not at the same
	// instant: an interval is as wide as its widest sheets.
	end = max(end, p.Start+p.Length)
	p.Start = min(p.Start, start)
	p.Length = end - p.Start
	p.Completed += s.completed
	p.Failed += s.failed
	p.Delivered += s.delivered
	p.open[s.worker] = s.open
	for t, h := range s.latency {
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
	c.seen[s.worker] = s.end
	slowest := c.seen[0]
	for _, end := range c.seen {
		slowest = min(slowest, end)
	}
	c.flush((slowest - c.origin) / int64(c.interval))
}

// flush reports the intervals before limit, in order: all workers are past them.
func (c *collector) flush(limit int64) {
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
