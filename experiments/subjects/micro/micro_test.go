package main

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/leak"
	"dyno/services/channels"
)

func TestMain(m *testing.M) { leak.Main(m) }

const moment = 30 * time.Millisecond

// measure runs a program and holds its figures to names and to being numbers. A
// figure may be zero or below only where the list says so, by a question mark.
func measure(t *testing.T, p measurement.Program, names ...string) measurement.Result {
	t.Helper()
	procs := runtime.GOMAXPROCS(0)
	r, err := p.Run(t.Context())
	for end := time.Now().Add(time.Minute); errors.Is(err, errNothing) && time.Now().Before(end); { // a busy machine
		r, err = p.Run(t.Context())
	}
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	if runtime.GOMAXPROCS(0) != procs {
		t.Errorf("%+v: GOMAXPROCS is %d, was %d", p, runtime.GOMAXPROCS(0), procs)
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		v := r[name]
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%+v: %s is %v", p, name, v)
		}
		if slices.Contains(names, name+"?") {
			name += "?"
		} else if v <= 0 {
			t.Errorf("%+v: %s is %v", p, name, v)
		}
		got = append(got, name)
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("%+v: figures %q, want %q", p, got, names)
	}
	return r
}

// A channel that blocks loses nothing, and one that drops says how much.
func TestChannels(t *testing.T) {
	names := []string{"records_per_second", "cpu_per_record_seconds", "delivered?", "dropped?", "lost?"}
	for _, whenFull := range []string{channels.Block, channels.DropOldest, channels.DropNewest} {
		r := measure(t, Channels{Connections: 3, Records: 10_000, Bytes: 100, Buffer: 8, WhenFull: whenFull, Sync: channels.SyncNever}, names...)
		if r["lost"] != 0 || r["delivered"]+r["dropped"] != 9999 || whenFull == channels.Block && r["dropped"] != 0 {
			t.Errorf("%s: %v", whenFull, r)
		}
	}
}

// The kernel switches once for each hand-off between threads, and does not know of
// those between goroutines.
func TestSwitch(t *testing.T) {
	names := []string{"switch_seconds", "context_switches_per_handoff?", "cpu_per_handoff_seconds?", "handoffs"}
	if r := measure(t, Switch{Goroutine, moment}, names...); r["context_switches_per_handoff"] > 0.2 {
		t.Errorf("goroutines: %v context switches a hand-off", r["context_switches_per_handoff"])
	}
	if r := measure(t, Switch{Thread, moment}, names...); r["context_switches_per_handoff"] < 0.5 || r["context_switches_per_handoff"] > 3 {
		t.Errorf("threads: %v context switches a hand-off", r["context_switches_per_handoff"])
	}
}

func TestStack(t *testing.T) {
	// A goroutine begins with 2 KiB of stack.
	if r := measure(t, Stack{Goroutine, 20_000}, "resident_bytes", "virtual_bytes?", "kernel_stack_bytes?", "units"); r["resident_bytes"] < 2048 || r["units"] != 20_000 {
		t.Errorf("goroutines: %v", r)
	}
	// The kernel has a stack of 8 to 64 KiB for each thread of a 64-bit machine. The memory of 200 threads is less than what the
	// runtime may give back meanwhile.
	if r := measure(t, Stack{Thread, 200}, "resident_bytes?", "virtual_bytes?", "kernel_stack_bytes", "units"); r["kernel_stack_bytes"] < 4<<10 || r["units"] != 200 {
		t.Errorf("threads: %v", r)
	}
}

func TestUnits(t *testing.T) {
	for _, unit := range []string{Goroutine, Thread} {
		if r := measure(t, Units{unit, 700}, "units", "bound", "start_seconds"); r["units"] != 700 || r["bound"] != 700 {
			t.Errorf("%s: %v", unit, r)
		}
	}
}

func TestLock(t *testing.T) {
	for _, kind := range []string{Mutex, RWMutex, Sharded, Atomic} {
		for _, reads := range []float64{0, 0.5, 1} {
			measure(t, Lock{kind, 4, reads, moment / 3}, "ops_per_second", "ops")
		}
	}
}

