package engine_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/selftest/oracle"
)

// tunnels makes what asks a proxy for tunnels to a target.
func tunnels(t testing.TB, proxy, target string) (address string, makers func(int) func() wire.Client) {
	t.Helper()
	p, err := http1.ParseProxy(proxy)
	if err != nil {
		t.Fatal(err)
	}
	return p.Address, func(int) func() wire.Client {
		template, err := http1.NewTemplate(p.Tunnel(target))
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}

// startProxy starts a proxy that answers CONNECT, and counts the tunnels that it has opened. An
// answer other than 200 ends the connection.
func startProxy(t testing.TB, answer func(*http.Request) string) (address string, opened *atomic.Int64) {
	t.Helper()
	opened = new(atomic.Int64)
	return listen(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		said := answer(request)
		if !strings.HasPrefix(said, "HTTP/1.1 200 ") {
			_, _ = io.WriteString(c, said)
			return
		}
		to, err := net.Dial("tcp", request.Host)
		if err != nil {
			return
		}
		defer to.Close()
		opened.Add(1)
		for _, piece := range strings.SplitAfter(said, "0") { // the answer comes in pieces
			_, _ = io.WriteString(c, piece)
		}
		var copying sync.WaitGroup
		copying.Go(func() {
			_, _ = io.Copy(to, r)
			_ = to.(*net.TCPConn).CloseWrite()
		})
		_, _ = io.Copy(c, to)
		_ = c.Close()
		copying.Wait()
	}), opened
}

// Each connection gets a tunnel of its own, in which TLS and either HTTP are spoken.
func TestTunnels(t *testing.T) {
	for _, two := range []bool{false, true} {
		for _, open := range []bool{false, true} {
			var asked atomic.Int64
			target, settings := https(t, two, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
			const authorization = "Basic dXNlcjpzZWNyZXQ="
			proxy, opened := startProxy(t, func(r *http.Request) string {
				if r.Method != http.MethodConnect || r.RequestURI != target || r.Host != target || r.Header.Get("Proxy-Authorization") != authorization {
					return "HTTP/1.1 400 Bad Request\r\n\r\n"
				}
				return "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"
			})
			c := config.Config{Connections: 3, Requests: 60, ExchangesPerConnection: 7, Drain: time.Minute}
			c.Address, c.NewTunnels = tunnels(t, "http://user:secret@"+proxy, target)
			if two {
				c.TLS, c.NewMuxes, c.Streams = offer(settings, "h2"), get2s(t, 2), 2
			} else {
				c.TLS, c.NewClients = offer(settings, "http/1.1"), get(t, "example.com")
			}
			if open {
				c.Schedule = poisson(t, 2000)
			}
			r := run(t, c)
			if r.Counts.OK != 60 || asked.Load() != 60 || r.Connections.Failed > 0 {
				t.Errorf("HTTP/2 %v, open %v: %+v, %v, %d were asked for", two, open, r.Counts, r.Failures, asked.Load())
			}
			// Some may not be in use yet when the last request ends.
			established, reached := int64(r.Connections.Opened), r.Latency[record.ConnectTime].Count() //nolint:gosec // a few
			if n := opened.Load(); established < 9 || reached < established || n < reached {
				t.Errorf("HTTP/2 %v, open %v: %d tunnels, of which %d were reached, and %d established", two, open, n, reached, established)
			}
		}
	}
}

// The error has the proxy's answer, or says that there was none. It is the connection that fails.
func TestTunnelsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"407":     {"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 5\r\n\r\nlogin", "answered CONNECT by 407"},
		"502":     {"HTTP/1.1 502 Bad Gateway\r\n\r\n", "answered CONNECT by 502"},
		"302":     {"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "answered CONNECT by 302"},
		"closes":  {"", "did not answer CONNECT: reset: connection closed before the first byte of the response"},
		"cut":     {"HTTP/1.1 20", "did not answer CONNECT: reset: connection closed inside the response header"},
		"no HTTP": {"220 ready\r\n", "did not answer CONNECT: protocol: the answer does not start with HTTP/"},
	} {
		proxy, _ := startProxy(t, func(*http.Request) string { return tt.answer })
		_, settings := https(t, false, func(http.ResponseWriter, *http.Request) {})
		c := config.Config{Connections: 2, Requests: 10, TLS: offer(settings, "http/1.1"), NewClients: get(t, "example.com"), Schedule: poisson(t, 1000)}
		c.Address, c.NewTunnels = tunnels(t, "http://"+proxy, "127.0.0.1:1")
		r, err := engine.Run(t.Context(), c)
		if err == nil || r == nil {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		conserved(t, r)
		if n := r.Failures["connect: the proxy "+proxy+" "+tt.want]; n != 10 || r.Counts.ByKind[wire.Connect] != 10 {
			t.Errorf("%s: %v, %+v", name, r.Failures, r.Counts)
		}
	}
}

// As long as the only connection is being opened, requests wait for that. The first one on it is still alone at the target.
func TestServiceWhileConnecting(t *testing.T) {
	target := null(t, oracle.Config{}).Addr().String()
	proxy, _ := startProxy(t, func(*http.Request) string {
		<-time.After(50 * time.Millisecond)
		return "HTTP/1.1 200 OK\r\n\r\n"
	})
	c := config.Config{NewClients: get(t, "h"), Schedule: poisson(t, 1000), Connections: 1, Waiting: options.Waiting{MaxWaiting: 5}, Window: 200 * time.Millisecond}
	c.Address, c.NewTunnels = tunnels(t, "http://"+proxy, target)
	if r := run(t, c); r.Connections.Unqueued == 0 || r.Connections.Unqueued >= r.Counts.OK {
		t.Errorf("%d of %d responses before requests waited", r.Connections.Unqueued, r.Counts.OK)
	}
}

// A proxy that says nothing is given up after the time for connecting.
func TestTunnelTimeout(t *testing.T) {
	proxy := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	c := config.Config{Connections: 1, Requests: 1, NewClients: get(t, "h"), Schedule: poisson(t, 1000), Timeouts: options.Timeouts{ConnectTimeout: 50 * time.Millisecond}}
	c.Address, c.NewTunnels = tunnels(t, "http://"+proxy, "127.0.0.1:1")
	r, err := engine.Run(t.Context(), c)
	want := "the proxy " + proxy + " did not answer CONNECT: timeout: no complete response in time"
	if err == nil || err.Error() != want || r.Failures["connect: "+want] != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}
