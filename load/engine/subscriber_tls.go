package engine

import (
	"slices"

	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// Subscribers over TLS. The layer lies between a subscriber's socket and its stream. An event
// has arrived with the segment that completed its last record: nobody can read it sooner.
// Slow subscribers are slow at the socket, where the peer feels it. They take a record at once,
// as soon as they have read all of it.

// startSubscriberHandshake begins the TLS handshake on a subscriber's connection that was
// opened. It has what is left of the time for connecting.
func (w *worker) startSubscriberHandshake(i int32, s *subscriber, now int64) {
	s.state, s.written = subHandshaking, now
	out, err := s.tls.Start(w.sealed[:0])
	w.sealed = out[:0]
	if err != nil {
		w.subscriptionFailed(i, s, w.clock.Now(), err)
		return
	}
	if err := w.writeSubscriberSealed(s, out); err != nil {
		s.writeFailed(err)
	}
}

// sendSubscription writes a subscription's request in TLS, after what is left of the
// handshake.
func (w *worker) sendSubscription(i int32, s *subscriber) {
	sealed, err := s.tls.Seal(w.sealed[:0], s.stream.Request())
	w.sealed = sealed[:0]
	s.written = w.clock.Now()
	if err != nil {
		w.subscriptionFailed(i, s, w.clock.Now(), err)
		return
	}
	if err := w.writeSubscriberSealed(s, sealed); err != nil {
		s.writeFailed(err)
	}
}

// writeSubscriberSealed writes sealed bytes. What the socket does not take goes when it has
// room again.
func (w *worker) writeSubscriberSealed(s *subscriber, p []byte) error {
	if len(s.pending) == 0 {
		rest, errno := poll.WriteAll(s.fd, p)
		if errno != 0 {
			return w.errnoError(kindOf(errno, s.cutKind()), errno)
		}
		p = rest
	}
	if len(p) > 0 {
		s.pending = append(s.pending, p...)
	}
	return nil
}

// flushSubscriberTLS writes what TLS has to say by itself. While the socket takes nothing, the
// layer keeps it, and bounds how much that is.
func (w *worker) flushSubscriberTLS(s *subscriber) error {
	if !s.tls.Pending() || len(s.pending) > 0 {
		return nil
	}
	out := s.tls.Flush(w.sealed[:0])
	w.sealed = out[:0]
	return w.writeSubscriberSealed(s, out)
}

// unsealEvents takes in the bytes of one reading on a subscriber's connection with TLS.
func (w *worker) unsealEvents(i int32, s *subscriber, p []byte, r clock.Reading) {
	generation := s.generation
	data, err := s.tls.Open(p)
	if s.state == subHandshaking {
		data = slices.Clone(data) // there is some if the server speaks first
		failed := w.flushSubscriberTLS(s)
		switch {
		case err != nil:
			w.subscriptionFailed(i, s, r.Read, err)
			return
		case failed != nil:
			s.writeFailed(failed)
			return
		case s.tls.State() == tlslayer.Handshaking:
			return
		}
		in := r.After(s.written)
		w.rec.Time(record.HandshakeTime, in.Arrived-s.written)
		w.handshakes.Note(s.tls.Info())
		w.requestStream(i, s, r.Read)
	}
	if s.generation == generation && len(data) > 0 {
		r.More = s.tls.Partial()
		w.takeEvents(i, s, data, r)
	}
	if s.generation != generation {
		return
	}
	if failed := w.flushSubscriberTLS(s); failed != nil {
		s.writeFailed(failed)
	}
	switch {
	case wire.KindOf(err) == wire.Reset:
		w.subscriptionEnded(i, s, r.Read, err)
	case err != nil:
		w.subscriptionFailed(i, s, r.Read, err)
	case s.tls.State() == tlslayer.Ended:
		w.subscriptionEnded(i, s, r.Read, s.stream.End())
	}
}

// ended is why a stream is not complete whose connection the peer has closed; nil if it is.
func (s *subscriber) ended() error {
	switch {
	case s.tls == nil:
		return s.stream.End()
	case s.state == subHandshaking:
		return s.tls.End()
	}
	if err := s.stream.End(); err != nil {
		return err
	}
	return s.tls.End() // without its own end, the stream may be cut short
}
