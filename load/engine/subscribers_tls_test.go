package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
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
		if a := r.Handshakes.Agreed; len(a) != 1 || a[0].ALPN != "http/1.1" {
			t.Errorf("%+v", a)
		}
		if (r.Ends.ByArrival > 0) != stampsArrivals() || r.Ends.Late+r.Ends.Early > 0 {
			t.Errorf("%+v", r.Ends)
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
