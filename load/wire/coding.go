package wire

import (
	"bytes"
	"errors"
	"io"
	"math/bits"

	"dyno/internal/contentcoding"
)

// Codings are a response's codings in its fields Content-Encoding, in the order in which they were
// applied: four bits each, the first in the lowest. So a header takes none of the memory of its texts.
type Codings uint16

// unknownCodings says that no decoder knows a coding, or that there are more than four.
const unknownCodings = ^Codings(0)

// codingNames are the known codings, by their four bits.
var codingNames = [...]string{1: "gzip", 2: "deflate", 3: "br", 4: "zstd", 5: "x-gzip"}

// Add adds the codings that a field's value names. It does not allocate.
func (c Codings) Add(value []byte) Codings {
	for len(value) > 0 {
		var name []byte
		name, value, _ = bytes.Cut(value, []byte(","))
		if name = bytes.Trim(name, " \t"); len(name) > 0 && !bytes.EqualFold(name, []byte("identity")) {
			c = c.add(name)
		}
	}
	return c
}

func (c Codings) add(name []byte) Codings {
	shift := (bits.Len16(uint16(c)) + 3) / 4 * 4
	for number, coding := range codingNames {
		if shift < 16 && number > 0 && bytes.EqualFold(name, []byte(coding)) {
			return c | Codings(number)<<shift
		}
	}
	return unknownCodings
}

// String writes them as a field's value.
func (c Codings) String() (list string) {
	if c == unknownCodings {
		return "unknown"
	}
	for ; c != 0; c >>= 4 {
		if list != "" {
			list += ","
		}
		list += codingNames[c&15]
	}
	return list
}

// Faults of content that is decoded to be read.
var (
	ErrCoding         = &Error{Kind: Assertion, Text: "the content is not what its Content-Encoding says, or is cut off"}
	ErrUnknownCoding  = &Error{Kind: Assertion, Text: "the content has a Content-Encoding that is none of gzip, deflate, br and zstd"}
	ErrDecodedTooLong = &Error{Kind: Assertion, Text: "the content decodes to more than can be looked into"}
)

// A Decoder decodes the content of a response as it comes. The zero value decodes nothing.
type Decoder struct {
	codings Codings
	below   *contentcoding.Decoder
	plain   []byte
}

// decodedAtOnce is how many bytes of content are decoded in one go: a few may decode to many.
const decodedAtOnce = 512

// Begin begins with the content of another response. It decodes to most bytes.
func (d *Decoder) Begin(c Codings, most int64) *Error {
	d.Close()
	d.codings = c
	if c == 0 {
		return nil
	}
	var err error
	d.below, err = contentcoding.NewDecoder(c.String(), most)
	return codingError(err)
}

// Decodes tells whether there is something to decode.
func (d *Decoder) Decodes() bool { return d.codings != 0 }

// Piece decodes the beginning of a piece of content. It returns how many bytes that was, and the plain
// bytes so far. That is valid until the next call.
func (d *Decoder) Piece(p []byte) (used int, plain []byte, err *Error) {
	p = p[:min(len(p), decodedAtOnce)]
	var failed error
	d.plain, failed = d.below.Append(d.plain[:0], p)
	return len(p), d.plain, codingError(failed)
}

// End returns what is left when the content is whole.
func (d *Decoder) End() (plain []byte, err *Error) {
	var failed error
	d.plain, failed = d.below.End(d.plain[:0])
	return d.plain, codingError(failed)
}

// Close frees what the decoder holds.
func (d *Decoder) Close() {
	if d.below != nil {
		d.below.Close()
	}
	d.below, d.codings = nil, 0
}

// codingError says what is wrong with content.
func codingError(err error) *Error {
	var unknown *contentcoding.UnknownError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, contentcoding.ErrTooLarge):
		return ErrDecodedTooLong
	case errors.As(err, &unknown):
		return ErrUnknownCoding
	}
	return ErrCoding
}

// beginning returns what the beginning of some content decodes to, as far as it does.
func (c Codings) beginning(content []byte) []byte {
	if c == 0 {
		return content
	}
	r, err := contentcoding.NewReader(bytes.NewReader(content), c.String(), MaxRefusal)
	if err != nil {
		return nil
	}
	plain, _ := io.ReadAll(r) // the rest is missing
	return plain
}
