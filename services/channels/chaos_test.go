package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/internal/freeport"
	"dyno/services/internal/serve"
)

const hang = time.Minute // no test waits longer for anything

// serving is a server under test.
type serving struct {
	*Server
	t      *testing.T
	reg    *prometheus.Registry
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, c Config, stdin *os.File, stdout io.Writer) *serving {
	t.Helper()
	reg := prometheus.NewRegistry()
	s, err := New(c, slog.New(slog.DiscardHandler), reg, stdin, stdout)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &serving{Server: s, t: t, reg: reg, cancel: cancel, done: make(chan error, 1)}
	go func() { run.done <- s.Serve(ctx) }()
	t.Cleanup(cancel)
	return run
}

// wait waits for Serve to return by itself.
func (s *serving) wait() error {
	s.t.Helper()
	select {
	case err := <-s.done:
		for _, st := range s.Stats() {
			if st.Received != st.Delivered+st.Dropped+st.Pending {
				s.t.Errorf("not conserved: %+v", st)
			}
		}
		return err
	case <-time.After(hang):
		s.t.Fatal("Serve does not return")
		return nil
	}
}

func (s *serving) stop() error {
	s.t.Helper()
	s.cancel()
	return s.wait()
}

// until waits for a condition on the first channel's counts.
func (s *serving) until(what string, holds func(Stats) bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool { return holds(s.Stats()[0]) })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func quick(s Sink) Sink {
	s.RetryMin, s.RetryMax = time.Millisecond, 4*time.Millisecond
	if s.Kind == TCP && s.Format == Framed {
		s.AckTimeout = 10 * time.Second
	}
	return s
}

func tcpSource() Source { return Source{Kind: TCP, Address: "127.0.0.1:0"} }

// produce writes n lines "producer number" to the channel, flushing at random
// places, and closes.
func produce(t *testing.T, addr net.Addr, producer, n int, rng *rand.Rand) {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	var all []byte
	for i := 1; i <= n; i++ {
		all = fmt.Appendf(all, "%d %d %s\n", producer, i, strings.Repeat("x", rng.IntN(200)))
	}
	for len(all) > 0 {
		p := all[:min(len(all), 1+rng.IntN(20000))]
		if _, err := conn.Write(p); err != nil {
			return // the other end is allowed to close
		}
		all = all[len(p):]
	}
}

// ledger checks what a receiver hands on.
type ledger struct {
	mu    sync.Mutex
	last  map[uint64]map[StreamID]int // by source, the producer's own number
	count int
	first uint64 // sequence number of the first record
	bad   error
	fail  func() error // when set, decides whether a record is refused
}

func (l *ledger) handle(id StreamID, r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return err
		}
	}
	var producer, number int
	if _, err := fmt.Sscanf(string(r.Payload), "%d %d ", &producer, &number); err != nil {
		l.bad = errors.Join(l.bad, fmt.Errorf("record %d: %q", r.Seq, r.Payload))
	}
	if l.last == nil {
		l.last = map[uint64]map[StreamID]int{}
	}
	if l.last[r.Source] == nil {
		l.last[r.Source] = map[StreamID]int{}
	}
	if last := l.last[r.Source][id]; number <= last {
		l.bad = errors.Join(l.bad, fmt.Errorf("connection %d: number %d after %d", r.Source, number, last))
	}
	l.last[r.Source][id] = number
	if l.count++; l.count == 1 {
		l.first = r.Seq
	}
	return nil
}

func (l *ledger) records() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// A flaky sink is a receiver whose process dies again and again: its connections break after some bytes, perhaps
// inside a record or before an acknowledgement. Its listener goes away for a while. What it has handled survives.
type flaky struct {
	t        *testing.T
	receiver *receiver
	handle   func(StreamID, Record) error
	count    counters
	address  string
	mu       sync.Mutex
	rng      *rand.Rand // guarded by mu
	steady   bool       // guarded by mu; no more faults
	stopped  bool       // guarded by mu
	listener net.Listener
	conns    sync.WaitGroup
	loop     sync.WaitGroup
}

// settling has settled what it has handled.
type settling func(StreamID, Record) error

func (s settling) handle(id StreamID, r Record) (uint64, error) { return r.Seq, s(id, r) }

func (s settling) settled() uint64 { return math.MaxUint64 }

func (s settling) awaitSettled(context.Context, uint64) (uint64, error) { return s.settled(), nil }

func newFlaky(t *testing.T, seed uint64, handle func(StreamID, Record) error) *flaky {
	f := &flaky{t: t, handle: handle, rng: rand.New(rand.NewPCG(seed, 1))}
	f.receiver = newReceiver(64<<10, 0, &f.count)
	f.address = freeport.Address(t)
	if !f.listen() {
		t.FailNow()
	}
	f.loop.Go(f.accept)
	t.Cleanup(f.stop)
	return f
}

func (f *flaky) stop() {
	f.mu.Lock()
	f.stopped = true
	f.listener.Close()
	f.mu.Unlock()
	f.loop.Wait()
}

