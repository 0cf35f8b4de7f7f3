package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/delivery"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
	"dyno/selftest/oracle"
)

// hang is how long a test waits for what must happen at once.
const hang = 30 * time.Second

// streams makes streams as configured.
func streams(t testing.TB, c sse.StreamConfig) func(int) func(int) wire.Stream {
	t.Helper()
	if c.Request.Host == "" {
		c.Request = http1.Request{Target: "/", Host: "h"}
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return func(int) func(int) wire.Stream {
		template, err := sse.NewStreamTemplate(c)
		if err != nil {
			panic(err)
		}
		return func(int) wire.Stream { return template.Stream() }
	}
}

// publish makes publishers as configured, with numbers of their own.
func publish(t testing.TB, workers int, c sse.PublisherConfig) func(int) func() wire.Client {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return func(worker int) func() wire.Client {
		c.First, c.Step = uint32(worker), uint32(workers)
		template, err := sse.NewPublisherTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Publisher() }
	}
}

func events(t testing.TB, config oracle.Config, c oracle.StreamConfig) *oracle.Stream {
	t.Helper()
	s, err := oracle.StartStream(t.Context(), config, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Each fault of a server is counted exactly, and nothing else is.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	const each, rate = 205, 1000
	for _, tt := range []struct {
		name string
		plan oracle.StreamConfig
		want record.Streams // per subscriber
	}{
		{"none", oracle.StreamConfig{}, record.Streams{AllDelivered: 205}},
		{"drop", oracle.StreamConfig{Drop: 10}, record.Streams{AllDelivered: 185, Account: delivery.Account{Lost: 20}}},
		{"repeat", oracle.StreamConfig{Repeat: 10}, record.Streams{AllDelivered: 225, Account: delivery.Account{Repeated: 20}}},
		{"swap", oracle.StreamConfig{Swap: 10}, record.Streams{AllDelivered: 205, Account: delivery.Account{Disordered: 20}}},
		{"gap", oracle.StreamConfig{Gap: 50}, record.Streams{AllDelivered: 205, Gaps: 4}},
		{"announced", oracle.StreamConfig{Drop: 10, Gap: 10}, record.Streams{AllDelivered: 185, Gaps: 20, Account: delivery.Account{Announced: 20}}},
		{"all", oracle.StreamConfig{Drop: 7, Repeat: 11, Swap: 13, Unframed: true},
			record.Streams{AllDelivered: 205 - 29 + 18 - 2 - 1, Account: delivery.Account{Lost: 29, Repeated: 18 - 2 - 1, Disordered: 15 - 2 - 3}}},
	} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, workers), func(t *testing.T) {
				t.Parallel()
				const count = 6
				plan := tt.plan
				plan.Events, plan.Rate = each, rate
				s := events(t, oracle.Config{}, plan)
				// The measurement ends when everything has come.
				ctx, cancel := context.WithTimeout(t.Context(), hang)
				defer cancel()
				var streamed uint64
				r, err := engine.Run(ctx, engine.Config{
					Address: s.Addr().String(), Workers: workers, Window: 2 * hang, Interval: 20 * time.Millisecond,
					Subscribers: &subscribe.Config{Count: count, NewStreams: streams(t, sse.StreamConfig{})},
					OnInterval: func(i record.Interval) {
						if streamed += i.Delivered; streamed >= count*tt.want.AllDelivered {
							cancel()
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				got, did := r.Streams, s.Counts()
				if got.Requested != count || got.Opened != count || got.Peak != count || got.Failed+got.Ended+got.Broken+got.Closed+got.Reconnects > 0 {
					t.Errorf("connections: %+v", got)
				}
				type counts struct{ all, gaps, announced, lost, repeated, disordered uint64 }
				counted := counts{got.AllDelivered, got.Gaps, got.Announced, got.Lost, got.Repeated, got.Disordered}
				want := counts{
					count * tt.want.AllDelivered, count * tt.want.Gaps, count * tt.want.Announced, count * tt.want.Lost,
					count * tt.want.Repeated, count * tt.want.Disordered,
				}
				if counted != want {
					t.Errorf("counted %+v, want %+v", counted, want)
				}
				if uint64(did.Events) != got.AllDelivered || streamed != got.AllDelivered {
					t.Errorf("the server sent %d, intervals %d, counted %d", did.Events, streamed, got.AllDelivered)
				}
				if got.Unstamped+got.Untracked+got.Uncertain+got.Pending > 0 {
					t.Errorf("counted %+v", got)
				}
			})
		}
	}
}

// A stream that ends is taken up where it ended, after the pause that the server asked for, and
// nothing is missing or repeated. With tickets, the handshake of TLS before it is short. A stream
// without a length of its own that is cut is known to be.
func TestReconnect(t *testing.T) {
	t.Parallel()
	const retry = 30 * time.Millisecond
	pair := certified(t)
	for _, tt := range []struct{ unframed, secure, cut, tickets bool }{
		{}, {unframed: true}, {secure: true, tickets: true}, {secure: true, unframed: true}, {secure: true, unframed: true, cut: true},
	} {
		s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 1000, Events: 100, End: 20, Retry: retry, Unframed: tt.unframed})
		ctx, cancel := context.WithCancel(t.Context())
		since := 0 // intervals, after the last subscriber has come back
		c := engine.Config{
			Address: s.Addr().String(), Window: hang, Interval: 20 * time.Millisecond,
			Subscribers: &subscribe.Config{Count: 4, NewStreams: streams(t, sse.StreamConfig{}), MinBackoff: time.Minute},
			OnInterval: func(i record.Interval) {
				if s.Counts().Resumed == 20 && i.Connections == 4 {
					since++
				}
				if since == 5 { // more than a worker may be behind with
					cancel()
				}
			},
		}
		if tt.secure {
			c.Address = secured(t, pair, s.Addr().String(), tt.cut)
			c.TLS = &tlslayer.Config{Insecure: true, ServerName: "example.com", Tickets: tt.tickets}
		}
		r, err := engine.Run(ctx, c)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		got, did := r.Streams, s.Counts()
		if got.Opened != 24 || got.Reconnects != 20 || got.Ended != 20 || got.Peak != 4 || got.AllDelivered != 400 || got.Lost+got.Repeated+got.Disordered+got.Broken+got.Failed > 0 {
			t.Errorf("%+v: %+v", tt, got)
		}
		if did.Resumed != 20 || did.Ended != 20 {
			t.Errorf("%+v: the server: %+v", tt, did)
		}
		if h := r.Handshakes; tt.secure && h.Completed != 24 || tt.tickets != (h.Resumed == 20) || !tt.tickets && h.Resumed > 0 {
			t.Errorf("%+v: %+v", tt, h)
		}
		if cut := got.Failures[tlslayer.ErrNoCloseNotify.Error()]; tt.cut && cut != 20 || !tt.cut && len(got.Failures) > 0 {
			t.Errorf("%+v: %v", tt, got.Failures)
		}
		// The first event of a new connection comes no earlier than the pause after the
		// last one of the old.
		if over := time.Duration(r.Latency[record.EventGap].Quantile(1)); over < retry {
			t.Errorf("%+v: the longest gap is %v", tt, over)
		}
	}
}

