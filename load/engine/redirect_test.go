package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

// following makes a load of a request follow redirects, in HTTP/1.1, HTTP/2, or as the server
// chooses.
func following(t testing.TB, c config.Config, r http1.Request, secure, one, two bool) config.Config {
	t.Helper()
	end := http1.Endpoint{Secure: secure, Host: r.Host, Target: r.Target}
	c.NewFollower = func(int) wire.Follower { return http1.NewRedirects(end, r) }
	all := r.Following()
	if one {
		c.NewClients = func(int) func() wire.Client {
			template, err := http1.NewTemplate(http1.Config{Requests: all, Fields: http1.LocationFields()})
			if err != nil {
				panic(err)
			}
			return func() wire.Client { return template.Client() }
		}
	}
	if two {
		c.Streams = 4
		c.NewMuxes = get2(t, r.Host, c.Streams, func(h *http2.Config) {
			h.Fields = http1.LocationFields()
			h.Requests = nil
			for _, r := range all {
				request := http2.Request{Request: r, Scheme: "http"}
				if secure {
					request.Scheme = "https"
				}
				h.Requests = append(h.Requests, request)
			}
		})
	}
	return c
}

// A redirecting server answers POST /0 after two redirects. It counts its answers by path.
type redirecting struct {
	hops   [3]atomic.Int64
	wrong  atomic.Int64
	closes func(hop int) bool // HTTP/1.1: the connection ends with the answer
	delay  time.Duration      // of the first one
}

func (s *redirecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var hop int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &hop); err != nil || hop < 0 || hop >= len(s.hops) ||
		(hop < 2) != (r.Method == "POST" && string(body) == "text") || hop == 2 && (r.Method != "GET" || len(body) > 0) {
		s.wrong.Add(1)
		return
	}
	s.hops[hop].Add(1)
	if s.closes != nil && s.closes(hop) {
		w.Header().Set("Connection", "close")
	}
	switch hop {
	case 0:
		<-time.After(s.delay)
		w.Header().Set("Location", "1")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case 1:
		w.Header().Set("Location", "/2")
		w.WriteHeader(http.StatusSeeOther)
		_, _ = io.WriteString(w, strings.Repeat("x", 3000)) // content that arrives after the header
	case 2:
		_, _ = io.WriteString(w, "done")
	}
}

// Redirects are followed and counted, whatever the protocol and the loop, and whether or not
// connections last. A redirected request counts once, by its last response.
func TestRedirects(t *testing.T) {
	const requests = 30
	post := http1.Request{Method: "POST", Target: "/0", Body: []byte("text")}
	for _, tt := range []struct {
		name             string
		secure, one, two bool
		closes           func(hop int) bool
		most             uint64 // of the exchanges of a connection; 0: no limit
	}{
		{name: "HTTP/1.1", one: true},
		{name: "HTTP/1.1, closing", one: true, closes: func(int) bool { return true }},
		{name: "HTTP/1.1, closing in between", one: true, closes: func(hop int) bool { return hop == 1 }},
		{name: "HTTP/1.1, two on a connection", one: true, most: 2},
		{name: "HTTP/1.1, TLS, closing", one: true, secure: true, closes: func(int) bool { return true }},
		{name: "HTTP/2", two: true},
		{name: "HTTP/2, two on a connection", two: true, most: 2},
		{name: "HTTP/2, TLS", two: true, secure: true},
		{name: "TLS, HTTP/1.1 is chosen", one: true, two: true, secure: true, closes: func(hop int) bool { return hop == 0 }},
	} {
		for _, open := range []bool{false, true} {
			s := &redirecting{closes: tt.closes}
			c := config.Config{Connections: 3, Requests: requests, Drain: time.Minute, ExchangesPerConnection: tt.most}
			r := post
			switch {
			case tt.secure:
				address, config := https(t, !tt.one, s.ServeHTTP)
				alpn := []string{"h2", "http/1.1"}
				if !tt.two {
					alpn = alpn[1:]
				} else if !tt.one {
					alpn = alpn[:1]
				}
				c.Address, c.TLS, r.Host = address, offer(config, alpn...), "example.com"
			case tt.two:
				c.Address, r.Host = serve2(t, http.HTTP2Config{}, s.ServeHTTP), "h"
			default:
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				c.Address, r.Host = server.Listener.Addr().String(), "h"
			}
			if open {
				c.Schedule = poisson(t, 3000)
			}
			got := run(t, following(t, c, r, tt.secure, tt.one, tt.two))
			if got.Counts.OK != requests || got.Status[200] != requests || len(got.Status) != 1 || got.Redirects == nil || *got.Redirects != 2*requests {
				t.Errorf("%s, open %v: %+v, status %v, failures %v, redirects %v", tt.name, open, got.Counts, got.Status, got.Failures, got.Redirects)
			}
			if s.hops[0].Load() != requests || s.hops[1].Load() != requests || s.hops[2].Load() != requests || s.wrong.Load() != 0 {
				t.Errorf("%s, open %v: the server has answered %d, %d and %d, and %d that were wrong", tt.name, open, s.hops[0].Load(), s.hops[1].Load(), s.hops[2].Load(), s.wrong.Load())
			}
			if n := got.Connections.Exchanges; n != 3*requests {
				t.Errorf("%s, open %v: %d exchanges", tt.name, open, n)
			}
			if n := got.Latency[record.Response].Count(); n != requests {
				t.Errorf("%s, open %v: %d response times", tt.name, open, n)
			}
		}
	}
}

