package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// frame returns a server's frame: first is its first byte.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + payload
}

// A reading is all that a stream of frames has: messages and control frames, each with its opcode before it.
type reading struct {
	found []string
	err   error
}

func (r reading) equal(o reading) bool {
	return slices.Equal(r.found, o.found) && errors.Is(r.err, o.err)
}

const testMost = 1 << 10

// read reads a stream that is cut at the given places.
func read(tb wiretest.TB, stream []byte, deflates bool, cuts ...int) (got reading) {
	tb.Helper()
	r := reader{deflates: deflates}
	var spare wire.Buffers
	message := ""
	from := 0
	for _, to := range append(cuts, len(stream)) {
		part := bytes.Clone(stream[from:to])
		from = to
		for rest := part; ; {
			n, p, found, err := r.next(rest, testMost, &spare)
			if n < 0 || n > len(rest) || (!found && err == nil && n != len(rest)) {
				tb.Fatalf("used %d of %d bytes, found %v, %v", n, len(rest), found, err)
			}
			rest = rest[n:]
			if err != nil {
				got.err = err
				return got
			}
			if !found {
				break
			}
			if p.op.control() {
				got.found = append(got.found, fmt.Sprintf("%x:%s", p.op, p.data))
			} else if message += string(p.data); p.final {
				got.found = append(got.found, fmt.Sprintf("%x:%s", p.op, message))
				message = ""
			}
			r.giveBack(&spare)
		}
		clear(part)
	}
	if !r.inFrame && r.control != nil {
		tb.Fatalf("holds a buffer between two frames")
	}
	return got
}

// standard reads a stream as the RFC's text goes, with all of it at hand. It gives no error for a text that begins
// wrongly and goes on: a reader finds that earlier.
func standard(s []byte, deflates bool) (got reading) {
	message, op, deflated, room := "", byte(0), false, 0
	for len(s) >= 2 {
		first, size, at := s[0], int(s[1]&0x7f), 2
		if s[1]&0x80 != 0 {
			got.err = ErrMasked
			return got
		}
		switch {
		case size == 126 && len(s) < 4, size == 127 && len(s) < 10:
			return got
		case size == 126:
			if size, at = int(binary.BigEndian.Uint16(s[2:])), 4; size < 126 {
				got.err = ErrMinimal
				return got
			}
		case size == 127:
			long := binary.BigEndian.Uint64(s[2:])
			if size, at = int(long&(1<<62-1)), 10; long >= 1<<63 {
				got.err = ErrLength
			} else if long < 1<<16 {
				got.err = ErrMinimal
			} else if long >= 1<<62 {
				size = 1 << 61
			}
			if got.err != nil {
				return got
			}
		}
		final, reserved, code := first&0x80 != 0, first&0x70, first&0x0f
		switch {
		case code > 2 && code < 8 || code > 10:
			got.err = ErrOpcode
		case reserved&0x30 != 0 || reserved != 0 && (!deflates || code != 1 && code != 2):
			got.err = ErrReserved
		case code >= 8 && size > 125:
			got.err = ErrControlSize
		case code >= 8 && !final:
			got.err = ErrControlParts
		case code == 0 && op == 0:
			got.err = ErrContinuation
		case code == 1 && op != 0 || code == 2 && op != 0:
			got.err = ErrInterleaved
		}
		if got.err == nil && code < 8 {
			if code > 0 {
				op, deflated, room, message = code, reserved != 0, testMost, ""
			}
			if size > room {
				got.err = ErrTooLarge
			}
			room -= size
		}
		if got.err != nil {
			return got
		}
		whole := len(s)-at >= size
		payload := string(s[at:min(len(s), at+size)])
		switch {
		case code >= 8:
			if whole {
				got.found = append(got.found, fmt.Sprintf("%x:%s", code, payload))
			}
		default:
			message += payload
			if op == 1 && !deflated && !begins(message, whole && final) {
				got.err = ErrUTF8
				return got
			}
			if whole && final {
				got.found = append(got.found, fmt.Sprintf("%x:%s", op, message))
				op = 0
			}
		}
		if !whole {
			return got
		}
		s = s[at+size:]
	}
	return got
}

// begins tells whether a text is UTF-8, or may become it.
func begins(text string, whole bool) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			return !whole && !utf8.FullRuneInString(text)
		}
		text = text[size:]
	}
	return true
}

