//go:build linux

package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/engine/subscribe"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/tcp"
	"dyno/selftest/oracle"
)

// A worker that gets no CPU until the window is over still sends the requests due in it: left out, the
// requests that waited longest would be those not counted.
func TestStalledWorkerOmitsNothing(t *testing.T) {
	const rate, window, late = 100, 300 * time.Millisecond, 100 * time.Millisecond
	server, err := oracle.StartNull(t.Context(), oracle.Config{Protocol: oracle.TCP})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	c := config.Config{Address: server.Addr().String(), Connections: 50, Window: window, Schedule: evenly(t, rate), NewClients: echoes(t)}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c = c.WithDefaults()
	to, err := socket.Resolve(context.Background(), c.Network, c.Address, false)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(c)
	e.to = to
	e.collector = record.NewCollector(1, c.Intervals)
	w, err := e.newWorker(&e.parts[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	e.workers = append(e.workers, w)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		e.collector.Run()
	}()
	w.start(w.sockets.Clock.Now() - int64(window+late)) // it wakes up now
	w.loop()
	w.abandonWaiting()
	w.closeAll()
	w.sockets.Poller.Close()
	e.collector.Stop()
	<-collected

	r := record.NewResult(e.base, 0)
	r.AddWorker(w.rec, &w.sockets.Clock)
	r.AddIntervals(e.collector)
	if got, want := r.Counts.Scheduled, uint64(rate*window/time.Second); got != want || r.Counts.OK != want {
		t.Errorf("%d scheduled, %d ok; want %d of each", got, r.Counts.OK, want)
	}
	if longest := time.Duration(r.Latency[record.Response].Max()); longest < window+late {
		t.Errorf("the longest response took %v; the wait belongs to it", longest)
	}
}

// echoes makes clients that exchange a few bytes.
func echoes(t *testing.T) func(int) func() wire.Client {
	t.Helper()
	template, err := tcp.NewEcho(tcp.EchoConfig{Size: 16})
	if err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Client { return func() wire.Client { return template.Client() } }
}

func evenly(t *testing.T, rate float64) *pace.Schedule {
	t.Helper()
	s, err := pace.New(pace.Steady(rate, 0), pace.Constant, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newIdleWorker returns a worker with nothing to do.
func newIdleWorker(t *testing.T) *worker {
	t.Helper()
	e := newEngine(config.Config{Window: time.Second}.WithDefaults())
	e.collector = record.NewCollector(1, record.Intervals{Interval: time.Second})
	to, err := socket.Resolve(t.Context(), "tcp", "127.0.0.1:1", false)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := socket.NewThread(to.Used, 0, nil, e.base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sockets.Poller.Close)
	return &worker{engine: e, sockets: sockets, rec: record.NewRecorder(e.collector, 0, time.Second)}
}

// An endlessMux has one byte to say, and room for another as soon as that is written.
type endlessMux struct {
	wire.Mux
	written    int
	statusSent bool
}

func (m *endlessMux) Free() int     { return 1 }
func (m *endlessMux) Waiting() bool { return true }
func (m *endlessMux) Output() []byte {
	if m.statusSent {
		return nil
	}
	return []byte{0}
}

func (m *endlessMux) Wrote(n int) {
	m.written += n
	m.statusSent = true
}

func (m *endlessMux) Input(_ []byte, e *wire.MuxEvent) (int, error) {
	m.statusSent = false
	*e = wire.MuxEvent{}
	return 0, nil
}

// A request that goes on as fast as it is written does not keep its worker: it has one turn after
// the other, as others have.
func TestEndlessRequest(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(pair[0]) }()
	defer func() { _ = unix.Close(pair[1]) }()
	w := newIdleWorker(t)
	m := &endlessMux{}
	w.conns.all = []connection{{
		Socket: socket.Socket{FD: int32(pair[0])}, mux: m, state: established, busy: 1, firstAwaiting: none, firstUnwritten: none, spare: none, idleAt: none,
	}}
	w.flushMux(0, &w.conns.all[0])
	if m.written != maxWrites || len(w.conns.deferred) != 1 {
		t.Fatalf("%d bytes were written at once, want %d; %d connections are to go on", m.written, maxWrites, len(w.conns.deferred))
	}
	w.handle(nil)
	if m.written != 2*maxWrites || len(w.conns.deferred) != 1 {
		t.Errorf("%d bytes were written in two turns, want %d; %d connections are to go on", m.written, 2*maxWrites, len(w.conns.deferred))
	}
}

// A window that is closed early may end before the last requests that it counts were due.
func TestClosedEarlyIsConserved(t *testing.T) {
	c := config.Config{Address: "h:1", NewClients: echoes(t), Schedule: evenly(t, 100), Window: time.Hour}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	e := newEngine(c.WithDefaults())
	e.to.Used = []socket.Endpoint{{}}
	e.collector = record.NewCollector(1, record.Intervals{Interval: time.Second})
	w, err := e.newWorker(&e.parts[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.sockets.Poller.Close()
	e.workers = append(e.workers, w)
	var collecting sync.WaitGroup
	collecting.Go(e.collector.Run)
	now := w.sockets.Clock.Now()
	w.start(now - int64(100*time.Millisecond))
	w.startDue(now)
	e.interrupt()
	w.closeEarly(now - int64(50*time.Millisecond))
	w.abandonWaiting()
	e.collector.Stop()
	collecting.Wait()
	r := record.NewResult(e.base, 0)
	r.AddWorker(w.rec, &w.sockets.Clock)
	if n := r.Counts; n.Scheduled < 10 || n.Dropped != n.Scheduled {
		t.Errorf("%+v", n)
	}
	for _, counts := range []record.Counts{r.Counts, r.Carried, r.AllCounts} {
		if err := counts.Conserved(); err != nil {
			t.Errorf("%+v: %v", counts, err)
		}
	}
}

// Where no connection was opened and none was refused either, the target has kept all waiting.
func TestNoServer(t *testing.T) {
	w := newIdleWorker(t)
	w.subscribers = subscribe.New(nil, &subscribe.Worker{Sockets: w.sockets})
	w.engine.workers = []*worker{w}
	w.conns.opening = 1
	if err := w.engine.unreachable(); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}
