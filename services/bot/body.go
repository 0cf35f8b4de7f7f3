package bot

import (
	"errors"
	"net/http"
	"time"

	"dyno/internal/strict"
	"dyno/services/bot/budget"
	"dyno/services/bot/buffer"
	"dyno/services/bot/reply"
)

// A body is the body of a request. Free it when nothing refers to it any more.
type body struct {
	B []byte

	g     *Gateway
	in    *buffer.Buffer
	share budget.Grant
}

// free releases the memory. Further calls do nothing.
func (b *body) free() {
	b.forget()
	b.share.Keep(0)
}

// forget returns the buffer to the pool. The bytes count as held until free: the values read from it stay.
func (b *body) forget() {
	b.g.parts.Buffers.Put(b.in)
	b.B, b.in = nil, nil
}

// decode parses a body as one object of the known members. It checks strictly, so that all readers understand the
// same.
func (g *Gateway) decode(body []byte, known strict.Members, v any) *reply.Refusal {
	var fault *strict.Error
	if err := strict.Check(body, known); errors.As(err, &fault) {
		return &reply.Refusal{Status: http.StatusBadRequest, Param: fault.Member, Text: "body: " + fault.Error()}
	}
	if err := g.parts.Codec.JSON.Unmarshal(body, v); err != nil {
		return reply.Refuse(http.StatusBadRequest, "", "body: want a JSON object: %v", err)
	}
	return nil
}

// readBody reads a request's body, whose size a layer bounds. It counts as held by key, unless that is nil.
func (g *Gateway) readBody(r *http.Request, key *apiKey) (*body, *reply.Refusal) {
	b := &body{g: g}
	if key != nil {
		b.share = g.bodies.Grant(&key.bodies)
	}
	size := 0
	if r.ContentLength > 0 {
		size = int(min(r.ContentLength, g.cfg.MaxBodyBytes)) + 1 // one more byte, so that the end is read as well
	}
	crowded := &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "overloaded", Text: "the requests that are under way are too large", After: time.Second}
	if !b.share.Hold(int64(max(size-1, 0))) {
		return nil, crowded
	}
	b.in = g.parts.Buffers.Get(size)
	n, err := b.in.ReadFrom(b.share.Reader(r.Body))
	if err == nil {
		b.share.Keep(n)
		b.B = b.in.B
		return b, nil
	}
	b.free()
	_ = r.Body.Close() // the answer must not wait for the rest
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, budget.ErrFull):
		return nil, crowded
	case errors.As(err, &long):
		return nil, reply.Refuse(http.StatusRequestEntityTooLarge, "", "a request has %d bytes at most", long.Limit)
	}
	return nil, reply.Refuse(http.StatusBadRequest, "", "read body: %v", err)
}
