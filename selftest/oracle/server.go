package oracle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/descriptors"

	"golang.org/x/sys/unix"
)

// A Server listens and answers until it is closed or its context ends. Its
// methods may be called from any goroutine.
type Server struct {
	config Config
	policy policy
	addr   netip.AddrPort
	start  time.Time // zero of the server's clock

	epoll, wake, clock int // descriptors: epoll, eventfd, timerfd
	listener           int

	closing atomic.Bool
	done    chan struct{} // closed when the loop has ended
	err     error         // why it ended, read after done
	unhook  func() bool   // detaches the server from its context

	// gate guards released. It keeps wake open while it is written to: the number of a closed
	// descriptor may be in use again.
	gate     sync.Mutex
	released bool

	// mu guards what follows, and whatever the policy owns. The loop holds it
	// while it handles events, never while it waits, so readers get in between.
	mu       sync.Mutex
	traffic  Traffic
	conns    []*conn // by descriptor
	open     int
	hearing  bool // epoll watches the listener
	refusing bool // the listener does not listen
	timers   timers
	armed    int64  // when the timerfd fires, 0: not set
	buf      []byte // for one read
	scratch  []byte // for one answer
	body     []byte // of every answer
	lastRaw  []byte // the last request's head, as most requests are alike,
	lastHead head   // and what it said
}

// Traffic counts what a server has seen since it started. Once the server is
// closed, Received = Answered + Abandoned.
type Traffic struct {
	Accepted  int64 // connections
	Received  int64 // requests, in full
	Answered  int64 // requests dealt with: answered, or what a fault makes of that
	Abandoned int64 // requests whose connection ended before they were dealt with
	Partial   int64 // requests that arrived in part
	Malformed int64 // requests refused because their framing is broken or not supported
}

// A policy decides what becomes of requests. Its functions run on the loop's
// thread with Server.mu held; those that are nil are not called.
type policy struct {
	// request takes a request received in full. It, or a later due, must end it
	// by finish, by cut, or by leaving it to the connection's end.
	request func(*conn)

	due  func(*conn) // a time set by after has come
	gone func(*conn) // the connection of a request not yet ended has closed
	tick func()      // a time set by after with no connection has come
	idle func()      // there was nothing to read or write

	// afterCycle is called when a cycle of the loop is over: one wait, the nanoseconds of it that
	// were slept, and all that came of it.
	afterCycle func(slept int64)
}

// A conn is one client's connection, used by the loop only.
type conn struct {
	fd       int
	in       []byte // received, not yet framed; bounded by room
	out      []byte // sent, not yet taken by the kernel; while there is any, no request is framed
	interest uint32 // what epoll watches
	hangup   bool   // close once out is empty
	closed   bool

	// The current request.
	busy    bool  // it is the policy's
	skip    int64 // bytes of its body still to come
	head    head
	payload []byte // TCP: its bytes, to be echoed
	seq     int    // Timed: its number
	arrival int64  // Timed: when its last byte had been read
	deed    Deed   // Faulty: what is done with it,
	slow    []byte // its slow answer,
	sent    int    // and how much of that has been sent
	feed    *feed  // Stream: what it is sent
}

// StartNull starts a server that answers at once: HTTP requests with the same
// bytes each, TCP bytes with themselves.
func StartNull(ctx context.Context, config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	s.policy.request = s.answerer()
	s.run(ctx)
	return s, nil
}

// answerer returns a policy's request function that answers at once.
func (s *Server) answerer() func(*conn) {
	if s.config.Protocol == TCP {
		return func(c *conn) {
			s.send(c, c.payload)
			s.finish(c)
		}
	}
	usual := append(appendOK(nil, len(s.body), false), s.body...)
	return func(c *conn) {
		if c.head.close || c.head.noAns {
			s.answer(c)
		} else {
			s.send(c, usual)
		}
		s.finish(c)
	}
}

