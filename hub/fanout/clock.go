package fanout

import (
	"syscall"
	"time"

	"dyno/internal/loop"
)

const (
	looks      = 4  // at each client in the shortest of the periods
	fineness   = 64 // ticks in that period, if the bounds of a tick allow
	minTick    = time.Millisecond
	drainTick  = 10 * time.Millisecond
	longPeriod = 8 * time.Second // upper bound of the period, because Subscriber.Until must be noticed
)

// A clock says when clients are checked. Each client has its own tick in every quarter of
// the period, by its place in the slab. This spreads the work even if all clients did
// something at the same time.
type clock struct {
	tick  time.Duration
	every int // ticks between two checks of a client
	beat  int // ticks of silence after which a heartbeat is due; 0 is never
	stall int // ticks without progress after which a client is stuck; 0 is never
}

func newClock(c Config) clock {
	period := longPeriod
	for _, p := range []time.Duration{c.Heartbeat, c.WriteTimeout} {
		if p != 0 {
			period = min(period, p)
		}
	}
	k := clock{tick: max(period/fineness, minTick)}
	k.every = int(period / k.tick / looks)
	k.beat, k.stall = int(c.Heartbeat/k.tick), int(c.WriteTimeout/k.tick)
	return k
}

// onTick checks the clients whose tick it is.
func (l *Loop) onTick() {
	if l.leaving.on {
		l.depart()
		if l.leaving.since += l.leaving.tick; l.leaving.since < l.clock.tick {
			return
		}
		l.leaving.since -= l.clock.tick
	}
	l.ticks++
	now := time.Now().UnixNano()
	for _, c := range l.clients.Stride(int(l.ticks)%l.clock.every, l.clock.every) {
		if c.until != 0 && now >= c.until {
			l.drop(c, Expired)
			continue
		}
		l.check(c)
	}
}

// check sends a heartbeat if the next check might be too late for it, and ends a stuck
// connection.
func (l *Loop) check(c *client) {
	quiet := int(l.ticks - c.wrote)
	if w := c.late; w != nil {
		if l.clock.stall > 0 && !w.writable && quiet >= l.clock.stall {
			l.drop(c, Stalled)
		}
		return
	}
	// Add one tick, because the write may have been at the beginning of its tick.
	if l.clock.beat == 0 || quiet+l.clock.every+1 <= l.clock.beat {
		return
	}
	n, errno := loop.Send(int(c.fd), l.heartbeat)
	if errno != 0 && errno != syscall.EAGAIN {
		l.drop(c, Gone)
		return
	}
	l.sent(c, n)
	if n == 0 {
		return // a full socket has bytes for the client, which are a sign of life too
	}
	l.counts.heartbeats.Add(1)
	if n < len(l.heartbeat) {
		l.fallBehind(c, &late{cursor: l.seen, counted: l.seen, rest: l.heartbeat[n:]})
	}
}

// leaving is the progress of Drain.
type leaving struct {
	on    bool
	all   int           // subscribers at the beginning
	over  time.Duration // how long all of it takes
	until time.Time     // when every subscriber is to be disconnected
	tick  time.Duration // no longer than the clock's tick
	since time.Duration // since the clock's last tick
}

// leave begins to disconnect clients.
func (l *Loop) leave(until time.Time) error {
	l.leaving = leaving{
		on: true, all: l.clients.Len(), over: max(time.Until(until), 1), until: until, tick: min(drainTick, l.clock.tick),
	}
	if err := l.poll.Tick(l.leaving.tick); err != nil {
		return err
	}
	l.depart()
	return nil
}

// depart sends all that is in the journal, then disconnects clients in proportion to the
// time that has passed.
func (l *Loop) depart() {
	for head := l.source.Head(); l.seen < head; {
		l.deliverNew()
	}
	left := max(time.Until(l.leaving.until), 0)
	keep := int(float64(l.leaving.all) * float64(left) / float64(l.leaving.over))
	for _, c := range l.clients.All() {
		if l.clients.Len() <= keep {
			return
		}
		if c.late != nil {
			continue
		}
		if l.cfg.Farewell != nil {
			// Delivery of these bytes is not worth waiting for.
			_, _ = loop.Send(int(c.fd), l.cfg.Farewell())
		}
		l.drop(c, Drained)
	}
}
