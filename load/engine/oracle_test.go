//go:build linux

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/users"
	"dyno/load/hist"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http2"
	"dyno/selftest/oracle"
)

// The benchmarks below hold the engine against servers whose answer is known.
// They say how far off it is on this machine; see bench/oracles.sh. The server
// has the first CPU, the engine the second.

const (
	serverCPU = 0
	engineCPU = 1
	// spin is what the lab uses where the generator has CPUs of its own.
	spin = 60 * time.Microsecond
)

// BenchmarkFreeze loads a server that freezes for 100 ms in every second.
func BenchmarkFreeze(b *testing.B) {
	const (
		hold, period = 100 * time.Millisecond, time.Second
		periods      = 10
	)
	for _, rate := range []float64{200, 2000} {
		b.Run(fmt.Sprintf("rate=%v", rate), func(b *testing.B) {
			s, err := oracle.StartFreeze(context.Background(), oracle.Config{CPUs: []int{serverCPU}, Spin: spin}, hold, period)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			// The rate is a little higher, so that the freezes meet the arrivals at different places
			// between two of them.
			schedule, err := pace.New(pace.Steady(rate+1.0/periods, 0), pace.Constant, 0)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r := run(b, config.Config{
					Address: s.Addr().String(), NewClients: get(b, "h"), Schedule: schedule, Connections: 500,
					Warmup: period, Window: periods * period, Threads: options.Threads{CPUs: []int{engineCPU}}, Spin: spin,
				})
				report(b, s, schedule, r)
			}
		})
	}
}

// report compares quantiles with what each arrival had to experience, given each freeze's true begin,
// length and drain: an arrival u into a freeze of length H waits H − u. Then it waits for those before
// it, a share u/H of the drain. In the limit of many arrivals that is oracle.FreezeQuantile, and the
// drain on top.
func report(b *testing.B, s *oracle.Freeze, schedule *pace.Schedule, r *record.Result) {
	b.Helper()
	predicted := hist.New()
	freezes := s.Log()
	var drain time.Duration
	arrivals := schedule.Split(0, 1)
	for {
		_, at, _ := arrivals.Next()
		if at >= r.WindowStart+r.Window {
			break
		}
		if at < r.WindowStart {
			continue
		}
		var wait time.Duration
		for _, f := range freezes {
			u := r.Start.Add(at).Sub(f.Start)
			if u >= 0 && u < f.Length {
				wait = f.Length - u + time.Duration(float64(f.Drain)*float64(u)/float64(f.Length))
				drain = max(drain, f.Drain)
			}
		}
		predicted.Record(int64(wait))
	}
	b.ReportMetric(float64(drain)/1e6, "longest-drain-ms")
	for _, q := range []struct {
		name  string
		value float64
	}{{"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}} {
		want, got := float64(predicted.Quantile(q.value)), float64(r.Latency[record.Response].Quantile(q.value))
		b.ReportMetric(got/1e6, q.name+"-ms")
		b.ReportMetric(100*(got/want-1), q.name+"-error-%")
	}
	b.ReportMetric(float64(r.Latency[record.GeneratorLag].Quantile(0.99))/1e3, "lag-p99-µs")
}

// BenchmarkSendLag loads a server that costs next to nothing, at 5,000 requests a
// second.
func BenchmarkSendLag(b *testing.B) {
	for _, spin := range []time.Duration{0, spin} {
		b.Run(fmt.Sprintf("spin=%v", spin), func(b *testing.B) {
			s := null(b, oracle.Config{CPUs: []int{serverCPU}})
			for b.Loop() {
				r := run(b, config.Config{
					Address: s.Addr().String(), NewClients: get(b, "h"), Schedule: poisson(b, 5000), Connections: 64,
					Warmup: 500 * time.Millisecond, Window: 5 * time.Second, Threads: options.Threads{CPUs: []int{engineCPU}}, Spin: spin,
				})
				lag := r.Latency[record.SendLag]
				b.ReportMetric(float64(lag.Quantile(0.5))/1e3, "p50-µs")
				b.ReportMetric(float64(lag.Quantile(0.99))/1e3, "p99-µs")
				b.ReportMetric(float64(lag.Quantile(0.999))/1e3, "p99.9-µs")
				b.ReportMetric(100*(r.Workers.Total()-r.Spun).Seconds()/r.Window.Seconds(), "cpu-%")
				b.ReportMetric(float64(r.Counts.OK)/r.Window.Seconds(), "req/s")
			}
		})
	}
}

// BenchmarkArrivalClock says what taking time stamps costs: the generator's CPU time per request with
// them over that without. Short runs come in pairs, in both orders equally often. It reports the median
// of the pairs, and the ends of its interval of 95 %.
func BenchmarkArrivalClock(b *testing.B) {
	const pairs = 60
	for _, tt := range []struct {
		name string
		c    config.Config
	}{
		{"closed", config.Config{Connections: 64}},
		{"open", config.Config{Connections: 64, Schedule: poisson(b, 10_000)}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			s := null(b, oracle.Config{CPUs: []int{serverCPU}})
			cost := func(clock config.Clock) float64 {
				c := tt.c
				c.Address, c.NewClients, c.CPUs, c.Clock = s.Addr().String(), get(b, "h"), []int{engineCPU}, clock
				c.Warmup, c.Window = 50*time.Millisecond, 200*time.Millisecond
				r := run(b, c)
				return float64(r.Workers.Total()) / float64(r.Completed)
			}
			for b.Loop() {
				var with, without, ratios []float64
				for n := range pairs {
					var on, off float64
					if n%2 == 0 {
						off = cost(config.ClockRead)
						on = cost(config.ClockArrival)
					} else {
						on = cost(config.ClockArrival)
						off = cost(config.ClockRead)
					}
					with, without, ratios = append(with, on), append(without, off), append(ratios, 100*(on/off-1))
				}
				for _, x := range [][]float64{with, without, ratios} {
					slices.Sort(x)
				}
				b.ReportMetric(without[pairs/2], "read-cpu-ns/req")
				b.ReportMetric(with[pairs/2], "arrival-cpu-ns/req")
				b.ReportMetric(ratios[pairs/2], "cost-%")
				// Ranks of a binomial's normal approximation (sign test).
				half := int(0.98 * math.Sqrt(pairs))
				b.ReportMetric(ratios[pairs/2-half], "cost-low-%")
				b.ReportMetric(ratios[pairs/2+half], "cost-high-%")
			}
		})
	}
}

