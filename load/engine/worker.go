package engine

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/engine/subscribe"
	"dyno/load/pace"
	"dyno/load/wire"
)

// never is later than any time of the engine.
const never = math.MaxInt64

// none is no place in a slice.
const none = queue.None

// A worker is one thread with one poller and its share of the connections and of
// the schedule. All its fields are its own thread's while that runs, but for the
// channels and stop.
type worker struct {
	engine  *engine
	number  int
	thread  int // its id; set before it is ready
	sockets *socket.Thread
	rng     *rand.Rand // back-off jitter

	users     *userPool // its share of the users; nil where one request is repeated
	follower  wire.Follower
	trails    []trail   // of exchanges that follow redirects, by their numbers; nil without a follower
	target    [1][]byte // of the request that follows a redirect, while it is put together
	pooled    bool      // requests go over whichever connection is free: in an open loop, and those of users
	exchanges []exchange
	inFlight  queue.List // of exchanges
	begun     int        // exchanges that were begun and will be in flight once they are written
	awaiting  int        // exchanges in that state

	conns         []connection
	streams       int32              // exchanges of each connection
	lifetime      uint64             // exchanges that one connection carries at most
	outgoing      []int32            // connections that have something to say
	again         []place            // connections that had more to do than one turn allows
	connecting    queue.List         // of connections that are not established yet
	opening       int                // in that list
	connectQueue  queue.FIFO[int32]  // connections in state queued; never more than there are
	newClient     func() wire.Client // with TLS, if the server chooses by ALPN
	newMux        func() wire.Mux    // with TLS, if the server chooses by ALPN
	tunnelErrors  map[error]*wire.Error
	alarms        queue.Alarms
	messages      []messageTimes // by exchange; nil unless messages are timed
	messageAlarms queue.Alarms   // messages of requests that are due
	pingAlarms    queue.Alarms   // connections whose peers are to be asked whether they are there
	handshakes    record.Handshakes

	subscribers *subscribe.Pool
	stamps      bool // there are clients that stamp what they publish
	posted      bool // what this worker published is known to all

	undecided  bool          // whether responses end by arrival is seen in the warm-up
	decision   int64         // when it is due
	cpuAtStart time.Duration // of this thread

	// The open loop's.
	cursor *pace.Cursor
	due    int64 // the next intended start; never when there is none

	// Of connections that are pooled.
	waiting queue.FIFO[waiter]
	idles   []int32 // connections that can carry one more request, the latest used last
	vacant  []int32 // connections that are closed

	// The phases, on the engine's clock.
	origin, drainEnd int64
	remaining        uint64 // requests of the window still to begin
	concluded        int64  // when the worker was done
	marks            [2]mark
	marked           int

	rec     *record.Recorder
	tally   record.Connections
	open    int
	goAways record.Texts
	refusal error // the last
	starved bool  // the last connection could not be opened for want of descriptors, ports or memory
	spun    int64
}

// A place is a connection as it was when it was noted: one that follows it there is another.
type place struct {
	conn       int32
	generation uint32
}

// A mark is what a worker notes at the window's start and end.
type mark struct {
	at              int64
	thread, process record.CPUTime
	spun            int64
}

// connectAll opens every connection of a closed loop and of the subscribers before the
// load begins, so that the warm-up meets all of them. It returns when each has been
// tried.
func (w *worker) connectAll() {
	if w.cursor == nil {
		for i := range w.conns {
			w.queueConnecting(int32(i))
		}
	}
	deadline := w.sockets.Clock.Now() + int64(w.engine.config.ConnectTimeout)*2
	if w.subscribers.Len() > 0 {
		deadline += int64(w.engine.config.Subscribers.RampTime())
		w.subscribers.Start(w.sockets.Clock.Now())
	}
	for {
		now := w.sockets.Clock.Now()
		w.connectQueued(now)
		w.subscribers.Serve(now)
		if (w.opening == 0 && w.connectQueue.Len() == 0 && w.subscribers.Untried() == 0) || now >= deadline || w.engine.stopped() {
			return
		}
		w.expireConnecting(now)
		pause := 10 * time.Millisecond
		if len(w.again) > 0 {
			pause = 0
		}
		if next := w.subscribers.Next(); next != never {
			pause = min(pause, time.Duration(next-w.sockets.Clock.Now()))
		}
		w.handle(w.sockets.Poller.Wait(pause))
	}
}

