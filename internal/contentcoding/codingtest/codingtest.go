// Package codingtest encodes bodies as servers do, for tests of who decodes them.
package codingtest

import (
	"bytes"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// A Writer encodes what is written to it.
type Writer interface {
	io.WriteCloser
	Flush() error // what was written so far can be decoded then
}

// Raw is what some servers mean by deflate: without the header of zlib.
const Raw = "raw"

// Writers make a writer of each coding.
var Writers = map[string]func(io.Writer) Writer{
	"gzip":    func(w io.Writer) Writer { return gzip.NewWriter(w) },
	"x-gzip":  func(w io.Writer) Writer { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) Writer { return zlib.NewWriter(w) },
	Raw:       func(w io.Writer) Writer { f, _ := flate.NewWriter(w, flate.DefaultCompression); return f },
	"br":      func(w io.Writer) Writer { return brotli.NewWriter(w) },
	"zstd":    func(w io.Writer) Writer { z, _ := zstd.NewWriter(w); return z },
}

// Field returns what a server says in Content-Encoding of a body that a writer has made.
func Field(name string) string {
	if name == Raw {
		return "deflate"
	}
	return name
}

// Encode encodes a body by a list of codings, which are applied in their order.
func Encode(codings string, body []byte) []byte {
	for name := range strings.SplitSeq(codings, ",") {
		var b bytes.Buffer
		w := Writers[strings.TrimSpace(name)](&b)
		_, _ = w.Write(body) // a bytes.Buffer takes all
		_ = w.Close()
		body = b.Bytes()
	}
	return body
}

// Bomb returns a small body in gzip, twice, that decodes to a number of bytes.
func Bomb(size int) (field string, body []byte) {
	field = "gzip, gzip"
	return field, Encode(field, make([]byte, size))
}