func (f *flaky) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

func (f *flaky) calm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steady = true
}

func (f *flaky) isSteady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steady
}

func (f *flaky) accept() {
	ctx, cancel := context.WithCancel(context.Background())
	defer f.conns.Wait()
	defer cancel()
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		budget := f.roll(30000)
		f.conns.Go(func() {
			defer conn.Close()
			// How it ends is chance; what was handled is checked.
			_ = f.receiver.serve(ctx, ctx, &dying{TCPConn: conn.(*net.TCPConn), sink: f, budget: budget}, settling(f.handle))
		})
		if !f.isSteady() && f.roll(3) == 0 {
			// Nobody listens for a moment; then a new process does.
			f.listener.Close()
			time.Sleep(time.Duration(f.roll(3)) * time.Millisecond)
			if !f.listen() {
				return
			}
		}
	}
}

func (f *flaky) listen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	l, err := serve.Listen(context.Background(), f.address, nil)
	if err != nil {
		f.t.Errorf("listen again: %v", err)
		return false
	}
	f.listener = l
	return true
}

// dying is a connection that is reset after budget bytes.
type dying struct {
	*net.TCPConn
	sink   *flaky
	budget int
}

var errDied = errors.New("the sink died")

func (d *dying) die() error {
	return errors.Join(errDied, d.SetLinger(0), d.Close())
}

func (d *dying) Read(p []byte) (int, error) {
	if d.sink.isSteady() {
		return d.TCPConn.Read(p)
	}
	if d.budget <= 0 {
		return 0, d.die()
	}
	n, err := d.TCPConn.Read(p[:min(len(p), d.budget)])
	d.budget -= n
	return n, err
}

func (d *dying) Write(p []byte) (int, error) {
	if !d.sink.isSteady() && d.sink.roll(8) == 0 {
		return 0, d.die() // handled, and the acknowledgement is lost
	}
	return d.TCPConn.Write(p)
}

// Several producers, a sink that dies all the time: what arrives, after
// deduplication, is in order, and what does not is what the counts say.
func TestSinkRestarts(t *testing.T) {
	for _, policy := range []string{Block, DropOldest, DropNewest, Disconnect} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", policy, seed), func(t *testing.T) {
				t.Parallel()
				var book ledger
				sink := newFlaky(t, seed, book.handle)
				buffer := Buffer{Records: 200, Bytes: 64 << 10, WhenFull: policy}
				s := start(t, Config{Seed: seed, Channels: []Channel{{
					Name: "c", Source: tcpSource(), Buffer: buffer, Sink: quick(Sink{Kind: TCP, Format: Framed, Address: sink.address}),
				}}}, nil, nil)
				// Bursts that overflow the buffer, each on new connections.
				const producers, each, bursts = 4, 100, 15
				for burst := range uint64(bursts) {
					var all sync.WaitGroup
					for p := range producers {
						all.Go(func() { produce(t, s.Addr("c"), p, each, rand.New(rand.NewPCG(seed, burst))) })
					}
					all.Wait()
					s.until("the burst is over", func(st Stats) bool {
						return st.Accepted == producers*(burst+1) && st.Connections == 0 && st.Pending == 0
					})
				}
				sink.calm()
				if err := s.stop(); err != nil {
					t.Error(err)
				}
				st := s.Stats()[0]
				last, _ := s.channels[0].buffer.settledThrough()
				arrived := lastOf(sink.receiver, s.channels[0].stream)
				missing := book.first - 1 + sink.count.missing.Load() + last - arrived // also dropped before the first and after the last that arrived
				t.Logf("%+v; %d repeated", st, sink.count.repeated.Load())
				switch {
				case book.bad != nil:
					t.Error(book.bad)
				case st.Pending != 0 || st.Torn != 0 && policy != Disconnect:
					t.Error("not drained")
				case uint64(book.count) != st.Delivered || missing != st.Dropped:
					t.Errorf("%d arrived and %d are missing", book.count, missing)
				case policy != Disconnect && st.Received != producers*each*bursts:
					t.Errorf("%d received, %d sent", st.Received, producers*each*bursts)
				case policy == Block && st.Dropped > 0:
					t.Error("block lost records")
				case policy != Block && st.Dropped == 0:
					t.Error("nothing was dropped: the test tests nothing")
				case policy == Disconnect && st.Disconnected != st.Dropped:
					t.Error("one record is dropped per disconnection")
				case st.Connects < 3:
					t.Error("the sink hardly died: the test tests nothing")
				}
			})
		}
	}
}

