// Package flood ends HTTP/2 connections whose clients send many cheap and useless frames: streams reset as soon as
// they are open, settings, pings, priorities, continuations, and data without bytes. Libraries bound the memory for
// such frames, but answer them without end.
//
// Clients may send some of them, so the limits permit a rate and a burst. More is a flood.
package flood

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// limits are the frames that a connection may send, at once and per second.
type limits struct{ resetsAtOnce, resets, othersAtOnce, others float64 }

// defaults returns the limits of every server. A proxy that loses its clients resets all of its streams at once, and Go's
// clients ping with a reset. The others come at a connection's beginning, and seldom after it.
func defaults() limits {
	return limits{resetsAtOnce: 5000, resets: 500, othersAtOnce: 1000, others: 100}
}

// An allowance is the number of frames that may still come.
type allowance struct {
	most, rate float64 // at once and per second
	left       float64
	at         time.Time
}

func newAllowance(most, rate float64) allowance { return allowance{most, rate, most, time.Now()} }

// take takes one; false if there is none left.
func (a *allowance) take() bool {
	if a.left < 1 {
		now := time.Now()
		a.left = min(a.most, a.left+a.rate*now.Sub(a.at).Seconds())
		a.at = now
	}
	a.left--
	return a.left >= 0
}

// errFlood is why a connection cannot be read any more.
var errFlood = errors.New("the client floods the connection with frames that no request needs")

// conn is a connection over HTTP/2 that is guarded. One goroutine at a time reads it.
type conn struct {
	net.Conn
	log     *slog.Logger
	resets  allowance // of streams, and pings
	others  allowance
	pings   bool // are counted
	skip    int  // bytes before the next frame header: of a payload, or of the preface
	head    [9]byte
	headLen int
	flooded bool
}

func (l limits) guard(c net.Conn, log *slog.Logger) *conn {
	return &conn{Conn: c, log: log, resets: newAllowance(l.resetsAtOnce, l.resets), others: newAllowance(l.othersAtOnce, l.others), pings: true}
}

// Conn guards a connection whose client has not sent anything yet. Pings are not counted: grpc-go, whose connections these
// are, does that itself, and knows which ones measure the round trip.
func Conn(c net.Conn, log *slog.Logger) net.Conn {
	g := defaults().guard(c, log)
	g.pings, g.skip = false, len(http2.ClientPreface)
	return g
}

func (c *conn) Read(b []byte) (int, error) {
	if c.flooded {
		return 0, errFlood
	}
	n, err := c.Conn.Read(b)
	if kind, ok := c.scan(b[:n]); !ok {
		c.flooded = true
		c.log.Warn("connection ended: its client floods it", "address", c.RemoteAddr().String(), "frames", kind.String())
		return 0, errors.Join(errFlood, c.Close())
	}
	return n, err
}

// scan reads received bytes. It returns false, and a frame's kind, if that frame exceeds the limits.
func (c *conn) scan(b []byte) (kind http2.FrameType, ok bool) {
	for len(b) > 0 {
		if n := min(c.skip, len(b)); n > 0 {
			c.skip -= n
			b = b[n:]
			continue
		}
		n := copy(c.head[c.headLen:], b)
		c.headLen += n
		b = b[n:]
		if c.headLen < len(c.head) {
			return 0, true
		}
		c.headLen = 0
		length := int(binary.BigEndian.Uint32(c.head[:4]) >> 8)
		kind, flags := http2.FrameType(c.head[3]), http2.Flags(c.head[4])
		if c.skip = length; !c.allow(kind, flags, length) {
			return kind, false
		}
	}
	return 0, true
}

// allow reports whether a frame is within the limits.
func (c *conn) allow(kind http2.FrameType, flags http2.Flags, length int) bool {
	switch kind {
	case http2.FrameHeaders, http2.FrameWindowUpdate: // requests, which have bounds of their own, and the window updates of a reading client
		return true
	case http2.FrameData:
		return length > 0 || flags.Has(http2.FlagDataEndStream) || c.others.take()
	case http2.FramePing:
		return !c.pings || c.resets.take()
	case http2.FrameRSTStream:
		return c.resets.take()
	}
	return c.others.take()
}

// tlsConn is a guarded connection by TLS.
type tlsConn struct {
	*conn
	tls *tls.Conn
}

// ConnectionState is for the server, which passes it to handlers.
func (c tlsConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// plainProtocol is by which net/http hands over connections without TLS whose client speaks HTTP/2, and has sent its preface.
const plainProtocol = "unencrypted_http2"

// Guard has a server's connections over HTTP/2 guarded, by TLS and without. It is called once all else is set, before the
// server serves. A server whose Protocols have no HTTP/2 stays as it is.
func Guard(s *http.Server, log *slog.Logger) error { return defaults().guardServer(s, log) }

// guardServer serves HTTP/2 by golang.org/x/net/http2, from which net/http has its own copy, and which is deprecated.
// net/http has no hook between itself and a TLS connection.
//
//nolint:staticcheck // as said above
func (l limits) guardServer(s *http.Server, log *slog.Logger) error {
	if p := s.Protocols; p == nil || !p.HTTP2() && !p.UnencryptedHTTP2() {
		return nil
	}
	h2, encrypted := &http2.Server{}, s.TLSConfig != nil
	if err := http2.ConfigureServer(s, h2); err != nil {
		return fmt.Errorf("HTTP/2: %w", err)
	}
	if !encrypted {
		s.TLSConfig = nil // it is made even if it is not needed
	}
	if changed := s.ConnState; changed != nil {
		s.ConnState = func(c net.Conn, state http.ConnState) { changed(bare(c), state) }
	}
	serve := func(hs *http.Server, c net.Conn, h http.Handler, sawPreface bool) {
		options := &http2.ServeConnOpts{BaseConfig: hs, Handler: h, SawClientPreface: sawPreface}
		if b, ok := h.(interface{ BaseContext() context.Context }); ok { // as net/http passes it to HTTP/2 servers
			options.Context = b.BaseContext()
		}
		h2.ServeConn(c, options)
	}
	s.TLSNextProto[http2.NextProtoTLS] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		g := l.guard(c, log)
		g.skip = len(http2.ClientPreface)
		serve(hs, tlsConn{g, c}, h, false)
	}
	s.TLSNextProto[plainProtocol] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		plain, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn })
		if !ok {
			log.Error("a connection over HTTP/2 cannot be taken over from net/http")
			go func() { _ = c.Close() }()
			return
		}
		serve(hs, l.guard(plain.UnencryptedNetConn(), log), h, true)
	}
	return nil
}

// bare is the connection that a server has accepted.
func bare(c net.Conn) net.Conn {
	switch c := c.(type) {
	case *conn:
		return c.Conn
	case tlsConn:
		return c.Conn
	}
	return c
}
