package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/pace"
	"dyno/load/wire"
)

// never is later than any time of the engine.
const never = math.MaxInt64

// readSize is how much one read may bring. It is shared by a worker's
// connections: nothing is kept in it from one read to the next.
const readSize = 64 << 10

// maxConnecting bounds a worker's connections under way, so that a large number
// of them does not overrun the target's accept queue. The others wait their turn.
const maxConnecting = 128

// A slot is a place for a connection: in a closed loop a user, in an open loop
// one of the connections there may be.
type slot struct {
	client  wire.Client
	thinker *pace.Thinker
	pending []byte // what the socket has not taken of the request

	intended int64 // when the request was due
	ready    int64 // when a connection was at hand for it
	written  int64 // when it was written, or the connecting began
	first    int64 // when the first byte came back; 0 before

	fd         int32 // -1 without a connection
	generation uint32
	prev, next int32 // in flight, or connecting
	idleAt     int32 // place among the idle, of an open loop
	state      state
	requested  bool  // a request of a closed loop waits for this connection
	window     uint8 // what the request belongs to: outside, inside or carried
	asked      bool  // has had a request of the window, or carried into it
	answered   bool  // one of those was answered, well or badly
	served     bool  // one of those was answered well
	used       bool  // the connection has carried an exchange
	hungUp     bool  // the peer has said that it will send no more
	stamping   bool  // its socket stamps what arrives
	failures   uint8 // in a row
}

// What a request belongs to.
const (
	outside uint8 = iota // the warm-up
	inside               // the window, in which it was due
	carried              // the window, when which began it was due and unanswered
	parts
)

type state uint8

const (
	closed     state = iota // no connection, nothing to do
	queued                  // waits for its turn to connect
	connecting              // in the list of that name
	idle                    // connected, no exchange
	inFlight                // in the list of that name
	resting                 // closed loop: thinking or backing off, has an alarm
)

// A worker is one thread with one poller and its share of the connections and of
// the schedule. All its fields are its own thread's while that runs, but for the
// channels and stop.
type worker struct {
	engine   *engine
	number   int
	thread   int // its id; set before it is ready
	poller   *poller
	endpoint endpoint
	slots    []slot
	rng      *rand.Rand // back-off jitter

	inFlight, connecting list
	underway             int          // in the list connecting
	turns                queue[int32] // slots in state queued; never more than there are slots
	alarms               alarms
	buffer               []byte

	audience audience
	stamps   bool // there are clients that stamp what they publish

	// The arrival clock's.
	stamping   bool // reads ask for stamps
	undecided  bool // whether they do is seen in the warm-up
	holder     int32
	decision   int64         // when it is due
	cpuAtStart time.Duration // of this thread
	receiver   receiver
	offset     offset
	emptied    int64 // when all sockets with anything to read had last been told
	ends       Ends

	// The open loop's.
	cursor  *pace.Cursor
	due     int64        // the next intended start; never when there is none
	waiting queue[int64] // intended starts of the requests that wait for a connection
	idles   []int32      // connected and unused, the latest used last
	vacant  []int32      // without a connection

	// The phases, on the engine's clock.
	origin, windowStart, windowEnd, drainEnd int64
	remaining                                uint64 // requests of the window still to begin
	finished                                 int64  // when the last of them ended
	concluded                                int64  // when the worker was done
	marks                                    [2]mark
	marked                                   int

	sheet  *sheet
	rotate int64 // when the sheet is due

	counts    [parts]Counts // of the requests outside and inside the window, and carried into it
	hushes    hushes
	completed uint64
	conns     Connections
	open      int
	status    [statusCodes]uint64
	failures  map[error]uint64 // by value: codecs return the same one each time
	errnos    map[errnoKind]*wire.Error
	refusal   error // the last
	starved   bool  // the last connection could not be opened for want of descriptors, ports or memory
	spun      int64
	awaiting  int // requests of the closed loop that wait for their connection to open
}

// statusCodes bounds the codes that are told apart; the others count as 0.
const statusCodes = 1000

// failureTexts bounds the different failures a worker keeps apart.
const failureTexts = 32