// listen opens a server's descriptors; run starts it.
func listen(config Config) (_ *Server, err error) {
	s := &Server{
		config: config.withDefaults(), start: time.Now(), done: make(chan struct{}),
		epoll: -1, wake: -1, clock: -1, listener: -1,
	}
	defer func() {
		if err != nil {
			s.release()
			err = fmt.Errorf("oracle: listen on %s: %w", s.config.Addr, err)
		}
	}()
	if err = descriptors.Enlarge(descriptors.Many); err != nil {
		return nil, err
	}
	s.buf = make([]byte, maxHead)
	s.body = bytes.Repeat([]byte("x"), s.config.Body)
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if s.clock, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	want, err := netip.ParseAddrPort(s.config.Addr)
	if err != nil {
		return nil, err
	}
	if s.listener, s.addr, err = bind(want); err != nil {
		return nil, err
	}
	if err = unix.Listen(s.listener, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	if err = s.control(unix.EPOLL_CTL_ADD, s.wake, unix.EPOLLIN); err != nil {
		return nil, err
	}
	// Edge-triggered: only the wake-up matters, so the timer need not be read.
	if err = s.control(unix.EPOLL_CTL_ADD, s.clock, unix.EPOLLIN|unix.EPOLLET); err != nil {
		return nil, err
	}
	s.hear(true)
	return s, nil
}

// bind returns a socket bound to an address, not yet listening, and the address
// with its port.
func bind(want netip.AddrPort) (fd int, got netip.AddrPort, err error) {
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(want.Port()), Addr: want.Addr().As16()})
	if want.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(want.Port()), Addr: want.Addr().As4()}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, got, fmt.Errorf("socket: %w", err)
	}
	fail := func(err error) (int, netip.AddrPort, error) {
		return -1, got, errors.Join(err, unix.Close(fd))
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fail(fmt.Errorf("setsockopt: %w", err))
	}
	if err = unix.Bind(fd, sa); err != nil {
		return fail(fmt.Errorf("bind: %w", err))
	}
	if want.Port() != 0 {
		return fd, want, nil
	}
	// A port that the kernel chose is lost when the socket stops listening. A requested port is kept
	// (see refuse). So ask for it, while this socket still holds it.
	name, err := unix.Getsockname(fd)
	if err != nil {
		return fail(fmt.Errorf("getsockname: %w", err))
	}
	port := 0
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	fd2, got, err := bind(netip.AddrPortFrom(want.Addr(), uint16(port)))
	if err != nil {
		return fail(err)
	}
	return fd2, got, unix.Close(fd)
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return net.TCPAddrFromAddrPort(s.addr) }

// URL returns the address as an HTTP client wants it.
func (s *Server) URL() string { return "http://" + s.addr.String() + "/" }

// Traffic returns the counts so far.
func (s *Server) Traffic() Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic
}

// Close stops the server, closes its connections and returns when both is done.
// It reports what ended the server, if anything did before. Further calls
// return the same.
func (s *Server) Close() error {
	s.unhook()
	s.signal()
	<-s.done
	s.release()
	return s.err
}

// signal makes the loop end soon, unless it has ended.
func (s *Server) signal() {
	s.closing.Store(true)
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.released {
		return
	}
	one := [8]byte{1} // a counter: not zero on either byte order
	// Fails only when the counter is full, and then the loop is awake already.
	_, _ = unix.Write(s.wake, one[:])
}

// release closes the descriptors that signal and the loop share, once.
func (s *Server) release() {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.released {
		return
	}
	s.released = true
	for _, fd := range []int{s.listener, s.clock, s.wake, s.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written: nothing can be lost
		}
	}
}

// run starts the loop.
func (s *Server) run(ctx context.Context) {
	go func() {
		defer close(s.done)
		s.err = s.loop()
	}()
	s.unhook = context.AfterFunc(ctx, func() {
		s.signal()
		<-s.done
		s.release()
	})
}

// now reads the server's clock: nanoseconds since its start, monotonic.
func (s *Server) now() int64 { return int64(time.Since(s.start)) }

