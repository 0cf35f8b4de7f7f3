package engine_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
	"dyno/load/wire/tlslayer"
)

// get2 makes muxes that GET / of host, as many at once as there are streams.
func get2(t testing.TB, host string, streams int, change ...func(*http2.Config)) func(int) func() wire.Mux {
	t.Helper()
	c := http2.Config{
		Requests: []http2.Request{{Request: http1.Request{Method: "GET", Host: host, Target: "/"}, Scheme: "http"}},
		Streams:  streams, Optimistic: true,
	}
	for _, f := range change {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Mux {
		template, err := http2.NewTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Client() }
	}
}

// serve2 starts net/http's server for HTTP/2 without TLS, and returns its address.
func serve2(t testing.TB, config http.HTTP2Config, handler http.HandlerFunc, change ...func(*http.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, Protocols: protocols, HTTP2: &config}
	for _, f := range change {
		f(s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends when it is closed
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().String()
}

// A reaction is what a scripted server does with a request.
type reaction uint8

const (
	answers        reaction = iota
	fails                   // status 500
	resets                  // RST_STREAM with INTERNAL_ERROR
	refuses                 // RST_STREAM with REFUSED_STREAM
	ignores                 // nothing
	closes                  // closes the connection
	goesAway                // answers, says GOAWAY and takes no more
	goesAwayBefore          // says GOAWAY, and that it has not processed this one
	redirects               // status 302, to /; what is random stops before it
	reactions
)

// A scriptedServer is a server of HTTP/2, frame by frame and without TLS, that follows a
// script with each request.
type scriptedServer struct {
	address string
	what    func(r *rand.Rand, stream uint32) reaction
	did     [reactions]atomic.Uint64
	ignored atomic.Uint64 // requests that came after GOAWAY
	conns   atomic.Uint64
}

func startScripted(t testing.TB, what func(r *rand.Rand, stream uint32) reaction) *scriptedServer {
	t.Helper()
	m := &scriptedServer{what: what}
	m.address = listen(t, m.serve)
	return m
}

// listen starts a server that does something with each connection and closes it, and
// returns its address.
func listen(t testing.TB, do func(net.Conn)) string {
	t.Helper()
	return listenOn(t, "tcp", "127.0.0.1:0", do)
}

// listenOn is listen on any network.
func listenOn(t testing.TB, network, at string, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards open
		open = map[net.Conn]bool{}
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				do(c)
				_ = c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

func muxFrame(b []byte, kind, flags byte, stream uint32, payload ...byte) []byte {
	b = append(b, 0, byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// A frame is what a client of HTTP/2 has sent, without its content.
type frame struct {
	kind, flags byte
	stream      uint32
}

// ends tells whether it is content with which a request ends.
func (f frame) ends() bool { return f.kind == 0 && f.flags&1 != 0 }

// serveFrames speaks HTTP/2 with a client, frame by frame: first, and then what answer appends for
// each frame. It ends when answer returns false, once that is written. Nothing in it allocates.
func serveFrames(c net.Conn, first []byte, answer func(out []byte, f frame) ([]byte, bool)) {
	r := bufio.NewReader(c)
	if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	if _, err := c.Write(first); err != nil {
		return
	}
	var head [9]byte
	for out, more := first[:0], true; ; {
		if r.Buffered() == 0 || !more {
			if _, err := c.Write(out); err != nil || !more {
				return
			}
			out = out[:0]
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		if _, err := r.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2])); err != nil {
			return
		}
		out, more = answer(out, frame{head[3], head[4], binary.BigEndian.Uint32(head[5:])})
	}
}

func (m *scriptedServer) serve(c net.Conn) {
	random := rand.New(rand.NewPCG(m.conns.Add(1), 0))
	gone := false
	serveFrames(c, muxFrame(nil, 4, 0, 0), func(out []byte, f frame) ([]byte, bool) {
		stream := f.stream
		switch {
		case f.kind == 4 && f.flags == 0: // SETTINGS
			out = muxFrame(out, 4, 1, 0)
		case f.kind == 1 && gone: // HEADERS
			m.ignored.Add(1)
		case f.kind == 1:
			did := m.what(random, stream)
			m.did[did].Add(1)
			switch did {
			case answers, goesAway:
				out = muxFrame(out, 1, 4, stream, 0x88) // 200
				out = muxFrame(out, 0, 1, stream, 'o', 'k')
			case fails:
				out = muxFrame(out, 1, 5, stream, 0x8e) // 500
			case redirects:
				out = muxFrame(out, 1, 5, stream, 0x08, 3, '3', '0', '2', 0x0f, 46-15, 1, '/') // :status and location
			case resets:
				out = muxFrame(out, 3, 0, stream, 0, 0, 0, 2)
			case refuses:
				out = muxFrame(out, 3, 0, stream, 0, 0, 0, 7)
			case closes:
				return nil, false
			}
			last := stream
			if did == goesAwayBefore {
				last--
			}
			if gone = did == goesAway || did == goesAwayBefore; gone {
				out = muxFrame(out, 7, 0, 0, byte(last>>24), byte(last>>16), byte(last>>8), byte(last), 0, 0, 0, 0)
			}
		}
		return out, true
	})
}

// largeWindows is what a server says first whose windows are the largest there are.
func largeWindows() []byte {
	out := muxFrame(nil, 4, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff) // SETTINGS_INITIAL_WINDOW_SIZE
	return muxFrame(out, 8, 0, 0, 0x7f, 0xff, 0, 0)             // WINDOW_UPDATE
}

// inTime measures as run does, and ends the test if that does not end.
func inTime(ctx context.Context, t *testing.T, c config.Config) *record.Result {
	t.Helper()
	var r *record.Result
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err = engine.Run(ctx, c)
	}()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("the measurement does not end")
	}
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	return r
}

// A connection may be lost while its socket takes no more. The next one starts from scratch,
// and its handshake is not taken for room on the old one.
func TestMuxLostWhileFull(t *testing.T) {
	t.Parallel()
	pair := certified(t)
	pair.NextProtos = []string{"h2"}
	var conns atomic.Uint64
	givenUp := make(chan struct{}) // a request has timed out: the socket is full, and more is to be said
	address := listen(t, func(c net.Conn) {
		s := tls.Server(c, pair)
		if s.Handshake() != nil || c.(*net.TCPConn).SetReadBuffer(16<<10) != nil {
			return
		}
		if _, err := s.Write(largeWindows()); err != nil {
			return
		}
		over := givenUp
		if conns.Add(1) > 1 {
			over = nil
		}
		select {
		case <-over:
			_ = c.(*net.TCPConn).SetLinger(0) // a reset
		case <-t.Context().Done():
		}
	})
	var once sync.Once
	r := inTime(t.Context(), t, config.Config{
		Address: address, TLS: &tlslayer.Config{ServerName: "h", Insecure: true, ALPN: []string{"h2"}}, Streams: 2, Connections: 1,
		NewMuxes: get2(t, "h", 2, func(c *http2.Config) {
			c.Requests[0].Method, c.Requests[0].Scheme, c.Requests[0].Body = "POST", "https", make([]byte, 64<<20)
		}),
		Window: 3 * time.Second, Drain: time.Millisecond, Timeouts: options.Timeouts{Timeout: 100 * time.Millisecond, ConnectTimeout: time.Second}, Deadline: true,
		Intervals: record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(i record.Interval) {
			if i.Measured.Timeouts > 0 {
				once.Do(func() { close(givenUp) })
			}
		}},
	})
	if r.Counts.Timeouts == 0 || r.Counts.ByKind[wire.Reset] == 0 || r.Connections.Opened < 2 {
		t.Errorf("%+v, %v, %+v", r.Counts, r.Failures, r.Connections)
	}
}

