package relay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"
)

// TestConformance tests the contract in the package comment, for every model.
func TestConformance(t *testing.T) {
	contract := []struct {
		name string
		test func(bed)
	}{
		{"integrity", integrity},
		{"integrity with small buffers and budget", integritySmall},
		{"server half-close", serverHalfClose},
		{"backpressure", backpressure},
		{"idle", idle},
		{"refused", refused},
		{"connect timeout tcp", connectTimeoutTCP},
		{"connect timeout unix", connectTimeoutUnix},
		{"upstream renamed", renamed},
		{"upstream with several addresses", severalAddresses},
		{"upstream with a silent address", silentAddress},
		{"upstream nowhere", refusesAll},
		{"full reject", fullReject},
		{"full wait", fullWait},
		{"drain", drains},
		{"drain deadline", drainDeadline},
		{"proxy in and out", proxyInOut},
		{"proxy out alone", proxyOutAlone},
		{"proxy header bad", proxyHeaderBad},
		{"proxy header slow", proxyHeaderSlow},
		{"proxy header long", longHeader},
		{"reset by client", resetFromClient},
		{"reset by server", resetFromServer},
		{"reset of a blocked connection", resetWhileBlocked},
		{"no descriptor left", noDescriptor},
		{"unix", overUnix},
		{"unix descriptors", unixDescriptors},
		{"urgent", urgent},
		{"churn", churn},
	}
	for _, m := range models {
		t.Run(string(m), func(t *testing.T) {
			// First run one relay: descriptors that the runtime opens once are no leak.
			warm := bed{t, m}
			_, stop := warm.stoppable(warm.echo(), nil)
			stop()
			before := descriptors(t)
			for _, c := range contract {
				t.Run(c.name, func(t *testing.T) { c.test(bed{t, m}) })
			}
			b := bed{t, m}
			b.eventually("no descriptor left over", func() bool { return descriptors(t) <= before })
		})
	}
}

func integrity(b bed) { exchanges(b, b.relay(b.echo(), nil), 40, 300_000) }

func exchanges(b bed, s *Server, conns, size int) {
	b.Helper()
	var all sync.WaitGroup
	for i := range conns {
		c := b.dial(s)
		all.Go(func() {
			if err := exchange(c, uint64(i), i*size/conns); err != nil {
				b.Errorf("connection %d: %v", i, err)
			}
		})
	}
	all.Wait()
	b.wantCount(s, ended, uint64(conns))
	want := uint64(0)
	for i := range conns {
		want += uint64(i * size / conns)
	}
	if st := s.Stats(); st.ToServer != want || st.ToClient != want {
		b.Errorf("counted %d bytes to the server and %d to clients, want %d", st.ToServer, st.ToClient, want)
	}
}

func integritySmall(b bed) {
	s := b.relay(b.echo(), func(c *Config) {
		c.BufferBytes, c.ReadBudgetBytes, c.Queue, c.Workers = 4<<10, 1, 2, 3
	})
	exchanges(b, s, 20, 400_000)
	if n := s.Stats().BudgetExhausted; b.model != Goroutine && n == 0 {
		b.Error("no budget was ever used up")
	}
}

// serverHalfClose: the server ends first and still gets what the client sends.
func serverHalfClose(b bed) {
	got := make(chan string, 1)
	s := b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.WriteString(c, "first")
		_ = c.(duplex).CloseWrite()
		all, _ := io.ReadAll(c)
		got <- string(all)
	}), nil)
	c := b.dial(s)
	b.wantEnd(c, "first")
	_, _ = io.WriteString(c, "second")
	_ = c.CloseWrite()
	if text := <-got; text != "second" {
		b.Errorf("the server got %q after its end", text)
	}
	b.wantCount(s, ended, 1)
}

