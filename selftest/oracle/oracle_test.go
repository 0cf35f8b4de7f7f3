package oracle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hang is how long a test waits for what must happen at once.
const hang = time.Minute

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A client is a strict HTTP client on one connection. It lacks net/http's retries, so that its requests
// can be counted.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(hang)); err != nil {
		t.Fatal(err)
	}
	return &client{c, bufio.NewReader(c)}
}

// get sends a request and returns the answer, read in full.
func (c *client) get(request string) (*http.Response, []byte, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return nil, nil, err
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, body, err
}

const plain = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// eventually waits for another goroutine's progress, without a clock.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hang); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		runtime.Gosched()
	}
}

func TestNullHTTP(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			s, err := StartNull(t.Context(), Config{Addr: addr, Body: 10, Spin: time.Microsecond})
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Skip("this machine has no IPv6:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			tr := &http.Transport{}
			hc := &http.Client{Transport: tr, Timeout: hang}
			for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
				req := must[*http.Request](t)(http.NewRequest(method, s.URL()+"any/path", nil))
				if method == "POST" {
					req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 300_000))), 300_000
				}
				res := must[*http.Response](t)(hc.Do(req))
				body := must[[]byte](t)(io.ReadAll(res.Body))
				res.Body.Close()
				if want := map[bool]int{true: 0, false: 10}[method == "HEAD"]; len(body) != want || res.StatusCode != 200 {
					t.Errorf("%s: status %d, %d bytes of body, want 200 and %d", method, res.StatusCode, len(body), want)
				}
			}
			tr.CloseIdleConnections()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(Traffic{Accepted: 1, Received: 4, Answered: 4}, s.Traffic()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPipelinedFragmentedAndMalformed(t *testing.T) {
	s := must[*Server](t)(StartNull(t.Context(), Config{Body: 3}))
	defer s.Close()

	c := dial(t, s)
	post := "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
	for _, part := range []string{post[:7], post[7:30], post[30:41], post[41:] + plain + post + plain[:5], plain[5:]} {
		must[int](t)(io.WriteString(c, part))
	}
	for i := range 4 {
		res := must[*http.Response](t)(http.ReadResponse(c.r, nil))
		if b := must[[]byte](t)(io.ReadAll(res.Body)); string(b) != "xxx" {
			t.Errorf("answer %d: body %q", i, b)
		}
	}
	must[int](t)(io.WriteString(c, plain[:9]))
	must[int](t)(0, c.Close())

	bad := dial(t, s)
	res, _, err := bad.get("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if err != nil || res.StatusCode != 400 || !res.Close {
		t.Errorf("chunked request: %v, %v; want 400 and a close", res, err)
	}
	if _, err := bad.r.ReadByte(); err == nil {
		t.Error("the connection of a malformed request was not closed")
	}

	long := dial(t, s)
	res, _, err = long.get("GET /" + strings.Repeat("a", maxHead) + " HTTP/1.1\r\n\r\n")
	if err == nil && res.StatusCode != 400 { // or a reset: the server leaves bytes unread
		t.Errorf("endless head: %v", res)
	}
	old := dial(t, s)
	if res, _, err := old.get("GET / HTTP/1.0\r\n\r\n"); err != nil || !res.Close {
		t.Errorf("HTTP/1.0: %v, %v; want an answer and a close", res, err)
	}
	eventually(t, "all connections are gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.open == 0 })
	want := Traffic{Accepted: 4, Received: 5, Answered: 5, Partial: 1, Malformed: 2}
	if diff := cmp.Diff(want, s.Traffic()); diff != "" {
		t.Error(diff)
	}
}

func TestNullTCPEchoesUnderBackpressure(t *testing.T) {
	s := must[*Server](t)(StartNull(t.Context(), Config{Protocol: TCP}))
	defer s.Close()
	c := dial(t, s)
	sent := bytes.Repeat([]byte("0123456789"), 2_000_000) // far beyond what socket buffers hold
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Write(sent); err != nil {
			t.Error(err)
		}
	})
	got := make([]byte, len(sent))
	must[int](t)(io.ReadFull(c, got))
	wg.Wait()
	if !bytes.Equal(got, sent) {
		t.Error("the echo differs")
	}
}