// A mark is what a worker notes at the window's start and end.
type mark struct {
	at              int64
	thread, process CPUTime
	spun            int64
}

func (w *worker) now() int64 { return int64(time.Since(w.engine.base)) }

// connectAll opens every connection of a closed loop and of the subscribers before the
// load begins, so that the warm-up meets all of them. It returns when each has been
// tried.
func (w *worker) connectAll() {
	if w.cursor == nil {
		for i := range w.slots {
			w.turn(int32(i))
		}
	}
	deadline := w.now() + int64(w.engine.config.ConnectTimeout)*2
	if len(w.audience.members) > 0 {
		deadline += int64(w.engine.config.Subscribers.ramp())
		w.invite(w.now())
	}
	for {
		now := w.now()
		w.admit(now)
		w.call(now)
		if (w.underway == 0 && w.turns.count == 0 && w.audience.untried == 0) || now >= deadline || w.engine.stopped() {
			return
		}
		w.expireConnecting(now)
		pause := 10 * time.Millisecond
		if next := w.audience.next(); next != never {
			pause = min(pause, time.Duration(next-w.now()))
		}
		w.handle(w.poller.wait(pause))
	}
}

// start sets the phases. The clock of every worker has the same zero.
func (w *worker) start(origin int64) {
	c := &w.engine.config
	w.origin = origin
	w.hushes.begin(origin)
	w.audience.begin(origin)
	w.windowStart = origin + int64(c.Warmup)
	w.windowEnd, w.drainEnd = never, never
	if c.Window > 0 {
		w.windowEnd = w.windowStart + int64(c.Window)
		w.drainEnd = w.windowEnd + int64(c.Drain)
	}
	w.cpuAtStart = threadCPU().Total()
	w.decision = origin + int64(c.Warmup)*3/4
	if c.Warmup == 0 {
		w.decision += trialRun
	}
	w.sheet.start = origin
	w.rotate = origin + int64(c.Interval)
	if w.cursor != nil {
		w.advance()
		return
	}
	w.due = never
	for i := range w.slots {
		s := &w.slots[i]
		if s.state == idle || s.state == closed {
			w.rest(int32(i), s, origin)
		}
	}
}

// loop is the engine's inner loop.
func (w *worker) loop() {
	spin := int64(w.engine.config.Spin)
	eager := false // the last turn found work
	for {
		now := w.now()
		if now >= w.phase() {
			w.mark(now)
		}
		if now >= w.rotate {
			w.turnSheet(now)
		}
		if w.undecided && now >= w.decision {
			w.decideClock(now)
		}
		// Before the end is judged: what was due in the window belongs to it, even
		// when the worker was held up until after its end.
		w.arrive(now)
		if w.ended(now) {
			return
		}
		w.fire(now)
		w.expire(now)
		w.admit(now)
		w.call(now)

		next := w.nextDue()
		var events []unix.EpollEvent
		switch now = w.now(); {
		case next-now <= 0 || eager:
			events = w.poller.poll()
			eager = len(events) > 0
		case next == w.due && next-now <= spin:
			events = w.poller.poll()
			w.spun += w.now() - now
		case next == w.due:
			events = w.poller.wait(time.Duration(next - now - spin))
			eager = len(events) > 0
		default:
			events = w.poller.wait(time.Duration(min(next-now, int64(time.Second))))
			eager = len(events) > 0
		}
		w.handle(events)
		if len(events) < cap(w.poller.events) {
			// What came later makes an event of the next turn, or of a later one.
			w.emptied = now
		}
	}
}

// nextDue returns when the worker has something to do if nothing arrives.
func (w *worker) nextDue() int64 {
	next := min(w.due, w.rotate, w.phase(), w.drainEnd, w.audience.next())
	if len(w.alarms) > 0 {
		next = min(next, w.alarms[0].at)
	}
	if i := w.inFlight.head; i != none {
		next = min(next, w.slots[i].written+int64(w.engine.config.Timeout))
	}
	if i := w.connecting.head; i != none {
		next = min(next, w.slots[i].written+int64(w.engine.config.ConnectTimeout))
	}
	return next
}

// phase returns when the window's next edge is.
func (w *worker) phase() int64 {
	switch w.marked {
	case 0:
		return w.windowStart
	case 1:
		return w.windowEnd
	}
	return never
}

