package echo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
	"dyno/services/internal/sockets"
)

// budget is how many reads one connection gets before the others' turn.
const budget = 16

// acceptBatch bounds how many connections one wake-up accepts.
const acceptBatch = 64

// tcpEcho is one loop with all its connections.
type tcpEcho struct {
	server  *Server
	poll    *loop.Poller
	socket  *sockets.Listener // nil once draining
	addr    net.Addr
	conns   loop.Slab[conn]
	buffers *loop.Buffers
	scratch []byte
	hungry  []uint64 // connections that used up their budget, each only once
	spare   []uint64
	paused  bool // not accepting: too many connections, or no descriptors

	stop    atomic.Bool
	kill    atomic.Bool
	cut     atomic.Int64
	stopped chan struct{} // closed just before serve returns

	mu   sync.Mutex // guards gone
	gone bool       // the poller is closed: do not wake it
}

// A conn is a client. Readiness is edge-triggered: a flag stays set until a call
// proves it wrong.
type conn struct {
	key      uint64
	fd       int
	readable bool
	writable bool
	greedy   bool // read until nothing is left: the end of the stream may follow the data
	ended    bool // the client will send no more
	queued   bool
	buf      []byte // borrowed while bytes are pending
	r, w     int    // buf[r:w] is pending
}

func newTCP(s *Server) (*tcpEcho, error) {
	e := &tcpEcho{server: s, buffers: loop.NewBuffers(s.cfg.BufferBytes), stopped: make(chan struct{})}
	e.scratch = e.buffers.Get()
	var err error
	if e.socket, err = sockets.Listen(s.cfg.TCP, false); err != nil {
		return nil, err
	}
	e.addr = e.socket.Addr
	if e.poll, err = loop.NewPoller(); err != nil {
		e.socket.Close()
		return nil, err
	}
	// The tick makes the loop accept again after a shortage of descriptors.
	if err = e.poll.Tick(time.Second); err == nil {
		err = e.watchListener()
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *tcpEcho) watchListener() error {
	return e.poll.Add(e.socket.FD, loop.KeyListener, loop.Listener)
}

func (e *tcpEcho) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return
	}
	e.gone = true
	if e.socket != nil {
		e.socket.Close()
	}
	e.poll.Close()
}

func (e *tcpEcho) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.gone {
		e.poll.Wake()
	}
}

func (e *tcpEcho) drain(ctx context.Context) int {
	e.stop.Store(true)
	e.wake()
	select {
	case <-e.stopped:
	case <-ctx.Done():
		e.kill.Store(true)
		e.wake()
		<-e.stopped
	}
	return int(e.cut.Load())
}

// serve is the loop.
func (e *tcpEcho) serve() error {
	defer close(e.stopped)
	defer e.close()
	for !e.stop.Load() || e.socket != nil || e.conns.Len() > 0 {
		n, err := e.poll.Wait(len(e.hungry) == 0)
		if err != nil {
			e.killAll()
			return err
		}
		for i := range n {
			switch key, bits := e.poll.Event(i); key {
			case loop.KeyWake:
				err = e.obey()
			case loop.KeyTick:
				err = e.resume()
			case loop.KeyListener:
				err = e.accept()
			default:
				if c := e.conns.Get(key); c != nil {
					c.note(bits)
					e.advance(c)
				}
			}
			if err != nil {
				e.killAll()
				return err
			}
		}
		e.feed()
	}
	return nil
}

func (e *tcpEcho) obey() error {
	if e.stop.Load() && e.socket != nil {
		e.socket.Close()
		e.socket = nil
	}
	if e.kill.Load() {
		e.killAll()
	}
	return e.resume()
}

func (e *tcpEcho) killAll() {
	for _, c := range e.conns.All() {
		e.cut.Add(1)
		e.end(c, loop.Reset)
	}
}

func (e *tcpEcho) accept() error {
	for range acceptBatch {
		if e.socket == nil || e.paused {
			return nil
		}
		if e.conns.Len() >= e.server.cfg.MaxConnections {
			return e.pause()
		}
		fd, err := sockets.Accept(e.socket.FD, e.socket.TCP())
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case serve.Passing(err):
			e.server.log.Warn("accepting pauses", "error", err)
			return e.pause()
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		key, c := e.conns.Alloc()
		*c = conn{key: key, fd: fd, writable: true, greedy: !e.socket.TCP()}
		e.server.accepted.Inc()
		e.server.open.Inc()
		if err := e.poll.Add(fd, key, loop.Stream); err != nil {
			e.server.log.Warn("connection dropped", "error", err)
			e.end(c, loop.Reset)
		}
	}
	return nil
}

// pause stops watching the listener until a connection ends or a tick passes.
func (e *tcpEcho) pause() error {
	e.paused = true
	return e.poll.Remove(e.socket.FD)
}

func (e *tcpEcho) resume() error {
	if !e.paused || e.socket == nil || e.conns.Len() >= e.server.cfg.MaxConnections {
		return nil
	}
	e.paused = false
	return e.watchListener()
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

func (e *tcpEcho) advance(c *conn) {
	for range budget {
		switch more, errno := e.echo(c); {
		case errno != 0:
			e.end(c, loop.Reset)
			return
		case c.ended && c.buf == nil:
			e.end(c, loop.Close)
			return
		case !more:
			return
		}
	}
	if !c.queued {
		c.queued = true
		e.hungry = append(e.hungry, c.key)
	}
}

// feed gives each hungry connection another turn.
func (e *tcpEcho) feed() {
	turn := e.hungry
	e.hungry = e.spare[:0]
	for _, key := range turn {
		if c := e.conns.Get(key); c != nil {
			c.queued = false
			e.advance(c)
		}
	}
	e.spare = turn
}

// echo writes what is pending, or otherwise reads once and writes that back. It reports
// whether it should be called again.
func (e *tcpEcho) echo(c *conn) (more bool, errno unix.Errno) {
	if c.buf != nil {
		if !c.writable {
			return false, 0
		}
		n, errno := loop.Send(c.fd, c.buf[c.r:c.w])
		if errno != 0 && errno != unix.EAGAIN {
			return false, errno
		}
		e.server.echoed.Add(float64(n))
		if c.r += n; c.r < c.w {
			c.writable = false
			return false, 0
		}
		e.buffers.Put(c.buf)
		c.buf = nil
	}
	if !c.readable || c.ended {
		return false, 0
	}
	n, errno := loop.Recv(c.fd, e.scratch)
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
		return false, 0
	case errno != 0:
		return false, errno
	case n == 0:
		c.ended = true
		return false, 0
	}
	c.readable = n == len(e.scratch) || c.greedy
	sent := 0
	if c.writable {
		if sent, errno = loop.Send(c.fd, e.scratch[:n]); errno != 0 && errno != unix.EAGAIN {
			return false, errno
		}
		e.server.echoed.Add(float64(sent))
	}
	if sent < n {
		c.writable = false
		c.buf, c.r, c.w = e.scratch, sent, n
		e.scratch = e.buffers.Get()
		return false, 0
	}
	return c.readable, 0
}

func (e *tcpEcho) end(c *conn, closeFD func(int)) {
	closeFD(c.fd)
	if c.buf != nil {
		e.buffers.Put(c.buf)
	}
	e.server.open.Dec()
	e.conns.Free(c.key)
	if e.paused {
		e.poll.Wake() // there is room again
	}
}
