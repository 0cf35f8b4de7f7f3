package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/load/wire/tlslayer"
	"dyno/selftest/oracle"
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

// Publishers and subscribers over TLS: everything arrives, once and in order, the last event too,
// and by the kernel's stamps.
func TestSubscribersOverTLS(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.2", "1.3"} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", version, workers), func(t *testing.T) {
				t.Parallel()
				const subscribers = 6
				h := &hub{listeners: map[chan []byte]string{}}
				address, config := https(t, false, h.ServeHTTP)
				config.MaxVersion = version
				r := run(t, engine.Config{
					Address: address, TLS: offer(config, "http/1.1"), Workers: workers, Schedule: steady(t, 400), Connections: 4,
					NewClients: publish(t, workers, sse.PublisherConfig{
						Request: http1.Request{Target: "/{topic}", Host: "example.com"}, Topics: []string{"a", "b"}, Size: 100,
					}),
					Warmup: 100 * time.Millisecond, Window: 300 * time.Millisecond, Drain: hang,
					Subscribers: &subscribe.Config{Count: subscribers, NewStreams: topicStreams(t, "/{topic}")},
				})
				delivered(t, r, subscribers)
				if a := r.Handshakes.Agreed; len(a) != 1 || a[0].Version != "TLS "+version || a[0].ALPN != "http/1.1" {
					t.Errorf("%+v", a)
				}
				if r.Ends.ByArrival == 0 || r.Ends.Late+r.Ends.Early > 0 {
					t.Errorf("%+v", r.Ends)
				}
			})
		}
	}
}

// A hub that others have written, with TLS of OpenSSL.
func TestPeerNchan(t *testing.T) {
	const module = "/usr/lib/nginx/modules/ngx_nchan_module.so"
	for _, version := range []string{"1.2", "1.3"} {
		dir := t.TempDir()
		if ok, _ := filepath.Glob(module); ok == nil {
			t.Skip("nchan is not installed; scripts/setup.sh installs it")
		}
		certificate, key := credentials(t, dir)
		at := ports(t, 1)
		config := fmt.Sprintf(`load_module %[5]s; daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events { worker_connections 200; }
http {
	access_log off; keepalive_requests 100000;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server {
		listen %[2]s ssl; ssl_certificate %[3]s; ssl_certificate_key %[4]s;
		nchan_channel_id $arg_topic; nchan_message_buffer_length 10000;
		location = /events { nchan_subscriber eventsource; nchan_subscriber_first_message newest; }
		location = /publish { nchan_publisher; }
	}
}`, dir, at[0], certificate, key, module)
		start(t, at, "nginx", "-e", filepath.Join(dir, "error.log"), "-c", write(t, dir, "nginx.conf", []byte(config)))
		const subscribers = 40
		r := run(t, engine.Config{
			Address: at[0], TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com", ALPN: []string{"http/1.1"}, MaxVersion: version},
			Workers: 2, Schedule: steady(t, 200), Connections: 4, Drain: hang,
			NewClients: publish(t, 2, sse.PublisherConfig{
				Request: http1.Request{Target: "/publish?topic={topic}", Host: "example.com"}, Topics: []string{"a", "b"}, Size: 100,
			}),
			Warmup: 100 * time.Millisecond, Window: 500 * time.Millisecond,
			Subscribers: &subscribe.Config{Count: subscribers, NewStreams: topicStreams(t, "/events?topic={topic}")},
		})
		delivered(t, r, subscribers)
	}
}

// A stream that ends is taken up where it ended, and with tickets the handshake before it is
// short. One that has no length of its own and is cut is known to be.
func TestReconnectOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for 16 seconds")
	}
	t.Parallel()
	const retry = 30 * time.Millisecond
	pair := certified(t)
	for _, tt := range []struct {
		unframed, cut, tickets bool
	}{{}, {unframed: true}, {unframed: true, cut: true}, {tickets: true}} {
		s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 1000, Events: 100, End: 20, Retry: retry, Unframed: tt.unframed})
		r := run(t, engine.Config{
			Address: secured(t, pair, s.Addr().String(), tt.cut), TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com", Tickets: tt.tickets},
			Window:      4 * time.Second, // a busy machine takes long for as many handshakes
			Subscribers: &subscribe.Config{Count: 4, NewStreams: streams(t, sse.StreamConfig{}), MinBackoff: time.Minute},
		})
		got, did := r.Streams, s.Counts()
		if got.Opened != 24 || got.Reconnects != 20 || got.Ended != 20 || got.Peak != 4 || got.AllDelivered != 400 || got.Lost+got.Repeated+got.Disordered+got.Broken+got.Failed > 0 {
			t.Errorf("%+v: %+v", tt, got)
		}
		if did.Resumed != 20 || did.Ended != 20 {
			t.Errorf("%+v: the server: %+v", tt, did)
		}
		if h := r.Handshakes; h.Completed != 24 || tt.tickets != (h.Resumed == 20) || !tt.tickets && h.Resumed > 0 {
			t.Errorf("%+v: %+v", tt, h)
		}
		if cut := got.Failures[tlslayer.ErrNoCloseNotify.Error()]; tt.cut && cut != 20 || !tt.cut && len(got.Failures) > 0 {
			t.Errorf("%+v: %v", tt, got.Failures)
		}
	}
}

