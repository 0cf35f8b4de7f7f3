// Package subscribe carries subscribers: events arrive on their connections without end. It accounts
// for every event due to each of them. A Pool is one worker's share, on the worker's thread.
package subscribe

import (
	"math"
	"math/rand/v2"
	"syscall"
	"time"

	"dyno/load/delivery"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/wire"
)

// A Pool is a worker's share of the subscribers. Their tokens distinguish subscribers' events from
// events of requests' connections. The worker's thread alone uses it.
type Pool struct {
	config                  *Config
	timeout, connectTimeout time.Duration
	epoch                   int64 // the clock's zero, in Unix time
	sockets                 *socket.Thread
	rec                     *record.Recorder
	rng                     *rand.Rand

	all        []subscriber
	queue      queue.FIFO[int32] // those in state subQueued; never more than there are
	timers     queue.Timers      // of the others, as far as they wait for a time
	loading    bool              // the load has begun
	connecting int               // in state subConnecting
	untried    int               // whose first attempt has not ended
	open       int               // in state subStreaming
	longestGap int64             // between two events of a subscriber, in the window

	addresses  []record.Address // by the numbers of their endpoints
	streams    record.Streams   // but for Account
	ledger     *delivery.Ledger // of those that are not slow
	slow       delivery.Ledger
	failures   record.Texts
	silences   record.Silences
	handshakes record.Handshakes
	refusal    error // the last

	publications *Publications
	look         int64 // when to see again whether all has arrived
}

// A subscriber is a place for a subscriber's connection.
type subscriber struct {
	socket.Socket
	delivery delivery.Subscriber
	stream   wire.Stream

	began   int64 // when connecting began
	written int64 // when the request was written; before, when the TLS handshake began
	latest  int64 // when the latest event came; 0 before
	emptied int64 // when a read last left the socket empty
	opened  int64 // when the stream was accepted
	last    int64 // when something last came in the window

	number    int32 // among all
	state     subscriberState
	failures  uint8 // in a row
	slow      bool
	first     bool // the next event is the connection's first
	hadStream bool // has had a stream before
	served    bool // something came in the window
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
	// slowHead is how much of the response's head a slow subscriber reads at once. So it reads little
	// beyond the head.
	slowHead = 256
	// lookAgain is how long to wait between looks whether all events have arrived.
	lookAgain = int64(5 * time.Millisecond)
)

// A Worker is the owner of a pool, and their shared state.
type Worker struct {
	Number, Count           int           // which worker it is, of how many
	Window                  time.Duration // how long it is to be
	Timeout, ConnectTimeout time.Duration
	Epoch                   int64 // the clock's zero, in Unix time
	Sockets                 *socket.Thread
	Recorder                *record.Recorder
	Random                  *rand.Rand
	Publications            *Publications
}

// New returns a worker's pool of its share of the subscribers: an empty one without a configuration.
func New(c *Config, w *Worker) *Pool {
	p := &Pool{
		config: c, timeout: w.Timeout, connectTimeout: w.ConnectTimeout, epoch: w.Epoch,
		sockets: w.Sockets, rec: w.Recorder, rng: w.Random, publications: w.Publications,
	}
	if c == nil {
		return p
	}
	count := c.Count / w.Count
	if w.Number < c.Count%w.Count {
		count++
	}
	p.all = make([]subscriber, count)
	p.ledger = delivery.NewLedger(w.Publications.sources)
	p.silences = record.NewSilences(w.Window)
	p.failures = record.Texts{}
	p.queue.Limit = count
	p.timers = queue.NewTimers(count)
	p.untried = count
	if count == 0 {
		return p
	}
	p.addresses = make([]record.Address, w.Sockets.Endpoints())
	newStream := c.NewStreams(w.Number)
	for i := range p.all {
		number := i*w.Count + w.Number
		p.all[i] = subscriber{
			Socket: w.Sockets.New(), stream: newStream(number), slow: number < c.Slow,
			number: int32(number), //nolint:gosec // bounded by Max
		}
	}
	return p
}

// Addresses returns the connections to each address, by the numbers of their endpoints.
func (p *Pool) Addresses() []record.Address { return p.addresses }

// Len returns how many subscribers there are.
func (p *Pool) Len() int { return len(p.all) }

// Open returns how many have a stream.
func (p *Pool) Open() int { return p.open }

// Untried returns how many have not ended their first attempt at a stream.
func (p *Pool) Untried() int { return p.untried }

// Refusal returns why the last attempt failed; nil if none did.
func (p *Pool) Refusal() error { return p.refusal }

// subscriberToken returns the token of the events of a subscriber's connection, and
// subscriberOf the subscriber.
func subscriberToken(i int32) int32  { return poll.WakeToken - 1 - i }
func subscriberOf(token int32) int32 { return poll.WakeToken - 1 - token }

// Start connects the subscribers, each when the ramp says.
func (p *Pool) Start(now int64) {
	for i := range p.all {
		at := now
		if ramp := p.config.Ramp; ramp > 0 {
			at += int64(float64(p.all[i].number) / ramp * float64(time.Second))
		}
		p.timers.Set(int32(i), at) //nolint:gosec // bounded by Max
	}
}

