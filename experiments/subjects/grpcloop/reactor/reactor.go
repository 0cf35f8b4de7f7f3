// Package reactor carries the bytes of gRPC's connections between sockets and the calls:
// event loops over epoll, each one goroutine with connections of its own.
package reactor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"dyno/experiments/subjects/grpcloop/calls"
	"dyno/experiments/subjects/grpcloop/http2"
	"dyno/internal/loop"
	"dyno/services/echo/rpc/go/program"
)

// Config is what a Server is made of.
type Config struct {
	// Loops is the number of event loops. Each listens on one of the server's sockets.
	Loops int
	// MaxMessage, Middleware, KeepaliveTime and KeepaliveTimeout are those of the program.
	program.Options
}

const (
	// readBytes is how much one read may bring: several frames of the longest kind.
	readBytes = 64 << 10
	// budget is how many reads or writes a connection gets before the others' turn.
	budget = 8
	// acceptBatch bounds how many connections one event accepts, for a loop that has its
	// listening socket for itself. Others accept one, and leave the next to an idle loop.
	acceptBatch = 64
	// maxConnections bounds the connections of a loop. Further ones wait in the kernel.
	maxConnections = 1 << 16
	// keptOutput bounds the memory for output that a loop keeps.
	keptOutput = 512 << 10
	// maxStreams bounds the calls at once on a connection.
	maxStreams = 2048
	// streamWindow and connWindow are the windows that clients begin with.
	streamWindow, connWindow = 64 << 10, 1 << 20
	// maxHeld bounds the bytes of messages that a loop holds.
	maxHeld = 512 << 20
	// greeting is how long a client may take to show that it speaks HTTP/2.
	greeting = 10 * time.Second
	// A connection that is silent this long is pinged, and closed without an answer in this
	// time: the defaults of grpc-go.
	silence, pingTimeout = 2 * time.Hour, 20 * time.Second
	// look is how often a loop looks at its connections' silence, and accepts again after
	// a shortage of descriptors.
	look = time.Second
)

// Server is a program.Server on event loops.
type Server struct {
	config Config
	loops  []*eventLoop
	stop   atomic.Bool // accept no more; end when no call is left
	kill   atomic.Bool // end at once
}

var _ program.Server = (*Server)(nil)

// An eventLoop is one goroutine with its connections.
type eventLoop struct {
	server  *Server
	poll    *loop.Poller
	calls   *calls.Loop
	shared  *http2.Shared
	conns   loop.Slab[conn]
	input   *loop.Buffers
	scratch []byte // what is read goes here
	output  []byte // what is written comes from here
	hungry  []uint64
	spare   []uint64

	listener int // -1 when none is left
	paused   bool
	draining bool
	armed    int64 // when the timer rings next, if it is known; else 0
	ticking  bool  // the timer is on
	looked   int64 // when the loop last looked at its connections

	mu   sync.Mutex // guards gone
	gone bool       // the poller is closed: do not wake it
}

// A conn is a client. Readiness is edge-triggered: a flag stays set until a call proves it
// wrong.
type conn struct {
	http2.Conn
	fd       int
	readable bool
	writable bool
	greedy   bool   // read until nothing is left: the end may follow the data
	ended    bool   // the client sends no more, or may not
	queued   bool   // among the hungry
	stopped  bool   // in holds frames that were not taken because much output waited
	in       []byte // lent while a part of a frame, or more than can be taken, waits
	filled   int
	written  int // of Out
	heard    int64
	pinged   bool
}

// New returns a server that is not serving yet.
func New(config Config) (*Server, error) {
	if config.Loops < 1 || config.Loops > 1024 {
		return nil, fmt.Errorf("--loops: %d: must be from 1 to 1024", config.Loops)
	}
	if config.Loops < config.Listeners {
		return nil, fmt.Errorf("--reuse-port: %d: there are only %d loops to listen", config.Listeners, config.Loops)
	}
	if config.KeepaliveTime == 0 {
		config.KeepaliveTime = silence
	}
	if config.KeepaliveTimeout == 0 {
		config.KeepaliveTimeout = pingTimeout
	}
	s := &Server{config: config}
	for range config.Loops {
		l, err := s.newLoop()
		if err != nil {
			s.close()
			return nil, err
		}
		s.loops = append(s.loops, l)
	}
	return s, nil
}

