package wire_test

import (
	"testing"

	"dyno/load/wire"
)

// Buffers are used again, and of large ones only a number is kept.
func TestBuffers(t *testing.T) {
	var b wire.Buffers
	b.GiveBack(nil)
	b.GiveBack(make([]byte, 5, 100))
	if got := b.Borrow(); len(got) != 0 || cap(got) != 100 {
		t.Errorf("%d bytes, room for %d", len(got), cap(got))
	}
	const large = 1 << 16
	for range 1000 {
		b.GiveBack(make([]byte, 0, large))
	}
	kept := 0
	for cap(b.Borrow()) == large {
		kept++
	}
	if kept == 0 || kept > 100 {
		t.Errorf("%d large buffers are kept", kept)
	}
}
