package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/wire"
	"dyno/load/wire/sse"
	"dyno/load/wire/tcp"
	"dyno/selftest/oracle"
)

// message builds a control message: cmsg(3).
func message(level, kind uint32, data ...uint64) []byte {
	p := make([]byte, headSize+8*len(data))
	binary.NativeEndian.PutUint64(p, uint64(len(p)))
	binary.NativeEndian.PutUint32(p[8:], level)
	binary.NativeEndian.PutUint32(p[12:], kind)
	for i, d := range data {
		binary.NativeEndian.PutUint64(p[headSize+8*i:], d)
	}
	return p
}

func TestArrivalStamp(t *testing.T) {
	stamp := func(data ...uint64) []byte { return message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, data...) }
	cut := func(p []byte, n int) []byte { return p[:n] }
	long := stamp(5, 6, 0, 0, 0, 0)
	binary.NativeEndian.PutUint64(long, 1<<40)
	for name, tt := range map[string]struct {
		control []byte
		want    int64
	}{
		"none":                  {nil, 0},
		"one":                   {stamp(1_700_000_000, 123_456_789, 0, 0, 0, 0), 1_700_000_000_123_456_789},
		"hardware's only":       {stamp(0, 0, 0, 0, 1_700_000_000, 5), 0},
		"after another":         {append(message(unix.IPPROTO_TCP, 36, 7), stamp(1, 2, 0, 0, 0, 0)...), 1e9 + 2},
		"after an odd one":      {append(cut(message(unix.IPPROTO_TCP, 36, 7), headSize), stamp(1, 2, 0, 0, 0, 0)...), 0},
		"of another level":      {message(unix.IPPROTO_TCP, unix.SCM_TIMESTAMPING, 1, 2, 0, 0, 0, 0), 0},
		"of another kind":       {message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1, 2), 0},
		"cut short":             {cut(stamp(1, 2, 0, 0, 0, 0), headSize+40), 0},
		"too short":             {stamp(1, 2), 0},
		"longer than there is":  {long, 0},
		"shorter than its head": {append(make([]byte, 8), stamp(1, 2, 0, 0, 0, 0)[8:]...), 0},
		"before 1970":           {stamp(math.MaxUint64, 0, 0, 0, 0, 0), 0},
		"after 2262":            {stamp(uint64(maxSeconds+1), 0, 0, 0, 0, 0), 0},
		"a second of 2e9 ns":    {stamp(1, 2e9, 0, 0, 0, 0), 0},
	} {
		if got := arrivalStamp(tt.control); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func FuzzArrivalStamp(f *testing.F) {
	f.Add(message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, 1, 2, 0, 0, 0, 0))
	f.Add(append(message(6, 36, 7), message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, 3, 4, 0, 0, 0, 0)...))
	f.Fuzz(func(t *testing.T, control []byte) {
		before := string(control)
		if got := arrivalStamp(control); got < 0 {
			t.Errorf("%d: want no time before 1970", got)
		}
		if string(control) != before {
			t.Error("the messages were changed")
		}
	})
}

// faked are clocks of which each reading takes the next of some delays.
type faked struct {
	at, ahead int64
	delays    []int64
}

func (f *faked) tick() int64 {
	f.at += f.delays[0]
	f.delays = append(f.delays[1:], f.delays[0])
	return f.at
}
func (f *faked) now() int64  { return f.tick() }
func (f *faked) real() int64 { return f.tick() + f.ahead }

// The true offset is always within what the looks leave, an interrupted look does not
// widen it, and a step is seen at the next look.
func TestOffset(t *testing.T) {
	f := &faked{ahead: 1_700_000_000_000_000_000, delays: []int64{20, 31, 5_000_000, 25, 40, 23, 37}}
	var o offset
	holds := func(when string) {
		t.Helper()
		if o.low > f.ahead || f.ahead > o.high || o.high-o.low > 100 {
			t.Errorf("%s: from %d to %d of the truth", when, o.low-f.ahead, o.high-f.ahead)
		}
	}
	o.keep(f, f.at)
	holds("first")
	for range 1000 {
		f.at += lookEvery
		o.keep(f, f.at)
		holds("later")
	}
	if o.steps != 0 {
		t.Errorf("%d steps of a clock that has made none", o.steps)
	}
	f.ahead -= 3_000_000_000
	o.keep(f, f.at)
	if o.steps != 0 {
		t.Error("looked before it was time")
	}
	f.at += lookEvery
	o.keep(f, f.at)
	holds("after a step back")
	f.ahead += 1000
	f.at += lookEvery
	o.keep(f, f.at)
	holds("after a small step")
	if o.steps != 2 || o.worst > 50 {
		t.Errorf("%d steps, up to ±%d ns; want 2, ±50", o.steps, o.worst)
	}
}