// start sets the phases. The clock of every worker has the same zero.
func (w *worker) start(origin int64) {
	c := &w.engine.config
	w.origin = origin
	windowStart, windowEnd := origin+int64(c.Warmup), int64(never)
	w.drainEnd = never
	if c.Window > 0 {
		windowEnd = windowStart + int64(c.Window)
		w.drainEnd = windowEnd + int64(c.Drain)
	}
	w.rec.Begin(origin, windowStart, windowEnd)
	w.subscribers.Begin(origin)
	if w.cursor == nil {
		for i := range w.conns {
			if w.conns[i].state != established {
				w.tally.Unopened++
			}
		}
	}
	w.cpuAtStart = threadCPU().Total()
	w.decision = origin + int64(c.Warmup)*3/4
	if c.Warmup == 0 {
		w.decision += trialRun
	}
	if w.cursor != nil {
		w.advance()
		return
	}
	w.due = never
	if w.users != nil {
		w.startUsers(origin)
		return
	}
	for e := range w.exchanges {
		w.pause(int32(e), &w.exchanges[e], origin)
	}
}

// loop is the engine's inner loop.
func (w *worker) loop() {
	spin := int64(w.engine.config.Spin)
	eager := false // the last turn found work
	for {
		now := w.sockets.Clock.Now()
		if now >= w.phase() {
			w.mark(now)
		}
		if now >= w.rec.NextInterval() {
			w.rec.Rotate(now, w.connections())
		}
		if w.undecided && now >= w.decision {
			w.decideClock(now)
		}
		// Before the end is judged: what was due in the window belongs to it, even
		// when the worker was held up until after its end.
		w.startDue(now)
		w.flushOutgoing()
		w.closeEarly(now)
		if w.ended(now) {
			for w.marked < 2 {
				w.mark(now)
			}
			return
		}
		w.fireAlarms(now)
		w.sendDueMessages(now)
		w.keepAlive(now)
		w.expire(now)
		w.connectQueued(now)
		w.subscribers.Serve(now)
		w.flushOutgoing()

		next := w.nextDue()
		var events []unix.EpollEvent
		switch now = w.sockets.Clock.Now(); {
		case next-now <= 0 || eager || len(w.again) > 0:
			events = w.sockets.Poller.Poll()
			eager = len(events) > 0
		case next == w.due && next-now <= spin:
			events = w.sockets.Poller.Poll()
			w.spun += w.sockets.Clock.Now() - now
		case next == w.due:
			events = w.sockets.Poller.Wait(time.Duration(next - now - spin))
			eager = len(events) > 0
		default:
			events = w.sockets.Poller.Wait(time.Duration(min(next-now, int64(time.Second))))
			eager = len(events) > 0
		}
		w.handle(events)
		if !w.sockets.Poller.Full(events) && len(w.again) == 0 {
			// What came later makes an event of the next turn, or of a later one.
			w.sockets.Emptied = now
		}
	}
}

// nextDue returns when the worker has something to do if nothing arrives.
func (w *worker) nextDue() int64 {
	next := min(w.due, w.rec.NextInterval(), w.phase(), w.drainEnd, w.subscribers.Next(),
		w.alarms.Next(), w.messageAlarms.Next(), w.pingAlarms.Next())
	if e := w.inFlight.Head(); e != none {
		next = min(next, w.exchanges[e].Written+int64(w.engine.config.Timeout))
	}
	next = min(next, w.users.next(w.exchanges))
	if i := w.connecting.Head(); i != none {
		next = min(next, w.conns[i].began+int64(w.engine.config.ConnectTimeout))
	}
	return next
}

// phase returns when the window's next edge is.
func (w *worker) phase() int64 {
	switch w.marked {
	case 0:
		return w.rec.Window.Start
	case 1:
		return w.rec.Window.End
	}
	return never
}

