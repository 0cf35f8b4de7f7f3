package engine_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/internal/freeport"
	"dyno/internal/race"
	"dyno/load/engine"
	"dyno/load/engine/clock"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/tcp"
)

// get makes clients that GET / of host.
func get(t testing.TB, host string) func(int) func() wire.Client {
	t.Helper()
	return send(t, http1.Request{Method: "GET", Target: "/", Host: host})
}

// send makes clients that send a request.
func send(t testing.TB, request http1.Request) func(int) func() wire.Client {
	t.Helper()
	encoded, err := request.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Client {
		template, err := http1.NewTemplate(http1.Config{Request: encoded})
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}

// echo makes clients that exchange size bytes.
func echo(size int) func(int) func() wire.Client {
	return func(int) func() wire.Client {
		template, err := tcp.NewEcho(tcp.EchoConfig{Size: size})
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}

func poisson(t testing.TB, rate float64) *pace.Schedule {
	t.Helper()
	s, err := pace.New(pace.Steady(rate, 0), pace.Poisson, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run measures, and fails the test when requests are not conserved.
func run(t testing.TB, c config.Config) *record.Result {
	t.Helper()
	r, err := engine.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	return r
}

func conserved(t testing.TB, r *record.Result) {
	t.Helper()
	for name, counts := range map[string]*record.Counts{"in the window": &r.Counts, "carried into it": &r.Carried, "in all": &r.AllCounts} {
		if err := counts.Conserved(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The reported intervals add up to the whole, whichever way requests ended.
	var reported, measured, all record.Interval
	for i := range r.Intervals {
		reported.AddCounts(&r.Intervals[i])
	}
	measured.AddCounts(&record.Interval{Measured: r.Counts.Outcomes})
	measured.AddCounts(&record.Interval{Measured: r.Carried.Outcomes})
	all.AddCounts(&record.Interval{Measured: reported.Measured})
	all.AddCounts(&record.Interval{Measured: reported.Warmup})
	if reported.Measured != measured.Measured || all.Measured != r.AllCounts.Outcomes {
		t.Errorf("the intervals have %+v measured and %+v in all, the whole has %+v and %+v", reported.Measured, all.Measured, measured.Measured, r.AllCounts.Outcomes)
	}
	var withStatus uint64
	for _, n := range r.Status {
		withStatus += n
	}
	if c := r.Counts; withStatus > 0 && withStatus != c.OK+c.ByKind[wire.Status]+c.ByKind[wire.Assertion] {
		t.Errorf("statuses %v, counts %+v", r.Status, c)
	}
}

// stampsArrivals tells whether this system does so.
func stampsArrivals() bool {
	c := clock.New(time.Now())
	defer c.Close()
	return c.StartStamping(syscall.AF_INET) == nil
}

// Every address family and both kinds of codec work.
func TestNetworks(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			at := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
			address := listenOn(t, network, at, func(c net.Conn) { _, _ = io.Copy(c, c) }) // ends with the client
			stamps := network != "unix" && stampsArrivals()
			var r *record.Result
			for range 20 { // the kernel begins to stamp some time after it is asked to, and this load is over at once
				r = run(t, config.Config{
					Network: network, Address: address, NewClients: echo(100_000), Connections: 3, Requests: 50,
					Clock: config.ClockArrival,
				})
				if r.Ends.Fault == "" || !stamps {
					break
				}
			}
			if r.Counts.OK != 50 {
				t.Errorf("counts %+v, failures %v", r.Counts, r.Failures)
			}
			// Where there are no stamps, the result says so and goes by reading.
			if e := r.Ends; e.ByArrival+e.ByRead != 50 || stamps != (e.Fault == "") || !stamps && e.ByRead != 50 {
				t.Errorf("ends %+v", e)
			}
		})
	}
}

// Nothing listens: a closed loop says so before it begins, an open one counts.
func TestRefused(t *testing.T) {
	address := freeport.Address(t)
	for _, open := range []bool{false, true} {
		c := config.Config{Address: address, NewClients: get(t, "h"), Connections: 3, Window: 100 * time.Millisecond}
		if open {
			c.Schedule = poisson(t, 500)
		}
		r, err := engine.Run(t.Context(), c)
		var unreachable *engine.Unreachable
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("open loop %v: error %v", open, err)
		}
		if !open {
			continue
		}
		conserved(t, r)
		if n := r.Counts.ByKind[wire.Connect]; n == 0 || n != r.Counts.Scheduled {
			t.Errorf("counts %+v", r.Counts)
		}
	}
}

// An endless response, which comes faster than it is read, delays no others: other connections are
// served, and the window and the interruption end the measurement.
func TestEndlessResponse(t *testing.T) {
	request, err := http1.Request{Method: "GET", Target: "/", Host: "h"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, interrupted := range []bool{false, true} {
		var ahead atomic.Int64
		clients := func(int) func() wire.Client {
			template, err := http1.NewTemplate(http1.Config{Request: request})
			if err != nil {
				panic(err)
			}
			return func() wire.Client { return leisurely{template.Client(), &ahead} }
		}
		var conns atomic.Uint64
		// A Unix socket holds several readings from the start; one of TCP grows to that. The
		// kernel wakes the writer when a quarter is left, which has to be more than one reading.
		address := listenOn(t, "unix", filepath.Join(t.TempDir(), "socket"), func(c net.Conn) {
			endless := conns.Add(1) == 1
			piece := make([]byte, 16<<10)
			err := c.(*net.UnixConn).SetWriteBuffer(200 << 10) // the kernel doubles it
			for err == nil {
				_, err = c.Read(piece)
				if err == nil && !endless {
					_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				} else if err == nil {
					next := append([]byte("HTTP/1.0 200 OK\r\n\r\n"), piece...)
					for ; err == nil; next = piece {
						_, err = c.Write(next)
						ahead.Add(int64(len(next)))
					}
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config.Config{
			Network: "unix", Address: address, NewClients: clients, Connections: 2, Window: 500 * time.Millisecond, Drain: 50 * time.Millisecond,
			Intervals: record.Intervals{Interval: 50 * time.Millisecond},
		}
		if interrupted {
			c.Window = time.Hour
			c.OnInterval = func(i record.Interval) {
				if i.Completed() > 0 {
					cancel()
				}
			}
		}
		r := inTime(ctx, t, c)
		if r.Counts.OK == 0 || r.Counts.Unfinished == 0 || r.Interrupted != interrupted {
			t.Errorf("interrupted %v: %+v, %v", interrupted, r.Counts, r.Failures)
		}
	}
}

// allocations returns how many allocations a request takes once warm: the difference between many
// requests and few. It takes the least of three measurements, as the rest of the process may allocate
// too. Done tells how many of a run have ended as they should.
func allocations(t *testing.T, c config.Config, done func(r *record.Result) uint64) float64 {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	if race.Enabled {
		t.Skip("the race detector allocates, too: scripts/gotest.sh runs this without it")
	}
	const few, many = 1000, 11_000
	c.Connections, c.Interval, c.Drain = 8, time.Hour, time.Minute
	measure := func(requests uint64) float64 {
		c.Requests = requests
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := run(t, c)
		runtime.ReadMemStats(&after)
		if done(r) != requests {
			t.Fatalf("of %d requests: counts %+v, status %v, %v", requests, r.Counts, r.Status, r.Failures)
		}
		return float64(after.Mallocs - before.Mallocs)
	}
	measure(few) // warms up
	least := math.Inf(1)
	for range 3 {
		per := (measure(many) - measure(few)) / (many - few)
		if math.Abs(per) < math.Abs(least) {
			least = per
		}
	}
	return least
}

// with200 returns how many requests were answered by status 200.
func with200(r *record.Result) uint64 { return r.Status[200] }

// A leisurely client lingers over each piece of a long response. The peer can then write as much as the
// next reading holds.
type leisurely struct {
	wire.Client
	ahead *atomic.Int64 // what the peer has written and the client has not taken
}

func (l leisurely) Response(p []byte) (int, bool, error) {
	const long, reading = 1 << 10, 64 << 10
	if len(p) >= long {
		l.ahead.Add(-int64(len(p)))
		for n := 0; l.ahead.Load() < reading && n < 1000; n++ {
			<-time.After(100 * time.Microsecond)
		}
	}
	return l.Client.Response(p)
}
