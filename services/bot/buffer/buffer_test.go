package buffer

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestPool: a buffer that was used before begins empty, and has what is put into it.
func TestPool(t *testing.T) {
	p := &Pool{}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "text")
		expected := rapid.IntRange(0, 3000).Draw(t, "expected")
		b := p.Get(expected)
		if len(b.B) != 0 || cap(b.B) < expected {
			t.Fatalf("%d bytes are in it, and there is room for %d of %d", len(b.B), cap(b.B), expected)
		}
		var in io.Reader = bytes.NewReader(want)
		if rapid.Bool().Draw(t, "half") {
			in = iotest.HalfReader(in)
		}
		if n, err := b.ReadFrom(in); err != nil || n != int64(len(want)) || !bytes.Equal(b.B, want) {
			t.Fatalf("%d bytes of %d, %v", n, len(want), err)
		}
		p.Put(b)
	})
}

func TestFault(t *testing.T) {
	b := New(0)
	if _, err := b.ReadFrom(iotest.TimeoutReader(bytes.NewReader(make([]byte, 5000)))); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v", err)
	}
	(&Pool{}).Put(nil)
}

// TestAhead: nobody has memory made by saying that much will come.
func TestAhead(t *testing.T) {
	p := &Pool{}
	p.Put(New(1))
	for _, b := range []*Buffer{p.Get(1 << 40), p.Get(1 << 40)} { // used again, and new
		if cap(b.B) > 2*mostAhead {
			t.Errorf("%d bytes", cap(b.B))
		}
	}
}
