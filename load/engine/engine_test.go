//go:build linux

package engine_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/selftest/oracle"
)

func null(t testing.TB, c oracle.Config) *oracle.Server {
	t.Helper()
	s, err := oracle.StartNull(context.Background(), c)
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

// A limited number of requests is sent exactly, over exactly the requested number of connections. The
// server has seen the same numbers.
func TestRequests(t *testing.T) {
	for _, workers := range []int{1, 3} {
		s := null(t, oracle.Config{})
		r := run(t, config.Config{
			Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 7, Requests: 1001, Threads: options.Threads{Workers: workers},
		})
		if r.Counts.OK != 1001 || r.Completed != 1001 || r.Status[200] != 1001 {
			t.Errorf("%d workers: counts %+v, completed %d, status %v", workers, r.Counts, r.Completed, r.Status)
		}
		if r.Connections.Opened != 7 || r.Connections.Peak != 7 || r.Connections.Reused != 994 || r.Connections.WindowReused != 994 || r.Connections.WindowExchanges != r.Counts.Sent {
			t.Errorf("%d workers: connections %+v", workers, r.Connections)
		}
		if got := s.Traffic().Received; got != 1001 {
			t.Errorf("%d workers: the server received %d", workers, got)
		}
		if size := r.Received / 1001; r.Received%1001 != 0 || size < uint64(len("HTTP/1.1 200 OK\r\n\r\n")) || size > 1000 || r.Connections.Multiplexed != 0 {
			t.Errorf("%d workers: %d bytes received in 1001 equal responses, %d connections of HTTP/2", workers, r.Received, r.Connections.Multiplexed)
		}
		for _, tag := range []record.Tag{record.Response, record.Service, record.SendLag, record.GeneratorLag, record.FirstByte} {
			if got := r.Latency[tag].Count(); got != 1001 {
				t.Errorf("%d workers: %v holds %d values", workers, tag, got)
			}
		}
		if r.Window <= 0 || r.Throughput() <= 0 {
			t.Errorf("%d workers: window %v, throughput %v", workers, r.Window, r.Throughput())
		}
	}
}

// The intervals and the whole hold the same values, and the warm-up's requests
// are in neither. One worker's intervals join without a gap.
func TestIntervals(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) { testIntervals(t, workers) })
	}
}

func testIntervals(t *testing.T, workers int) {
	s := null(t, oracle.Config{})
	var streamed, completed uint64
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 4, Threads: options.Threads{Workers: workers},
		Warmup: 200 * time.Millisecond, Window: 400 * time.Millisecond, Intervals: record.Intervals{Interval: 50 * time.Millisecond, OnInterval: func(i record.Interval) {
			completed += i.Completed()
			if h := i.Latency[record.Response]; h != nil {
				streamed += uint64(h.Count())
			}
		}},
	})
	if streamed != r.Counts.OK || uint64(r.Latency[record.Response].Count()) != r.Counts.OK {
		t.Errorf("intervals hold %d, the whole %d, of %d", streamed, r.Latency[record.Response].Count(), r.Counts.OK)
	}
	if completed != r.AllCounts.OK || r.AllCounts.OK <= r.Counts.OK {
		t.Errorf("completed %d of %d, %d of them in the window", completed, r.AllCounts.OK, r.Counts.OK)
	}
	var last time.Duration
	for _, i := range r.Intervals {
		if i.Length <= 0 || i.Start > last || (workers == 1 && i.Start != last) {
			t.Errorf("interval at %v of %v after %v", i.Start, i.Length, last)
		}
		if i.Connections != 4 {
			t.Errorf("interval at %v: %d connections, want all 4", i.Start, i.Connections)
		}
		last = max(last, i.Start+i.Length)
	}
	if r.Window != 400*time.Millisecond {
		t.Errorf("window of %v", r.Window)
	}
}

// A name with several addresses means the one that is listened on.
func TestLocalhost(t *testing.T) {
	s := null(t, oracle.Config{})
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, config.Config{Address: "localhost:" + port, NewClients: get(t, "h"), Requests: 10})
	if r.Counts.OK != 10 {
		t.Errorf("counts %+v", r.Counts)
	}
}

