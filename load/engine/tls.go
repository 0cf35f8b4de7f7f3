package engine

import (
	"slices"

	"dyno/load/engine/clock"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// A TLS handshake runs on the worker's thread, within the time for connecting. The codec is chosen
// when it is complete (ALPN). While sealed bytes are pending, the mux is asked for no more. A
// response ends by the stamp of the read that completed its last record.

var (
	errMuxTimeout = &wire.Error{Kind: wire.Connect, Text: "the peer takes no request on the new connection"}
	errNoMux      = &wire.Error{Kind: wire.TLS, Text: "the server does not agree to speak HTTP/2 (ALPN h2)"}
)

// startHandshake begins the TLS handshake on a connection that was opened.
func (w *worker) startHandshake(i int32, c *connection, now int64) {
	c.state, c.handshakeBegan = handshaking, now
	switch started, err := c.StartTLS(w.sockets); {
	case !started:
		w.openFailed(i, c, w.sockets.Clock.Now(), err)
	case err != nil:
		w.writeFailed(i, c, err)
	}
}

// cutKind is the kind of the error when the connection is cut.
func (c *connection) cutKind() wire.Kind {
	switch c.state {
	case tunnelling:
		return wire.Connect
	case handshaking:
		return wire.TLS
	}
	return wire.Reset
}

// sendSealed writes the request of an exchange whose connection carries one at a time.
func (w *worker) sendSealed(e int32, x *exchange, i int32, c *connection) {
	sealed, err := c.Seal(w.sockets, w.request(x, c))
	w.noteWritten(e, x, w.sockets.Clock.Now())
	if err != nil {
		w.failed(i, c, x.Written, err)
		return
	}
	if err := c.WriteSealed(w.sockets, sealed); err != nil {
		w.writeFailed(i, c, err)
	}
}

// unseal takes in the bytes of one reading on a connection with TLS.
func (w *worker) unseal(i int32, c *connection, p []byte, r clock.Reading) {
	generation := c.Generation
	data, err := c.Unseal(p)
	if c.state == handshaking {
		data = slices.Clone(data) // there is some if the server speaks first
		failed := c.FlushTLS(w.sockets, c.cutKind())
		switch {
		case err != nil:
			w.openFailed(i, c, r.Read, err)
			return
		case failed != nil:
			w.writeFailed(i, c, failed) // the server's reason may follow
			return
		case c.TLS() == tlslayer.Handshaking:
			return
		}
		w.handshakeCompleted(i, c, r)
	}
	c.HungUp = c.HungUp || c.TLS() == tlslayer.Ended // after the data: no request is to follow it
	if c.Generation == generation && len(data) > 0 {
		w.consume(i, c, data, r)
	}
	if c.Generation != generation {
		return
	}
	if failed := c.FlushTLS(w.sockets, c.cutKind()); failed != nil {
		w.writeFailed(i, c, failed)
	}
	switch {
	case err != nil:
		w.cut(i, c, r.Read, err)
	case c.TLS() == tlslayer.Ended:
		w.peerEnded(i, c, r.Read)
	}
}

// handshakeCompleted goes on with a connection whose handshake is complete.
func (w *worker) handshakeCompleted(i int32, c *connection, r clock.Reading) {
	r = r.After(c.handshakeBegan)
	w.rec.Time(record.HandshakeTime, r.Arrived-c.handshakeBegan)
	info := c.Agreed()
	w.conns.handshakes.Note(info)
	if err := w.chooseCodec(i, c, info.ALPN); err != nil {
		w.openFailed(i, c, r.Read, err)
		return
	}
	w.startCodec(i, c, r.Read)
}

// chooseCodec gives a connection the codec for the protocol that was agreed on.
func (w *worker) chooseCodec(i int32, c *connection, alpn string) error {
	switch {
	case w.conns.newClient == nil || w.conns.newMux == nil:
		if c.mux != nil && alpn != config.MuxName && slices.Contains(w.config.TLS.ALPN, config.MuxName) {
			return errNoMux
		}
	case alpn != config.MuxName:
		c.mux = nil
		if c.client == nil {
			c.client = w.conns.newClient()
		}
	case c.mux == nil:
		c.mux = w.conns.newMux()
		w.gatherSpare(i, c)
	}
	return nil
}

// gatherSpare collects the unused exchanges of a pooled connection. A request that was redirected may
// have ended without a mux, where none are spare.
func (w *worker) gatherSpare(i int32, c *connection) {
	if !w.pooled {
		return
	}
	c.spare = none
	for e := i * w.conns.streams; e < (i+1)*w.conns.streams; e++ {
		if x := &w.exchanges.all[e]; x.state == parked {
			x.next, c.spare = c.spare, e
		}
	}
}
