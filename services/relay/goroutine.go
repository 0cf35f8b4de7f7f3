package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
	"dyno/services/relay/conditions"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"
)

// threaded is the goroutine model: one goroutine per direction of a connection, on package net, like a simple relay.
//
// It does not splice. With two bare *net.TCPConn, io.Copy would splice through a pipe in the kernel. That costs two
// more system calls per message, and two more descriptors per connection. Over loopback, with messages of 1, 16 and
// 64 KiB, it gave 3 to 7 % fewer exchanges per CPU-second.
//
// A goroutine notices a reset only by reading or writing. A side is not read while the other side accepts nothing.
// Then its reset is passed on only when the other side moves. The event-driven models need not wait for that.
type threaded struct {
	server   *Server
	listener net.Listener
	count    *counters
	free     chan struct{} // a hint that slots may be free
	done     chan struct{} // closed by drain: accept no more
	open     sync.WaitGroup
	ctx      context.Context // of all connections; ends at the drain deadline
	cut      context.CancelFunc

	mu    sync.Mutex // guards conns
	conns map[*conversation]struct{}
}

// A conversation is one client's connection in the goroutine model.
type conversation struct {
	server *Server
	id     uint64
	ends   [2]net.Conn // the upstream is nil until it is connected
	// moved grows whenever bytes of a direction move; it is odd while bytes have been
	// read and not yet written.
	moved [2]atomic.Uint64
	held  atomic.Int64 // bytes that network conditions have read and not yet written
	seen  uint64       // the janitor's: moved at its last check
	idle  uint32       // the janitor's: ticks without movement

	mu   sync.Mutex // guards why, over and changes of ends
	why  outcome
	over bool
}

func newThreaded(s *Server) *threaded {
	m := &threaded{
		server: s,
		count:  s.stats.part(),
		free:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		conns:  map[*conversation]struct{}{},
	}
	m.ctx, m.cut = context.WithCancel(context.Background())
	m.open.Add(1) // the acceptor, so that none is added while others wait for none
	return m
}

func (m *threaded) listen() (err error) {
	m.server.slots.freed = func() {
		select {
		case m.free <- struct{}{}:
		default: // there already is a hint
		}
	}
	// This model has one acceptor, which always wants to know.
	m.server.slots.wanted.Store(1)
	m.listener, err = serve.Listen(context.Background(), m.server.cfg.Listen, nil)
	return err
}

func (m *threaded) addr() net.Addr { return m.listener.Addr() }

func (m *threaded) close() {
	m.cut()
	if m.listener != nil {
		_ = m.listener.Close()
	}
}

func (m *threaded) serve() error {
	stopped := make(chan struct{})
	var janitor sync.WaitGroup
	janitor.Go(func() { m.sweep(stopped) })
	err := m.accept()
	m.open.Done()
	if err != nil {
		m.killAll()
	}
	m.open.Wait()
	close(stopped)
	janitor.Wait()
	m.close()
	return err
}

func (m *threaded) drain(ctx context.Context) {
	close(m.done)
	_ = m.listener.Close()
	ended := make(chan struct{})
	go func() { m.open.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		m.killAll()
		<-ended
	}
}