// An open loop keeps to its schedule: requests due in the window are sent, whatever the server does. A
// wait for a connection counts from the intended start.
func TestOpenLoopWaits(t *testing.T) {
	t.Parallel()
	const delay, window = 10 * time.Millisecond, 250 * time.Millisecond
	s, err := oracle.StartDelay(t.Context(), oracle.Config{}, oracle.Fixed(delay), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	schedule := poisson(t, 400)
	r := run(t, config.Config{
		// One connection can carry 100/s: the queue grows through the window.
		Address: s.Addr().String(), NewClients: get(t, "h"), Schedule: schedule, Connections: 1,
		Window: window, Drain: time.Minute,
	})
	cursor := schedule.Split(0, 1)
	var due uint64
	for {
		_, at, _ := cursor.Next()
		if at >= window {
			break
		}
		due++
	}
	if r.Counts.Scheduled != due || r.Counts.OK != due {
		t.Errorf("due %d, counts %+v", due, r.Counts)
	}
	// The last one waited for the whole backlog of the connection.
	behind := time.Duration(due)*delay - window
	if got := time.Duration(r.Latency[record.Response].Max()); got < behind {
		t.Errorf("longest response %v, although the last waited at least %v", got, behind)
	}
	if got := time.Duration(r.Latency[record.SendLag].Max()); got < behind-delay {
		t.Errorf("longest send lag %v", got)
	}
	if got := time.Duration(r.Latency[record.Service].Min()); got < delay {
		t.Errorf("shortest service time %v: the server takes %v", got, delay)
	}
}

// More than MaxWaiting are dropped, and counted.
func TestOpenLoopDrops(t *testing.T) {
	s, err := oracle.StartDelay(t.Context(), oracle.Config{}, oracle.Fixed(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Schedule: poisson(t, 1000), Connections: 2, Waiting: options.Waiting{MaxWaiting: 5},
		Window: 200 * time.Millisecond, Drain: time.Millisecond,
	})
	if r.Counts.Sent != 2 || r.Counts.Unfinished != 2 || r.Counts.Dropped != r.Counts.Scheduled-2 || r.Counts.Scheduled < 100 {
		t.Errorf("counts %+v", r.Counts)
	}
	// The two that never ended count as at least this long.
	if h := r.Latency[record.Response]; h.Count() != 2 || h.Max() < int64(100*time.Millisecond) {
		t.Errorf("%d responses, the longest %v", h.Count(), time.Duration(h.Max()))
	}
}

// The target's service time while connections are free is counted apart from the time when all are in
// use: a queue in it makes the difference. In a closed loop all are.
func TestServiceBeforeRequestsWait(t *testing.T) {
	s, err := oracle.StartQueue(t.Context(), oracle.Config{}, 1, oracle.Fixed(10*time.Millisecond), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Schedule: poisson(t, 1000), Connections: 8, Window: 400 * time.Millisecond, Drain: time.Millisecond,
	}
	r := run(t, c)
	first, all := r.Connections.Unqueued, r.Latency[record.Service].Mean()
	if mean := float64(r.Connections.UnqueuedTime) / float64(first); first == 0 || first >= r.Counts.OK || mean < 10e6 || mean > 0.9*all {
		t.Errorf("%d of %d responses before requests waited, of %v; of all %v", first, r.Counts.OK, mean, all)
	}
	c.Schedule = nil
	if r = run(t, c); r.Connections.Unqueued != 0 {
		t.Errorf("a closed loop: %+v", r.Connections)
	}
}

// The window has its length, whenever the last request is due: a pause at its end, or a ramp
// to nothing, is a part of the load. Only without a length does the schedule end it.
func TestScheduleEnds(t *testing.T) {
	t.Parallel()
	s := null(t, oracle.Config{})
	const window = 400 * time.Millisecond
	for name, c := range map[string]struct {
		stages   []pace.Stage
		window   time.Duration
		requests uint64
		ok       uint64
	}{
		"a pause at the end": {[]pace.Stage{{Duration: window / 4, From: 1000, To: 1000}, {Duration: 3 * window / 4}}, window, 0, 100},
		"a ramp to 0":        {[]pace.Stage{{Duration: window, From: 1000, To: 0}}, window, 0, 200},
		"too short":          {pace.Steady(1000, window/4), window, 0, 100},
		"without a length":   {pace.Steady(1000, window/4), 0, 1000, 100},
	} {
		schedule, err := pace.New(c.stages, pace.Constant, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, config.Config{
			Address: s.Addr().String(), NewClients: get(t, "h"), Schedule: schedule, Connections: 10, Threads: options.Threads{Workers: 2}, Window: c.window, Requests: c.requests,
		})
		if r.Counts.OK != c.ok || c.window > 0 && r.Window != c.window || r.Window == 0 {
			t.Errorf("%s: counts %+v in %v", name, r.Counts, r.Window)
		}
	}
	// Users that arrive by a schedule wait for those that have yet to come.
	schedule, err := pace.New([]pace.Stage{{Duration: window / 4, From: 400, To: 400}, {Duration: 3 * window / 4}}, pace.Constant, 0)
	if err != nil {
		t.Fatal(err)
	}
	one := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "one", Path: "/"}}})
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: composers(t, one, "h"), Users: &users.Config{Scenario: one, Count: 100}, Schedule: schedule, Connections: 10, Window: window,
	})
	if r.Counts.OK != 40 || r.Window != window {
		t.Errorf("users: counts %+v in %v", r.Counts, r.Window)
	}
}

