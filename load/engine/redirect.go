package engine

import (
	"dyno/load/wire"
)

// A trail is where redirects have led an exchange, and when its first request was written.
type trail struct {
	wire.Trail
	written int64
}

// begin forgets where the exchange's last request was led.
func (t *trail) begin() {
	t.Request, t.Redirects = 0, 0
	t.Target, t.Location = t.Target[:0], t.Location[:0]
}

// note keeps where a response redirects to, the first of its fields.
func (t *trail) note(fields []wire.MuxField) {
	if len(fields) > 0 && len(t.Location) == 0 {
		t.Location = append(t.Location, fields[0].Value...)
	}
}

// follow tells whether another request follows the complete response of an exchange.
func (w *worker) follow(e int32, x *exchange) (follows bool, err error) {
	t := &w.trails[e]
	follows, err = w.follower.Follow(&t.Trail, int(x.Status))
	t.Location = t.Location[:0]
	if !follows {
		return false, err
	}
	if !x.redirected {
		x.redirected, t.written = true, x.Written
	}
	w.rec.Redirect(x.Part)
	return true, nil
}

// followed returns the request that an exchange is to send, and what varies in it.
func (w *worker) followed(e int32) (request int, parts [][]byte) {
	t := &w.trails[e]
	if t.Request == 0 {
		return 0, nil
	}
	w.target[0] = t.Target
	return t.Request, w.target[:]
}

// goTo continues an exchange that was redirected, as soon as its connection is free.
func (w *worker) goTo(e int32, x *exchange, i int32, c *connection, now int64) {
	c.failures = 0
	w.suspend(e, x, c)
	w.awaitConnection(e, x, i, c)
	if c.mux == nil && !w.keeps(c) {
		w.closeUsed(i, c)
		return
	}
	w.refill(i, c, now)
}