// accept takes connections until the listener is closed.
func (m *threaded) accept() error {
	s := m.server
	for {
		if s.cfg.Full == Wait && !s.slots.any() {
			select {
			case <-m.free:
				continue
			case <-m.done:
				return nil
			}
		}
		c, err := m.listener.Accept()
		if err != nil {
			switch {
			case errors.Is(err, net.ErrClosed):
				return nil
			case serve.OfConnection(err):
				continue
			case serve.Passing(err):
				s.log.Warn("accepting pauses", "error", err)
				select {
				case <-time.After(acceptPause):
				case <-m.done:
				}
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		// No other goroutine takes slots: a slot that was free still is.
		if !s.slots.take() {
			reset(c)
			s.reject()
			continue
		}
		v := &conversation{server: s, id: s.enter()}
		v.ends[0] = c
		m.mu.Lock()
		m.conns[v] = struct{}{}
		m.mu.Unlock()
		m.open.Go(func() { m.converse(v) })
	}
}

// converse runs one connection from beginning to end.
func (m *threaded) converse(v *conversation) {
	if err := m.introduce(v); err != nil {
		m.server.connectionFailed(v.id, v.ends[0].RemoteAddr, v.why, err)
	} else {
		var back sync.WaitGroup
		back.Go(func() { m.carry(v, toClient) })
		m.carry(v, toServer)
		back.Wait()
	}
	v.end(ended, closeInOrder)
	m.mu.Lock()
	delete(m.conns, v)
	m.mu.Unlock()
	m.server.leave(v.why)
}

// introduce does the work before forwarding: the client's header, connecting, and the header for the upstream.
func (m *threaded) introduce(v *conversation) error {
	cfg := m.server.cfg
	var header *proxyproto.Header
	var early []byte // the client's bytes that were read with its header
	if cfg.ProxyIn == ProxyInRequire {
		var err error
		if header, early, err = v.readHeader(cfg.HeaderTimeout); err != nil {
			return err
		}
	}
	var first []byte
	if cfg.ProxyOut != ProxyOutOff {
		b, err := formatHeader(cfg.ProxyOut, header, v.ends[0].RemoteAddr(), v.ends[0].LocalAddr())
		if err != nil {
			v.end(headerBad, reset)
			return err
		}
		first = b
	}
	first = append(first, early...)

	c, err := m.dial()
	if err != nil {
		why := connectFailed
		var timeout net.Error
		switch {
		case m.ctx.Err() != nil:
			why = cut
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
			why = connectRefused
		case errors.As(err, &timeout) && timeout.Timeout():
			why = connectTimeout
		}
		v.end(why, reset)
		return err
	}
	if !v.join(c) {
		return net.ErrClosed
	}
	if len(first) > 0 {
		n, err := c.Write(first)
		m.count.bytes[toServer].Add(uint64(n))
		if err != nil {
			v.end(resetByTarget, reset)
			return err
		}
	}
	return nil
}

// dial connects to the upstream, at the first of its addresses that accepts.
func (m *threaded) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(m.ctx, m.server.cfg.ConnectTimeout)
	defer cancel()
	up := m.server.upstream
	r := up.route()
	for {
		view, at := r.view, r.at
		c, moved, err := m.dialAddress(ctx, &r)
		if err == nil {
			view.accepted(int(at))
			return c, nil
		}
		if ctx.Err() != nil || !moved && !up.more(ctx, &r) {
			return nil, err
		}
	}
}

// dialAddress connects to the address of a route. When its share of the time is over, the
// route goes on to the next address, if there is one: then moved is true.
func (m *threaded) dialAddress(ctx context.Context, r *route) (c net.Conn, moved bool, err error) {
	to, parts := r.remote().Addr, m.server.upstream.parts(r)
	if parts == 1 {
		c, err = m.dialUntil(ctx, to)
		return c, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	watched := make(chan struct{})
	watch := time.AfterFunc(time.Until(deadline)/time.Duration(parts), func() {
		defer close(watched)
		if moved = m.server.upstream.more(ctx, r); moved {
			cancel()
		}
	})
	c, err = m.dialUntil(ctx, to)
	if !watch.Stop() {
		if err == nil {
			cancel() // a pending lookup is not needed any more
		}
		<-watched
	}
	return c, moved, err
}

// dialUntil connects to an address. A Unix listener whose queue is full refuses with EAGAIN
// where TCP would wait, so dialUntil waits itself.
func (m *threaded) dialUntil(ctx context.Context, to net.Addr) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	for {
		c, err := d.DialContext(ctx, to.Network(), to.String())
		if !errors.Is(err, syscall.EAGAIN) {
			return c, err
		}
		select {
		case <-time.After(m.server.cfg.tick()):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// readHeader reads the client's PROXY protocol header, and returns the bytes read after
// it.
func (v *conversation) readHeader(timeout time.Duration) (*proxyproto.Header, []byte, error) {
	c := v.ends[0]
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		v.end(resetByClient, reset)
		return nil, nil, err
	}
	buf := make([]byte, maxHeader)
	for have := 0; ; {
		n, err := c.Read(buf[have:])
		have += n
		header, length, perr := parseHeader(buf[:have])
		var late net.Error
		switch {
		case perr == nil:
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				v.end(resetByClient, reset)
				return nil, nil, err
			}
			return header, buf[length:have], nil
		case !errors.Is(perr, errHeaderShort):
			v.end(headerBad, reset)
			return nil, nil, perr
		case err == nil:
		case errors.Is(err, io.EOF):
			v.end(headerBad, reset)
			return nil, nil, fmt.Errorf("%w: the client ended it after %d bytes", perr, have)
		case errors.As(err, &late) && late.Timeout():
			v.end(headerTimeout, reset)
			return nil, nil, perr
		default:
			v.end(resetByClient, reset)
			return nil, nil, err
		}
	}
}

// carry forwards one direction and passes on its end.
func (m *threaded) carry(v *conversation, d int) {
	src, dst := v.ends[d], v.ends[1-d]
	why, err := m.copy(v, d, dst, src)
	if err != nil {
		v.end(why, reset)
		return
	}
	if err := dst.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		v.end(resetByClient+outcome(1-d), reset)
	}
}

// copy moves bytes until src ends. With an error it also returns which side failed.
func (m *threaded) copy(v *conversation, d int, dst, src net.Conn) (outcome, error) {
	if m.server.network != nil {
		return m.copyUnderConditions(v, d, dst, src)
	}
	from, err := src.(syscall.Conn).SyscallConn()
	if err != nil {
		return resetByClient + outcome(d), err
	}
	to, err := dst.(syscall.Conn).SyscallConn()
	if err != nil {
		return resetByClient + outcome(1-d), err
	}
	p := passage{m: m, v: v, d: d, to: to}
	p.write = p.writeSome
	if err := from.Read(p.readAll); p.err == nil && err != nil {
		p.why, p.err = resetByClient+outcome(d), err
	}
	return p.why, p.err
}

// copyUnderConditions copies one direction through the simulated network. That bounds the bytes
// that it holds back itself; these are not part of the buffered bytes.
func (m *threaded) copyUnderConditions(v *conversation, d int, dst, src net.Conn) (outcome, error) {
	dir := conditions.ToServer
	if d == toClient {
		dir = conditions.ToClient
	}
	from := &watched{Conn: src, v: v, d: d}
	to := &watched{Conn: dst, v: v, d: d, count: m.count}
	_, err := m.server.network.Copy(m.ctx, to, from, dir, v.id)
	switch {
	case err == nil:
		return ended, nil
	case errors.Is(err, conditions.ErrReset):
		return resetByDesign, err
	case m.ctx.Err() != nil:
		return cut, err
	case to.failed:
		return resetByClient + outcome(1-d), err
	}
	return resetByClient + outcome(d), err
}

// A watched connection tells the relay how many bytes pass through it. It is either read
// or written. failed may be read after that has ended.
type watched struct {
	net.Conn
	v      *conversation
	d      int
	count  *counters
	failed bool // a write failed
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.v.held.Add(int64(n))
		w.v.moved[w.d].Add(2)
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.v.held.Add(-int64(n))
	w.v.moved[w.d].Add(2)
	w.count.bytes[w.d].Add(uint64(n))
	w.failed = w.failed || err != nil
	return n, err
}

// SetReadBuffer lets a slow reader be slow: a large kernel buffer would take bytes in its
// place.
func (w *watched) SetReadBuffer(bytes int) error {
	return w.Conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(bytes)
}

// A passage is one direction of a conversation. It uses the connections' SyscallConn rather than their Read and
// Write. The goroutine still sleeps in Go's poller. A non-blocking call does not warn the scheduler of blocking. A
// buffer is borrowed only for bytes that are there. (After a read Go has to try again to learn that nothing is left:
// it cannot see whether the end of the stream followed the data.)
type passage struct {
	m     *threaded
	v     *conversation
	d     int
	to    syscall.RawConn
	write func(fd uintptr) bool // the method value writeSome, made once
	rest  []byte                // read and not yet written
	why   outcome
	err   error
}

// readAll forwards all that src has. It reports whether the direction is over.
func (p *passage) readAll(fd uintptr) bool {
	buf := p.m.server.buffers.Get()
	defer p.m.server.buffers.Put(buf)
	for {
		n, errno := loop.Recv(int(fd), buf)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			p.why, p.err = resetByClient+outcome(p.d), os.NewSyscallError("recvfrom", errno)
			return true
		case n == 0:
			return true
		}
		p.v.moved[p.d].Add(1)
		p.rest = buf[:n]
		p.m.count.bufferedBy.Add(int64(n))
		err := p.to.Write(p.write)
		p.m.count.bufferedBy.Add(-int64(len(p.rest)))
		p.v.moved[p.d].Add(1)
		if p.err == nil && err != nil {
			p.why, p.err = resetByClient+outcome(1-p.d), err
		}
		if p.err != nil {
			return true
		}
	}
}

