package engine

import (
	"cmp"
	"syscall"

	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/wire"
)

// catchUp starts the arrivals that came due while something was read.
func (w *worker) catchUp(now int64) {
	if now >= w.arrivals.due {
		w.startDue(now)
		w.flushOutgoing()
	}
}

// deferWork leaves the rest of a connection's work to the next turn, so that others have theirs
// first. Epoll does not report it a second time.
func (cs *connections) deferWork(i int32, c *connection) {
	if !c.deferred {
		c.deferred = true
		cs.deferred = append(cs.deferred, place{i, c.Generation})
	}
}

// runDeferred serves the connections that had more to do than the last turn allowed. Those that still
// have more have their turn with the next events.
func (w *worker) runDeferred() {
	n := len(w.conns.deferred)
	for k := range n {
		p := w.conns.deferred[k]
		c := &w.conns.all[p.conn]
		if c.Generation != p.generation {
			continue
		}
		c.deferred = false
		if c.mux != nil && c.state == established {
			w.flushMux(p.conn, c)
		}
		if c.Generation == p.generation {
			w.catchUp(w.read(p.conn, c))
		}
	}
	w.conns.deferred = w.conns.deferred[:copy(w.conns.deferred, w.conns.deferred[n:])]
}

// read takes what has arrived on a connection and returns the time after it.
// Without a hang-up a read that did not fill the buffer has emptied the socket:
// what comes later makes a new event. After MaxReads reads others have their turn.
func (w *worker) read(i int32, c *connection) (now int64) {
	generation, buffer := c.Generation, w.sockets.Buffer
	for range socket.MaxReads {
		n, r, errno := c.Read(w.sockets, buffer, w.sockets.Emptied)
		now = r.Read
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN && c.Lost == nil:
			return now
		case errno != 0:
			w.broken(i, c, now, errno)
			return now
		case n == 0:
			w.peerEnded(i, c, now)
			return now
		}
		w.rec.Received(n, now)
		switch {
		case c.state == tunnelling:
			w.takeTunnel(i, c, buffer[:n], r)
		case c.Secure():
			w.unseal(i, c, buffer[:n], r)
		default:
			w.consume(i, c, buffer[:n], r)
		}
		if c.Generation != generation || (n < len(buffer) && !c.HungUp) {
			return now
		}
	}
	w.conns.deferWork(i, c)
	return now
}

// consume takes in the bytes of one reading.
func (w *worker) consume(i int32, c *connection, p []byte, r clock.Reading) {
	if c.mux != nil {
		w.consumeMux(i, c, p, r)
		return
	}
	if c.busy == 0 {
		w.conns.tally.Unsolicited++
		w.disconnect(i, c)
		w.reuse(i, c)
		return
	}
	e := c.current
	x := &w.exchanges.all[e]
	r = r.After(x.Written)
	if x.First == 0 {
		x.First = r.Arrived
	}
	var (
		n    int
		done bool
		err  error
	)
	if w.users != nil {
		n, done, err = w.users.Collect(x.User, c.client, p)
	} else {
		n, done, err = c.client.Response(p)
	}
	if w.messages != nil {
		w.messages.Count(e, &x.Request, c.client, r)
	}
	switch {
	case !done && err == nil:
	case done && n < len(p):
		w.conns.tally.Unsolicited++
		w.failed(i, c, r.Read, errExcess)
	case !done:
		w.failed(i, c, r.Read, err)
	default:
		w.done(e, x, i, c, r, err)
	}
}

var errExcess = &wire.Error{Kind: wire.Protocol, Text: "bytes after the end of the response"}

// done ends an exchange whose response is complete, and uses the connection for the next one due.
func (w *worker) done(e int32, x *exchange, i int32, c *connection, r clock.Reading, err error) {
	w.rec.Response(&x.Request, c.client)
	if w.redirects != nil && err == nil {
		var follows bool
		w.redirects.Note(e, c.client.(wire.Composer).Fields())
		if follows, err = w.follow(e, x); follows {
			w.goTo(e, x, i, c, r.Read)
			return
		}
	}
	user := x.User
	if w.users != nil && err == nil {
		w.users.Collected(user, c.client)
		err = w.users.Judge(user, x.Status, c.client.(wire.Composer).Fields(), r.Read)
	}
	if err != nil {
		w.fail(x, c, r.Arrived, err)
	} else {
		if w.messages != nil {
			w.messages.Answer(e, &x.Request, w.step(x), c.client, r)
		}
		w.succeed(x, c, r)
	}
	w.release(e, x, c)
	c.failures = 0
	if !w.keeps(c) {
		w.closeUsed(i, c)
	}
	if !w.pooled {
		w.continueExchange(e, x, c, r.Read)
		if c.firstAwaiting == none {
			return
		}
	}
	w.refill(i, c, r.Read)
	if w.users != nil {
		w.continueUser(user, r.Read, true)
	}
}

// follow tells whether another request follows the complete response of an exchange.
func (w *worker) follow(e int32, x *exchange) (follows bool, err error) {
	follows, err = w.redirects.Follow(e, &x.Request, !x.redirected)
	x.redirected = x.redirected || follows
	return follows, err
}

