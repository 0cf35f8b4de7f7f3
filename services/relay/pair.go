package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
)

// This file is shared by the pool, epoll and pinned models: a client's connection and its
// upstream as a state machine over two non-blocking sockets. The models differ in who
// calls it, and when.

// A pair is a client's connection and the upstream connection made for it. One goroutine
// at a time uses it; other goroutines read only expiry and retry.
type pair struct {
	id    uint64 // number of the connection, from 1
	key   uint64 // in the slab; key|side names an end in epoll's events
	state state
	ends  [2]end  // the client's socket and the upstream's
	pipes [2]pipe // toServer and toClient

	// expiry is the tick at which the pair's current state has lasted too long; 0 is
	// never.
	expiry atomic.Uint32
	// retry asks for a step on every tick.
	retry atomic.Bool

	// While the pair connects: its way to the upstream: the deadline as a tick, whether it waits for a lookup, and
	// the last address's error.
	route    route
	deadline uint32
	asking   bool
	failure  error

	queued bool          // for a reactor: it waits for another turn
	work   atomic.Uint32 // for the pool: ownership, and signals that no worker has seen yet
}

// init fills a zero pair.
func (p *pair) init(a accepted, key uint64, listening net.Addr) {
	p.id, p.key = a.id, key
	p.ends[0].fd, p.ends[1].fd = a.fd, -1
	p.ends[0].writable = true
	p.ends[0].greedy = listening.Network() == "unix"
}

type state uint8

const (
	fresh         state = iota // accepted, nothing done yet
	readingHeader              // of the PROXY protocol
	connecting
	open
)

// An end is a socket and its readiness as epoll has reported it. Registration is
// edge-triggered: a flag stays set until a call proves it wrong.
type end struct {
	fd       int // -1 when there is none
	readable bool
	writable bool
	broken   bool // the socket has a pending error
	// greedy asks to read until nothing is left. Without it, a read that does not fill the buffer proves an empty
	// socket, and saves a call per message. That proof fails if the stream's end or an urgent mark follows the data.
	// It also fails on Unix sockets, whose reads stop at passed descriptors.
	greedy bool
}

// A pipe is one direction. It reads only when nothing is pending, so it never
// holds more than one buffer.
type pipe struct {
	buf    []byte // borrowed while bytes are pending; nil otherwise
	r, w   int    // buf[r:w] is pending
	ended  bool   // the source will send no more
	closed bool   // and the other side has been notified
}

// signals tell a pair what happened: epoll's bits for the client, the same for the
// upstream, and the owner's requests.
type signals uint32

const (
	upstreamShift = 14 // epoll's bits used here need 14 bits

	sideMask signals = 1<<upstreamShift - 1
	begin    signals = 1 << 28 // the pair is new
	tick     signals = 1 << 29 // check expiry and retry
	kill     signals = 1 << 30 // end it now
	owned    signals = 1 << 31 // for the pool: a worker has it, or will
)

func ready(side uint64, bits uint32) signals {
	return (signals(bits) & sideMask) << (side * upstreamShift)
}

// A step's result.
type progress uint8

const (
	waiting progress = iota // for the next event
	hungry                  // there is more to do, but it is the others' turn
	over                    // the pair has ended and its sockets are closed
)

// A carrier moves the bytes of pairs. There is one per loop, and one per worker of the
// pool. It belongs to one goroutine.
type carrier struct {
	server  *Server
	poll    *loop.Poller
	now     *atomic.Uint32 // ticks since the start
	buffers *loop.Buffers
	scratch []byte // the buffer for reads; lent to a pipe that cannot write everything
	count   *counters
}

func (s *Server) newCarrier(poll *loop.Poller, now *atomic.Uint32) carrier {
	return carrier{
		server: s, poll: poll, now: now, buffers: s.buffers,
		scratch: s.buffers.Get(), count: s.stats.part(),
	}
}

