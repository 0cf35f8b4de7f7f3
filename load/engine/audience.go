package engine

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/wire"
)

// An audience is a worker's share of the subscribers. Its members are told from the
// connections of requests by the tokens of their events.
type audience struct {
	longestGap int64 // between two events of a member, in the window
	members    []subscription
	turns      queue[int32] // members in state queued; never more than there are
	agenda     agenda       // of the others, whose time it will be
	underway   int          // in state connecting
	untried    int          // members whose first attempt has not ended

	streams  Streams
	open     int
	main     ledger
	slow     ledger
	failures map[error]uint64

	hushes hushes

	posted bool  // what this worker published is known to all
	look   int64 // when to see again whether all has arrived
}

// A subscription is a place for a subscriber's connection.
type subscription struct {
	stream    wire.Stream
	pending   []byte     // what the socket has not taken of the request
	sequences []sequence // in the order of their sources

	deadline int64 // in the agenda
	began    int64 // when connecting began
	written  int64 // when the request was written
	latest   int64 // when the latest event came; 0 before
	emptied  int64 // when a read last left the socket empty
	since    int64 // when the stream was accepted

	fd         int32 // none without a connection
	generation uint32
	place      int32 // in the agenda, or none
	state      stage
	failures   uint8 // in a row
	slow       bool
	stamping   bool  // its socket stamps what arrives
	hungUp     bool  // the peer has said that it will send no more
	first      bool  // the next event is the connection's first
	known      bool  // has had a stream before
	whole      bool  // everything published here is expected
	heard      bool  // something came in the window
	last       int64 // when something last did
	gapped     bool  // of sources not seen yet, what is missing was announced
}

// A stage is where a subscription stands.
type stage uint8

const (
	absent    stage = iota // no connection; waits for its deadline
	lining                 // waits for its turn to connect
	joining                // connecting
	asking                 // connected; the response's head is not complete
	streaming              // events arrive
	over                   // the server asked not to come back
)

const (
	// slowBuffer is SO_RCVBUF of a slow subscriber.
	slowBuffer = 4 << 10
	// slowReads is how often per second a slow subscriber reads, if it can read so
	// slowly.
	slowReads = 10
	// slowHead is how much of the response's head a slow subscriber reads at once, so
	// that little of what follows is read with it.
	slowHead = 256
	// maxReads bounds the reads from one connection before others have their turn.
	maxReads = 16
	// lookAgain is how long to wait between looks whether all events have arrived.
	lookAgain = int64(5 * time.Millisecond)
)

func (e *engine) newAudience(n int) audience {
	c := e.config.Subscribers
	if c == nil || share(c.Count, n, e.config.Workers) == 0 {
		return audience{}
	}
	a := audience{
		members:  make([]subscription, share(c.Count, n, e.config.Workers)),
		main:     ledger{limit: maxStretches},
		hushes:   newHushes(e.config.Window),
		failures: map[error]uint64{},
	}
	a.turns.limit = len(a.members)
	a.untried = len(a.members)
	newStream := c.NewStreams(n)
	for i := range a.members {
		number := e.subscriber(n, int32(i)) //nolint:gosec // bounded by MaxSubscribers
		a.members[i] = subscription{
			stream: newStream(int(number)), fd: none, place: none, slow: int(number) < c.Slow,
		}
	}
	return a
}

// subscriber returns the number among all of worker n's member i.
func (e *engine) subscriber(n int, i int32) int32 {
	return i*int32(e.config.Workers) + int32(n) //nolint:gosec // bounded by MaxSubscribers
}

// memberToken returns the token of a member's events, and memberOf the member.
func memberToken(i int32) int32  { return wakeToken - 1 - i }
func memberOf(token int32) int32 { return wakeToken - 1 - token }

// invite makes the members connect, each when the ramp says.
func (w *worker) invite(now int64) {
	a := &w.audience
	for i := range a.members {
		at := now
		if ramp := w.engine.config.Subscribers.Ramp; ramp > 0 {
			number := w.engine.subscriber(w.number, int32(i)) //nolint:gosec // bounded by MaxSubscribers
			at += int64(float64(number) / ramp * float64(time.Second))
		}
		a.agenda.set(a.members, int32(i), at) //nolint:gosec // bounded by MaxSubscribers
	}
}

// next returns when there is something to do for members; never when there is nothing.
func (a *audience) next() int64 {
	next := int64(never)
	if len(a.agenda) > 0 {
		next = a.members[a.agenda[0]].deadline
	}
	if a.posted {
		next = min(next, a.look)
	}
	return next
}

