package loop

import (
	"iter"
	"sync"
	"unsafe"
)

// A Slab holds connection states in blocks, so that they do not move, cost the
// garbage collector little, and can be named by a number in epoll's events. A
// name outlives what it named: Get knows a stale one by its generation. A Slab
// belongs to one goroutine.
type Slab[T any] struct {
	blocks [][]slot[T]
	free   []uint32
	live   int
}

type slot[T any] struct {
	generation uint32 // odd while in use
	value      T
}

const blockSize = 128

// Alloc returns a zero T and its key. The key's lowest bit is zero and the
// owner's to use: Get ignores it.
func (s *Slab[T]) Alloc() (uint64, *T) {
	if len(s.free) == 0 {
		first := uint32(len(s.blocks)) * blockSize
		s.blocks = append(s.blocks, make([]slot[T], blockSize))
		for i := uint32(blockSize); i > 0; i-- {
			s.free = append(s.free, first+i-1)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	sl := &s.blocks[i/blockSize][i%blockSize]
	sl.generation++
	s.live++
	return key(i, sl.generation), &sl.value
}

func key(index, generation uint32) uint64 {
	return uint64(generation)<<32 | uint64(index)<<1
}

// Get returns what key names, nil when that has been freed.
func (s *Slab[T]) Get(key uint64) *T {
	i := uint32(key) >> 1
	if int(i/blockSize) >= len(s.blocks) {
		return nil
	}
	sl := &s.blocks[i/blockSize][i%blockSize]
	if sl.generation != uint32(key>>32) {
		return nil
	}
	return &sl.value
}

// Free gives back what key names and forgets its contents; a stale key does
// nothing.
func (s *Slab[T]) Free(key uint64) {
	if s.Get(key) == nil {
		return
	}
	i := uint32(key) >> 1
	sl := &s.blocks[i/blockSize][i%blockSize]
	var zero T
	sl.value = zero
	sl.generation++
	s.live--
	s.free = append(s.free, i)
}

// Len is how many are in use.
func (s *Slab[T]) Len() int { return s.live }

// All goes through those in use. Freeing on the way is allowed.
func (s *Slab[T]) All() iter.Seq2[uint64, *T] { return s.Stride(0, 1) }

// Stride goes through every step-th place, from the first-th on, and gives what
// is in use there: step calls with different first < step make All. Freeing on the
// way is allowed.
func (s *Slab[T]) Stride(first, step int) iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for i := first; i < len(s.blocks)*blockSize; i += step {
			sl := &s.blocks[i/blockSize][i%blockSize]
			if sl.generation%2 == 1 && !yield(key(uint32(i), sl.generation), &sl.value) {
				return
			}
		}
	}
}

// Buffers lends buffers of one size. Connections hold one only while bytes are
// pending, so few are in use at a time; what bounds their number is the owner's
// bound on connections. It may be used from any goroutine.
type Buffers struct {
	size int
	pool sync.Pool // of *byte, a buffer's first: storing it allocates nothing
}

// NewBuffers lends buffers of size bytes.
func NewBuffers(size int) *Buffers { return &Buffers{size: size} }

// Get lends a buffer. Its contents are arbitrary.
func (b *Buffers) Get() []byte {
	if first, ok := b.pool.Get().(*byte); ok {
		return unsafe.Slice(first, b.size)
	}
	return make([]byte, b.size)
}

// Put takes back a buffer that Get lent.
func (b *Buffers) Put(buf []byte) { b.pool.Put(unsafe.SliceData(buf)) }
