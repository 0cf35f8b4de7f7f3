package fanout

import (
	"time"

	"dyno/internal/loop"

	"golang.org/x/sys/unix"
)

const (
	looks      = 4  // at each client in the shortest of the periods
	fineness   = 64 // ticks in that period, where a tick's bounds allow
	minTick    = time.Millisecond
	drainTick  = 10 * time.Millisecond
	longPeriod = 8 * time.Second // is never exceeded, since Subscriber.Until must be noticed
)

// A clock says when clients are looked at: each has its own tick in every quarter
// of the period, by its place in the slab, so that the work is spread whatever
// they did together.
type clock struct {
	tick  time.Duration
	every int // ticks between looks at a client
	beat  int // ticks of silence that are too many; 0 is never
	stall int // ticks without progress that are too many; 0 is never
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

// onTick looks at those whose tick it is.
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

// check sends a heartbeat if the next look might be too late for it, and ends
// what is stuck.
func (l *Loop) check(c *client) {
	quiet := int(l.ticks - c.wrote)
	if w := c.late; w != nil {
		if l.clock.stall > 0 && !w.writable && quiet >= l.clock.stall {
			l.drop(c, Stalled)
		}
		return
	}
	// One more: the write may have been at the beginning of its tick.
	if l.clock.beat == 0 || quiet+l.clock.every+1 <= l.clock.beat {
		return
	}
	n, errno := loop.Send(int(c.fd), l.heartbeat)
	if errno != 0 && errno != unix.EAGAIN {
		l.drop(c, Gone)
		return
	}
	l.sent(c, n)
	if n == 0 {
		return // what fills the socket is a sign of life, too
	}
	l.counts.heartbeats.Add(1)
	if n < len(l.heartbeat) {
		l.fallBehind(c, &late{cursor: l.seen, counted: l.seen, rest: l.heartbeat[n:]})
	}
}

// leaving is how Drain is going.
type leaving struct {
	on    bool
	all   int           // who was there
	over  time.Duration // the whole of it
	until time.Time     // when everyone shall have been disconnected
	tick  time.Duration // no longer than the clock's
	since time.Duration // the clock's last tick
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

// depart disconnects the share of the time that has passed, after sending all that is
// in the journal.
func (l *Loop) depart() {
	for head := l.source.Head(); l.seen < head; {
		l.turn()
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
			// Whether it gets there is not worth waiting for.
			_, _ = loop.Send(int(c.fd), l.cfg.Farewell())
		}
		l.drop(c, Drained)
	}
}