// The times of a redirected request begin with its first request.
func TestRedirectTimes(t *testing.T) {
	const delay = 20 * time.Millisecond
	s := &redirecting{delay: delay}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := config.Config{Address: server.Listener.Addr().String(), Requests: 3}
	r := run(t, following(t, c, http1.Request{Method: "POST", Target: "/0", Host: "h", Body: []byte("text")}, false, true, false))
	for _, tag := range []record.Tag{record.Response, record.Service, record.ServiceRead, record.FirstByte} {
		if least := r.Latency[tag].Quantile(0); r.Latency[tag].Count() != 3 || least < int64(delay)*99/100 {
			t.Errorf("%v: %d values from %v on", tag, r.Latency[tag].Count(), time.Duration(least))
		}
	}
}

// A redirect that leads elsewhere is a failure that says where to, and so is one too many.
func TestRedirectsRefused(t *testing.T) {
	for location, want := range map[string]string{
		"http://example.org/": "status: status 302: redirect to another host or port: http://example.org/",
		"https://h/":          "status: status 302: redirect to another scheme: https://h/",
		"/":                   "status: status 302: more than 10 redirects in a row, the last one to http://h/",
	} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		}))
		t.Cleanup(server.Close)
		c := config.Config{Address: server.Listener.Addr().String(), Requests: 20, Connections: 2}
		r := run(t, following(t, c, http1.Request{Method: "GET", Target: "/", Host: "h"}, false, true, false))
		if r.Failures[want] != 20 || r.Counts.ByKind[wire.Status] != 20 || r.Status[302] != 20 {
			t.Errorf("%s: %v, %+v, status %v", location, r.Failures, r.Counts, r.Status)
		}
		if followed := uint64(asked.Load() - 20); *r.Redirects != followed { //nolint:gosec // asked 20 times at least
			t.Errorf("%s: %d redirects, and %d were followed", location, *r.Redirects, followed)
		}
	}
}

// Servers refuse requests in between, say GOAWAY and close connections. Each request ends once, and
// all redirects that the server has sent are accounted for.
func TestRedirectsMeetRefusals(t *testing.T) {
	for _, open := range []bool{false, true} {
		s := startScripted(t, func(r *rand.Rand, _ uint32) reaction {
			return []reaction{redirects, redirects, answers, answers, refuses, goesAway, goesAwayBefore, closes, resets}[r.IntN(9)]
		})
		c := config.Config{Address: s.address, Connections: 3, Window: 300 * time.Millisecond, Drain: 5 * time.Second}
		if open {
			c.Schedule = poisson(t, 3000)
		}
		r := run(t, following(t, c, http1.Request{Method: "GET", Target: "/", Host: "h"}, false, false, true))
		if r.Counts.OK == 0 || *r.Redirects == 0 || r.Connections.Resent == 0 || r.Counts.Unfinished > 0 {
			t.Errorf("open %v: %+v, %v redirects, %+v", open, r.Counts, *r.Redirects, r.Connections)
		}
		if got, did := *r.Redirects, s.did[redirects].Load(); got > did {
			t.Errorf("open %v: %d redirects were followed, and the server has sent %d", open, got, did)
		}
	}
}

// Redirected requests allocate nothing, either.
func TestRedirectsNoAllocations(t *testing.T) {
	request := http1.Request{Method: "GET", Target: "/", Host: "h"}
	for _, share := range []int{0, 2} { // of two answers, that redirect
		m := startScripted(t, func(r *rand.Rand, _ uint32) reaction {
			if r.IntN(4) < share {
				return redirects
			}
			return answers
		})
		address := listen(t, func(c net.Conn) {
			r := bufio.NewReader(c)
			plain, redirect := []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), []byte("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")
			for n := 0; ; n++ {
				for line := []byte("GET"); len(line) > len("\r\n"); {
					var err error
					if line, err = r.ReadSlice('\n'); err != nil {
						return
					}
				}
				answer := plain
				if n%4 < share {
					answer = redirect
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		})
		for name, c := range map[string]config.Config{
			"HTTP/1.1": following(t, config.Config{Address: address}, request, false, true, false),
			"HTTP/2":   following(t, config.Config{Address: m.address}, request, false, false, true),
		} {
			if per := allocations(t, c, func(r *record.Result) uint64 { return r.Counts.OK + r.Counts.ByKind[wire.Status] }); math.Abs(per) > 0.01 {
				t.Errorf("%s: %.4f allocations per request, of which %d of 4 are redirected", name, per, share)
			}
		}
	}
}
