//go:build linux

package subscribe

import (
	"dyno/load/wire/tlslayer"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/delivery"
	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

// newPool returns a pool of count subscribers. The first has a stream on which nothing has arrived yet.
func newPool(tb testing.TB, count int) (*Pool, *record.Collector) { return newPoolOver(tb, count, nil) }

// newPoolOver returns one whose connections have TLS, if there is a configuration of it.
func newPoolOver(tb testing.TB, count int, secure *tlslayer.Config) (*Pool, *record.Collector) {
	tb.Helper()
	template, err := sse.NewStreamTemplate(sse.StreamConfig{Request: http1.Request{Target: "/", Host: "h"}})
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{Count: count, NewStreams: func(int) func(int) wire.Stream {
		return func(int) wire.Stream { return template.Stream() }
	}}.WithDefaults()
	if err := c.Validate(); err != nil {
		tb.Fatal(err)
	}
	collector := record.NewCollector(1, record.Intervals{Interval: time.Second})
	base := time.Now().Add(-time.Second)
	sockets, err := socket.NewThread([]socket.Endpoint{{}}, 0, secure, base)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(sockets.Poller.Close)
	p := New(&c, &Worker{
		Count: 1, Window: time.Second, Timeout: time.Minute, ConnectTimeout: time.Minute, Epoch: base.UnixNano(),
		Sockets: sockets, Recorder: record.NewRecorder(collector, 0, time.Second),
		Random: rand.New(rand.NewPCG(1, 2)), Publications: NewPublications(1, false),
	})
	s := &p.all[0]
	s.stream.Reset()
	s.stream.Request()
	s.state = subRequested
	p.takeEvents(0, s, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), clock.At(sockets.Clock.Now()))
	if s.state != subStreaming {
		tb.Fatalf("%+v", p.streams)
	}
	p.rec.Window = record.Window{End: math.MaxInt64}
	return p, collector
}

// recorded returns what a pool has recorded, which has ended.
func recorded(p *Pool, c *record.Collector) *record.Result {
	var collecting sync.WaitGroup
	collecting.Go(c.Run)
	p.rec.End(p.sockets.Clock.Now(), 0)
	c.Stop()
	collecting.Wait()
	r := record.NewResult(time.Time{}, 0)
	r.AddWorker(p.rec, &p.sockets.Clock)
	r.AddIntervals(c)
	return r
}

func eventBytes(source uint32, n uint64) []byte {
	stamp := sse.Stamp{Source: source, Sequence: n, Time: time.Now().UnixNano()}
	return fmt.Appendf(nil, "id: %d-%012d\ndata: %v%s\n\n", source, n, stamp, strings.Repeat("x", 50))
}

// The same, as a test.
func TestTakeEventsDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	p, _ := newPool(t, 1)
	s := &p.all[0]
	n := uint64(0)
	var events [300][]byte
	for i := range events {
		events[i] = eventBytes(1, uint64(i+1))
	}
	take := func() {
		p.takeEvents(0, s, events[n][:70], clock.At(1))
		p.takeEvents(0, s, events[n][70:], clock.At(1))
		n += 2 // so that some are missing
	}
	p.ledger = &delivery.Ledger{} // which has no room that could be enlarged
	take()
	if allocs := testing.AllocsPerRun(100, take); allocs > 0 {
		t.Errorf("%v allocations per event", allocs)
	}
	if got := p.streams; got.AllDelivered != n/2 || s.state != subStreaming {
		t.Errorf("%+v", got)
	}
}

// Times of events are exact to the nanosecond: from the stamp on the wall clock, from the subscription,
// and from one to the next.
func TestEventTimes(t *testing.T) {
	p, collector := newPool(t, 2)
	p.epoch = 1_000_000
	p.rec.Window = record.Window{Start: 500, End: 900}
	s := &p.all[0]
	s.written = 100
	at := func(now, due int64, n uint64) {
		stamp := sse.Stamp{Source: 1, Sequence: n, Time: 1_000_000 + due}
		p.takeEvents(0, s, fmt.Appendf(nil, "data: %v\n\n", stamp), clock.At(now))
	}
	at(300, 290, 1)
	at(600, 570, 2) // the first of the window
	at(600, 580, 3) // in the same read
	at(899, 893, 4)
	at(900, 899, 5) // too late
	p.takeEvents(0, s, []byte("data: no stamp\n\n"), clock.At(901))
	r := recorded(p, collector)
	for _, tt := range []struct {
		tag  record.Tag
		want []int64
	}{
		{record.FirstEvent, []int64{200}}, {record.EventGap, []int64{0, 299, 300}}, {record.Delivery, []int64{6, 20, 30}},
	} {
		h := r.Latency[tt.tag]
		if h.Count() != int64(len(tt.want)) || h.Min() != tt.want[0] || h.Max() != tt.want[len(tt.want)-1] {
			t.Errorf("%v: %d values from %d to %d, want %v", tt.tag, h.Count(), h.Min(), h.Max(), tt.want)
		}
	}
	if got := p.streams; got.Delivered != 3 || got.AllDelivered != 6 || got.Unstamped != 1 || got.DeliveredBytes != 3*uint64(sse.StampBytes+8) {
		t.Errorf("%+v", got)
	}
}

