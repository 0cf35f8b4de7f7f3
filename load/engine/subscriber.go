package engine

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/delivery"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// A subscriberPool is a worker's share of the subscribers. Their tokens distinguish their
// events from those of requests' connections.
type subscriberPool struct {
	all        []subscriber
	queue      queue.FIFO[int32] // those in state subQueued; never more than there are
	timers     queue.Timers      // of the others, as far as they wait for a time
	connecting int               // in state subConnecting
	untried    int               // whose first attempt has not ended
	open       int               // in state subStreaming
	longestGap int64             // between two events of a subscriber, in the window

	streams  record.Streams   // but for Account
	ledger   *delivery.Ledger // of those that are not slow
	slow     delivery.Ledger
	failures record.Texts
	silences record.Silences

	posted bool  // what this worker published is known to all
	look   int64 // when to see again whether all has arrived
}

// A subscriber is a place for a subscriber's connection.
type subscriber struct {
	delivery delivery.Subscriber
	stream   wire.Stream
	tls      *tlslayer.Conn // nil without TLS
	pending  []byte         // what the socket has not taken: of the request, or of what TLS says
	lost     error          // writing failed for this; what had arrived by then may still be unread

	began   int64 // when connecting began
	written int64 // when the request was written; before, when the TLS handshake began
	latest  int64 // when the latest event came; 0 before
	emptied int64 // when a read last left the socket empty
	opened  int64 // when the stream was accepted
	last    int64 // when something last came in the window

	fd         int32 // none without a connection
	generation uint32
	state      subscriberState
	failures   uint8 // in a row
	slow       bool
	stamping   bool // its socket stamps what arrives
	hungUp     bool // the peer has said that it will send no more
	first      bool // the next event is the connection's first
	known      bool // has had a stream before
	served     bool // something came in the window
}

// A subscriberState says where a subscriber stands.
type subscriberState uint8

const (
	subDisconnected subscriberState = iota // no connection; its timer says when to connect
	subQueued                              // waits for its turn to connect
	subConnecting
	subHandshaking // connected; the TLS handshake is under way
	subRequested   // connected; the response's head is not complete
	subStreaming   // events arrive
	subClosed      // the server asked not to come back
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

func (e *engine) newSubscriberPool(n int, secure *tlslayer.Context) subscriberPool {
	c := e.config.Subscribers
	if c == nil || share(c.Count, n, e.config.Workers) == 0 {
		return subscriberPool{}
	}
	p := subscriberPool{
		all:      make([]subscriber, share(c.Count, n, e.config.Workers)),
		ledger:   delivery.NewLedger(e.sources),
		silences: record.NewSilences(e.config.Window),
		failures: record.Texts{},
	}
	p.queue.Limit = len(p.all)
	p.untried = len(p.all)
	p.timers = queue.NewTimers(len(p.all))
	newStream := c.NewStreams(n)
	for i := range p.all {
		number := i*e.config.Workers + n
		p.all[i] = subscriber{
			stream: newStream(number), fd: none, slow: number < c.Slow,
			delivery: delivery.Subscriber{Number: int32(number)}, //nolint:gosec // bounded by MaxSubscribers
		}
		if secure != nil {
			p.all[i].tls = secure.Conn()
		}
	}
	return p
}

// subscriberToken returns the token of the events of a subscriber's connection, and
// subscriberOf the subscriber.
func subscriberToken(i int32) int32  { return poll.WakeToken - 1 - i }
func subscriberOf(token int32) int32 { return poll.WakeToken - 1 - token }

// startSubscribers connects the subscribers, each when the ramp says.
func (w *worker) startSubscribers(now int64) {
	p := &w.subscribers
	for i := range p.all {
		at := now
		if ramp := w.engine.config.Subscribers.Ramp; ramp > 0 {
			at += int64(float64(p.all[i].delivery.Number) / ramp * float64(time.Second))
		}
		p.timers.Set(int32(i), at) //nolint:gosec // bounded by MaxSubscribers
	}
}

// next returns when there is something to do for subscribers; never when there is nothing.
func (p *subscriberPool) next() int64 {
	next := p.timers.Next()
	if p.posted {
		next = min(next, p.look)
	}
	return next
}

// serveSubscribers does what is due to subscribers.
func (w *worker) serveSubscribers(now int64) {
	p := &w.subscribers
	for p.timers.Next() <= now {
		i := p.timers.Pop()
		s := &p.all[i]
		switch s.state {
		case subDisconnected:
			s.state = subQueued
			p.queue.Push(i)
		case subConnecting:
			w.subscriptionFailed(i, s, now, w.errnoError(wire.Connect, unix.ETIMEDOUT))
		case subHandshaking:
			w.subscriptionFailed(i, s, now, errHandshakeTimeout)
		case subRequested:
			if timeout := s.written + int64(w.engine.config.Timeout); now < timeout {
				p.timers.Set(i, timeout)
				w.readStream(i, s, 0) // what is there was there before
				break
			}
			w.subscriptionFailed(i, s, now, errTimeout)
		case subStreaming:
			w.readStream(i, s, 0)
		}
	}
	for p.queue.Len() > 0 && p.connecting < maxConnecting {
		i := p.queue.Pop()
		w.connectSubscriber(i, &p.all[i], now)
	}
}

func (w *worker) connectSubscriber(i int32, s *subscriber, now int64) {
	p, c := &w.subscribers, &w.engine.config
	buffer := c.Subscribers.ReceiveBuffer
	if s.slow {
		buffer = slowBuffer
	}
	s.began, s.state = now, subConnecting
	p.connecting++
	fd, err := w.dial(subscriberToken(i), s.generation+1, buffer)
	if err != nil {
		w.subscriptionFailed(i, s, now, w.connectError(err))
		return
	}
	s.fd, s.stamping = fd, w.clock.Stamping()
	s.generation++
	s.hungUp = false
	p.timers.Set(i, now+int64(c.ConnectTimeout))
}

// handleSubscriber serves an event of a subscriber's connection, and returns the time after
// it.
func (w *worker) handleSubscriber(ev *unix.EpollEvent) int64 {
	i := subscriberOf(ev.Fd)
	s := &w.subscribers.all[i]
	generation := uint32(ev.Pad) //nolint:gosec // carried, not computed with
	if s.generation != generation {
		return 0 // of a connection that is gone
	}
	if s.state == subConnecting {
		if ev.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return 0
		}
		w.subscriberConnected(i, s)
	}
	if s.generation == generation && len(s.pending) > 0 && ev.Events&unix.EPOLLOUT != 0 {
		w.writeSubscription(i, s)
	}
	const hangUp = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if s.generation != generation || ev.Events&(unix.EPOLLIN|hangUp) == 0 && s.lost == nil {
		return 0
	}
	s.hungUp = s.hungUp || ev.Events&hangUp != 0
	switch {
	case !s.slow || s.state != subStreaming:
		return w.readStream(i, s, w.emptied)
	case s.hungUp:
		// It would reach the end, or the reset, at its own pace or never.
		now := w.clock.Now()
		w.subscriptionEnded(i, s, now, nil)
		return now
	}
	return 0
}