// step makes a pair react to signals.
func (c *carrier) step(p *pair, s signals) progress {
	if s&kill != 0 {
		return c.reset(p, cut)
	}
	p.ends[0].note(uint32(s & sideMask))
	p.ends[1].note(uint32(s >> upstreamShift & sideMask))
	if s&tick != 0 && p.expired(c.now.Load()) {
		return c.expire(p)
	}
	switch p.state {
	case fresh:
		return c.begin(p)
	case readingHeader:
		return c.readHeader(p)
	case connecting:
		return c.connect(p)
	}
	return c.forward(p)
}

func (e *end) note(bits uint32) {
	if bits&^loop.Out != 0 {
		e.readable = true
		if bits&^(loop.Out|loop.In) != 0 {
			e.greedy = true
			e.broken = e.broken || bits&loop.Error != 0
		}
	}
	if bits&(loop.Out|loop.Error|loop.Hangup) != 0 {
		e.writable = true
	}
}

// forward moves as many bytes as possible in both directions.
func (c *carrier) forward(p *pair) progress {
	c.extend(p, c.server.limits.idle)
	more := false
	for d := range p.pipes {
		m, broken := c.pump(p, d)
		if broken >= 0 {
			return c.reset(p, resetByClient+outcome(broken))
		}
		more = more || m
	}
	for side := range p.ends {
		// If nothing is read, no read notices a reset. So it is passed on here, even
		// while the other side blocks.
		if p.ends[side].broken && !more {
			return c.reset(p, resetByClient+outcome(side))
		}
	}
	if p.pipes[toServer].closed && p.pipes[toClient].closed {
		return c.finish(p, ended)
	}
	if more {
		return hungry
	}
	return waiting
}

// pump moves one direction's bytes until the source is empty, the destination is full, or
// the budget is used up. In the last case there is more. broken is the side whose socket
// failed, or -1.
func (c *carrier) pump(p *pair, d int) (more bool, broken int) {
	pipe, src, dst := &p.pipes[d], &p.ends[d], &p.ends[1-d]
	budget := c.server.cfg.ReadBudgetBytes
	for {
		if pipe.buf != nil {
			if !dst.writable {
				return false, -1
			}
			if ok := c.flush(pipe, dst, d); !ok {
				return false, 1 - d
			}
			if pipe.buf != nil {
				return false, -1
			}
		}
		if pipe.ended {
			if !pipe.closed {
				loop.Shutdown(dst.fd)
				pipe.closed = true
			}
			return false, -1
		}
		if !src.readable {
			return false, -1
		}
		if budget <= 0 {
			c.count.exhausted.Add(1)
			return true, -1
		}
		n, errno := loop.Recv(src.fd, c.scratch)
		switch {
		case errno == unix.EAGAIN:
			src.readable = false
			return false, -1
		case errno != 0:
			return false, d
		case n == 0:
			pipe.ended = true
			continue
		}
		src.readable = n == len(c.scratch) || src.greedy
		budget -= n

		sent := 0
		if dst.writable {
			if sent, errno = loop.Send(dst.fd, c.scratch[:n]); errno != 0 && errno != unix.EAGAIN {
				return false, 1 - d
			}
			c.count.bytes[d].Add(uint64(sent))
		}
		if sent < n {
			// The remaining bytes stay in this buffer; the carrier takes another one.
			dst.writable = false
			c.hold(pipe, c.scratch, sent, n)
			c.scratch = c.buffers.Get()
		}
	}
}

// hold makes buf[r:w] pending.
func (c *carrier) hold(p *pipe, buf []byte, r, w int) {
	p.buf, p.r, p.w = buf, r, w
	c.count.bufferedBy.Add(int64(w - r))
}

// release forgets the pending bytes.
func (c *carrier) release(p *pipe) {
	if p.buf != nil {
		c.count.bufferedBy.Add(-int64(p.w - p.r))
		c.buffers.Put(p.buf)
		p.buf = nil
	}
}

