package engine

import (
	"slices"

	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
	"dyno/load/engine/record"
	"dyno/load/wire"
	"dyno/load/wire/tlslayer"
)

// TLS is a layer of bytes between a socket and its codec: see package tlslayer. A handshake runs on
// the worker's thread, within the time for connecting. The codec is chosen when it is complete
// (ALPN). Sealed bytes that the socket does not take wait in the connection, and the mux is asked
// for no more until they are gone. A response ends by the stamp of the read that completed its
// last record.

// muxName is how the protocol whose connections carry many exchanges is called in TLS
// (ALPN, RFC 9113, section 3.3).
const muxName = "h2"

var (
	errHandshakeTimeout = &wire.Error{Kind: wire.TLS, Text: "no complete handshake in time"}
	errMuxTimeout       = &wire.Error{Kind: wire.Connect, Text: "the peer takes no request on the new connection"}
	errNoMux            = &wire.Error{Kind: wire.TLS, Text: "the server does not agree to speak HTTP/2 (ALPN h2)"}
)

// startHandshake begins the TLS handshake on a connection that was opened.
func (w *worker) startHandshake(i int32, c *connection, now int64) {
	c.state, c.handshakeBegan = handshaking, now
	out, err := c.tls.Start(w.sealed[:0])
	w.sealed = out[:0]
	if err != nil {
		w.openFailed(i, c, w.clock.Now(), err)
		return
	}
	if err := w.writeSealed(c, out); err != nil {
		w.writeFailed(i, c, err)
	}
}

// writeSealed writes sealed bytes. What the socket does not take goes when it has room again,
// before all that comes later.
func (w *worker) writeSealed(c *connection, p []byte) error {
	if len(c.pending) == 0 {
		rest, errno := poll.WriteAll(c.fd, p)
		if errno != 0 {
			return w.errnoError(kindOf(errno, c.cutKind()), errno)
		}
		p = rest
	}
	if len(p) > 0 {
		c.kept = append(append(c.kept[:0], c.pending...), p...)
		c.pending = c.kept
	}
	return nil
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
	sealed, err := c.tls.Seal(w.sealed[:0], w.request(x, c))
	w.sealed = sealed[:0]
	x.Written = w.clock.Now()
	w.trackInFlight(e, x)
	if w.messages != nil {
		w.startMessages(e, x.Written)
	}
	if err != nil {
		w.failed(i, c, x.Written, err)
		return
	}
	if err := w.writeSealed(c, sealed); err != nil {
		w.writeFailed(i, c, err)
	}
}

// unseal takes in the bytes of one reading on a connection with TLS.
func (w *worker) unseal(i int32, c *connection, p []byte, r clock.Reading) {
	generation := c.generation
	data, err := c.tls.Open(p)
	if c.state == handshaking {
		data = slices.Clone(data) // there is some if the server speaks first
		failed := w.writePendingTLS(c)
		switch {
		case err != nil:
			w.openFailed(i, c, r.Read, err)
			return
		case failed != nil:
			w.writeFailed(i, c, failed) // the server's reason may follow
			return
		case c.tls.State() == tlslayer.Handshaking:
			return
		}
		w.handshakeCompleted(i, c, r)
	}
	c.hungUp = c.hungUp || c.tls.State() == tlslayer.Ended // after the data: no request is to follow it
	if c.generation == generation && len(data) > 0 {
		w.consume(i, c, data, r)
	}
	if c.generation != generation {
		return
	}
	if failed := w.writePendingTLS(c); failed != nil {
		w.writeFailed(i, c, failed)
	}
	switch {
	case err != nil:
		w.cut(i, c, r.Read, err)
	case c.tls.State() == tlslayer.Ended:
		w.peerEnded(i, c, r.Read)
	}
}

// writePendingTLS writes what TLS has to say by itself. While the socket takes nothing, the
// layer keeps it, and bounds how much that is.
func (w *worker) writePendingTLS(c *connection) error {
	if !c.tls.Pending() || len(c.pending) > 0 {
		return nil
	}
	out := c.tls.Flush(w.sealed[:0])
	w.sealed = out[:0]
	return w.writeSealed(c, out)
}

// handshakeCompleted goes on with a connection whose handshake is complete.
func (w *worker) handshakeCompleted(i int32, c *connection, r clock.Reading) {
	r = r.After(c.handshakeBegan)
	w.rec.Time(record.HandshakeTime, r.Arrived-c.handshakeBegan)
	info := c.tls.Info()
	w.handshakes.Note(info)
	if err := w.chooseCodec(i, c, info.ALPN); err != nil {
		w.openFailed(i, c, r.Read, err)
		return
	}
	w.startCodec(i, c, r.Read)
}

// chooseCodec gives a connection the codec for the protocol that was agreed on.
func (w *worker) chooseCodec(i int32, c *connection, alpn string) error {
	switch {
	case w.newClient == nil || w.newMux == nil:
		if c.mux != nil && alpn != muxName {
			return errNoMux
		}
	case alpn != muxName:
		c.mux = nil
		if c.client == nil {
			c.client = w.newClient()
		}
	case c.mux == nil:
		c.mux = w.newMux()
		w.gatherSpare(i, c)
	}
	return nil
}

// gatherSpare makes spare those of a pooled connection's exchanges that nothing uses. A request
// that was redirected may have ended without a mux, where none are spare.
func (w *worker) gatherSpare(i int32, c *connection) {
	if !w.pooled {
		return
	}
	c.spare = none
	for e := i * w.streams; e < (i+1)*w.streams; e++ {
		if x := &w.exchanges[e]; x.state == parked {
			x.next, c.spare = c.spare, e
		}
	}
}

// closeNotify tells the peer in TLS that nothing more will come, unless bytes are pending that
// the socket has not taken.
func (w *worker) closeNotify(fd int32, secure *tlslayer.Conn, pending []byte) {
	if secure == nil || len(pending) > 0 {
		return
	}
	out := secure.CloseNotify(w.sealed[:0])
	w.sealed = out[:0]
	if len(out) > 0 {
		_, _ = poll.Write(fd, out) // the connection is closed in any case
	}
}