// Without Last-Event-ID a subscriber starts from scratch and expects whatever comes first.
// A server that begins at 1 again has repeated nothing.
func TestReconnectForgetful(t *testing.T) {
	t.Parallel()
	s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 1000, End: 20, Retry: time.Millisecond})
	r := run(t, engine.Config{
		Address: s.Addr().String(), Window: time.Second,
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{Forgets: true})},
	})
	got, did := r.Streams, s.Counts()
	if got.Reconnects == 0 || got.Lost+got.Repeated+got.Disordered > 0 || did.Resumed != 0 {
		t.Errorf("%+v, the server: %+v", got, did)
	}
	// One that is asked to go on and begins at 1 has.
	s = events(t, oracle.Config{}, oracle.StreamConfig{Rate: 1000, End: 20, Retry: time.Millisecond, Forget: true})
	r = run(t, engine.Config{
		Address: s.Addr().String(), Window: time.Second,
		Subscribers: &subscribe.Config{Count: 1, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if got := r.Streams; got.Repeated != got.AllDelivered-20 || got.Lost > 0 {
		t.Errorf("%+v", got)
	}
}

// Subscribers without a connection do not come back in step.
func TestReconnectJitter(t *testing.T) {
	t.Parallel()
	const subscribers, retry = 64, 500 * time.Millisecond // long compared with the stalls of a busy machine
	var (
		mu    sync.Mutex
		ended time.Time
		back  []time.Duration
	)
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		first := ended.IsZero()
		if !first {
			back = append(back, time.Since(ended))
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprintf(w, "retry: %d\n\n", retry.Milliseconds())
		_ = http.NewResponseController(w).Flush()
		if first {
			<-end
		} else {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	r := run(t, engine.Config{
		Address: server.Listener.Addr().String(), Window: 3 * time.Second,
		OnPhase: func(p engine.Phase) {
			if p == engine.Measuring {
				mu.Lock()
				ended = time.Now()
				mu.Unlock()
				close(end)
			}
		},
		Subscribers: &subscribe.Config{Count: subscribers, NewStreams: streams(t, sse.StreamConfig{})},
	})
	mu.Lock()
	defer mu.Unlock()
	if r.Streams.Reconnects != subscribers || len(back) != subscribers {
		t.Fatalf("%d came back: %+v", len(back), r.Streams)
	}
	earliest, latest := back[0], back[0]
	for _, b := range back {
		earliest, latest = min(earliest, b), max(latest, b)
	}
	if earliest < retry || latest-earliest < retry/4 {
		t.Errorf("came back after %v to %v", earliest, latest)
	}
}

// A response that is no event stream is an error that says so, and is tried again.
func TestNotAStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		plan oracle.StreamConfig
		want string
	}{
		{oracle.StreamConfig{MediaType: "text/plain"}, "protocol: content type other than text/event-stream"},
		{oracle.StreamConfig{MediaType: "text/event-stream2"}, "protocol: content type other than text/event-stream"},
		{oracle.StreamConfig{Status: 503}, "status: status 503"},
		{oracle.StreamConfig{Status: 301}, "status: status 301"},
	} {
		s := events(t, oracle.Config{}, tt.plan)
		_, err := engine.Run(t.Context(), engine.Config{
			Address: s.Addr().String(), Window: 100 * time.Millisecond,
			Subscribers: &subscribe.Config{Count: 2, NewStreams: streams(t, sse.StreamConfig{})},
		})
		var unreachable *engine.Unreachable
		if !errors.As(err, &unreachable) || unreachable.Err == nil || unreachable.Err.Error() != tt.want {
			t.Errorf("%+v: %v; want %s", tt.plan, err, tt.want)
		}
	}
	_, err := engine.Run(t.Context(), engine.Config{
		Address: "127.0.0.1:1", Window: 100 * time.Millisecond,
		Subscribers: &subscribe.Config{Count: 2, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}

// One of those that fail now and then is brought back.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	answers := []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n", // broken
		"",                             // failed: closed without an answer
		"HTTP/1.1 500 No\r\n\r\n",      // failed
		"HTTP/1.1 200 OK\r\nContent-T", // failed: closed in the middle
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata:", // ended, in the middle
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n",                    // ended
		"HTTP/1.1 204 Enough\r\n\r\n", // closed
	}
	address := listen(t, func(c net.Conn) {
		n := int(connections.Add(1)) - 1
		_, _ = c.Read(make([]byte, 4096))
		if n < len(answers) {
			_, _ = io.WriteString(c, answers[n])
		}
	})
	r := run(t, engine.Config{
		Address: address, Window: time.Second,
		Subscribers: &subscribe.Config{
			Count: 1, NewStreams: streams(t, sse.StreamConfig{}), MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
		},
	})
	if got := r.Streams; got.Opened != 3 || got.Reconnects != 2 || got.Failed != 3 || got.Broken != 1 || got.Ended != 2 || got.Closed != 1 || connections.Load() != 7 {
		t.Errorf("%d connections, %+v", connections.Load(), got)
	}
}

// A hub, as small as can be: what is posted to /t goes to all who listen there, except
// for what a test withholds.
type hub struct {
	mu        sync.Mutex
	listeners map[chan []byte]string
	withhold  func(listener int, n uint64) bool
	refuse    func(n uint64) bool
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		stamp, ok := sse.ParseStamp(body)
		if !ok {
			http.Error(w, "no stamp", http.StatusBadRequest)
			return
		}
		if h.refuse != nil && h.refuse(stamp.Sequence) {
			http.Error(w, "refused", http.StatusServiceUnavailable)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		k := 0
		for l, topic := range h.listeners {
			if topic == r.URL.Path {
				if h.withhold == nil || !h.withhold(k, stamp.Sequence) {
					l <- body
				}
				k++
			}
		}
		return
	}
	// Whoever sees the response's head gets all that is published from then on.
	mine := make(chan []byte, 1<<16)
	h.mu.Lock()
	h.listeners[mine] = r.URL.Path
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.listeners, mine)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	c := http.NewResponseController(w)
	_ = c.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case data := <-mine:
			fmt.Fprintf(w, "data: %s\n\n", data)
			_ = c.Flush()
		}
	}
}

