package engine

import (
	"golang.org/x/sys/unix"

	"dyno/load/wire"
)

// Connections that carry many exchanges at once. What a mux says is written once all
// that has arrived, or has come due, was taken in: a connection with something to say is
// in the list outgoing until then.

// maxResends bounds how often a request is sent once more that the peer has refused.
const maxResends = 5

var (
	errNoGreeting = &wire.Error{Kind: wire.Connect, Text: "the peer closed the connection before it took a request"}
	errTurnedAway = &wire.Error{Kind: wire.Connect, Text: "the peer takes no requests on a new connection (GOAWAY)"}
)

// greet begins to speak on an open connection. It is established when it can carry an
// exchange, which may take the peer's word.
func (w *worker) greet(i int32, c *connection, now int64) {
	c.mux.Reset()
	c.state = greeting
	c.blocked, c.leaving, c.heard = false, false, now
	generation := c.generation
	w.flushMux(i, c)
	if c.generation == generation && c.mux.Free() > 0 {
		w.establish(i, c, now)
		w.flushOutgoing()
	}
}

// exchangeOf returns an exchange by the number it has on its connection.
func (w *worker) exchangeOf(i int32, id uint32) (int32, *exchange) {
	e := i*w.streams + int32(id) //nolint:gosec // bounded by the number of streams
	return e, &w.exchanges[e]
}

// beginOn begins an exchange on a connection that carries many.
func (w *worker) beginOn(e int32, x *exchange, i int32, c *connection) {
	w.speak(i, c)
	outline, parts := 0, [][]byte(nil)
	if w.crowd != nil {
		request := &w.crowd.users[x.user].request
		outline, parts = request.Outline, request.Parts
	}
	if err := c.mux.Begin(uint32(e-i*w.streams), outline, parts); err != nil { //nolint:gosec // not negative
		now := w.now()
		x.written = now
		w.inFlight.push(e)
		w.fail(x, c, now, err)
		w.release(e, x, c)
		switch {
		case w.crowd != nil:
			w.lose(x.user, now)
		case !w.pooled:
			w.rest(e, x, now+int64(w.engine.config.MaxBackoff))
		}
		return
	}
	x.written, x.next = 0, c.begun
	c.begun = e
	w.begun++
}

// stamp notes when the exchanges that were begun are written, which is now.
func (w *worker) stamp(c *connection) {
	if c.begun == none {
		return
	}
	now := w.now()
	for e := c.begun; e != none; {
		x := &w.exchanges[e]
		x.written = now
		w.inFlight.push(e)
		w.begun--
		if w.dialogues != nil {
			w.converses(e, now)
		}
		e = x.next
	}
	c.begun = none
}

// speak notes that a connection has something to say.
func (w *worker) speak(i int32, c *connection) {
	if !c.outgoing {
		c.outgoing = true
		w.outgoing = append(w.outgoing, i)
	}
}

// flushOutgoing writes what connections have to say.
func (w *worker) flushOutgoing() {
	for n := 0; n < len(w.outgoing); n++ { // one that breaks may have others say more
		i := w.outgoing[n]
		c := &w.conns[i]
		c.outgoing = false
		if c.state >= greeting && c.mux != nil {
			w.flushMux(i, c)
		}
	}
	w.outgoing = w.outgoing[:0]
}

// flushMux writes what the mux has to say, as far as the socket takes it.
func (w *worker) flushMux(i int32, c *connection) {
	w.stamp(c)
	if err := w.say(c); err != nil {
		w.lost(i, c, w.now(), err)
	}
}

// say is flushMux without the consequences.
func (w *worker) say(c *connection) error {
	for {
		c.blocked = len(c.pending) > 0 // what was sealed before goes first
		if c.blocked {
			return nil
		}
		p := c.mux.Output()
		if len(p) == 0 {
			return nil
		}
		if c.tls != nil {
			sealed, err := c.tls.Seal(w.sealed[:0], p)
			w.sealed = sealed[:0]
			c.mux.Wrote(len(p))
			if err == nil {
				err = w.put(c, sealed)
			}
			if err != nil {
				return err
			}
			continue
		}
		n, errno := rawWrite(c.fd, p)
		switch errno {
		case 0:
			c.mux.Wrote(n)
		case unix.EINTR:
		case unix.EAGAIN:
			c.blocked = true
			return nil
		default:
			return w.errnoError(kindOf(errno, wire.Reset), errno)
		}
	}
}

// converse takes in the bytes of one reading on a connection that carries many exchanges.
func (w *worker) converse(i int32, c *connection, p []byte, r reading) {
	c.heard = r.read
	w.speak(i, c)
	for {
		n, event, err := c.mux.Input(p)
		if err != nil {
			w.stamp(c)
			_ = w.say(c) // the connection ends in any case
			w.lost(i, c, r.read, err)
			break
		}
		if event.Kind == wire.MuxNothing {
			w.settle(i, c, r.read)
			break
		}
		p = p[n:]
		w.hearFrom(i, c, &event, r)
	}
	w.spread(r.read)
	w.flushOutgoing()
}

