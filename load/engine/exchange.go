package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// An exchange is a place for a request and its response. A closed loop that repeats one request has a
// user in each place, who sends, awaits, thinks and sends again. Otherwise it is one of the requests
// that its connection can carry at once.
//
// The exchanges of connection i are those from i × streams on. With one on each
// connection, an exchange has the number of its connection.
type exchange struct {
	record.Request
	thinks *rand.PCG // of a closed loop that repeats one request: what its think times are drawn with

	conn   int32 // the number of its connection
	number int32 // its own
	next   int32 // the next one in a list of the connection's: of those that wait for it, are unwritten or spare
	state  exchangeState
	timed  uint8 // with users, the list of those with the same time for the response, from 1; 0: none

	redirected bool // it follows a redirect, as the trail of its number says
}

// A waiter is a request, of the open loop or of users, that waits for a connection.
type waiter struct {
	intended int64
	written  int64 // when it was written before; 0 if it was not
	user     int32 // with users, whose request it is
	resends  uint8
	part     record.Part
}

// exchanges are a worker's places for requests, and the requests that wait for a connection.
type exchanges struct {
	all       []exchange
	inFlight  queue.List
	timeouts  queue.Timeouts // of those in flight, the ones that have a time of their own for the response
	unwritten int            // exchanges that were begun and will be in flight once they are written
	awaiting  int            // exchanges in that state
	waiting   queue.FIFO[waiter]
}

// unanswered tells whether requests are unanswered.
func (xs *exchanges) unanswered() bool {
	return xs.inFlight.Head() != none || xs.awaiting > 0 || xs.waiting.Len() > 0
}

// othersUnanswered tells whether requests are unanswered other than the one that has just ended
// and is still in its list.
func (xs *exchanges) othersUnanswered() bool {
	return xs.inFlight.Several() || xs.unwritten > 0 || xs.awaiting > 0 || xs.waiting.Len() > 0
}

// next returns when the first of the requests in flight expires, after a time or one of its own.
func (xs *exchanges) next(timeout int64) int64 {
	next := xs.timeouts.Next()
	if e := xs.inFlight.Head(); e != none {
		next = min(next, xs.all[e].Written+timeout)
	}
	return next
}

// track adds an exchange whose request is in flight. Its step is known with users only.
func (xs *exchanges) track(e int32, x *exchange, step int) {
	xs.inFlight.Push(e)
	x.timed = xs.timeouts.Start(e, step, x.Written)
}

// untrack removes an exchange whose request has ended.
func (xs *exchanges) untrack(e int32, x *exchange) {
	xs.inFlight.Remove(e)
	xs.timeouts.End(e, x.timed)
}

// An exchangeState says what an exchange is doing.
type exchangeState uint8

const (
	parked   exchangeState = iota // nothing
	pausing                       // closed loop: thinking or backing off, has a timer
	awaiting                      // closed loop: its request waits for the connection
	inFlight                      // its request was sent; in the list of that name
)

// schedule counts a request as scheduled, and returns what it belongs to.
func (w *worker) schedule(intended int64) record.Part {
	part := w.rec.Schedule(intended)
	if part == record.Inside && w.phases.remaining != never {
		w.phases.remaining--
	}
	return part
}

// awaitConnection has a user's request wait for its connection, which is opened if it is closed.
func (w *worker) awaitConnection(e int32, x *exchange, i int32, c *connection) {
	x.state, x.next = awaiting, none
	if c.firstAwaiting == none {
		c.firstAwaiting = e
	} else {
		w.exchanges.all[c.lastAwaiting].next = e
	}
	c.lastAwaiting = e
	w.exchanges.awaiting++
	if c.state == closed {
		w.conns.queueConnecting(i)
	}
}

// takeAwaiting takes the first of the requests that wait for a connection.
func (xs *exchanges) takeAwaiting(c *connection) (e int32, x *exchange) {
	e = c.firstAwaiting
	x = &xs.all[e]
	c.firstAwaiting = x.next
	x.state = parked
	xs.awaiting--
	return e, x
}