func (w *worker) mark(now int64) {
	switch {
	case w.marked == 0 && now >= w.windowStart:
		w.carry()
	case w.marked == 1:
		w.hushes.note(w.windowEnd, w.windowStart, w.windowEnd)
		w.audience.close(w.windowStart, w.windowEnd)
	}
	w.marks[w.marked] = mark{at: now, thread: threadCPU(), process: processCPU(), spun: w.spun}
	w.marked++
}

// ended tells whether there is nothing left to do, or no time left to do it.
func (w *worker) ended(now int64) bool {
	if w.engine.stopped() {
		// Interrupted: the window ends here and nothing is awaited.
		w.windowEnd, w.drainEnd = min(w.windowEnd, now), now
	}
	exhausted := w.cursor != nil && w.due == never
	underway := w.inFlight.head != none || w.awaiting > 0 || w.waiting.count > 0
	if (w.remaining == 0 || exhausted) && !underway && now < w.windowEnd && w.engine.config.Subscribers == nil {
		// The requests or the schedule ended before the time did: the window is
		// as long as they took.
		w.windowEnd = max(w.finished, w.windowStart)
		w.drainEnd = w.windowEnd
	}
	if now < w.windowEnd || (underway && now < w.drainEnd) {
		return false
	}
	if w.engine.config.Subscribers != nil && now < w.drainEnd && !w.served(now) {
		return false
	}
	for w.marked < 2 {
		w.mark(now)
	}
	return true
}

// hangTime is for how long a request must have waited that the connection may be said to
// hang. Whether that is long for the target, its other answers tell.
const hangTime = time.Second

// giveUp accounts for what is under way at the end: sent requests are
// unfinished, waiting ones were never sent.
func (w *worker) giveUp() {
	now := w.now()
	for i := w.inFlight.head; i != none; {
		s := &w.slots[i]
		next := s.next
		if waited := now - s.written; s.window != outside && waited >= int64(hangTime) {
			w.conns.Hung++
			w.conns.HungFor += time.Duration(waited)
			if w.cursor == nil {
				w.conns.Omitted += time.Duration(max(0, min(now, w.windowEnd)-max(s.written, w.windowStart)))
			}
		}
		w.fail(s, now, errUnfinished)
		i = next
	}
	for i := range w.slots {
		if s := &w.slots[i]; s.requested {
			s.requested = false
			w.begin(s)
			s.ready, s.written = now, now
			w.fail(s, now, errUnconnected)
		}
	}
	for w.waiting.count > 0 {
		w.drop(w.waiting.pop())
	}
	w.post()
	w.countServed()
	w.audience.countServed(w.windowStart, w.windowEnd)
	w.concluded = now
	w.sheet.end, w.sheet.open = now, w.connections()
	w.engine.collector.full <- w.sheet
}

// closeAll closes the connections.
func (w *worker) closeAll() {
	for i := range w.audience.members {
		if m := &w.audience.members[i]; m.fd != none {
			unix.Close(int(m.fd))
		}
	}
	for i := range w.slots {
		if s := &w.slots[i]; s.fd >= 0 {
			unix.Close(int(s.fd))
		}
	}
	if w.holder != none {
		unix.Close(int(w.holder))
	}
}

// connections is how many are open now, subscriptions included.
func (w *worker) connections() int { return w.open + w.audience.open }

// turnSheet hands the written sheet to the collector and takes a clean one.
func (w *worker) turnSheet(now int64) {
	interval := int64(w.engine.config.Interval)
	w.rotate = now - (now-w.origin)%interval + interval
	select {
	case clean := <-w.engine.collector.free[w.number]:
		w.sheet.end, w.sheet.open = now, w.connections()
		w.engine.collector.full <- w.sheet
		clean.start = now
		w.sheet = clean
	default: // none is back yet: this interval becomes longer
	}
}

