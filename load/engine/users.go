package engine

import (
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// startIteration makes a user carry out the iteration of an arrival.
func (w *worker) startIteration(intended int64) {
	n := w.users.Arrive(intended)
	if n == none {
		w.rec.Drop(w.schedule(intended), w.conns.starved)
		return
	}
	w.sendNext(n, intended, true)
}

// sendNext makes a user send the next request, which is due at a time: the arrival's, or the end of the
// pause after the last request. It is the time, too, that the user knows.
func (w *worker) sendNext(n int32, intended int64, arrival bool) {
	grace := w.grace(n)
	if intended-grace >= w.rec.Window.End || (w.phases.remaining == 0 && intended >= w.rec.Window.Start) {
		w.users.Stop(n)
		return
	}
	if w.presence.ended(n, intended-grace) {
		w.pauseUser(n, intended)
		return
	}
	send, err := w.users.Next(n, intended, arrival)
	if !send {
		if w.arrivals.cursor != nil && w.users.Dry() {
			w.arrivals.due = never // all flows have run out of rows: the arrivals end, too
		}
		return
	}
	request := waiter{intended: intended, user: n, part: w.schedule(intended)}
	i := none
	if err == nil && w.pooled {
		i = w.conns.idle()
	}
	switch {
	case err != nil:
		now := w.sockets.Clock.Now()
		w.failWaiting(request, now, err)
		w.failUser(n, now)
	case !w.pooled:
		w.sendOwn(n, request)
	case i != none:
		w.send(i, &w.conns.all[i], request, intended)
	case w.exchanges.waiting.Push(request):
		w.openOneMore()
	default:
		w.dropRequest(request)
		w.failUser(n, w.sockets.Clock.Now())
	}
}

// sendOwn sends a user's request on the user's own connection, which has the same number.
func (w *worker) sendOwn(n int32, r waiter) {
	x, c := &w.exchanges.all[n], &w.conns.all[n]
	x.assign(r)
	w.users.PrepareResponse(n)
	if m, ok := c.mux.(wire.Renewer); ok && m.Renews(w.users.Request(n).Outline) && c.state == established {
		w.closeUsed(n, c)
	}
	if w.conns.free(c) > 0 {
		w.dispatch(n, x, n, c, r.intended)
		return
	}
	w.awaitConnection(n, x, n, c)
}

// idle returns a connection that can carry one more request, or none. One that said so may
// learn otherwise from the bytes that are being read: it is asked again after those.
func (cs *connections) idle() int32 {
	for k := len(cs.idles); k > 0; k = len(cs.idles) {
		i := cs.idles[k-1]
		c := &cs.all[i]
		if cs.free(c) > 0 {
			return i
		}
		cs.removeIdle(c)
	}
	return none
}

// failWaiting accounts for a request that fails without a connection.
func (w *worker) failWaiting(r waiter, now int64, err error) {
	x := exchange{Request: record.Request{
		Intended: r.intended, Ready: now, Written: now, Part: r.part, Resends: r.resends, User: r.user, Status: wire.NoStatus,
	}}
	if r.resends == 0 {
		w.rec.Sent(x.Part)
	}
	w.fail(&x, &w.conns.all[0], now, err)
}

// dropRequest accounts for a user's request that is not sent.
func (w *worker) dropRequest(r waiter) {
	w.rec.DropOf(w.users.Step(r.user), r.part, w.conns.starved)
}

// failUser continues the user whose request got no response.
func (w *worker) failUser(n int32, now int64) {
	w.users.Fail(n)
	w.continueUser(n, now, false)
}

// continueUser continues the user whose request has ended, with a complete response or without. Without
// one, users pause after failures in a row, as others in a closed loop do. They never go on at once:
// the next failure would be a deeper call.
func (w *worker) continueUser(n int32, now int64, answered bool) {
	switch pause, goesOn := w.users.Ended(n, now, answered); {
	case !goesOn:
	case answered && pause == 0:
		w.sendNext(n, now, false)
	case answered:
		w.pauseUser(n, now+pause)
	default:
		w.pauseUser(n, now+max(pause, int64(w.backoff(w.users.Failures(n)))))
	}
}

// grace is how much longer a user may go on: one that is in the middle of an iteration, to finish it.
func (w *worker) grace(n int32) int64 {
	if w.users.IsBetween(n) {
		return 0
	}
	return int64(w.config.Finish)
}

// pauseUser makes a user pause until a time, or until it leaves.
func (w *worker) pauseUser(n int32, until int64) {
	grace := w.grace(n)
	if grace > 0 && w.rec.Window.End < never-grace {
		until = min(until, w.rec.Window.End+grace)
	}
	w.users.Pause(n, w.presence.limit(n, until, grace))
}