// Next returns when there is something to do for subscribers; never when there is nothing.
func (p *Pool) Next() int64 {
	next := p.timers.Next()
	if p.look > 0 {
		next = min(next, p.look)
	}
	return next
}

// Serve does the due work for subscribers.
func (p *Pool) Serve(now int64) {
	for p.timers.Next() <= now {
		i, _ := p.timers.Pop()
		s := &p.all[i]
		switch s.state {
		case subDisconnected:
			s.state = subQueued
			p.queue.Push(i)
		case subConnecting:
			p.subscriptionFailed(i, s, now, p.sockets.Error(wire.Connect, syscall.ETIMEDOUT))
		case subHandshaking:
			p.subscriptionFailed(i, s, now, socket.ErrHandshakeTimeout)
		case subRequested:
			if timeout := s.written + int64(p.timeout); now < timeout {
				p.timers.Set(i, timeout)
				p.readStream(i, s, 0) // what is there was there before
				break
			}
			p.subscriptionFailed(i, s, now, errTimeout)
		case subStreaming:
			p.readStream(i, s, 0)
		}
	}
	for p.queue.Len() > 0 && p.connecting < socket.MaxConnecting {
		i := p.queue.Pop()
		p.connect(i, &p.all[i], now)
	}
}

func (p *Pool) connect(i int32, s *subscriber, now int64) {
	buffer := p.config.ReceiveBuffer
	if s.slow {
		buffer = slowBuffer
	}
	s.began, s.state = now, subConnecting
	p.connecting++
	if err := s.Open(p.sockets, subscriberToken(i), buffer); err != nil {
		p.subscriptionFailed(i, s, now, p.sockets.ConnectError(err))
		return
	}
	p.timers.Set(i, now+int64(p.connectTimeout))
}

// Handle serves an event of a subscriber's connection, and returns the time after
// it.
func (p *Pool) Handle(ev *poll.Event) int64 {
	i := subscriberOf(ev.Fd)
	s := &p.all[i]
	generation := uint32(ev.Pad) //nolint:gosec // carried, not computed with
	if s.Generation != generation {
		return 0 // of a connection that is gone
	}
	if s.state == subConnecting {
		if ev.Events&(poll.Out|poll.Failure|poll.HangUp) == 0 {
			return 0
		}
		p.connected(i, s)
	}
	if s.Generation == generation && ev.Events&poll.Out != 0 {
		if s.Pending() {
			p.writeSubscription(s)
		}
		p.talk(s)
	}
	const hangUp = poll.PeerEnded | poll.HangUp | poll.Failure
	if s.Generation != generation || ev.Events&(poll.In|hangUp) == 0 && s.Lost == nil {
		return 0
	}
	s.HungUp = s.HungUp || ev.Events&hangUp != 0
	if !s.isThrottled() {
		return p.readStream(i, s, p.sockets.Emptied)
	}
	s.IgnoreIn(p.sockets)
	return 0
}

// isThrottled tells whether a subscriber reads slowly now. Once the peer has hung up it reads what is left, which may
// be why: it would reach that at its own pace or never.
func (s *subscriber) isThrottled() bool { return s.slow && s.state == subStreaming && !s.HungUp }

// connected ends a subscriber's connecting, well or badly.
func (p *Pool) connected(i int32, s *subscriber) {
	err := poll.ConnectResult(s.FD)
	now := p.sockets.Clock.Now()
	if err != nil {
		p.subscriptionFailed(i, s, now, p.sockets.ConnectError(err))
		return
	}
	if s.Secure() {
		p.startHandshake(i, s, now)
		return
	}
	p.requestStream(i, s, now)
}

// requestStream asks for a stream on a connection that is ready for it.
func (p *Pool) requestStream(i int32, s *subscriber, now int64) {
	p.connecting--
	s.state = subRequested
	s.stream.Reset()
	s.written = now
	p.timers.Set(i, now+int64(p.timeout))
	switch request := s.stream.Request(); {
	case len(request) == 0: // all that it sends is in its output
		p.talk(s)
	case s.Secure():
		p.sendSubscription(i, s, request)
	default:
		s.Put(request)
		p.writeSubscription(s)
	}
}

// writeSubscription writes pending bytes. If that fails, it marks the subscriber broken; the caller reads next.
func (p *Pool) writeSubscription(s *subscriber) {
	if err := s.Flush(p.sockets, s.cutKind()); err != nil {
		s.Break(err)
	}
}

// cutKind is the kind of the error when the connection is cut.
func (s *subscriber) cutKind() wire.Kind {
	if s.state == subHandshaking {
		return wire.TLS
	}
	return wire.Reset
}