// call does what is due to members.
func (w *worker) call(now int64) {
	a := &w.audience
	for len(a.agenda) > 0 && a.members[a.agenda[0]].deadline <= now {
		i := a.agenda[0]
		m := &a.members[i]
		a.agenda.clear(a.members, i)
		switch m.state {
		case absent:
			m.state = lining
			a.turns.push(i)
		case joining:
			w.declined(i, m, now, w.errnoError(wire.Connect, unix.ETIMEDOUT))
		case asking:
			w.declined(i, m, now, errTimeout)
		case streaming:
			w.receive(i, m, 0) // what is there was there before
		}
	}
	for a.turns.count > 0 && a.underway < maxConnecting {
		i := a.turns.pop()
		w.join(i, &a.members[i], now)
	}
}

func (w *worker) join(i int32, m *subscription, now int64) {
	a, c := &w.audience, &w.engine.config
	buffer := c.Subscribers.ReceiveBuffer
	if m.slow {
		buffer = slowBuffer
	}
	m.began, m.state = now, joining
	a.underway++
	fd, err := w.dial(memberToken(i), m.generation+1, buffer)
	if err != nil {
		w.declined(i, m, now, w.connectError(err))
		return
	}
	m.fd, m.stamping = fd, w.stamping
	m.generation++
	m.hungUp = false
	a.agenda.set(a.members, i, now+int64(c.ConnectTimeout))
}

// attend serves an event of a member's connection, and returns the time after it.
func (w *worker) attend(ev *unix.EpollEvent) int64 {
	a := &w.audience
	i := memberOf(ev.Fd)
	m := &a.members[i]
	generation := uint32(ev.Pad) //nolint:gosec // carried, not computed with
	if m.generation != generation {
		return 0 // of a connection that is gone
	}
	if m.state == joining {
		if ev.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return 0
		}
		w.joined(i, m)
	}
	if m.generation == generation && len(m.pending) > 0 && ev.Events&unix.EPOLLOUT != 0 {
		w.ask(i, m)
	}
	const hangUp = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if m.generation != generation || ev.Events&(unix.EPOLLIN|hangUp) == 0 {
		return 0
	}
	m.hungUp = m.hungUp || ev.Events&hangUp != 0
	switch {
	case !m.slow || m.state == asking:
		return w.receive(i, m, w.emptied)
	case m.hungUp:
		// It would come to the end, or to the reset, at its own pace or never.
		now := w.now()
		w.dismissed(i, m, now, nil)
		return now
	}
	return 0
}

