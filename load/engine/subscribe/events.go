package subscribe

import (
	"time"

	"dyno/internal/sums"
	"dyno/load/delivery"
	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/engine/socket"
	"dyno/load/wire"
)

// takeEvents takes in the bytes that have arrived for a subscriber.
func (p *Pool) takeEvents(i int32, s *subscriber, b []byte, r clock.Reading) {
	now := r.Read
	r = r.After(s.written)
	if s.state == subStreaming {
		p.received(s, now) // be it a part of an event, or a comment that keeps the stream alive
	}
	for {
		n, e, err := s.stream.Next(b)
		if err != nil {
			p.talk(s)
			p.subscriptionFailed(i, s, now, err)
			return
		}
		b = b[n:]
		switch e.Kind {
		case wire.Nothing:
			p.talk(s)
			return
		case wire.Opened:
			p.streamOpened(i, s, r)
		case wire.Message:
			p.event(s, &e, r, r.More || len(b) > maxTrailer)
		case wire.Gap:
			p.gap(s)
		case wire.Exhausted:
			p.talk(s)
			p.subscriptionEnded(i, s, now, nil)
			return
		}
	}
}

// talk writes what a stream has to say by itself. If that fails, it marks the subscriber broken; the next reading says
// more.
func (p *Pool) talk(s *subscriber) {
	t, ok := s.stream.(wire.Talker)
	if !ok || s.Lost != nil {
		return
	}
	if _, err := s.WriteOutput(p.sockets, t); err != nil {
		s.Break(err)
	}
}

// streamOpened takes note of a subscription that the server has accepted.
func (p *Pool) streamOpened(i int32, s *subscriber, r clock.Reading) {
	now := r.Read
	p.attempted(s)
	if s.hadStream {
		p.streams.Reconnects++
	}
	s.delivery.Accepted(!p.loading, s.stream.Resumes()) // before the load has begun nothing can be missed
	s.hadStream, s.first, s.failures = true, true, 0
	s.state, s.opened = subStreaming, now
	p.timers.Clear(i)
	p.setSlowRead(i, s, now)
	p.open++
	p.addresses[s.To].Opened++
	p.streams.Peak = max(p.streams.Peak, p.open)
	if s.slow {
		p.streams.Slow.Opened++
		return
	}
	p.streams.Opened++
	p.rec.Time(record.Opening, r.Arrived-s.began)
}

// received notes that something reached a subscriber.
func (p *Pool) received(s *subscriber, now int64) {
	if s.slow {
		return
	}
	p.silences.Answered(now, &p.rec.Window, true)
	if p.rec.Window.Has(now) {
		s.served, s.last = true, now
	}
}

// maxTrailer is how much of an event may follow it: the end of its chunk.
const maxTrailer = len("\r\n")

// event takes note of an event, which may have been followed by more in its reading.
func (p *Pool) event(s *subscriber, e *wire.Event, r clock.Reading, followed bool) {
	now := r.Arrived
	if s.slow {
		p.streams.Slow.Delivered++
		if e.Stamped {
			s.delivery.See(&p.slow, e.Source, e.Sequence)
		}
		return
	}
	measured := p.rec.Window.Has(now)
	p.received(s, now)
	p.streams.AllDelivered++
	p.rec.Delivered()
	if s.first {
		s.first = false
		p.rec.Time(record.FirstEvent, now-s.written)
	}
	if measured {
		p.streams.Delivered++
		p.streams.DeliveredBytes += uint64(e.Bytes) //nolint:gosec // not negative
		p.rec.Ended(r)
		if followed && r.Stamp == clock.Stamped {
			p.rec.Shared(max(0, r.Arrived-max(s.emptied, s.written)))
		}
		if s.latest != 0 {
			// One whose stamp was refused ended when it was read: the next may have
			// arrived before that.
			p.rec.Time(record.EventGap, max(0, now-s.latest))
			p.longestGap = max(p.longestGap, now-s.latest)
		}
	}
	s.latest = max(s.latest, now)
	if !e.Stamped {
		p.streams.Unstamped++
		return
	}
	if measured {
		p.rec.Time(record.Delivery, now-(e.Time-p.epoch))
	}
	s.delivery.See(p.ledger, e.Source, e.Sequence)
}

