package http2

import (
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// nginxBlock is the header block of nginx's default page: it indexes the status, and
// sends all else as literals, encoded, each time.
func nginxBlock(date string) []byte {
	b := []byte{0x88}
	for _, f := range [][2]string{
		{"server", "nginx/1.22.1"},
		{"date", "Mon, 06 Jan 2025 " + date + " GMT"},
		{"content-type", "text/html"},
		{"content-length", "100"},
		{"last-modified", "Sun, 05 Jan 2025 09:00:00 GMT"},
		{"etag", `"677a4b10-64"`},
		{"accept-ranges", "bytes"},
	} {
		index, _ := staticIndex(f[0], "")
		b = appendText(appendName(b, index, f[0], 0x0f, 0), f[1])
	}
	return b
}

// usualConfig is a GET as a browser or h2load sends it.
func usualConfig(streams int) Config {
	return Config{
		Requests: []Request{{Request: http1.Request{
			Method: "GET", Host: "127.0.0.1:8080", Target: "/index.html?n=100", Header: []http1.Field{{Name: "accept", Value: "*/*"}},
		}, Scheme: "http"}},
		Streams: streams,
	}
}

// Once warm, nothing of an exchange allocates: whole and in pieces, with and without
// memos, with parts, bodies that wait for a window, cancellation, and pings.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	vary := usualConfig(1)
	vary.Requests[0].Request = http1.Request{
		Method: "POST", Host: "h", VariesTarget: true, VariesBody: true, Header: []http1.Field{{Name: "x-number", Varies: true}, {Name: "accept", Value: "*/*"}},
	}
	for _, tt := range []struct {
		name   string
		config Config
		cycle  func(c *Client, feed func([]byte))
	}{
		{"one at a time", usualConfig(1), func(c *Client, feed func([]byte)) {
			begin(t, c, 0, 0)
			c.Wrote(len(c.Output()))
			feed(oneResponse)
		}},
		{"table in use", usualConfig(1), func(c *Client, feed func([]byte)) {
			begin(t, c, 0, 0)
			c.Wrote(len(c.Output()))
			feed(tableResponse)
		}},
		{"body that waits", func() Config {
			config := usualConfig(1)
			config.Requests[0].Method, config.Requests[0].Body = "POST", make([]byte, 30_000)
			return config
		}(), func(c *Client, feed func([]byte)) {
			c.sendWindow, c.peerWindow = 20_000, 20_000
			begin(t, c, 0, 0)
			c.Wrote(len(c.Output()))
			feed(updates)
			c.Wrote(len(c.Output()))
			feed(oneResponse)
		}},
		{"parts", vary, func(c *Client, feed func([]byte)) {
			if err := c.Begin(0, 0, someParts); err != nil {
				t.Fatal(err)
			}
			c.Wrote(len(c.Output()))
			feed(oneResponse)
		}},
		{"bit by bit, with a full buffer", func() Config {
			config := usualConfig(1)
			config.Requests[0].BitByBit = true
			return config
		}(), func(c *Client, feed func([]byte)) {
			c.sendWindow, c.peerWindow = 20_000, 20_000
			begin(t, c, 0, 0)
			if n, err := c.Send(0, someBytes, false); n != 64<<10 || err != nil {
				t.Fatal(n, err)
			}
			c.Wrote(len(c.Output()))
			feed(updates)
			c.Wrote(len(c.Output()))
			feed(oneResponse)
		}},
		{"cancelled", usualConfig(1), func(c *Client, feed func([]byte)) {
			begin(t, c, 0, 0)
			c.Cancel(0)
			feed(oneResponse)
			feed(raw8)
			c.Wrote(len(c.Output()))
		}},
		{"another connection", usualConfig(1), func(c *Client, feed func([]byte)) {
			c.Reset()
			c.Wrote(len(c.Output()))
			feed(noSettings)
			begin(t, c, 0, 0)
			c.Wrote(len(c.Output()))
			feed(oneResponse)
		}},
	} {
		for _, piece := range []int{1 << 20, 100, 7} {
			c := newClient(t, tt.config)
			c.t.memoOff = piece == 100
			ended, e := 0, wire.MuxEvent{}
			feed := func(p []byte) {
				for len(p) > 0 {
					n, err := c.Input(p[:min(piece, len(p))], &e)
					if err != nil {
						t.Fatal(tt.name, err)
					}
					if e.Kind == wire.MuxEnded {
						ended++
					}
					p = p[n:]
				}
			}
			feed(noSettings)
			c.Wrote(len(c.Output()))
			cycle := func() {
				c.next = 1
				tt.cycle(c, feed)
				c.Wrote(len(c.Output()))
			}
			for range 70 { // until as many streams are remembered as ever are
				cycle()
			}
			if allocs := testing.AllocsPerRun(100, cycle); allocs != 0 {
				t.Errorf("%s in pieces of %d: %v allocations", tt.name, piece, allocs)
			}
			if ended == 0 && tt.name != "cancelled" {
				t.Errorf("%s: no exchange ended", tt.name)
			}
		}
	}
}

var (
	oneResponse = join(appendFrame(nil, frameHeaders, flagEndHeaders, 1, nginxBlock("10:00:00")), data(1, endStream, strings.Repeat("x", 100)))
	// An entry enters the table each time, and others leave.
	tableResponse = join(headerBlock(1, 0, "\x88\x40\x04date\x7f\x25"+strings.Repeat("d", 127+37)+"\xbe"), data(1, endStream, strings.Repeat("x", 100)))
	updates       = join(windowUpdate(0, 100_000), windowUpdate(1, 100_000))
	raw8          = raw(framePing, 0, 0, "12345678")
	noSettings    = settings()
	someParts     = [][]byte{[]byte("/users/12345"), []byte("12345"), []byte(strings.Repeat("body", 100))}
	someBytes     = make([]byte, 100_000)
)