// backpressure: a client that does not read makes the server wait, and not the
// relay grow.
func backpressure(b bed) {
	const size, bound = 48 << 20, 32 << 10
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	s := b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		for n := 0; n < size; n += len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}), func(c *Config) { c.BufferBytes = bound })
	c := b.dial(s)

	b.eventually("the relay holds bytes and its output stands still", func() bool {
		before := s.Stats()
		time.Sleep(50 * time.Millisecond)
		after := s.Stats()
		if after.Buffered > bound {
			b.Fatalf("%d bytes buffered, want at most %d", after.Buffered, bound)
		}
		return after.Buffered > 0 && before.ToClient == after.ToClient
	})
	if n := s.Stats().ToClient; n == size {
		b.Fatal("everything was taken: nothing was held back")
	}
	buf, total := make([]byte, len(chunk)), 0
	for total < size {
		n, err := io.ReadFull(c, buf)
		if err != nil {
			b.Fatalf("after %d bytes: %v", total+n, err)
		}
		if !bytes.Equal(buf, chunk) {
			b.Fatalf("wrong bytes in the 64 KiB from %d", total)
		}
		total += n
	}
	b.wantEnd(c, "")
	_ = c.Close()
	b.wantCount(s, ended, 1)
}

// idle: a silent connection ends, a busy one stays.
func idle(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.IdleTimeout = time.Second })
	busy, silent := b.dial(s), b.dial(s)
	b.ping(silent, "once")
	for s.Stats().Ends[idled.String()] == 0 {
		b.ping(busy, "again")
	}
	b.wantEnd(silent, "")
	b.ping(busy, "still here")
}

func refused(b bed) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	_ = l.Close() // its port refuses now
	s := b.relay(l.Addr().String(), nil)
	b.wantTurnedAway(s)
	b.wantCount(s, connectRefused, 1)

	s = b.relay("unix:"+b.socket(), nil)
	b.wantTurnedAway(s)
	b.wantCount(s, connectRefused, 1)
}

// connectTimeoutTCP connects to a listener that never accepts and whose queue is
// full: the kernel drops further attempts in silence.
func connectTimeoutTCP(b bed) {
	fd := b.deaf(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	sa, err := unix.Getsockname(fd)
	if err != nil {
		b.Fatal(err)
	}
	b.connectTimesOut(fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port))
}

func connectTimeoutUnix(b bed) {
	path := b.socket()
	b.deaf(unix.AF_UNIX, &unix.SockaddrUnix{Name: path})
	b.connectTimesOut("unix:" + path)
}

func (b bed) connectTimesOut(to string) {
	s := b.relay(to, func(c *Config) { c.ConnectTimeout = 200 * time.Millisecond })
	b.wantTurnedAway(s)
	b.wantCount(s, connectTimeout, 1)
}

// deaf returns a listening socket with a full queue.
func (b bed) deaf(domain int, sa unix.Sockaddr) int {
	socket := func() int {
		fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	l := socket()
	if err := errors.Join(unix.Bind(l, sa), unix.Listen(l, 0)); err != nil {
		b.Fatal(err)
	}
	bound, err := unix.Getsockname(l)
	if err != nil {
		b.Fatal(err)
	}
	for range 4 {
		if err := unix.Connect(socket(), bound); err != nil && err != unix.EINPROGRESS && err != unix.EAGAIN {
			b.Fatal(err)
		}
	}
	return l
}

func fullReject(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.MaxConnections, c.Full = 1, Reject })
	first := b.dial(s)
	b.ping(first, "in")
	b.wantTurnedAway(s)
	b.wantCount(s, rejected, 1)
	b.ping(first, "still in")
	_ = first.Close()
	b.wantCount(s, ended, 1)
	b.ping(b.dial(s), "room again")
}

func fullWait(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.MaxConnections, c.Full = 1, Wait })
	for i := range 20 {
		first, second := b.dial(s), b.dial(s)
		b.ping(first, "in")
		if _, err := io.WriteString(second, "patience"); err != nil {
			b.Fatal(err)
		}
		b.ping(first, "still in")
		if st := s.Stats(); st.Open != 1 || st.Rejected != 0 {
			b.Fatalf("%d connections are open and %d were rejected, want 1 and 0", st.Open, st.Rejected)
		}
		_ = first.Close()
		got := make([]byte, len("patience"))
		if _, err := io.ReadFull(second, got); err != nil || string(got) != "patience" {
			b.Fatalf("round %d: the one that waited got %q, %v", i, got, err)
		}
		_ = second.Close()
	}
	b.wantCount(s, ended, 40)
}

