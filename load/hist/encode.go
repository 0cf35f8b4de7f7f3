package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
)

// HdrHistogram's V2 encoding. A payload holds one number per bucket from the
// lowest to the highest that is not empty: a count, or -n for a run of n empty
// buckets. Numbers are zig-zag LEB128 of at most nine bytes, the ninth with eight
// bits. A header gives the layout; the two are compressed by zlib, and a second
// header stands before that. Source: HdrHistogram's AbstractHistogram and
// ZigZagEncoding, in Java.
const (
	cookie           = 0x1c849303
	compressedCookie = 0x1c849304
	wordSize         = 0x10 // set in cookies; tells old readers nothing of use
	wordSizeMask     = 0xf0
	headerSize       = 40
)

// Limits of a log. A payload has at most nine bytes a bucket. With maxCount values in an interval and
// maxIntervals intervals, the sum of a log still fits in an int64.
const (
	maxPayload   = 9 * buckets
	maxCount     = 1 << 42
	maxIntervals = 1 << 20
)

// appendNumber appends n to a payload.
func appendNumber(b []byte, n int64) []byte {
	u := uint64(n<<1 ^ n>>63)
	for range 8 {
		if u < 0x80 {
			return append(b, byte(u))
		}
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// number reads the number at the start of a payload; its size is 0 if it is cut
// off.
func number(b []byte) (n int64, size int) {
	var u uint64
	for i, c := range b {
		if i == 8 {
			u |= uint64(c) << 56
		} else {
			u |= uint64(c&0x7f) << (7 * i)
		}
		if c < 0x80 || i == 8 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

// pack returns the payload of a dense histogram.
func (h *Histogram) pack() []byte {
	var room [8 << 10]byte // spares most histograms a second allocation
	b := room[:0]
	next := 0
	for i, n := range h.nonzero() {
		b = appendNumber(appendRun(b, i-next), n)
		next = i + 1
	}
	if h.count == 0 {
		b = appendRun(b, 1) // there is always something
	}
	return bytes.Clone(b)
}

// payload returns the payload, which belongs to the histogram.
func (h *Histogram) payload() []byte {
	if h.counts != nil {
		return h.pack()
	}
	return h.packed
}

// appendRun appends a run of n empty buckets. One alone is written as its count.
func appendRun(b []byte, n int) []byte {
	switch n {
	case 0:
		return b
	case 1:
		return appendNumber(b, 0)
	default:
		return appendNumber(b, -int64(n))
	}
}

// runs yields a payload's buckets with their counts: a single empty bucket with 0, a run of n empty
// ones with -n under its first index. A number that is cut off is left out.
func runs(payload []byte) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i := 0; len(payload) > 0; i++ {
			n, size := number(payload)
			if size == 0 || !yield(i, n) {
				return
			}
			if n < 0 {
				i += int(-n) - 1
			}
			payload = payload[size:]
		}
	}
}

// An encoder makes base64 text of histograms. It keeps its buffers.
type encoder struct {
	buf bytes.Buffer
	z   *zlib.Writer
}

func newEncoder() *encoder {
	return &encoder{z: zlib.NewWriter(io.Discard)}
}

// appendTo appends the text to b.
func (e *encoder) appendTo(b []byte, h *Histogram) ([]byte, error) {
	payload := h.payload()
	e.buf.Reset()
	e.buf.Write(make([]byte, 8))
	e.z.Reset(&e.buf)
	var head [headerSize]byte
	be := binary.BigEndian
	be.PutUint32(head[0:], cookie|wordSize)
	be.PutUint32(head[4:], uint32(len(payload)))
	be.PutUint32(head[8:], 0) // normalizing index offset: none
	be.PutUint32(head[12:], digits)
	be.PutUint64(head[16:], 1) // the unit is the ns
	be.PutUint64(head[24:], uint64(Highest))
	be.PutUint64(head[32:], math.Float64bits(1))
	_, err := e.z.Write(head[:])
	if err == nil {
		_, err = e.z.Write(payload)
	}
	if err == nil {
		err = e.z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress histogram: %w", err)
	}
	out := e.buf.Bytes()
	be.PutUint32(out[0:], compressedCookie|wordSize)
	be.PutUint32(out[4:], uint32(len(out)-8))
	return base64.StdEncoding.AppendEncode(b, out), nil
}

// A decoder makes histograms of base64 text, which it does not trust. It keeps
// its buffers.
type decoder struct {
	raw   []byte
	plain bytes.Buffer
	z     io.ReadCloser
}

// decode returns a histogram in compact form.
func (d *decoder) decode(text []byte) (*Histogram, error) {
	payload, err := d.inflate(text)
	if err != nil {
		return nil, err
	}
	return parsePayload(payload)
}

// parsePayload returns the histogram of a payload, which it does not trust, in compact form. Each bucket counts at its
// highest value.
func parsePayload(payload []byte) (*Histogram, error) {
	h := &Histogram{min: math.MaxInt64}
	next := 0
	for i := 0; len(payload) > 0; {
		n, size := number(payload)
		payload = payload[size:]
		switch {
		case size == 0:
			return nil, errors.New("histogram: last count is cut off")
		case n < 0 && -uint64(n) > uint64(buckets-i):
			return nil, fmt.Errorf("histogram: %d empty buckets after %d, want %d altogether", -uint64(n), i, buckets)
		case n < 0:
			i -= int(n)
			continue
		case i >= buckets:
			return nil, fmt.Errorf("histogram: more than %d counts", buckets)
		case n > maxCount-h.count:
			return nil, fmt.Errorf("histogram: more than %d values", int64(maxCount))
		case n > 0:
			low, high := bounds(i)
			h.packed = appendNumber(appendRun(h.packed, i-next), n)
			next = i + 1
			h.count, h.min, h.max = h.count+n, min(h.min, low), high
		}
		i++
	}
	if h.count == 0 {
		h.packed = appendRun(nil, 1)
	}
	return h, nil
}

// MarshalText returns the histogram for messages, which nobody keeps: the exact maximum, as in a log, and the payload,
// uncompressed, in base64.
func (h *Histogram) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(append(appendDecimal(nil, h.max, 6), ','), h.payload()), nil
}

// UnmarshalText reads what MarshalText returns, which it does not trust. As in a log, the lowest value is the low end of
// its bucket.
func (h *Histogram) UnmarshalText(text []byte) error {
	highest, encoded, _ := bytes.Cut(text, []byte(","))
	high, err := parseDecimal(string(highest), 6)
	if err != nil {
		return fmt.Errorf("histogram: max: %w", err)
	}
	if len(encoded) > base64.StdEncoding.EncodedLen(maxPayload) {
		return fmt.Errorf("histogram: more than %d bytes", maxPayload)
	}
	payload, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		return fmt.Errorf("histogram: base64: %w", err)
	}
	read, err := parsePayload(payload)
	if err != nil {
		return err
	}
	read.restoreMax(high)
	*h = *read
	return nil
}

