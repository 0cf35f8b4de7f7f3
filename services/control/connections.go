package control

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// connections counts the connections of clients by one protocol.
type connections struct {
	protocol string
	opened   atomic.Uint64
	open     atomic.Int64
}

var (
	descConnections = prometheus.NewDesc("control_connections", "Connections of clients there are.", []string{"protocol"}, nil)
	descOpened      = prometheus.NewDesc("control_connections_total", "Connections that clients have opened.", []string{"protocol"}, nil)
)

var _ prometheus.Collector = (*connections)(nil)

// Describe implements prometheus.Collector. The descriptions depend on the protocols, so it gives none.
func (c *connections) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *connections) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descConnections, prometheus.GaugeValue, float64(c.open.Load()), c.protocol)
	ch <- prometheus.MustNewConstMetric(descOpened, prometheus.CounterValue, float64(c.opened.Load()), c.protocol)
}

// changed is for http.Server.ConnState.
func (c *connections) changed(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		c.opened.Add(1)
		c.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.open.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// counted returns a listener whose connections are counted.
func (c *connections) counted(l net.Listener) net.Listener { return &countingListener{l, c} }

type countingListener struct {
	net.Listener
	counts *connections
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.counts.opened.Add(1)
	l.counts.open.Add(1)
	return &countedConn{Conn: conn, counts: l.counts}, nil
}

type countedConn struct {
	net.Conn
	counts *connections
	once   sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.counts.open.Add(-1) })
	return c.Conn.Close()
}
