package engine

import (
	"syscall"

	"dyno/load/engine/config"
	"dyno/load/engine/poll"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/wire"
)

// A connection is a place for one, and its use. Fields that each exchange of HTTP/1.1 touches come
// first.
type connection struct {
	socket.Socket
	current       int32  // without a mux: the exchange under way, or the last one
	busy          int32  // exchanges under way
	carried       uint64 // exchanges so far
	good          uint64 // of the place, whatever connection it has: requests of the window, or carried into it, that were answered well
	firstAwaiting int32  // not pooled: the first exchange that waits for it, or none
	idleAt        int32  // pooled: its place among the idle ones, or none

	state       connectionState
	failures    uint8 // in a row
	blocked     bool  // mux: the socket takes no more for now
	leaving     bool  // mux: the peer has said that it takes no more exchanges
	outgoing    bool  // in the list of that name
	goAwayError bool  // mux: the peer has ended the connection by GOAWAY for an error
	deferred    bool  // in the list of that name

	// State of the place, whatever connection it has.
	asked    bool   // had a request of the window, or carried into it
	answered bool   // one of those was answered, well or badly
	hung     bool   // one of those had waited for hangTime or more at the end
	bad      uint64 // of those, the ones that failed

	client wire.Client // of a protocol that carries one exchange at a time
	mux    wire.Mux    // of one that carries many; nil otherwise
	tunnel wire.Client // what asks a proxy for a tunnel; nil without one

	began          int64 // when the connecting began
	handshakeBegan int64 // when the TLS handshake began
	lastRead       int64 // mux: when bytes last came
	pinged         int64 // mux, keepalive: when a ping was sent; 0 when nothing is awaited
	lastAwaiting   int32
	firstUnwritten int32 // mux: the first of the exchanges that were begun and not written, or none
	spare          int32 // mux, pooled: the first of the exchanges that nothing uses
}

// connections are a worker's places for connections of requests.
type connections struct {
	all      []connection
	streams  int32  // exchanges of each connection
	lifetime uint64 // exchanges that one connection carries at most

	newClient    func() wire.Client // with TLS, if the server chooses by ALPN
	newMux       func() wire.Mux    // with TLS, if the server chooses by ALPN
	tunnelErrors map[error]*wire.Error
	stamps       bool // the codecs stamp what they publish

	connectQueue queue.FIFO[int32] // those in state queued; never more than there are
	connecting   queue.List        // those that are not established yet
	opening      int               // in that list
	starved      bool              // the last could not be opened for want of descriptors, ports or memory
	refusal      error             // the last

	idles    []int32      // pooled: those that can carry one more request, the latest used last
	vacant   []int32      // pooled: those that are closed
	outgoing []int32      // those that have something to say
	deferred []place      // those that had more to do than was done at once
	pings    queue.Timers // keepalive: when to look at those that carry many exchanges

	shortSince int64 // open loop: when the first request had to wait because all were in use; never before that
	open       int
	addresses  []record.Address // by the numbers of their endpoints
	tally      record.Connections
	handshakes record.Handshakes
	goAways    record.Texts
}

// A place is a connection as it was when it was noted: one that follows it there is another.
type place struct {
	conn       int32
	generation uint32
}

// A connectionState says where a connection stands.
type connectionState uint8

const (
	closed      connectionState = iota // there is none
	queued                             // waits for its turn to connect
	connecting                         // in the list of that name
	tunnelling                         // connected to a proxy, in that list; it was asked for a tunnel
	handshaking                        // connected, in that list; the TLS handshake is under way
	startingMux                        // as started; the mux awaits the peer's preface
	established                        // carries exchanges
	ending                             // its exchanges are being ended
)

// free returns how many exchanges a connection can begin now.
func (cs *connections) free(c *connection) int {
	switch {
	case c.state != established:
		return 0
	case c.mux != nil:
		if c.HungUp || c.leaving {
			return 0
		}
		n := c.mux.Free()
		if left := cs.lifetime - c.carried; uint64(n) > left { //nolint:gosec // not negative
			n = int(left) //nolint:gosec // less than an int
		}
		return n
	case c.busy > 0:
		return 0
	}
	return 1
}

// stamper returns the codec of a connection if it stamps what it publishes; else nil.
func (c *connection) stamper() wire.Stamper {
	codec := any(c.client)
	if c.mux != nil {
		codec = c.mux
	}
	s, _ := codec.(wire.Stamper)
	return s
}

// queueConnecting makes a connection wait for its turn to be opened.
func (cs *connections) queueConnecting(i int32) {
	cs.all[i].state = queued
	cs.connectQueue.Push(i)
}

