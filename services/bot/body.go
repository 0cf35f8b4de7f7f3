package bot

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"dyno/services/bot/buffer"
)

// A ration bounds the bytes of requests' bodies that are held: of all, and of each key, so that one alone does not
// keep the others out.
type ration struct {
	most, each int64
	all        atomic.Int64
}

// newRation returns a ration of so many bytes for so many keys. Each may have half of it.
func newRation(most int64, keys int) *ration {
	each := most
	if keys > 1 {
		each /= 2
	}
	return &ration{most: most, each: each}
}

// take takes so many bytes for whoever has taken of so far, if there are as many.
func (r *ration) take(of *atomic.Int64, n int64) bool {
	if of.Add(n) > r.each {
		of.Add(-n)
		return false
	}
	if r.all.Add(n) > r.most {
		r.giveBack(of, n)
		return false
	}
	return true
}

func (r *ration) giveBack(of *atomic.Int64, n int64) {
	of.Add(-n)
	r.all.Add(-n)
}

// Bounds of the time in which a request's body must come: of one that is read, and of one that is not. For the latter
// net/http waits before it answers, and would for ever.
const (
	bodyTimeout   = 30 * time.Second
	unreadTimeout = time.Second
)

// timely bounds the time for bodies that nobody reads: of what is refused before, and of what has none by right.
func timely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout)) // as in readBody
		}
		next.ServeHTTP(w, r)
	})
}

// A body is that of a request. It must be freed when nothing refers to it any more.
type body struct {
	B []byte

	g    *Gateway
	in   *buffer.Buffer
	of   *atomic.Int64 // what its key holds; nil counts for nobody
	held int64
}

// free gives its memory back; once more does nothing.
func (b *body) free() {
	b.g.buffers.Put(b.in)
	b.keep(0)
	b.B, b.in = nil, nil
}

// errCrowdedBodies says that there is no room for a body.
var errCrowdedBodies = errors.New("the requests that are under way are too large")

// holdStep is how much more is taken at once for a body that does not say how large it is.
const holdStep = 64 << 10

// hold takes room for so many bytes.
func (b *body) hold(n int64) error {
	if more := n - b.held; b.of != nil && more > 0 {
		more = max(more, min(holdStep, b.g.cfg.MaxBodyBytes-b.held))
		if !b.g.bodies.take(b.of, more) {
			return errCrowdedBodies
		}
		b.held += more
	}
	return nil
}

// keep gives back what is more than so many bytes.
func (b *body) keep(n int64) {
	if less := b.held - n; less > 0 {
		b.g.bodies.giveBack(b.of, less)
		b.held = n
	}
}

// rationed reads a body for which there is room.
type rationed struct {
	from io.Reader
	body *body
	read int64
}

func (r *rationed) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.read += int64(n)
	if crowded := r.body.hold(r.read); crowded != nil {
		return n, crowded
	}
	return n, err
}

// readBody reads a request's body, whose size its layer bounds. It counts as held by key; nil is nobody.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, key *apiKey) (*body, *refusal) {
	b := &body{g: g}
	if key != nil {
		b.of = &key.bodies
	}
	size := 0
	if r.ContentLength > 0 {
		size = int(min(r.ContentLength, g.cfg.MaxBodyBytes)) + 1 // with one more, the end is read, too
	}
	crowded := &refusal{status: http.StatusServiceUnavailable, code: "overloaded", text: errCrowdedBodies.Error(), after: time.Second}
	if b.hold(int64(max(size-1, 0))) != nil {
		return nil, crowded
	}
	control := http.NewResponseController(w)
	// Of the body alone: a deadline that stays would end the watch for a client that goes.
	// Writers without deadlines, as tests have them, go without.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	b.in = g.buffers.Get(size)
	n, err := b.in.ReadFrom(&rationed{from: r.Body, body: b})
	_ = control.SetReadDeadline(time.Time{})
	if err == nil {
		b.keep(n)
		b.B = b.in.B
		return b, nil
	}
	b.free()
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, errCrowdedBodies):
		return nil, crowded
	case errors.As(err, &long):
		return nil, refuse(http.StatusRequestEntityTooLarge, "", "a request has %d bytes at most", long.Limit)
	}
	return nil, refuse(http.StatusBadRequest, "", "read body: %v", err)
}
