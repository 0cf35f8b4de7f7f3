package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// spin is how long the generator polls before a start. Trials use the same when the generator has CPUs of its
// own.
const spin = 60 * time.Microsecond

// busiest is the generator's CPU share up to which its percentiles must be right.
const busiest = 0.5

// oracles loads servers with a known answer, which run in this process on the
// other CPU.
func (k *calibrator) oracles(ctx context.Context) (err error) {
	s, err := k.readings("oracles.csv", &k.result.Oracles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The trials of a search keep the CPUs awake themselves.
	if k.wanted(Search) {
		if err := s.add(k.search(ctx)); err != nil {
			return err
		}
	}
	var oracles []func(context.Context) ([]Reading, error)
	if k.wanted(Delays) {
		oracles = k.delays()
	}
	if k.wanted(Oracles) {
		oracles = append(oracles, k.freezes, k.queue, k.capacity, k.little, k.rate, k.sendLag, k.faults)
	}
	return k.withServers(func() error {
		for _, o := range oracles {
			if err := s.add(o(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A readingSheet keeps readings and writes them down.
type readingSheet struct {
	*sheet
	to *[]Reading
}

func (k *calibrator) readings(name string, to *[]Reading) (readingSheet, error) {
	s, err := k.sheet(name, "oracle", "quantity", "unit", "expected", "measured", "limit", "outcome", "note")
	return readingSheet{s, to}, err
}

// add takes what an oracle has returned.
func (s readingSheet) add(readings []Reading, err error) error {
	for _, r := range readings {
		*s.to = append(*s.to, r)
		err = errors.Join(err, s.write(r.Oracle, r.Quantity, r.Unit, number(r.Expected), number(&r.Measured), number(r.Limit), string(r.Outcome()), r.Note))
	}
	return err
}

// drive loads an HTTP server on this machine from the generator's CPU.
func (k *calibrator) drive(ctx context.Context, address string, c config.Config) (*record.Result, error) {
	request, err := http1.Request{Method: "GET", Target: "/", Host: address}.Encode()
	if err != nil {
		return nil, err
	}
	template := http1.Config{Request: request}
	if _, err := http1.NewTemplate(template); err != nil {
		return nil, err
	}
	c.Address, c.CPUs = address, k.load
	c.NewClients = func(int) func() wire.Client {
		t, err := http1.NewTemplate(template)
		if err != nil {
			panic(err) // the same configuration was right a moment ago
		}
		return func() wire.Client { return t.Client() }
	}
	if c.Schedule != nil && k.server[0] != k.load[0] {
		c.Spin = spin
	}
	runtime.GC() // now, not in the window
	r, err := engine.Run(ctx, c)
	if err == nil && r.Interrupted {
		err = context.Cause(ctx)
	}
	return r, err
}

// serverConfig is that of all servers here.
func (k *calibrator) serverConfig() oracle.Config { return oracle.Config{CPUs: k.server, Spin: spin} }

// share returns the CPU share of the generator's thread, without the polling that it
// chose to do.
func share(r *record.Result) float64 {
	return max(0, r.Workers.Total()-r.Spun).Seconds() / r.Window.Seconds()
}

// delays returns the oracles of servers that say how long they took for each
// request.
func (k *calibrator) delays() []func(context.Context) ([]Reading, error) {
	percentiles := agreement()
	// At p99, the 1 % of slow requests begins: chance decides on which side of the step
	// the quantile falls. p95 and p99.9 are on either side.
	bimodal := append([]percentile{percentiles[0], {"p95", 0.95, 100 * time.Microsecond, 0.01}}, percentiles[2])
	var oracles []func(context.Context) ([]Reading, error)
	for _, o := range []struct {
		name        string
		delay       oracle.Distribution
		percentiles []percentile
	}{
		{"fixed delay 0.1 ms", oracle.Fixed(100 * time.Microsecond), percentiles},
		{"fixed delay 1 ms", oracle.Fixed(time.Millisecond), percentiles},
		{"fixed delay 10 ms", oracle.Fixed(10 * time.Millisecond), percentiles},
		{"fixed delay 100 ms", oracle.Fixed(100 * time.Millisecond), percentiles},
		{"log-normal delay, median 2 ms, σ 0.5", oracle.LogNormal{Median: 2 * time.Millisecond, Sigma: 0.5}, percentiles},
		{"bimodal delay, 99 % 1 ms, 1 % 20 ms", oracle.Bimodal{Fast: time.Millisecond, Slow: 20 * time.Millisecond, SlowShare: 0.01}, bimodal},
	} {
		oracles = append(oracles, func(ctx context.Context) ([]Reading, error) {
			k.step("oracle: %s", o.name)
			r, kernel, injected, err := k.delay(ctx, o.name, o.delay, k.Window)
			if err != nil {
				return nil, err
			}
			return agree(fmt.Sprintf("%s, Poisson, 2,000/s", o.name), r, kernel, injected, o.percentiles), nil
		})
	}
	return oracles
}

// delay loads a server that says how long it took for each request, in Poisson arrivals
// of delayRate. It returns the times of the engine, the kernel and the server.
func (k *calibrator) delay(ctx context.Context, name string, of oracle.Distribution, window time.Duration) (r *record.Result, kernel, injected times, err error) {
	server, err := oracle.StartDelay(ctx, k.serverConfig(), of, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	defer server.Close() //nolint:errcheck // what ended it early, the load has met
	tap, err := oracle.StartTap(netip.MustParseAddrPort(server.Addr().String()), k.server)
	if err != nil {
		k.once("no comparison with the kernel's time stamps: %v", err)
		tap = nil
	}
	schedule, err := pace.New(pace.Steady(delayRate, 0), pace.Poisson, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err = k.drive(ctx, server.Addr().String(), config.Config{Schedule: schedule, Connections: 500, Warmup: 500 * time.Millisecond, Window: window})
	var exchanges []oracle.Exchange
	if tap != nil {
		var lost error
		if exchanges, lost = tap.Stop(); lost != nil {
			k.note("%s: no comparison with the kernel's time stamps: %v", name, lost)
			exchanges = nil
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return r, passed(exchanges, r), injectedIn(server.Log(), server.Clock(), r), nil
}

// delayRate is in requests per second.
const delayRate = 2000

// once keeps a note unless it is there already.
func (k *calibrator) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, n := range k.result.Notes {
		if n == text {
			return
		}
	}
	k.result.Notes = append(k.result.Notes, text)
}

// passed returns the times of the exchanges whose request passed the tap in the window.
func passed(exchanges []oracle.Exchange, r *record.Result) times {
	var ns []int64
	// Wall-clock readings only: the kernel's stamps have no other.
	from := r.Start.Add(r.WindowStart).Round(0)
	to := from.Add(r.Window)
	for _, x := range exchanges {
		if !x.Request.Before(from) && x.Request.Before(to) {
			ns = append(ns, int64(x.Took))
		}
	}
	return sorted(ns)
}

// injectedIn returns how long the server took for the requests that arrived in
// the window.
func injectedIn(log []oracle.Record, clock time.Time, r *record.Result) times {
	var ns []int64
	from := int64(r.Start.Add(r.WindowStart).Sub(clock))
	to := from + int64(r.Window)
	for _, x := range log {
		if x.Injected >= 0 && x.Arrival >= from && x.Arrival < to {
			ns = append(ns, x.Injected)
		}
	}
	return sorted(ns)
}

// agree compares the percentiles of a load with the kernel's and the server's. The
// server's are not judged: its clock leaves out the way there and back, and both
// wake-ups.
func agree(title string, r *record.Result, kernel, injected times, percentiles []percentile) []Reading {
	var readings []Reading
	service := r.Latency[record.Service]
	for i, p := range percentiles {
		measured := seconds(service.Quantile(p.q))
		if len(kernel) > 0 {
			expected := kernel.quantile(p.q)
			row := Reading{
				Oracle: title, Quantity: "service " + p.name + " by the kernel's clock", Unit: Seconds,
				Expected: &expected, Measured: measured, Limit: p.limit(expected),
			}
			if i == 0 {
				row.Note = fmt.Sprintf("%d exchanges in packets, %d measured", len(kernel), service.Count())
			}
			readings = append(readings, row)
		}
		expected := injected.quantile(p.q)
		readings = append(readings, Reading{
			Oracle: title, Quantity: "service " + p.name + " by the server's clock", Unit: Seconds,
			Expected: &expected, Measured: measured,
		})
	}
	return append(readings, Reading{
		Oracle: title, Quantity: "generator CPU", Unit: Share, Measured: share(r), Limit: pointer(busiest),
	})
}

// freezes loads a server that stands still for a tenth of the time.
func (k *calibrator) freezes(ctx context.Context) ([]Reading, error) {
	var readings []Reading
	for _, rate := range []float64{200, 2000} {
		k.step("oracle: freezes, %v/s", rate)
		r, err := k.freeze(ctx, rate)
		if err != nil {
			return readings, err
		}
		readings = append(readings, r...)
	}
	return readings, nil
}

const (
	hold   = 100 * time.Millisecond
	period = time.Second
)

// freeze loads a freezing server at one rate. It predicts how long each request waited from the times at which
// the server froze.
func (k *calibrator) freeze(ctx context.Context, rate float64) ([]Reading, error) {
	server, err := oracle.StartFreeze(ctx, k.serverConfig(), hold, period)
	if err != nil {
		return nil, err
	}
	defer server.Close() //nolint:errcheck // what ended it early, the load has met
	// The period differs a little from the multiple of the gaps: the freezes begin at all places between two
	// arrivals.
	schedule, err := pace.New(pace.Steady(rate+1/float64(k.Periods), 0), pace.Constant, 0)
	if err != nil {
		return nil, err
	}
	r, err := k.drive(ctx, server.Addr().String(), config.Config{
		Schedule: schedule, Connections: 500, Warmup: period, Window: time.Duration(k.Periods) * period,
	})
	if err != nil {
		return nil, err
	}
	predicted, drain := waits(server.Log(), schedule, r)
	var readings []Reading
	for i, p := range stall() {
		expected := predicted.quantile(p.q)
		row := Reading{
			Oracle:   fmt.Sprintf("freezes of 100 ms in every second, %v/s", rate),
			Quantity: "response " + p.name, Unit: Seconds,
			Expected: &expected, Measured: seconds(r.Latency[record.Response].Quantile(p.q)), Limit: p.limit(expected),
		}
		if i == 0 {
			row.Note = fmt.Sprintf("expected with the drain, of which the longest took %v", drain.Round(10*time.Microsecond))
		}
		readings = append(readings, row)
	}
	return readings, nil
}

// waits predicts the response time of each arrival in the window. A request that arrives u after the start of a
// freeze of length H waits H − u. Then it waits for earlier requests: a share u/H of the drain.
func waits(freezes []oracle.Freezing, schedule *pace.Schedule, r *record.Result) (_ times, longest time.Duration) {
	var ns []int64
	arrivals := schedule.Split(0, 1)
	for {
		_, at, ok := arrivals.Next()
		if !ok || at >= r.WindowStart+r.Window {
			return sorted(ns), longest
		}
		if at < r.WindowStart {
			continue
		}
		var wait time.Duration
		for _, f := range freezes {
			u := r.Start.Add(at).Sub(f.Start)
			if u >= 0 && u < f.Length {
				wait = f.Length - u + time.Duration(float64(f.Drain)*float64(u)/float64(f.Length))
				longest = max(longest, f.Drain)
			}
		}
		ns = append(ns, int64(wait))
	}
}

// queue loads M/M/1 several times: its figures depend on each other over thousands of
// requests, so one window says little.
func (k *calibrator) queue(ctx context.Context) ([]Reading, error) {
	const (
		serviceRate, arrivalRate = 1000, 800
		q                        = 0.99
	)
	p99 := 0.0 // the sum over the windows
	var injected []int64
	merged := hist.New()
	for i := range k.Repeats {
		k.step("oracle: M/M/1, %d of %d", i+1, k.Repeats)
		seed := uint64(i) + 1
		server, err := oracle.StartQueue(ctx, k.serverConfig(), 1, oracle.Exponential{Mean: time.Second / serviceRate}, seed)
		if err != nil {
			return nil, err
		}
		schedule, err := pace.New(pace.Steady(arrivalRate, 0), pace.Poisson, seed)
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		r, err := k.drive(ctx, server.Addr().String(), config.Config{
			Schedule: schedule, Connections: 500, Warmup: 500 * time.Millisecond, Window: k.Window,
		})
		if err = errors.Join(err, server.Close()); err != nil {
			return nil, err
		}
		response := r.Latency[record.Response]
		p99 += seconds(response.Quantile(q))
		merged.Merge(response)
		injected = append(injected, injectedIn(server.Log(), server.Clock(), r)...)
	}
	own := sorted(injected).quantile(q)
	theory := oracle.MM1Quantile(q, arrivalRate, serviceRate).Seconds()
	sampling := oracle.MM1Sampling(q, arrivalRate, serviceRate, k.Window, k.Repeats).Seconds()
	title := "M/M/1, μ 1,000/s, λ 800/s"
	byTheory := Reading{
		Oracle: title, Quantity: "response p99 by theory", Unit: Seconds, Expected: &theory, Measured: p99 / float64(k.Repeats),
		Note: fmt.Sprintf("by theory: the mean of %d windows of %v, whose sampling error is ± %s (95 %%, simulated)", k.Repeats, k.Window, quantity(sampling, Seconds)),
	}
	if sampling <= 0.1*theory {
		byTheory.Limit = pointer(sampling + 0.01*theory)
		byTheory.Note += "; the limit is 1 % more"
	} else {
		byTheory.Note += ", too large to judge"
	}
	return []Reading{{
		Oracle: title, Quantity: "response p99 by the server's clock", Unit: Seconds, Expected: &own,
		Measured: seconds(merged.Quantile(q)), Limit: pointer(max(250e-6, 0.02*own)),
		Note: "by the server's clock, which leaves out the way there and back and both wake-ups",
	}, byTheory}, nil
}

// capacity saturates workers that take a fixed time.
func (k *calibrator) capacity(ctx context.Context) ([]Reading, error) {
	const workers, service = 4, time.Millisecond
	k.step("oracle: capacity")
	server, err := oracle.StartQueue(ctx, k.serverConfig(), workers, oracle.Fixed(service), 1)
	if err != nil {
		return nil, err
	}
	defer server.Close() //nolint:errcheck // what ended it early, the load has met
	r, err := k.drive(ctx, server.Addr().String(), config.Config{Connections: 4 * workers, Warmup: 500 * time.Millisecond, Window: k.Window})
	if err != nil {
		return nil, err
	}
	expected := oracle.Capacity(workers, service)
	return []Reading{{
		Oracle: "4 workers of 1 ms, closed loop, 16 connections", Quantity: "throughput", Unit: PerSecond,
		Expected: &expected, Measured: r.Throughput(), Limit: pointer(0.02 * expected),
	}}, nil
}

// search finds the capacity of workers by the rate, as an experiment does: in rounds,
// with processes of their own, and constant arrivals. In a window of 2 s, 1 % too many
// requests make the last one wait for 20 ms. The service is slow, so that the generator's
// own lag is small compared with the limit.
func (k *calibrator) search(ctx context.Context) (_ []Reading, err error) {
	const (
		workers, service = 32, 20 * time.Millisecond
		rounds           = 3
	)
	k.step("oracle: search for the capacity")
	v := plan.DefaultVariant(plan.HTTP)
	v.Observe = plan.Observe{Kernel: plan.KernelNone} // many short trials
	v.Target.Start = []string{
		k.Program, oracle.Command, "queue", "--listen", "127.0.0.1:{{port}}", "--spin", spin.String(),
		"--workers", strconv.Itoa(workers), "--service", service.String(),
	}
	v.Target.CPUs, v.Load.CPUs = k.server, k.load
	v.Target.Complete()
	v.Load.Open = plan.DefaultOpen()
	v.Load.Warmup, v.Load.Window = 100*time.Millisecond, 2*time.Second
	expected := oracle.Capacity(workers, service)
	e := &plan.Experiment{
		Name:       "calibration",
		Awake:      k.Awake,
		Design:     plan.Design{Rounds: rounds, Seed: 1},
		Variants:   []plan.Variant{v},
		Capacity:   &plan.Capacity{From: expected / 2, To: 2 * expected, Resolution: 0.01, Trials: 5, Tolerate: 0.5},
		Thresholds: []plan.Threshold{{Holds: "response.p99 < 30ms"}},
	}
	e.Complete()
	var run rundir.Run
	if err := k.measure(ctx, e, func(f *rundir.Folder) error {
		run = f.Run
		return nil
	}); err != nil {
		return nil, err
	}
	const title = "32 workers of 20 ms, search for the highest rate with response.p99 < 30ms"
	if len(run.Capacities) == 0 || run.Variants[0].Known(rundir.MetricCapacity) == nil {
		k.note("%s: no search found both ends", title)
		return nil, nil
	}
	c := run.Capacities[0]
	trials := 0
	for _, s := range c.Searches {
		trials += s.Trials
	}
	return []Reading{{
		Oracle: title, Quantity: "capacity", Unit: PerSecond,
		Expected: &expected, Measured: *run.Variants[0].Known(rundir.MetricCapacity), Limit: pointer(0.02 * expected),
		Note: fmt.Sprintf("%d searches to within 1 %%, %d trials", len(c.Searches), trials),
	}}, nil
}

// little holds N = X·(R + Z) (Little: A proof for the queuing formula L = λW, 1961).
func (k *calibrator) little(ctx context.Context) ([]Reading, error) {
	const (
		users   = 32
		thought = 5 * time.Millisecond
		delay   = 10 * time.Millisecond
	)
	k.step("oracle: Little's law")
	server, err := oracle.StartDelay(ctx, k.serverConfig(), oracle.Fixed(delay), 1)
	if err != nil {
		return nil, err
	}
	defer server.Close() //nolint:errcheck // what ended it early, the load has met
	r, err := k.drive(ctx, server.Addr().String(), config.Config{
		Connections: users, Think: pace.Think{Constant: thought}, Warmup: 500 * time.Millisecond, Window: k.Window,
	})
	if err != nil {
		return nil, err
	}
	return []Reading{{
		Oracle: "Little's law, 32 users thinking 5 ms, delay 10 ms", Quantity: "X·(R + Z)", Unit: Count,
		Expected: pointer(users), Measured: r.Throughput() * (r.Latency[record.Response].Mean()/1e9 + thought.Seconds()),
		Limit: pointer(0.01 * users),
	}}, nil
}

// rate counts the requests that were sent in a constant load's window.
func (k *calibrator) rate(ctx context.Context) ([]Reading, error) {
	const rate = 5000
	k.step("oracle: rate")
	r, err := k.null(ctx, rate, pace.Constant)
	if err != nil {
		return nil, err
	}
	return []Reading{{
		Oracle: "constant arrivals, 5,000/s", Quantity: "mean rate", Unit: PerSecond,
		Expected: pointer(rate), Measured: float64(r.Counts.Sent) / r.Window.Seconds(), Limit: pointer(0.001 * rate),
	}}, nil
}

// sendLag reads how late requests were sent to a server that costs almost nothing.
func (k *calibrator) sendLag(ctx context.Context) ([]Reading, error) {
	const rate = 5000
	k.step("oracle: send lag")
	r, err := k.null(ctx, rate, pace.Poisson)
	if err != nil {
		return nil, err
	}
	var readings []Reading
	for _, p := range []percentile{
		{"p50", 0.5, 20 * time.Microsecond, 0}, {"p99", 0.99, 100 * time.Microsecond, 0}, {"p99.9", 0.999, 500 * time.Microsecond, 0},
	} {
		readings = append(readings, Reading{
			Oracle: "Poisson arrivals, 5,000/s", Quantity: "send lag " + p.name, Unit: Seconds,
			Measured: seconds(r.Latency[record.SendLag].Quantile(p.q)), Limit: p.limit(0),
		})
	}
	readings[0].Note = fmt.Sprintf("generator CPU %.0f %%", 100*share(r))
	return readings, nil
}

// null loads a server that answers at once.
func (k *calibrator) null(ctx context.Context, rate float64, process pace.Process) (*record.Result, error) {
	server, err := oracle.StartNull(ctx, k.serverConfig())
	if err != nil {
		return nil, err
	}
	defer server.Close() //nolint:errcheck // what ended it early, the load has met
	schedule, err := pace.New(pace.Steady(rate, 0), process, 1)
	if err != nil {
		return nil, err
	}
	return k.drive(ctx, server.Addr().String(), config.Config{Schedule: schedule, Connections: 64, Warmup: 500 * time.Millisecond, Window: k.Window})
}

// faults counts errors by their kind. Faults that also affect the next request are left out: the server does not
// know how the client counts that request.
func (k *calibrator) faults(ctx context.Context) ([]Reading, error) {
	const requests = 4000
	k.step("oracle: errors by kind")
	server, err := oracle.StartFaulty(ctx, k.serverConfig(), oracle.FaultyConfig{Seed: 1, Mix: oracle.Mix{
		oracle.OK: 80, oracle.Status: 5, oracle.Slow: 3, oracle.Reset: 4, oracle.Cut: 4, oracle.Misframe: 3, oracle.Stall: 1,
	}})
	if err != nil {
		return nil, err
	}
	r, err := k.drive(ctx, server.Addr().String(), config.Config{
		Connections: 16, Requests: requests, Timeouts: options.Timeouts{Timeout: 500 * time.Millisecond}, MaxBackoff: time.Millisecond,
	})
	if err = errors.Join(err, server.Close()); err != nil {
		return nil, err
	}
	did := server.Counts().Did
	expected := map[string]int64{}
	for deed := range oracle.Deeds {
		expected[deed.Outcome()] += did[deed]
	}
	const title = "a server that fails, 4,000 requests"
	exact := pointer(0)
	readings := []Reading{{
		Oracle: title, Quantity: "ok", Unit: Count, Expected: pointer(float64(expected["ok"])),
		Measured: float64(r.Counts.OK), Limit: exact,
	}}
	for kind := wire.None + 1; kind < wire.Kinds; kind++ {
		name := kind.String()
		if want, got := expected[name], r.Counts.ByKind[kind]; want > 0 || got > 0 {
			readings = append(readings, Reading{
				Oracle: title, Quantity: "errors: " + name, Unit: Count, Expected: pointer(float64(want)), Measured: float64(got), Limit: exact,
			})
		}
	}
	off := 0.0
	note := ""
	if err := errors.Join(r.Counts.Conserved(), r.AllCounts.Conserved()); err != nil {
		off, note = 1, err.Error()
	}
	return append(readings, Reading{
		Oracle: title, Quantity: "breaches of conservation", Unit: Count, Measured: off, Limit: exact, Note: note,
	}), nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// number writes a figure for a CSV file.
func number(v *float64) string {
	if v == nil || math.IsNaN(*v) {
		return ""
	}
	return fmt.Sprintf("%.9g", *v)
}