// connectQueued begins connecting as far as the bound allows.
func (w *worker) connectQueued(now int64) {
	for w.conns.connectQueue.Len() > 0 && w.conns.opening < socket.MaxConnecting {
		i := w.conns.connectQueue.Pop()
		w.connect(i, &w.conns.all[i], now)
	}
}

// spreads tells whether pooled requests are to be spread over several addresses.
func (w *worker) spreads() bool { return len(w.conns.addresses) > 1 }

// nextIdle returns the connection that takes the next pooled request, of those that are idle: the one used last, or any
// where these have several addresses or are there to be used alike.
func (w *worker) nextIdle() int32 {
	n := len(w.conns.idles)
	if w.spreads() || w.config.Standing {
		return w.conns.idles[w.rng.IntN(n)]
	}
	return w.conns.idles[n-1]
}

// openOneMore begins one more pooled connection, if one more is wanted and
// allowed: no more of them are under way than it takes to carry the requests that wait.
func (w *worker) openOneMore() {
	n := len(w.conns.vacant)
	switch {
	case (w.conns.opening+w.conns.connectQueue.Len())*int(w.conns.streams) >= w.exchanges.waiting.Len():
		return
	case n == 0:
		// One that is still being opened says nothing about the target: a busy machine may be what takes the time.
		if w.conns.shortSince == never && w.conns.opening == 0 && w.conns.connectQueue.Len() == 0 {
			w.conns.shortSince = w.sockets.Clock.Now()
		}
		return
	}
	if w.spreads() { // or those that close again after each request would all have the same address
		k := w.rng.IntN(n)
		w.conns.vacant[k], w.conns.vacant[n-1] = w.conns.vacant[n-1], w.conns.vacant[k]
	}
	i := w.conns.vacant[n-1]
	w.conns.vacant = w.conns.vacant[:n-1]
	w.conns.queueConnecting(i)
}

func (w *worker) connect(i int32, c *connection, now int64) {
	if err := c.Open(w.sockets, i, 0); err != nil {
		w.connectFailed(i, c, now, err)
		return
	}
	c.began = now
	c.state = connecting
	w.conns.opening++
	w.conns.connecting.Push(i)
}

// connected ends a connection's connecting, well or badly.
func (w *worker) connected(i int32, c *connection) {
	err := poll.ConnectResult(c.FD)
	now := w.sockets.Clock.Now()
	if err != nil {
		w.openFailed(i, c, now, err)
		return
	}
	c.carried = 0
	if c.tunnel != nil {
		w.startTunnel(i, c)
		return
	}
	w.reached(i, c, now)
}

// reached begins to use a connection that has reached the target, by way of a proxy or not.
func (w *worker) reached(i int32, c *connection, now int64) {
	w.rec.Time(record.ConnectTime, now-c.began)
	if c.Secure() {
		w.startHandshake(i, c, now)
		return
	}
	w.startCodec(i, c, now)
}

// startCodec begins to use a connection on which the codec can speak.
func (w *worker) startCodec(i int32, c *connection, now int64) {
	if c.mux != nil {
		w.startMux(i, c, now)
		return
	}
	c.client.Reset()
	w.establish(i, c, now)
}

// establish has an open connection carry what waits for it.
func (w *worker) establish(i int32, c *connection, now int64) {
	w.conns.opening--
	w.conns.connecting.Remove(i)
	w.conns.tally.Opened++
	w.conns.addresses[c.To].Opened++
	if c.mux != nil {
		w.conns.tally.Multiplexed++
	}
	w.conns.starved = false
	w.conns.open++
	w.conns.tally.Peak = max(w.conns.tally.Peak, w.conns.open)
	c.state = established
	w.watch(i, c)
	w.refill(i, c, now)
}

// openFailed ends the opening of a connection, which has failed.
func (w *worker) openFailed(i int32, c *connection, now int64, err error) {
	w.conns.opening--
	w.conns.connecting.Remove(i)
	w.hangUp(c)
	w.connectFailed(i, c, now, err)
}

// refill gives a connection the requests that wait for it, as far as it can carry them.
func (w *worker) refill(i int32, c *connection, now int64) {
	for c.firstAwaiting != none && w.conns.free(c) > 0 {
		e, x := w.exchanges.takeAwaiting(c)
		w.dispatch(e, x, i, c, now)
	}
	if !w.pooled {
		return
	}
	for w.exchanges.waiting.Len() > 0 && w.conns.free(c) > 0 {
		w.send(i, c, w.exchanges.waiting.Pop(), now)
	}
	switch free := w.conns.free(c) > 0; {
	case free && c.idleAt == none:
		c.idleAt = int32(len(w.conns.idles)) //nolint:gosec // bounded by the number of connections
		w.conns.idles = append(w.conns.idles, i)
	case !free && c.idleAt != none:
		w.conns.removeIdle(c)
	}
	if c.mux != nil && w.exchanges.waiting.Len() > 0 {
		w.openOneMore() // it carries fewer than it might have
	}
}

