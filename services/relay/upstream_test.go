package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
	"dyno/services/internal/sockets"
)

// names answers lookups of any name.
type names struct {
	mu      sync.Mutex // guards the following fields
	hosts   []string
	err     error
	lookups int
}

func (n *names) set(hosts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts = hosts
}

func (n *names) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *names) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookups
}

func (n *names) lookup(ctx context.Context, a serve.Address) (list []sockets.Remote, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups++
	if n.err != nil {
		return nil, n.err
	}
	_, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return nil, err
	}
	for _, host := range n.hosts {
		one, err := sockets.Lookup(ctx, serve.Address{Network: "tcp", Address: net.JoinHostPort(host, port)})
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	return list, nil
}

// named starts a relay to a name, whose upstreams have that port.
func (b bed) named(n *names, port int, change func(*Config)) *Server {
	b.Helper()
	s, stop := b.start(fmt.Sprintf("backend.test:%d", port), change, func(s *Server) { s.upstream.lookup = n.lookup })
	b.Cleanup(stop)
	return s
}

// greeter is an upstream at a loopback address that says which it is.
func (b bed) greeter(host string, port int) (_ int, stop func()) {
	b.Helper()
	l, err := serve.Listen(b.Context(), net.JoinHostPort(host, strconv.Itoa(port)), nil)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, host)
			_ = c.Close()
		}
	}()
	stop = sync.OnceFunc(func() { _ = l.Close(); <-done })
	b.Cleanup(stop)
	return l.Addr().(*net.TCPAddr).Port, stop
}

// renamed: the upstream's name leads elsewhere, and the next connection finds it there.
func renamed(b bed) {
	var n names
	n.set("127.0.0.2")
	port, stop := b.greeter("127.0.0.2", 0)
	s := b.named(&n, port, nil)
	b.wantEnd(b.dial(s), "127.0.0.2")
	stop()
	b.greeter("127.0.0.3", port)
	n.set("127.0.0.3")
	for range 3 {
		b.wantEnd(b.dial(s), "127.0.0.3")
	}
	if got := n.count(); got != 2 {
		b.Errorf("%d lookups, want one at the start and one when connecting failed", got)
	}
}

// severalAddresses: the first address that accepts is used, and then first.
func severalAddresses(b bed) {
	var n names
	n.set("127.0.0.2", "127.0.0.3", "127.0.0.4")
	port, stop := b.greeter("127.0.0.4", 0)
	s := b.named(&n, port, nil)
	b.wantEnd(b.dial(s), "127.0.0.4")
	if at := s.upstream.current.Load().first.Load(); at != 2 {
		b.Errorf("connections begin with address %d, want that which accepts", at)
	}
	stop()
	b.greeter("127.0.0.2", port)
	b.wantEnd(b.dial(s), "127.0.0.2")
	if got := n.count(); got != 1 {
		b.Errorf("%d lookups, although there always was an address that accepts", got)
	}
}

// silentAddress: a silent address takes only its share of the time. A name without further addresses is looked up
// meanwhile.
func silentAddress(b bed) {
	fd := b.deaf(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}})
	sa, err := unix.Getsockname(fd)
	if err != nil {
		b.Fatal(err)
	}
	port := sa.(*unix.SockaddrInet4).Port
	b.greeter("127.0.0.3", port)
	patient := func(c *Config) { c.ConnectTimeout = 3 * time.Second }
	var n names
	n.set("127.0.0.2", "127.0.0.3")
	b.wantEnd(b.dial(b.named(&n, port, patient)), "127.0.0.3")
	n.set("127.0.0.2")
	s := b.named(&n, port, patient)
	n.set("127.0.0.3")
	b.wantEnd(b.dial(s), "127.0.0.3")
	n.set("127.0.0.2")
	s = b.named(&n, port, func(c *Config) { c.ConnectTimeout = 200 * time.Millisecond })
	b.wantTurnedAway(s)
	b.wantCount(s, connectTimeout, 1)
}

// refusesAll: if no address accepts and no other is found, the connection fails as with one address, which is
// logged.
func refusesAll(b bed) {
	port, stop := b.greeter("127.0.0.2", 0)
	stop()
	var n names
	n.set("127.0.0.2", "127.0.0.3")
	var logged record
	s := b.named(&n, port, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	b.wantTurnedAway(s)
	b.wantCount(s, connectRefused, 1)
	n.fail(errors.New("no such name"))
	b.wantTurnedAway(s)
	b.wantCount(s, connectRefused, 2)
	n.fail(nil)
	for _, want := range []string{
		"level=WARN msg=\"connection failed\"", "reason=connect_refused", fmt.Sprintf("127.0.0.3:%d", port), "client=127.0.0.1:", "no such name",
	} {
		b.eventually("the log has "+want, func() bool { return logged.has(want) })
	}
	b.greeter("127.0.0.2", port)
	b.wantEnd(b.dial(s), "127.0.0.2")
}

// longHeader: the log says whose PROXY protocol header was longer than its bound, and by how much.
func longHeader(b bed) {
	var logged record
	s := b.relay(b.echo(), func(c *Config) {
		c.ProxyIn, c.Logger = ProxyInRequire, slog.New(slog.NewTextHandler(&logged, nil))
	})
	c := b.dial(s)
	if _, err := io.WriteString(c, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x10\x00"); err != nil {
		b.Fatal(err)
	}
	b.wantReset(c)
	for _, want := range []string{"level=WARN", "client=" + c.LocalAddr().String(), "too long: 4112 bytes: must have 2048 at most"} {
		b.eventually("the log has "+want, func() bool { return logged.has(want) })
	}
}

// A record is a log.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.text.Bytes(), []byte(text))
}