// Users think between a response and their next request.
func TestThink(t *testing.T) {
	t.Parallel()
	s := null(t, oracle.Config{})
	const think = 50 * time.Millisecond
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 10, Window: 500 * time.Millisecond,
		Think: pace.Think{Constant: think},
	})
	// N = X·(R + Z): with R ≥ 0 there are at most N/Z a second, and one more each
	// for the first.
	if most := uint64(10 * (500/50 + 1)); r.Counts.OK > most || r.Counts.OK < 10 {
		t.Errorf("%d requests, at most %d can be", r.Counts.OK, most)
	}
	if r.Connections.Opened != 10 {
		t.Errorf("connections %+v", r.Connections)
	}
}

// A server that hangs up with its response, unannounced, is not sent another
// request on that connection: the response and the end arrive in one segment.
func TestUnannouncedClose(t *testing.T) {
	address := listen(t, func(c net.Conn) {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
		}
		if _, rerr := c.Read(make([]byte, 4096)); err != nil || rerr != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // its end follows at once
	})
	for _, open := range []bool{false, true} {
		c := config.Config{Address: address, NewClients: get(t, "h"), Connections: 4, Requests: 200}
		if open {
			c.Schedule = poisson(t, 2000)
		}
		if r := run(t, c); r.Counts.OK != 200 || r.Connections.Reused != 0 {
			t.Errorf("open loop %v: counts %+v, connections %+v, failures %v", open, r.Counts, r.Connections, r.Failures)
		}
	}
}

func TestTimeout(t *testing.T) {
	s, err := oracle.StartDelay(t.Context(), oracle.Config{}, oracle.Fixed(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const timeout = 30 * time.Millisecond
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 2, Requests: 6, Timeouts: options.Timeouts{Timeout: timeout},
	})
	if r.Counts.Timeouts != 6 || r.Counts.ByKind[wire.Timeout] != 6 {
		t.Errorf("counts %+v", r.Counts)
	}
	// They count as at least this long, together with the good ones.
	if h := r.Latency[record.Response]; h.Count() != 6 || h.Min() < int64(timeout) {
		t.Errorf("%d responses, the shortest %v", h.Count(), time.Duration(h.Min()))
	}
}

