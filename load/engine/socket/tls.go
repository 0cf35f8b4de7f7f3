package socket

import (
	"dyno/load/engine/poll"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// TLS is a layer of bytes between a socket and its codec: see package tlslayer. A handshake runs on the
// worker's thread. Sealed bytes that the socket does not take are pending, before all that comes later.
// Further output of TLS waits in its layer meanwhile, which bounds it.

// ErrHandshakeTimeout is the failure of a connection whose handshake takes too long.
var ErrHandshakeTimeout = &wire.Error{Kind: wire.TLS, Text: "no complete handshake in time"}

// Secure tells whether the socket has TLS.
func (s *Socket) Secure() bool { return s.tls != nil }

// TLS returns the state of the TLS of a socket that has some.
func (s *Socket) TLS() tlslayer.State { return s.tls.State() }

// Agreed returns what the handshake agreed on, which is complete.
func (s *Socket) Agreed() tlslayer.Info { return s.tls.Info() }

// Partial tells whether the beginning of a record has arrived.
func (s *Socket) Partial() bool { return s.tls.Partial() }

// EndTLS tells that the peer has closed the connection. It returns why that comes too early, or nil.
func (s *Socket) EndTLS() error { return s.tls.End() }

// StartTLS begins the handshake. If it cannot begin, started is false; an error then means that, and
// otherwise that the write failed.
func (s *Socket) StartTLS(t *Thread) (started bool, err error) {
	out, err := s.tls.Start(t.sealed[:0])
	t.sealed = out[:0]
	if err != nil {
		return false, err
	}
	return true, s.write(t, out, wire.TLS)
}

// Seal returns bytes as TLS sends them. They are valid until the thread seals again.
func (s *Socket) Seal(t *Thread, p []byte) ([]byte, error) {
	sealed, err := s.tls.Seal(t.sealed[:0], p)
	t.sealed = sealed[:0]
	return sealed, err
}

// WriteSealed writes what Seal returned.
func (s *Socket) WriteSealed(t *Thread, sealed []byte) error { return s.write(t, sealed, wire.Reset) }

// Unseal returns the data in bytes that have arrived. They are valid until the next call.
func (s *Socket) Unseal(p []byte) ([]byte, error) { return s.tls.Open(p) }

// FlushTLS writes what TLS has to say by itself, if nothing is pending. Errors have the given kind.
func (s *Socket) FlushTLS(t *Thread, kind wire.Kind) error {
	if s.tls == nil || len(s.pending) > 0 || !s.tls.Pending() {
		return nil
	}
	out := s.tls.Flush(t.sealed[:0])
	t.sealed = out[:0]
	return s.write(t, out, kind)
}

// write writes sealed bytes. The rest is pending.
func (s *Socket) write(t *Thread, p []byte, kind wire.Kind) error {
	if len(s.pending) == 0 {
		rest, errno := poll.WriteAll(s.FD, p)
		if errno != 0 {
			return t.PeerError(kind, errno)
		}
		if p = rest; len(p) > 0 {
			t.Poller.AwaitOut(s.FD)
		}
	}
	if len(p) > 0 {
		s.tls.kept = append(append(s.tls.kept[:0], s.pending...), p...)
		s.pending = s.tls.kept
	}
	return nil
}

// CloseNotify tells the peer in TLS that nothing more will come, unless something is pending.
func (s *Socket) CloseNotify(t *Thread) {
	if s.tls == nil || len(s.pending) > 0 {
		return
	}
	out := s.tls.CloseNotify(t.sealed[:0])
	t.sealed = out[:0]
	if len(out) > 0 {
		_, _ = poll.Write(s.FD, out) // the connection is closed in any case
	}
}