// TestFrames: each rule of the RFC's sections 5.2, 5.4 and 5.5, and of 8.1, cut at every place.
func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 126)
	for _, tt := range []struct {
		name, stream string
		deflates     bool
		want         reading
	}{
		{name: "text", stream: frame(0x81, "Hello"), want: reading{found: []string{"1:Hello"}}},
		{name: "empty", stream: frame(0x81, "") + frame(0x82, ""), want: reading{found: []string{"1:", "2:"}}},
		{name: "fragments", stream: frame(0x01, "Hel") + frame(0x80, "lo"), want: reading{found: []string{"1:Hello"}}},
		{name: "empty fragments", stream: frame(0x02, "") + frame(0x00, "a") + frame(0x80, ""), want: reading{found: []string{"2:a"}}},
		{name: "a ping between fragments", stream: frame(0x01, "a") + frame(0x89, "p") + frame(0x80, "b"), want: reading{found: []string{"9:p", "1:ab"}}},
		{name: "a length of 16 bits", stream: frame(0x82, long), want: reading{found: []string{"2:" + long}}},
		{name: "a character in two fragments", stream: frame(0x01, "\xe2\x82") + frame(0x80, "\xac"), want: reading{found: []string{"1:€"}}},
		{name: "close", stream: frame(0x88, "\x03\xe8bye"), want: reading{found: []string{"8:\x03\xe8bye"}}},
		{name: "compressed", stream: frame(0xc1, "\xff"), deflates: true, want: reading{found: []string{"1:\xff"}}},

		{name: "compressed, not offered", stream: frame(0xc1, "x"), want: reading{err: ErrReserved}},
		{name: "a compressed continuation", stream: frame(0x41, "x") + frame(0xc0, "x"), deflates: true, want: reading{err: ErrReserved}},
		{name: "a compressed ping", stream: frame(0xc9, ""), deflates: true, want: reading{err: ErrReserved}},
		{name: "reserved bit 2", stream: frame(0xa1, "x"), deflates: true, want: reading{err: ErrReserved}},
		{name: "reserved bit 3", stream: frame(0x91, "x"), deflates: true, want: reading{err: ErrReserved}},
		{name: "a reserved opcode", stream: frame(0x83, "x"), want: reading{err: ErrOpcode}},
		{name: "a reserved control frame", stream: frame(0x8b, ""), want: reading{err: ErrOpcode}},
		{name: "masked", stream: "\x81\x81\x00\x00\x00\x00x", want: reading{err: ErrMasked}},
		{name: "16 bits for 125", stream: "\x82\x7e\x00\x7d", want: reading{err: ErrMinimal}},
		{name: "64 bits for 65535", stream: "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", want: reading{err: ErrMinimal}},
		{name: "64 bits", stream: "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", want: reading{err: ErrLength}},
		{name: "a long ping", stream: frame(0x89, long), want: reading{err: ErrControlSize}},
		{name: "a fragmented ping", stream: frame(0x09, "x"), want: reading{err: ErrControlParts}},
		{name: "a continuation of nothing", stream: frame(0x81, "a") + frame(0x80, "b"), want: reading{found: []string{"1:a"}, err: ErrContinuation}},
		{name: "a message within another", stream: frame(0x01, "a") + frame(0x81, "b"), want: reading{err: ErrInterleaved}},
		{name: "no UTF-8", stream: frame(0x81, "a\xff"), want: reading{err: ErrUTF8}},
		{name: "an overlong form", stream: frame(0x81, "\xc0\xaf"), want: reading{err: ErrUTF8}},
		{name: "a surrogate", stream: frame(0x01, "\xed\xa0") + frame(0x80, "\x80"), want: reading{err: ErrUTF8}},
		{name: "half a character", stream: frame(0x81, "\xe2\x82"), want: reading{err: ErrUTF8}},
		{name: "half a character, and another begins", stream: frame(0x01, "\xe2\x82") + frame(0x80, "a"), want: reading{err: ErrUTF8}},
		{name: "as large as permitted", stream: frame(0x02, strings.Repeat("x", testMost-1)) + frame(0x80, "x"), want: reading{found: []string{"2:" + strings.Repeat("x", testMost)}}},
		{name: "too large", stream: frame(0x02, strings.Repeat("x", testMost)) + frame(0x80, "x"), want: reading{err: ErrTooLarge}},
	} {
		every := make([]int, len(tt.stream))
		cuts := [][]int{nil, every}
		for i := range every {
			every[i] = i
			cuts = append(cuts, []int{i})
		}
		for _, cut := range cuts {
			if got := read(t, []byte(tt.stream), tt.deflates, cut...); !got.equal(tt.want) {
				t.Fatalf("%s, cut at %v: %.60q, %v; want %.60q, %v", tt.name, cut, got.found, got.err, tt.want.found, tt.want.err)
			}
		}
	}
}

// TestAgreesWithTheStandard: any frames, cut anywhere, mean what the RFC says.
func TestAgreesWithTheStandard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		deflates := rapid.Bool().Draw(t, "deflates")
		var stream []byte
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			first := rapid.OneOf(rapid.SampledFrom([]byte{0x81, 0x01, 0x00, 0x80, 0x82, 0x02, 0x89, 0x8a, 0x88, 0xc1, 0x41}), rapid.Byte()).Draw(t, "first")
			payload := rapid.OneOf(rapid.StringN(0, 20, 60), rapid.Just(strings.Repeat("ü", 70)), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 9), func(b []byte) string { return string(b) })).Draw(t, "payload")
			stream = append(stream, frame(first, payload)...)
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(stream)), 0, 8).Draw(t, "cuts")
		slices.Sort(cuts)
		if got, want := read(t, stream, deflates, cuts...), standard(stream, deflates); !got.equal(want) {
			t.Fatalf("%q cut at %v:\n got %q, %v\nwant %q, %v", stream, cuts, got.found, got.err, want.found, want.err)
		}
	})
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{frame(0x81, "Hello") + frame(0x89, ""), frame(0x01, "\xe2") + frame(0x80, "\x82\xac"), frame(0xc1, "\xff"), "\x82\x7f\x80", frame(0x82, strings.Repeat("x", 200))} {
		f.Add([]byte(s), true, uint8(1), uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, deflates bool, first, second uint8) {
		cuts := []int{min(int(first), len(stream)), min(int(first)+int(second), len(stream))}
		if got, want := read(t, stream, deflates, cuts...), standard(stream, deflates); !got.equal(want) {
			t.Errorf("%q cut at %v:\n got %q, %v\nwant %q, %v", stream, cuts, got.found, got.err, want.found, want.err)
		}
	})
}

// TestMask: masking twice is nothing, and each byte is masked by its place.
func TestMask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "plain")
		key := rapid.Uint32().Draw(t, "key")
		got := bytes.Clone(plain)
		mask(got, key)
		for i, b := range plain {
			if got[i] != b^byte(key>>(8*(i%4))) {
				t.Fatalf("byte %d of %d: %x", i, len(plain), got[i])
			}
		}
	})
}
