//go:build !portable

package clock

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// faked are clocks; each Reading takes the next of some delays.
type faked struct {
	at, ahead int64
	delays    []int64
}

func (f *faked) tick() int64 {
	f.at += f.delays[0]
	f.delays = append(f.delays[1:], f.delays[0])
	return f.at
}
func (f *faked) Now() int64  { return f.tick() }
func (f *faked) real() int64 { return f.tick() + f.ahead }

// The true offset is always within the bounds. An interrupted look does not widen them, and the next
// look detects a step.
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

// A pipe is a TCP connection over loopback. The Reading end bears stamps.
type pipe struct {
	*Clock
	buffer   []byte
	to, from int
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	c := New(time.Now().Add(-time.Second))
	p := &pipe{Clock: &c, buffer: make([]byte, 64)}
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
		p.Close()
		unix.Close(p.from)
		unix.Close(p.to)
	})
	err = p.StartStamping(unix.AF_INET)
	if errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel does not stamp when a packet arrived (gVisor does not): %v", err)
	}
	must(err)
	must(RequestStamps(p.from))
	// The kernel begins to stamp a moment after it was asked: later on a busy machine.
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		p.send(t, "x")
		if _, r, _ := p.Read(int32(p.from), p.buffer, true, 0); r.Stamp == Stamped {
			return p
		}
	}
	t.Fatal("no stamps")
	return nil
}

// newDatagrams is the like of UDP, for the same clock.
func newDatagrams(t *testing.T, p *pipe) *pipe {
	t.Helper()
	d := &pipe{Clock: p.Clock}
	for _, fd := range []*int{&d.from, &d.to} {
		var err error
		if *fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(*fd) })
	}
	err := unix.Bind(d.from, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = RequestStamps(d.from)
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
	from = p.Now()
	if _, err := unix.Write(p.to, []byte(s)); err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(p.from), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 30_000); n != 1 {
		t.Fatalf("nothing arrived: %v", err)
	}
	return from, p.Now()
}

// pass lets time pass without giving the thread away for long.
func (p *pipe) pass(d time.Duration) {
	for until := p.Now() + int64(d); p.Now() < until; {
	}
}

// Late reads keep the time of arrival.
func TestRead(t *testing.T) {
	p := newPipe(t)
	const wait = 2 * time.Millisecond
	from, to := p.send(t, "one")
	p.pass(wait)
	n, r, errno := p.Read(int32(p.from), p.buffer, true, from)
	if n != 3 || errno != 0 || r.Stamp != Stamped {
		t.Fatalf("%d bytes, %v, %+v", n, errno, r)
	}
	if u := p.offset.worst; r.Arrived < from-u || r.Arrived > to+u || r.Read < to+int64(wait) {
		t.Errorf("sent %d to %d, arrived %d, read %d", from, to, r.Arrived, r.Read)
	}

	// Without asking, Reading is what there is.
	p.send(t, "two")
	if n, r, _ := p.Read(int32(p.from), p.buffer, false, 0); n != 3 || r.Stamp != Unstamped || r.Arrived != r.Read {
		t.Errorf("%d bytes, %+v: want no stamp", n, r)
	}

	// Two segments in one read bear the later one's stamp.
	_, first := p.send(t, "three")
	p.pass(wait)
	second, _ := p.send(t, "four")
	n, r, _ = p.Read(int32(p.from), p.buffer, true, 0)
	if n != 9 || r.Stamp != Stamped || r.Arrived < second-p.offset.worst {
		t.Errorf("%d bytes, the first by %d, the second from %d, %+v", n, first, second, r)
	}
}

// A stamp that cannot be true is refused, and the read is what counts.
func TestRefusedStamps(t *testing.T) {
	p := newPipe(t)
	refused := func(name string, want Stamp, r Reading) {
		t.Helper()
		if r.Stamp != want || r.Arrived != r.Read {
			t.Errorf("%s: %+v", name, r)
		}
	}
	take := func(empty int64) Reading {
		t.Helper()
		p.send(t, "x")
		_, r, _ := p.Read(int32(p.from), p.buffer, true, empty)
		return r
	}
	// The socket was empty after the stamp: the kernel was slow, as nothing came out of
	// order, or that cannot be known. The latter is so of UDP.
	_, to := p.send(t, "x")
	p.pass(time.Duration(2 * held))
	if _, r, _ := p.Read(int32(p.from), p.buffer, true, to+held+p.offset.worst+1); r.Stamp != Stamped {
		t.Errorf("the kernel was slow: %+v", r)
	}
	datagrams := newDatagrams(t, p)
	_, to = datagrams.send(t, "x")
	p.pass(time.Duration(2 * held))
	_, r, _ := p.Read(int32(datagrams.from), p.buffer, true, to+held+p.offset.worst+1)
	refused("segments were out of order", Stale, r)
	from, _ := datagrams.send(t, "x")
	if _, r, _ := p.Read(int32(datagrams.from), p.buffer, true, from+held-p.offset.worst); r.Stamp != Stamped {
		t.Errorf("stamped just before the socket was empty: %+v", r)
	}
	refused("before the write", Early, take(0).After(p.Now()))
	p.offset.next = math.MaxInt64 // it does not notice
	p.offset.low, p.offset.high = p.offset.low-3600e9, p.offset.high-3600e9
	refused("after the read", Late, take(0))
}