// drains: no new connections, old ones go on.
func drains(b bed) {
	s, stop := b.stoppable(b.echo(), func(c *Config) { c.DrainTimeout = hang })
	c := b.dial(s)
	b.ping(c, "before")
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	b.eventually("new connections refused", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	b.ping(c, "while draining")
	_ = c.Close()
	<-stopped
	if n := s.Stats().Ends[cut.String()]; n != 0 {
		b.Errorf("%d connections were cut", n)
	}
}

func drainDeadline(b bed) {
	s, stop := b.stoppable(b.echo(), func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	conns := make([]duplex, 10)
	for i := range conns {
		conns[i] = b.dial(s)
		b.ping(conns[i], "before")
	}
	stop()
	for _, c := range conns {
		b.wantReset(c)
	}
	b.wantCount(s, cut, uint64(len(conns)))
}

// headerUpstream reads a PROXY protocol header, writes down its source, and
// echoes the rest.
func (b bed) headerUpstream() (to string, sources chan string) {
	sources = make(chan string, 1)
	return b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		r := bufio.NewReader(c)
		h, err := proxyproto.Read(r)
		switch {
		case err != nil:
			sources <- err.Error()
		case h.SourceAddr == nil:
			sources <- fmt.Sprintf("v%d unknown", h.Version)
		default:
			sources <- fmt.Sprintf("v%d %v > %v", h.Version, h.SourceAddr, h.DestinationAddr)
		}
		_, _ = io.Copy(c, r)
	}), sources
}

func proxyInOut(b bed) {
	v6 := &proxyproto.Header{
		Version: 2, Command: proxyproto.PROXY, TransportProtocol: proxyproto.TCPv6,
		SourceAddr:      &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1000},
		DestinationAddr: &net.TCPAddr{IP: net.ParseIP("2001:db8::2"), Port: 2000},
	}
	v2, err := v6.Format()
	if err != nil {
		b.Fatal(err)
	}
	local, err := (&proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}).Format()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		out      ProxyOut
		in, want string
	}{
		{ProxyOutV1, "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n", "v1 192.0.2.1:1000 > 192.0.2.2:2000"},
		{ProxyOutV2, "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n", "v2 192.0.2.1:1000 > 192.0.2.2:2000"},
		{ProxyOutV1, string(v2), "v1 [2001:db8::1]:1000 > [2001:db8::2]:2000"},
		{ProxyOutV2, string(v2), "v2 [2001:db8::1]:1000 > [2001:db8::2]:2000"},
		{ProxyOutV1, "PROXY UNKNOWN\r\n", "v1 unknown"},
		{ProxyOutV2, string(local), "v2 unknown"},
	} {
		to, sources := b.headerUpstream()
		s := b.relay(to, func(cfg *Config) { cfg.ProxyIn, cfg.ProxyOut = ProxyInRequire, c.out })
		// Whole, with the first bytes; then byte by byte.
		conn := b.dial(s)
		b.pingAfter(conn, c.in, "early")
		if got := <-sources; got != c.want {
			b.Errorf("%q as %s: upstream saw %q, want %q", c.in, c.out, got, c.want)
		}
		b.ping(conn, "late")
		conn = b.dial(s)
		for i := range len(c.in) {
			if _, err := io.WriteString(conn, c.in[i:i+1]); err != nil {
				b.Fatal(err)
			}
		}
		if got := <-sources; got != c.want {
			b.Errorf("%q in pieces as %s: upstream saw %q, want %q", c.in, c.out, got, c.want)
		}
		b.ping(conn, "late")
	}
	// Without a header to the upstream, none of it arrives there.
	s := b.relay(b.echo(), func(cfg *Config) { cfg.ProxyIn = ProxyInRequire })
	conn := b.dial(s)
	b.pingAfter(conn, string(v2), "early")
	b.ping(conn, "late")
}

