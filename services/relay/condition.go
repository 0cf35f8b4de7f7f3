package relay

import (
	"context"
	"errors"
	"net"

	"dyno/services/relay/conditions"
)

// A Conditioner copies one direction of a connection under network conditions: src to dst
// until src ends (nil), a side fails, or it decides to break the connection
// (conditions.ErrReset). It closes neither side. The relay passes on the end, or the
// reset. Copy is called from many goroutines.
type Conditioner interface {
	Copy(ctx context.Context, dst, src net.Conn, dir conditions.Direction, conn uint64) (int64, error)
}

var _ Conditioner = (*conditions.Profile)(nil)

// copyUnder copies one direction under network conditions. The conditions bound the bytes
// that they hold back themselves; these are not part of the buffered bytes.
func (m *threaded) copyUnder(c Conditioner, v *conversation, d int, dst, src net.Conn) (outcome, error) {
	dir := conditions.ToServer
	if d == toClient {
		dir = conditions.ToClient
	}
	from := &watched{Conn: src, v: v, d: d}
	to := &watched{Conn: dst, v: v, d: d, count: m.count}
	_, err := c.Copy(m.ctx, to, from, dir, v.id)
	switch {
	case err == nil:
		return ended, nil
	case errors.Is(err, conditions.ErrReset):
		return resetByDesign, err
	case m.ctx.Err() != nil:
		return cut, err
	case to.failed:
		return resetByClient + outcome(1-d), err
	}
	return resetByClient + outcome(d), err
}

// A watched connection tells the relay how many bytes pass through it. It is either read
// or written. failed may be read after that has ended.
type watched struct {
	net.Conn
	v      *conversation
	d      int
	count  *counters
	failed bool // a write failed
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.v.held.Add(int64(n))
		w.v.moved[w.d].Add(2)
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.v.held.Add(-int64(n))
	w.v.moved[w.d].Add(2)
	w.count.bytes[w.d].Add(uint64(n))
	w.failed = w.failed || err != nil
	return n, err
}

// SetReadBuffer lets a slow reader be slow: a large kernel buffer would take bytes in its
// place.
func (w *watched) SetReadBuffer(bytes int) error {
	return w.Conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(bytes)
}
