package subscribe

import (
	"slices"

	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// Subscribers over TLS. The layer lies between a subscriber's socket and its stream. An event has
// arrived with the segment that completed its last record: it cannot be read sooner. Slow subscribers
// are slow at the socket, where the peer feels it. They take a record at once, as soon as they have
// read all of it.

// startHandshake begins the TLS handshake on a subscriber's connection that was
// opened. It has what is left of the time for connecting.
func (p *Pool) startHandshake(i int32, s *subscriber, now int64) {
	s.state, s.written = subHandshaking, now
	switch started, err := s.StartTLS(p.sockets); {
	case !started:
		p.subscriptionFailed(i, s, p.sockets.Clock.Now(), err)
	case err != nil:
		s.Break(err)
	}
}

// sendSubscription writes a subscription's request in TLS, after what is left of the
// handshake.
func (p *Pool) sendSubscription(i int32, s *subscriber, request []byte) {
	sealed, err := s.Seal(p.sockets, request)
	s.written = p.sockets.Clock.Now()
	if err != nil {
		p.subscriptionFailed(i, s, p.sockets.Clock.Now(), err)
		return
	}
	if err := s.WriteSealed(p.sockets, sealed); err != nil {
		s.Break(err)
	}
}

// unsealEvents takes in the bytes of one reading on a subscriber's connection with TLS.
func (p *Pool) unsealEvents(i int32, s *subscriber, b []byte, r clock.Reading) {
	generation := s.Generation
	data, err := s.Unseal(b)
	if s.state == subHandshaking {
		data = slices.Clone(data) // there is some if the server speaks first
		failed := s.FlushTLS(p.sockets, s.cutKind())
		switch {
		case err != nil:
			p.subscriptionFailed(i, s, r.Read, err)
			return
		case failed != nil:
			s.Break(failed)
			return
		case s.TLS() == tlslayer.Handshaking:
			return
		}
		in := r.After(s.written)
		p.rec.Time(record.HandshakeTime, in.Arrived-s.written)
		p.handshakes.Note(s.Agreed())
		p.requestStream(i, s, r.Read)
	}
	if s.Generation == generation && len(data) > 0 {
		r.More = s.Partial()
		p.takeEvents(i, s, data, r)
	}
	if s.Generation != generation {
		return
	}
	if failed := s.FlushTLS(p.sockets, s.cutKind()); failed != nil {
		s.Break(failed)
	}
	switch {
	case wire.KindOf(err) == wire.Reset:
		p.subscriptionEnded(i, s, r.Read, err)
	case err != nil:
		p.subscriptionFailed(i, s, r.Read, err)
	case s.TLS() == tlslayer.Ended:
		p.subscriptionEnded(i, s, r.Read, s.stream.End())
	}
}

// ended is why a stream is not complete whose connection the peer has closed; nil if it is.
func (s *subscriber) ended() error {
	switch {
	case !s.Secure():
		return s.stream.End()
	case s.state == subHandshaking:
		return s.EndTLS()
	}
	if err := s.stream.End(); err != nil {
		return err
	}
	return s.EndTLS() // without its own end, the stream may be cut short
}
