// Package buffer lends memory for a request's time: from a pool, or new each time. Which
// of the two, and whether new memory has at once the size that is expected, are switches:
// report R2 measures them.
package buffer

import (
	"errors"
	"io"
	"sync"
)

// A Buffer is memory on loan. Nothing may refer to its bytes once it is given back.
type Buffer struct{ B []byte }

// Bounds of what is kept and of what is made ahead.
const (
	// MostKept is the largest buffer that goes back to the pool: a rare large request
	// must not take memory for ever.
	MostKept = 64 << 10
	// MostAhead bounds what is made because a client says that it will send so much.
	MostAhead = 1 << 20
	// least is what a read begins with.
	least = 512
)

// A Pool lends buffers. The zero value makes each anew, and lets it grow as it is filled.
// Its methods may be called from any goroutine.
type Pool struct {
	// Kept has buffers go back to a pool.
	Kept bool
	// Ahead makes a new buffer as large as is expected.
	Ahead bool

	pool sync.Pool // of *Buffer
}

// Get lends a buffer that is empty. Size is how many bytes are expected; 0 is not known.
func (p *Pool) Get(size int) *Buffer {
	if p.Kept {
		if b, ok := p.pool.Get().(*Buffer); ok {
			b.B = b.B[:0]
			if p.Ahead && cap(b.B) < size {
				b.B = make([]byte, 0, min(size, MostAhead))
			}
			return b
		}
	}
	b := &Buffer{}
	if p.Ahead && size > 0 {
		b.B = make([]byte, 0, min(size, MostAhead))
	}
	return b
}

// Put takes a buffer back; nil does nothing.
func (p *Pool) Put(b *Buffer) {
	if b == nil || !p.Kept || cap(b.B) > MostKept {
		return
	}
	p.pool.Put(b)
}

// ReadFrom adds all that there is to read.
func (b *Buffer) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		if cap(b.B)-len(b.B) < 1 {
			b.B = append(b.B, make([]byte, max(least, cap(b.B)))...)[:len(b.B)]
		}
		m, err := r.Read(b.B[len(b.B):cap(b.B)])
		b.B = b.B[:len(b.B)+m]
		n += int64(m)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

var _ io.ReaderFrom = (*Buffer)(nil)