// subscriberConnected ends a subscriber's connecting, well or badly.
func (w *worker) subscriberConnected(i int32, s *subscriber) {
	err := poll.ConnectResult(s.fd)
	now := w.clock.Now()
	if err != nil {
		w.subscriptionFailed(i, s, now, w.connectError(err))
		return
	}
	if s.tls != nil {
		w.startSubscriberHandshake(i, s, now)
		return
	}
	w.requestStream(i, s, now)
}

// requestStream asks for a stream on a connection that is ready for it.
func (w *worker) requestStream(i int32, s *subscriber, now int64) {
	w.subscribers.connecting--
	s.state = subRequested
	s.stream.Reset()
	s.written = now
	w.subscribers.timers.Set(i, now+int64(w.engine.config.Timeout))
	if s.tls != nil {
		w.sendSubscription(i, s)
		return
	}
	s.pending = s.stream.Request()
	w.writeSubscription(i, s)
}

// writeSubscription writes what is pending.
func (w *worker) writeSubscription(i int32, s *subscriber) {
	rest, errno := poll.WriteAll(s.fd, s.pending)
	s.pending = rest
	if errno != 0 {
		s.writeFailed(w.errnoError(s.cutKind(), errno))
		return
	}
	if s.tls != nil {
		if err := w.flushSubscriberTLS(s); err != nil {
			s.writeFailed(err)
		}
	}
}

// writeFailed notes that a subscriber's connection cannot be written to. Whoever has caused it to be
// written reads next, until the end: a peer may have answered before it closed.
func (s *subscriber) writeFailed(err error) { s.lost, s.pending, s.hungUp = err, nil, true }

// cutKind is the kind of the error when the connection is cut.
func (s *subscriber) cutKind() wire.Kind {
	if s.state == subHandshaking {
		return wire.TLS
	}
	return wire.Reset
}

