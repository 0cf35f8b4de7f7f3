package engine

import (
	"math"
	"time"

	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/pace"
	"dyno/load/wire"
)

// An exchange is a place for a request and its response. In a closed loop that repeats one
// request it is a user, who sends, awaits the response, thinks and sends again. Elsewhere it
// is one of the requests that its connection can carry at once.
//
// The exchanges of connection i are those from i × streams on. With one on each
// connection, an exchange has the number of its connection.
type exchange struct {
	record.Request
	thinker *pace.Thinker // of a closed loop that repeats one request

	conn   int32 // the number of its connection
	number int32 // its own
	next   int32 // the next one in a list of the connection's: of those wanted, begun or spare
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

// An exchangeState says what an exchange is doing.
type exchangeState uint8

const (
	parked   exchangeState = iota // nothing
	pausing                       // closed loop: thinking or backing off, has an alarm
	awaiting                      // closed loop: its request waits for the connection
	inFlight                      // its request was sent; in the list of that name
)

// startRequest makes a user send the next request, due at a time, or wait for its connection
// to take it.
func (w *worker) startRequest(e int32, x *exchange, intended int64) {
	if intended >= w.rec.Window.End || (w.remaining == 0 && intended >= w.rec.Window.Start) {
		x.state = parked
		return
	}
	x.Intended = intended
	x.Resends, x.redirected = 0, false
	x.Part = w.schedule(intended)
	i := x.conn
	c := &w.conns[i]
	if c.firstAwaiting == none && w.free(c) > 0 {
		w.dispatch(e, x, i, c, intended)
		return
	}
	w.awaitConnection(e, x, i, c)
}

// schedule counts a request as scheduled, and returns what it belongs to.
func (w *worker) schedule(intended int64) record.Part {
	part := w.rec.Schedule(intended)
	if part == record.Inside && w.remaining != never {
		w.remaining--
	}
	return part
}

// awaitConnection has a user's request wait for its connection, which is opened if it is closed.
func (w *worker) awaitConnection(e int32, x *exchange, i int32, c *connection) {
	x.state, x.next = awaiting, none
	if c.firstAwaiting == none {
		c.firstAwaiting = e
	} else {
		w.exchanges[c.lastAwaiting].next = e
	}
	c.lastAwaiting = e
	w.awaiting++
	if c.state == closed {
		w.queueConnecting(i)
	}
}

// takeAwaiting takes the first of the requests that wait for a connection.
func (w *worker) takeAwaiting(c *connection) (e int32, x *exchange) {
	e = c.firstAwaiting
	x = &w.exchanges[e]
	c.firstAwaiting = x.next
	x.state = parked
	w.awaiting--
	return e, x
}

// continueExchange continues the user whose request has ended.
func (w *worker) continueExchange(e int32, x *exchange, c *connection, now int64) {
	switch {
	case c.failures == 0 && x.thinker != nil:
		w.pause(e, x, now+int64(x.thinker.Next()))
	case c.state == established && c.failures <= 1:
		w.startRequest(e, x, now)
	default:
		w.pause(e, x, now+int64(w.backoff(c.failures)))
	}
}

// carry finds the requests that are carried into the window, which begins: those that are
// under way, or wait for a connection.
func (w *worker) carry() {
	w.rec.BeginWindow()
	for e := range w.exchanges {
		x := &w.exchanges[e]
		if x.state != inFlight && x.state != awaiting || x.Part != record.Outside {
			continue
		}
		sent := x.state == inFlight || x.wasSent()
		w.rec.Carry(&x.Part, sent)
		if sent {
			w.conns[x.conn].asked = true
		}
	}
	for i := range w.waiting.Len() {
		if waiter := w.waiting.At(i); waiter.part == record.Outside {
			w.rec.Carry(&waiter.part, waiter.resends > 0)
		}
	}
}

// othersUnanswered tells whether requests are unanswered other than the one that has just ended
// and is still in its list.
func (w *worker) othersUnanswered() bool {
	return w.inFlight.Several() || w.begun > 0 || w.awaiting > 0 || w.waiting.Len() > 0
}

// begin counts a request as sent, be it the first time or once more.
func (w *worker) begin(x *exchange, c *connection) {
	if !x.wasSent() {
		w.rec.Sent(x.Part)
	}
	c.asked = c.asked || x.Part != record.Outside
}

// wasSent tells whether the request of an exchange was sent before, and is to be sent once more or
// followed by that to which it was redirected.
func (x *exchange) wasSent() bool { return x.Resends > 0 || x.redirected }

// send writes a request of the open loop or of a user, on a connection that is free. Ready is when that
// was at hand.
func (w *worker) send(i int32, c *connection, r waiter, ready int64) {
	e := c.current
	if c.mux != nil {
		e = c.spare
		c.spare = w.exchanges[e].next
	}
	if c.idleAt != none && (c.mux == nil || w.free(c) == 1) {
		w.removeIdle(c)
	}
	x := &w.exchanges[e]
	x.assign(r)
	if w.users != nil {
		w.users.prepareResponse(&w.users.all[r.user])
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
		if w.follower != nil {
			w.trails[e].begin()
		}
	}
	x.Status = record.NoStatus
	x.state = inFlight
	w.tally.Exchanges++
	if x.Part == record.Inside {
		w.tally.WindowExchanges++
	}
	if c.carried > 0 {
		w.tally.Reused++
		if x.Part == record.Inside {
			w.tally.WindowReused++
		}
	}
	c.carried++
	c.busy++
	c.Stamp(w.sockets)
	if c.mux != nil {
		w.beginMuxExchange(e, x, i, c)
		return
	}
	c.current = e
	if w.stamps {
		if p, ok := c.client.(wire.Stamper); ok {
			p.Stamp(w.engine.epoch + x.Intended)
		}
	}
	if c.Secure() {
		w.sendSealed(e, x, i, c)
		return
	}
	c.Put(w.request(x, c))
	x.Written = w.sockets.Clock.Now()
	w.trackInFlight(e, x)
	if w.messages != nil {
		w.startMessages(e, x.Written)
	}
	w.flush(i, c)
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
	w.untrack(e, x)
	x.state = parked
	c.busy--
}

// pause makes a user pause until a time.
func (w *worker) pause(e int32, x *exchange, until int64) {
	x.state = pausing
	w.alarms.Set(until, e)
}

// fireAlarms wakes the users whose pause is over.
func (w *worker) fireAlarms(now int64) {
	for w.alarms.Next() <= now {
		a := w.alarms.Pop()
		if w.users != nil {
			w.sendNext(a.Whose, a.At, false)
			continue
		}
		w.startRequest(a.Whose, &w.exchanges[a.Whose], a.At)
	}
}

// expire ends what has taken too long.
func (w *worker) expire(now int64) {
	limit := now - int64(w.engine.config.Timeout)
	for e := w.inFlight.Head(); e != none && w.exchanges[e].Written <= limit; e = w.inFlight.Head() {
		w.timeOut(e, now, w.engine.config.Deadline)
	}
	w.expireTimed(now)
	w.expireConnecting(now)
}

var (
	errTimeout     = &wire.Error{Kind: wire.Timeout, Text: "no complete response in time"}
	errUnfinished  = &wire.Error{Kind: wire.Unfinished, Text: "still under way at the end"}
	errUnconnected = &wire.Error{Kind: wire.Unfinished, Text: "still connecting at the end"}
)

// startDue starts the requests of the open loop that are due.
func (w *worker) startDue(now int64) {
	for now >= w.due {
		intended := w.due
		if intended >= w.rec.Window.End || (w.rec.Window.PartOf(intended) == record.Inside && w.remaining == 0) {
			w.due = never
			return
		}
		if w.users != nil {
			w.advance()
			w.startIteration(intended)
			now = w.sockets.Clock.Now()
			continue
		}
		r := waiter{intended: intended, part: w.schedule(intended)}
		w.advance()
		if n := len(w.idles); n > 0 {
			i := w.idles[n-1]
			// The connection was at hand before the request was due.
			w.send(i, &w.conns[i], r, intended)
			now = w.sockets.Clock.Now()
			continue
		}
		if !w.waiting.Push(r) {
			w.rec.Drop(r.part, w.starved)
			continue
		}
		w.openOneMore()
	}
}

// advance reads the next intended start from the schedule.
func (w *worker) advance() {
	_, at, ok := w.cursor.Next()
	w.due = never
	if ok {
		w.due = w.origin + int64(at)
	}
}

// step returns the step whose request an exchange carries: none without users.
func (w *worker) step(x *exchange) int {
	if w.users == nil {
		return record.NoStep
	}
	return w.users.stepOf(x.User)
}

// firstWritten returns when the request of an exchange was written, or the first of those that
// redirects have led to.
func (w *worker) firstWritten(x *exchange) int64 {
	if x.redirected {
		return w.trails[x.number].written
	}
	return x.Written
}

// succeed records a good response.
func (w *worker) succeed(x *exchange, c *connection, r clock.Reading) {
	w.rec.Succeed(&x.Request, w.firstWritten(x), w.step(x), r, w.othersUnanswered())
	if x.Part != record.Outside {
		c.answered, c.served = true, true
	}
}

// fail records a request that failed.
func (w *worker) fail(x *exchange, c *connection, now int64, err error) {
	w.rec.Fail(&x.Request, w.firstWritten(x), w.step(x), now, err)
	switch wire.KindOf(err) {
	case wire.Status, wire.Assertion, wire.Limit:
		c.answered = c.answered || x.Part != record.Outside
	}
}

// backoff returns how long a user pauses after failures in a row: not at all
// after the first, then from 1 ms doubling to the limit, with jitter over half
// of it so that users do not return in step.
func (w *worker) backoff(failures uint8) time.Duration {
	if failures <= 1 {
		return 0
	}
	d := min(time.Millisecond<<min(failures-2, 30), w.engine.config.MaxBackoff)
	return d/2 + time.Duration(w.rng.Int64N(int64(d/2)+1))
}

// failedAgain counts a failure of a connection in a row.
func (c *connection) failedAgain() { c.failures = min(c.failures, math.MaxUint8-1) + 1 }
