package wire

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"dyno/internal/contentcoding/codingtest"
)

func TestCodings(t *testing.T) {
	for _, tt := range []struct {
		fields []string
		want   string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"identity"}, ""},
		{[]string{" Identity ,, "}, ""},
		{[]string{"gzip"}, "gzip"},
		{[]string{"X-GZip"}, "x-gzip"},
		{[]string{" br ,\tzstd", "deflate"}, "br,zstd,deflate"},
		{[]string{"gzip,gzip", "gzip,gzip"}, "gzip,gzip,gzip,gzip"},
		{[]string{"gzip,gzip,gzip,gzip,gzip"}, "unknown"},
		{[]string{"compress"}, "unknown"},
		{[]string{"gzip", "sdch"}, "unknown"},
		{[]string{"sdch", "gzip"}, "unknown"},
	} {
		var c Codings
		for _, field := range tt.fields {
			c = c.Add([]byte(field))
		}
		if got := c.String(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.fields, got, tt.want)
		}
	}
}

func TestDecoder(t *testing.T) {
	text := []byte(strings.Repeat("some text, ", 1000))
	var d Decoder
	decode := func(field string, body []byte, most int64) (got []byte, fault *Error) {
		if fault = d.Begin(Codings(0).Add([]byte(field)), most); fault != nil {
			return nil, fault
		}
		defer d.Close()
		for len(body) > 0 && fault == nil {
			var n int
			var plain []byte
			n, plain, fault = d.Piece(body)
			got, body = append(got, plain...), body[n:]
		}
		if fault == nil {
			var plain []byte
			plain, fault = d.End()
			got = append(got, plain...)
		}
		return got, fault
	}
	gzip := codingtest.Encode("gzip", text)
	bombField, bomb := codingtest.Bomb(4 << 20)
	for _, tt := range []struct {
		name, field string
		body        []byte
		most        int64
		want        *Error
	}{
		{"whole", "gzip", gzip, math.MaxInt64, nil},
		{"at the limit", "gzip", gzip, int64(len(text)), nil},
		{"beyond it", "gzip", gzip, int64(len(text)) - 1, ErrDecodedTooLong},
		{"several", "br, zstd", codingtest.Encode("br, zstd", text), math.MaxInt64, nil},
		{"cut off", "gzip", gzip[:len(gzip)-1], math.MaxInt64, ErrCoding},
		{"another", "zstd", gzip, math.MaxInt64, ErrCoding},
		{"unknown", "compress", gzip, math.MaxInt64, ErrUnknownCoding},
		{"a bomb", bombField, bomb, 1 << 20, ErrDecodedTooLong},
	} {
		got, fault := decode(tt.field, tt.body, tt.most)
		if fault != tt.want || fault == nil && !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v, want %v", tt.name, len(got), fault, tt.want)
		}
	}
	if d.Begin(0, 1) != nil || d.Decodes() {
		t.Error("without a coding there is something to decode")
	}
}

// An error has the beginning of the server's explanation, encoded or not.
func TestEncodedRefusals(t *testing.T) {
	whole := []byte(`{"error":{"message":"no tokens"}}`)
	plain := StatusError(429)
	for field, content := range map[string][]byte{
		"":         whole,
		"gzip":     codingtest.Encode("gzip", whole),
		"br,zstd":  codingtest.Encode("br,zstd", whole),
		"deflate":  codingtest.Encode("deflate", whole),
		"compress": nil,
	} {
		want := plain.Text + ": no tokens"
		if content == nil {
			content, want = whole, plain.Text
		}
		if got := new(Refusals).Decoded(plain, content, Codings(0).Add([]byte(field))); got.Text != want {
			t.Errorf("%s: %q, want %q", field, got.Text, want)
		}
	}
}