func proxyOutAlone(b bed) {
	for _, v := range []ProxyOut{ProxyOutV1, ProxyOutV2} {
		to, sources := b.headerUpstream()
		s := b.relay(to, func(c *Config) { c.ProxyOut = v })
		c := b.dial(s)
		// The header is sent without waiting for the client to speak.
		if got, want := <-sources, fmt.Sprintf("%s %v > %v", v, c.LocalAddr(), s.Addr()); got != want {
			b.Errorf("upstream saw %q, want %q", got, want)
		}
		b.ping(c, "hello")
	}
	// Unix addresses mean nothing to version 1.
	to, sources := b.headerUpstream()
	s := b.relay(to, func(c *Config) { c.ProxyOut, c.Listen = ProxyOutV1, "unix:"+b.socket() })
	c := b.dial(s)
	if got := <-sources; got != "v1 unknown" {
		b.Errorf("upstream saw %q for a unix client", got)
	}
	b.ping(c, "hello")
}

func proxyHeaderBad(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.ProxyIn = ProxyInRequire })
	bad := []string{
		"GET / HTTP/1.1\r\n\r\n",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1000 99999\r\n",
		"PROXY " + string(bytes.Repeat([]byte("x"), 200)),
		string(proxyproto.SIGV2) + "\x21\x11\xff\xff",
	}
	for i, text := range bad {
		c := b.dial(s)
		if _, err := io.WriteString(c, text); err != nil {
			b.Fatal(err)
		}
		b.wantReset(c)
		b.wantCount(s, headerBad, uint64(i+1))
	}
	c := b.dial(s)
	_, _ = io.WriteString(c, "PROX")
	_ = c.CloseWrite()
	b.wantReset(c)
	b.wantCount(s, headerBad, uint64(len(bad)+1))
	if st := s.Stats(); st.Failed != uint64(len(bad)+1) || st.ToServer != 0 {
		b.Errorf("%d failed and %d bytes went upstream, want %d and 0", st.Failed, st.ToServer, len(bad)+1)
	}
}

func proxyHeaderSlow(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.ProxyIn, c.HeaderTimeout = ProxyInRequire, 200*time.Millisecond })
	c := b.dial(s)
	_, _ = io.WriteString(c, "PROXY TC")
	b.wantReset(c)
	b.wantCount(s, headerTimeout, 1)
}

func resetFromClient(b bed) {
	errs := make(chan error, 1)
	s := b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		_, err := io.Copy(c, c)
		errs <- err
	}), nil)
	c := b.dial(s)
	b.ping(c, "hello")
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if err := <-errs; !errors.Is(err, syscall.ECONNRESET) {
		b.Errorf("the server saw %v, want a reset", err)
	}
	b.wantCount(s, resetByClient, 1)
}

func resetFromServer(b bed) {
	s := b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.CopyN(c, c, 5)
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0)
	}), nil)
	c := b.dial(s)
	b.ping(c, "hello")
	_, _ = io.WriteString(c, "!")
	b.wantReset(c)
	b.wantCount(s, resetByTarget, 1)
}