// writeSome reports whether no more is to be written.
func (p *passage) writeSome(fd uintptr) bool {
	n, errno := loop.Send(int(fd), p.rest)
	if errno != 0 && errno != unix.EAGAIN {
		p.why, p.err = resetByClient+outcome(1-p.d), os.NewSyscallError("sendto", errno)
		return true
	}
	p.rest = p.rest[n:]
	p.m.count.bytes[p.d].Add(uint64(n))
	p.m.count.bufferedBy.Add(-int64(n))
	return len(p.rest) == 0
}

// end closes both sides in the given way. Only the first call has an effect, and its
// reason counts.
func (v *conversation) end(why outcome, closeConn func(net.Conn)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	v.over, v.why = true, why
	// Closing a side waits for its reading or writing goroutine, which may be waiting to write the other side. So
	// stop both before closing either.
	for _, c := range v.ends {
		if c != nil {
			_ = c.SetDeadline(time.Unix(1, 0))
		}
	}
	for _, c := range v.ends {
		if c != nil {
			closeConn(c)
		}
	}
}

// join adds the upstream's side. If the connection has ended meanwhile, it closes c and
// returns false.
func (v *conversation) join(c net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		reset(c)
		return false
	}
	v.ends[1] = c
	return true
}

func closeInOrder(c net.Conn) { _ = c.Close() }

