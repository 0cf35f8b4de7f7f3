package hub

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// A recorder is a response that counts.
type recorder struct {
	header http.Header

	mu      sync.Mutex
	status  int
	writes  [][]byte
	flushes int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) > 0 {
		r.writes = append(r.writes, p) // not a copy: where it is matters
	}
	return len(p), nil
}

func (r *recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
}

func (r *recorder) counts() (writes [][]byte, flushes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes, flushes = r.writes, r.flushes
	r.writes, r.flushes = nil, 0
	return writes, flushes
}

// hijackable is a recorder whose connection can be hijacked; it counts, too.
type hijackable struct{ *recorder }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	client, server := net.Pipe()
	return &countingConn{Conn: server, peer: client, r: h.recorder}, nil, nil
}

type countingConn struct {
	net.Conn
	peer net.Conn
	r    *recorder
}

func (c *countingConn) Write(p []byte) (int, error) { return c.r.Write(p) }
func (c *countingConn) Close() error                { return c.peer.Close() }

// TestWrites: an event of three fields is one write of the journal's bytes, and one flush within net/http.
func TestWrites(t *testing.T) {
	for _, mode := range pipeModes {
		t.Run(mode.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Defaults()
				mode.set(&c)
				h, err := New(c)
				if err != nil {
					t.Fatal(err)
				}
				r := newRecorder()
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub/events?topic=t", nil)
				if err != nil {
					t.Fatal(err)
				}
				go h.Handler().ServeHTTP(hijackable{r}, req)
				publish := func() {
					synctest.Wait()
					if _, err := h.Publish(ctx, Update{Topics: []string{"t"}, Type: "x", Data: []byte("data")}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				publish()
				r.counts()
				publish()
				writes, flushes := r.counts()
				if hijacked := c.Hijack; len(writes) != 1 || (flushes == 1) == hijacked {
					t.Fatalf("%d writes, %d flushes", len(writes), flushes)
				}
				entries, _ := h.journal.Since(1, nil, 1)
				if &writes[0][0] != &entries[0].Frame[0] {
					t.Error("what was written is a copy")
				}
				cancel()
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestMeasureFlush: flushes are in the histogram, if they are measured.
func TestMeasureFlush(t *testing.T) {
	for _, mode := range pipeModes {
		for _, on := range []bool{false, true} {
			b := serving(t, func(c *Config) { mode.set(c); c.EventLoop, c.MeasureFlush = false, on })
			s := b.subscribe("topic=t")
			b.say("t", "x")
			s.want(event{Data: "x"})
			b.say("t", "y")
			s.want(event{Data: "y"}) // the first has been recorded by then
			if n := samples(t, b.Hub, "events_flush_seconds"); (n > 0) != on {
				t.Errorf("%s, measured %v: %d flushes", mode.name, on, n)
			}
		}
	}
}

// samples returns how often a histogram was observed.
func samples(t *testing.T, h *Hub, name string) uint64 {
	t.Helper()
	families, err := h.cfg.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestSocketOptions reads back the values that the kernel gave.
func TestSocketOptions(t *testing.T) {
	for _, mode := range modes {
		b := serving(t, func(c *Config) {
			c.withSocketOptions()
			mode.set(c)
			c.ReceiveBuffer = 32 << 10
		})
		b.subscribe("topic=t")
		b.mu.Lock()
		options := b.options
		b.mu.Unlock()
		got := map[string]int{}
		for _, o := range options {
			got[o.name] = o.given
		}
		// The kernel doubles what it is asked (socket(7)).
		for name, want := range map[string]int{
			"TCP_NODELAY": 1, "SO_SNDBUF": 128 << 10, "SO_RCVBUF": 64 << 10,
			"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3,
		} {
			if got[name] != want {
				t.Errorf("%s: %s is %d, want %d", mode.name, name, got[name], want)
			}
		}
	}
}

// TestRegisterer: a registry has the metrics of one hub, until that is closed.
func TestRegisterer(t *testing.T) {
	h := newHub(t, nil)
	registry := h.cfg.Registerer.(*prometheus.Registry)
	count := func() int {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return len(families)
	}
	before := count()
	h.stats.refused(http.StatusTeapot) // metrics that were not there at first
	if n := count(); n != before+1 {
		t.Errorf("%d metrics, want %d", n, before+1)
	}
	second := Defaults()
	second.Registerer = registry
	if _, err := New(second); err == nil || !strings.Contains(err.Error(), "register metrics: ") {
		t.Errorf("a second hub: %v", err)
	}
	if n := count(); n != before+1 {
		t.Errorf("%d metrics after a second hub was refused, want %d", n, before+1)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d metrics are left", n)
	}
	again, err := New(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
