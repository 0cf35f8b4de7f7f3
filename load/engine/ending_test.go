package engine

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/sse"
	"dyno/load/wire/tcp"
	"dyno/selftest/oracle"
)

// Of several events in one read, all but the last have a stamp that may be too late,
// by no more than the time since the socket was empty.
func TestSharedStamps(t *testing.T) {
	w := newSubscriberWorker(t, 1)
	w.rec.Window.Start, w.rec.Window.End = 0, 10_000
	s := &w.subscribers.all[0]
	s.written, s.emptied = 100, 700
	var read []byte
	for n := range uint64(3) {
		read = fmt.Appendf(read, "data: %v\n\n", sse.Stamp{Source: 1, Sequence: n + 1})
	}
	w.takeEvents(0, s, append(read, "\r\n"...), clock.Reading{Read: 1500, Arrived: 1000, Stamp: clock.Stamped})
	w.takeEvents(0, s, read, clock.At(1600))
	r := recorded(w)
	if e := r.Ends; e.ByArrival != 3 || e.Shared != 2 || e.ByRead != 3 {
		t.Errorf("%+v", e)
	}
	if h := r.Latency[record.SharedStamp]; h.Count() != 2 || h.Min() != 300 || h.Max() != 300 {
		t.Errorf("shared: %d values from %d to %d, want 2 of 300", h.Count(), h.Min(), h.Max())
	}
	if h := r.Latency[record.ReadDelay]; h.Count() != 3 || h.Min() != 500 || h.Max() != 500 {
		t.Errorf("read delay: %d values from %d to %d, want 3 of 500", h.Count(), h.Min(), h.Max())
	}
}

// In a closed loop the warm-up decides.
func TestDecideClock(t *testing.T) {
	for name, tt := range map[string]struct {
		elapsed time.Duration
		want    bool
	}{
		"three quarters busy": {time.Second * 4 / 3, true},
		"busier":              {time.Second * 5 / 4, false},
	} {
		w := newSubscriberWorker(t, 1)
		w.endpoint.family, w.undecided = unix.AF_INET, true
		runtime.LockOSThread()
		w.cpuAtStart = threadCPU().Total() - time.Second + 5*time.Millisecond // what passes until it is read is less
		w.origin = w.clock.Now() - int64(tt.elapsed)
		w.decideClock(w.origin + int64(tt.elapsed))
		runtime.UnlockOSThread()
		defer w.clock.Close()
		if w.rec.Ends().Fault != "" {
			t.Skip(w.rec.Ends().Fault)
		}
		if w.clock.Stamping() != tt.want || w.undecided {
			t.Errorf("%s: stamping %v, want %v", name, w.clock.Stamping(), tt.want)
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

// What a worker reads late, because it was held up, has not taken longer.
func TestHeldUpWorker(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{Protocol: oracle.TCP})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	template, err := tcp.NewEcho(tcp.EchoConfig{Size: 16})
	if err != nil {
		t.Fatal(err)
	}
	measure := func(c Clock) *record.Result {
		t.Helper()
		r, err := Run(t.Context(), Config{
			Address: server.Addr().String(), Connections: 2, Requests: 200, Clock: c,
			NewClients: func(int) func() wire.Client { return func() wire.Client { return slowpoke{template.Client()} } },
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Ends.ByArrival + r.Ends.ByRead; n != 200 || r.Counts.OK != 200 {
			t.Fatalf("%d ended of %+v", n, r.Counts)
		}
		return r
	}
	r := measure(ClockArrival)
	if r.Ends.Fault != "" {
		t.Skip(r.Ends.Fault)
	}
	delay, service, read := r.Latency[record.ReadDelay], r.Latency[record.Service], r.Latency[record.ServiceRead]
	if uint64(delay.Count()) != r.Ends.ByArrival || service.Count() != 200 || read.Count() != 200 || r.Latency[record.FirstByte].Count() != 200 {
		t.Errorf("%d read delays, %d and %d service times; %+v", delay.Count(), service.Count(), read.Count(), r.Ends)
	}
	// While one connection's request is held up, the other's response arrives.
	if got, want := delay.Max(), int64(holdUp)/2; got < want {
		t.Errorf("all responses were read within %d ns of their arrival, want %d", got, want)
	}
	both := float64(delay.Count())*delay.Mean() + 200*service.Mean()
	if whole := 200 * read.Mean(); math.Abs(both-whole) > 0.01*whole {
		t.Errorf("read delay and service make %.0f ns in all, until the read it is %.0f", both, whole)
	}

	r = measure(ClockRead)
	if r.Ends != (record.Ends{ByRead: 200}) || r.Latency[record.ReadDelay].Count() != 0 || r.Latency[record.Service].Mean() != r.Latency[record.ServiceRead].Mean() {
		t.Errorf("by reading: %+v", r.Ends)
	}
}