// All exchanges that a connection may carry are under way at once, and never more than
// the peer allows.
func TestMuxConcurrency(t *testing.T) {
	for _, allowed := range []int{3, 100} {
		const streams = 8
		var now, most atomic.Int64
		address := serve2(t, http.HTTP2Config{MaxConcurrentStreams: allowed}, func(http.ResponseWriter, *http.Request) {
			n := now.Add(1)
			for {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			<-time.After(5 * time.Millisecond)
			now.Add(-1)
		})
		for _, optimistic := range []bool{false, true} {
			most.Store(0)
			r := run(t, config.Config{
				Address: address, Streams: streams, Connections: 1, Requests: 100,
				NewMuxes: get2(t, "h", streams, func(c *http2.Config) { c.Optimistic = optimistic }),
			})
			if want := int64(min(allowed, streams)); r.Counts.OK != 100 || most.Load() != want || r.Connections.Allowed != allowed {
				t.Errorf("counts %+v, at most %d at once, want %d, and %d allowed", r.Counts, most.Load(), want, r.Connections.Allowed)
			}
		}
	}
}

// An open loop opens no more connections than it needs.
func TestMuxOpenLoop(t *testing.T) {
	address := serve2(t, http.HTTP2Config{}, func(http.ResponseWriter, *http.Request) {})
	for _, optimistic := range []bool{false, true} {
		r := run(t, config.Config{
			Address: address, Streams: 100, Connections: 50, Schedule: poisson(t, 2000), Requests: 1000, Drain: time.Minute, Threads: options.Threads{Workers: 2},
			NewMuxes: get2(t, "h", 100, func(c *http2.Config) { c.Optimistic = optimistic }),
		})
		if r.Counts.OK != 1000 || r.Connections.Opened > 10 {
			t.Errorf("counts %+v, connections %+v", r.Counts, r.Connections)
		}
	}
}

// A request that is refused each time is given up after some attempts. It is a failure with a kind of
// its own.
func TestMuxRefused(t *testing.T) {
	for name, always := range map[string]reaction{"reset": refuses, "goaway": goesAwayBefore} {
		for _, open := range []bool{false, true} {
			m := startScripted(t, func(*rand.Rand, uint32) reaction { return always })
			c := config.Config{
				Address: m.address, NewMuxes: get2(t, "h", 4), Streams: 4, Connections: 2, Requests: 40, MaxBackoff: 2 * time.Millisecond,
				Drain: time.Minute,
			}
			if open {
				c.Schedule = poisson(t, 1000)
			}
			r := run(t, c)
			if n := r.Connections; r.Counts.ByKind[wire.Refused] != 40 || n.Resent != 5*40 || n.Refused != 6*40 {
				t.Errorf("%s, open loop %v: %+v, %+v", name, open, r.Counts, n)
			}
		}
	}
}

// An exchange that takes too long is given up alone if others go on. If nothing arrives, its connection
// goes too.
func TestMuxTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // longer than a busy machine takes for an answer
	some := startScripted(t, func(_ *rand.Rand, stream uint32) reaction {
		if stream == 1 {
			return ignores
		}
		return answers
	})
	r := run(t, config.Config{
		Address: some.address, NewMuxes: get2(t, "h", 2), Streams: 2, Connections: 1, Window: 2 * timeout, Timeouts: options.Timeouts{Timeout: timeout},
		Think: pace.Think{Constant: 5 * time.Millisecond},
	})
	if r.Counts.Timeouts != 1 || r.Connections.Opened != 1 || r.Counts.OK == 0 || r.Counts.Errors > 0 {
		t.Errorf("one keeps waiting: %+v, %+v", r.Counts, r.Connections)
	}
	none := startScripted(t, func(*rand.Rand, uint32) reaction { return ignores })
	r = run(t, config.Config{
		Address: none.address, Streams: 2, Connections: 1, Requests: 6, Timeouts: options.Timeouts{Timeout: timeout},
		NewMuxes: get2(t, "h", 2, func(c *http2.Config) { c.Optimistic = false }),
	})
	// A connection on which nothing comes is given up. On a busy machine, the acknowledgement of
	// the settings may come after its first two requests: it then has two more.
	if opened := r.Connections.Opened; r.Counts.Timeouts != 6 || opened < 2 || opened > 3 {
		t.Errorf("all keep waiting: %+v, %+v", r.Counts, r.Connections)
	}
	if h := r.Latency[record.Response]; h.Count() != 6 || h.Min() < int64(timeout-time.Millisecond) { // by the clock of the timers
		t.Errorf("%d responses, the shortest %v", h.Count(), time.Duration(h.Min()))
	}
}

