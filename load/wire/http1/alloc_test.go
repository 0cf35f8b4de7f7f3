package http1

import (
	"bytes"
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

func TestNoAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, tt := range []struct {
		name  string
		input string
		piece int
	}{
		{"whole", nginx, 1 << 20},
		{"chunked", chunkedResponse, 1 << 20},
		{"informational", "HTTP/1.1 100 C\r\n\r\n" + nginx, 1 << 20},
		{"pieces", nginx, 7},
		{"chunked pieces", chunkedResponse, 7},
		{"folded", strings.Replace(nginx, "Server: ", "Server:\r\n ", 1), 1 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTemplate(t, testConfig()).Client()
			input := []byte(tt.input)
			date := bytes.Index(input, []byte("GMT")) - 2
			run := func() {
				input[date] = '0' + (input[date]-'0'+1)%10 // the memo misses, and hits after three
				for range 3 {
					exchange(t, c, input, tt.piece)
				}
				c.Reset()
			}
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%v allocations per three exchanges; want none", n)
			}
		})
	}
	t.Run("failures", func(t *testing.T) {
		c := newTemplate(t, testConfig()).Client()
		bad := [][]byte{[]byte("HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n"), []byte("HTTP/1.1 2000\r\n"), []byte("x")}
		run := func() {
			for _, input := range bad {
				c.Reset()
				c.Request()
				if _, _, err := c.Response(input); err == nil {
					t.Error("no error")
				}
			}
		}
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%v allocations; want none", n)
		}
	})
}

func TestComposeDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	template := newTemplate(t, Config{
		Requests: []Request{{Method: "POST", VariesTarget: true, Host: "h", VariesBody: true, Header: []Field{{Name: "A", Varies: true}}}},
		Fields:   []string{"etag"},
	})
	client := template.Client()
	parts := [][]byte{[]byte("/path"), []byte("value"), []byte("body")}
	responses := [][]byte{
		[]byte("HTTP/1.1 200 OK\r\nETag: 1\r\nContent-Length: 2\r\n\r\nhi"),
		[]byte("HTTP/1.1 200 OK\r\nETag: 2\r\nContent-Length: 2\r\n\r\nhi"),
	}
	n := 0
	exchange := func() {
		client.Compose(0, parts)
		p := responses[n/2%2] // remembered every other time
		n++
		used, size, _, err := client.Content(p)
		if err != nil || size != 2 || len(client.Fields()) != 1 {
			t.Fatal(used, size, err)
		}
		client.Take(size)
		if _, _, done, err := client.Content(p[used+size:]); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	exchange()
	if allocs := testing.AllocsPerRun(200, exchange); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