// All but the last of several events in one read have a stamp that may be too late. The error is at
// most the time since the socket was empty.
func TestSharedStamps(t *testing.T) {
	p, collector := newPool(t, 1)
	p.rec.Window = record.Window{End: 10_000}
	s := &p.all[0]
	s.written, s.emptied = 100, 700
	var read []byte
	for n := range uint64(3) {
		read = fmt.Appendf(read, "data: %v\n\n", sse.Stamp{Source: 1, Sequence: n + 1})
	}
	p.takeEvents(0, s, append(read, "\r\n"...), clock.Reading{Read: 1500, Arrived: 1000, Stamp: clock.Stamped})
	p.takeEvents(0, s, read, clock.At(1600))
	r := recorded(p, collector)
	if e := r.Ends; e.ByArrival != 3 || e.Shared != 2 || e.ByRead != 3 {
		t.Errorf("%+v", e)
	}
	if h := r.Latency[record.SharedStamp]; h.Count() != 2 || h.Min() != 300 || h.Max() != 300 {
		t.Errorf("shared: %d values from %d to %d, want 2 of 300", h.Count(), h.Min(), h.Max())
	}
	if h := r.Latency[record.ReadDelay]; h.Count() != 3 || h.Min() != 500 || h.Max() != 500 {
		t.Errorf("read delay: %d values from %d to %d, want 3 of 500", h.Count(), h.Min(), h.Max())
	}
}

// The pause before reconnecting: the server's pause is kept, our own is jittered downwards. Both double
// with each failure in a row, up to a bound.
func TestReconnectDelay(t *testing.T) {
	p, _ := newPool(t, 1)
	s := &p.all[0]
	c := p.config
	c.MinBackoff, c.MaxBackoff = time.Second, 10*time.Second
	for _, tt := range []struct {
		retry     string
		failures  uint8
		low, high time.Duration
	}{
		{"", 0, 500 * time.Millisecond, time.Second},
		{"", 1, 500 * time.Millisecond, time.Second},
		{"", 2, time.Second, 2 * time.Second},
		{"", 4, 4 * time.Second, 8 * time.Second},
		{"", 5, 5 * time.Second, 10 * time.Second},
		{"", 255, 5 * time.Second, 10 * time.Second},
		{"300", 0, 300 * time.Millisecond, 450 * time.Millisecond},
		{"300", 3, 1200 * time.Millisecond, 1800 * time.Millisecond},
		{"300", 255, 10 * time.Second, 15 * time.Second},
		{"60000", 0, 10 * time.Second, 15 * time.Second},
	} {
		if tt.retry != "" {
			p.takeEvents(0, s, []byte("retry: "+tt.retry+"\n\n"), clock.At(1))
		}
		s.failures = tt.failures
		lowest, highest := time.Duration(math.MaxInt64), time.Duration(0)
		for range 1000 {
			d := p.reconnectDelay(s)
			lowest, highest = min(lowest, d), max(highest, d)
		}
		if spread := tt.high - tt.low; lowest < tt.low || lowest > tt.low+spread/20 || highest > tt.high || highest < tt.high-spread/20 {
			t.Errorf("retry %q after %d failures: %v to %v, want %v to %v", tt.retry, tt.failures, lowest, highest, tt.low, tt.high)
		}
	}
}

// The outcome of events still due depends on the subscriber: with a stream it is missing, without one
// it is pending, and so it is when the measurement was interrupted. For a slow one it may be on its
// way.
func TestSum(t *testing.T) {
	type found struct{ lost, announced, pending, slowMissing, slowAnnounced uint64 }
	for _, tt := range []struct {
		name        string
		slow        bool
		state       subscriberState
		interrupted bool
		want        found
	}{
		{"has a stream", false, subStreaming, false, found{lost: 4, announced: 3}},
		{"is away", false, subDisconnected, false, found{announced: 3, pending: 4}},
		{"was interrupted", false, subStreaming, true, found{announced: 3, pending: 4}},
		{"is slow", true, subStreaming, false, found{slowAnnounced: 3}},
	} {
		p, _ := newPool(t, 1)
		p.publications.Expect([]wire.Source{{ID: 1}})
		p.publications.Report([]wire.Source{{ID: 1, Published: 10}})
		s := &p.all[0]
		s.slow = tt.slow
		for _, n := range []uint64{1, 3} {
			p.takeEvents(0, s, eventBytes(1, n), clock.At(1))
		}
		p.takeEvents(0, s, []byte("event: gap\ndata: {}\n\n"), clock.At(1))
		p.takeEvents(0, s, eventBytes(1, 6), clock.At(1))
		s.state = tt.state
		r := Sum(p.config, []*Pool{p}, p.publications, tt.interrupted)
		// The gap event announces number 2 as well as those before 6.
		if got := (found{r.Lost, r.Announced, r.Pending, r.Slow.Missing, r.Slow.Announced}); got != tt.want {
			t.Errorf("who %s: %+v, want %+v", tt.name, got, tt.want)
		}
		if r.Repeated+r.Disordered+r.Uncertain > 0 {
			t.Errorf("who %s: %+v", tt.name, r.Account)
		}
	}
}

// A peer that answers and closes before it is written to is heard nevertheless.
func TestAnswerBeforeTheSubscription(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := newPool(t, 1)
	s := &p.all[0]
	s.FD, s.state = int32(pair[0]), subConnecting
	p.connecting++
	if _, errno := poll.Write(int32(pair[1]), []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")); errno != 0 {
		t.Fatal(errno)
	}
	if err := unix.Close(pair[1]); err != nil {
		t.Fatal(err)
	}
	p.Handle(&poll.Event{Fd: subscriberToken(0), Events: poll.Out, Pad: int32(s.Generation)})
	if n := p.failures[wire.StatusError(503)]; n != 1 || s.FD != socket.None {
		t.Errorf("failures %v; want status 503", p.failures)
	}
}
