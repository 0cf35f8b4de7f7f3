package engine

import (
	"encoding/binary"
	"encoding/hex"

	"dyno/load/wire"
)

// A tracer gives each request a field traceparent with a trace id of its own (W3C Trace Context,
// section 3.2). Requests that follow redirects stay in the trace of the first. An id's first four bytes
// are the second in which the load began. So the ids of two loads differ. The others follow from the
// seed, the worker and the number of the request.
type tracer struct {
	places    []int // by the number of the prepared request: where among its parts the value goes
	seed      uint64
	count     uint64
	beginning [8]byte // of the ids
	text      []byte
	parts     [][]byte
}

// newTracer returns the tracer of a worker, by its number among all that carry the load.
func newTracer(places []int, seed, worker uint64, began int64) *tracer {
	t := &tracer{places: places, seed: mix(seed + worker<<32), text: []byte("00-00000000000000000000000000000000-0000000000000000-01")}
	binary.BigEndian.PutUint32(t.beginning[:], uint32(began/1e9))                 //nolint:gosec // the lower bits
	binary.BigEndian.PutUint32(t.beginning[4:], uint32(mix(seed))+uint32(worker)) //nolint:gosec // the lower bits
	hex.Encode(t.text[3:], t.beginning[:])
	return t
}

// mix is a bijection whose results look random (SplitMix64's finalizer).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// next begins the trace of a request, and returns the end of its id.
func (t *tracer) next() uint64 {
	id := t.draw()
	t.write(id, id)
	return id
}

// proceed gives the request that follows a redirect a span of its own, in the trace whose id ends so.
func (t *tracer) proceed(trace uint64) { t.write(trace, t.draw()) }

// draw returns an id. No two are the same, and none is 0.
func (t *tracer) draw() uint64 {
	t.count++
	id := mix(t.count*0x9e3779b97f4a7c15 + t.seed)
	if id == 0 {
		return t.draw()
	}
	return id
}

func (t *tracer) write(trace, span uint64) {
	var end [8]byte
	binary.BigEndian.PutUint64(end[:], trace)
	hex.Encode(t.text[19:], end[:])
	binary.BigEndian.PutUint64(end[:], span)
	hex.Encode(t.text[36:], end[:])
}

// insert puts the value that was made last among the parts of a prepared request.
func (t *tracer) insert(request int, parts [][]byte) [][]byte {
	at := t.places[request]
	t.parts = append(append(append(t.parts[:0], parts[:at]...), t.text), parts[at:]...)
	return t.parts
}

// outline returns which prepared request an exchange sends, and its parts. They are valid
// until the next call.
func (w *worker) outline(e int32, x *exchange) (request int, parts [][]byte) {
	switch {
	case w.redirects != nil:
		request, parts = w.redirects.Request(e)
	case w.users != nil:
		r := w.users.Request(x.User)
		request, parts = r.Outline, r.Parts
	}
	if w.tracer != nil {
		if x.redirected {
			w.tracer.proceed(x.Trace)
		} else {
			x.Trace = w.tracer.next()
		}
		parts = w.tracer.insert(request, parts)
	}
	return request, parts
}

// request returns the bytes of an exchange's request, for a client that carries one at a time.
func (w *worker) request(x *exchange, c *connection) []byte {
	if w.redirects == nil && w.users == nil && w.tracer == nil {
		return c.client.Request()
	}
	return c.client.(wire.Composer).Compose(w.outline(x.number, x))
}