// handle serves events, and between them the arrivals that came due.
func (w *worker) handle(events []unix.EpollEvent) {
	for n := range events {
		ev := &events[n]
		if ev.Fd <= wakeToken {
			if ev.Fd < wakeToken {
				if now := w.attend(ev); now >= w.due {
					w.arrive(now)
				}
			}
			continue
		}
		i := ev.Fd
		s := &w.slots[i]
		if s.generation != uint32(ev.Pad) {
			continue // of a connection that is gone
		}
		if s.state == connecting {
			if ev.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
				continue
			}
			w.connected(i, s)
			if s.generation != uint32(ev.Pad) {
				continue
			}
		}
		if len(s.pending) > 0 && ev.Events&unix.EPOLLOUT != 0 {
			w.flush(i, s)
		}
		const readable = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
		if ev.Events&readable != 0 && s.generation == uint32(ev.Pad) {
			s.hungUp = s.hungUp || ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
			now := w.read(i, s)
			if now >= w.due {
				w.arrive(now)
			}
		}
	}
}

// read takes what has arrived on a connection and returns the time after it.
// Without a hang-up a read that did not fill the buffer has emptied the socket:
// what comes later makes a new event.
func (w *worker) read(i int32, s *slot) int64 {
	generation := s.generation
	for {
		n, r, errno := w.take(s.fd, w.buffer, s.stamping, w.emptied)
		now := r.read
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return now
		case errno != 0:
			w.broken(i, s, now, errno)
			return now
		case n == 0:
			w.peerEnded(i, s, now)
			return now
		}
		w.consume(i, s, w.buffer[:n], r)
		if s.generation != generation || (n < len(w.buffer) && !s.hungUp) {
			return now
		}
	}
}

// consume takes in the bytes of one reading.
func (w *worker) consume(i int32, s *slot, p []byte, r reading) {
	now := r.read
	if s.state != inFlight {
		w.conns.Unsolicited++
		w.disconnect(i, s)
		w.vacate(i, s, now)
		return
	}
	r = r.after(s.written)
	if s.first == 0 {
		s.first = r.arrived
	}
	n, done, err := s.client.Response(p)
	switch {
	case !done && err == nil:
	case done && n < len(p):
		w.conns.Unsolicited++
		w.failed(i, s, now, errExcess)
	case !done:
		w.failed(i, s, now, err)
	default:
		w.done(i, s, r, err)
	}
}

var errExcess = &wire.Error{Kind: wire.Protocol, Text: "bytes after the end of the response"}

// done ends an exchange whose response is complete, and uses the connection
// for what is due next.
func (w *worker) done(i int32, s *slot, r reading, err error) {
	now := r.read
	if err != nil {
		w.fail(s, r.arrived, err)
	} else {
		w.succeed(s, r)
	}
	w.inFlight.remove(w.slots, i)
	s.state, s.failures = idle, 0
	// A peer that hung up behind its response will not answer another request.
	if len(s.pending) > 0 || s.hungUp || !s.client.Reusable() {
		w.disconnect(i, s)
		w.vacate(i, s, now)
		return
	}
	if w.cursor != nil {
		if w.waiting.count > 0 {
			w.send(i, s, w.waiting.pop(), now)
			return
		}
		s.idleAt = int32(len(w.idles))
		w.idles = append(w.idles, i)
		return
	}
	if s.thinker != nil {
		w.rest(i, s, now+int64(s.thinker.Next()))
		return
	}
	w.use(i, s, now, now)
}

// failed ends an exchange together with its connection.
func (w *worker) failed(i int32, s *slot, now int64, err error) {
	w.fail(s, now, err)
	w.inFlight.remove(w.slots, i)
	w.disconnect(i, s)
	if s.failures < math.MaxUint8 {
		s.failures++
	}
	w.vacate(i, s, now)
}

// peerEnded handles the peer's end of the stream.
func (w *worker) peerEnded(i int32, s *slot, now int64) {
	if s.state != inFlight {
		w.conns.PeerClosed++
		w.disconnect(i, s)
		w.vacate(i, s, now)
		return
	}
	if err := s.client.End(); err != nil {
		w.failed(i, s, now, err)
		return
	}
	w.succeed(s, readAt(now)) // the end of a connection bears no stamp
	w.inFlight.remove(w.slots, i)
	s.failures = 0
	w.disconnect(i, s)
	w.vacate(i, s, now)
}

