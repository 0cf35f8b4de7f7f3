package loop

import (
	"iter"
	"sync"
	"unsafe"
)

// A Slab holds connection states in blocks. The states do not move, cost the garbage
// collector little, and have a key that fits into epoll's events. A key may outlive its
// state: Get recognizes a stale key by its generation. A Slab belongs to one goroutine.
type Slab[T any] struct {
	blocks [][]slot[T]
	free   []uint32
	live   int
}

type slot[T any] struct {
	generation uint32 // odd while the place is in use
	value      T
}

const blockSize = 128

// Alloc returns a zero T and its key. The key's lowest bit is zero; the owner may use it,
// and Get ignores it.
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

// Get returns the state of a key, or nil if it has been freed.
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

// Free releases the state of a key and forgets its contents. A stale key has no effect.
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

// Len is the number of states in use.
func (s *Slab[T]) Len() int { return s.live }

// All iterates over the states in use. The loop body may free states.
func (s *Slab[T]) All() iter.Seq2[uint64, *T] { return s.Stride(0, 1) }

// Stride iterates over every step-th place, beginning with the first-th, and yields the
// states in use there. Calls with each first < step together make up All. The loop body
// may free states.
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

// Buffers lends buffers of one size. A connection holds a buffer only while bytes are
// pending, so few are in use at a time. The owner's limit on connections bounds their
// number. It may be used from any goroutine.
type Buffers struct {
	size int
	pool sync.Pool // of *byte, the first of a buffer: storing a pointer allocates nothing
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