// readStream reads what has arrived for a subscriber, and returns the time after it. The
// socket was known to be empty at the time given.
func (w *worker) readStream(i int32, s *subscriber, empty int64) int64 {
	generation := s.generation
	for range maxReads {
		buffer := w.buffer
		switch {
		case s.slow && s.state == subStreaming:
			buffer = buffer[:min(max(w.engine.config.Subscribers.SlowRate/slowReads, 1), len(buffer))]
		case s.slow && s.state == subRequested:
			buffer = buffer[:slowHead]
		}
		n, r, errno := w.take(s.fd, buffer, s.stamping, empty)
		now := r.Read
		switch {
		case errno == unix.EINTR:
			continue
		case s.lost != nil && (errno != 0 || n == 0):
			w.subscriptionEnded(i, s, now, s.lost)
			return now
		case errno == unix.EAGAIN:
			s.emptied = now
			w.setSlowRead(i, s, now)
			return now
		case errno != 0:
			w.subscriptionEnded(i, s, now, w.errnoError(s.cutKind(), errno))
			return now
		case n == 0:
			w.subscriptionEnded(i, s, now, s.ended())
			return now
		}
		if s.tls != nil {
			w.unsealEvents(i, s, buffer[:n], r)
		} else {
			w.takeEvents(i, s, buffer[:n], r)
		}
		if n < len(buffer) {
			s.emptied = now
		}
		switch {
		case s.generation != generation:
			return now
		case s.slow && s.state == subStreaming:
			w.setSlowRead(i, s, now)
			return now
		case n < len(buffer) && !s.hungUp:
			return now // the socket is empty: what comes later makes a new event
		}
	}
	// There is more, and epoll will not say so again.
	now := w.clock.Now()
	w.subscribers.timers.Set(i, now)
	return now
}

// setSlowRead sets when a subscriber reads again, if it reads slowly.
func (w *worker) setSlowRead(i int32, s *subscriber, now int64) {
	rate := w.engine.config.Subscribers.SlowRate
	if !s.slow || s.state != subStreaming || rate == 0 {
		return
	}
	w.subscribers.timers.Set(i, now+int64(time.Second)/int64(min(rate, slowReads)))
}

// subscriptionFailed ends a subscription, or the attempt at one, for a fault of the peer's
// or because it took too long.
func (w *worker) subscriptionFailed(i int32, s *subscriber, now int64, err error) {
	p := &w.subscribers
	p.failures.Count(err)
	switch {
	case s.state == subStreaming:
		p.streams.Broken++
	case s.stream.Closed():
		p.streams.Closed++
	default:
		p.streams.Failed++
		if wire.KindOf(err) == wire.Generator {
			p.streams.Generator++
		}
		w.refusal = err
	}
	w.disconnectSubscriber(i, s, now, true)
}

// subscriptionEnded ends a subscription that the peer has ended: in order without err.
// Before it has begun, that is a failed attempt.
func (w *worker) subscriptionEnded(i int32, s *subscriber, now int64, err error) {
	if s.state != subStreaming {
		if err == nil {
			err = errNotAccepted
		}
		w.subscriptionFailed(i, s, now, err)
		return
	}
	p := &w.subscribers
	if err != nil {
		p.failures.Count(err)
	}
	if s.slow {
		p.streams.Slow.Ended++
	} else {
		p.streams.Ended++
	}
	w.disconnectSubscriber(i, s, now, false)
}

var errNotAccepted = &wire.Error{Kind: wire.Reset, Text: "connection closed before the subscription was accepted"}

// disconnectSubscriber closes a subscriber's connection, or gives up opening one, and sets
// when it comes back, if it does.
func (w *worker) disconnectSubscriber(i int32, s *subscriber, now int64, failed bool) {
	p := &w.subscribers
	switch s.state {
	case subConnecting, subHandshaking:
		p.connecting--
	case subStreaming:
		p.open--
		p.addSubscribed(s, now, &w.rec.Window)
	}
	if s.fd != none {
		w.hangUpSubscriber(s)
	}
	if failed {
		p.attempted(s)
		s.failures = min(s.failures, math.MaxUint8-1) + 1
	}
	if s.stream.Closed() {
		s.state = subClosed
		p.timers.Clear(i)
		return
	}
	s.state = subDisconnected
	p.timers.Set(i, now+int64(w.reconnectDelay(s)))
}

// hangUpSubscriber closes a subscriber's socket, whose later events no longer count.
func (w *worker) hangUpSubscriber(s *subscriber) {
	if d, ok := s.stream.(wire.Deviant); ok && s.state >= subRequested {
		w.rec.Deviations(d.Deviations())
	}
	if s.tls != nil {
		w.closeNotify(s.fd, s.tls, s.pending)
		s.tls.Reset()
	}
	unix.Close(int(s.fd))
	s.fd = none
	s.generation++
	s.pending, s.lost = nil, nil
}

// attempted counts a subscriber whose first attempt has ended.
func (p *subscriberPool) attempted(s *subscriber) {
	if !s.known && s.failures == 0 {
		p.untried--
	}
}

// reconnectDelay returns how long a subscriber stays away: what the server asked for or
// else MinBackoff, doubled with each failure in a row after the first, MaxBackoff at most,
// and jittered.
func (w *worker) reconnectDelay(s *subscriber) time.Duration {
	c := w.engine.config.Subscribers
	asked := s.stream.Retry()
	d := c.MinBackoff
	if asked > 0 {
		d = asked
	}
	for n := s.failures; n > 1 && d < c.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	jitter := time.Duration(w.rng.Int64N(int64(d/2) + 1))
	if asked > 0 {
		return d + jitter
	}
	return d - jitter
}
