package http2

import (
	"strings"
	"testing"

	"dyno/load/wire"
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

// benchConfig is a GET as a browser or h2load sends it.
func benchConfig(streams int) Config {
	return Config{
		Requests: []Request{{Method: "GET", Scheme: "http", Authority: "127.0.0.1:8080", Path: "/index.html?n=100",
			Header: []Field{{Name: "accept", Value: "*/*"}}}},
		Streams: streams,
	}
}

// An exchange as the engine carries it out, all streams at once: begin, write, read. The
// response is two frames, as nginx answers, in one piece or several.
func BenchmarkExchange(b *testing.B) {
	later := nginxBlock("10:00:01")
	usual := nginxBlock("10:00:00")
	for _, bm := range []struct {
		name    string
		streams int
		blocks  [][]byte
		piece   int
	}{
		{"streams=1", 1, [][]byte{usual}, 1 << 20},
		{"streams=16", 16, [][]byte{usual}, 1 << 20},
		{"streams=1/new-head", 1, [][]byte{usual, later}, 1 << 20},
		{"streams=1/indexed", 1, [][]byte{{0x88, 0xbe, 0xbf, 0xc0}}, 1 << 20},
		{"streams=16/pieces-of-100", 16, [][]byte{usual}, 100},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := newClient(b, benchConfig(bm.streams))
			d := &driver{tb: b, c: c, streams: bm.streams, piece: bm.piece}
			d.settle()
			if len(bm.blocks[0]) < 5 { // what it refers to
				d.input = appendFrame(nil, frameHeaders, flagEndHeaders, 1, []byte("\x88\x40\x01a\x01b\x40\x01c\x01d\x40\x0econtent-length\x03100"))
				d.input = appendFrame(d.input, frameData, flagEndStream, 1, make([]byte, 100))
				d.begin(1)
				d.answer()
			}
			var numbers []uint32
			for i := range bm.streams {
				numbers = append(numbers, c.next+uint32(2*i))
			}
			d.input = d.input[:0]
			body := []byte(strings.Repeat("x", 100))
			var responses [][]byte
			for _, block := range bm.blocks {
				var r []byte
				for _, n := range numbers {
					r = appendFrame(r, frameHeaders, flagEndHeaders, n, block)
					r = appendFrame(r, frameData, flagEndStream, n, body)
				}
				responses = append(responses, r)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.next = numbers[0] // so that the responses can be made beforehand
				d.begin(bm.streams)
				d.input = responses[i%len(responses)]
				d.answer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bm.streams), "ns/exchange")
		})
	}
}

// A driver carries exchanges out as the engine does.
type driver struct {
	tb      testing.TB
	c       wire.Mux
	streams int
	piece   int
	input   []byte
	ended   int
}

func (d *driver) settle() {
	d.write()
	in := appendFrame(nil, frameSettings, 0, 0, nil)
	if n, e, err := d.c.Input(in); n != len(in) || e.Kind != wire.MuxNothing || err != nil {
		d.tb.Fatal(n, e, err)
	}
	d.write()
}

func (d *driver) write() { d.c.Wrote(len(d.c.Output())) }

func (d *driver) begin(n int) {
	for id := range n {
		if err := d.c.Begin(uint32(id), 0, nil); err != nil {
			d.tb.Fatal(err)
		}
	}
	d.write()
}

func (d *driver) answer() {
	d.ended = 0
	for rest := d.input; len(rest) > 0; {
		piece := rest[:min(d.piece, len(rest))]
		rest = rest[len(piece):]
		for {
			n, e, err := d.c.Input(piece)
			if err != nil {
				d.tb.Fatal(err)
			}
			piece = piece[n:]
			switch e.Kind {
			case wire.MuxEnded:
				d.ended++
			case wire.MuxNothing:
			}
			if e.Kind == wire.MuxNothing {
				break
			}
		}
	}
	if len(d.c.Output()) > 0 {
		d.write()
	}
}