// One that reads slowly does so at the socket, and the others miss nothing by it.
func TestSlowSubscribersOverTLS(t *testing.T) {
	t.Parallel()
	pair := certified(t)
	for _, rate := range []int{0, 20_000} {
		s := events(t, oracle.Config{}, oracle.StreamConfig{Rate: 500, Size: 2000})
		r := run(t, engine.Config{
			Address: secured(t, pair, s.Addr().String(), false), TLS: &tlslayer.Config{Insecure: true, ServerName: "example.com"}, Window: time.Second,
			Subscribers: &subscribe.Config{Count: 5, Slow: 2, SlowRate: rate, NewStreams: streams(t, sse.StreamConfig{})},
		})
		got := r.Streams
		if got.Opened != 3 || got.Slow.Opened != 2 || got.Peak != 5 || got.Lost+got.Repeated+got.Failed > 0 || got.AllDelivered < 3*250 {
			t.Errorf("rate %d: %+v", rate, got)
		}
		// 20,000 bytes in the second, a little over in the ramp, and a record at once.
		most := uint64(2*rate*2/2000 + 2*(16<<10)/2000)
		if got.Slow.Delivered > most || rate > 0 && got.Slow.Delivered == 0 {
			t.Errorf("rate %d: %d delivered to the slow", rate, got.Slow.Delivered)
		}
	}
}

// What fails in a subscriber's handshake is of kind TLS, says why, and is counted.
func TestSubscriberHandshakeFails(t *testing.T) {
	t.Parallel()
	trusted, config := https(t, false, (&hub{listeners: map[chan []byte]string{}}).ServeHTTP)
	other := config
	other.ServerName = "elsewhere.test"
	asking, asked := https(t, false, (&hub{listeners: map[chan []byte]string{}}).ServeHTTP, func(s *httptest.Server) {
		s.TLS.ClientAuth = tls.RequireAnyClientCert
	})
	introduced := asked
	introduced.Certificate, introduced.Key = selfSigned(t)
	plain := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 5000))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	mum := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	rude := listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 5000)) })
	for _, tt := range []struct {
		name, address string
		tls           tlslayer.Config
		want          string // of the failure; none if empty
	}{
		{"trusted", trusted, config, ""},
		{"another name", trusted, other, "elsewhere.test"},
		{"no certificate", asking, asked, "certificate"},
		{"a certificate", asking, introduced, ""},
		{"no TLS", plain, config, "does not speak TLS"},
		{"no answer", mum, config, "no complete handshake in time"},
		{"closes", rude, config, "closed the connection"},
	} {
		timeout := hang // a busy machine may take its time for a handshake
		if tt.address == mum {
			timeout = 500 * time.Millisecond
		}
		r, err := engine.Run(t.Context(), engine.Config{
			Address: tt.address, TLS: offer(tt.tls, "http/1.1"), Window: 200 * time.Millisecond, ConnectTimeout: timeout,
			Subscribers: &subscribe.Config{
				Count: 2, NewStreams: streams(t, sse.StreamConfig{}), MinBackoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond,
			},
		})
		if tt.want == "" {
			if err != nil || r.Streams.Opened != 2 || r.Streams.Failed > 0 {
				t.Errorf("%s: %v, %+v", tt.name, err, r)
			}
			continue
		}
		failure := err
		var unreachable *engine.Unreachable
		switch {
		case errors.As(err, &unreachable):
			failure = unreachable.Err
		case err == nil && r.Streams.Opened == 0: // one that reconnects counts as connected
			for text := range r.Streams.Failures {
				failure = &wire.Error{Kind: wire.TLS, Text: text}
			}
		}
		if wire.KindOf(failure) != wire.TLS || !strings.Contains(failure.Error(), tt.want) {
			t.Errorf("%s: %v, %+v", tt.name, err, r)
		}
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

// Subscribers do not speak HTTP/2, so nothing next to them may offer it.
func TestValidateSubscribersOverTLS(t *testing.T) {
	_, config := https(t, true, func(http.ResponseWriter, *http.Request) {})
	c := engine.Config{
		Address: "h:1", Window: time.Second, NewMuxes: get2s(t, 1), TLS: offer(config, "h2"), Connections: 1,
		Subscribers: &subscribe.Config{Count: 1, NewStreams: streams(t, sse.StreamConfig{})},
	}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "no muxes together with subscribers") {
		t.Error(err)
	}
}