// goTo continues an exchange that was redirected, as soon as its connection is free.
func (w *worker) goTo(e int32, x *exchange, i int32, c *connection, now int64) {
	c.failures = 0
	w.suspend(e, x, c)
	w.awaitConnection(e, x, i, c)
	if c.mux == nil && !w.keeps(c) {
		w.closeUsed(i, c)
		return
	}
	w.refill(i, c, now)
}

// keeps tells whether a connection whose exchange has ended can carry another one. A peer that hung
// up after its response will not answer another request.
func (w *worker) keeps(c *connection) bool {
	return !c.Pending() && !c.HungUp && c.carried < w.conns.lifetime && c.client.Reusable()
}

// closeUsed closes a connection that is not kept.
func (w *worker) closeUsed(i int32, c *connection) {
	w.takeLeave(c)
	w.disconnect(i, c)
	w.reuse(i, c)
}

// takeLeave tells the peer of a connection that is about to be closed that nothing more will come.
func (w *worker) takeLeave(c *connection) {
	if m, ok := c.mux.(wire.Closer); ok && c.state == established && c.Lost == nil {
		m.Close()
		_ = w.writeMux(c) // the connection ends in any case
	}
	c.CloseNotify(w.sockets)
}

// resume lets the sender of a request without a response continue.
func (w *worker) resume(e int32, x *exchange, c *connection, now int64) {
	switch {
	case w.users != nil:
		w.failUser(x.User, now)
	case !w.pooled:
		w.continueExchange(e, x, c, now)
	}
}

// failed ends an exchange together with its connection.
func (w *worker) failed(i int32, c *connection, now int64, err error) {
	e := c.current
	x := &w.exchanges.all[e]
	w.rec.Response(&x.Request, c.client)
	w.fail(x, c, now, err)
	w.release(e, x, c)
	w.disconnect(i, c)
	c.failedAgain()
	w.reuse(i, c)
	w.resume(e, x, c, now)
}

// peerEnded handles the peer's end of the stream.
func (w *worker) peerEnded(i int32, c *connection, now int64) {
	switch {
	case c.state == tunnelling:
		w.openFailed(i, c, now, w.tunnelError(cmp.Or(c.Lost, c.tunnel.End())))
		return
	case c.state == handshaking:
		err := c.EndTLS()
		if c.Lost != nil {
			err = c.Lost
		}
		w.cut(i, c, now, err)
		return
	case c.mux != nil || c.busy == 0:
		w.cut(i, c, now, c.Lost)
		return
	}
	err := c.client.End()
	whole := err == nil && c.Secure()
	if whole {
		err = c.EndTLS() // without its own end, the message may be cut short
		whole = err == nil
	}
	// Where only the end of the connection ends a response, a lost one may have cut it short. That
	// it is a refusal is known nevertheless.
	if c.Lost != nil && !whole && wire.KindOf(err) != wire.Status && (err != nil || record.StatusOf(c.client) < firstRefusal) {
		err = c.Lost
	}
	if err != nil {
		w.failed(i, c, now, err)
		return
	}
	c.HungUp = true
	e := c.current
	w.done(e, &w.exchanges.all[e], i, c, clock.At(now), nil) // the end of a connection bears no stamp
}

// firstRefusal is the first status by which HTTP refuses a request.
const firstRefusal = 400

// broken handles an error of a socket that can no longer be read.
func (w *worker) broken(i int32, c *connection, now int64, errno syscall.Errno) {
	if c.Lost == nil {
		c.Lost = w.sockets.PeerError(c.cutKind(), errno)
	}
	w.peerEnded(i, c, now)
}

// writeFailed notes that a connection cannot be written to. Bytes that had arrived by then are read in
// the next turn: a peer may answer and close before it has read a whole request. Then it resets the
// connection after its answer (RFC 9112, section 9.5).
func (w *worker) writeFailed(i int32, c *connection, err error) {
	c.Break(err)
	if c.idleAt != none {
		w.conns.removeIdle(c)
	}
	w.conns.deferWork(i, c)
}

// cut ends a connection after an error of the socket or of TLS. Without an error, the peer has closed
// it.
func (w *worker) cut(i int32, c *connection, now int64, err error) {
	switch {
	case c.state == handshaking:
		w.openFailed(i, c, now, err)
	case c.mux != nil:
		w.muxLost(i, c, now, err)
	case c.busy == 0:
		w.conns.tally.PeerClosed++
		w.disconnect(i, c)
		w.reuse(i, c)
	default:
		w.failed(i, c, now, err)
	}
}

// flush writes pending bytes. The rest goes when the socket has room again.
func (w *worker) flush(i int32, c *connection) {
	if err := c.Flush(w.sockets, c.cutKind()); err != nil {
		w.writeFailed(i, c, err)
		return
	}
	if c.blocked && !c.Pending() && c.state >= startingMux {
		w.flushMux(i, c)
	}
}