// carry finds the requests that are carried into the window, which begins: those that are
// under way, or wait for a connection.
func (w *worker) carry() {
	w.rec.BeginWindow()
	for e := range w.exchanges.all {
		x := &w.exchanges.all[e]
		if x.state != inFlight && x.state != awaiting || x.Part != record.Outside {
			continue
		}
		sent := x.state == inFlight || x.wasSent()
		w.rec.Carry(&x.Part, sent)
		if sent {
			w.conns.all[x.conn].asked = true
		}
	}
	for i := range w.exchanges.waiting.Len() {
		if waiter := w.exchanges.waiting.At(i); waiter.part == record.Outside {
			w.rec.Carry(&waiter.part, waiter.resends > 0)
		}
	}
}

// begin counts a request as sent, be it the first time or once more.
func (w *worker) begin(x *exchange, c *connection) {
	if !x.wasSent() {
		w.rec.Sent(x.Part)
	}
	c.asked = c.asked || x.Part != record.Outside
}

// wasSent tells whether the request of an exchange was sent before. It is now sent again, or followed
// by the request of a redirect.
func (x *exchange) wasSent() bool { return x.Resends > 0 || x.redirected }

// send writes a request of the open loop or of a user, on a connection that is free. Ready is when that
// was at hand.
func (w *worker) send(i int32, c *connection, r waiter, ready int64) {
	e := c.current
	if c.mux != nil {
		e = c.spare
		c.spare = w.exchanges.all[e].next
	}
	if c.idleAt != none && (c.mux == nil || w.conns.free(c) == 1) {
		w.conns.removeIdle(c)
	}
	x := &w.exchanges.all[e]
	x.assign(r)
	if w.users != nil {
		w.users.PrepareResponse(r.user)
	}
	w.dispatch(e, x, i, c, ready)
}

// assign gives an exchange a request that has waited.
func (x *exchange) assign(r waiter) {
	x.Intended, x.Part, x.Resends, x.User, x.redirected = r.intended, r.part, r.resends, r.user, false
}

// dispatch writes an exchange's request.
func (w *worker) dispatch(e int32, x *exchange, i int32, c *connection, ready int64) {
	w.begin(x, c)
	if !x.redirected {
		x.Ready, x.First = ready, 0
		if w.redirects != nil {
			w.redirects.Begin(e)
		}
	}
	x.Status = wire.NoStatus
	x.state = inFlight
	w.conns.tally.Exchanges++
	if x.Part == record.Inside {
		w.conns.tally.WindowExchanges++
	}
	if c.carried > 0 {
		w.conns.tally.Reused++
		if x.Part == record.Inside {
			w.conns.tally.WindowReused++
		}
	}
	c.carried++
	c.busy++
	c.Stamp(w.sockets)
	if w.conns.stamps {
		c.stamper().Stamp(w.engine.epoch + x.Intended)
	}
	if c.mux != nil {
		w.beginMuxExchange(e, x, i, c)
		return
	}
	c.current = e
	if c.Secure() {
		w.sendSealed(e, x, i, c)
		return
	}
	c.Put(w.request(x, c))
	w.noteWritten(e, x, w.sockets.Clock.Now())
	w.flush(i, c)
}

// noteWritten begins the time of a request, which is written now.
func (w *worker) noteWritten(e int32, x *exchange, now int64) {
	x.Written = now
	w.exchanges.track(e, x, w.step(x))
	if w.messages != nil {
		w.messages.Start(e, now)
	}
}

// outline returns which prepared request an exchange sends, and its parts. They are valid
// until the next call.
func (w *worker) outline(e int32, x *exchange) (request int, parts [][]byte) {
	switch {
	case w.redirects != nil:
		request, parts = w.redirects.Request(e)
	case w.users != nil:
		r := w.users.Request(x.User)
		request, parts = r.Outline, r.Parts
	}
	if w.tracer != nil {
		if x.redirected {
			w.tracer.Proceed(x.Trace)
		} else {
			x.Trace = w.tracer.Next()
		}
		parts = w.tracer.Insert(request, parts)
	}
	return request, parts
}