// inflate returns a histogram's payload.
func (d *decoder) inflate(text []byte) ([]byte, error) {
	fail := func(format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("histogram: "+format, args...)
	}
	be := binary.BigEndian
	raw, err := base64.StdEncoding.AppendDecode(d.raw[:0], text)
	d.raw = raw
	switch {
	case err != nil:
		return fail("base64: %w", err)
	case len(raw) < 8:
		return fail("%d bytes, want more than 8", len(raw))
	case be.Uint32(raw)&^wordSizeMask != compressedCookie:
		return fail("cookie %#08x, want %#08x: only the V2 compressed encoding is read", be.Uint32(raw), compressedCookie|wordSize)
	case uint64(be.Uint32(raw[4:])) > uint64(len(raw)-8):
		return fail("compressed length %d, but %d bytes follow", be.Uint32(raw[4:]), len(raw)-8)
	}
	compressed := bytes.NewReader(raw[8 : 8+be.Uint32(raw[4:])])
	if d.z == nil {
		d.z, err = zlib.NewReader(compressed)
	} else {
		err = d.z.(zlib.Resetter).Reset(compressed, nil)
	}
	if err != nil {
		d.z = nil
		return fail("zlib: %w", err)
	}
	d.plain.Reset()
	if _, err = d.plain.ReadFrom(io.LimitReader(d.z, int64(headerSize+maxPayload+1))); err != nil {
		return fail("zlib: %w", err)
	}
	b := d.plain.Bytes()
	switch {
	case len(b) < headerSize:
		return fail("%d bytes uncompressed, want at least %d", len(b), headerSize)
	case len(b) > headerSize+maxPayload:
		return fail("more than %d bytes uncompressed", headerSize+maxPayload)
	case be.Uint32(b)&^wordSizeMask != cookie:
		return fail("inner cookie %#08x, want %#08x", be.Uint32(b), cookie|wordSize)
	case uint64(be.Uint32(b[4:])) != uint64(len(b)-headerSize):
		return fail("payload length %d, but %d bytes follow", be.Uint32(b[4:]), len(b)-headerSize)
	case be.Uint32(b[12:]) != digits || be.Uint64(b[16:]) != 1 || be.Uint64(b[24:]) != uint64(Highest):
		return fail("%d digits from %d to %d, want %d from 1 to %d", be.Uint32(b[12:]), be.Uint64(b[16:]), be.Uint64(b[24:]), digits, Highest)
	}
	return b[headerSize:], nil
}
