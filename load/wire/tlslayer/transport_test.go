package tlslayer

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Records are found wherever the stream is cut.
func TestFraming(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var ends []int
		for range rapid.IntRange(1, 6).Draw(t, "records") {
			size := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 600)).Draw(t, "size")
			stream = append(stream, 23, 3, 3, byte(size>>8), byte(size))
			stream = append(stream, make([]byte, size)...)
			ends = append(ends, len(stream))
		}
		var f framing
		at, found := 0, 0
		for at < len(stream) {
			given := stream[at : at+rapid.IntRange(1, len(stream)-at).Draw(t, "piece")]
			// After rest the record ends, or there is no more.
			rest := f.rest(given)
			if at+rest != min(ends[found], at+len(given)) {
				t.Fatalf("at %d: %d bytes left of the record that ends at %d", at, rest, ends[found])
			}
			want := 0
			for found+want < len(ends) && ends[found+want] <= at+len(given) {
				want++
			}
			if got := f.advance(given); got != want {
				t.Fatalf("at %d: %d records end in %d bytes, want %d", at, got, len(given), want)
			}
			found += want
			at += len(given)
			atEnd := found > 0 && ends[found-1] == at
			if f.inside() == atEnd {
				t.Fatalf("at %d: inside a record: %v", at, f.inside())
			}
		}
	})
}

// An established connection's read does not wait: crypto/tls gets an error that it takes
// for a temporary one, and nothing is lost.
func TestTransportIsNeverWaitedFor(t *testing.T) {
	var c transport
	p := make([]byte, 4)
	for _, arrived := range []string{"", "abc", "", "def"} {
		c.in = []byte(arrived)
		if n, err := c.Read(p); string(p[:n]) != arrived || (err != nil) != (arrived == "") {
			t.Errorf("%q, error %v; want %q", p[:n], err, arrived)
		}
	}
	_, err := c.Read(p)
	var temporary interface{ Temporary() bool }
	if !errors.As(err, &temporary) || !temporary.Temporary() {
		t.Errorf("%v is not temporary", err)
	}
}
