package engine

import (
	"math"
	"time"
)

// A presence is until when each user of a closed loop is present, where their number changes; it is nil
// where it does not. A user who leaves finishes the request under way, and leaves before the next one. One of a scenario
// may finish its iteration first (Finish).
type presence []int64

// away is the presence of a user who is not present.
const away = math.MinInt64

// ended tells whether a user's presence is over at a time.
func (p presence) ended(n int32, at int64) bool { return p != nil && at >= p[n] }

// limit returns a time, or the end of a user's presence if that is earlier. The user may stay some time longer.
func (p presence) limit(n int32, at, grace int64) int64 {
	if p != nil && p[n] < never-grace {
		at = min(at, p[n]+grace)
	}
	return at
}

// newPresence returns the presence of a number of users, who are all away.
func newPresence(users int) presence {
	p := make(presence, users)
	for n := range p {
		p[n] = away
	}
	return p
}

// userNumber returns the number of a worker's user over all workers and engines. Users who repeat one
// request fill one connection after the other.
func (w *worker) userNumber(n int32) int {
	c := w.config
	s := c.ShardOf(w.place)
	if w.users != nil {
		return int(s.At(uint64(n))) //nolint:gosec // bounded by the number of users
	}
	return int(s.At(uint64(n/w.conns.streams)))*c.Streams + int(n%w.conns.streams) //nolint:gosec // bounded
}

// leave makes a user leave whose presence is over at a time, unless it returns at once. The time of a
// later return is known at once, too: never if there is none.
func (w *worker) leave(n int32, at int64) (left bool, returns int64) {
	p := w.presence
	begin, end, ok := w.config.Population.Presence(w.userNumber(n), time.Duration(at-w.phases.origin))
	if p[n] != away {
		w.present--
	}
	switch {
	case !ok:
		p[n] = away
		return true, never
	case w.phases.origin+int64(begin) > at:
		p[n] = away
		return true, w.phases.origin + int64(begin)
	}
	w.present++
	if p[n] = never; end < never-time.Duration(w.phases.origin) {
		p[n] = w.phases.origin + int64(end)
	}
	return false, at
}

// leaveLoop makes a user leave that repeats one request. It closes its connection if no other user of it
// is present.
func (w *worker) leaveLoop(e int32, x *exchange, at int64) (left bool) {
	was := w.presence[e] != away
	left, returns := w.leave(e, at)
	if !left {
		return false
	}
	if x.state = parked; returns < never {
		x.state = pausing
		w.pauses.Set(e, returns)
	}
	i := x.conn
	c := &w.conns.all[i]
	if !was || c.state != established || c.busy > 0 || c.firstAwaiting != none {
		return true
	}
	for other := i * w.conns.streams; other < (i+1)*w.conns.streams; other++ {
		if w.presence[other] != away {
			return true
		}
	}
	w.closeUsed(i, c)
	return true
}

// leaveScenario makes a user of a scenario leave. It closes a connection that the others do not need.
func (w *worker) leaveScenario(n int32, at int64) (left bool) {
	was := w.presence[n] != away
	left, returns := w.leave(n, at)
	if !left {
		w.connectOneMore()
		return false
	}
	if was {
		w.users.Renew(n)
	}
	if returns < never {
		w.users.Pause(n, returns)
	} else {
		w.users.Stop(n)
	}
	if !w.pooled {
		if c := &w.conns.all[n]; c.state == established && c.busy == 0 {
			w.closeUsed(n, c)
		}
		return true
	}
	for _, i := range w.conns.idles {
		if (w.conns.open-1)*int(w.conns.streams) < w.present {
			break
		}
		if c := &w.conns.all[i]; c.busy == 0 {
			w.closeUsed(i, c)
			break
		}
	}
	return true
}

// connectOneMore opens a connection if users of scenarios have fewer than one each, or a stream.
func (w *worker) connectOneMore() {
	n := len(w.conns.vacant)
	if n == 0 || (w.conns.open+w.conns.opening+w.conns.connectQueue.Len())*int(w.conns.streams) >= w.present {
		return
	}
	w.conns.queueConnecting(w.conns.vacant[n-1])
	w.conns.vacant = w.conns.vacant[:n-1]
}

// connectedFirst is how many of a worker's connections are opened before the load, so that the warm-up
// includes them: all in a closed loop. Where users come later, they open theirs; one is
// opened in any case, to see whether the target can be reached.
func (w *worker) connectedFirst() int {
	c := w.config
	count := len(w.conns.all)
	switch {
	case c.Standing && c.Population == nil:
		return count
	case w.arrivals.cursor != nil && w.spreads():
		return min(len(w.conns.addresses), count) // or a slow rate would need one connection only
	case w.arrivals.cursor != nil:
		return 0
	case c.Population != nil && count > 0:
		s := c.ShardOf(w.place)
		return min(count, max(1, s.Share((c.Population.First()+c.Streams-1)/c.Streams)))
	}
	return count
}

// opensOnDemand tells whether pooled connections are opened when requests need them.
func (w *worker) opensOnDemand() bool {
	return w.pooled && (w.arrivals.cursor != nil || w.presence != nil)
}
