// Package buffer lends memory for the duration of a request.
package buffer

import (
	"errors"
	"io"
	"sync"
)

// A Buffer is memory on loan. Nothing may refer to its bytes once it is given back.
type Buffer struct{ B []byte }

// Bounds of memory.
const (
	// mostKept is the largest buffer that goes back to the pool: a rare large request
	// must not take memory permanently.
	mostKept = 64 << 10
	// mostAhead bounds the memory that is allocated because of a client's Content-Length.
	mostAhead = 1 << 20
	// least is the first size of a read.
	least = 512
)

// New makes a buffer. Size is the expected number of bytes; 0 is unknown.
func New(size int) *Buffer {
	b := &Buffer{}
	if size > 0 {
		b.B = make([]byte, 0, min(size, mostAhead))
	}
	return b
}

// A Lender lends buffers. Its methods may be called from any goroutine.
type Lender interface {
	// Get lends an empty buffer. Size is that of New.
	Get(size int) *Buffer
	// Put takes a buffer back; nil does nothing.
	Put(b *Buffer)
}

// A Pool is the gateway's Lender: it reuses buffers. The zero value is ready.
type Pool struct{ buffers sync.Pool } // of *Buffer

// Get implements Lender.
func (p *Pool) Get(size int) *Buffer {
	b, ok := p.buffers.Get().(*Buffer)
	if !ok {
		return New(size)
	}
	b.B = b.B[:0]
	if cap(b.B) < size {
		b.B = make([]byte, 0, min(size, mostAhead))
	}
	return b
}

// Put implements Lender.
func (p *Pool) Put(b *Buffer) {
	if b != nil && cap(b.B) <= mostKept {
		p.buffers.Put(b)
	}
}

// ReadFrom appends all of r.
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

var (
	_ io.ReaderFrom = (*Buffer)(nil)
	_ Lender        = (*Pool)(nil)
)