// flush writes the pending bytes and reports whether the socket still works.
func (c *carrier) flush(p *pipe, dst *end, d int) bool {
	n, errno := loop.Send(dst.fd, p.buf[p.r:p.w])
	if errno != 0 && errno != unix.EAGAIN {
		return false
	}
	p.r += n
	c.count.bytes[d].Add(uint64(n))
	c.count.bufferedBy.Add(-int64(n))
	if p.r == p.w {
		c.release(p)
	} else {
		dst.writable = false
	}
	return true
}

// begin registers an accepted client.
func (c *carrier) begin(p *pair) progress {
	if err := c.poll.Add(p.ends[0].fd, p.key, loop.Stream); err != nil {
		return c.fail(p, connectFailed, err)
	}
	if c.server.cfg.ProxyIn == ProxyInRequire {
		p.state = readingHeader
		c.extend(p, c.server.limits.header)
		return waiting
	}
	return c.dial(p, nil)
}

// readHeader collects the client's PROXY protocol header. Bytes after it in the same read
// are kept, with room before them for the header to be sent.
func (c *carrier) readHeader(p *pair) progress {
	in := &p.pipes[toServer]
	for p.ends[0].readable {
		if in.buf == nil {
			c.hold(in, c.buffers.Get(), headroom, headroom)
		}
		n, errno := loop.Recv(p.ends[0].fd, in.buf[in.w:headroom+maxHeader])
		switch {
		case errno == unix.EAGAIN:
			p.ends[0].readable = false
			return waiting
		case errno != 0:
			return c.reset(p, resetByClient)
		}
		in.w += n
		c.count.bufferedBy.Add(int64(n))
		header, length, err := parseHeader(in.buf[in.r:in.w])
		switch {
		case err == nil:
			in.r += length
			c.count.bufferedBy.Add(-int64(length))
			return c.dial(p, header)
		case !errors.Is(err, errHeaderShort):
			return c.fail(p, headerBad, err)
		case n == 0:
			return c.fail(p, headerBad, fmt.Errorf("%w: the client ended it after %d bytes", err, in.w-in.r))
		}
	}
	return waiting
}

// dial prepares the header to send and starts connecting.
func (c *carrier) dial(p *pair, header *proxyproto.Header) progress {
	out := &p.pipes[toServer]
	if v := c.server.cfg.ProxyOut; v != ProxyOutOff {
		local, peer := loop.Addrs(p.ends[0].fd)
		b, err := formatHeader(v, header, peer, local)
		if err != nil {
			return c.fail(p, headerBad, err)
		}
		if out.buf == nil {
			c.hold(out, c.buffers.Get(), headroom, headroom)
		}
		out.r -= len(b)
		copy(out.buf[out.r:], b)
		c.count.bufferedBy.Add(int64(len(b)))
	}
	if out.buf != nil && out.r == out.w {
		c.release(out)
	}

	p.state = connecting
	p.route = c.server.upstream.route()
	p.deadline = c.after(c.server.limits.connect)
	return c.try(p)
}

// try begins to connect to the address of the route, in place of an earlier one.
func (c *carrier) try(p *pair) progress {
	if p.ends[1].fd >= 0 {
		loop.Close(p.ends[1].fd)
		p.ends[1] = end{fd: -1}
	}
	to := p.route.remote()
	fd, err := to.Socket()
	if err != nil {
		return c.fail(p, connectFailed, err)
	}
	p.ends[1] = end{fd: fd, greedy: !to.TCP()}
	if parts, left := c.server.upstream.parts(&p.route), p.ticksLeft(c.now.Load()); parts == 1 || left <= minTicks {
		p.expiry.Store(p.deadline)
	} else {
		c.extend(p, max(left/uint32(parts), minTicks))
	}
	return c.tryConnect(p)
}

// minTicks certainly last a tick: the first may come at once.
const minTicks = 2

// ticksLeft is how many ticks there are until the deadline.
func (p *pair) ticksLeft(now uint32) uint32 { return uint32(max(int32(p.deadline-now), 0)) }

