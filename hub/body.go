package hub

import (
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// A body is that of a request. It takes memory as it arrives, whatever length it announces,
// and all bodies together take no more than their bound.
type body struct {
	bytes []byte
	bound *semaphore.Weighted // of bytes
	held  int64               // of these
}

// The first size of a body's memory, and how it grows.
const (
	firstBody  = 4 << 10
	bodyGrowth = 4
)

// read reads a body of at most limit bytes.
func (b *body) read(w http.ResponseWriter, r *http.Request, limit int64) *refusal {
	if r.ContentLength > limit {
		return tooLong(limit)
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	for {
		if len(b.bytes) == cap(b.bytes) && !b.grow(r.ContentLength, limit) {
			return &refusal{http.StatusServiceUnavailable, "the updates that are arriving take as much memory as they may", time.Second}
		}
		n, err := from.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &long):
			return tooLong(long.Limit)
		case err != nil:
			return refuse(http.StatusBadRequest, "read body: %v", err)
		}
	}
}

func tooLong(limit int64) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "an update has at most %d bytes", limit)
}

// grow makes room for more, if there is any. The length is the announced one, or negative.
func (b *body) grow(length, limit int64) bool {
	if length < 0 {
		length = limit
	}
	size := min(max(int64(cap(b.bytes))*bodyGrowth, firstBody), length)
	if !b.bound.TryAcquire(size - b.held) {
		return false
	}
	b.held = size
	b.bytes = append(make([]byte, 0, size+1), b.bytes...) // with one more, the read that fills it also finds the end
	return true
}

// release gives back what the body holds.
func (b *body) release() {
	b.bound.Release(b.held)
	b.bytes, b.held = nil, 0
}