// loop is the server's thread.
func (s *Server) loop() error {
	// Never unlocked: the thread ends with the goroutine, and its affinity too.
	runtime.LockOSThread()
	if len(s.config.CPUs) > 0 {
		var set unix.CPUSet
		for _, cpu := range s.config.CPUs {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return s.end(fmt.Errorf("oracle: cpus: %v: %w", s.config.CPUs, err))
		}
	}
	events := make([]unix.EpollEvent, 256)
	for !s.closing.Load() {
		n, slept, err := s.wait(events)
		if err != nil {
			return s.end(fmt.Errorf("oracle: epoll_wait: %w", err))
		}
		s.mu.Lock()
		for i := range events[:n] {
			s.handle(&events[i])
		}
		s.expire()
		if s.policy.afterCycle != nil {
			s.policy.afterCycle(slept)
		}
		s.mu.Unlock()
	}
	return s.end(nil)
}

// end closes all connections.
func (s *Server) end(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c != nil {
			s.lose(c)
		}
	}
	return err
}

// wait returns what is ready. With nothing ready it sleeps, unless a timer is so
// near that it must return to poll again. For a policy that asks, it says how
// long it slept.
func (s *Server) wait(events []unix.EpollEvent) (n int, slept int64, err error) {
	n, err = poll(s.epoll, events)
	if n != 0 || err != nil {
		return n, 0, err
	}
	s.mu.Lock()
	if s.policy.idle != nil {
		s.policy.idle()
	}
	spin := s.arm()
	s.mu.Unlock()
	if spin {
		return 0, 0, nil
	}
	var before int64
	if s.policy.afterCycle != nil {
		before = s.now()
	}
	n, err = unix.EpollWait(s.epoll, events, -1)
	if s.policy.afterCycle != nil {
		slept = s.now() - before
	}
	if errors.Is(err, unix.EINTR) {
		return 0, slept, nil
	}
	return n, slept, err
}

// arm sets the timerfd for the next timer. It returns true when there is no time
// left to sleep.
func (s *Server) arm() bool {
	due, ok := s.timers.next()
	if !ok {
		return false // the timerfd may still fire once, to no effect
	}
	fire := due - int64(s.config.Spin)
	if s.now() >= fire {
		return true
	}
	if s.armed != fire {
		s.armed = fire
		s.alarm(fire)
	}
	return false
}

// alarm makes the timerfd fire at a time of the server's clock.
func (s *Server) alarm(at int64) {
	rest := max(at-s.now(), 1) // 0 would disarm it
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(rest)}
	if err := unix.TimerfdSettime(s.clock, 0, &spec, nil); err != nil {
		panic(fmt.Sprintf("oracle: timerfd_settime(%d ns): %v", rest, err)) // only arguments can be wrong
	}
}

// after has due called for c, or tick called for nil, at a time of the server's clock.
func (s *Server) after(at int64, c *conn) { s.timers.push(at, c) }

// expire calls what is due.
func (s *Server) expire() {
	for {
		due, ok := s.timers.next()
		if !ok || due > s.now() {
			return
		}
		c := s.timers.pop().conn
		switch {
		case c == nil:
			s.policy.tick()
		case !c.closed:
			s.policy.due(c)
			s.resume(c)
		}
	}
}

// rest does nothing for a while, without reading any connection, but ends early when
// the server is closed. It is called with mu held and lets go of it.
func (s *Server) rest(d time.Duration) {
	until := s.now() + int64(d)
	s.mu.Unlock()
	defer s.mu.Lock()
	s.armed = 0
	s.alarm(until - int64(s.config.Spin))
	fds := []unix.PollFd{{Fd: int32(s.clock), Events: unix.POLLIN}, {Fd: int32(s.wake), Events: unix.POLLIN}}
	for fds[0].Revents == 0 && !s.closing.Load() {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			panic(fmt.Sprintf("oracle: poll: %v", err)) // only arguments can be wrong
		}
	}
	for s.now() < until && !s.closing.Load() {
		continue // spin
	}
}