// notConnected goes on to the next address when one has failed. If there is none, it waits
// for a lookup.
func (c *carrier) notConnected(p *pair, errno unix.Errno) progress {
	p.failure = fmt.Errorf("connect to %v: %w", p.route.remote().Addr, errno)
	if p.asking { // now there is nothing but to wait
		loop.Close(p.ends[1].fd)
		p.ends[1] = end{fd: -1}
		return waiting
	}
	if p.route.next() {
		return c.try(p)
	}
	if !c.server.upstream.ask(&p.route) {
		return c.connectFailed(p)
	}
	loop.Close(p.ends[1].fd)
	p.ends[1] = end{fd: -1}
	return c.await(p)
}

// await waits for a lookup. If the pair has a socket, that still connects.
func (c *carrier) await(p *pair) progress {
	p.asking = true
	p.retry.Store(true)
	p.expiry.Store(p.deadline)
	return c.connect(p) // the lookup may have ended just now
}

// tryConnect calls connect. While a Unix listener's queue is full, it is called again on
// every tick.
func (c *carrier) tryConnect(p *pair) progress {
	errno := p.route.remote().Connect(p.ends[1].fd)
	switch errno {
	case 0, unix.EINPROGRESS:
	case unix.EAGAIN:
		p.retry.Store(true)
		return waiting
	default:
		return c.notConnected(p, errno)
	}
	p.retry.Store(false)
	// An unconnected socket would report a hang-up, so it is registered only now.
	if err := c.poll.Add(p.ends[1].fd, p.key|1, loop.Stream); err != nil {
		return c.fail(p, connectFailed, err)
	}
	if errno == 0 {
		return c.connected(p)
	}
	return waiting
}

// connect checks the result of a connection attempt.
func (c *carrier) connect(p *pair) progress {
	if p.ends[0].broken {
		return c.reset(p, resetByClient)
	}
	before := p.route
	if p.asking && c.server.upstream.renewed(&p.route) {
		p.asking = false
		p.retry.Store(false)
		if p.route.next() {
			return c.try(p)
		}
		if p.ends[1].fd < 0 {
			return c.connectFailed(p)
		}
		p.route = before // its address is the one that the socket still connects to
	}
	switch {
	case p.retry.Load() && !p.asking:
		return c.tryConnect(p)
	case !p.ends[1].writable: // nor if there is no socket
		return waiting
	}
	if errno := loop.SocketError(p.ends[1].fd); errno != 0 {
		return c.notConnected(p, errno)
	}
	if p.route.again() { // the event may be that of an earlier address's socket
		if _, err := unix.Getpeername(p.ends[1].fd); err != nil {
			p.ends[1].writable = false
			return waiting
		}
	}
	return c.connected(p)
}

func (c *carrier) connected(p *pair) progress {
	p.route.view.accepted(int(p.route.at))
	if p.route.again() { // flags from an earlier socket's event are stale: a read shows the truth
		p.ends[1] = end{fd: p.ends[1].fd, readable: true, greedy: true}
	}
	p.route, p.asking = route{}, false
	p.retry.Store(false)
	p.state = open
	p.ends[1].writable = true
	return c.forward(p)
}

// connectFailed ends a pair for which no address is left.
func (c *carrier) connectFailed(p *pair) progress {
	why := connectFailed
	switch {
	case errors.Is(p.failure, unix.ECONNREFUSED), errors.Is(p.failure, unix.ENOENT): // ENOENT: the Unix socket does not exist
		why = connectRefused
	case errors.Is(p.failure, unix.ETIMEDOUT):
		why = connectTimeout
	}
	return c.fail(p, why, p.failure)
}

// after returns the tick that is some ticks from now; 0 means never.
func (c *carrier) after(ticks uint32) uint32 {
	if ticks == 0 {
		return 0
	}
	return max(c.now.Load()+ticks, 1)
}