// reset closes c so that a TCP peer sees a reset.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// sweep ends idle connections. It compares what each one moved between ticks, so
// forwarding neither reads a clock nor sets a deadline.
func (m *threaded) sweep(stopped <-chan struct{}) {
	if m.server.limits.idle == 0 {
		return
	}
	t := time.NewTicker(m.server.cfg.tick())
	defer t.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-t.C:
		}
		m.mu.Lock()
		for v := range m.conns {
			v.age(m.server.limits.idle)
		}
		m.mu.Unlock()
	}
}

// age counts a tick without movement and ends the connection at the limit.
func (v *conversation) age(limit uint32) {
	v.mu.Lock()
	connected := v.ends[1] != nil
	v.mu.Unlock()
	out, back := v.moved[toServer].Load(), v.moved[toClient].Load()
	if now := out + back; !connected || now != v.seen {
		v.seen, v.idle = now, 0
		return
	}
	if v.idle++; v.idle < limit {
		return
	}
	if out%2 == 1 || back%2 == 1 || v.held.Load() != 0 {
		v.end(idled, reset) // a reset shows that bytes are lost
	} else {
		v.end(idled, closeInOrder)
	}
}

func (m *threaded) killAll() {
	m.cut()
	m.mu.Lock()
	defer m.mu.Unlock()
	for v := range m.conns {
		v.end(cut, reset)
	}
}