// The context ends a measurement at once; what was measured is returned.
func TestInterrupt(t *testing.T) {
	s := null(t, oracle.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := engine.Run(ctx, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 2, Window: time.Hour,
		Intervals: record.Intervals{Interval: 10 * time.Millisecond, OnInterval: func(i record.Interval) {
			if i.Completed() > 0 {
				cancel()
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	if !r.Interrupted || r.Counts.OK == 0 || r.Window > time.Minute {
		t.Errorf("interrupted %v, counts %+v, window %v", r.Interrupted, r.Counts, r.Window)
	}
}

// A measurement may be interrupted before its load begins: that is no fault of the target,
// and no interval ends before it starts.
func TestInterruptAtTheStart(t *testing.T) {
	s := null(t, oracle.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := engine.Run(ctx, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 2, Window: time.Hour,
		Schedule: poisson(t, 1),
		OnStart:  func(config.Start) { cancel() },
	})
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	if !r.Interrupted || r.Window < 0 || r.Window > time.Minute { // on a busy machine it may have begun
		t.Errorf("interrupted %v, window %v", r.Interrupted, r.Window)
	}
	for _, i := range r.Intervals {
		if i.Start < 0 || i.Length < 0 {
			t.Errorf("interval from %v, %v long", i.Start, i.Length)
		}
	}
}

// Whatever the server does, each request ends in exactly one way. The server received no more than was
// sent.
func TestConservation(t *testing.T) {
	mix := oracle.Mix{}
	for deed := range oracle.Deeds {
		mix[deed] = 1
	}
	mix[oracle.OK] = 8
	var sent atomic.Uint64 // of all: on a busy machine, a run of 120 ms may have no CPU
	t.Cleanup(func() {
		if sent.Load() == 0 {
			t.Error("nothing was sent")
		}
	})
	for seed := range uint64(36) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, err := oracle.StartFaulty(t.Context(), oracle.Config{}, oracle.FaultyConfig{Mix: mix, Seed: seed, Refusal: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c := config.Config{
				Address: s.Addr().String(), NewClients: get(t, "h"), Connections: 1 + int(seed%9), Threads: options.Threads{Workers: 1 + int(seed%2)*int(min(seed%9, 1))},
				Warmup: 20 * time.Millisecond, Window: 100 * time.Millisecond,
				Timeouts: options.Timeouts{Timeout: 30 * time.Millisecond}, Drain: time.Duration(seed%3) * 20 * time.Millisecond, Seed: seed,
			}
			if seed%3 == 0 {
				c.Schedule = poisson(t, 400)
				c.MaxWaiting = 20
			}
			r, err := engine.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			conserved(t, r)
			sent.Add(r.AllCounts.Sent)
			counts := s.Counts()
			if written := r.AllCounts.Sent - r.AllCounts.ByKind[wire.Connect]; uint64(counts.Received) > written {
				t.Errorf("the server received %d of %d", counts.Received, written)
			}
		})
	}
}

// The response times of a server that freezes are those that arithmetic
// predicts. Only the direction that cannot depend on the machine is asserted: no
// quantile is below the truth, as it is with coordinated omission.
func TestFreezeIsNotOmitted(t *testing.T) {
	const hold, period = 50 * time.Millisecond, 250 * time.Millisecond
	s, err := oracle.StartFreeze(t.Context(), oracle.Config{}, hold, period)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	schedule, err := pace.New(pace.Steady(1000, 0), pace.Constant, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, config.Config{
		Address: s.Addr().String(), NewClients: get(t, "h"), Schedule: schedule, Connections: 8,
		Warmup: 100 * time.Millisecond, Window: 4 * period,
	})
	for _, q := range []float64{0.9, 0.95} {
		want := oracle.FreezeQuantile(q, hold, period)
		// One arrival more or less in the window, and the histogram's resolution.
		slack := 2*time.Millisecond + want/1000
		if got := time.Duration(r.Latency[record.Response].Quantile(q)); got < want-slack {
			t.Errorf("p%v is %v, although it cannot be below %v", 100*q, got, want)
		}
	}
}

// Once warm, a request allocates nothing, whether it succeeds or fails. Allocations of a run, for its
// intervals for instance, do not grow with the number of requests.
func TestNoAllocations(t *testing.T) {
	s := null(t, oracle.Config{})
	for outcome, clients := range map[string]func(int) func() wire.Client{"succeeds": get(t, "h"), "fails": refuse(t)} {
		for _, clock := range []config.Clock{config.ClockArrival, config.ClockRead} {
			c := config.Config{Address: s.Addr().String(), NewClients: clients, Clock: clock}
			if per := allocations(t, c, with200); math.Abs(per) > 0.01 {
				t.Errorf("%.4f allocations per request that %s, clock %v", per, outcome, clock)
			}
		}
	}
}

// Statuses and failures by text count the window only: the warm-up's are in neither.
func TestWarmupIsNotInTheCounts(t *testing.T) {
	for name, clients := range map[string]func(int) func() wire.Client{"succeeds": get(t, "h"), "fails": refuse(t)} {
		s := null(t, oracle.Config{})
		r := run(t, config.Config{
			Address: s.Addr().String(), NewClients: clients, Connections: 2, Warmup: 100 * time.Millisecond, Window: 200 * time.Millisecond,
		})
		var failures uint64
		for _, n := range r.Failures {
			failures += n
		}
		if r.AllCounts.Sent <= r.Counts.Sent+r.Carried.Sent || r.Status[200] == 0 {
			t.Fatalf("%s: %+v of %+v, status %v", name, r.Counts, r.AllCounts, r.Status)
		}
		if got, want := r.Status[200], r.Counts.OK+r.Counts.ByKind[wire.Status]; got != want {
			t.Errorf("%s: status 200 %d times, of %d in the window", name, got, want)
		}
		if want := r.Counts.Sent - r.Counts.OK + r.Carried.Sent - r.Carried.OK; failures != want {
			t.Errorf("%s: %d failures by text, want %d", name, failures, want)
		}
	}
}

// refuse makes clients that take every response for a failure.
func refuse(t testing.TB) func(int) func() wire.Client {
	t.Helper()
	request, err := http1.Request{Method: "GET", Target: "/", Host: "h"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Client {
		template, err := http1.NewTemplate(http1.Config{
			Request: request, Accept: func(int) bool { return false },
		})
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}