// Whatever the server does, each request ends in exactly one way, and the server's counts agree.
func TestMuxConservation(t *testing.T) {
	for seed := range uint64(35) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := startScripted(t, func(r *rand.Rand, _ uint32) reaction {
				if r.IntN(3) > 0 {
					return answers
				}
				return reaction(r.IntN(int(redirects)))
			})
			c := config.Config{
				Address: m.address, Streams: 1 + int(seed%7), Connections: 1 + int(seed%5), Threads: options.Threads{Workers: 1 + int(min(seed%5, seed%2))},
				Warmup: 20 * time.Millisecond, Window: 100 * time.Millisecond, Timeouts: options.Timeouts{Timeout: 30 * time.Millisecond},
				Drain: time.Duration(seed%3) * 20 * time.Millisecond, Seed: seed, MaxBackoff: 10 * time.Millisecond,
			}
			if seed%4 == 1 {
				c.ExchangesPerConnection = 1 + seed%9
			}
			c.NewMuxes = get2(t, "h", c.Streams, func(c *http2.Config) { c.Optimistic = seed%2 == 0 })
			if seed%3 == 0 {
				c.Schedule, c.MaxWaiting = poisson(t, 1500), 20
			}
			r, err := engine.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			conserved(t, r)
			answered := m.did[answers].Load() + m.did[goesAway].Load()
			const many = 50 // a busy machine may take a few too late
			if r.AllCounts.OK == 0 && answered > many || r.AllCounts.OK > answered {
				t.Errorf("%d good responses; the server gave %d", r.AllCounts.OK, answered)
			}
			if got, most := r.AllCounts.ByKind[wire.Status], m.did[fails].Load(); got > most {
				t.Errorf("%d failed by their status; the server sent %d", got, most)
			}
		})
	}
}

// Once warm, an exchange allocates nothing, whether it succeeds, fails or is sent again.
func TestMuxNoAllocations(t *testing.T) {
	for name, what := range map[string]func(*rand.Rand, uint32) reaction{
		"succeeds": func(*rand.Rand, uint32) reaction { return answers },
		"fails":    func(*rand.Rand, uint32) reaction { return fails },
		"is refused now and then": func(r *rand.Rand, _ uint32) reaction {
			if r.IntN(20) == 0 {
				return refuses
			}
			return answers
		},
	} {
		for _, open := range []bool{false, true} {
			m := startScripted(t, what)
			c := config.Config{Address: m.address, NewMuxes: get2(t, "h", 4), Streams: 4}
			if open {
				c.Schedule = poisson(t, 40_000)
			}
			per := allocations(t, c, func(r *record.Result) uint64 { return r.Counts.OK + r.Counts.ByKind[wire.Status] })
			if math.Abs(per) > 0.01 {
				t.Errorf("%.4f allocations per request that %s, open loop %v", per, name, open)
			}
		}
	}
}
