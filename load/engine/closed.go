package engine

import "time"

// startRequest makes a user send the next request, due at a time, or wait for its connection
// to take it.
func (w *worker) startRequest(e int32, x *exchange, intended int64) {
	// A worker that is late may have told by now what it has published.
	if intended >= w.rec.Window.End || w.posted || (w.phases.remaining == 0 && intended >= w.rec.Window.Start) {
		x.state = parked
		return
	}
	if w.presence.ended(e, intended) {
		w.pause(e, x, intended)
		return
	}
	x.Intended = intended
	x.Resends, x.redirected = 0, false
	x.Part = w.schedule(intended)
	i := x.conn
	c := &w.conns.all[i]
	if c.firstAwaiting == none && w.conns.free(c) > 0 {
		w.dispatch(e, x, i, c, intended)
		return
	}
	w.awaitConnection(e, x, i, c)
}

// continueExchange continues the user whose request has ended.
func (w *worker) continueExchange(e int32, x *exchange, c *connection, now int64) {
	switch {
	case c.failures == 0 && x.thinks != nil:
		w.pause(e, x, now+int64(w.config.Think.Draw(x.thinks)))
	case c.state == established && c.failures <= 1:
		w.startRequest(e, x, now)
	default:
		w.pause(e, x, now+int64(w.backoff(c.failures)))
	}
}

// pause makes a user pause until a time, or until it leaves.
func (w *worker) pause(e int32, x *exchange, until int64) {
	x.state = pausing
	w.pauses.Set(e, w.presence.limit(e, until, 0))
}

// endPauses wakes the users whose pause is over.
func (w *worker) endPauses(now int64) {
	for w.pauses.Next() <= now {
		e, at := w.pauses.Pop()
		x := &w.exchanges.all[e]
		if w.presence.ended(e, at) {
			if at = max(at, w.phases.origin); w.leaveLoop(e, x, at) {
				continue
			}
		}
		w.startRequest(e, x, at)
	}
	for w.users != nil && w.users.NextPause() <= now {
		n, until := w.users.EndPause()
		if w.presence.ended(n, until-w.grace(n)) {
			if until = max(until, w.phases.origin); w.leaveScenario(n, until) {
				continue
			}
		}
		w.sendNext(n, until, false)
	}
}

// backoff returns how long a user pauses after failures in a row: none after the first, then from 1 ms
// doubling to the limit. Jitter over half of it keeps users from returning in step.
func (w *worker) backoff(failures uint8) time.Duration {
	if failures <= 1 {
		return 0
	}
	d := min(time.Millisecond<<min(failures-2, 30), w.config.MaxBackoff)
	return d/2 + time.Duration(w.rng.Int64N(int64(d/2)+1))
}