// lastOf returns the number of the last record of a stream that r has handled.
func lastOf(r *receiver, id StreamID) uint64 {
	r.mu.Lock()
	s := r.streams[id]
	r.mu.Unlock()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Peers that are not receivers do not make the channel lose or lie.
func TestBrokenPeers(t *testing.T) {
	// The channel may hang up at any moment, so that each of these may fail.
	say := func(c net.Conn, p []byte) { _, _ = c.Write(p) }
	listen := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	none, future := make([]byte, 8), bytes.Repeat([]byte{1}, 8)
	for name, behave := range map[string]func(net.Conn){
		"silent":                            listen,
		"never acknowledges":                func(c net.Conn) { say(c, none); listen(c) },
		"claims the future":                 func(c net.Conn) { say(c, future); listen(c) },
		"acknowledges what it was not sent": func(c net.Conn) { say(c, none); say(c, future); listen(c) },
		"half an acknowledgement":           func(c net.Conn) { say(c, make([]byte, 12)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var peers sync.WaitGroup
			peers.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					peers.Go(func() { behave(c); c.Close() })
				}
			})
			defer peers.Wait()
			defer l.Close()
			sink := quick(Sink{Kind: TCP, Format: Framed, Address: l.Addr().String()})
			sink.AckTimeout = 20 * time.Millisecond
			s := start(t, Config{DrainTimeout: 50 * time.Millisecond, Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: sink}}}, nil, nil)
			produce(t, s.Addr("c"), 1, 10, rand.New(rand.NewPCG(1, 1)))
			s.until("received, and tried again", func(st Stats) bool { return st.Received == 10 && st.SinkErrors >= 3 })
			if err := s.stop(); !errors.Is(err, ErrPending) {
				t.Errorf("Serve = %v, want ErrPending", err)
			}
			if st := s.Stats()[0]; st.Pending != 10 || st.Delivered != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// With raw TCP, each connection carries whole records in order, and none twice
// unless its first half was cut off.
func TestRawTCPSink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Buffer: Buffer{Records: 100},
		Sink: quick(Sink{Kind: TCP, Address: l.Addr().String()})}}}, nil, nil)
	const n = 5000
	var producers sync.WaitGroup
	// The second one begins when the first connection is gone: sockets may hold all that one
	// has to send.
	gone := make(chan struct{})
	producers.Go(func() {
		produce(t, s.Addr("c"), 1, n/2, rand.New(rand.NewPCG(3, 3)))
		<-gone
		produce(t, s.Addr("c"), 2, n/2, rand.New(rand.NewPCG(3, 4)))
	})
	last, whole := [3]int{}, 0 // by producer
	rng := rand.New(rand.NewPCG(5, 5))
	var peer sync.WaitGroup
	peer.Go(func() {
		for round := 0; ; round++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			limit := int64(rng.IntN(60000))
			if round == 10 {
				limit = 1 << 40 // the last one lives
			}
			got, _ := io.ReadAll(io.LimitReader(conn, limit))
			if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
				t.Error(err)
			}
			conn.Close()
			if round == 0 {
				close(gone)
			}
			lines := strings.Split(string(got), "\n")
			for _, line := range lines[:len(lines)-1] { // the last one is torn, or empty
				var producer, number int
				if _, err := fmt.Sscanf(line, "%d %d ", &producer, &number); err != nil || producer < 1 || producer > 2 || number <= last[producer] {
					t.Errorf("round %d: %q after %v", round, line, last)
					return
				}
				last[producer] = number
				whole++
			}
		}
	})
	producers.Wait()
	s.until("all given to the kernel", func(st Stats) bool { return st.Delivered == n })
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	l.Close()
	peer.Wait()
	st := s.Stats()[0]
	t.Logf("%d of %d arrived; %+v", whole, n, st)
	if st.Delivered != n || st.Connects < 2 || whole == n {
		t.Errorf("%+v", st)
	}
}

// Two channels at once; what is scraped of each is conserved.
func TestChannelsTogether(t *testing.T) {
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "socket"), filepath.Join(dir, "out")
	s := start(t, Config{Channels: []Channel{
		{Name: "tcp", Source: tcpSource(), Buffer: Buffer{Records: 5, WhenFull: DropOldest}, Sink: quick(Sink{Kind: File, Path: "/dev/full"})},
		{Name: "unix", Source: Source{Kind: Unix, Path: socket}, Sink: quick(Sink{Kind: File, Format: Framed, Path: file, SyncEvery: time.Millisecond})},
	}, DrainTimeout: 50 * time.Millisecond}, nil, nil)
	const each = 100
	for _, name := range []string{"tcp", "unix"} {
		produce(t, s.Addr(name), 1, each, rand.New(rand.NewPCG(9, 9)))
	}
	eventually(t, "all received", func() bool { st := s.Stats(); return st[0].Received == each && st[1].Delivered == each })
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			switch name := m.Label[0].GetValue(); f.GetName() {
			case "channels_received_records_total":
				sum[name] += v
			case "channels_delivered_records_total", "channels_dropped_records_total", "channels_pending_records":
				sum[name] -= v
			}
		}
	}
	if len(sum) != 2 || sum["tcp"] != 0 || sum["unix"] != 0 {
		t.Errorf("a scrape is off by %v", sum)
	}
	if err := s.stop(); !errors.Is(err, ErrPending) {
		t.Errorf("Serve = %v, want what is pending of the full disk", err)
	}
	verify(t, file, each)
}