// TestLookups: a name is looked up periodically, not too often, and its addresses stay if a look-up fails. A caller
// gets a lookup that has begun after its call. An address without a name is never looked up again.
func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n names
		n.set("192.0.2.1", "192.0.2.2")
		var logged record
		u := &upstream{
			address: serve.Address{Network: "tcp", Address: "name.test:1"}, lookup: n.lookup, timeout: time.Second,
			log: slog.New(slog.NewTextHandler(&logged, nil)), changed: func() {}, asked: make(chan struct{}, 1),
		}
		if err := u.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); u.run(ctx) }()
		want := func(lookups int, addresses ...string) {
			t.Helper()
			synctest.Wait()
			if got := texts(u.current.Load().remotes); n.count() != lookups || !slices.Equal(got, addresses) {
				t.Errorf("%d lookups and %v, want %d and %v", n.count(), got, lookups, addresses)
			}
		}
		want(1, "192.0.2.1:1", "192.0.2.2:1")
		u.current.Load().accepted(1)
		n.set("192.0.2.3", "192.0.2.2")
		time.Sleep(lookupEvery - 1)
		want(1, "192.0.2.1:1", "192.0.2.2:1")
		time.Sleep(time.Nanosecond)
		want(2, "192.0.2.3:1", "192.0.2.2:1")
		if at := u.current.Load().first.Load(); at != 1 || !logged.has("other addresses") {
			t.Errorf("begins with %d, and logged %s", at, &logged.text)
		}
		for range 10 { // at the same time
			r := u.route()
			if !u.ask(&r) || u.ask(&r) || u.renewed(&r) {
				t.Error("a route asks once, and waits")
			}
		}
		want(2, "192.0.2.3:1", "192.0.2.2:1") // the pause is not over
		time.Sleep(lookupPause)
		want(3, "192.0.2.3:1", "192.0.2.2:1")

		n.fail(errors.New("no server"))
		r := u.route()
		more := make(chan bool)
		go func() { more <- r.next() && !r.next() && u.more(ctx, &r) }()
		time.Sleep(lookupPause)
		if <-more {
			t.Error("there are more addresses")
		}
		want(4, "192.0.2.3:1", "192.0.2.2:1")
		if !logged.has("no server") {
			t.Error("the log does not say that the name cannot be looked up")
		}
		n.fail(nil)
		time.Sleep(lookupEvery)
		want(5, "192.0.2.3:1", "192.0.2.2:1")
		stop()
		<-ended

		u.address.Address = "192.0.2.1:1"
		if err := u.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = u.route()
		if u.run(t.Context()); u.ask(&r) {
			t.Error("an address is looked up")
		}
	})
}

// TestEventOfAnEarlierAddress: an event of an earlier address does not make the pair's next address connected.
func TestEventOfAnEarlierAddress(t *testing.T) {
	b := bed{t, Epoll}
	fd := b.deaf(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}})
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	to := serve.Address{Network: "tcp", Address: fmt.Sprintf("127.0.0.2:%d", sa.(*unix.SockaddrInet4).Port)}
	remotes, err := sockets.Lookup(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Defaults()
	cfg.Listen, cfg.To, cfg.Model = "127.0.0.1:0", to.String(), Epoll
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.slots.freed = func() {}
	poll, err := loop.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poll.Close()
	client, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client[1])
	c := s.newCarrier(poll, new(atomic.Uint32))
	var p pair
	p.init(accepted{fd: client[0]}, 2, &net.UnixAddr{Net: "unix"})
	p.state, p.route, p.deadline = connecting, route{view: newView(0, remotes), tried: 1, wanted: 1}, c.after(10)
	if got := c.try(&p); got != waiting {
		t.Fatalf("connecting is %d, want that it waits", got)
	}
	if got := c.step(&p, ready(1, loop.Out|loop.Error|loop.Hangup)); got != waiting || p.state != connecting {
		t.Errorf("after the event it is %d and in state %d, want %d and %d", got, p.state, waiting, connecting)
	}
	if got := c.step(&p, kill); got != over {
		t.Errorf("after the end it is %d", got)
	}
}