// gap takes note of an event that says that others are missing.
func (p *Pool) gap(s *subscriber) {
	if s.slow {
		p.streams.Slow.Gaps++
	} else {
		p.streams.Gaps++
	}
	s.delivery.Gap()
}

// Begin sets the beginning of the load, and the clock's zero in Unix time, by which events are stamped. All
// subscribers are to receive something from then on.
func (p *Pool) Begin(origin, epoch int64) {
	p.epoch = epoch
	p.loading, p.streams.Untried = true, p.untried
	p.silences.Begin(origin)
	p.silences.Due(origin)
}

// EndWindow notes what the subscribers have when the window ends.
func (p *Pool) EndWindow() {
	window := &p.rec.Window
	if len(p.all) == 0 {
		return
	}
	p.silences.Note(window.End, window)
	for i := range p.all {
		if s := &p.all[i]; !s.slow && s.state != subStreaming && s.state != subClosed && (s.failures > 0 || !s.hadStream) {
			p.streams.Away++
		}
	}
}

// addSubscribed adds the time for which a subscriber had a stream, as far as it lies in the
// window.
func (p *Pool) addSubscribed(s *subscriber, until int64, window *record.Window) {
	if !s.slow {
		p.streams.Subscribed += time.Duration(max(0, min(until, window.End)-max(s.opened, window.Start)))
	}
}

// A subscriber is silent at the end of the window if no event came for quietFloor. If it is more, the
// bound is quietFactor times the longest gap between two events of the worker's subscribers.
const (
	quietFloor  = int64(250 * time.Millisecond)
	quietFactor = 3
)

// End sums up, at the end, which subscribers were served.
func (p *Pool) End() {
	window := &p.rec.Window
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
		case s.hadStream:
			p.streams.Silent++
		}
	}
}

// AnyConnected tells whether a subscriber of any pool has a connection or has had a stream. The
// workers must be waiting.
func AnyConnected(pools []*Pool) bool {
	for _, p := range pools {
		for i := range p.all {
			if s := &p.all[i]; s.FD != socket.None || s.hadStream {
				return true
			}
		}
	}
	return false
}

// AllArrived tells, after the end of the worker's requests, whether its connected subscribers have
// everything that is due to them.
func (p *Pool) AllArrived(now int64) bool {
	if now < p.look {
		return false
	}
	p.look = now + lookAgain
	published, complete := p.publications.published.All()
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

// Sum closes the accounts of the subscribers of all workers, which have ended, and returns what
// became of them. A load that was interrupted did not wait for what was due.
func Sum(c *Config, pools []*Pool, published *Publications, interrupted bool) *record.Streams {
	all, _ := published.published.All()
	var ledgers, slow []*delivery.Ledger
	r := &record.Streams{Failures: map[string]uint64{}}
	for _, p := range pools {
		if len(p.all) == 0 {
			continue
		}
		for i := range p.all {
			switch s := &p.all[i]; {
			case s.slow: // what it has not read may be on its way
				s.delivery.Close(&p.slow, nil, nil, true)
			default:
				s.delivery.Close(p.ledger, all, s.stream, s.state == subStreaming && !interrupted)
			}
		}
		ledgers, slow = append(ledgers, p.ledger), append(slow, &p.slow)
		sums.Add(r, &p.streams)
		p.failures.AddTo(r.Failures)
	}
	r.Requested, r.Slow.Requested = c.Count, c.Slow
	r.Account = delivery.Sum(ledgers, all)
	missed := delivery.Sum(slow, nil)
	r.Slow.Announced, r.Slow.Missing = missed.Announced, missed.Lost
	return r
}

// Silences returns when nothing reached any of the subscribers.
func (p *Pool) Silences() *record.Silences { return &p.silences }

// Handshakes returns what became of their TLS handshakes.
func (p *Pool) Handshakes() *record.Handshakes { return &p.handshakes }

// Close closes their connections.
func (p *Pool) Close() {
	for i := range p.all {
		if s := &p.all[i]; s.FD != socket.None {
			p.hangUp(s)
		}
	}
}
