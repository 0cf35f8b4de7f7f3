// Package redirects keeps where redirects lead the exchanges of a worker.
package redirects

import (
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// Trails are where redirects have led exchanges, by their numbers. The worker's thread alone uses
// them.
type Trails struct {
	follower wire.Follower
	rec      *record.Recorder
	all      []trail
	target   [1][]byte // of the request that follows, while it is put together
}

// A trail is where redirects have led an exchange, and when its first request was written.
type trail struct {
	wire.Trail
	written int64
}

// New returns the trails of a number of exchanges.
func New(follower wire.Follower, exchanges int, rec *record.Recorder) *Trails {
	return &Trails{follower: follower, rec: rec, all: make([]trail, exchanges)}
}

// Begin forgets where the exchange's last request was led.
func (t *Trails) Begin(e int32) {
	trail := &t.all[e]
	trail.Request, trail.Redirects = 0, 0
	trail.Target, trail.Location = trail.Target[:0], trail.Location[:0]
}

// Note keeps where a response redirects to, the first of its fields.
func (t *Trails) Note(e int32, fields []wire.MuxField) {
	if trail := &t.all[e]; len(fields) > 0 && len(trail.Location) == 0 {
		trail.Location = append(trail.Location, fields[0].Value...)
	}
}

// Follow tells whether another request follows the complete response of an exchange. The first
// one does so after the request that was asked for.
func (t *Trails) Follow(e int32, x *record.Request, first bool) (follows bool, err error) {
	trail := &t.all[e]
	follows, err = t.follower.Follow(&trail.Trail, int(x.Status))
	trail.Location = trail.Location[:0]
	if !follows {
		return false, err
	}
	if first {
		trail.written = x.Written
	}
	t.rec.Redirect(x.Part)
	return true, nil
}

// Written returns when the first request of an exchange was written, which was redirected.
func (t *Trails) Written(e int32) int64 { return t.all[e].written }

// Request returns the request that an exchange is to send, and what varies in it.
func (t *Trails) Request(e int32) (request int, parts [][]byte) {
	trail := &t.all[e]
	if trail.Request == 0 {
		return 0, nil
	}
	t.target[0] = trail.Target
	return trail.Request, t.target[:]
}