// handle deals with one event.
func (s *Server) handle(ev *unix.EpollEvent) {
	fd := int(ev.Fd)
	switch fd {
	case s.wake, s.clock:
		return
	case s.listener:
		s.accept()
		return
	}
	if fd >= len(s.conns) || s.conns[fd] == nil {
		return // closed earlier in this batch
	}
	c := s.conns[fd]
	if ev.Events&unix.EPOLLOUT != 0 {
		s.flush(c)
	}
	const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	switch {
	case c.closed:
	case ev.Events&unix.EPOLLIN != 0:
		s.read(c)
	case ev.Events&ended != 0:
		s.lose(c)
	}
	s.resume(c)
}

// accept takes what waits at the listener.
func (s *Server) accept() {
	for range 64 { // then others have their turn
		if s.open >= s.config.Connections {
			s.hear(false)
			return
		}
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			// Wait until one closes. With none open, the process has spent its
			// descriptors elsewhere: keep asking.
			s.hear(s.open == 0)
			return
		case err != nil:
			return // no client, or gone again
		}
		// Either fails only on a socket that is no TCP socket.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		c := &conn{fd: fd, interest: unix.EPOLLIN}
		if err := s.control(unix.EPOLL_CTL_ADD, fd, c.interest); err != nil {
			_ = unix.Close(fd) // out of epoll watches: the client sees a reset
			continue
		}
		for fd >= len(s.conns) {
			s.conns = append(s.conns, nil)
		}
		s.conns[fd] = c
		s.open++
		s.traffic.Accepted++
	}
}

// hear has epoll watch the listener, or not.
func (s *Server) hear(on bool) {
	if on = on && !s.refusing; on == s.hearing {
		return
	}
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	s.hearing = on
	if err := s.control(op, s.listener, unix.EPOLLIN); err != nil {
		panic(fmt.Sprintf("oracle: %v", err)) // the descriptor is ours, and its state known
	}
}

// refuse has new connections refused, or taken again. Connections that waited to
// be accepted are reset.
func (s *Server) refuse(on bool) {
	if on == s.refusing {
		return
	}
	s.refusing = on
	var err error
	if on {
		s.hear(false)
		// On Linux this ends listening but keeps the port, so that others cannot take it.
		err = unix.Shutdown(s.listener, unix.SHUT_RD)
	} else {
		err = unix.Listen(s.listener, unix.SOMAXCONN)
		s.hear(true)
	}
	if err != nil {
		panic(fmt.Sprintf("oracle: refuse(%v): %v", on, err)) // the port is ours throughout
	}
}

func (s *Server) control(op, fd int, interest uint32) error {
	if err := unix.EpollCtl(s.epoll, op, fd, &unix.EpollEvent{Events: interest, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl(%d, %d): %w", op, fd, err)
	}
	return nil
}

// room returns the number of unframed bytes that c may still hold.
func (c *conn) room() int { return maxHead - len(c.in) }

// read takes what the client sent, once: epoll reports again if there is more.
func (s *Server) read(c *conn) {
	room := c.room()
	if room == 0 {
		return
	}
	n, errno := read(c.fd, s.buf[:min(room, len(s.buf))])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0 || n == 0:
		s.lose(c)
	case len(c.in) == 0 && c.idle():
		s.process(c, s.buf[:n])
	default:
		c.in = append(c.in, s.buf[:n]...)
	}
}

// idle tells whether c's next request may be framed.
func (c *conn) idle() bool { return !c.busy && !c.closed && !c.hangup && len(c.out) == 0 }

// resume carries on with what c has buffered, and has epoll watch for what c can
// take.
func (s *Server) resume(c *conn) {
	if len(c.in) > 0 && c.idle() {
		s.process(c, c.in)
	}
	if c.closed {
		return
	}
	var want uint32 = unix.EPOLLIN
	if c.room() == 0 {
		want = unix.EPOLLRDHUP
	}
	if len(c.out) > 0 {
		want |= unix.EPOLLOUT
	}
	if want != c.interest {
		c.interest = want
		if err := s.control(unix.EPOLL_CTL_MOD, c.fd, want); err != nil {
			panic(fmt.Sprintf("oracle: %v", err)) // the descriptor is ours and watched
		}
	}
}

