package hub

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stats counts what happens in a hub.
type stats struct {
	entered    atomic.Uint64
	ends       [ends]atomic.Uint64
	responses  atomic.Int64  // served through net/http
	looped     atomic.Int64  // served by the event loop, including those that it has not taken over yet
	hijacked   atomic.Uint64 // connections of ended subscribers that the hub had hijacked
	published  atomic.Uint64
	deliveries atomic.Uint64
	bytes      atomic.Uint64
	gaps       atomic.Uint64
	missed     atomic.Uint64
	heartbeats atomic.Uint64
	postponed  atomic.Uint64
	refusals   sync.Map // status → *atomic.Uint64: only a few

	publish prometheus.Histogram
	flush   prometheus.Histogram
}

func newStats() *stats {
	return &stats{
		publish: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "events_publish_seconds", Help: "From an update's arrival until it is kept.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 12),
		}),
		flush: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "events_flush_seconds", Help: "Time of a flush, or of a write to a connection; only if that is measured.",
			Buckets: []float64{5e-6, 50e-6, 500e-6, 5e-3, 50e-3}, // the first two are the thresholds in report R4
		}),
	}
}

func (s *stats) flushed(d time.Duration) { s.flush.Observe(d.Seconds()) }

func (s *stats) refused(status int) {
	n, ok := s.refusals.Load(status)
	if !ok {
		n, _ = s.refusals.LoadOrStore(status, new(atomic.Uint64))
	}
	n.(*atomic.Uint64).Add(1)
}

// Stats is a reading of a hub's counters. Each is exact, but they are not read at the
// same moment.
type Stats struct {
	Subscribers int               // current
	Entered     uint64            // subscribers ever
	Ends        map[string]uint64 // ended subscribers by reason
	Refused     map[int]uint64    // requests by status
	Postponed   uint64            // subscribers asked to come back, because the history could not be read
	Published   uint64            // updates accepted here
	Deliveries  uint64            // events written, counted for each subscriber
	Bytes       uint64            // of these events; for the event loop, of everything that it writes
	Gaps        uint64            // gap events written
	Missed      uint64            // events that these announce as missing, as far as known
	Heartbeats  uint64            // comments written
}

// Stats reads the counters. It may be called from any goroutine.
func (h *Hub) Stats() Stats {
	s := h.stats
	r := Stats{
		Subscribers: h.count() + int(s.looped.Load()), Entered: s.entered.Load(), Ends: map[string]uint64{}, Refused: map[int]uint64{},
		Postponed: s.postponed.Load(), Published: s.published.Load(), Deliveries: s.deliveries.Load(), Bytes: s.bytes.Load(),
		Gaps: s.gaps.Load(), Missed: s.missed.Load(), Heartbeats: s.heartbeats.Load(),
	}
	for e := endNone + 1; e < ends; e++ {
		r.Ends[e.String()] = s.ends[e].Load()
	}
	s.refusals.Range(func(status, n any) bool {
		r.Refused[status.(int)] = n.(*atomic.Uint64).Load()
		return true
	})
	if h.loop != nil {
		l := h.loop.Stats()
		r.Deliveries += uint64(l.Deliveries)
		r.Bytes += uint64(l.Bytes)
		r.Gaps += uint64(l.Gaps)
		r.Missed += uint64(l.Dropped + l.Coalesced)
		r.Heartbeats += uint64(l.Heartbeats)
	}
	return r
}

// connections keeps the states of the server's connections. Hijacked ones are counted
// separately.
type connections struct {
	mu     sync.Mutex // guards the following fields
	states map[net.Conn]http.ConnState
	closed uint64
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed:
		c.closed++
		delete(c.states, conn)
	case http.StateHijacked:
		delete(c.states, conn)
	default:
		c.states[conn] = state
	}
}

// count returns how many connections are serving a request, how many are not, and how
// many have ended.
func (c *connections) count() (busy, idle int, closed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if state == http.StateActive {
			busy++
		} else {
			idle++
		}
	}
	return busy, idle, c.closed
}

// phases counts the subscribers that wait for an event, and those that are being written
// to.
func (h *Hub) phases() (waits, writes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.active {
		if phase(s.phase.Load()) == writing {
			writes++
		} else {
			waits++
		}
	}
	if h.loop != nil {
		l := h.loop.Stats()
		waits, writes = waits+int(l.Subscribers-l.Late), writes+int(l.Late)
	}
	return waits, writes
}

