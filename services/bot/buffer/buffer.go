// Package buffer lends memory for a request's time.
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
	// mostAhead bounds what is made because a client says that it will send so much.
	mostAhead = 1 << 20
	// least is what a read begins with.
	least = 512
)

// New makes a buffer. Size is how many bytes are expected; 0 is not known.
func New(size int) *Buffer {
	b := &Buffer{}
	if size > 0 {
		b.B = make([]byte, 0, min(size, mostAhead))
	}
	return b
}

// A Lender lends buffers. Its methods may be called from any goroutine.
type Lender interface {
	// Get lends a buffer that is empty. Size is as New has it.
	Get(size int) *Buffer
	// Put takes a buffer back; nil does nothing.
	Put(b *Buffer)
}

// A Pool is the gateway's Lender: it lends buffers again. The zero value is ready.
type Pool struct{ buffers sync.Pool } // of *Buffer

// Get is Lender's.
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

// Put is Lender's.
func (p *Pool) Put(b *Buffer) {
	if b != nil && cap(b.B) <= mostKept {
		p.buffers.Put(b)
	}
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

var (
	_ io.ReaderFrom = (*Buffer)(nil)
	_ Lender        = (*Pool)(nil)
)