// readStream reads what has arrived for a subscriber, and returns the time after it. The
// socket was known to be empty at the time given.
func (p *Pool) readStream(i int32, s *subscriber, empty int64) int64 {
	generation := s.Generation
	for range socket.MaxReads {
		buffer := p.sockets.Buffer
		switch {
		case s.isThrottled():
			buffer = buffer[:min(max(p.config.SlowRate/slowReads, 1), len(buffer))]
		case s.slow && s.state == subRequested:
			buffer = buffer[:slowHead]
		}
		n, r, errno := s.Read(p.sockets, buffer, empty)
		now := r.Read
		switch {
		case errno == syscall.EINTR:
			continue
		case s.Lost != nil && (errno != 0 || n == 0):
			p.subscriptionEnded(i, s, now, s.Lost)
			return now
		case errno == syscall.EAGAIN:
			s.emptied = now
			p.setSlowRead(i, s, now)
			return now
		case errno != 0:
			p.subscriptionEnded(i, s, now, p.sockets.Error(s.cutKind(), errno))
			return now
		case n == 0:
			p.subscriptionEnded(i, s, now, s.ended())
			return now
		}
		p.rec.Received(n, now)
		if s.Secure() {
			p.unsealEvents(i, s, buffer[:n], r)
		} else {
			p.takeEvents(i, s, buffer[:n], r)
		}
		if n < len(buffer) {
			s.emptied = now
		}
		switch {
		case s.Generation != generation:
			return now
		case s.isThrottled():
			p.setSlowRead(i, s, now)
			return now
		case n < len(buffer) && !s.HungUp:
			return now // the socket is empty: what comes later makes a new event
		}
	}
	// There is more, and epoll will not say so again.
	now := p.sockets.Clock.Now()
	p.timers.Set(i, now)
	return now
}

// setSlowRead sets when a subscriber reads again, if it reads slowly.
func (p *Pool) setSlowRead(i int32, s *subscriber, now int64) {
	rate := p.config.SlowRate
	if !s.slow || s.state != subStreaming || rate == 0 {
		return
	}
	p.timers.Set(i, now+int64(time.Second)/int64(min(rate, slowReads)))
}

// subscriptionFailed ends a subscription, or an attempt, because of the peer or because it took too
// long.
func (p *Pool) subscriptionFailed(i int32, s *subscriber, now int64, err error) {
	p.failures.Count(err)
	switch {
	case s.state == subStreaming && s.slow: // that is what may become of it
		p.streams.Slow.Ended++
	case s.state == subStreaming:
		p.streams.Broken++
	case s.stream.Closed():
		p.streams.Closed++
	default:
		p.streams.Failed++
		p.addresses[s.To].Failed++
		if wire.KindOf(err) == wire.Generator {
			p.streams.Generator++
		}
		p.refusal = err
	}
	p.disconnect(i, s, now, true)
}

// subscriptionEnded ends a subscription that the peer has ended: in order without err.
// Before it has begun, that is a failed attempt.
func (p *Pool) subscriptionEnded(i int32, s *subscriber, now int64, err error) {
	if s.state != subStreaming {
		if err == nil {
			err = errNotAccepted
		}
		p.subscriptionFailed(i, s, now, err)
		return
	}
	if err != nil {
		p.failures.Count(err)
	}
	if s.slow {
		p.streams.Slow.Ended++
	} else {
		p.streams.Ended++
	}
	p.disconnect(i, s, now, false)
}

var (
	errNotAccepted = &wire.Error{Kind: wire.Reset, Text: "connection closed before the subscription was accepted"}
	errTimeout     = &wire.Error{Kind: wire.Timeout, Text: "no complete response in time"}
)

// disconnect closes a subscriber's connection, or gives up opening one, and sets
// when it comes back, if it does.
func (p *Pool) disconnect(i int32, s *subscriber, now int64, failed bool) {
	switch s.state {
	case subConnecting, subHandshaking:
		p.connecting--
	case subStreaming:
		p.open--
		p.addSubscribed(s, now, &p.rec.Window)
	}
	if s.FD != socket.None {
		p.hangUp(s)
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
	p.timers.Set(i, now+int64(p.reconnectDelay(s)))
}

// hangUp closes a subscriber's socket, whose later events no longer count.
func (p *Pool) hangUp(s *subscriber) {
	if d, ok := s.stream.(wire.Deviant); ok && s.state >= subRequested {
		p.rec.Deviations(d.Deviations())
	}
	if c, ok := s.stream.(wire.Closer); ok && s.state == subStreaming {
		c.Close()
		p.talk(s)
	}
	s.CloseNotify(p.sockets)
	s.Close(p.sockets)
	s.stream.Reset() // it may be decoding
}

// attempted counts a subscriber whose first attempt has ended.
func (p *Pool) attempted(s *subscriber) {
	if !s.hadStream && s.failures == 0 {
		p.untried--
	}
}

// reconnectDelay returns how long a subscriber stays away: the server's pause or else MinBackoff,
// doubled with each failure in a row after the first. MaxBackoff bounds it, and it is jittered.
func (p *Pool) reconnectDelay(s *subscriber) time.Duration {
	c := p.config
	asked := s.stream.Retry()
	d := c.MinBackoff
	if asked > 0 {
		d = asked
	}
	for n := s.failures; n > 1 && d < c.MaxBackoff; n-- {
		d *= 2
	}
	d = min(d, c.MaxBackoff)
	jitter := time.Duration(p.rng.Int64N(int64(d/2) + 1))
	if asked > 0 {
		return d + jitter
	}
	return d - jitter
}