// broken handles an error of the socket.
func (w *worker) broken(i int32, s *slot, now int64, errno unix.Errno) {
	if s.state != inFlight {
		w.conns.PeerClosed++
		w.disconnect(i, s)
		w.vacate(i, s, now)
		return
	}
	w.failed(i, s, now, w.errnoError(kindOf(errno, wire.Reset), errno))
}

// use sends a user's next request, due at intended, on the connection there is,
// or opens one for it.
func (w *worker) use(i int32, s *slot, intended, now int64) {
	if intended >= w.windowEnd || (w.remaining == 0 && intended >= w.windowStart) {
		if s.fd < 0 {
			s.state = closed
		} else {
			s.state = idle
		}
		return
	}
	if s.fd >= 0 {
		w.send(i, s, intended, now)
		return
	}
	s.intended = intended
	w.claim(s)
	s.requested = true
	w.awaiting++
	w.turn(i)
}

// claim counts a request as scheduled, and says whether it is of the window.
func (w *worker) claim(s *slot) {
	s.window = w.belongs(s.intended)
	w.counts[s.window].Scheduled++
	w.hushes.due(s.intended)
	if s.window == inside && w.remaining != never && w.cursor == nil {
		w.remaining--
	}
}

func (w *worker) belongs(intended int64) uint8 {
	switch {
	case intended >= w.windowStart && intended < w.windowEnd:
		return inside
	case intended < w.windowStart && w.marked > 0:
		return carried
	}
	return outside
}

// carry finds the requests that are carried into the window, which begins: those that are
// under way, or wait for a connection.
func (w *worker) carry() {
	from, to := &w.counts[outside], &w.counts[carried]
	for i := range w.slots {
		s := &w.slots[i]
		if s.state != inFlight && !s.requested || s.window != outside {
			continue
		}
		s.window = carried
		from.Scheduled--
		to.Scheduled++
		if s.state == inFlight {
			from.Sent--
			to.Sent++
			s.asked = true
		}
	}
	for i := range w.waiting.count {
		if w.waiting.at(i) < w.windowStart { // the others are the window's own
			from.Scheduled--
			to.Scheduled++
		}
	}
}

// othersWait tells whether requests are unanswered beside the one that has just ended and is
// still in its list.
func (w *worker) othersWait() bool {
	return w.inFlight.head != w.inFlight.tail || w.awaiting > 0 || w.waiting.count > 0
}

// countServed counts the places whose requests were answered. All requests have ended.
func (w *worker) countServed() {
	for i := range w.slots {
		s := &w.slots[i]
		if s.served {
			w.conns.Served++
		}
		if s.asked && !s.answered {
			w.conns.Unanswered++
		}
	}
}

// begin counts a request as sent.
func (w *worker) begin(s *slot) {
	w.counts[s.window].Sent++
	s.asked = s.asked || s.window != outside
}

// send writes a request. Ready is when the connection was at hand.
func (w *worker) send(i int32, s *slot, intended, ready int64) {
	s.intended = intended
	if w.cursor == nil {
		w.claim(s)
	} else {
		s.window = w.belongs(intended)
	}
	w.dispatch(i, s, ready)
}

func (w *worker) dispatch(i int32, s *slot, ready int64) {
	w.begin(s)
	s.ready, s.first = ready, 0
	s.state = inFlight
	w.conns.Exchanges++
	if s.used {
		w.conns.Reused++
	}
	s.used = true
	if w.stamps {
		if p, ok := s.client.(wire.Stamper); ok {
			p.Stamp(w.engine.epoch + s.intended)
		}
	}
	if w.stamping && !s.stamping {
		s.stamping = askForStamps(int(s.fd)) == nil // the connection is older than the decision
	}
	s.pending = s.client.Request()
	s.written = w.now()
	w.inFlight.push(w.slots, i)
	w.flush(i, s)
}

