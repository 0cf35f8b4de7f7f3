//go:build linux

package engine

import (
	"math"
	"runtime"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/thread"
	"dyno/load/wire"
	"dyno/selftest/oracle"
)

// In a closed loop the warm-up decides.
func TestDecideClock(t *testing.T) {
	for name, tt := range map[string]struct {
		elapsed time.Duration
		want    bool
	}{
		"three quarters busy": {time.Second * 4 / 3, true},
		"busier":              {time.Second * 5 / 4, false},
	} {
		w := newIdleWorker(t)
		w.choice.undecided = true
		runtime.LockOSThread()
		w.choice.cpuAtStart = thread.CPU().Total() - time.Second + 5*time.Millisecond // what passes until it is read is less
		w.phases.origin = w.sockets.Clock.Now() - int64(tt.elapsed)
		w.decideClock(w.phases.origin + int64(tt.elapsed))
		runtime.UnlockOSThread()
		defer w.sockets.Clock.Close()
		if w.rec.Ends().Fault != "" {
			t.Skip(w.rec.Ends().Fault)
		}
		if w.sockets.Clock.Stamping() != tt.want || w.choice.undecided {
			t.Errorf("%s: stamping %v, want %v", name, w.sockets.Clock.Stamping(), tt.want)
		}
	}
}

// A slowpoke is a client that holds its worker up before each request.
type slowpoke struct{ wire.Client }

const holdUp = 2 * time.Millisecond

func (s slowpoke) Request() []byte {
	for from := time.Now(); time.Since(from) < holdUp; {
	}
	return s.Client.Request()
}

// A response that a held up worker reads late has not taken longer.
func TestHeldUpWorker(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{Protocol: oracle.TCP})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	const requests = 60
	client := echoes(t)(0)
	measure := func(c config.Clock) *record.Result {
		t.Helper()
		r, err := Run(t.Context(), config.Config{
			Address: server.Addr().String(), Connections: 2, Requests: requests, Clock: c,
			NewClients: func(int) func() wire.Client { return func() wire.Client { return slowpoke{client()} } },
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Ends.ByArrival + r.Ends.ByRead; n != requests || r.Counts.OK != requests {
			t.Fatalf("%d ended of %+v", n, r.Counts)
		}
		return r
	}
	r := measure(config.ClockArrival)
	if r.Ends.Fault != "" {
		t.Skip(r.Ends.Fault)
	}
	delay, service, read := r.Latency[record.ReadDelay], r.Latency[record.Service], r.Latency[record.ServiceRead]
	if uint64(delay.Count()) != r.Ends.ByArrival || service.Count() != requests || read.Count() != requests || r.Latency[record.FirstByte].Count() != requests {
		t.Errorf("%d read delays, %d and %d service times; %+v", delay.Count(), service.Count(), read.Count(), r.Ends)
	}
	// While one connection's request is held up, the other's response arrives.
	if got, want := delay.Max(), int64(holdUp)/2; got < want {
		t.Errorf("all responses were read within %d ns of their arrival, want %d", got, want)
	}
	both := float64(delay.Count())*delay.Mean() + requests*service.Mean()
	if whole := requests * read.Mean(); math.Abs(both-whole) > 0.01*whole {
		t.Errorf("read delay and service make %.0f ns in all, until the read it is %.0f", both, whole)
	}

	r = measure(config.ClockRead)
	if r.Ends != (record.Ends{ByRead: requests}) || r.Latency[record.ReadDelay].Count() != 0 || r.Latency[record.Service].Mean() != r.Latency[record.ServiceRead].Mean() {
		t.Errorf("by reading: %+v", r.Ends)
	}
}