// Publishers and subscribers in one measurement: everything that was published to a
// topic reaches all who follow it, the last one too, and what the server withholds is
// counted.
func TestPublishers(t *testing.T) {
	t.Parallel()
	schedule, err := pace.New(pace.Steady(400, 0), pace.Constant, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		withhold func(listener int, n uint64) bool
		refuse   func(n uint64) bool
	}{
		{name: "all"},
		{name: "one subscriber gets nothing", withhold: func(l int, _ uint64) bool { return l == 0 }},
		{name: "the first and the tail are withheld", withhold: func(_ int, n uint64) bool { return n == 1 || n > 10 }},
		{name: "some are refused", refuse: func(n uint64) bool { return n%3 == 0 }},
	} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, workers), func(t *testing.T) {
				t.Parallel()
				const subscribers, topics, connections = 6, 2, 4
				h := &hub{listeners: map[chan []byte]string{}, refuse: tt.refuse}
				drain := hang // which ends when everything has come
				var withheld atomic.Int64
				if tt.withhold != nil {
					drain = 2 * time.Second
					h.withhold = func(l int, n uint64) bool {
						if tt.withhold(l, n) {
							withheld.Add(1)
							return true
						}
						return false
					}
				}
				server := httptest.NewServer(h)
				defer server.Close()
				c := sse.PublisherConfig{
					Request: http1.Request{Target: "/{topic}", Host: "h"}, Topics: []string{"a", "b"}, Size: 100,
				}
				r := run(t, engine.Config{
					Address: server.Listener.Addr().String(), Workers: workers, Schedule: schedule, Connections: connections,
					NewClients: publish(t, workers, c), Warmup: 100 * time.Millisecond, Window: 300 * time.Millisecond, Drain: drain,
					Subscribers: &subscribe.Config{Count: subscribers, NewStreams: func(int) func(int) wire.Stream {
						return func(n int) wire.Stream {
							topic := n % topics
							config := sse.StreamConfig{
								Request: http1.Request{Target: sse.ExpandTopic("/{topic}", c.Topics[topic]), Host: "h"}, Topics: []int{topic},
							}
							template, err := sse.NewStreamTemplate(config)
							if err != nil {
								panic(err)
							}
							return template.Stream()
						}
					}},
				})
				got := r.Streams
				if got.Unstamped+got.Repeated+got.Disordered+got.Pending+got.Untracked+got.Announced > 0 || got.Opened != subscribers {
					t.Errorf("%+v", got)
				}
				if lost := uint64(withheld.Load()); got.Lost != lost {
					t.Errorf("%d lost, %d withheld", got.Lost, lost)
				}
				published := r.AllCounts.OK * subscribers / topics
				if got.AllDelivered+got.Lost != published || published == 0 {
					t.Errorf("%d delivered and %d lost of %d", got.AllDelivered, got.Lost, published)
				}
				if refused := (r.AllCounts.Sent - r.AllCounts.OK) * subscribers / topics; got.Uncertain > refused || (tt.refuse != nil && got.Uncertain == 0) {
					t.Errorf("%d uncertain of %d", got.Uncertain, refused)
				}
				if d := r.Latency[record.Delivery]; uint64(d.Count()) != got.Delivered || d.Count() > 0 && d.Min() <= 0 {
					t.Errorf("%d of %d delivered, the first after %d ns: want none before its time", d.Count(), got.Delivered, d.Min())
				}
			})
		}
	}
}