// A pipe is a TCP connection over loopback. The reading end bears stamps.
type pipe struct {
	*worker
	to, from int
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	e := newEngine(Config{}.withDefaults())
	p := &pipe{worker: &worker{engine: e, holder: none, endpoint: endpoint{family: unix.AF_INET}, buffer: make([]byte, readSize)}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		return fd
	}
	listener := socket()
	defer unix.Close(listener)
	must(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(unix.Listen(listener, 1))
	address, err := unix.Getsockname(listener)
	must(err)
	p.from = socket()
	must(unix.Connect(p.from, address))
	p.to, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(err)
	must(unix.SetsockoptInt(p.to, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	t.Cleanup(func() {
		p.closeAll()
		unix.Close(p.from)
		unix.Close(p.to)
	})
	p.stampArrivals()
	if p.ends.Fault != "" {
		t.Skip(p.ends.Fault)
	}
	must(askForStamps(p.from))
	// The kernel begins to stamp a moment after it was asked: later on a busy machine.
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		p.send(t, "x")
		if _, r, _ := p.take(int32(p.from), p.buffer, true, 0); r.stamp == stamped {
			return p
		}
	}
	t.Fatal("no stamps")
	return nil
}

// newDatagrams is the like of UDP, for the same worker.
func newDatagrams(t *testing.T, p *pipe) *pipe {
	t.Helper()
	d := &pipe{worker: p.worker}
	for _, fd := range []*int{&d.from, &d.to} {
		var err error
		if *fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(*fd) })
	}
	err := unix.Bind(d.from, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = askForStamps(d.from)
	}
	var address unix.Sockaddr
	if err == nil {
		address, err = unix.Getsockname(d.from)
	}
	if err == nil {
		err = unix.Connect(d.to, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// send writes and returns when it has arrived: not earlier and not later than that.
func (p *pipe) send(t *testing.T, s string) (from, to int64) {
	t.Helper()
	from = p.now()
	if _, err := unix.Write(p.to, []byte(s)); err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(p.from), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 30_000); n != 1 {
		t.Fatalf("nothing arrived: %v", err)
	}
	return from, p.now()
}

// pass lets time pass without giving the thread away for long.
func (p *pipe) pass(d time.Duration) {
	for until := p.now() + int64(d); p.now() < until; {
	}
}

// What is read late arrived when it did.
func TestTake(t *testing.T) {
	p := newPipe(t)
	const wait = 2 * time.Millisecond
	from, to := p.send(t, "one")
	p.pass(wait)
	n, r, errno := p.take(int32(p.from), p.buffer, true, from)
	if n != 3 || errno != 0 || r.stamp != stamped {
		t.Fatalf("%d bytes, %v, %+v", n, errno, r)
	}
	if u := p.offset.worst; r.arrived < from-u || r.arrived > to+u || r.read < to+int64(wait) {
		t.Errorf("sent %d to %d, arrived %d, read %d", from, to, r.arrived, r.read)
	}

	// Without asking, reading is what there is.
	p.send(t, "two")
	if n, r, _ := p.take(int32(p.from), p.buffer, false, 0); n != 3 || r.stamp != unstamped || r.arrived != r.read {
		t.Errorf("%d bytes, %+v: want no stamp", n, r)
	}

	// Two segments in one read bear the later one's stamp.
	_, first := p.send(t, "three")
	p.pass(wait)
	second, _ := p.send(t, "four")
	n, r, _ = p.take(int32(p.from), p.buffer, true, 0)
	if n != 9 || r.stamp != stamped || r.arrived < second-p.offset.worst {
		t.Errorf("%d bytes, the first by %d, the second from %d, %+v", n, first, second, r)
	}
}

// A stamp that cannot be true is refused, and the read is what counts.
func TestRefusedStamps(t *testing.T) {
	p := newPipe(t)
	refused := func(name string, want stamp, r reading) {
		t.Helper()
		if r.stamp != want || r.arrived != r.read {
			t.Errorf("%s: %+v", name, r)
		}
		before := p.ends
		p.ends.count(r)
		if p.ends.ByRead != before.ByRead+1 || p.ends.ByArrival != before.ByArrival {
			t.Errorf("%s: counted as %+v", name, p.ends)
		}
	}
	take := func(empty int64) reading {
		t.Helper()
		p.send(t, "x")
		_, r, _ := p.take(int32(p.from), p.buffer, true, empty)
		return r
	}
	// The socket was empty after the stamp: the kernel was slow, as nothing came out of
	// order, or that cannot be known. The latter is so of UDP.
	_, to := p.send(t, "x")
	p.pass(time.Duration(2 * held))
	if _, r, _ := p.take(int32(p.from), p.buffer, true, to+held+p.offset.worst+1); r.stamp != stamped {
		t.Errorf("the kernel was slow: %+v", r)
	}
	datagrams := newDatagrams(t, p)
	_, to = datagrams.send(t, "x")
	p.pass(time.Duration(2 * held))
	_, r, _ := p.take(int32(datagrams.from), p.buffer, true, to+held+p.offset.worst+1)
	refused("segments were out of order", stale, r)
	datagrams.send(t, "x")
	if _, r, _ := p.take(int32(datagrams.from), p.buffer, true, p.now()); r.stamp != stamped {
		t.Errorf("arrived when the socket was empty: %+v", r)
	}
	refused("before the write", early, take(0).after(p.now()))
	p.offset.next = never // it does not notice
	p.offset.low, p.offset.high = p.offset.low-1e9, p.offset.high-1e9
	refused("after the read", late, take(0))
	if e := p.ends; e.Late != 1 || e.Early != 1 || e.Stale != 1 {
		t.Errorf("%+v", e)
	}
}

// A read with a stamp allocates nothing.
func TestTakeDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	p := newPipe(t)
	x := []byte("x")
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = unix.Write(p.to, x) // a broken one shows below
		if n, _, errno := p.take(int32(p.from), p.buffer, true, 0); n != 1 || errno != 0 {
			t.Fatalf("%d bytes, %v", n, errno)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Of several events in one read, all but the last have a stamp that may be too late,
// by no more than the time since the socket was empty.
func TestSharedStamps(t *testing.T) {
	w := newSubscriberWorker(t, 1)
	w.windowStart, w.windowEnd = 0, 10_000
	s := &w.subscribers.all[0]
	s.written, s.emptied = 100, 700
	var read []byte
	for n := range uint64(3) {
		read = fmt.Appendf(read, "data: %v\n\n", sse.Stamp{Source: 1, Sequence: n + 1})
	}
	w.takeEvents(0, s, append(read, "\r\n"...), reading{read: 1500, arrived: 1000, stamp: stamped})
	w.takeEvents(0, s, read, reading{read: 1600, arrived: 1600})
	if e := w.ends; e.ByArrival != 3 || e.Shared != 2 || e.ByRead != 3 {
		t.Errorf("%+v", e)
	}
	if h := w.interval.latency[SharedStamp]; h.Count() != 2 || h.Min() != 300 || h.Max() != 300 {
		t.Errorf("shared: %d values from %d to %d, want 2 of 300", h.Count(), h.Min(), h.Max())
	}
	if h := w.interval.latency[ReadDelay]; h.Count() != 3 || h.Min() != 500 || h.Max() != 500 {
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
		p := newPipe(t)
		p.stamping, p.undecided = false, true
		unix.Close(int(p.holder))
		p.holder = none
		runtime.LockOSThread()
		p.cpuAtStart = threadCPU().Total() - time.Second + 5*time.Millisecond // what passes until it is read is less
		p.origin = p.now() - int64(tt.elapsed)
		p.decideClock(p.origin + int64(tt.elapsed))
		runtime.UnlockOSThread()
		if p.stamping != tt.want || p.undecided {
			t.Errorf("%s: stamping %v, want %v", name, p.stamping, tt.want)
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
	measure := func(c Clock) *Result {
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
	delay, service, read := r.Latency[ReadDelay], r.Latency[Service], r.Latency[ServiceRead]
	if uint64(delay.Count()) != r.Ends.ByArrival || service.Count() != 200 || read.Count() != 200 || r.Latency[FirstByte].Count() != 200 {
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
	if r.Ends != (Ends{ByRead: 200}) || r.Latency[ReadDelay].Count() != 0 || r.Latency[Service].Mean() != r.Latency[ServiceRead].Mean() {
		t.Errorf("by reading: %+v", r.Ends)
	}
}
