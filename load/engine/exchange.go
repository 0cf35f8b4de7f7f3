package engine

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/clock"
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
	thinker *pace.Thinker // of a closed loop that repeats one request

	intended int64 // when the request was due
	ready    int64 // when a connection was at hand for it
	written  int64 // when it was written
	first    int64 // when the first byte came back; 0 before

	conn    int32 // the number of its connection
	number  int32 // its own
	next    int32 // the next one in a list of the connection's: of those wanted, begun or spare
	user    int32 // with users, whose request it is
	status  int16 // of the response; noStatus where there is none
	state   exchangeState
	window  uint8 // what the request belongs to: outside, inside or carried
	resends uint8 // how often it was sent once more
	timed   uint8 // with users, the list of those with the same time for the response, from 1; 0: none

	redirected bool // it follows a redirect, as the trail of its number says
}

// noStatus is the status of a response of a protocol that has none.
const noStatus = -1

// A waiter is a request, of the open loop or of users, that waits for a connection.
type waiter struct {
	intended int64
	written  int64 // when it was written before; 0 if it was not
	user     int32 // with users, whose request it is
	resends  uint8
	window   uint8 // what it belongs to, as an exchange's
}

// An exchangeState says what an exchange is doing.
type exchangeState uint8

const (
	parked   exchangeState = iota // nothing
	pausing                       // closed loop: thinking or backing off, has an alarm
	awaiting                      // closed loop: its request waits for the connection
	inFlight                      // its request was sent; in the list of that name
)

// What a request belongs to.
const (
	outside uint8 = iota // the warm-up
	inside               // the window, in which it was due
	carried              // the window, when which began it was due and unanswered
	parts
)

// startRequest makes a user send the next request, due at a time, or wait for its connection
// to take it.
func (w *worker) startRequest(e int32, x *exchange, intended int64) {
	if intended >= w.windowEnd || (w.remaining == 0 && intended >= w.windowStart) {
		x.state = parked
		return
	}
	x.intended = intended
	x.resends, x.redirected = 0, false
	x.window = w.countScheduled(intended)
	i := x.conn
	c := &w.conns[i]
	if c.firstAwaiting == none && w.free(c) > 0 {
		w.dispatch(e, x, i, c, intended)
		return
	}
	w.awaitConnection(e, x, i, c)
}

// countScheduled counts a request as scheduled, and returns what it belongs to.
func (w *worker) countScheduled(intended int64) (window uint8) {
	window = w.windowOf(intended)
	w.counts[window].Scheduled++
	w.silences.due(intended)
	if window == inside && w.remaining != never {
		w.remaining--
	}
	return window
}

// windowOf returns what a request belongs to that is due at a time.
func (w *worker) windowOf(intended int64) uint8 {
	switch {
	case intended >= w.windowStart && intended < w.windowEnd:
		return inside
	case intended < w.windowStart && w.marked > 0:
		return carried
	}
	return outside
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
	from, to := &w.counts[outside], &w.counts[carried]
	for e := range w.exchanges {
		x := &w.exchanges[e]
		if x.state != inFlight && x.state != awaiting || x.window != outside {
			continue
		}
		x.window = carried
		from.Scheduled--
		to.Scheduled++
		if x.state == inFlight || x.wasSent() {
			from.Sent--
			to.Sent++
			w.conns[x.conn].asked = true
		}
	}
	for i := range w.waiting.Len() {
		waiter := w.waiting.At(i)
		if waiter.window != outside {
			continue // the window's own
		}
		waiter.window = carried
		from.Scheduled--
		to.Scheduled++
		if waiter.resends > 0 {
			from.Sent--
			to.Sent++
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
		w.counts[x.window].Sent++
	}
	c.asked = c.asked || x.window != outside
}

// wasSent tells whether the request of an exchange was sent before, and is to be sent once more or
// followed by that to which it was redirected.
func (x *exchange) wasSent() bool { return x.resends > 0 || x.redirected }

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
	x.intended, x.window, x.resends, x.user, x.redirected = r.intended, r.window, r.resends, r.user, false
}