// flush writes what is pending. What the socket does not take now goes when it
// has room again.
func (w *worker) flush(i int32, s *slot) {
	for len(s.pending) > 0 {
		n, errno := rawWrite(s.fd, s.pending)
		switch errno {
		case 0:
			s.pending = s.pending[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return
		default:
			s.pending = nil
			w.broken(i, s, w.now(), errno)
			return
		}
	}
}

// rest makes a user pause until a time.
func (w *worker) rest(i int32, s *slot, until int64) {
	s.state = resting
	w.alarms.push(alarm{until, i})
}

// fire wakes the users whose pause is over.
func (w *worker) fire(now int64) {
	for len(w.alarms) > 0 && w.alarms[0].at <= now {
		a := w.alarms.pop()
		w.use(a.slot, &w.slots[a.slot], a.at, a.at)
	}
}

// expire ends what has taken too long.
func (w *worker) expire(now int64) {
	limit := now - int64(w.engine.config.Timeout)
	for i := w.inFlight.head; i != none && w.slots[i].written <= limit; i = w.inFlight.head {
		w.failed(i, &w.slots[i], now, errTimeout)
	}
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

// arrive starts the requests of the open loop that are due.
func (w *worker) arrive(now int64) {
	for now >= w.due {
		intended := w.due
		window := w.belongs(intended)
		if intended >= w.windowEnd || (window == inside && w.remaining == 0) {
			w.due = never
			return
		}
		if window == inside && w.remaining != never {
			w.remaining--
		}
		w.counts[window].Scheduled++
		w.hushes.due(intended)
		w.advance()
		if n := len(w.idles); n > 0 {
			i := w.idles[n-1]
			w.idles = w.idles[:n-1]
			// The connection was at hand before the request was due.
			w.send(i, &w.slots[i], intended, intended)
			now = w.now()
			continue
		}
		if !w.waiting.push(intended) {
			w.drop(intended)
			continue
		}
		w.openOneMore()
	}
}

func (w *worker) drop(intended int64) {
	c := &w.counts[w.belongs(intended)]
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
func (w *worker) succeed(s *slot, r reading) {
	w.sheet.completed++
	if r.arrived >= w.windowStart && r.arrived < w.windowEnd {
		w.completed++
	}
	c := &w.counts[s.window]
	c.OK++
	w.code(s)
	w.hushes.answered(r.read, w.windowStart, w.windowEnd, w.othersWait())
	if s.window != outside {
		s.answered, s.served = true, true
	}
	if s.window != inside {
		return
	}
	w.finished = max(w.finished, r.arrived)
	w.times(s, r)
	w.ends.count(r)
	if r.stamp == stamped {
		w.sheet.latency[ReadDelay].Record(r.read - r.arrived)
	}
}

// fail records a request that failed.
func (w *worker) fail(s *slot, now int64, err error) {
	kind := wire.KindOf(err)
	w.sheet.failed++
	w.hushes.failing++
	c := &w.counts[s.window]
	c.ByKind[kind]++
	if n, ok := w.failures[err]; ok || len(w.failures) < failureTexts {
		w.failures[err] = n + 1
	}
	switch kind {
	case wire.Timeout:
		c.Timeouts++
	case wire.Unfinished:
		c.Unfinished++
	case wire.Generator:
		c.Generator++
	default:
		c.Errors++
		if kind == wire.Status || kind == wire.Assertion {
			w.code(s)
			s.answered = s.answered || s.window != outside
		}
	}
	if s.window != inside {
		return
	}
	w.finished = max(w.finished, now)
	if kind == wire.Timeout || kind == wire.Unfinished {
		w.times(s, readAt(now))
		return
	}
	w.sheet.latency[Failed].Record(now - s.intended)
}

// times records a request that ended, or was given up.
func (w *worker) times(s *slot, r reading) {
	l := &w.sheet.latency
	l[Response].Record(r.arrived - s.intended)
	l[Service].Record(r.arrived - s.written)
	l[ServiceRead].Record(r.read - s.written)
	l[SendLag].Record(s.written - s.intended)
	l[GeneratorLag].Record(s.written - max(s.intended, s.ready))
	if s.first != 0 {
		l[FirstByte].Record(s.first - s.written)
	}
}

// A coder is a client whose responses have a status code.
type coder interface{ Status() int }

func (w *worker) code(s *slot) {
	if c, ok := s.client.(coder); ok {
		n := c.Status()
		if n < 0 || n >= statusCodes {
			n = 0
		}
		w.status[n]++
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