// register registers the metrics with r, and returns a function that unregisters them. If
// one is refused, none stays registered. r may be nil.
func (h *Hub) register(r prometheus.Registerer) (unregister func(), err error) {
	var done []prometheus.Collector
	unregister = func() {
		for _, c := range done {
			r.Unregister(c)
		}
	}
	if r == nil {
		return unregister, nil
	}
	for _, c := range []prometheus.Collector{newCollector(h), h.stats.publish, h.stats.flush} {
		if err := r.Register(c); err != nil {
			unregister()
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		done = append(done, c)
	}
	return unregister, nil
}

// A collector gives Stats to Prometheus on request.
type collector struct {
	hub *Hub

	subscribers, entered, ends, refused, postponed, published, deliveries, bytes, gaps, missed, heartbeats,
	states, closed, history, head, options *prometheus.Desc
}

func newCollector(h *Hub) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("events_"+name, help, labels, nil)
	}
	return &collector{
		hub:         h,
		subscribers: desc("subscribers", "Subscribers there are."),
		entered:     desc("subscribers_total", "Subscribers that have connected."),
		ends:        desc("subscriber_ends_total", "Ended subscribers by reason.", "reason"),
		refused:     desc("refused_total", "Requests refused, by status.", "status"),
		postponed:   desc("postponed_total", "Subscribers asked to come back because the history could not be read."),
		published:   desc("published_total", "Updates published here."),
		deliveries:  desc("deliveries_total", "Events written, for each subscriber."),
		bytes:       desc("delivered_bytes_total", "Bytes of the events written."),
		gaps:        desc("gaps_total", "Gap events written."),
		missed:      desc("missed_total", "Events left out of queues that were full."),
		heartbeats:  desc("heartbeats_total", "Heartbeats written."),
		states:      desc("connections", "Connections by state: idle between requests, reading a request, waiting for an event, writing one.", "state"),
		closed:      desc("connections_closed_total", "Connections that have ended."),
		history:     desc("history_updates", "Updates in the history."),
		head:        desc("history_head", "The sequence number of the newest update."),
		options:     desc("socket_option", "A socket option: its requested value, and the kernel's.", "name", "side"),
	}
}

// Describe lists everything that Collect may ever return, not just what it returns at the
// moment: to unregister, Prometheus must find the same list again.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.subscribers, c.entered, c.ends, c.refused, c.postponed, c.published, c.deliveries, c.bytes, c.gaps, c.missed, c.heartbeats,
		c.states, c.closed, c.history, c.head, c.options,
	} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	h := c.hub
	s := h.Stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.subscribers, float64(s.Subscribers))
	counter(c.entered, s.Entered)
	for reason, n := range s.Ends {
		counter(c.ends, n, reason)
	}
	for status, n := range s.Refused {
		counter(c.refused, n, strconv.Itoa(status))
	}
	counter(c.postponed, s.Postponed)
	counter(c.published, s.Published)
	counter(c.deliveries, s.Deliveries)
	counter(c.bytes, s.Bytes)
	counter(c.gaps, s.Gaps)
	counter(c.missed, s.Missed)
	counter(c.heartbeats, s.Heartbeats)

	busy, idle, closed := h.conns.count()
	answered := h.stats.responses.Load()
	waits, writes := h.phases()
	gauge(c.states, float64(idle), "idle")
	// Subscribers served through net/http also are on busy connections, and with HTTP/2
	// on shared ones.
	gauge(c.states, float64(max(0, int64(busy)-answered)), "reading")
	gauge(c.states, float64(waits), "waiting")
	gauge(c.states, float64(writes), "writing")
	counter(c.closed, closed+h.stats.hijacked.Load())

	gauge(c.history, float64(h.journal.Head()+1-min(h.journal.Oldest(), h.journal.Head()+1)))
	gauge(c.head, float64(h.journal.Head()))
	h.mu.Lock()
	options := h.options
	h.mu.Unlock()
	for _, o := range options {
		gauge(c.options, float64(o.asked), o.name, "asked")
		gauge(c.options, float64(o.given), o.name, "given")
	}
}