// dispatch writes an exchange's request.
func (w *worker) dispatch(e int32, x *exchange, i int32, c *connection, ready int64) {
	w.begin(x, c)
	if !x.redirected {
		x.ready, x.first = ready, 0
		if w.follower != nil {
			w.trails[e].begin()
		}
	}
	x.status = noStatus
	x.state = inFlight
	w.tally.Exchanges++
	if x.window == inside {
		w.tally.WindowExchanges++
	}
	if c.carried > 0 {
		w.tally.Reused++
		if x.window == inside {
			w.tally.WindowReused++
		}
	}
	c.carried++
	c.busy++
	if w.clock.Stamping() && !c.stamping {
		c.stamping = clock.RequestStamps(int(c.fd)) == nil // the connection is older than the decision
	}
	if c.mux != nil {
		w.beginMuxExchange(e, x, i, c)
		return
	}
	c.current = e
	if w.stamps {
		if p, ok := c.client.(wire.Stamper); ok {
			p.Stamp(w.engine.epoch + x.intended)
		}
	}
	if c.tls != nil {
		w.sendSealed(e, x, i, c)
		return
	}
	c.pending = w.request(x, c)
	x.written = w.clock.Now()
	w.trackInFlight(e, x)
	if w.messages != nil {
		w.startMessages(e, x.written)
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
	for e := w.inFlight.Head(); e != none && w.exchanges[e].written <= limit; e = w.inFlight.Head() {
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

// An errnoKind is a system error and what it means for a request.
type errnoKind struct {
	kind  wire.Kind
	errno unix.Errno
}

// errnoError returns the one error there is for a system error of that kind, so
// that failing in the same way again allocates nothing.
func (w *worker) errnoError(kind wire.Kind, errno unix.Errno) *wire.Error {
	key := errnoKind{kind, errno}
	e := w.errnos[key]
	if e == nil {
		text := errno.Error()
		switch errno {
		case unix.ECONNRESET:
			text = "the peer reset the connection"
		case unix.EPIPE:
			text = "the peer had closed the connection"
		}
		e = &wire.Error{Kind: kind, Text: text}
		w.errnos[key] = e
	}
	return e
}

// startDue starts the requests of the open loop that are due.
func (w *worker) startDue(now int64) {
	for now >= w.due {
		intended := w.due
		if intended >= w.windowEnd || (w.windowOf(intended) == inside && w.remaining == 0) {
			w.due = never
			return
		}
		if w.users != nil {
			w.advance()
			w.startIteration(intended)
			now = w.clock.Now()
			continue
		}
		r := waiter{intended: intended, window: w.countScheduled(intended)}
		w.advance()
		if n := len(w.idles); n > 0 {
			i := w.idles[n-1]
			// The connection was at hand before the request was due.
			w.send(i, &w.conns[i], r, intended)
			now = w.clock.Now()
			continue
		}
		if !w.waiting.Push(r) {
			w.drop(r.window)
			continue
		}
		w.openOneMore()
	}
}

// drop counts a request that is not sent, by what it belongs to.
func (w *worker) drop(window uint8) {
	c := &w.counts[window]
	c.Dropped++
	if w.starved {
		c.Unsent++
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

// succeed records a good response.
func (w *worker) succeed(x *exchange, c *connection, r clock.Reading) {
	w.interval.completed++
	if r.Arrived >= w.windowStart && r.Arrived < w.windowEnd {
		w.completed++
		if w.users != nil {
			w.users.figuresOf(x.user).completed++
		}
	}
	w.counts[x.window].OK++
	w.silences.answered(r.Read, w.windowStart, w.windowEnd, w.othersUnanswered())
	if x.window != outside {
		c.answered, c.served = true, true
	}
	if x.window != inside {
		return
	}
	if w.users != nil {
		w.users.figuresOf(x.user).ok++
	}
	w.countStatus(x)
	w.finished = max(w.finished, r.Arrived)
	w.recordTimes(x, r)
	w.ends.count(r)
	if r.Stamp == clock.Stamped {
		w.interval.latency[ReadDelay].Record(r.Read - r.Arrived)
	}
}

// fail records a request that failed.
func (w *worker) fail(x *exchange, c *connection, now int64, err error) {
	kind := wire.KindOf(err)
	w.interval.byKind[kind]++
	w.silences.failing++
	counts := &w.counts[x.window]
	counts.ByKind[kind]++
	if n, ok := w.failures[err]; x.window != outside && (ok || len(w.failures) < failureTexts) {
		w.failures[err] = n + 1
	}
	switch kind {
	case wire.Timeout:
		counts.Timeouts++
	case wire.Unfinished:
		counts.Unfinished++
	case wire.Generator:
		counts.Generator++
	default:
		counts.Errors++
		if kind == wire.Status || kind == wire.Assertion || kind == wire.Limit {
			c.answered = c.answered || x.window != outside
		}
	}
	if x.window != inside {
		return
	}
	if w.users != nil {
		w.users.figuresOf(x.user).byKind[kind]++
	}
	if kind == wire.Status || kind == wire.Assertion {
		w.countStatus(x)
	}
	w.finished = max(w.finished, now)
	if kind == wire.Timeout || kind == wire.Unfinished {
		w.recordTimes(x, clock.At(now))
		return
	}
	w.interval.latency[Failed].Record(now - x.intended)
}

// recordTimes records a request that ended, or was given up.
func (w *worker) recordTimes(x *exchange, r clock.Reading) {
	l := &w.interval.latency
	written := x.written
	if x.redirected {
		written = w.trails[x.number].written
	}
	l[Response].Record(r.Arrived - x.intended)
	l[Service].Record(r.Arrived - written)
	l[ServiceRead].Record(r.Read - written)
	l[SendLag].Record(written - x.intended)
	l[GeneratorLag].Record(written - max(x.intended, x.ready))
	if x.first != 0 {
		l[FirstByte].Record(x.first - written)
	}
	if w.users != nil {
		f := w.users.figuresOf(x.user)
		f.response.Record(r.Arrived - x.intended)
		f.service.Record(r.Arrived - written)
	}
}

// statusOf returns the status of a client's response.
func statusOf(c wire.Client) int16 {
	if client, ok := c.(wire.StatusCoder); ok {
		return int16(min(uint(client.Status()), statusCodes)) //nolint:gosec // bounded
	}
	return noStatus
}

// noteResponse notes the status of a response, and how it departed from its protocol.
func (w *worker) noteResponse(x *exchange, c wire.Client) {
	x.status = statusOf(c)
	if d, ok := c.(wire.Deviant); ok && x.window == inside {
		w.countDeviations(d.Deviations())
	}
}

// countDeviations counts a response by each way in which it departed from its protocol.
func (w *worker) countDeviations(d wire.Deviations) {
	if d != 0 {
		d.Names(func(name string) { w.departs[name]++ })
	}
}

// countStatus counts the status of a response to a request of the window.
func (w *worker) countStatus(x *exchange) {
	switch n := x.status; {
	case n == noStatus:
	case n < 0 || n >= statusCodes:
		w.interval.status[0]++
	default:
		w.interval.status[n]++
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
