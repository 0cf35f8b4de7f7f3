package engine

import (
	"slices"
	"time"

	"dyno/load/engine/queue"
)

// Requests that have a time of their own for the response, which is that of their step. As all
// requests do, they wait in the list of those in flight. In addition, there is one list for
// each such time, whose head is the next to expire.

// A timedList is the requests under way that have the same time for the response.
type timedList struct {
	queue.List
	timeout int64
}

// prepareTimes makes the lists.
func (r *userPool) prepareTimes(exchanges int, longest time.Duration) {
	r.timed = make([]uint8, len(r.steps))
	for i, s := range r.steps {
		if s.Timeout == 0 || s.Timeout >= longest {
			continue // those of all apply
		}
		at := slices.IndexFunc(r.lists, func(l timedList) bool { return l.timeout == int64(s.Timeout) })
		if at < 0 {
			at = len(r.lists)
			r.lists = append(r.lists, timedList{queue.NewList(exchanges), int64(s.Timeout)})
		}
		r.timed[i] = uint8(at + 1) //nolint:gosec // bounded by scenario.MaxTimeouts
	}
}

// trackInFlight adds an exchange to the lists of those whose requests are in flight.
func (w *worker) trackInFlight(e int32, x *exchange) {
	w.inFlight.Push(e)
	if w.users == nil || len(w.users.lists) == 0 {
		return
	}
	if x.timed = w.users.timed[w.users.all[x.User].request.Step]; x.timed > 0 {
		w.users.lists[x.timed-1].Push(e)
	}
}

// untrack removes an exchange from these lists: its request has ended.
func (w *worker) untrack(e int32, x *exchange) {
	w.inFlight.Remove(e)
	if x.timed > 0 {
		w.users.lists[x.timed-1].Remove(e)
		x.timed = 0
	}
}

// next returns when the first of the requests expires that have a time of their own.
func (r *userPool) next(exchanges []exchange) int64 {
	next := int64(never)
	if r == nil {
		return next
	}
	for i := range r.lists {
		if l := &r.lists[i]; l.Head() != none {
			next = min(next, exchanges[l.Head()].Written+l.timeout)
		}
	}
	return next
}

// expireTimed ends the requests that have taken longer than the time of their own.
func (w *worker) expireTimed(now int64) {
	if w.users == nil {
		return
	}
	for i := range w.users.lists {
		l := &w.users.lists[i]
		for e := l.Head(); e != none && w.exchanges[e].Written <= now-l.timeout; e = l.Head() {
			w.timeOut(e, now, true)
		}
	}
}

// timeOut fails a request that has taken too long. The peer knows some of the timeouts.
// What has come and was not read yet may be the response: it was in time if the worker was
// not.
func (w *worker) timeOut(e int32, now int64, peerKnows bool) {
	x := &w.exchanges[e]
	c := &w.conns[x.conn]
	written := x.Written
	w.read(x.conn, c)
	if x.state != inFlight || x.Written != written {
		return // it has ended, and its place may have another
	}
	if c.mux != nil {
		w.expireMuxExchange(e, x, x.conn, c, now, peerKnows)
		return
	}
	w.failed(x.conn, c, now, w.engine.config.TimedOut)
}