func (w *worker) mark(now int64) {
	switch {
	case w.marked == 0 && now >= w.rec.Window.Start:
		w.carry()
	case w.marked == 1:
		w.rec.EndWindow()
		w.subscribers.EndWindow()
	}
	w.marks[w.marked] = mark{at: now, thread: threadCPU(), process: processCPU(), spun: w.spun}
	w.marked++
}

// unanswered tells whether requests are unanswered.
func (w *worker) unanswered() bool {
	return w.inFlight.Head() != none || w.awaiting > 0 || w.waiting.Len() > 0
}

// closeEarly ends the window before its time: when the measurement is interrupted, nothing
// is awaited any more; when the number of requests is reached, or all users have ended, the
// window is as long as they took. A schedule whose last arrival is over goes on until the
// window's end: that no request comes is a part of the load, as in a stage of 0/s.
func (w *worker) closeEarly(now int64) {
	// Without a length of the window, nothing else could end it.
	over := w.cursor != nil && w.engine.config.Window == 0
	if w.users != nil {
		over = (over || w.cursor == nil || w.users.worker.Dry()) && w.users.active == 0
	}
	exhausted := w.remaining == 0 || over && w.due == never
	switch {
	case w.engine.stopped():
		w.rec.Window.End, w.drainEnd = min(w.rec.Window.End, now), now
	case exhausted && !w.unanswered() && now < w.rec.Window.End && w.engine.config.Subscribers == nil:
		w.rec.Window.End = max(w.rec.Finished(), w.rec.Window.Start)
		w.drainEnd = w.rec.Window.End
	}
}

// ended tells whether there is nothing left to do, or no time left to do it.
func (w *worker) ended(now int64) bool {
	if now < w.rec.Window.End || (w.unanswered() && now < w.drainEnd) {
		return false
	}
	return w.engine.config.Subscribers == nil || now >= w.drainEnd || w.allArrived(now)
}

// hangTime is for how long a request must have waited that the connection may be said to
// hang. Whether that is long for the target, its other answers tell.
const hangTime = time.Second

// giveUp accounts for what is under way at the end: sent requests are
// unfinished, waiting ones were never sent.
func (w *worker) giveUp() {
	now := w.sockets.Clock.Now()
	for e := w.inFlight.Head(); e != none; {
		x := &w.exchanges[e]
		c := &w.conns[x.conn]
		next := w.inFlight.After(e)
		if waited := now - x.Written; x.Part != record.Outside && waited >= int64(hangTime) {
			if !c.hung { // the one that has waited longest comes first
				c.hung = true
				w.tally.Hung++
				w.tally.HungFor += time.Duration(waited)
			}
			if w.cursor == nil {
				w.tally.Omitted += time.Duration(max(0, min(now, w.rec.Window.End)-max(x.Written, w.rec.Window.Start)))
			}
		}
		w.fail(x, c, now, errUnfinished)
		e = next
	}
	for e := range w.exchanges {
		x := &w.exchanges[e]
		c := &w.conns[x.conn]
		switch {
		case x.state != awaiting:
		case x.wasSent():
			w.fail(x, c, now, errUnfinished)
		default:
			w.failUnsent(x, c, now, errUnconnected)
		}
	}
	for w.waiting.Len() > 0 {
		switch r := w.waiting.Pop(); {
		case r.resends > 0:
			x := exchange{Request: record.Request{Ready: r.written, Written: r.written, Status: record.NoStatus}}
			x.assign(r)
			w.fail(&x, &w.conns[0], now, errUnfinished)
		case w.users == nil:
			w.rec.Drop(r.part, w.starved)
		case w.cursor == nil:
			w.failWaiting(r, now, errUnconnected)
		default:
			w.dropRequest(r)
		}
	}
	w.post()
	w.countServed()
	w.subscribers.End()
	w.concluded = now
	w.rec.End(now, w.connections())
}

// closeAll closes the connections, on the thread that has opened them.
func (w *worker) closeAll() {
	w.subscribers.Close()
	for i := range w.conns {
		if c := &w.conns[i]; c.FD != none {
			c.CloseNotify(w.sockets)
			w.hangUp(c)
		}
	}
	w.sockets.Clock.Close()
}

