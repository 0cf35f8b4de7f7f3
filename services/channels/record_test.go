package channels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func record(seq, source uint64, payload string) Record {
	r := Record{Source: source, Payload: []byte(payload)}
	r.seal(seq, castagnoli(0, r.Payload))
	return r
}

func stream(records ...Record) []byte {
	return encode(appendHeader(nil, StreamID{1, 2, 3}), Framed, records)
}

// The bytes of a frame, by the format as documented; the checksum was computed
// with another program: CRC-32C of "hi" and the 20 bytes of the head.
func TestFrameBytes(t *testing.T) {
	r := record(7, 3, "hi")
	got := r.AppendFrame(nil)
	want := []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 'h', 'i'}
	binary.BigEndian.PutUint32(want[20:], 0xde7caa6c)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVerify(t *testing.T) {
	good := stream(record(5, 0, "a"), record(6, 0, ""), record(9, 0, "ccc"))
	for name, c := range map[string]struct {
		in   []byte
		want Summary
		err  error
	}{
		"whole":     {good, Summary{Records: 3, Bytes: 4, First: 5, Last: 9, Missing: 2}, nil},
		"repeated":  {stream(record(1, 0, "a"), record(2, 0, "b"), record(2, 0, "b")), Summary{Records: 3, Bytes: 3, First: 1, Last: 2, Repeated: 1}, nil},
		"backwards": {stream(record(2, 0, "a"), record(1, 0, "b")), Summary{Records: 2, Bytes: 2, First: 2, Last: 2, Repeated: 1}, nil},
		"no frames": {stream(), Summary{}, nil},
		"torn":      {good[:len(good)-1], Summary{Records: 2, Bytes: 1, First: 5, Last: 6}, ErrShort},
		"torn head": {append(stream(record(1, 0, "x")), 0, 0), Summary{Records: 1, Bytes: 1, First: 1, Last: 1}, ErrShort},
		"altered":   {bytes.Replace(good, []byte("ccc"), []byte("cdc"), 1), Summary{Records: 2, Bytes: 1, First: 5, Last: 6}, ErrChecksum},
		"too long":  {stream(record(1, 0, strings.Repeat("x", 101))), Summary{}, ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Stream = StreamID{1, 2, 3}
			got, err := Verify(iotest.OneByteReader(bytes.NewReader(c.in)), 100)
			if !errors.Is(err, c.err) || got != c.want {
				t.Errorf("Verify = %+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
	for in, want := range map[string]error{"": io.EOF, "dyno": ErrShort, "dynorec1": ErrShort, "hello": ErrHeader, strings.Repeat("x", 99): ErrHeader} {
		if _, err := Verify(strings.NewReader(in), 100); !errors.Is(err, want) {
			t.Errorf("Verify(%q) = %v, want %v", in, err, want)
		}
	}
}

// Whatever single bit flips after the header, Verify notices.
func TestVerifyNoticesEveryFlippedBit(t *testing.T) {
	good := stream(record(1, 2, "some"), record(2, 1, "payload"))
	for bit := headerSize * 8; bit < len(good)*8; bit++ {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := Verify(bytes.NewReader(bad), 100); err == nil {
			t.Errorf("bit %d of byte %d flipped: not noticed", bit%8, bit/8)
		}
	}
}

func FuzzDecodeFrame(f *testing.F) {
	for _, r := range []Record{record(1, 0, ""), record(1<<63, 9, "payload")} {
		b := r.AppendFrame(nil)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, n, err := DecodeFrame(b, 1000)
		if err == nil {
			if again := r.AppendFrame(nil); !bytes.Equal(again, b[:n]) {
				t.Fatalf("decoded and encoded again: %x, want %x", again, b[:n])
			}
		} else if n != 0 {
			t.Fatalf("%d bytes used with %v", n, err)
		}
		s, err := Verify(bytes.NewReader(append(appendHeader(nil, StreamID{}), b...)), 1000)
		if err == nil && s.Bytes+s.Records*frameHead != uint64(len(b)) {
			t.Fatalf("%d bytes verified as %+v", len(b), s)
		}
	})
}

// cut splits b as the sizes say and returns the records, and how many were too
// long.
func cut(s *splitter, b []byte, sizes []int) (records []string, long int) {
	for i := 0; len(b) > 0; i++ {
		p := b[:min(len(b), sizes[i%len(sizes)])]
		b = b[len(p):]
		for len(p) > 0 {
			r, used, ok, err := s.next(p)
			p = p[used:]
			if err != nil {
				long++
			}
			if ok {
				records = append(records, string(r))
			}
		}
	}
	return records, long
}

func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		lengths  bool
		in       string
		want     []string
		long     int
		left     string
		ok, torn bool
	}{
		"lines":                 {in: "a\n\nbcd\r\n", want: []string{"a", "", "bcd\r"}},
		"last line":             {in: "a\nb", want: []string{"a"}, left: "b", ok: true},
		"just fits":             {in: "1234567890\n", want: []string{"1234567890"}},
		"too long":              {in: "12345678901\nok\n", want: []string{"ok"}, long: 1},
		"too long, open":        {in: "ok\n12345678901", want: []string{"ok"}, long: 1},
		"lengths":               {lengths: true, in: "\x00\x00\x00\x02a\n\x00\x00\x00\x00\x00\x00\x00\x01b", want: []string{"a\n", "", "b"}},
		"length incomplete":     {lengths: true, in: "\x00\x00\x00\x02ab\x00\x00", want: []string{"ab"}, torn: true},
		"length too long":       {lengths: true, in: "\x00\x00\x00\x0b12345678901\x00\x00\x00\x01b", want: []string{"b"}, long: 1},
		"length too long, open": {lengths: true, in: "\xff\xff\xff\xff123", long: 1, torn: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 100} {
				s := &splitter{lengths: c.lengths, max: 10}
				got, long := cut(s, []byte(c.in), []int{size})
				left, ok, torn := s.end()
				if diff := cmp.Diff(c.want, got); diff != "" || long != c.long || string(left) != c.left || ok != c.ok || torn != c.torn {
					t.Errorf("in pieces of %d: %s%d too long, left %q %v %v", size, diff, long, left, ok, torn)
				}
			}
		})
	}
}