// hearFrom handles an event of a mux.
func (w *worker) hearFrom(i int32, c *connection, event *wire.MuxEvent, r reading) {
	if event.Kind == wire.MuxGoAway {
		if !c.leaving {
			c.leaving = true
			w.tally.GoAways++
		}
		return
	}
	e, x := w.exchangeOf(i, event.ID)
	if x.written == 0 {
		w.stamp(c) // the peer answers what was not written yet
	}
	switch event.Kind {
	case wire.MuxRefused:
		w.again(e, x, i, c, r.read, event.Err)
		return
	case wire.MuxHead, wire.MuxData, wire.MuxRoom, wire.MuxMessage:
		if x.first == 0 {
			x.first = r.after(x.written).arrived
		}
		if event.Kind == wire.MuxMessage && w.dialogues != nil {
			w.hearMessage(e, x, r)
		}
		if w.crowd != nil {
			w.crowd.hear(x.user, c.mux, event)
		}
		return
	}
	r = r.after(x.written)
	if x.first == 0 {
		x.first = r.arrived
	}
	x.status = event.Status
	err, ended := error(nil), event.Kind == wire.MuxEnded
	switch {
	case event.Err != nil:
		err = event.Err
	case w.crowd != nil:
		w.crowd.hear(x.user, c.mux, event)
		err = w.judge(x.user, x.status, w.crowd.users[x.user].fields, r.read)
	}
	if err != nil {
		w.fail(x, c, r.arrived, err)
	} else {
		w.succeed(x, c, r)
	}
	if ended {
		c.failures = 0
	}
	w.release(e, x, c)
	switch {
	case !w.pooled:
		w.proceed(e, x, c, r.read)
	case w.crowd == nil:
	case event.Err != nil:
		w.lose(x.user, r.read)
	default:
		w.onward(x.user, r.read, true)
	}
}

// again has a request sent once more that the peer says it has not processed, whatever its
// method (RFC 9113, section 8.7), or fails it if that has been done too often.
func (w *worker) again(e int32, x *exchange, i int32, c *connection, now int64, err *wire.Error) {
	w.tally.Refused++
	resend := x.resends < maxResends
	if resend && w.pooled {
		resend = w.waiting.pushFront(waiter{intended: x.intended, written: x.written, user: x.user, resends: x.resends + 1})
	}
	if !resend {
		w.fail(x, c, now, err)
		c.failedAgain()
	}
	w.release(e, x, c)
	if resend {
		w.tally.Resent++
	}
	switch {
	case w.pooled:
		if w.crowd != nil && !resend {
			w.lose(x.user, now)
		}
	case resend:
		x.resends++
		w.want(e, x, i, c)
	default:
		w.proceed(e, x, c, now)
	}
}

// settle uses a mux's free capacity once all that has arrived is taken in, and closes the
// connection if it can carry no more.
func (w *worker) settle(i int32, c *connection, now int64) {
	if c.state == greeting {
		switch {
		case c.mux.Free() > 0:
			w.establish(i, c, now)
		case c.leaving:
			w.unopened(i, c, now, errTurnedAway)
		}
		return
	}
	w.refill(i, c, now)
	if c.busy > 0 || c.carried == 0 && !c.leaving || w.free(c) > 0 || c.hungUp {
		return
	}
	// It said GOAWAY, has carried as many exchanges as it is to, or has used up its numbers.
	w.speak(i, c)
	_ = w.say(c) // the connection ends in any case
	w.farewell(c)
	w.disconnect(i, c)
	w.vacate(i, c)
}

// spread has idle connections carry pooled requests that have come back.
func (w *worker) spread(now int64) {
	if !w.pooled {
		return
	}
	for w.waiting.count > 0 && len(w.idles) > 0 {
		i := w.idles[len(w.idles)-1]
		w.send(i, &w.conns[i], w.waiting.pop(), now)
	}
	w.openOneMore()
}

// lost ends a connection that carries many exchanges, and these with it. Without err, the
// peer has closed it.
func (w *worker) lost(i int32, c *connection, now int64, err error) {
	switch {
	case c.state == greeting:
		if err == nil {
			err = errNoGreeting
		}
		w.unopened(i, c, now, err)
		return
	case c.busy == 0:
		if wire.KindOf(err) == wire.Protocol {
			w.tally.Unsolicited++
		} else {
			w.tally.PeerClosed++
		}
		w.disconnect(i, c)
		w.vacate(i, c)
		return
	}
	w.stamp(c)
	c.state = ending
	c.failedAgain()
	for event := c.mux.End(); event.Kind != wire.MuxNothing; event = c.mux.End() {
		e, x := w.exchangeOf(i, event.ID)
		if event.Kind == wire.MuxRefused {
			w.again(e, x, i, c, now, event.Err)
			continue
		}
		cause := err
		if cause == nil {
			cause = event.Err
		}
		x.status = event.Status
		w.fail(x, c, now, cause)
		w.release(e, x, c)
		w.resume(e, x, c, now)
	}
	w.disconnect(i, c)
	w.vacate(i, c)
	w.spread(now)
}

// silent returns the failure of all exchanges of a connection that is given up.
func (c *Config) silent() *wire.Error {
	return &wire.Error{Kind: wire.Timeout, Text: c.TimedOut.Text + ", and nothing else on the connection"}
}

// expireOn gives an exchange up that has taken too long. If nothing at all has come since
// it was written, the connection is given up with it, unless the peer knows of the time.
func (w *worker) expireOn(e int32, x *exchange, i int32, c *connection, now int64) {
	if c.heard < x.written && !w.engine.config.Deadline {
		w.lost(i, c, now, w.engine.silent)
		return
	}
	c.mux.Cancel(uint32(e - i*w.streams)) //nolint:gosec // not negative
	w.speak(i, c)
	w.fail(x, c, now, w.engine.config.TimedOut)
	w.release(e, x, c)
	w.resume(e, x, c, now)
	w.settle(i, c, now)
}
