package engine

import (
	"time"

	"dyno/load/engine/record"
	"dyno/load/engine/thread"
	"dyno/load/wire"
)

// phases are a load's phases on the engine's clock. When the window begins and ends, the recorder
// knows, which needs it for each request.
type phases struct {
	origin, drainEnd int64
	remaining        uint64 // requests of the window still to begin
	began            int64  // when the worker found that the load had begun; 0: not yet
	concluded        int64  // when the worker was done
	marks            [2]mark
	marked           int
	spun             int64 // how long the worker has polled before a start
}

// A mark is what a worker notes at the window's start and end.
type mark struct {
	thread, process record.CPUTime
	spun            int64
}

// start sets the phases. The clock of every worker has the same zero.
func (w *worker) start(origin int64) {
	c := w.config
	w.phases.origin = origin
	windowStart, windowEnd := origin+int64(c.Warmup), int64(never)
	w.phases.drainEnd = never
	if c.Window > 0 {
		windowEnd = windowStart + int64(c.Window)
		w.phases.drainEnd = windowEnd + int64(c.Finish) + int64(c.Drain)
	}
	w.rec.Begin(origin, windowStart, windowEnd)
	w.subscribers.Begin(origin, w.engine.epoch)
	if w.arrivals.cursor == nil {
		for i := range w.connectedFirst() {
			if w.conns.all[i].state != established {
				w.conns.tally.Unopened++
			}
		}
	}
	w.choice.cpuAtStart = thread.CPU().Total()
	w.choice.decision = origin + int64(c.Warmup)*3/4
	if c.Warmup == 0 {
		w.choice.decision += trialRun
	}
	if w.arrivals.cursor != nil {
		w.arrivals.advance(w.phases.origin)
		return
	}
	w.arrivals.due = never
	if w.users != nil {
		w.users.Start(origin)
		return
	}
	for e := range w.exchanges.all {
		w.pause(int32(e), &w.exchanges.all[e], origin)
	}
}

// next returns when the load begins, and after that when the window's next edge is.
func (p *phases) next(window *record.Window) int64 {
	switch p.marked {
	case 0:
		if p.began == 0 {
			return p.origin
		}
		return window.Start
	case 1:
		return window.End
	}
	return never
}

func (w *worker) mark(now int64) {
	if w.phases.began == 0 {
		if w.phases.began = now; now < w.rec.Window.Start {
			return
		}
	}
	switch {
	case w.phases.marked == 0 && now >= w.rec.Window.Start:
		w.carry()
	case w.phases.marked == 1:
		w.rec.EndWindow()
		w.subscribers.EndWindow()
	}
	w.phases.marks[w.phases.marked] = mark{thread: thread.CPU(), process: thread.ProcessCPU(), spun: w.phases.spun}
	w.phases.marked++
}

// closeEarly ends the window before its time: after an interruption nothing more is awaited; when the
// number of requests is reached, or all users have ended, the window is as long as they took. A
// schedule whose last arrival is over, and a population whose last user has left, go on until the window's end: that no
// request comes is a part of the load, as in a stage of 0/s.
func (w *worker) closeEarly(now int64) {
	// Without a length of the window, nothing else could end it.
	over := w.arrivals.cursor != nil && w.config.Window == 0
	if w.users != nil {
		over = (over || w.arrivals.cursor == nil && w.presence == nil || w.users.Dry()) && !w.users.Active()
	}
	exhausted := w.phases.remaining == 0 || over && w.arrivals.due == never || w.users != nil && w.users.Finished()
	switch {
	case w.engine.stop.Load():
		w.rec.Window.End, w.phases.drainEnd = min(w.rec.Window.End, now), now
	case exhausted && !w.exchanges.unanswered() && now < w.rec.Window.End && w.config.Subscribers == nil:
		w.rec.Window.End = max(w.rec.Finished(), w.rec.Window.Start)
		w.phases.drainEnd = w.rec.Window.End
	}
}

// ended tells whether there is nothing left to do, or no time left to do it.
func (w *worker) ended(now int64) bool {
	finishing := w.config.Finish > 0 && w.users != nil && w.users.Iterating()
	if now < w.rec.Window.End || (w.exchanges.unanswered() || finishing) && now < w.phases.drainEnd {
		return false
	}
	if w.config.Subscribers == nil || now >= w.phases.drainEnd {
		return true
	}
	w.post() // its requests have ended
	return w.subscribers.AllArrived(now)
}

// hangTime is for how long a request must have waited that the connection may be said to
// hang. Whether that is long for the target, its other answers tell.
const hangTime = time.Second

// abandonWaiting accounts for requests under way at the end: sent requests are unfinished, waiting ones were
// never sent.
func (w *worker) abandonWaiting() {
	now := w.sockets.Clock.Now()
	for e := w.exchanges.inFlight.Head(); e != none; {
		x := &w.exchanges.all[e]
		c := &w.conns.all[x.conn]
		next := w.exchanges.inFlight.After(e)
		if waited := now - x.Written; x.Part != record.Outside && waited >= int64(hangTime) {
			if !c.hung { // the one that has waited longest comes first
				c.hung = true
				w.conns.tally.Hung++
				w.conns.tally.HungFor += time.Duration(waited)
			}
			if w.arrivals.cursor == nil {
				w.conns.tally.Omitted += time.Duration(max(0, min(now, w.rec.Window.End)-max(x.Written, w.rec.Window.Start)))
			}
		}
		w.fail(x, c, now, errUnfinished)
		e = next
	}
	for e := range w.exchanges.all {
		x := &w.exchanges.all[e]
		c := &w.conns.all[x.conn]
		switch {
		case x.state != awaiting:
		case x.wasSent():
			w.fail(x, c, now, errUnfinished)
		default:
			w.failUnsent(x, c, now, errUnconnected)
		}
	}
	for w.exchanges.waiting.Len() > 0 {
		switch r := w.exchanges.waiting.Pop(); {
		case r.resends > 0:
			x := exchange{Request: record.Request{Ready: r.written, Written: r.written, Status: wire.NoStatus}}
			x.assign(r)
			w.fail(&x, &connection{}, now, errUnfinished) // it has no connection
		case w.users == nil:
			w.rec.Drop(r.part, w.conns.starved)
		case w.arrivals.cursor == nil:
			w.failWaiting(r, now, errUnconnected)
		default:
			w.dropRequest(r)
		}
	}
	w.post()
	w.conns.countServed()
	w.subscribers.End()
	w.phases.concluded = now
	w.rec.End(now, w.connections())
}