// A server may be late, never early, by its own clock; and it says by how much.
func TestDelayIsNeverEarly(t *testing.T) {
	for name, d := range map[string]Distribution{
		"fixed":       Fixed(2 * time.Millisecond),
		"log-normal":  LogNormal{Median: time.Millisecond, Sigma: 0.5},
		"bimodal":     Bimodal{Fast: 100 * time.Microsecond, Slow: 20 * time.Millisecond, SlowShare: 0.1},
		"exponential": Exponential{Mean: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := must[*Timed](t)(StartDelay(t.Context(), Config{Spin: 60 * time.Microsecond}, d, 7))
			defer s.Close()
			const clients, each = 8, 25
			delays := make([][]int64, clients*each)
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range clients {
				c := dial(t, s.Server)
				wg.Go(func() {
					for range each {
						start := time.Now()
						res, _, err := c.get(plain)
						seen := time.Since(start)
						if err != nil {
							t.Error(err)
							return
						}
						seq, err1 := strconv.Atoi(res.Header.Get("X-Truth-Seq"))
						ns, err2 := strconv.ParseInt(res.Header.Get("X-Truth-Ns"), 10, 64)
						if err1 != nil || err2 != nil || seen < time.Duration(ns) {
							t.Errorf("header %v, seen %v: %v, %v; want seq and ns, and no less seen than injected", res.Header, seen, err1, err2)
							return
						}
						mu.Lock()
						delays[seq] = append(delays[seq], ns)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			random, log := seeded(7), s.Log()
			if len(log) != clients*each {
				t.Fatalf("%d records, want %d", len(log), clients*each)
			}
			for i, r := range log {
				if drawn := int64(d.Quantile(random.Float64())); r.Planned != drawn {
					t.Errorf("request %d: planned %d, want the %d drawn", i, r.Planned, drawn)
				}
				if r.Injected < r.Planned {
					t.Errorf("request %d: answered after %d, planned %d", i, r.Injected, r.Planned)
				}
				if !cmp.Equal(delays[i], []int64{r.Injected}) {
					t.Errorf("request %d: said %v, recorded %d", i, delays[i], r.Injected)
				}
			}
		})
	}
}

func TestDelayAbandoned(t *testing.T) {
	s := must[*Timed](t)(StartDelay(t.Context(), Config{}, Fixed(time.Hour), 1))
	must[int](t)(io.WriteString(dial(t, s.Server), plain))
	eventually(t, "the request is received", func() bool { return s.Traffic().Received == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(Traffic{Accepted: 1, Received: 1, Abandoned: 1}, s.Traffic()); diff != "" {
		t.Error(diff)
	}
	if log := s.Log(); len(log) != 1 || log[0].Injected != -1 {
		t.Errorf("%+v, want one record without an answer", log)
	}
}

// The queue's rule, fed with Poisson arrivals, has M/M/1's known quantiles.
func TestQueueIsMM1(t *testing.T) {
	const lambda, mu, n = 800.0, 1000.0, 2_000_000
	gaps, rule := seeded(1), queue(1, Exponential{Mean: time.Second / mu}, seeded(2))
	var at float64
	over := map[float64]int{0.5: 0, 0.9: 0, 0.99: 0}
	for range n {
		at += gaps.ExpFloat64() / lambda * 1e9
		sojourn := time.Duration(rule(int64(at)) - int64(at))
		for q := range over {
			if sojourn > MM1Quantile(q, lambda, mu) {
				over[q]++
			}
		}
	}
	for q, k := range over {
		// Sojourns are correlated over about 1/(1−ρ)² of them; 10 % is 4 sigma at p99.
		if got, want := float64(k)/n, 1-q; math.Abs(got/want-1) > 0.1 {
			t.Errorf("share above the q=%v quantile: %.5f, want %.5f", q, got, want)
		}
	}
}

// c workers of s seconds never finish more than c/s, and never idle with work waiting.
func TestQueueHoldsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		service := rapid.Int64Range(1, 1000).Draw(t, "service")
		n := rapid.IntRange(1, 200).Draw(t, "n")
		rule := queue(workers, Fixed(service), seeded(0))
		for i := range n {
			// All at once: the i-th request is in the i/c-th batch.
			if got, want := rule(5), 5+service*int64(i/workers+1); got != want {
				t.Fatalf("request %d due at %d, want %d", i, got, want)
			}
		}
	})
}

func TestQueueServer(t *testing.T) {
	const clients, each = 4, 20
	s := must[*Timed](t)(StartQueue(t.Context(), Config{}, 2, Fixed(time.Millisecond), 1))
	defer s.Close()
	var wg sync.WaitGroup
	for range clients {
		c := dial(t, s.Server)
		wg.Go(func() {
			for range each {
				if _, _, err := c.get(plain); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	log := s.Log()
	if len(log) != clients*each {
		t.Fatalf("%d records, want %d", len(log), clients*each)
	}
	for i := 2; i < len(log); i++ { // first come, first served: two workers, so every second answer a service apart
		if gap := log[i].Arrival + log[i].Planned - log[i-2].Arrival - log[i-2].Planned; gap < int64(time.Millisecond) {
			t.Errorf("answers %d and %d due %d ns apart", i-2, i, gap)
		}
	}
}

func TestFreeze(t *testing.T) {
	const hold, period = 30 * time.Millisecond, 60 * time.Millisecond
	s := must[*Freeze](t)(StartFreeze(t.Context(), Config{Spin: 60 * time.Microsecond}, hold, period))
	defer s.Close()
	var wg sync.WaitGroup
	type span struct{ start, end time.Time }
	seen := make([][]span, 4)
	// How many freezes met requests is up to the clients, who may have no CPU in one.
	met := func(log []Freezing) (n int) {
		for _, f := range log {
			if f.Drained && f.Backlog > 0 {
				n++
			}
		}
		return n
	}
	const enough, most = 3, 200
	for i := range seen {
		c := dial(t, s.Server)
		wg.Go(func() {
			for log := s.Log(); met(log) < enough && len(log) < most; log = s.Log() {
				start := time.Now()
				if _, _, err := c.get(plain); err != nil {
					t.Error(err)
					return
				}
				seen[i] = append(seen[i], span{start, time.Now()})
			}
		})
	}
	wg.Wait()
	log := s.Log()
	var last time.Time
	caught := 0
	if n := met(log); n < enough {
		t.Errorf("%d of %d freezes drained a backlog, want %d", n, len(log), enough)
	}
	for i, f := range log {
		if f.Length < hold {
			t.Errorf("freeze %d: %+v; want at least %v long", i, f, hold)
		}
		if f.Start.Sub(s.start) < time.Duration(i+1)*period || f.Start.Before(last) {
			t.Errorf("freeze %d began %v after the start", i, f.Start.Sub(s.start))
		}
		last = f.Start.Add(f.Length)
		for _, spans := range seen {
			for _, x := range spans {
				// Sent within the freeze: no answer before its end.
				if x.start.After(f.Start) && x.start.Before(last) {
					caught++
					if x.end.Before(last) {
						t.Errorf("freeze %d: answered %v before its end", i, last.Sub(x.end))
					}
				}
			}
		}
	}
	t.Logf("%d requests were sent within a freeze", caught)
}

func TestCloseEndsAFreeze(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := must[*Freeze](t)(StartFreeze(ctx, Config{}, time.Hour-1, time.Hour))
	s.mu.Lock()
	s.timers.pop()
	s.after(0, nil) // now, rather than in an hour
	s.mu.Unlock()
	c := dial(t, s.Server) // wakes the loop
	must[int](t)(io.WriteString(c, plain))
	cancel()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("still listening after its context ended")
	}
}

// Every request that a client sent in full is counted under the server's deed. It looks to the client
// as the deed promises.
func TestFaultyCountsExactly(t *testing.T) {
	const clients, each = 48, 10
	mix := Mix{OK: 50, Status: 5, CloseAfter: 5, Slow: 5, Refuse: 2, Reset: 5, Cut: 5, Misframe: 5, Stall: 1}
	s := must[*Faulty](t)(StartFaulty(t.Context(), Config{}, FaultyConfig{
		Mix: mix, Seed: 3, Step: 100 * time.Microsecond, Refusal: 5 * time.Millisecond,
	}))
	var mu sync.Mutex
	got, refused := map[string]int64{}, 0
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				// A connection each: after CloseAfter, a client cannot tell
				// whether its next request was received.
				var conn net.Conn
				for {
					var err error
					if conn, err = net.Dial("tcp", s.Addr().String()); err == nil {
						break
					}
					mu.Lock()
					refused++
					mu.Unlock()
				}
				outcome := exchange(conn)
				conn.Close()
				mu.Lock()
				got[outcome]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// Connections that wait in the kernel when the listener starts to
	// refuse are reset without having been received.
	counts := s.Counts()
	draw := drawer(mix, seeded(3))
	var want Counts
	want.Accepted = counts.Accepted
	want.Received = counts.Received
	outcomes := map[string]int64{}
	for range counts.Received {
		d := draw()
		want.Did[d]++
		outcomes[d.Outcome()]++
	}
	want.Abandoned = want.Did[Stall]
	want.Answered = want.Received - want.Abandoned
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for d := range Deeds {
		if counts.Did[d] == 0 {
			t.Errorf("%v never happened", d)
		}
	}
	outcomes["reset"] += clients*each - counts.Received
	if diff := cmp.Diff(outcomes, got); diff != "" {
		t.Errorf("outcomes (-server +clients):\n%s", diff)
	}
	t.Logf("%d connections refused, %d reset before they were accepted", refused, clients*each-counts.Received)
}

// exchange sends one request and names its outcome.
func exchange(conn net.Conn) string {
	c := &client{conn, bufio.NewReader(conn)}
	// Stalls must end somehow. Anything else takes less even on a busy machine.
	_ = conn.SetDeadline(time.Now().Add(4 * time.Second))
	res, _, err := c.get("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "reset"
	case err != nil:
		return "protocol"
	case res.StatusCode != 200:
		return "status"
	}
	return "ok"
}

// A client that leaves during a slow answer is counted as lost.
func TestFaultyLost(t *testing.T) {
	s := must[*Faulty](t)(StartFaulty(t.Context(), Config{}, FaultyConfig{Mix: Mix{Slow: 1}, Step: time.Hour}))
	c := dial(t, s.Server)
	must[int](t)(io.WriteString(c, plain))
	must[byte](t)(c.r.ReadByte())
	if got := s.Counts().Pending; got != 1 {
		t.Errorf("pending %d, want 1", got)
	}
	must[int](t)(0, c.Close())
	eventually(t, "the client's leaving is noticed", func() bool { return s.Counts().Lost == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want := Counts{Traffic: Traffic{Accepted: 1, Received: 1, Abandoned: 1}, Lost: 1}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Error(diff)
	}
}

// Each way to misframe is refused even by a client as tolerant as net/http's.
func TestMisframings(t *testing.T) {
	for _, m := range misframings {
		res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(m)), nil)
		if err == nil {
			_, err = io.ReadAll(res.Body)
		}
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v; want a protocol error", m, err)
		}
	}
}

// Connections beyond the bound wait and are served later.
func TestConnectionsAreBounded(t *testing.T) {
	s := must[*Server](t)(StartNull(t.Context(), Config{Connections: 1}))
	defer s.Close()
	first := dial(t, s)
	if _, _, err := first.get(plain); err != nil {
		t.Fatal(err)
	}
	second := dial(t, s)
	must[int](t)(io.WriteString(second, plain))
	if _, _, err := first.get(plain); err != nil {
		t.Fatal(err)
	}
	if got := s.Traffic().Accepted; got != 1 {
		t.Errorf("accepted %d at a bound of 1", got)
	}
	must[int](t)(0, first.Close())
	must[*http.Response](t)(http.ReadResponse(second.r, nil))
}

// The sampling error holds the means of separately simulated windows of a queue, in about 95 of 100
// cases.
func TestMM1Sampling(t *testing.T) {
	const lambda, mu, windows, runs = 80.0, 100.0, 4, 200
	within, allowed := 0, MM1Sampling(0.9, lambda, mu, 20*time.Second, windows)
	gaps, rule := seeded(3), queue(1, Exponential{Mean: time.Second / mu}, seeded(4))
	at := 0.0
	for range runs {
		mean := 0.0
		for range windows {
			var sojourns []float64
			for end := at + 20e9; at < end; at += gaps.ExpFloat64() / lambda * 1e9 {
				sojourns = append(sojourns, float64(rule(int64(at))-int64(at)))
			}
			slices.Sort(sojourns)
			mean += sojourns[len(sojourns)*9/10] / windows
		}
		if math.Abs(mean-float64(MM1Quantile(0.9, lambda, mu))) <= float64(allowed) {
			within++
		}
	}
	if within < 180 || within == runs {
		t.Errorf("%d of %d within ± %v", within, runs, allowed)
	}
	if one, more := MM1Sampling(0.99, 800, 1000, 5*time.Second, 1), MM1Sampling(0.99, 800, 1000, 5*time.Second, 16); one < 3*more || one > 4*more {
		t.Errorf("± %v of one window, ± %v of 16", one, more)
	}
	if got := MM1Sampling(0.5, 10, 10, time.Second, 1); got != math.MaxInt64 {
		t.Errorf("at saturation: %v", got)
	}
}

func TestOracles(t *testing.T) {
	const ms = time.Millisecond
	for q, want := range map[float64]time.Duration{0.5: 0, 0.9: 0, 0.95: 50 * ms, 0.99: 90 * ms, 0.999: 99 * ms} {
		if got := FreezeQuantile(q, 100*ms, 1000*ms); got != want {
			t.Errorf("freeze q=%v: %v, want %v", q, got, want)
		}
	}
	if got := MM1Quantile(0.99, 800, 1000); got.Round(ms/1000) != 23026*time.Microsecond {
		t.Errorf("M/M/1 p99: %v, want ln 100/200 s", got)
	}
	if got := MM1Quantile(0.5, 10, 10); got != math.MaxInt64 {
		t.Errorf("M/M/1 at saturation: %v", got)
	}
	if got := Capacity(4, 2*ms); got != 2000 {
		t.Errorf("capacity %v, want 2000/s", got)
	}
}

func TestDistributions(t *testing.T) {
	near := func(got time.Duration, want float64) bool { return math.Abs(float64(got)/want-1) < 1e-6 }
	ln := LogNormal{Median: time.Second, Sigma: 0.5}
	if got := ln.Quantile(0.99); !near(got, 3.2000740e9) { // exp(0.5 · 2.3263479)
		t.Errorf("log-normal p99: %v", got)
	}
	if got := (Exponential{Mean: time.Second}).Quantile(0.99); !near(got, 4.6051702e9) {
		t.Errorf("exponential p99: %v", got)
	}
	b := Bimodal{Fast: 1, Slow: 100, SlowShare: 0.01}
	if b.Quantile(0.98) != 1 || b.Quantile(0.995) != 100 {
		t.Error("bimodal quantiles")
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]Distribution{ln, b, Fixed(5), Exponential{Mean: time.Hour}, LogNormal{Median: time.Hour, Sigma: 5}}).Draw(t, "d")
		p, q := rapid.Float64Range(0, 1-1e-12).Draw(t, "p"), rapid.Float64Range(0, 1-1e-12).Draw(t, "q")
		lo, hi := d.Quantile(min(p, q)), d.Quantile(max(p, q))
		if lo < 0 || lo > hi || hi > maxDelay {
			t.Fatalf("%#v: quantiles %v and %v", d, lo, hi)
		}
	})
}

func TestTimersComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ts timers
		var last timer
		for range rapid.IntRange(1, 100).Draw(t, "n") {
			ts.push(rapid.Int64Range(0, 20).Draw(t, "due"), nil)
		}
		for n := len(ts.heap); n > 0; n-- {
			next := ts.pop()
			if next.before(last) {
				t.Fatalf("%v after %v", next, last)
			}
			last = next
		}
	})
}

func TestValidateNamesEveryFault(t *testing.T) {
	err := Config{Addr: "0.0.0.0:80", Protocol: 9, Body: -2, CPUs: []int{-3}, Spin: time.Hour, Connections: -4}.Validate()
	for _, field := range []string{"addr:", "protocol:", "body:", "cpus:", "spin:", "connections:"} {
		if err == nil || !strings.Contains(err.Error(), "oracle: "+field) {
			t.Errorf("no fault for %s in: %v", field, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	for name, start := range map[string]func() error{
		"protocol":    func() error { _, err := StartDelay(ctx, Config{Protocol: TCP}, Fixed(1), 0); return err },
		"fixed delay": func() error { _, err := StartDelay(ctx, Config{}, Fixed(0), 0); return err },
		"sigma":       func() error { _, err := StartDelay(ctx, Config{}, LogNormal{1, math.NaN()}, 0); return err },
		"slow share":  func() error { _, err := StartDelay(ctx, Config{}, Bimodal{1, 1, 2}, 0); return err },
		"mean":        func() error { _, err := StartQueue(ctx, Config{}, 1, Exponential{}, 0); return err },
		"workers":     func() error { _, err := StartQueue(ctx, Config{}, 0, Fixed(1), 0); return err },
		"hold":        func() error { _, err := StartFreeze(ctx, Config{}, 2, 1); return err },
		"mix":         func() error { _, err := StartFaulty(ctx, Config{}, FaultyConfig{}); return err },
	} {
		if err := start(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: fault not named: %v", name, err)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	s := must[*Server](t)(StartNull(t.Context(), Config{}))
	defer s.Close()
	if _, err := StartNull(t.Context(), Config{Addr: s.Addr().String()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second server on %v: %v, want address in use", s.Addr(), err)
	}
	bad, err := StartNull(t.Context(), Config{CPUs: []int{1023}})
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a CPU that is not there: %v", err)
	}
}

func FuzzParseHead(f *testing.F) {
	for _, s := range []string{
		plain, "", "\r\n\r\n", "HEAD /x HTTP/1.0\r\nConnection: Keep-Alive, Close\r\n\r\n",
		"POST / HTTP/1.1\r\nCONTENT-LENGTH: 12\r\n\r\nhello", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		h, ok, err := parseHead(p)
		if err != nil && (ok || h != head{}) {
			t.Fatalf("%v and %+v", err, h)
		}
		if !ok {
			return
		}
		if h.size < 4 || h.size > len(p) || string(p[h.size-4:h.size]) != "\r\n\r\n" || h.body < 0 || h.body > maxRequestBody {
			t.Fatalf("impossible head %+v of %q", h, p)
		}
		if _, ok, err := parseHead(p[:h.size-1]); ok || err != nil {
			t.Fatalf("a head less its last byte: %v, %v", ok, err)
		}
		if again, ok, err := parseHead(p[:h.size]); !ok || err != nil || again != h {
			t.Fatalf("%+v by itself reads as %+v, %v, %v", h, again, ok, err)
		}
		// A different reading by net/http would be a wrong oracle.
		if req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p[:h.size]))); err == nil {
			if req.ContentLength != h.body || (req.Method == "HEAD") != h.noAns {
				t.Fatalf("%q: %+v, net/http says %d and %s", p, h, req.ContentLength, req.Method)
			}
		}
	})
}