// A connection carries no more exchanges than it is to, and is followed by another.
func TestExchangesPerConnection(t *testing.T) {
	address := serve2(t, http.HTTP2Config{}, func(http.ResponseWriter, *http.Request) {})
	plain := null(t, oracle.Config{})
	for _, open := range []bool{false, true} {
		for _, tt := range []struct {
			name     string
			config   config.Config
			most     uint64
			requests uint64
		}{
			{"HTTP/1.1, one each", config.Config{Address: plain.Addr().String(), NewClients: get(t, "h")}, 1, 100},
			{"HTTP/1.1", config.Config{Address: plain.Addr().String(), NewClients: get(t, "h")}, 7, 700},
			{"HTTP/2, one each", config.Config{Address: address, NewMuxes: get2(t, "h", 4), Streams: 4}, 1, 100},
			{"HTTP/2", config.Config{Address: address, NewMuxes: get2(t, "h", 4), Streams: 4}, 7, 700},
		} {
			c := tt.config
			c.ExchangesPerConnection, c.Requests, c.Connections, c.Drain = tt.most, tt.requests, 1, time.Minute
			if open {
				c.Schedule = poisson(t, 2000)
			}
			r := run(t, c)
			least := tt.requests / tt.most
			if r.Counts.OK != tt.requests || r.Connections.Opened < least || r.Connections.Opened > least+1 || r.Connections.PeerClosed > 0 {
				t.Errorf("%s, open loop %v: %+v, %+v", tt.name, open, r.Counts, r.Connections)
			}
		}
	}
}

// A server that speaks HTTP/1.1 only is an error that says so.
func TestMuxMeetsHTTP1(t *testing.T) {
	s := null(t, oracle.Config{})
	r, err := engine.Run(t.Context(), config.Config{
		Address: s.Addr().String(), NewMuxes: get2(t, "h", 2), Streams: 2, Connections: 2, Requests: 10, MaxBackoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, r)
	if r.Counts.OK != 0 || r.Counts.ByKind[wire.Protocol]+r.Counts.ByKind[wire.Reset] != 10 {
		t.Errorf("%+v, %v", r.Counts, r.Failures)
	}
	// The engine learns the server's word before the load begins.
	_, err = engine.Run(t.Context(), config.Config{
		Address: s.Addr().String(), Streams: 2, Connections: 2, Requests: 10, Timeouts: options.Timeouts{ConnectTimeout: 200 * time.Millisecond},
		NewMuxes: get2(t, "h", 2, func(c *http2.Config) { c.Optimistic = false }),
	})
	var unreachable *engine.Unreachable
	if !errors.As(err, &unreachable) {
		t.Errorf("%v, want that no connection could be opened", err)
	}
}

// Each request of each step is accounted for, in both loops and protocols, whatever a server does.
func TestUsersConservation(t *testing.T) {
	s := compile(t, scenario.Spec{Steps: []scenario.Step{
		{Name: "once", Once: true, Path: "/", Extract: []scenario.Extraction{{Variable: "all"}}},
		{Name: "a", Path: "/", Extract: []scenario.Extraction{{Variable: "all"}}},
		{Name: "b", Path: "/{{ counter() }}", Body: "{{ all }}"},
	}})
	m := startScripted(t, func(r *rand.Rand, _ uint32) reaction {
		if r.IntN(3) > 0 {
			return answers
		}
		return reaction(r.IntN(int(redirects))) //nolint:gosec // small
	})
	mix := oracle.Mix{}
	for deed := range oracle.Deeds {
		mix[deed] = 1
	}
	mix[oracle.OK] = 16
	faulty, err := oracle.StartFaulty(t.Context(), oracle.Config{}, oracle.FaultyConfig{Mix: mix, Seed: 1, Refusal: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer faulty.Close()
	for name, c := range map[string]config.Config{
		"HTTP/2":   {Address: m.address, NewMuxes: muxesOf(t, s, "http", 4), Streams: 4},
		"HTTP/1.1": {Address: faulty.Addr().String(), NewClients: composers(t, s, "h")},
	} {
		for _, schedule := range []*pace.Schedule{nil, poisson(t, 2000)} {
			c.Connections, c.Workers, c.Schedule, c.MaxWaiting = 5, 2, schedule, 30
			c.Warmup, c.Window, c.Timeout, c.Drain = 100*time.Millisecond, 300*time.Millisecond, 30*time.Millisecond, 20*time.Millisecond
			c.Users = &users.Config{Scenario: s, Count: 40}
			r := carryOut(t, c)
			if n := r.AllCounts; n.OK == 0 || n.Errors == 0 || n.Timeouts == 0 || n.Generator > 0 { // a busy machine has little in its window
				t.Errorf("%s: %+v, %v", name, n, r.Failures)
			}
		}
	}
}