// request returns the bytes of an exchange's request, for a client that carries one at a time.
func (w *worker) request(x *exchange, c *connection) []byte {
	if w.redirects == nil && w.users == nil && w.tracer == nil {
		return c.client.Request()
	}
	return c.client.(wire.Composer).Compose(w.outline(x.number, x))
}

// release ends an exchange that is in flight, once it is accounted for.
func (w *worker) release(e int32, x *exchange, c *connection) {
	w.suspend(e, x, c)
	if w.pooled && c.mux != nil {
		x.next = c.spare
		c.spare = e
	}
}

// suspend takes an exchange off its connection, on which it may go on.
func (w *worker) suspend(e int32, x *exchange, c *connection) {
	w.exchanges.untrack(e, x)
	x.state = parked
	c.busy--
}

var (
	errUnfinished  = &wire.Error{Kind: wire.Unfinished, Text: "still under way at the end"}
	errUnconnected = &wire.Error{Kind: wire.Unfinished, Text: "still connecting at the end"}
)

// step returns the step whose request an exchange carries: none without users.
func (w *worker) step(x *exchange) int {
	if w.users == nil {
		return record.NoStep
	}
	return w.users.Step(x.User)
}

// firstWritten returns when the request of an exchange was written, or the first of those that
// redirects have led to.
func (w *worker) firstWritten(x *exchange) int64 {
	if x.redirected {
		return w.redirects.Written(x.number)
	}
	return x.Written
}

// succeed records a good response.
func (w *worker) succeed(x *exchange, c *connection, r clock.Reading) {
	written := w.firstWritten(x)
	w.rec.Succeed(&x.Request, written, w.step(x), r, w.exchanges.othersUnanswered())
	if written < w.conns.shortSince {
		w.conns.tally.Unqueued++
		w.conns.tally.UnqueuedTime += time.Duration(r.Arrived - written)
	}
	if x.Part != record.Outside {
		c.answered = true
		c.good++
	}
}

// fail records a request that failed.
func (w *worker) fail(x *exchange, c *connection, now int64, err error) {
	w.rec.Fail(&x.Request, w.firstWritten(x), w.step(x), now, err)
	if x.Part == record.Outside {
		return
	}
	c.bad++
	switch wire.KindOf(err) {
	case wire.Status, wire.Assertion, wire.Limit:
		c.answered = true
	}
}

// failedAgain counts a failure of a connection in a row.
func (c *connection) failedAgain() { c.failures = min(c.failures, math.MaxUint8-1) + 1 }

// expire ends requests that have taken too long.
func (w *worker) expire(now int64) {
	limit := now - int64(w.config.Timeout)
	for e := w.exchanges.inFlight.Head(); e != none && w.exchanges.all[e].Written <= limit; e = w.exchanges.inFlight.Head() {
		w.timeOut(e, now, w.config.Deadline)
	}
	for e := w.exchanges.timeouts.Expired(now); e != none; e = w.exchanges.timeouts.Expired(now) {
		w.timeOut(e, now, true)
	}
	w.expireConnecting(now)
}

// timeOut fails a request that has taken too long. The peer knows some of the timeouts. Bytes that
// arrived and were not read may be the response: it was in time if the worker was not.
func (w *worker) timeOut(e int32, now int64, peerKnows bool) {
	x := &w.exchanges.all[e]
	c := &w.conns.all[x.conn]
	written := x.Written
	w.read(x.conn, c)
	if x.state != inFlight || x.Written != written {
		return // it has ended, and its place may have another
	}
	if c.mux != nil {
		w.expireMuxExchange(e, x, x.conn, c, now, peerKnows)
		return
	}
	w.failed(x.conn, c, now, w.config.TimedOut)
}