// sources returns the sources of a worker's publishers: those that have published, or
// also those that may.
func (w *worker) sources(planned bool) (sources []wire.Source) {
	for i := range w.conns {
		p, ok := w.conns[i].client.(wire.Stamper)
		if !ok {
			continue
		}
		for s := range p.Sources {
			if planned || s.Published > 0 {
				sources = append(sources, s)
			}
		}
	}
	return sources
}

// post tells all workers what this one has published. It has finished.
func (w *worker) post() {
	if !w.posted && w.engine.config.Subscribers != nil {
		w.posted = true
		w.engine.publications.Report(w.sources(false))
	}
}

// allArrived tells, once the worker's requests have ended, whether its subscribers have
// all that is due to them.
func (w *worker) allArrived(now int64) bool {
	w.post()
	return w.subscribers.AllArrived(now)
}

// connections is how many are open now, subscriptions included.
func (w *worker) connections() int { return w.open + w.subscribers.Open() }

// handle serves events, and between them the arrivals that came due.
func (w *worker) handle(events []unix.EpollEvent) {
	if len(w.again) > 0 {
		w.runDeferred()
	}
	for n := range events {
		ev := &events[n]
		if ev.Fd <= poll.WakeToken {
			if ev.Fd < poll.WakeToken {
				if now := w.subscribers.Handle(ev); now >= w.due {
					w.startDue(now)
					w.flushOutgoing()
				}
			}
			continue
		}
		i := ev.Fd
		c := &w.conns[i]
		generation := uint32(ev.Pad) //nolint:gosec // carried, not computed with
		if c.Generation != generation {
			continue // of a connection that is gone
		}
		if c.state == connecting {
			if ev.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
				continue
			}
			w.connected(i, c)
			if c.Generation != generation {
				continue
			}
		}
		if ev.Events&unix.EPOLLOUT != 0 && (c.Pending() || c.blocked) {
			w.flush(i, c)
		}
		const readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
		if ev.Events&readable != 0 && c.Generation == generation {
			c.HungUp = c.HungUp || ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
			w.readNow(i, c)
		}
	}
}

// readNow reads from a connection, and starts the arrivals that came due meanwhile.
func (w *worker) readNow(i int32, c *connection) {
	if now := w.read(i, c); now >= w.due {
		w.startDue(now)
		w.flushOutgoing()
	}
}

// deferWork leaves the rest of a connection's work to the next turn, so that others have theirs
// first. Epoll does not report it a second time.
func (w *worker) deferWork(i int32, c *connection) {
	if !c.again {
		c.again = true
		w.again = append(w.again, place{i, c.Generation})
	}
}

// runDeferred serves the connections that had more to do than the last turn allowed. Those that still
// have more have their turn with the next events.
func (w *worker) runDeferred() {
	n := len(w.again)
	for k := range n {
		p := w.again[k]
		c := &w.conns[p.conn]
		if c.Generation != p.generation {
			continue
		}
		c.again = false
		if c.mux != nil && c.state == established {
			w.flushMux(p.conn, c)
		}
		if c.Generation == p.generation {
			w.readNow(p.conn, c)
		}
	}
	w.again = w.again[:copy(w.again, w.again[n:])]
}

// read takes what has arrived on a connection and returns the time after it.
// Without a hang-up a read that did not fill the buffer has emptied the socket:
// what comes later makes a new event. After maxReads others have their turn.
func (w *worker) read(i int32, c *connection) (now int64) {
	generation, buffer := c.Generation, w.sockets.Buffer
	for range socket.MaxReads {
		n, r, errno := c.Read(w.sockets, buffer, w.sockets.Emptied)
		now = r.Read
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN && c.Lost == nil:
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
	w.deferWork(i, c)
	return now
}

// consume takes in the bytes of one reading.
func (w *worker) consume(i int32, c *connection, p []byte, r clock.Reading) {
	if c.mux != nil {
		w.consumeMux(i, c, p, r)
		return
	}
	if c.busy == 0 {
		w.tally.Unsolicited++
		w.disconnect(i, c)
		w.reuse(i, c)
		return
	}
	e := c.current
	x := &w.exchanges[e]
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
		n, done, err = w.users.collect(x.User, c.client, p)
	} else {
		n, done, err = c.client.Response(p)
	}
	if w.messages != nil {
		w.countMessages(e, x, c, r)
	}
	switch {
	case !done && err == nil:
	case done && n < len(p):
		w.tally.Unsolicited++
		w.failed(i, c, r.Read, errExcess)
	case !done:
		w.failed(i, c, r.Read, err)
	default:
		w.done(e, x, i, c, r, err)
	}
}

