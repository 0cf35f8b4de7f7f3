package engine

import (
	"dyno/load/engine/record"
	"dyno/load/pace"
)

// arrivals are the arrivals in an open loop. Without a schedule none is ever due.
type arrivals struct {
	cursor *pace.Cursor // nil without a schedule
	due    int64        // the next intended start; never when there is none
}

// advance reads the next intended start from the schedule, which begins at a time.
func (a *arrivals) advance(origin int64) {
	_, at, ok := a.cursor.Next()
	a.due = never
	if ok {
		a.due = origin + int64(at)
	}
}

// startDue starts the requests of the open loop that are due.
func (w *worker) startDue(now int64) {
	for now >= w.arrivals.due {
		intended := w.arrivals.due
		if intended >= w.rec.Window.End || (w.rec.Window.PartOf(intended) == record.Inside && w.phases.remaining == 0) {
			w.arrivals.due = never
			return
		}
		if w.users != nil {
			w.arrivals.advance(w.phases.origin)
			w.startIteration(intended)
			now = w.sockets.Clock.Now()
			continue
		}
		r := waiter{intended: intended, part: w.schedule(intended)}
		w.arrivals.advance(w.phases.origin)
		if len(w.conns.idles) > 0 {
			i := w.nextIdle()
			// The connection was at hand before the request was due.
			w.send(i, &w.conns.all[i], r, intended)
			now = w.sockets.Clock.Now()
			continue
		}
		if !w.exchanges.waiting.Push(r) {
			w.rec.Drop(r.part, w.conns.starved)
			continue
		}
		w.openOneMore()
	}
}