// extend lets the pair live for some ticks from now; 0 means no limit.
func (c *carrier) extend(p *pair, ticks uint32) {
	at := c.after(ticks)
	// The tick rarely changes between events, and reading is cheaper than an atomic
	// write.
	if p.expiry.Load() != at {
		p.expiry.Store(at)
	}
}

// expired reports whether the pair's time is over. Ticks wrap around; differences do not.
func (p *pair) expired(now uint32) bool {
	at := p.expiry.Load()
	return at != 0 && int32(now-at) >= 0
}

// due reports whether the pair needs a step at this tick.
func (p *pair) due(now uint32) bool { return p.retry.Load() || p.expired(now) }

func (c *carrier) expire(p *pair) progress {
	switch p.state {
	case readingHeader:
		return c.fail(p, headerTimeout, errHeaderShort)
	case connecting:
		switch {
		case p.ticksLeft(c.now.Load()) == 0:
			if p.ends[1].fd >= 0 { // otherwise the last address has failed already
				p.failure = fmt.Errorf("connect to %v: %w", p.route.remote().Addr, unix.ETIMEDOUT)
			}
			return c.connectFailed(p)
		case p.route.next():
			return c.try(p)
		case c.server.upstream.ask(&p.route):
			return c.await(p)
		}
		p.expiry.Store(p.deadline)
		return waiting
	}
	if p.pipes[toServer].buf != nil || p.pipes[toClient].buf != nil {
		return c.reset(p, idled) // a reset shows that bytes are lost
	}
	return c.finish(p, idled)
}

// fail ends a pair that never forwarded anything.
func (c *carrier) fail(p *pair, why outcome, err error) progress {
	client := func() net.Addr {
		_, peer := loop.Addrs(p.ends[0].fd)
		return peer
	}
	c.server.connectionFailed(p.id, client, why, err)
	return c.reset(p, why)
}

// reset ends a pair with resets, so that neither side sees an orderly end.
func (c *carrier) reset(p *pair, why outcome) progress { return c.leave(p, why, loop.Reset) }

// finish ends a pair in order.
func (c *carrier) finish(p *pair, why outcome) progress { return c.leave(p, why, loop.Close) }

func (c *carrier) leave(p *pair, why outcome, closeFD func(int)) progress {
	for i := range p.ends {
		if p.ends[i].fd >= 0 {
			closeFD(p.ends[i].fd)
			p.ends[i].fd = -1
		}
		c.release(&p.pipes[i])
	}
	c.server.leave(why)
	return over
}

// A warning is a cause of failed connections that an operator must know.
type warning uint8

const (
	outOfResources warning = iota // the relay has no descriptors or memory
	unreachable                   // the upstream accepts no connection
	oversized                     // a header that may be right is longer than its bound
	warnings
)

// warnEvery is the least pause between two equal warnings in the log.
const warnEvery = time.Second

// connectionFailed logs at debug level: a flood of connections must not become a flood of log records. The metrics
// count every failure. Causes that an operator must know are logged as warnings from time to time.
func (s *Server) connectionFailed(id uint64, client func() net.Addr, why outcome, err error) {
	level := slog.LevelDebug
	switch {
	case serve.Scarce(err):
		level = s.warn(outOfResources)
	case why == connectRefused, why == connectTimeout, why == connectFailed:
		level = s.warn(unreachable)
	case errors.Is(err, errHeaderLong):
		level = s.warn(oversized)
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	from := ""
	if a := client(); a != nil {
		from = a.String()
	}
	s.log.LogAttrs(context.Background(), level, "connection failed", slog.Uint64("connection", id),
		slog.String("client", from), slog.String("reason", why.String()), slog.String("error", err.Error()))
}

// warn returns the level of a warning, which is lower if the log has just had it.
func (s *Server) warn(w warning) slog.Level {
	if now, last := time.Now().UnixNano(), s.warned[w].Load(); now-last > int64(warnEvery) && s.warned[w].CompareAndSwap(last, now) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