func (s *Server) newLoop() (*eventLoop, error) {
	poll, err := loop.NewPoller()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	l := &eventLoop{server: s, poll: poll, listener: -1, input: loop.NewBuffers(readBytes), scratch: make([]byte, readBytes)}
	l.calls = calls.NewLoop(calls.Config{
		MaxMessage: s.config.MaxMessage, MaxHeld: maxHeld, Layers: program.NewLayers(s.config.Middleware),
	}, func() int64 { return int64(time.Since(began)) + 1 })
	l.shared = http2.NewShared(http2.Config{
		Methods: calls.Methods(), MaxStreams: maxStreams, StreamWindow: streamWindow, ConnWindow: connWindow,
	}, l.calls)
	return l, nil
}

func (s *Server) close() {
	for _, l := range s.loops {
		l.close()
	}
}

func (l *eventLoop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	if l.listener >= 0 {
		loop.Close(l.listener)
		l.listener = -1
	}
	l.poll.Close()
}

// Serve runs the loops.
func (s *Server) Serve(listeners []net.Listener) error {
	defer s.close()
	if err := s.listen(listeners); err != nil {
		return err
	}
	var g errgroup.Group
	for _, l := range s.loops {
		g.Go(func() error {
			err := l.run()
			if err != nil {
				// A server that serves only some of its clients is worse than none.
				s.order(&s.kill)
			}
			return err
		})
	}
	return g.Wait()
}

// listen takes the sockets out of Go's own poller: an arriving connection wakes a loop and
// no other thread.
func (s *Server) listen(listeners []net.Listener) error {
	for i, l := range s.loops {
		tcp, ok := listeners[i%len(listeners)].(*net.TCPListener)
		if !ok {
			return fmt.Errorf("%s is no TCP listener", listeners[i%len(listeners)].Addr())
		}
		file, err := tcp.File()
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("listen: %w", os.NewSyscallError("fcntl", err))
		}
		l.listener = fd
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("listen: %w", os.NewSyscallError("fcntl", err))
		}
		if err := l.poll.Add(fd, loop.KeyListener, loop.Listener); err != nil {
			return err
		}
	}
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

// Drain ends the server.
func (s *Server) Drain(ctx context.Context) {
	context.AfterFunc(ctx, func() { s.order(&s.kill) })
	s.order(&s.stop)
}

// order gives all loops an order.
func (s *Server) order(what *atomic.Bool) {
	what.Store(true)
	for _, l := range s.loops {
		l.mu.Lock()
		if !l.gone {
			l.poll.Wake()
		}
		l.mu.Unlock()
	}
}

// run is the loop.
func (l *eventLoop) run() error {
	defer l.killAll()
	for !l.draining || l.conns.Len() > 0 {
		if err := l.arm(); err != nil {
			return err
		}
		n, err := l.poll.Wait(len(l.hungry) == 0)
		if err != nil {
			return err
		}
		l.calls.Turn()
		for i := range n {
			switch key, bits := l.poll.Event(i); key {
			case loop.KeyWake:
				l.obey()
			case loop.KeyTick:
				l.armed = 0
			case loop.KeyListener:
				err = l.accept()
			default:
				if c := l.conns.Get(key); c != nil {
					c.note(bits)
					l.advance(c)
				}
			}
			if err != nil {
				return err
			}
		}
		l.expire()
		l.feed()
		if err := l.look(); err != nil {
			return err
		}
	}
	return nil
}