// removeIdle removes a connection from the list of idle ones.
func (cs *connections) removeIdle(c *connection) {
	last := len(cs.idles) - 1
	moved := cs.idles[last]
	cs.idles[c.idleAt] = moved
	cs.all[moved].idleAt = c.idleAt
	cs.idles = cs.idles[:last]
	c.idleAt = none
}

// expireConnecting ends the attempts that have taken too long.
func (w *worker) expireConnecting(now int64) {
	limit := now - int64(w.config.ConnectTimeout)
	for i := w.conns.connecting.Head(); i != none && w.conns.all[i].began <= limit; i = w.conns.connecting.Head() {
		c := &w.conns.all[i]
		var err error = syscall.ETIMEDOUT
		switch c.state {
		case tunnelling:
			err = w.tunnelError(config.ErrTimeout)
		case handshaking:
			err = socket.ErrHandshakeTimeout
		case startingMux:
			err = errMuxTimeout
		}
		w.openFailed(i, c, now, err)
	}
}

// connectFailed accounts for a connection that could not be opened: the requests that
// it was for have failed.
func (w *worker) connectFailed(i int32, c *connection, now int64, err error) {
	w.conns.tally.Failed++
	w.conns.addresses[c.To].Failed++
	failure := w.sockets.ConnectError(err)
	w.conns.refusal = err
	if w.conns.starved = failure.Kind == wire.Generator; w.conns.starved {
		w.conns.tally.Generator++
	}
	c.state = closed
	c.failedAgain()
	pooled := w.pooled && c.firstAwaiting == none // it was for whichever requests wait
	for c.firstAwaiting != none {
		e, x := w.exchanges.takeAwaiting(c)
		w.failUnsent(x, c, now, failure)
		switch {
		case w.users != nil && !w.pooled:
			w.failUser(x.User, now)
		case !w.pooled:
			w.pause(e, x, now+int64(w.backoff(c.failures)))
		case c.mux != nil:
			x.next, c.spare = c.spare, e
		}
	}
	if !w.pooled {
		return
	}
	if pooled && w.exchanges.waiting.Len() > 0 {
		// The oldest request that waits has used up its attempt.
		x := &w.exchanges.all[c.current]
		r := w.exchanges.waiting.Pop()
		x.assign(r)
		w.failUnsent(x, c, now, failure)
		if w.users != nil {
			w.failUser(r.user, now)
		}
	}
	w.reuse(i, c)
}

// failUnsent accounts for a request that failed for want of a connection.
func (w *worker) failUnsent(x *exchange, c *connection, now int64, err error) {
	w.begin(x, c)
	x.Ready, x.Written, x.First = now, now, 0
	w.fail(x, c, now, err)
}

// hangUp closes a connection's socket, whose later events no longer count.
func (w *worker) hangUp(c *connection) {
	c.Close(w.sockets)
	c.blocked, c.deferred = false, false
}

// disconnect closes an established connection.
func (w *worker) disconnect(i int32, c *connection) {
	if c.idleAt != none {
		w.conns.removeIdle(c)
	}
	w.conns.noteEnd(c)
	w.hangUp(c)
	w.conns.open--
}

// noteEnd notes what a connection that ends knows of its peer: how many exchanges it allowed at last, and how many
// messages it has sent that nobody awaited.
func (cs *connections) noteEnd(c *connection) {
	if m, ok := c.mux.(wire.Pusher); ok && c.state >= established {
		cs.tally.Pushed += uint64(m.Pushed()) //nolint:gosec // a count
	}
	if m, ok := c.mux.(wire.StreamLimiter); ok && c.state >= established {
		cs.tally.Allow(m.PeerStreams())
	}
}

// reuse puts a closed connection to its next use: to open again for a waiting exchange, or to be free.
func (w *worker) reuse(i int32, c *connection) {
	c.state = closed
	switch {
	case c.firstAwaiting != none:
		w.conns.queueConnecting(i)
	case w.pooled:
		w.conns.vacant = append(w.conns.vacant, i)
		w.openOneMore()
	}
}

// countServed counts the places whose requests were answered. All requests have ended.
func (cs *connections) countServed() {
	for i := range cs.all {
		c := &cs.all[i]
		if c.good > 0 {
			cs.tally.Served++
		}
		cs.addresses[c.To].OK += c.good
		cs.addresses[c.To].Bad += c.bad
		if c.asked && !c.answered {
			cs.tally.Unanswered++
		}
	}
}
