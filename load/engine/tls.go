package engine

import (
	"cmp"
	"slices"

	"dyno/load/engine/clock"
	"dyno/load/engine/poll"
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

// Handshakes counts TLS handshakes from the beginning to the end, warm-up included.
type Handshakes struct {
	Completed uint64
	Resumed   uint64 // of Completed: they resumed a session
	Retried   uint64 // of Completed: the server asked for another group first, which takes a round trip
	Failed    uint64 // ended by an error, or by the server's closing the connection
	Agreed    []Agreement
}

// An Agreement is what a number of handshakes agreed on.
type Agreement struct {
	Version     string // such as "TLS 1.3"
	CipherSuite string // IANA's name
	Group       string // of the key exchange; "" if it was RSA's
	ALPN        string // the protocol that the server chose; "" if it chose none
	Handshakes  uint64
}

// note counts a handshake.
func (h *Handshakes) note(i tlslayer.Info) {
	h.Completed++
	if i.Resumed {
		h.Resumed++
	}
	if i.Retried {
		h.Retried++
	}
	h.agree(Agreement{Version: i.Version, CipherSuite: i.CipherSuite, Group: i.Group, ALPN: i.ALPN, Handshakes: 1})
}

// agree adds an agreement to those there are. They are few: a server's settings rarely
// change while it is measured.
func (h *Handshakes) agree(o Agreement) {
	for k := range h.Agreed {
		a := &h.Agreed[k]
		if a.Version == o.Version && a.CipherSuite == o.CipherSuite && a.Group == o.Group && a.ALPN == o.ALPN {
			a.Handshakes += o.Handshakes
			return
		}
	}
	h.Agreed = append(h.Agreed, o)
}

// add adds the handshakes of another worker or engine. The most frequent agreement is the
// first.
func (h *Handshakes) add(o *Handshakes) {
	h.Completed += o.Completed
	h.Resumed += o.Resumed
	h.Retried += o.Retried
	h.Failed += o.Failed
	for _, a := range o.Agreed {
		h.agree(a)
	}
	slices.SortStableFunc(h.Agreed, func(a, b Agreement) int { return cmp.Compare(b.Handshakes, a.Handshakes) })
}

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
	x.written = w.clock.Now()
	w.trackInFlight(e, x)
	if w.messages != nil {
		w.startMessages(e, x.written)
	}
	if err != nil {
		w.failed(i, c, x.written, err)
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
	w.interval.latency[HandshakeTime].Record(r.Arrived - c.handshakeBegan)
	info := c.tls.Info()
	w.handshakes.note(info)
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