var errExcess = &wire.Error{Kind: wire.Protocol, Text: "bytes after the end of the response"}

// done ends an exchange whose response is complete, and uses the connection
// for what is due next.
func (w *worker) done(e int32, x *exchange, i int32, c *connection, r clock.Reading, err error) {
	w.rec.Response(&x.Request, c.client)
	if w.follower != nil && err == nil {
		var follows bool
		w.trails[e].note(c.client.(wire.Composer).Fields())
		if follows, err = w.follow(e, x); follows {
			w.goTo(e, x, i, c, r.Read)
			return
		}
	}
	user := x.User
	if w.users != nil && err == nil {
		w.users.collected(user, c.client)
		err = w.judge(user, x.Status, c.client.(wire.Composer).Fields(), r.Read)
	}
	if err != nil {
		w.fail(x, c, r.Arrived, err)
	} else {
		if w.messages != nil {
			w.recordTokens(e, x, c, r)
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

// keeps tells whether a connection whose exchange has ended can carry another one. A peer that hung
// up after its response will not answer another request.
func (w *worker) keeps(c *connection) bool {
	return !c.Pending() && !c.HungUp && c.carried < w.lifetime && c.client.Reusable()
}

// closeUsed closes a connection that is not kept.
func (w *worker) closeUsed(i int32, c *connection) {
	c.CloseNotify(w.sockets)
	w.disconnect(i, c)
	w.reuse(i, c)
}

// resume has whoever sent a request go on that got no response.
func (w *worker) resume(e int32, x *exchange, c *connection, now int64) {
	switch {
	case !w.pooled:
		w.continueExchange(e, x, c, now)
	case w.users != nil:
		w.failUser(x.User, now)
	}
}

// failed ends an exchange together with its connection.
func (w *worker) failed(i int32, c *connection, now int64, err error) {
	e := c.current
	x := &w.exchanges[e]
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
	w.done(e, &w.exchanges[e], i, c, clock.At(now), nil) // the end of a connection bears no stamp
}

// firstRefusal is the first status by which HTTP refuses a request.
const firstRefusal = 400

// broken handles an error of the socket, from which nothing can be read any more.
func (w *worker) broken(i int32, c *connection, now int64, errno unix.Errno) {
	if c.Lost == nil {
		c.Lost = w.sockets.PeerError(c.cutKind(), errno)
	}
	w.peerEnded(i, c, now)
}

// writeFailed notes that a connection cannot be written to. What had arrived by then is read in the
// next turn: a peer that answers and closes before it has read all of a request resets the
// connection after its answer (RFC 9112, section 9.5).
func (w *worker) writeFailed(i int32, c *connection, err error) {
	c.Break(err)
	if c.idleAt != none {
		w.removeIdle(c)
	}
	w.deferWork(i, c)
}

// cut ends a connection for an error of the socket or of TLS, or without one because the peer
// has closed it.
func (w *worker) cut(i int32, c *connection, now int64, err error) {
	switch {
	case c.state == handshaking:
		w.openFailed(i, c, now, err)
	case c.mux != nil:
		w.muxLost(i, c, now, err)
	case c.busy == 0:
		w.tally.PeerClosed++
		w.disconnect(i, c)
		w.reuse(i, c)
	default:
		w.failed(i, c, now, err)
	}
}

// flush writes what is pending. What the socket does not take now goes when it
// has room again.
func (w *worker) flush(i int32, c *connection) {
	if err := c.Flush(w.sockets, c.cutKind()); err != nil {
		w.writeFailed(i, c, err)
		return
	}
	if c.blocked && !c.Pending() && c.state >= startingMux {
		w.flushMux(i, c)
	}
}
