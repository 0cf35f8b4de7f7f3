package engine_test

import (
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

	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
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
	r := run(t, config.Config{
		Address: server.Listener.Addr().String(), Window: 3 * time.Second,
		OnPhase: func(p config.Phase) {
			if p == config.Measuring {
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
	r := run(t, config.Config{
		Address: address, Window: time.Second,
		Subscribers: &subscribe.Config{
			Count: 1, NewStreams: streams(t, sse.StreamConfig{}), Backoff: options.Backoff{MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond},
		},
	})
	if got := r.Streams; got.Opened != 3 || got.Reconnects != 2 || got.Failed != 3 || got.Broken != 1 || got.Ended != 2 || got.Closed != 1 || connections.Load() != 7 {
		t.Errorf("%d connections, %+v", connections.Load(), got)
	}
}

// Publishers and subscribers in one measurement: every publication reaches all followers of its topic,
// the last one too. Events that the server withholds are counted.
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
				r := run(t, config.Config{
					Address: server.Listener.Addr().String(), Threads: options.Threads{Workers: workers}, Schedule: schedule, Connections: connections,
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

// A slow subscriber reads a long response head to its end. One turn reads less, and no further event of
// the socket comes. A Unix socket has all of it at once.
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
		r := run(t, config.Config{
			Network: network, Address: address, Window: 500 * time.Millisecond, Timeouts: options.Timeouts{Timeout: 2 * time.Second},
			Subscribers: &subscribe.Config{Count: 1, Slow: 1, SlowRate: 1000, NewStreams: streams(t, sse.StreamConfig{})},
		})
		if got := r.Streams; got.Slow.Opened != 1 || got.Slow.Delivered != delivered || got.Failed+got.Broken+got.Slow.Ended > 0 {
			t.Errorf("%s: %+v", network, got)
		}
	}
}

// A load begins without subscribers whose first attempt has not ended, and counts them.
func TestLoadBeginsWithoutSubscribers(t *testing.T) {
	t.Parallel()
	address := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // until the client hangs up
	r := run(t, config.Config{
		Address: address, Window: hang / 100, Timeouts: options.Timeouts{ConnectTimeout: 500 * time.Millisecond, Timeout: hang},
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if r.Streams.Untried != 3 || r.Streams.Opened != 0 {
		t.Errorf("%+v", r.Streams)
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
	// A client that has read the response's head gets every event published after it.
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
