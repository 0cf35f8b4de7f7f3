package engine

import (
	"dyno/load/engine/clock"
	"dyno/load/wire"
)

// Connections that carry many exchanges at once. A mux's output is written after everything that has
// arrived or come due was taken in: a connection with something to say is in the list outgoing until
// then. A request counts as written when these bytes are.
//
// After GOAWAY a connection ends with the exchanges that it has. A request that the peer has not
// processed, or has refused (REFUSED_STREAM), is sent again. If it was refused each time, it fails
// with kind Refused. A time-out ends its exchange alone, or the connection if nothing has come since
// the request was written.

// maxResends bounds how often a request is sent once more that the peer has refused.
const maxResends = 5

// maxWrites bounds how often a request that is longer than what may wait goes on at once.
const maxWrites = 16

var (
	errMuxClosed = &wire.Error{Kind: wire.Connect, Text: "the peer closed the connection before it took a request"}
	errMuxGoAway = &wire.Error{Kind: wire.Connect, Text: "the peer takes no requests on a new connection (GOAWAY)"}
)

// startMux begins to speak on an open connection. It is established when it can carry an
// exchange, which may take the peer's word.
func (w *worker) startMux(i int32, c *connection, now int64) {
	c.mux.Reset()
	c.state = startingMux
	c.blocked, c.leaving, c.goAwayError, c.lastRead = false, false, false, now
	generation := c.Generation
	w.flushMux(i, c)
	if c.Generation == generation && c.mux.Free() > 0 {
		w.establish(i, c, now)
		w.flushOutgoing()
	}
}

// exchangeOf returns an exchange by the number it has on its connection.
func (w *worker) exchangeOf(i int32, id uint32) (int32, *exchange) {
	e := i*w.conns.streams + int32(id) //nolint:gosec // bounded by the number of streams
	return e, &w.exchanges.all[e]
}

// beginMuxExchange begins an exchange on a connection that carries many.
func (w *worker) beginMuxExchange(e int32, x *exchange, i int32, c *connection) {
	w.conns.queueOutput(i, c)
	request, parts := w.outline(e, x)
	if err := c.mux.Begin(uint32(e-i*w.conns.streams), request, parts); err != nil { //nolint:gosec // not negative
		now := w.sockets.Clock.Now()
		x.Written = now
		w.exchanges.track(e, x, w.step(x))
		w.fail(x, c, now, err)
		w.release(e, x, c)
		switch {
		case w.users != nil:
			w.failUser(x.User, now)
		case !w.pooled:
			w.pause(e, x, now+int64(w.config.MaxBackoff))
		}
		return
	}
	x.Written, x.next = 0, c.firstUnwritten
	c.firstUnwritten = e
	w.exchanges.unwritten++
}

// stamp notes when the exchanges that were begun are written, which is now.
func (w *worker) stamp(c *connection) {
	if c.firstUnwritten == none {
		return
	}
	now := w.sockets.Clock.Now()
	for e := c.firstUnwritten; e != none; {
		x := &w.exchanges.all[e]
		w.noteWritten(e, x, now)
		w.exchanges.unwritten--
		e = x.next
	}
	c.firstUnwritten = none
}

// queueOutput notes that a connection has something to say.
func (cs *connections) queueOutput(i int32, c *connection) {
	if !c.outgoing {
		c.outgoing = true
		cs.outgoing = append(cs.outgoing, i)
	}
}

// flushOutgoing writes what connections have to say.
func (w *worker) flushOutgoing() {
	for n := 0; n < len(w.conns.outgoing); n++ { // one that breaks may make others send more
		i := w.conns.outgoing[n]
		c := &w.conns.all[i]
		c.outgoing = false
		if c.state >= startingMux && c.mux != nil {
			w.flushMux(i, c)
		}
	}
	w.conns.outgoing = w.conns.outgoing[:0]
}

// flushMux writes what the mux has to say, as far as the socket takes it. A write may make room for
// more of a request, which the mux then continues: the peer may say nothing before it has all of it.
// After maxWrites times others have their turn.
func (w *worker) flushMux(i int32, c *connection) {
	generation := c.Generation
	for range maxWrites {
		w.stamp(c)
		if c.Lost != nil {
			return
		}
		if err := w.writeMux(c); err != nil {
			w.writeFailed(i, c, err)
			return
		}
		if c.blocked || c.state != established || !c.mux.Waiting() {
			return
		}
		w.takeMux(i, c, nil, clock.At(w.sockets.Clock.Now()))
		if c.Generation != generation {
			return
		}
	}
	w.conns.deferWork(i, c)
}

// writeMux is flushMux without the consequences.
func (w *worker) writeMux(c *connection) (err error) {
	c.blocked, err = c.WriteOutput(w.sockets, c.mux)
	return err
}