// joined ends a member's connecting, well or badly.
func (w *worker) joined(i int32, m *subscription) {
	a := &w.audience
	errno, err := unix.GetsockoptInt(int(m.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	now := w.now()
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err != nil {
		w.declined(i, m, now, w.connectError(err))
		return
	}
	a.underway--
	m.state = asking
	m.stream.Reset()
	m.pending = m.stream.Request()
	m.written = now
	a.agenda.set(a.members, i, now+int64(w.engine.config.Timeout))
	w.ask(i, m)
}

// ask writes what is pending of the request.
func (w *worker) ask(i int32, m *subscription) {
	for len(m.pending) > 0 {
		n, errno := rawWrite(m.fd, m.pending)
		switch errno {
		case 0:
			m.pending = m.pending[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return
		default:
			w.dismissed(i, m, w.now(), w.errnoError(wire.Reset, errno))
			return
		}
	}
}

// receive reads what has arrived for a member, and returns the time after it. The
// socket was known to be empty at the time given.
func (w *worker) receive(i int32, m *subscription, empty int64) int64 {
	a := &w.audience
	generation := m.generation
	for range maxReads {
		buffer := w.buffer
		switch {
		case m.slow && m.state == streaming:
			buffer = buffer[:min(max(w.engine.config.Subscribers.SlowRate/slowReads, 1), len(buffer))]
		case m.slow:
			buffer = buffer[:slowHead]
		}
		n, r, errno := w.take(m.fd, buffer, m.stamping, empty)
		now := r.read
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			m.emptied = now
			w.pace(i, m, now)
			return now
		case errno != 0:
			w.dismissed(i, m, now, w.errnoError(wire.Reset, errno))
			return now
		case n == 0:
			w.dismissed(i, m, now, m.stream.End())
			return now
		}
		w.hear(i, m, buffer[:n], r)
		if n < len(buffer) {
			m.emptied = now
		}
		switch {
		case m.generation != generation:
			return now
		case m.slow && m.state == streaming:
			w.pace(i, m, now)
			return now
		case n < len(buffer) && !m.hungUp:
			return now // the socket is empty: what comes later makes a new event
		}
	}
	// There is more, and epoll will not say so again.
	now := w.now()
	if m.state == streaming {
		a.agenda.set(a.members, i, now)
	}
	return now
}

// pace sets when a member reads again, if it reads slowly.
func (w *worker) pace(i int32, m *subscription, now int64) {
	rate := w.engine.config.Subscribers.SlowRate
	if !m.slow || m.state != streaming || rate == 0 {
		return
	}
	a := &w.audience
	a.agenda.set(a.members, i, now+int64(time.Second)/int64(min(rate, slowReads)))
}

// hear takes in the bytes that have arrived for a member.
func (w *worker) hear(i int32, m *subscription, p []byte, r reading) {
	now := r.read
	r = r.after(m.written)
	if m.state == streaming {
		w.heard(m, now) // be it a part of an event, or a comment that keeps the stream alive
	}
	for {
		n, e, err := m.stream.Next(p)
		if err != nil {
			w.declined(i, m, now, err)
			return
		}
		p = p[n:]
		switch e.Kind {
		case wire.Nothing:
			return
		case wire.Opened:
			w.accepted(i, m, r)
		case wire.Message:
			w.message(i, m, &e, r, len(p) > maxTrailer)
		case wire.Gap:
			w.gap(m)
		case wire.Exhausted:
			w.dismissed(i, m, now, nil)
			return
		}
	}
}

// accepted takes note of a subscription that the server has accepted.
func (w *worker) accepted(i int32, m *subscription, r reading) {
	a, now := &w.audience, r.read
	a.tried(m)
	again := m.known
	resumes := m.stream.Resumes()
	m.known, m.first, m.failures = true, true, 0
	m.state, m.since = streaming, now
	// Before the load has begun nothing can be missed.
	m.whole = w.origin == 0 || (m.whole && resumes)
	if again && !resumes {
		m.gapped = false
		for k := range m.sequences {
			m.sequences[k].restarted = true
		}
	}
	a.agenda.clear(a.members, i)
	w.pace(i, m, now)
	a.open++
	a.streams.Peak = max(a.streams.Peak, a.open)
	if again {
		a.streams.Reconnects++
	}
	if m.slow {
		a.streams.Slow.Opened++
		return
	}
	a.streams.Opened++
	w.sheet.latency[Opening].Record(r.arrived - m.began)
}

// heard notes that something reached a member.
func (w *worker) heard(m *subscription, now int64) {
	if m.slow {
		return
	}
	w.audience.hushes.answered(now, w.windowStart, w.windowEnd, true)
	if now >= w.windowStart && now < w.windowEnd {
		m.heard, m.last = true, now
	}
}

// begin sets the beginning of the load. All members are to hear something from then on.
func (a *audience) begin(origin int64) {
	a.hushes.begin(origin)
	a.hushes.due(origin)
}

// close notes what the members have when the window ends.
func (a *audience) close(from, to int64) {
	if len(a.members) == 0 {
		return
	}
	a.hushes.note(to, from, to)
	for i := range a.members {
		if m := &a.members[i]; !m.slow && m.state != streaming && m.state != over && (m.failures > 0 || !m.known) {
			a.streams.Away++
		}
	}
}

// subscribed adds the time for which a member had a stream, as far as it lies in the
// window.
func (a *audience) subscribed(m *subscription, until, from, to int64) {
	if !m.slow {
		a.streams.Subscribed += time.Duration(max(0, min(until, to)-max(m.since, from)))
	}
}

// A member hears nothing any more when the window ends if that has lasted for quietFloor,
// or for quietFactor times the longest time between two events of any member of the
// worker, if that is more.
const (
	quietFloor  = int64(250 * time.Millisecond)
	quietFactor = 3
)

// countServed sums up, at the end, which members were served.
func (a *audience) countServed(from, to int64) {
	for i := range a.members {
		m := &a.members[i]
		if m.state == streaming {
			a.subscribed(m, to, from, to)
		}
		switch {
		case m.slow:
		case m.heard:
			a.streams.Served++
			if m.state == streaming && a.longestGap > 0 && to-m.last > max(quietFloor, quietFactor*a.longestGap) {
				a.streams.Quiet++
			}
		case m.known:
			a.streams.Silent++
		}
	}
}

// attended tells whether a member has a connection or has had a stream.
func (w *worker) attended() bool {
	for i := range w.audience.members {
		if m := &w.audience.members[i]; m.fd != none || m.known {
			return true
		}
	}
	return false
}

// tried counts a member whose first attempt has ended.
func (a *audience) tried(m *subscription) {
	if !m.known && m.failures == 0 {
		a.untried--
	}
}

// maxTrailer is how much of an event may follow it: the end of its chunk.
const maxTrailer = len("\r\n")

// message takes note of an event, which may have been followed by more in its reading.
func (w *worker) message(i int32, m *subscription, e *wire.Event, r reading, followed bool) {
	a, now := &w.audience, r.arrived
	if m.slow {
		a.streams.Slow.Delivered++
		if e.Stamped {
			w.account(i, m, e, &a.slow)
		}
		return
	}
	measured := now >= w.windowStart && now < w.windowEnd
	w.heard(m, now)
	a.streams.AllDelivered++
	w.sheet.delivered++
	if m.first {
		m.first = false
		w.sheet.latency[FirstEvent].Record(now - m.written)
	}
	if measured {
		a.streams.Delivered++
		a.streams.DeliveredBytes += uint64(e.Bytes) //nolint:gosec // not negative
		w.ends.count(r)
		if r.stamp == stamped {
			w.sheet.latency[ReadDelay].Record(r.read - r.arrived)
			if followed {
				w.ends.Shared++
				w.sheet.latency[SharedStamp].Record(max(0, r.arrived-max(m.emptied, m.written)))
			}
		}
		if m.latest != 0 {
			// One whose stamp was refused ended when it was read: the next may have
			// arrived before that.
			w.sheet.latency[EventGap].Record(max(0, now-m.latest))
			a.longestGap = max(a.longestGap, now-m.latest)
		}
	}
	m.latest = max(m.latest, now)
	if !e.Stamped {
		a.streams.Unstamped++
		return
	}
	if measured {
		w.sheet.latency[Delivery].Record(now - (e.Time - w.engine.epoch))
	}
	w.account(i, m, e, &a.main)
}

// account enters a stamped event into its sequence.
func (w *worker) account(i int32, m *subscription, e *wire.Event, l *ledger) {
	at, found := find(m.sequences, e.Source)
	if !found {
		if len(m.sequences) == MaxSources {
			w.audience.streams.Untracked++
			return
		}
		q := partial(e.Source)
		if _, ours := w.engine.ours[e.Source]; ours && m.whole && !m.slow {
			q = complete(e.Source)
			q.gapped = m.gapped
		}
		m.sequences = slices.Insert(m.sequences, at, q)
	}
	m.sequences[at].see(e.Sequence, w.engine.subscriber(w.number, i), l)
}

// gap takes note of an event that says that others are missing.
func (w *worker) gap(m *subscription) {
	if m.slow {
		w.audience.streams.Slow.Gaps++
	} else {
		w.audience.streams.Gaps++
	}
	m.gapped = true
	for k := range m.sequences {
		m.sequences[k].announce()
	}
}

// declined ends a subscription, or the attempt at one, for a fault of the peer's or
// because it took too long.
func (w *worker) declined(i int32, m *subscription, now int64, err error) {
	a := &w.audience
	a.note(err)
	switch {
	case m.state == streaming:
		a.streams.Broken++
	case m.stream.Closed():
		a.streams.Closed++
	default:
		a.streams.Failed++
		if wire.KindOf(err) == wire.Generator {
			a.streams.Generator++
		}
		w.refusal = err
	}
	w.part(i, m, now, true)
}

// dismissed ends a subscription that the peer has ended: in order without err. Before
// it has begun, that is a failed attempt.
func (w *worker) dismissed(i int32, m *subscription, now int64, err error) {
	if m.state != streaming {
		if err == nil {
			err = errDismissed
		}
		w.declined(i, m, now, err)
		return
	}
	a := &w.audience
	if err != nil {
		a.note(err)
	}
	if m.slow {
		a.streams.Slow.Ended++
	} else {
		a.streams.Ended++
	}
	w.part(i, m, now, false)
}

var errDismissed = &wire.Error{Kind: wire.Reset, Text: "connection closed before the subscription was accepted"}

// note counts a failure by its text.
func (a *audience) note(err error) {
	if n, ok := a.failures[err]; ok || len(a.failures) < failureTexts {
		a.failures[err] = n + 1
	}
}

// part closes a member's connection, or gives up opening one, and sets when it comes
// back, if it does.
func (w *worker) part(i int32, m *subscription, now int64, failed bool) {
	a := &w.audience
	switch m.state {
	case joining:
		a.underway--
	case streaming:
		a.open--
		a.subscribed(m, now, w.windowStart, w.windowEnd)
	}
	if m.fd != none {
		unix.Close(int(m.fd))
		m.fd = none
		m.generation++
	}
	m.pending = nil
	if failed {
		a.tried(m)
		m.failures = min(m.failures, math.MaxUint8-1) + 1
	}
	if m.stream.Closed() {
		m.state = over
		a.agenda.clear(a.members, i)
		return
	}
	m.state = absent
	a.agenda.set(a.members, i, now+int64(w.away(m)))
}

// away returns how long a member stays away: what the server asked for or else
// MinBackoff, doubled with each failure in a row after the first, MaxBackoff at most,
// and jittered.
func (w *worker) away(m *subscription) time.Duration {
	c := w.engine.config.Subscribers
	asked := m.stream.Retry()
	d := c.MinBackoff
	if asked > 0 {
		d = asked
	}
	for n := m.failures; n > 1 && d < c.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	jitter := time.Duration(w.rng.Int64N(int64(d/2) + 1))
	if asked > 0 {
		return d + jitter
	}
	return d - jitter
}