// Every table is one of counters: what was added to a key is read of it.
func TestTables(t *testing.T) {
	keys := []string{"a", "b", "counter-3"}
	rapid.Check(t, func(t *rapid.T) {
		added := rapid.SliceOf(rapid.SampledFrom(keys)).Draw(t, "added")
		for _, kind := range []string{Mutex, RWMutex, Sharded, Atomic} {
			table, want := newTable(kind, keys), map[string]int64{}
			for _, key := range added {
				table.add(key)
				want[key]++
			}
			for _, key := range keys {
				if got := table.read(key); got != want[key] {
					t.Errorf("%s: %s is %d, want %d", kind, key, got, want[key])
				}
			}
		}
	})
}

// A thread that is bound to a CPU is not moved.
func TestPin(t *testing.T) {
	names := []string{"ops_per_second", "ops", "migrations?", "migrations_per_second?", "cpus"}
	cpus, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 {
		if _, err := (Pin{false, 4, moment}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it takes two") {
			t.Errorf("with one CPU: %v", err)
		}
		return
	}
	for _, threads := range []int{2, 3, 8} {
		if r := measure(t, Pin{true, threads, moment}, names...); r["migrations"] != 0 {
			t.Errorf("%d pinned: %v migrations", threads, r["migrations"])
		}
		if r := measure(t, Pin{false, threads, moment}, names...); r["migrations"] < 0 {
			t.Errorf("%d floating: %v migrations", threads, r["migrations"])
		}
	}
}

// A collection among threads that wait on futexes would never end. That there is
// none is seen before it is tried: who tries in vain hangs, the test's own clock
// included.
func TestNoCollectionWhileHolding(t *testing.T) {
	before := debug.SetGCPercent(1) // at almost every allocation
	defer debug.SetGCPercent(before)
	restore := holding(2)
	if percent := debug.SetGCPercent(-1); percent != -1 {
		t.Errorf("garbage is collected at %d %% while threads hold their Ps", percent)
	}
	restore()
	if percent := debug.SetGCPercent(1); percent != 1 {
		t.Errorf("garbage is collected at %d %% afterwards, was 1", percent)
	}
	if cpus, err := allowedCPUs(); err != nil || len(cpus) < 2 || t.Failed() {
		return
	}
	measure(t, Pin{false, maxThreads, moment}, "ops_per_second", "ops", "migrations?", "migrations_per_second?", "cpus")
}

func TestIO(t *testing.T) {
	for _, model := range ioModels {
		for _, connections := range []int{1, 7, 40} {
			t.Run(model, func(t *testing.T) {
				if model == Asynchronous {
					requireUring(t)
				}
				measure(t, IO{model, connections, moment}, "exchanges_per_second", "exchanges", "server_cpu_per_exchange_seconds?")
			})
		}
	}
}

// Turns of both variants are compared pair by pair, and none is left out.
func TestAlternate(t *testing.T) {
	measure(t, Alternate{"io", Multiplexing, Signals, 3, moment / 3, 3}, "throughput_ratio", "cpu_ratio?", "pairs")
	if cpus, err := allowedCPUs(); err == nil && len(cpus) > 1 {
		r := measure(t, Alternate{"pin", floating, pinned, 1, moment / 3, 3}, "throughput_ratio", "migrations_base?", "migrations_other?", "pairs")
		if r["migrations_other"] != 0 {
			t.Errorf("pinned threads migrated: %v", r)
		}
	}
	turns := [2][]measurement.Result{{{"x": 1}, {"x": 2}, {"x": 0}, {"x": 4}}, {{"x": 3}, {"x": 4}, {"x": 5}, {"x": 4}}}
	if got := medianRatio(turns, "x"); got != 2 {
		t.Errorf("the median of 3, 2 and 1 is %v", got)
	}
}

// All jobs come back, a value in time is no timeout, and a missing one is.
func TestPipeline(t *testing.T) {
	names := []string{"jobs_per_second", "wrong?", "early?", "waited_seconds"}
	for _, buffer := range []int{0, 10} {
		r := measure(t, Pipeline{3, buffer, 5000, 2, 0, 10 * time.Second / 100}, names...)
		if r["wrong"] != 0 || r["waited_seconds"] < 0.1 {
			t.Errorf("%v", r)
		}
	}
	if r := measure(t, Pipeline{1, 0, 1, 2, time.Minute, moment}, names...); r["early"] != 2 {
		t.Errorf("tasks that are late: %v", r)
	}
}

// requireUring skips where the machine does not permit io_uring, once the refusal
// was seen to say so.
func requireUring(t *testing.T) {
	t.Helper()
	u, err := newUring(1)
	if err == nil {
		u.close()
		return
	}
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
		t.Fatal(err)
	}
	t.Skip(err)
}