// consumeMux takes in the bytes of one reading on a connection that carries many exchanges.
func (w *worker) consumeMux(i int32, c *connection, p []byte, r clock.Reading) {
	c.lastRead = r.Read
	w.conns.queueOutput(i, c)
	w.takeMux(i, c, p, r)
	w.sendWaiting(r.Read)
	w.flushOutgoing()
}

// takeMux takes in the events of a mux that bytes bring about, or that wait without any.
func (w *worker) takeMux(i int32, c *connection, p []byte, r clock.Reading) {
	event, generation := &w.event, c.Generation
	for {
		n, err := c.mux.Input(p, event)
		if err != nil {
			w.stamp(c)
			_ = w.writeMux(c) // the connection ends in any case
			w.muxLost(i, c, r.Read, err)
			return
		}
		if event.Kind == wire.MuxNothing {
			w.refillOrClose(i, c, r.Read)
			return
		}
		p = p[n:]
		if w.handleMuxEvent(i, c, event, r); c.Generation != generation {
			return // its user has gone on with another one
		}
	}
}

// handleMuxEvent handles an event of a mux.
func (w *worker) handleMuxEvent(i int32, c *connection, event *wire.MuxEvent, r clock.Reading) {
	if event.Kind == wire.MuxGoAway {
		w.conns.noteGoAway(c, event.Err)
		return
	}
	e, x := w.exchangeOf(i, event.ID)
	if x.Written == 0 {
		w.stamp(c) // the peer answers what was not written yet
	}
	switch event.Kind {
	case wire.MuxRoom: // nothing of the response
	case wire.MuxRefused:
		w.resend(e, x, i, c, r.Read, event.Err)
	case wire.MuxHead, wire.MuxData, wire.MuxMessage:
		w.takeMuxPart(e, x, c, event, r)
	default:
		w.endMuxExchange(e, x, i, c, event, r.After(x.Written))
	}
}

// noteGoAway counts a connection that takes no more exchanges, once, and the first error that its peer names.
func (cs *connections) noteGoAway(c *connection, err *wire.Error) {
	if !c.leaving {
		c.leaving = true
		cs.tally.GoAways++
	}
	if err != nil && !c.goAwayError {
		c.goAwayError = true
		cs.goAways.Count(err)
	}
}

// takeMuxPart takes in a part of a response that is not its end.
func (w *worker) takeMuxPart(e int32, x *exchange, c *connection, event *wire.MuxEvent, r clock.Reading) {
	if x.First == 0 {
		x.First = r.After(x.Written).Arrived
	}
	if event.Kind == wire.MuxMessage && w.messages != nil {
		w.messages.Received(e, &x.Request, r)
	}
	switch {
	case w.users != nil:
		w.users.TakeMuxEvent(x.User, c.mux, event)
	case w.redirects != nil && event.Kind == wire.MuxHead:
		w.redirects.Note(e, c.mux.Fields())
	}
}

// endMuxExchange ends an exchange, with its complete response or without.
func (w *worker) endMuxExchange(e int32, x *exchange, i int32, c *connection, event *wire.MuxEvent, r clock.Reading) {
	if x.First == 0 {
		x.First = r.Arrived
	}
	x.Status = event.Status
	follows, err := w.judgeMux(e, x, c, event, r)
	switch {
	case follows:
		w.goTo(e, x, i, c, r.Read)
		return
	case err != nil:
		w.fail(x, c, r.Arrived, err)
	default:
		w.succeed(x, c, r)
	}
	if event.Kind == wire.MuxEnded {
		c.failures = 0
	}
	w.release(e, x, c)
	if w.users != nil && event.Err == nil {
		w.continueUser(x.User, r.Read, true)
		return
	}
	w.resume(e, x, c, r.Read)
}

// judgeMux tells how an exchange ends: a redirect follows, or the request has failed with an error, or it has succeeded.
func (w *worker) judgeMux(e int32, x *exchange, c *connection, event *wire.MuxEvent, r clock.Reading) (follows bool, err error) {
	config := w.config
	switch {
	case event.Err != nil && event.Err.Kind == wire.Reset && config.Deadline && r.Arrived-x.Written >= int64(config.Timeout):
		return false, config.TimedOut // the peer knew the timeout and noticed it first
	case event.Err != nil:
		return false, event.Err
	case w.users != nil:
		w.users.TakeMuxEvent(x.User, c.mux, event)
		return false, w.users.Judge(x.User, x.Status, w.users.Fields(x.User), r.Read)
	case w.redirects == nil:
		return false, nil
	}
	if !event.Trailers {
		w.redirects.Note(e, c.mux.Fields())
	}
	return w.follow(e, x)
}

