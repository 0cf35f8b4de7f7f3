package llm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"dyno/internal/contentcoding/codingtest"
	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// An answer that the server has encoded is read like any other, however it is cut into pieces.
func TestEncodedAnswers(t *testing.T) {
	text := []byte("data: " + token("a") + "\n\ndata: " + token("b") + "\n\ndata: " + stop + "\n\ndata: [DONE]") // the last empty line may be missing
	gzip := codingtest.Encode("gzip", text)
	bombField := "gzip, gzip"
	bomb := codingtest.Encode(bombField, bytes.Repeat([]byte(":"+strings.Repeat("x", 100_000)+"\n"), maxDecoded/100_000+1)) // no line is too long
	for _, tt := range []struct {
		name, field string
		body        []byte
		want        error
	}{
		{"gzip", "gzip", gzip, nil},
		{"x-gzip, upper case", "X-GZIP", gzip, nil},
		{"identity", "identity", text, nil},
		{"deflate", "deflate", codingtest.Encode("deflate", text), nil},
		{"deflate without a header", "deflate", codingtest.Encode(codingtest.Raw, text), nil},
		{"br", "br", codingtest.Encode("br", text), nil},
		{"zstd", "zstd", codingtest.Encode("zstd", text), nil},
		{"several", "br, gzip", codingtest.Encode("br, gzip", text), nil},
		{"cut off", "gzip", gzip[:len(gzip)-1], wire.ErrCoding},
		{"another", "br", gzip, wire.ErrCoding},
		{"unknown", "compress", gzip, wire.ErrUnknownCoding},
		{"a bomb", bombField, bomb, wire.ErrDecodedTooLong},
		{"an error within", "gzip", codingtest.Encode("gzip", []byte(`data: {"error":{"message":"overloaded"}}`)), &wire.Error{Kind: wire.Assertion, Text: ErrServer.Text + ": overloaded"}},
	} {
		response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", tt.field, len(tt.body), tt.body)
		c := client(t)
		for _, piece := range []int{len(response), 7} {
			if piece == 7 && len(response) > 10_000 {
				continue
			}
			c.Request()
			var done bool
			var err error
			for rest := response; len(rest) > 0 && err == nil; {
				p := rest[:min(piece, len(rest))]
				var n int
				if n, done, err = c.Response(p); n != len(p) {
					t.Fatalf("%s: %d of %d bytes, %v", tt.name, n, len(p), err)
				}
				rest = rest[n:]
			}
			if fmt.Sprint(err) != fmt.Sprint(tt.want) || !done || !c.Reusable() || err == nil && c.Messages() != 2 {
				t.Errorf("%s in pieces of %d: %v, %d pieces, done %v, want %v", tt.name, piece, err, c.Messages(), done, tt.want)
			}
		}
		c.Reset()
	}
}

// A plain response among those to a model is kept as what it decodes to.
func TestEncodedPlainContent(t *testing.T) {
	template, err := NewTemplate(Config{
		Requests: []http1.Request{{Method: "GET", Target: "/", Host: "h"}}, Expects: []Expect{{Plain: true, Keep: 100}}, Accept: func(int) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := template.Client()
	c.Reset()
	const text = `{"id":"17"}`
	body := codingtest.Encode("gzip", []byte(text))
	c.Compose(0, nil)
	_, done, err := c.Response(fmt.Appendf(nil, "HTTP/1.1 404 x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if got, size := c.Collected(); !done || err != nil || string(got) != text || size != int64(len(text)) {
		t.Errorf("%q of %d bytes, %v, %v", got, size, done, err)
	}
}