// resetWhileBlocked: a client does not read, and bytes for it are waiting. Its reset
// reaches the server. The server's reset reaches the client, in the goroutine model only
// once it reads again.
func resetWhileBlocked(b bed) {
	errs := make(chan error, 1)
	s := b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		_, err := io.Copy(c, io.LimitReader(zeros{}, 1<<30))
		errs <- err
	}), nil)
	c := b.dial(s)
	b.eventually("blocked", func() bool { return s.Stats().Buffered > 0 })
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if err := <-errs; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		b.Errorf("the server saw %v, want a reset", err)
	}
	b.wantCount(s, resetByClient, 1)

	breakIt := make(chan struct{})
	s = b.relay(b.upstream("tcp", "127.0.0.1:0", func(c net.Conn) {
		flooded := make(chan struct{})
		go func() { defer close(flooded); _, _ = io.Copy(c, io.LimitReader(zeros{}, 1<<30)) }()
		<-breakIt
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		<-flooded
	}), nil)
	c = b.dial(s)
	b.eventually("blocked", func() bool { return s.Stats().Buffered > 0 })
	close(breakIt)
	if b.model != Goroutine {
		b.wantCount(s, resetByTarget, 1)
	}
	b.wantReset(c)
	b.wantCount(s, resetByTarget, 1)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// noDescriptor: when descriptors run out, connections fail or wait, without the relay
// spinning; when some are free again, it serves as before.
func noDescriptor(b bed) {
	var logged lines
	s := b.relay(b.echo(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			b.Fatal(err)
		}
	}
	defer restore()
	few := limit
	few.Cur = uint64(descriptors(b.T) + 30)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		b.Fatal(err)
	}
	var conns []net.Conn
	var err error
	for range 200 {
		var c net.Conn
		if c, err = net.Dial("tcp", s.Addr().String()); err != nil {
			break
		}
		conns = append(conns, c)
	}
	time.Sleep(100 * time.Millisecond) // for spinning, if any
	restore()
	if n := logged.n.Load(); n > 500 {
		b.Errorf("%d records logged during the shortage", n)
	}
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ECONNRESET) {
		b.Errorf("the shortage showed as %v", err)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	b.ping(b.dial(s), "hello")
}

// lines counts what is written to it, a line at a time.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) { l.n.Add(1); return len(p), nil }

func overUnix(b bed) {
	to := b.upstream("unix", b.socket(), func(c net.Conn) { _, _ = io.Copy(c, c) })
	path := b.socket()
	s, stop := b.stoppable(to, func(c *Config) { c.Listen = "unix:" + path })
	exchanges(b, s, 10, 300_000)
	stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		b.Errorf("the socket is still there: %v", err)
	}
}

// unixDescriptors: a read stops short at a passed descriptor though more bytes
// follow it.
func unixDescriptors(b bed) {
	s := b.relay(b.echo(), func(c *Config) { c.Listen = "unix:" + b.socket() })
	c := b.dial(s).(*net.UnixConn)
	b.ping(c, "hello")
	null, err := os.Open(os.DevNull)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	var want []byte
	for i := range 50 {
		text := fmt.Sprintf("message %d;", i)
		if _, _, err := c.WriteMsgUnix([]byte(text), unix.UnixRights(int(null.Fd())), nil); err != nil {
			b.Fatal(err)
		}
		want = append(want, text...)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		b.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// urgent: the urgent byte is dropped, the bytes around it are not.
func urgent(b bed) {
	s := b.relay(b.echo(), nil)
	c := b.dial(s)
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	for i := range 50 {
		b.ping(c, fmt.Sprintf("before %d", i))
		var serr error
		if err := raw.Write(func(fd uintptr) bool {
			for _, m := range []struct {
				text  string
				flags int
			}{{"around", 0}, {"!", unix.MSG_OOB}, {"it", 0}} {
				serr = errors.Join(serr, unix.Sendto(int(fd), []byte(m.text), m.flags, nil))
			}
			return true
		}); err != nil || serr != nil {
			b.Fatal(err, serr)
		}
		got := make([]byte, len("aroundit"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "aroundit" {
			b.Fatalf("got %q, %v", got, err)
		}
	}
}

// churn: connections that come and go, some of them rudely.
func churn(b bed) {
	s := b.relay(b.echo(), nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 50 {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.WriteString(c, "hello")
				if i%3 > 0 {
					_, _ = io.ReadFull(c, make([]byte, 5))
				}
				if i%2 > 0 {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	b.eventually("all connections ended", func() bool {
		st := s.Stats()
		return st.Accepted == 200 && st.Open == 0
	})
}
