package http1

import (
	"strings"
	"testing"
)

// nginx is what nginx 1.2x answers for its default page, with the body cut to 64
// bytes.
var nginx = "HTTP/1.1 200 OK\r\n" +
	"Server: nginx/1.22.1\r\n" +
	"Date: Mon, 06 Jan 2025 10:00:00 GMT\r\n" +
	"Content-Type: text/html\r\n" +
	"Content-Length: 64\r\n" +
	"Last-Modified: Sun, 05 Jan 2025 09:00:00 GMT\r\n" +
	"Connection: keep-alive\r\n" +
	"ETag: \"677a4b10-40\"\r\n" +
	"Accept-Ranges: bytes\r\n" +
	"\r\n" + strings.Repeat("x", 64)

var chunkedResponse = "HTTP/1.1 200 OK\r\n" +
	"Date: Mon, 06 Jan 2025 10:00:00 GMT\r\n" +
	"Content-Type: application/json\r\n" +
	"Transfer-Encoding: chunked\r\n" +
	"\r\n" + "40\r\n" + strings.Repeat("x", 64) + "\r\n0\r\n\r\n"

func BenchmarkResponse(b *testing.B) {
	later := strings.Replace(nginx, "10:00:00", "10:00:01", 1)
	for _, bm := range []struct {
		name   string
		inputs []string
		piece  int
	}{
		{"same", []string{nginx}, 1 << 20},
		{"changed", []string{nginx, later}, 1 << 20},
		{"chunked", []string{chunkedResponse}, 1 << 20},
		{"pieces-of-100", []string{nginx}, 100},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := newTemplate(b, testConfig()).Client()
			inputs := make([][]byte, len(bm.inputs))
			for i, in := range bm.inputs {
				inputs[i] = []byte(in)
			}
			b.SetBytes(int64(len(inputs[0])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				exchange(b, c, inputs[i%len(inputs)], bm.piece)
			}
		})
	}
}

// exchange carries one successful response in pieces.
func exchange(tb testing.TB, c *Client, response []byte, piece int) {
	c.Request()
	done := false
	for len(response) > 0 {
		var err error
		if _, done, err = c.Response(response[:min(piece, len(response))]); err != nil {
			tb.Fatal(err)
		}
		response = response[min(piece, len(response)):]
	}
	if !done || !c.Reusable() {
		tb.Fatalf("done %v, reusable %v; want both", done, c.Reusable())
	}
}
