package contentcoding

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	maxCodings = 4       // in one field; more is no body that anybody wants to be read
	maxWindow  = 8 << 20 // bytes that zstd may refer back to, as RFC 9659 has it for HTTP
)

// ErrTooLarge is the error of a body that decodes to more bytes than the limit.
var ErrTooLarge = errors.New("the decoded body is larger than the limit")

// An UnknownError is about a coding that cannot be decoded.
type UnknownError struct{ Coding string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown Content-Encoding %q", e.Coding) }

// codings are the known ones, by their names in lower case.
var codings = map[string]func(*bufio.Reader) (io.Reader, error){
	"gzip":    newGzip,
	"x-gzip":  newGzip,
	"deflate": newDeflate,
	"br":      func(r *bufio.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	"zstd":    newZstd,
}

func newGzip(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// newDeflate tells both forms apart by the header, whose two bytes are a multiple of 31 (RFC 1950, section 2.2).
func newDeflate(r *bufio.Reader) (io.Reader, error) {
	if head, err := r.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

func newZstd(r *bufio.Reader) (io.Reader, error) {
	// With one decoder it starts no goroutines, and reads no further than it must.
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// Parse returns the codings of a field, in the order in which they were applied. Without any, or with identity only,
// the body is as it stands, and there are none. The error may be an *UnknownError.
func Parse(field string) ([]string, error) {
	var all []string
	for name := range strings.SplitSeq(field, ",") {
		name = strings.ToLower(strings.Trim(name, " \t"))
		if name == "" || name == "identity" {
			continue
		}
		if codings[name] == nil {
			return nil, &UnknownError{name}
		}
		if all = append(all, name); len(all) > maxCodings {
			return nil, fmt.Errorf("more than %d codings in Content-Encoding", maxCodings)
		}
	}
	return all, nil
}

// NewReader returns a reader of r's content, decoded by a field. After more than most bytes it fails
// with ErrTooLarge. It reads no further than it must, so what a server flushes can be read at once. An
// empty body decodes to none. Errors are about the body, which may be truncated (io.ErrUnexpectedEOF),
// or r's.
func NewReader(r io.Reader, field string, most int64) (io.Reader, error) {
	names, err := Parse(field)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		r = &layer{name: name, from: bufio.NewReader(r), left: most}
	}
	return r, nil
}

// Body returns a reader of a response's decoded body. NewReader has the limits and errors. A coding
// that net/http has decoded itself is no longer in the header.
func Body(r *http.Response, most int64) (io.Reader, error) {
	return NewReader(r.Body, strings.Join(r.Header.Values("Content-Encoding"), ","), most)
}

// Decode returns what a body decodes to by a field: the body itself if there is no coding.
func Decode(body []byte, field string, most int) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(body), field, int64(most))
	if err != nil {
		return nil, err
	}
	if _, is := r.(*layer); !is {
		return body, nil
	}
	return io.ReadAll(r)
}

// A layer decodes one coding.
type layer struct {
	name string
	from *bufio.Reader
	to   io.Reader // nil: nothing was read yet
	left int64     // bytes
	err  error
}

// Read decodes up to len(p) bytes.
func (l *layer) Read(p []byte) (n int, err error) {
	if l.err != nil || len(p) == 0 {
		return 0, l.err
	}
	if l.to == nil {
		if _, l.err = l.from.Peek(1); l.err != nil {
			return 0, l.err
		}
		if l.to, l.err = codings[l.name](l.from); l.err != nil {
			return 0, l.fail()
		}
	}
	// One byte more than the limit tells a body that is too large from one that ends there.
	n, l.err = l.to.Read(p[:min(int64(len(p))-1, l.left)+1])
	if int64(n) > l.left {
		n, l.err = int(l.left), ErrTooLarge
	}
	l.left -= int64(n)
	return n, l.fail()
}

// fail makes the error name the coding, and a body that ends early one that was truncated.
func (l *layer) fail() error {
	if l.err == nil || errors.Is(l.err, io.EOF) && l.to != nil {
		return l.err
	}
	if errors.Is(l.err, io.EOF) {
		l.err = io.ErrUnexpectedEOF
	}
	l.err = fmt.Errorf("%s: %w", l.name, l.err)
	return l.err
}
