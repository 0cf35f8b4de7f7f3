package engine

import (
	"time"

	"dyno/load/delivery"
	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// takeEvents takes in the bytes that have arrived for a subscriber.
func (w *worker) takeEvents(i int32, s *subscriber, p []byte, r clock.Reading) {
	now := r.Read
	r = r.After(s.written)
	if s.state == subStreaming {
		w.received(s, now) // be it a part of an event, or a comment that keeps the stream alive
	}
	for {
		n, e, err := s.stream.Next(p)
		if err != nil {
			w.subscriptionFailed(i, s, now, err)
			return
		}
		p = p[n:]
		switch e.Kind {
		case wire.Nothing:
			return
		case wire.Opened:
			w.streamOpened(i, s, r)
		case wire.Message:
			w.event(s, &e, r, r.More || len(p) > maxTrailer)
		case wire.Gap:
			w.gap(s)
		case wire.Exhausted:
			w.subscriptionEnded(i, s, now, nil)
			return
		}
	}
}

// streamOpened takes note of a subscription that the server has accepted.
func (w *worker) streamOpened(i int32, s *subscriber, r clock.Reading) {
	p, now := &w.subscribers, r.Read
	p.attempted(s)
	if s.known {
		p.streams.Reconnects++
	}
	s.delivery.Accepted(w.origin == 0, s.stream.Resumes()) // before the load has begun nothing can be missed
	s.known, s.first, s.failures = true, true, 0
	s.state, s.opened = subStreaming, now
	p.timers.Clear(i)
	w.setSlowRead(i, s, now)
	p.open++
	p.streams.Peak = max(p.streams.Peak, p.open)
	if s.slow {
		p.streams.Slow.Opened++
		return
	}
	p.streams.Opened++
	w.rec.Time(record.Opening, r.Arrived-s.began)
}

// received notes that something reached a subscriber.
func (w *worker) received(s *subscriber, now int64) {
	if s.slow {
		return
	}
	w.subscribers.silences.Answered(now, &w.rec.Window, true)
	if w.rec.Window.Has(now) {
		s.served, s.last = true, now
	}
}

// maxTrailer is how much of an event may follow it: the end of its chunk.
const maxTrailer = len("\r\n")

// event takes note of an event, which may have been followed by more in its reading.
func (w *worker) event(s *subscriber, e *wire.Event, r clock.Reading, followed bool) {
	p, now := &w.subscribers, r.Arrived
	if s.slow {
		p.streams.Slow.Delivered++
		if e.Stamped {
			s.delivery.See(&p.slow, e.Source, e.Sequence)
		}
		return
	}
	measured := w.rec.Window.Has(now)
	w.received(s, now)
	p.streams.AllDelivered++
	w.rec.Delivered()
	if s.first {
		s.first = false
		w.rec.Time(record.FirstEvent, now-s.written)
	}
	if measured {
		p.streams.Delivered++
		p.streams.DeliveredBytes += uint64(e.Bytes) //nolint:gosec // not negative
		w.rec.Ended(r)
		if followed && r.Stamp == clock.Stamped {
			w.rec.Shared(max(0, r.Arrived-max(s.emptied, s.written)))
		}
		if s.latest != 0 {
			// One whose stamp was refused ended when it was read: the next may have
			// arrived before that.
			w.rec.Time(record.EventGap, max(0, now-s.latest))
			p.longestGap = max(p.longestGap, now-s.latest)
		}
	}
	s.latest = max(s.latest, now)
	if !e.Stamped {
		p.streams.Unstamped++
		return
	}
	if measured {
		w.rec.Time(record.Delivery, now-(e.Time-w.engine.epoch))
	}
	s.delivery.See(p.ledger, e.Source, e.Sequence)
}

// gap takes note of an event that says that others are missing.
func (w *worker) gap(s *subscriber) {
	if s.slow {
		w.subscribers.streams.Slow.Gaps++
	} else {
		w.subscribers.streams.Gaps++
	}
	s.delivery.Gap()
}

// begin sets the beginning of the load. All subscribers are to receive something from then
// on.
func (p *subscriberPool) begin(origin int64) {
	p.silences.Begin(origin)
	p.silences.Due(origin)
}

// windowEnded notes what the subscribers have when the window ends.
func (p *subscriberPool) windowEnded(window *record.Window) {
	if len(p.all) == 0 {
		return
	}
	p.silences.Note(window.End, window)
	for i := range p.all {
		if s := &p.all[i]; !s.slow && s.state != subStreaming && s.state != subClosed && (s.failures > 0 || !s.known) {
			p.streams.Away++
		}
	}
}

// addSubscribed adds the time for which a subscriber had a stream, as far as it lies in the
// window.
func (p *subscriberPool) addSubscribed(s *subscriber, until int64, window *record.Window) {
	if !s.slow {
		p.streams.Subscribed += time.Duration(max(0, min(until, window.End)-max(s.opened, window.Start)))
	}
}

// A subscriber receives nothing any more when the window ends if that has lasted for
// quietFloor, or for quietFactor times the longest time between two events of any subscriber
// of the worker, if that is more.
const (
	quietFloor  = int64(250 * time.Millisecond)
	quietFactor = 3
)

// countServed sums up, at the end, which subscribers were served.
func (p *subscriberPool) countServed(window *record.Window) {
	to := window.End
	for i := range p.all {
		s := &p.all[i]
		if s.state == subStreaming {
			p.addSubscribed(s, to, window)
		}
		switch {
		case s.slow:
		case s.served:
			p.streams.Served++
			if s.state == subStreaming && p.longestGap > 0 && to-s.last > max(quietFloor, quietFactor*p.longestGap) {
				p.streams.Quiet++
			}
		case s.known:
			p.streams.Silent++
		}
	}
}

// anyConnected tells whether a subscriber has a connection or has had a stream.
func (p *subscriberPool) anyConnected() bool {
	for i := range p.all {
		if s := &p.all[i]; s.fd != none || s.known {
			return true
		}
	}
	return false
}

// sources returns the sources of a worker's publishers: those that have published, or
// also those that may.
func (w *worker) sources(planned bool) (sources []wire.Source) {
	for i := range w.conns {
		p, ok := w.conns[i].client.(wire.Stamper)
		if !ok {
			continue
		}
		for s := range p.Sources {
			if planned || s.Published > 0 {
				sources = append(sources, s)
			}
		}
	}
	return sources
}

// post tells all workers what this one has published. It has finished.
func (w *worker) post() {
	e := w.engine
	if p := &w.subscribers; !p.posted && e.config.Subscribers != nil {
		p.posted = true
		if left := e.published.Add(w.sources(false)); left == e.others() {
			close(e.finished)
		}
	}
}

// allArrived tells, once the worker's requests have ended, whether its subscribers have
// all that is due to them, as far as they are connected.
func (w *worker) allArrived(now int64) bool {
	p := &w.subscribers
	w.post()
	if now < p.look {
		return false
	}
	p.look = now + lookAgain
	published, complete := w.engine.published.All()
	if !complete {
		return false
	}
	for i := range p.all {
		if s := &p.all[i]; s.state == subStreaming && !s.slow && s.delivery.Awaits(published, s.stream) {
			return false
		}
	}
	return true
}

// sumStreams closes the accounts of all subscribers. All workers have ended.
func (e *engine) sumStreams(r *record.Streams) {
	published, _ := e.published.All()
	var ledgers, slow []*delivery.Ledger
	r.Failures = map[string]uint64{}
	for _, w := range e.workers {
		p := &w.subscribers
		if len(p.all) == 0 {
			continue
		}
		for i := range p.all {
			switch s := &p.all[i]; {
			case s.slow: // what it has not read may be on its way
				s.delivery.Close(&p.slow, nil, nil, true)
			default:
				s.delivery.Close(p.ledger, published, s.stream, s.state == subStreaming && !e.stopped())
			}
		}
		ledgers, slow = append(ledgers, p.ledger), append(slow, &p.slow)
		r.Add(&p.streams)
		p.failures.AddTo(r.Failures)
	}
	r.Requested, r.Slow.Requested = e.config.Subscribers.Count, e.config.Subscribers.Slow
	r.Account = delivery.Sum(ledgers, published)
	missed := delivery.Sum(slow, nil)
	r.Slow.Announced, r.Slow.Missing = missed.Announced, missed.Lost
}
