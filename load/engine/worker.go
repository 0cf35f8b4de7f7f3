package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/engine/redirects"
	"dyno/load/engine/socket"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/traces"
	"dyno/load/engine/users"
	"dyno/load/wire"
)

// never is later than any time of the engine.
const never = math.MaxInt64

// none is no place in a slice.
const none = queue.None

// A worker is one thread with one poller and its share of the load. Its components own what
// there is; the worker passes a request from one to the other. All is its own thread's
// while that runs.
type worker struct {
	engine  *engine
	config  *config.Config // of its part of the load
	number  int            // among all workers
	place   int            // among those of its part
	thread  int            // its id; set before it is ready
	sockets *socket.Thread
	rec     *record.Recorder
	rng     *rand.Rand // back-off jitter

	phases phases
	choice clockChoice

	conns     connections
	exchanges exchanges
	event     wire.MuxEvent     // what a mux has just found
	redirects *redirects.Trails // nil unless redirects are followed
	tracer    *traces.Tracer    // nil unless requests are traced
	messages  *messages.Times   // nil unless messages are timed

	// The source of requests: arrivals in an open loop, users of a closed loop that repeat one request,
	// or users of a scenario.
	arrivals arrivals
	pauses   queue.Timers // of users of a closed loop that repeat one request
	users    *users.Pool  // nil where one request is repeated
	presence presence     // of the users of a closed loop, by number
	present  int          // of these, how many are
	pooled   bool         // requests go over whichever connection is free: in an open loop, and with users that own none

	subscribers *subscribe.Pool
	posted      bool // what this worker published is known to all
}

// connectAll opens the connections that are there from the beginning, and those of the subscribers.
// It returns when each has been tried.
func (w *worker) connectAll() {
	first := w.connectedFirst()
	for i := range first {
		w.conns.queueConnecting(int32(i)) //nolint:gosec // bounded by MaxConnections
	}
	if len(w.conns.vacant) > 0 { // the first ones stand last
		w.conns.vacant = w.conns.vacant[:len(w.conns.vacant)-first]
	}
	deadline := w.sockets.Clock.Now() + int64(w.config.ConnectTimeout)*2
	if w.subscribers.Len() > 0 {
		deadline += int64(w.config.Subscribers.RampTime())
		w.subscribers.Start(w.sockets.Clock.Now())
	}
	for {
		now := w.sockets.Clock.Now()
		w.connectQueued(now)
		w.subscribers.Serve(now)
		if (w.conns.opening == 0 && w.conns.connectQueue.Len() == 0 && w.subscribers.Untried() == 0) || now >= deadline || w.engine.stop.Load() {
			return
		}
		w.expireConnecting(now)
		until := min(now+int64(10*time.Millisecond), w.subscribers.Next())
		if len(w.conns.deferred) > 0 {
			until = now
		}
		w.handle(w.sockets.Poller.Wait(w.sockets.Clock.Now(), until))
	}
}

// loop is the engine's inner loop.
func (w *worker) loop() {
	spin := int64(w.config.Spin)
	for {
		now := w.sockets.Clock.Now()
		if now >= w.phases.next(&w.rec.Window) {
			w.mark(now)
		}
		if now >= w.rec.NextInterval() {
			w.rec.Rotate(now, w.connections())
		}
		if w.choice.undecided && now >= w.choice.decision {
			w.decideClock(now)
		}
		// Before the end is judged: what was due in the window belongs to it, even
		// when the worker was held up until after its end.
		w.startDue(now)
		w.flushOutgoing()
		w.closeEarly(now)
		if w.ended(now) {
			for w.phases.marked < 2 {
				w.mark(now)
			}
			return
		}
		w.endPauses(now)
		if w.messages != nil {
			w.sendDueMessages(now)
		}
		w.keepAlive(now)
		w.expire(now)
		w.connectQueued(now)
		w.subscribers.Serve(now)
		w.flushOutgoing()

		next := w.nextDue()
		if next == w.arrivals.due || w.sockets.Clock.Stamping() { // what was done meanwhile counts
			now = w.sockets.Clock.Now()
		}
		var events []poll.Event
		switch {
		case len(w.conns.deferred) > 0:
			events = w.sockets.Poller.Poll()
		case next != w.arrivals.due:
			events = w.sockets.Poller.Wait(now, next)
		case next-now > spin || next <= now:
			events = w.sockets.Poller.Wait(now, next-spin)
		default:
			events = w.sockets.Poller.Poll()
			w.phases.spun += w.sockets.Clock.Now() - now
		}
		w.handle(events)
		if !w.sockets.Poller.Full(events) && len(w.conns.deferred) == 0 {
			// Later bytes make an event of the next turn, or of a later one.
			w.sockets.Emptied = now
		}
	}
}

// nextDue returns when the worker has something to do if nothing arrives.
func (w *worker) nextDue() int64 {
	next := min(w.arrivals.due, w.rec.NextInterval(), w.phases.next(&w.rec.Window), w.phases.drainEnd, w.subscribers.Next(),
		w.pauses.Next(), w.conns.pings.Next(), w.exchanges.next(int64(w.config.Timeout)))
	if w.messages != nil {
		next = min(next, w.messages.Next())
	}
	if w.users != nil {
		next = min(next, w.users.NextPause())
	}
	if i := w.conns.connecting.Head(); i != none {
		next = min(next, w.conns.all[i].began+int64(w.config.ConnectTimeout))
	}
	return next
}

// closeAll closes the connections, on the thread that has opened them.
func (w *worker) closeAll() {
	w.subscribers.Close()
	for i := range w.conns.all {
		if c := &w.conns.all[i]; c.FD != none {
			w.conns.noteEnd(c)
			w.takeLeave(c)
			w.hangUp(c)
			if c.client != nil {
				c.client.Reset() // it may be decoding
			}
		}
	}
	w.sockets.Clock.Close()
}

// connections is how many are open now, subscriptions included.
func (w *worker) connections() int { return w.conns.open + w.subscribers.Open() }

// handle serves events, and between them the arrivals that came due.
func (w *worker) handle(events []poll.Event) {
	if len(w.conns.deferred) > 0 {
		w.runDeferred()
	}
	for n := range events {
		ev := &events[n]
		if ev.Fd <= poll.WakeToken {
			if ev.Fd < poll.WakeToken {
				w.catchUp(w.subscribers.Handle(ev))
			}
			continue
		}
		i := ev.Fd
		c := &w.conns.all[i]
		generation := uint32(ev.Pad) //nolint:gosec // carried, not computed with
		if c.Generation != generation {
			continue // of a connection that is gone
		}
		if c.state == connecting {
			if ev.Events&(poll.Out|poll.Failure|poll.HangUp) == 0 {
				continue
			}
			w.connected(i, c)
			if c.Generation != generation {
				continue
			}
		}
		if ev.Events&poll.Out != 0 && (c.Pending() || c.blocked) {
			w.flush(i, c)
		}
		const readable = poll.In | poll.PeerEnded | poll.HangUp | poll.Failure
		if ev.Events&readable != 0 && c.Generation == generation {
			c.HungUp = c.HungUp || ev.Events&(poll.PeerEnded|poll.HangUp|poll.Failure) != 0
			w.catchUp(w.read(i, c))
		}
	}
}