// arm sets the kernel's timer to what is due next. It is asked only when that is earlier
// than what it was told: a ring too early costs less than a call for each timer.
func (l *eventLoop) arm() error {
	due := l.looked + int64(look)
	if l.conns.Len() == 0 && !l.paused {
		due = 0
	}
	if next, some := l.calls.Next(); some && (due == 0 || next < due) {
		due = next
	}
	if due == 0 {
		if !l.ticking {
			return nil
		}
		l.ticking, l.armed = false, 0
		return l.poll.Tick(0)
	}
	if l.armed != 0 && l.armed <= due {
		return nil
	}
	l.ticking, l.armed = true, due
	// At least a microsecond: 0 turns the timer off.
	return l.poll.Tick(max(time.Duration(due-l.calls.Now()), time.Microsecond))
}

// expire carries out what is due.
func (l *eventLoop) expire() {
	for {
		h := l.calls.Expire()
		if h == nil {
			return
		}
		if c := l.conns.Get(h.Key); c != nil {
			l.enqueue(c)
		}
	}
}

// look finds connections that are silent for too long, and accepts again after a shortage.
func (l *eventLoop) look() error {
	now := l.calls.Now()
	if now-l.looked < int64(look) {
		return nil
	}
	l.looked = now
	config := &l.server.config
	for _, c := range l.conns.All() {
		silent := time.Duration(now - c.heard)
		switch {
		case (c.ended || !c.Greeted()) && silent > greeting, c.pinged && silent > config.KeepaliveTime+config.KeepaliveTimeout:
			l.end(c, loop.Reset)
		case c.Greeted() && !c.pinged && silent > config.KeepaliveTime:
			c.pinged = true
			c.Ping()
			l.enqueue(c)
		}
	}
	if !l.paused || l.listener < 0 || l.conns.Len() >= maxConnections {
		return nil
	}
	l.paused = false
	return l.poll.Add(l.listener, loop.KeyListener, loop.Listener)
}

// obey carries out the server's orders.
func (l *eventLoop) obey() {
	if l.server.kill.Load() {
		l.draining = true
		l.killAll()
	}
	if !l.server.stop.Load() || l.draining {
		return
	}
	l.draining = true
	if l.listener >= 0 {
		loop.Close(l.listener)
		l.listener = -1
	}
	for _, c := range l.conns.All() {
		c.Drain()
		l.calls.Drain(&c.Conn)
		l.enqueue(c)
	}
}

func (l *eventLoop) killAll() {
	for _, c := range l.conns.All() {
		l.end(c, loop.Reset)
	}
}

func (l *eventLoop) accept() error {
	batch := acceptBatch
	if len(l.server.loops) > l.server.config.Listeners {
		batch = 1
	}
	for range batch {
		if l.listener < 0 || l.paused {
			return nil
		}
		if l.conns.Len() >= maxConnections {
			return l.pause()
		}
		fd, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN):
			return nil
		case slices.Contains([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EPERM}, err):
			return l.pause()
		case slices.Contains([]error{unix.EBADF, unix.EINVAL, unix.EFAULT, unix.ENOTSOCK}, err):
			return fmt.Errorf("accept: %w", err)
		default:
			continue // the connection had failed before it was accepted
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		key, c := l.conns.Alloc()
		c.fd, c.writable, c.heard = fd, true, l.calls.Now()
		c.Init(l.shared, key)
		if err := l.poll.Add(fd, key, loop.Stream); err != nil {
			l.end(c, loop.Reset)
			continue
		}
		l.advance(c)
	}
	return nil
}

// pause stops accepting until the next look.
func (l *eventLoop) pause() error {
	l.paused = true
	return l.poll.Remove(l.listener)
}

func (c *conn) note(bits uint32) {
	if bits&^loop.Out != 0 {
		c.readable = true
		c.greedy = c.greedy || bits&^(loop.Out|loop.In) != 0
	}
	if bits&(loop.Out|loop.Error|loop.Hangup) != 0 {
		c.writable = true
	}
}

func (l *eventLoop) enqueue(c *conn) {
	if !c.queued {
		c.queued = true
		l.hungry = append(l.hungry, c.Key)
	}
}

