package calls

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// zipper compresses and decompresses for one goroutine, with memory that it keeps.
type zipper struct {
	source bytes.Reader
	reader *gzip.Reader
	plain  []byte
	writer *gzip.Writer
	packed bytes.Buffer
}

var errTooLarge = errors.New("the message is too large")

// kept bounds the memory that is kept from one message to the next.
const kept = 64 << 10

// unzip returns the bytes of a message, valid until the next call.
func (z *zipper) unzip(b []byte, most int) ([]byte, error) {
	if cap(z.plain) > kept {
		z.plain = nil
	}
	z.source.Reset(b)
	var err error
	if z.reader == nil {
		z.reader, err = gzip.NewReader(&z.source)
	} else {
		err = z.reader.Reset(&z.source)
	}
	if err != nil {
		z.reader = nil // it has to begin again
		return nil, err
	}
	out := z.plain[:0]
	for {
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := z.reader.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		z.plain = out
		switch {
		case len(out) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

// zip returns a message in gzip, valid until the next call.
func (z *zipper) zip(b []byte) []byte {
	if z.packed.Cap() > kept {
		z.packed = bytes.Buffer{}
	}
	z.packed.Reset()
	if z.writer == nil {
		z.writer = gzip.NewWriter(&z.packed)
	} else {
		z.writer.Reset(&z.packed)
	}
	// A buffer takes everything.
	_, _ = z.writer.Write(b)
	_ = z.writer.Close()
	return z.packed.Bytes()
}
