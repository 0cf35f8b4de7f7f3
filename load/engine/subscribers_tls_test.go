package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
)

// secured stands in front of a server, speaks TLS with clients and says the same in clear
// text to the server. It ends a stream with close_notify, or not if it is to cut it.
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

// delivered checks that everything that was published has reached every subscriber of one of
// the two topics, once and in order, and that all of it went through TLS.
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

// A measurement that is interrupted in the middle of handshakes ends, and so do those.
func TestSubscriberHandshakeInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mum := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1)) // the handshake has begun
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	_, err := engine.Run(ctx, engine.Config{
		Address: mum, TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com"}, Window: time.Second, ConnectTimeout: hang,
		Subscribers: &subscribe.Config{Count: 3, NewStreams: streams(t, sse.StreamConfig{})},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
