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

// TestForms: whatever the form, a buffer begins empty and has what was put into it.
func TestForms(t *testing.T) {
	for _, p := range []*Pool{{}, {Kept: true}, {Ahead: true}, {Kept: true, Ahead: true}} {
		rapid.Check(t, func(t *rapid.T) {
			want := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "text")
			b := p.Get(rapid.IntRange(0, 3000).Draw(t, "expected"))
			if len(b.B) != 0 {
				t.Fatalf("%d bytes are in it", len(b.B))
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
}

func TestFault(t *testing.T) {
	b := (&Pool{}).Get(0)
	if _, err := b.ReadFrom(iotest.TimeoutReader(bytes.NewReader(make([]byte, 5000)))); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v", err)
	}
	(&Pool{Kept: true}).Put(nil)
}

// TestAhead: nobody has memory made by saying that much will come.
func TestAhead(t *testing.T) {
	if b := (&Pool{Ahead: true}).Get(1 << 40); cap(b.B) > 2*MostAhead {
		t.Errorf("%d bytes", cap(b.B))
	}
	if b := (&Pool{Ahead: true}).Get(4000); cap(b.B) != 4000 {
		t.Errorf("%d bytes", cap(b.B))
	}
}