// A server that fails ends the measurement with its reason, and the client with
// it.
func TestServerFails(t *testing.T) {
	l, err := newLine(2)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	fault := errors.New("broken")
	var stop atomic.Bool
	c := newCrew()
	c.add(anyCPU, l.serve(func() error {
		var buffer [messageBytes]byte
		if _, err := echo(l.server[0], buffer[:]); err != nil {
			return err
		}
		return fault
	}))
	c.add(anyCPU, l.serve(func() error {
		_, err := l.exchange(&stop)
		return err
	}))
	if _, err := c.run(); !errors.Is(err, fault) || !strings.Contains(err.Error(), "hung up") {
		t.Errorf("got %v", err)
	}
}

// Nobody begins when a thread could not be made as it was wanted.
func TestCrewThatCannotBegin(t *testing.T) {
	c := newCrew()
	began := false
	c.add(anyCPU, func() error { began = true; return nil })
	c.add(1023, func() error { began = true; return nil })
	if _, err := c.run(); err == nil || !strings.Contains(err.Error(), "pin a thread to CPU 1023") || began {
		t.Errorf("began: %v, %v", began, err)
	}
}

// An end of the context is an error, never a figure.
func TestInterrupted(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	for _, p := range []measurement.Program{
		Switch{Goroutine, time.Minute}, Switch{Thread, time.Minute}, Stack{Goroutine, 10}, Units{Thread, 10},
		Lock{Mutex, 2, 0.5, time.Minute}, Pin{false, 2, time.Minute},
		IO{Blocking, 2, time.Minute}, IO{Polling, 2, time.Minute}, IO{Multiplexing, 2, time.Minute}, IO{Signals, 2, time.Minute},
		Alternate{"io", Polling, Multiplexing, 2, time.Minute, 2}, Pipeline{1, 0, 100, 1, time.Minute, time.Minute},
	} {
		r, err := p.Run(gone)
		if cpus, _ := allowedCPUs(); len(cpus) < 2 {
			if _, ok := p.(Pin); ok {
				continue
			}
		}
		if r != nil || !errors.Is(err, reason) {
			t.Errorf("%+v: %v, %v", p, r, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	if got := refusal(unix.EPERM); !strings.Contains(got, "not permitted") {
		t.Errorf("EPERM: %q", got)
	}
	if _, err := newUring(1 << 20); err == nil {
		t.Error("a ring of a million entries was made")
	}
}

// The kernel doubles what it is asked for and bounds it.
func TestBuffers(t *testing.T) {
	names := []string{"asked_bytes", "send_bytes", "receive_bytes", "send_limit_bytes", "receive_limit_bytes", "send_ratio", "receive_ratio"}
	small := measure(t, Buffers{Bytes: 64 << 10}, names...)
	for _, side := range []string{"send", "receive"} {
		if small[side+"_limit_bytes"] >= 64<<10 && small[side+"_ratio"] != 2 {
			t.Errorf("%s: asked for 64 KiB, have %v", side, small[side+"_bytes"])
		}
	}
	large := measure(t, Buffers{Bytes: 1 << 30}, names...)
	for _, side := range []string{"send", "receive"} {
		if limit := large[side+"_limit_bytes"]; limit < 1<<30 && large[side+"_bytes"] != 2*limit {
			t.Errorf("%s: bounded by %v, have %v", side, limit, large[side+"_bytes"])
		}
	}
}

func TestNoDelay(t *testing.T) {
	for _, on := range []bool{false, true} {
		r := measure(t, NoDelay{On: on, Parts: 2, Bytes: 10, Duration: moment}, "mean_seconds", "deviation_seconds?", "largest_seconds", "round_trips")
		if r["largest_seconds"] < r["mean_seconds"] {
			t.Errorf("no delay %v: %v", on, r)
		}
	}
}

// A receiver that acknowledges at once answers, too.
func TestNoDelayAcknowledgements(t *testing.T) {
	measure(t, NoDelay{Quick: true, Parts: 2, Bytes: 10, Duration: moment}, "mean_seconds", "deviation_seconds?", "largest_seconds", "round_trips")
}

// The kernel keeps what is closed for the time of its setting, and what both sides have closed for a minute.
func TestClosed(t *testing.T) {
	for _, c := range []struct {
		Closed
		finWait float64
	}{{Closed{FinTimeout: 1, Wait: 4 * time.Second}, 0}, {Closed{FinTimeout: 60, Wait: moment}, 1}} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r, err := c.Run(t.Context())
			if errors.Is(err, unix.EPERM) {
				t.Skip("may not make a network namespace: " + err.Error())
			}
			if err != nil || r["time_wait"] != 1 || r["fin_wait"] != c.finWait {
				t.Errorf("%+v: %v, %v", c.Closed, r, err)
			}
		})
	}
}

