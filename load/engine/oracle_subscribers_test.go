//go:build linux

package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"dyno/load/delivery"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
	"dyno/selftest/oracle"
)

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
				r, err := engine.Run(ctx, config.Config{
					Address: s.Addr().String(), Threads: options.Threads{Workers: workers}, Window: 2 * hang, Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(i record.Interval) {
						if streamed += i.Delivered; streamed >= count*tt.want.AllDelivered {
							cancel()
						}
					}},
					Subscribers: &subscribe.Config{Count: count, NewStreams: streams(t, sse.StreamConfig{})},
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

// A stream that ends is resumed where it ended, after the server's pause. Nothing is missing or
// repeated. With tickets, the handshake of TLS before it is short. A stream without a length of its own
// that is cut is known to be.
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
		c := config.Config{
			Address: s.Addr().String(), Window: hang, Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(i record.Interval) {
				if s.Counts().Resumed == 20 && i.Connections == 4 {
					since++
				}
				if since == 5 { // more than the backlog of a worker
					cancel()
				}
			}},
			Subscribers: &subscribe.Config{Count: 4, NewStreams: streams(t, sse.StreamConfig{}), Backoff: options.Backoff{MinBackoff: time.Minute}},
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
	r := run(t, config.Config{
		Address: s.Addr().String(), Window: time.Second,
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{Forgets: true})},
	})
	got, did := r.Streams, s.Counts()
	if got.Reconnects == 0 || got.Lost+got.Repeated+got.Disordered > 0 || did.Resumed != 0 {
		t.Errorf("%+v, the server: %+v", got, did)
	}
	// One that is asked to go on and begins at 1 has.
	s = events(t, oracle.Config{}, oracle.StreamConfig{Rate: 1000, End: 20, Retry: time.Millisecond, Forget: true})
	r = run(t, config.Config{
		Address: s.Addr().String(), Window: time.Second,
		Subscribers: &subscribe.Config{Count: 1, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if got := r.Streams; got.Repeated != got.AllDelivered-20 || got.Lost > 0 {
		t.Errorf("%+v", got)
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
		_, err := engine.Run(t.Context(), config.Config{
			Address: s.Addr().String(), Window: 100 * time.Millisecond,
			Subscribers: &subscribe.Config{Count: 2, NewStreams: streams(t, sse.StreamConfig{})},
		})
		var unreachable *engine.Unreachable
		if !errors.As(err, &unreachable) || unreachable.Err == nil || unreachable.Err.Error() != tt.want {
			t.Errorf("%+v: %v; want %s", tt.plan, err, tt.want)
		}
	}
	_, err := engine.Run(t.Context(), config.Config{
		Address: "127.0.0.1:1", Window: 100 * time.Millisecond,
		Subscribers: &subscribe.Config{Count: 2, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
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
		c := config.Config{
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

// The server may cut off a subscriber that stops reading. The engine notices that without reading.
func TestSlowSubscriberCutOff(t *testing.T) {
	t.Parallel()
	s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 50, Size: 100_000}) // which the other subscriber reads next to any load
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	since := 0 // intervals
	r, err := engine.Run(ctx, config.Config{
		Address: s.Addr().String(), Window: hang, Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(record.Interval) {
			if s.Counts().Overrun > 0 {
				since++
			}
			if since == 10 { // the worker has long been notified
				cancel()
			}
		}},
		Subscribers: &subscribe.Config{Count: 2, Slow: 1, Backoff: options.Backoff{MinBackoff: time.Minute}, NewStreams: streams(t, sse.StreamConfig{})},
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
	run(t, config.Config{
		Address: s.Addr().String(), Threads: options.Threads{Workers: 2}, Window: 50 * time.Millisecond,
		Subscribers: &subscribe.Config{Count: 11, Ramp: 50, NewStreams: streams(t, sse.StreamConfig{})},
		OnStart:     func(s config.Start) { start = s.Time },
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
	_, err := engine.Run(ctx, config.Config{
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

// secured stands in front of a server. It speaks TLS with clients and forwards clear text to the
// server. It ends a stream with close_notify, or not if it is to cut it.
func secured(t *testing.T, config *tls.Config, server string, cut bool) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		s := tls.Server(c, config)
		if err := s.Handshake(); err != nil {
			t.Log(time.Now(), c.RemoteAddr(), err)
			return
		}
		plain, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(plain, s)
			_ = plain.Close()
		}()
		_, _ = io.Copy(s, plain)
		if !cut {
			_ = s.Close()
		}
		_ = c.Close()
		<-ended
	})
}

// topicStreams makes streams that follow one of two topics each, at a path of that name.
func topicStreams(t testing.TB, target string) func(int) func(int) wire.Stream {
	t.Helper()
	return func(int) func(int) wire.Stream {
		return func(n int) wire.Stream {
			template, err := sse.NewStreamTemplate(sse.StreamConfig{
				Request: http1.Request{Target: sse.ExpandTopic(target, string(rune('a'+n%2))), Host: "example.com"}, Topics: []int{n % 2},
			})
			if err != nil {
				panic(err)
			}
			return template.Stream()
		}
	}
}

// delivered checks that every publication has reached every subscriber of its topic, once and in order.
// There are two topics. It also checks that all of it went through TLS.
func delivered(t *testing.T, r *record.Result, subscribers uint64) {
	t.Helper()
	got := r.Streams
	if got.Opened != subscribers || got.Failed+got.Ended+got.Broken+got.Reconnects > 0 {
		t.Errorf("%+v", got)
	}
	if got.Lost+got.Repeated+got.Disordered+got.Pending+got.Untracked+got.Announced+got.Unstamped+got.Uncertain > 0 {
		t.Errorf("%+v", got)
	}
	if published := r.AllCounts.OK * subscribers / 2; got.AllDelivered != published || published == 0 || r.AllCounts.OK != r.AllCounts.Sent {
		t.Errorf("%d delivered of %d: %+v, %v", got.AllDelivered, published, r.AllCounts, r.Failures)
	}
	if d := r.Latency[record.Delivery]; uint64(d.Count()) != got.Delivered || d.Count() == 0 || d.Min() <= 0 {
		t.Errorf("%d of %d delivered, the first after %d ns: want none before its time", d.Count(), got.Delivered, d.Min())
	}
	if h := r.Handshakes; h.Completed != subscribers+r.Connections.Opened || h.Failed > 0 || uint64(r.Latency[record.HandshakeTime].Count()) != h.Completed {
		t.Errorf("%d subscribers, %+v, %+v, %d times", subscribers, r.Connections, h, r.Latency[record.HandshakeTime].Count())
	}
}