// process frames requests from data, the policy taking each, and keeps what is left over.
func (s *Server) process(c *conn, data []byte) {
	for len(data) > 0 && c.idle() {
		n, whole := s.frame(c, data)
		if n == 0 && !whole {
			break
		}
		data = data[n:]
		if !whole {
			continue
		}
		s.traffic.Received++
		c.busy = true
		s.policy.request(c)
	}
	c.in = append(c.in[:0], data...)
}

// frame takes up to one request from data: how many bytes, and whether it is whole.
func (s *Server) frame(c *conn, data []byte) (n int, whole bool) {
	if s.config.Protocol == TCP {
		c.payload = data
		return len(data), true
	}
	if c.skip == 0 {
		var ok bool
		var err error
		if c.head, ok, err = s.parse(data); err != nil {
			s.traffic.Malformed++
			s.send(c, []byte(badRequest))
			s.hang(c)
			return len(data), false
		}
		if !ok {
			return 0, false
		}
		n, c.skip = c.head.size, c.head.body
	}
	k := min(c.skip, int64(len(data)-n))
	c.skip -= k
	return n + int(k), c.skip == 0
}

// parse is parseHead with a memory of one.
func (s *Server) parse(data []byte) (head, bool, error) {
	if len(s.lastRaw) > 0 && bytes.HasPrefix(data, s.lastRaw) {
		return s.lastHead, true, nil
	}
	h, ok, err := parseHead(data)
	if ok {
		s.lastRaw = append(s.lastRaw[:0], data[:h.size]...)
		s.lastHead = h
	}
	return h, ok, err
}

// answer sends an ordinary answer, with further header lines, to c's request.
func (s *Server) answer(c *conn, fields ...string) {
	s.scratch = appendOK(s.scratch[:0], len(s.body), c.head.close, fields...)
	if !c.head.noAns {
		s.scratch = append(s.scratch, s.body...)
	}
	s.send(c, s.scratch)
}

// send writes p, keeping what the kernel does not take.
func (s *Server) send(c *conn, p []byte) {
	if c.closed {
		return
	}
	if len(c.out) == 0 {
		n, errno := write(c.fd, p)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
		case errno != 0:
			s.lose(c)
			return
		default:
			p = p[n:]
		}
	}
	c.out = append(c.out, p...)
}

// flush writes what send kept.
func (s *Server) flush(c *conn) {
	if len(c.out) == 0 {
		return
	}
	n, errno := write(c.fd, c.out)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0:
		s.lose(c)
	default:
		c.out = append(c.out[:0], c.out[n:]...)
		if c.hangup && len(c.out) == 0 {
			s.close(c)
		}
	}
}

// finish ends c's request, which has been dealt with unless c was lost meanwhile.
func (s *Server) finish(c *conn) {
	if c.closed {
		return
	}
	c.busy = false
	c.payload = nil
	s.traffic.Answered++
	if c.head.close {
		s.hang(c)
	}
}

// hang closes c once everything has been sent.
func (s *Server) hang(c *conn) {
	c.hangup = true
	if len(c.out) == 0 {
		s.close(c)
	}
}

// reset closes c by a RST segment.
func (s *Server) reset(c *conn) {
	if c.closed {
		return
	}
	// Failing leaves an orderly close, on a socket that is no TCP socket.
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	s.close(c)
}

// lose closes c because the client, or the server as a whole, has ended it.
func (s *Server) lose(c *conn) {
	switch {
	case c.closed:
		return
	case c.busy:
		s.traffic.Abandoned++
		if s.policy.gone != nil {
			s.policy.gone(c)
		}
	case c.skip > 0 || len(c.in) > 0:
		s.traffic.Partial++
	}
	s.close(c)
}

// close releases c.
func (s *Server) close(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	s.conns[c.fd] = nil
	s.open--
	_ = unix.Close(c.fd) // what it could report, the client will have seen
	s.hear(true)         // there is room now
}

// fieldNs returns the header line for a time in nanoseconds. Its width is fixed, so that answers have
// the same size.
func fieldNs(name string, ns int64) string {
	digits := strconv.FormatInt(ns, 10)
	const zeros = "0000000000000000000"
	return name + ": " + zeros[:max(len(zeros)-len(digits), 0)] + digits + "\r\n"
}