// Both sides agree on a protocol only with ALPN, and the client accepts no other response than its issuer's.
func TestHandshake(t *testing.T) {
	measure(t, Handshake{Rounds: 3}, "handshake_seconds", "alpn_seconds?", "staple_seconds?")
	p, err := newPeers()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newPeers()
	if err != nil {
		t.Fatal(err)
	}
	p.client.VerifyConnection = p.verify
	for _, response := range [][]byte{nil, other.response} {
		p.server.Certificates[0].OCSPStaple = response
		if _, err := p.shake(); err == nil {
			t.Errorf("a response of %d bytes that is not the issuer's is accepted", len(response))
		}
	}
}

// A peer that fell silent is noticed by the probes, whosever values they go by, and
// by nothing else.
func TestKeepAlive(t *testing.T) {
	const wait = 5 * time.Second
	for _, c := range []struct {
		name string
		KeepAlive
		detected float64
	}{
		{"of the socket", KeepAlive{On: true, Socket: 1, Wait: wait}, 1},
		{"of the kernel", KeepAlive{On: true, Kernel: 1, Wait: wait}, 1},
		{"of the kernel, off", KeepAlive{Kernel: 1, Wait: wait}, 0},
		{"as it is", KeepAlive{On: true, Wait: time.Second}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := c.Run(t.Context())
			if errors.Is(err, unix.EPERM) {
				t.Skip("may not make a network namespace: " + err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			if r["detected"] != c.detected {
				t.Errorf("%v, want %v", r, c.detected)
			}
		})
	}
}

// Ticks come, and are late next to others that compute.
func TestTicker(t *testing.T) {
	names := []string{"ticks", "lost_share?", "late_mean_seconds", "late_p95_seconds", "late_largest_seconds", "collections?"}
	for _, ticker := range []Ticker{{Procs: 1}, {Procs: 2, Compute: 1, Garbage: 1}} {
		ticker.Period, ticker.Duration = time.Millisecond, moment
		measure(t, ticker, names...)
	}
}

// Only a buffer of its own makes each event allocate.
func TestDirect(t *testing.T) {
	for _, by := range []string{ByBuffer, Directly, ToTwo} {
		r := measure(t, Direct{By: by, Bytes: 100, Duration: moment}, "writes", "write_seconds", "cpu_seconds", "allocations?", "allocated_bytes?")
		if buffered := r["allocations"] > 0.9; buffered != (by == ByBuffer) {
			t.Errorf("%s: %v", by, r)
		}
	}
}

// What comes from a pool is used again.
func TestGarbage(t *testing.T) {
	names := []string{"events", "allocated_bytes", "collections", "pause_seconds", "pause_event_seconds"}
	for _, pooled := range []bool{false, true} {
		shares := []string{"buffer_reuse?", "id_reuse?"}
		r := measure(t, Garbage{Buffers: pooled, IDs: pooled, Subscribers: 2, Other: 1 << 20, Duration: moment}, append(shares, names...)...)
		if reused := r["buffer_reuse"] > 0; reused != pooled {
			t.Errorf("pooled %v: %v", pooled, r)
		}
	}
}

// No number is lost on the way.
func TestRegisters(t *testing.T) {
	if r := measure(t, Registers{Goroutines: 2, Duration: moment}, "computations", "wrong?", "interrupted?"); r["wrong"] != 0 {
		t.Error(r)
	}
}

func TestLowLatency(t *testing.T) {
	if _, err := readSetting(lowLatency); err != nil || unix.Access(settings+lowLatency, unix.W_OK) != nil {
		t.Skip("the setting can only be changed by root, in the first network namespace")
	}
	measure(t, LowLatency{Buffer: 1 << 16, Duration: moment}, "off_bytes_per_second", "on_bytes_per_second", "ratio", "page_cache_share?")
}