// resend sends a request again that the peer says it has not processed, whatever its method (RFC 9113,
// section 8.7). After too many attempts it fails the request.
func (w *worker) resend(e int32, x *exchange, i int32, c *connection, now int64, err *wire.Error) {
	w.conns.tally.Refused++
	pooled := w.pooled && !x.redirected // others stay with their connection
	again := x.Resends < maxResends
	if again && pooled {
		again = w.exchanges.waiting.PushFront(waiter{intended: x.Intended, written: x.Written, user: x.User, resends: x.Resends + 1, part: x.Part})
	}
	switch {
	case !again:
		c.failedAgain()
		w.failOne(e, x, c, now, err)
	case pooled:
		w.conns.tally.Resent++
		w.release(e, x, c)
	default:
		w.conns.tally.Resent++
		w.suspend(e, x, c)
		x.Resends++
		w.awaitConnection(e, x, i, c)
	}
}

// failOne fails a request whose connection goes on with others, or is ended by the caller.
func (w *worker) failOne(e int32, x *exchange, c *connection, now int64, err error) {
	w.fail(x, c, now, err)
	w.release(e, x, c)
	w.resume(e, x, c, now)
}

// refillOrClose uses a mux's free capacity after all arrived bytes are taken in. It closes a connection
// that can carry no more.
func (w *worker) refillOrClose(i int32, c *connection, now int64) {
	if c.state == startingMux {
		switch {
		case c.mux.Free() > 0:
			w.establish(i, c, now)
		case c.leaving:
			w.openFailed(i, c, now, errMuxGoAway)
		}
		return
	}
	w.refill(i, c, now)
	if c.busy > 0 || c.carried == 0 && !c.leaving || w.conns.free(c) > 0 || c.HungUp {
		return
	}
	// It said GOAWAY, has carried as many exchanges as it is to, or has used up its numbers.
	w.conns.queueOutput(i, c)
	_ = w.writeMux(c) // the connection ends in any case
	w.closeUsed(i, c)
}

// sendWaiting has idle connections carry pooled requests that have come back.
func (w *worker) sendWaiting(now int64) {
	if !w.pooled {
		return
	}
	for w.exchanges.waiting.Len() > 0 && len(w.conns.idles) > 0 {
		i := w.nextIdle()
		w.send(i, &w.conns.all[i], w.exchanges.waiting.Pop(), now)
	}
	w.openOneMore()
}

// muxLost ends a connection that carries many exchanges, and these with it. Without err, the
// peer has closed it.
func (w *worker) muxLost(i int32, c *connection, now int64, err error) {
	switch {
	case c.state == startingMux:
		if err == nil {
			err = errMuxClosed
		}
		w.openFailed(i, c, now, err)
		return
	case c.busy == 0:
		if wire.KindOf(err) == wire.Protocol {
			w.conns.tally.Unsolicited++
		} else {
			w.conns.tally.PeerClosed++
		}
		w.disconnect(i, c)
		w.reuse(i, c)
		return
	}
	w.stamp(c)
	c.state = ending
	c.failedAgain()
	for event := c.mux.End(); event.Kind != wire.MuxNothing; event = c.mux.End() {
		e, x := w.exchangeOf(i, event.ID)
		if event.Kind == wire.MuxRefused {
			w.resend(e, x, i, c, now, event.Err)
			continue
		}
		cause := err
		if cause == nil || c.goAwayError && wire.KindOf(cause) == wire.Reset {
			cause = event.Err // a peer that closes with bytes unread resets the connection
		}
		x.Status = event.Status
		w.failOne(e, x, c, now, cause)
	}
	w.disconnect(i, c)
	w.reuse(i, c)
	w.sendWaiting(now)
}

// expireMuxExchange gives an exchange up that has taken too long. If nothing has arrived since it was
// written, the connection is given up too, unless the peer knew the timeout.
func (w *worker) expireMuxExchange(e int32, x *exchange, i int32, c *connection, now int64, peerKnows bool) {
	if c.lastRead < x.Written && !peerKnows {
		w.muxLost(i, c, now, w.engine.silent)
		return
	}
	c.mux.Cancel(uint32(e - i*w.conns.streams)) //nolint:gosec // not negative
	w.conns.queueOutput(i, c)
	w.failOne(e, x, c, now, w.config.TimedOut)
	w.refillOrClose(i, c, now)
}

// sendDueMessages sends the messages of requests that are due.
func (w *worker) sendDueMessages(now int64) {
	for e, at := w.messages.Due(now); e != none; e, at = w.messages.Due(now) {
		x := &w.exchanges.all[e]
		if x.state != inFlight {
			continue // it has ended
		}
		w.conns.queueOutput(x.conn, &w.conns.all[x.conn])
		if w.conns.all[x.conn].mux.(wire.Pacer).Next(uint32(e - x.conn*w.conns.streams)) { //nolint:gosec // not negative
			w.messages.Sent(e, at)
		}
	}
}
