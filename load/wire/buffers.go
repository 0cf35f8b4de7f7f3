package wire

// Buffers are the buffers that no client of a worker needs at present. It is for one goroutine at a
// time. The zero value is ready for use.
type Buffers struct{ spare [][]byte }

// Buffers of up to maxSpare bytes are kept in any number. Of larger ones at most maxLarge are kept:
// many connections may have needed them once.
const (
	maxSpare = 4 << 10
	maxLarge = 64
)

// Borrow returns an empty buffer.
func (b *Buffers) Borrow() []byte {
	if n := len(b.spare); n > 0 {
		buffer := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return buffer
	}
	return make([]byte, 0, 512)
}

// GiveBack takes a buffer back that is no longer used, grown or not.
func (b *Buffers) GiveBack(buffer []byte) {
	if n := cap(buffer); n > 0 && (n <= maxSpare || len(b.spare) < maxLarge) {
		b.spare = append(b.spare, buffer[:0])
	}
}