// One that reads nothing, or slowly, is accounted apart, and the others miss nothing by it. Over TLS
// it is slow at the socket.
func TestSlowSubscribers(t *testing.T) {
	t.Parallel()
	pair := certified(t)
	for _, tt := range []struct {
		rate   int
		secure bool
	}{{0, false}, {20_000, false}, {0, true}, {20_000, true}} {
		s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 500, Size: 2000})
		c := engine.Config{
			Address: s.Addr().String(), Window: time.Second,
			Subscribers: &subscribe.Config{Count: 5, Slow: 2, SlowRate: tt.rate, NewStreams: streams(t, sse.StreamConfig{})},
		}
		// 20,000 bytes in the second, a little over in the ramp, and a little at once.
		most := uint64(2 * tt.rate * 2 / 2000)
		if tt.secure {
			c.Address, c.TLS = secured(t, pair, s.Addr().String(), false), &tlslayer.Config{Insecure: true, ServerName: "example.com"}
			most += 2 * (16 << 10) / 2000 // a record each
		}
		r := run(t, c)
		got := r.Streams
		if got.Opened != 3 || got.Slow.Opened != 2 || got.Peak != 5 || got.Lost+got.Repeated+got.Failed > 0 || got.AllDelivered == 0 {
			t.Errorf("%+v: %+v", tt, got)
		}
		if got.Slow.Delivered > most || tt.rate > 0 && got.Slow.Delivered == 0 {
			t.Errorf("%+v: %d delivered to the slow", tt, got.Slow.Delivered)
		}
	}
}

