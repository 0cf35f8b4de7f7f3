// Package traces gives requests their trace ids.
package traces

import (
	"encoding/binary"
	"encoding/hex"
)

// A Tracer gives each request a field traceparent with a trace id of its own (W3C Trace Context,
// section 3.2). Requests that follow redirects stay in the trace of the first. An id's first four bytes
// are the second in which the load began. So the ids of two loads differ. The others follow from the
// seed, the worker and the number of the request. One thread uses it.
type Tracer struct {
	places    []int // by the number of the prepared request: where among its parts the value goes
	seed      uint64
	count     uint64
	beginning [8]byte // of the ids
	text      []byte
	parts     [][]byte
}

// New returns the tracer of a worker, by its number among all that carry the load.
func New(places []int, seed, worker uint64, began int64) *Tracer {
	t := &Tracer{places: places, seed: mix(seed + worker<<32), text: []byte("00-00000000000000000000000000000000-0000000000000000-01")}
	binary.BigEndian.PutUint32(t.beginning[:], uint32(began/1e9))                 //nolint:gosec // the lower bits
	binary.BigEndian.PutUint32(t.beginning[4:], uint32(mix(seed))+uint32(worker)) //nolint:gosec // the lower bits
	hex.Encode(t.text[3:], t.beginning[:])
	return t
}

// Beginning returns how the ids begin.
func (t *Tracer) Beginning() [8]byte { return t.beginning }

// mix is a bijection whose results look random (SplitMix64's finalizer).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Next begins the trace of a request, and returns the end of its id.
func (t *Tracer) Next() uint64 {
	id := t.draw()
	t.write(id, id)
	return id
}

// Proceed gives the request that follows a redirect a span of its own, in the trace whose id ends so.
func (t *Tracer) Proceed(trace uint64) { t.write(trace, t.draw()) }

// draw returns an id. No two are the same, and none is 0.
func (t *Tracer) draw() uint64 {
	t.count++
	id := mix(t.count*0x9e3779b97f4a7c15 + t.seed)
	if id == 0 {
		return t.draw()
	}
	return id
}

func (t *Tracer) write(trace, span uint64) {
	var end [8]byte
	binary.BigEndian.PutUint64(end[:], trace)
	hex.Encode(t.text[19:], end[:])
	binary.BigEndian.PutUint64(end[:], span)
	hex.Encode(t.text[36:], end[:])
}

// Insert puts the value that was made last among the parts of a prepared request.
func (t *Tracer) Insert(request int, parts [][]byte) [][]byte {
	at := t.places[request]
	t.parts = append(append(append(t.parts[:0], parts[:at]...), t.text), parts[at:]...)
	return t.parts
}
