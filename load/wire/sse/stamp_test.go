package sse

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStamp(t *testing.T) {
	s := Stamp{Source: 42, Sequence: 7, Time: 1_700_000_000_123_456_789}
	const want = "dyno1 0000000042 000000000007 1700000000123456789 "
	if got := s.String(); got != want || len(got) != StampBytes {
		t.Errorf("%q of %d bytes, want %q", got, len(got), want)
	}
	for _, data := range []string{want, want + "xxx", want + "\n", fmt.Sprintf("dyno1 %010d %012d %019d ", 42, 7, 1_700_000_000_123_456_789)} {
		if got, ok := ParseStamp([]byte(data)); !ok || got != s {
			t.Errorf("%q: %+v, %v", data, got, ok)
		}
	}
	for _, data := range []string{
		"", "dyno1 ", want[:StampBytes-1], " " + want, `"` + want, strings.ToUpper(want), strings.Replace(want, "dyno1", "dyno2", 1),
		strings.ReplaceAll(want, " ", "+"), strings.Replace(want, "0000000042", "000000004a", 1), strings.Replace(want, "0000000042", "-000000042", 1),
		"dyno1 4294967296 000000000007 1700000000123456789 ", // a source of 2^32
		"dyno1 0000000042 000000000000 1700000000123456789 ", // number 0
		"dyno1 0000000042 000000000007 9999999999999999999 ", // a time of 2^63 or more
		"dyno1 0000000042 000000000007 17000000001234567890", // a digit too many
	} {
		if got, ok := ParseStamp([]byte(data)); ok {
			t.Errorf("%q: %+v", data, got)
		}
	}
}

// Every stamp is read as it was written.
func TestStampRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Stamp{
			Source:   rapid.Uint32().Draw(t, "source"),
			Sequence: rapid.Uint64Range(1, MaxSequence).Draw(t, "sequence"),
			Time:     rapid.Int64Range(0, math.MaxInt64).Draw(t, "time"),
		}
		if got, ok := ParseStamp([]byte(want.String() + rapid.String().Draw(t, "rest"))); !ok || got != want {
			t.Fatalf("%+v: %+v, %v", want, got, ok)
		}
	})
}

// Accepted texts are stamps, byte by byte.
func FuzzStamp(f *testing.F) {
	f.Add([]byte("dyno1 0000000042 000000000007 1700000000123456789 x"))
	f.Add([]byte("dyno1 4294967296 000000000000 9999999999999999999 "))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, ok := ParseStamp(data); ok && s.String() != string(data[:StampBytes]) {
			t.Errorf("%q: %+v", data, s)
		}
	})
}