// A response's head that is longer than what a slow subscriber reads in one turn is read to
// its end, though nothing more arrives that would make another event of the socket. A Unix
// socket has all of it at once.
func TestSlowSubscriberReadsLongHead(t *testing.T) {
	t.Parallel()
	const delivered = 3
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Long: " + strings.Repeat("x", 8<<10) + "\r\n\r\n" +
		strings.Repeat("data: x\n\n", delivered)
	for network, at := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		address := listenOn(t, network, at, func(c net.Conn) {
			if _, err := c.Read(make([]byte, 4096)); err == nil {
				_, _ = io.WriteString(c, answer)
				_, _ = io.Copy(io.Discard, c) // until the subscriber goes
			}
		})
		r := run(t, engine.Config{
			Network: network, Address: address, Window: 500 * time.Millisecond, Timeout: 2 * time.Second,
			Subscribers: &subscribe.Config{Count: 1, Slow: 1, SlowRate: 1000, NewStreams: streams(t, sse.StreamConfig{})},
		})
		if got := r.Streams; got.Slow.Opened != 1 || got.Slow.Delivered != delivered || got.Failed+got.Broken+got.Slow.Ended > 0 {
			t.Errorf("%s: %+v", network, got)
		}
	}
}

// Who stops reading may be cut off by the server, and that is seen without reading.
func TestSlowSubscriberCutOff(t *testing.T) {
	t.Parallel()
	s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 50, Size: 100_000}) // which the other subscriber reads next to any load
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	since := 0 // intervals
	r, err := engine.Run(ctx, engine.Config{
		Address: s.Addr().String(), Window: hang, Interval: 20 * time.Millisecond,
		Subscribers: &subscribe.Config{Count: 2, Slow: 1, MinBackoff: time.Minute, NewStreams: streams(t, sse.StreamConfig{})},
		OnInterval: func(record.Interval) {
			if s.Counts().Overrun > 0 {
				since++
			}
			if since == 10 { // the worker has long been notified
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, did := r.Streams, s.Counts(); got.Slow.Ended != 1 || did.Overrun != 1 || got.Ended > 0 || got.Lost > 0 {
		t.Errorf("%+v, the server: %+v", got, did)
	}
}

// The ramp spreads the subscribers' beginnings.
func TestRamp(t *testing.T) {
	t.Parallel()
	s := events(t, oracle.Config{}, oracle.StreamConfig{})
	begun := time.Now()
	var start time.Time
	run(t, engine.Config{
		Address: s.Addr().String(), Workers: 2, Window: 50 * time.Millisecond,
		Subscribers: &subscribe.Config{Count: 11, Ramp: 50, NewStreams: streams(t, sse.StreamConfig{})},
		OnStart:     func(s engine.Start) { start = s.Time },
	})
	if took := start.Sub(begun); took < 200*time.Millisecond {
		t.Errorf("the load began after %v", took)
	}
}

// A ramp can be interrupted.
func TestRampInterrupted(t *testing.T) {
	t.Parallel()
	s := events(t, oracle.Config{}, oracle.StreamConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	streams := streams(t, sse.StreamConfig{})
	go func() {
		<-begun
		cancel()
	}()
	_, err := engine.Run(ctx, engine.Config{
		Address: s.Addr().String(), Window: time.Second,
		Subscribers: &subscribe.Config{Count: 1000, Ramp: 0.1, NewStreams: func(worker int) func(int) wire.Stream {
			close(begun)
			return streams(worker)
		}},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A load begins without subscribers whose first attempt has not ended, and counts them.
func TestLoadBeginsWithoutSubscribers(t *testing.T) {
	t.Parallel()
	address := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // until the client hangs up
	r := run(t, engine.Config{
		Address: address, Window: hang / 100, ConnectTimeout: 500 * time.Millisecond, Timeout: hang,
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if r.Streams.Untried != 3 || r.Streams.Opened != 0 {
		t.Errorf("%+v", r.Streams)
	}
}
