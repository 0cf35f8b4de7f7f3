package relay

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// An outcome is the reason why a connection ended. Every accepted connection has exactly
// one.
type outcome uint8

const (
	ended          outcome = iota // both sides ended their streams
	resetByClient                 // the client's side failed
	resetByTarget                 // the upstream's side failed
	resetByDesign                 // a network condition broke it
	idled                         // IdleTimeout
	cut                           // open when the drain's deadline passed
	rejected                      // arrived beyond MaxConnections
	headerBad                     // no PROXY protocol header, or a broken one
	headerTimeout                 // the header was not complete in time
	connectRefused                // the upstream refused
	connectTimeout                // the upstream did not answer in time
	connectFailed                 // the upstream could not be reached otherwise
	outcomes
)

var outcomeNames = [outcomes]string{
	"end", "client_reset", "upstream_reset", "condition", "idle", "drain", "rejected",
	"header_bad", "header_timeout", "connect_refused", "connect_timeout", "connect_failed",
}

func (o outcome) String() string { return outcomeNames[o] }

// failed reports whether the connection ended before anything was forwarded.
func (o outcome) failed() bool { return o >= headerBad }

// The directions, as indexes. They also index the sides: a byte of direction d comes from
// side d and goes to side 1-d.
const (
	toServer = iota
	toClient
)

// counters belong to one loop or worker, so that two CPUs never contend for a cache line
// when they count.
type counters struct {
	bytes      [2]atomic.Uint64 // written, by direction
	exhausted  atomic.Uint64    // read budgets used up
	bufferedBy atomic.Int64     // bytes read and not yet written
	_          [64]byte
}

// stats counts what happens to connections.
type stats struct {
	model    Model
	open     atomic.Int64
	accepted atomic.Uint64
	ends     [outcomes]atomic.Uint64
	parts    []*counters // fixed before serving
}

func (s *stats) part() *counters {
	c := new(counters)
	s.parts = append(s.parts, c)
	return c
}

// Stats is a reading of a relay's counters. Each is exact, but they are not read at the
// same moment.
type Stats struct {
	Open            int64             // connections being served
	Accepted        uint64            // connections accepted, rejected ones included
	Rejected        uint64            // connections beyond MaxConnections
	Failed          uint64            // connections that ended before anything was forwarded
	Ends            map[string]uint64 // ended connections by reason
	ToServer        uint64            // bytes written to the upstream
	ToClient        uint64            // bytes written to clients
	Buffered        int64             // bytes read and not yet written
	BudgetExhausted uint64            // how often a read budget was used up
}

// Stats reads the counters. It may be called from any goroutine.
func (s *Server) Stats() Stats { return s.stats.read() }

func (s *stats) read() Stats {
	r := Stats{Open: s.open.Load(), Accepted: s.accepted.Load(), Ends: map[string]uint64{}}
	for o := range outcomes {
		n := s.ends[o].Load()
		r.Ends[o.String()] = n
		if o.failed() {
			r.Failed += n
		}
	}
	r.Rejected = r.Ends[rejected.String()]
	for _, p := range s.parts {
		r.ToServer += p.bytes[toServer].Load()
		r.ToClient += p.bytes[toClient].Load()
		r.Buffered += p.bufferedBy.Load()
		r.BudgetExhausted += p.exhausted.Load()
	}
	return r
}

// A collector gives Stats to Prometheus on request.
type collector struct {
	stats                                                              *stats
	open, accepted, rejected, failed, closes, bytes, buffered, budgets *prometheus.Desc
}

func newCollector(s *stats) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("relay_"+name, help, labels, prometheus.Labels{"model": string(s.model)})
	}
	return &collector{
		stats:    s,
		open:     desc("connections_open", "Client connections being served."),
		accepted: desc("connections_total", "Client connections accepted, rejected ones included."),
		rejected: desc("connections_rejected_total", "Client connections reset for exceeding the bound."),
		failed:   desc("connections_failed_total", "Client connections that ended before anything was forwarded."),
		closes:   desc("connection_ends_total", "Ended client connections by reason.", "reason"),
		bytes:    desc("bytes_total", "Bytes written, by the side they went to.", "to"),
		buffered: desc("buffered_bytes", "Bytes read and not yet written."),
		budgets:  desc("read_budget_exhausted_total", "How often a connection used up its read budget."),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats.read()
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.open, s.Open)
	counter(c.accepted, s.Accepted)
	counter(c.rejected, s.Rejected)
	counter(c.failed, s.Failed)
	for o := range outcomes {
		counter(c.closes, s.Ends[o.String()], o.String())
	}
	counter(c.bytes, s.ToServer, "upstream")
	counter(c.bytes, s.ToClient, "client")
	gauge(c.buffered, s.Buffered)
	counter(c.budgets, s.BudgetExhausted)
}