// feed gives each connection that has more to do another turn.
func (l *eventLoop) feed() {
	turn := l.hungry
	l.hungry = l.spare[:0]
	for _, key := range turn {
		if c := l.conns.Get(key); c != nil {
			c.queued = false
			l.advance(c)
		}
	}
	l.spare = turn
}

// advance reads, answers and writes, in turns, until the socket has no more, or others
// have waited long enough.
func (l *eventLoop) advance(c *conn) {
	for range budget {
		more, errno := l.step(c)
		switch {
		case errno != 0:
			l.end(c, loop.Reset)
			return
		case c.ended && c.written == len(c.Out), c.Done() && c.written == len(c.Out):
			l.end(c, loop.Close)
			return
		case !more:
			return
		}
	}
	l.enqueue(c)
}

// step reads once, and writes what follows from that. It reports whether it should be
// called again.
func (l *eventLoop) step(c *conn) (more bool, errno unix.Errno) {
	if c.written < len(c.Out) {
		if errno := l.write(c); errno != 0 {
			return false, errno
		}
		if c.written < len(c.Out) {
			return false, 0 // a client that does not read is not read from, either
		}
	}
	l.lend(c)
	if c.stopped {
		l.take(c, c.in[:c.filled])
	}
	if c.readable && !c.ended && !c.stopped {
		buf := l.scratch
		if c.in != nil {
			buf = c.in[c.filled:]
		}
		if len(buf) > 0 {
			n, errno := loop.Recv(c.fd, buf)
			switch {
			case errno == unix.EAGAIN:
				c.readable = false
			case errno != 0:
				return false, errno
			case n == 0:
				// The client is not there to be answered.
				c.ended = true
				c.End()
				c.Out = c.Out[:0]
			default:
				c.heard, c.pinged = l.calls.Now(), false
				c.readable = n == len(buf) || c.greedy
				if c.in != nil {
					c.filled += n
					l.take(c, c.in[:c.filled])
				} else {
					l.take(c, buf[:n])
				}
			}
		}
	}
	c.Resume()
	if len(c.Out) > 0 {
		if errno := l.write(c); errno != 0 {
			return false, errno
		}
	}
	l.unlend(c)
	return len(c.Out) == 0 && (c.readable && !c.ended || c.stopped || c.Waits()), 0
}

// lend gives a connection the loop's memory for output.
func (l *eventLoop) lend(c *conn) {
	if len(c.Out) == 0 && cap(c.Out) == 0 {
		c.Out, l.output = l.output[:0], nil
	}
}

// unlend takes back the memory when nothing is left in it.
func (l *eventLoop) unlend(c *conn) {
	if len(c.Out) > 0 {
		return
	}
	if l.output == nil && cap(c.Out) <= keptOutput {
		l.output = c.Out
	}
	c.Out = nil
}

// take passes input to the connection and keeps what it did not use.
func (l *eventLoop) take(c *conn, b []byte) {
	used, err := c.Feed(b)
	l.calls.Settle()
	if err != nil {
		c.ended = true // when its last words are written
		used = len(b)
	}
	rest := b[used:]
	switch {
	case len(rest) == 0:
		if c.in != nil {
			l.input.Put(c.in)
			c.in = nil
		}
	case c.in == nil:
		c.in = l.input.Get()
		copy(c.in, rest)
	case used > 0:
		copy(c.in, rest)
	}
	c.filled = len(rest)
	c.stopped = len(rest) > 0 && c.Crowded()
}

// write writes what it can.
func (l *eventLoop) write(c *conn) unix.Errno {
	if !c.writable {
		return 0
	}
	n, errno := loop.Send(c.fd, c.Out[c.written:])
	if errno != 0 && errno != unix.EAGAIN {
		return errno
	}
	if c.written += n; c.written < len(c.Out) {
		c.writable = false
		return 0
	}
	c.written, c.Out = 0, c.Out[:0]
	return 0
}

// end closes a connection.
func (l *eventLoop) end(c *conn, closeFD func(int)) {
	c.End()
	closeFD(c.fd)
	if c.in != nil {
		l.input.Put(c.in)
	}
	l.conns.Free(c.Key)
}
