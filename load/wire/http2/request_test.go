package http2

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"dyno/load/wire/http1"
	"dyno/load/wire/wiretest"
)

// Faults that HTTP/1.1 has as well are tested with package http1.
func TestRequestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   string // part of the message; none if it is sound
	}{
		{"sound", func(*Request) {}, ""},
		{"asterisk", func(r *Request) { r.Method, r.Target = "OPTIONS", "*" }, ""},
		{"te", func(r *Request) { r.Header = []http1.Field{{Name: "TE", Value: "trailers"}} }, ""},
		{"method", func(r *Request) { r.Method = "G T" }, `method "G T"`},
		{"scheme", func(r *Request) { r.Scheme = "ftp" }, `scheme "ftp": want http or https`},
		{"target of a proxy", func(r *Request) { r.Target = "http://h/" }, `target "http://h/"`},
		{"space around a value", func(r *Request) { r.Header = []http1.Field{{Name: "a", Value: " x"}} }, "no space around"},
		{"connection", func(r *Request) { r.Header = []http1.Field{{Name: "Connection", Value: "close"}} }, "HTTP/2 has no such field"},
		{"te of another kind", func(r *Request) { r.Header = []http1.Field{{Name: "te", Value: "gzip"}} }, "want trailers"},
	} {
		r := Request{Request: http1.Request{Method: "GET", Host: "h:8080", Target: "/a?b=%20"}, Scheme: "http"}
		tt.change(&r)
		err := r.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Requests = nil }, "no request"},
		{func(c *Config) { c.Requests[1].Target = "x" }, `request 2: target "x"`},
		{func(c *Config) {
			c.Requests[0].Header = []http1.Field{{Name: "a", Value: strings.Repeat("\"", 300<<10)}}
		}, "request 1: header of 3"},
		{func(c *Config) { c.Streams = 0 }, "streams 0: want 1 to 10000"},
		{func(c *Config) { c.Streams = 10001 }, "streams 10001"},
		{func(c *Config) { c.Fields = make([]string, 65) }, "65 fields"},
		{func(c *Config) { c.Fields = []string{"Etag"} }, `field 1 "Etag"`},
		{func(c *Config) { c.Fields = []string{":status"} }, `field 1 ":status"`},
	} {
		config := testConfig()
		tt.change(&config)
		_, err := NewTemplate(config)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// decodeRequest decodes a header block as the peer does.
func decodeRequest(tb wiretest.TB, d *hpack.Decoder, block []byte) (lines []string) {
	tb.Helper()
	fields, err := d.DecodeFull(block)
	if err != nil {
		tb.Fatalf("%x: %v", block, err)
	}
	for _, f := range fields {
		lines = append(lines, f.Name+": "+f.Value)
	}
	return lines
}

// The peer reads the intended requests, with any parts and any table size it allows.
func TestEncoderAgrees(t *testing.T) {
	value := rapid.OneOf(rapid.StringMatching(`[!-~]{0,30}`), rapid.SampledFrom([]string{"", "x", "gzip, deflate"}),
		rapid.Map(rapid.IntRange(0, 2000), func(n int) string { return strings.Repeat("v", n) }))
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		config.Requests = nil
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			r := http1.Request{
				Method: rapid.SampledFrom([]string{"GET", "POST", "PURGE"}).Draw(t, "method"),
				Host:   rapid.SampledFrom([]string{"a", "b.example:81"}).Draw(t, "host"), Target: "/",
			}
			if r.VariesTarget = rapid.Bool().Draw(t, "varies target"); r.VariesTarget {
				r.Target = ""
			}
			r.VariesBody = rapid.Bool().Draw(t, "varies body")
			for range rapid.IntRange(0, 30).Draw(t, "fields") {
				f := http1.Field{
					Name:   rapid.OneOf(rapid.SampledFrom([]string{"accept", "a", "b", "user-agent"}), rapid.StringMatching(`x-[a-z]{1,3}`)).Draw(t, "name"),
					Varies: rapid.Bool().Draw(t, "varies"),
				}
				if !f.Varies {
					f.Value = value.Draw(t, "value")
				}
				r.Header = append(r.Header, f)
			}
			config.Requests = append(config.Requests, Request{Request: r, Scheme: "http"})
		}
		c := newClient(t, config)
		d := hpack.NewDecoder(defaultTableSize, nil)
		for range rapid.IntRange(1, 10).Draw(t, "exchanges") {
			for range rapid.IntRange(0, 2).Draw(t, "changes of the table") {
				size := rapid.SampledFrom([]uint32{0, 64, 200, 1000, 4096, 1 << 20}).Draw(t, "size")
				c.encoder.limit(size)
				d.SetAllowedMaxDynamicTableSize(size)
			}
			p := &c.t.requests[rapid.IntRange(0, len(config.Requests)-1).Draw(t, "request")]
			r := p.request
			var parts [][]byte
			part := func(s string) string { parts = append(parts, []byte(s)); return s }
			want := []string{":method: " + r.Method, ":scheme: http", ":authority: " + r.Host}
			if r.VariesTarget {
				want = append(want, ":path: "+part("/"+value.Draw(t, "path")))
			} else {
				want = append(want, ":path: /")
			}
			if !r.Has("user-agent") {
				want = append(want, "user-agent: dyno")
			}
			for _, f := range r.Header {
				if f.Varies {
					f.Value = part(value.Draw(t, "part"))
				}
				want = append(want, f.Name+": "+f.Value)
			}
			if r.VariesBody {
				want = append(want, fmt.Sprintf("content-length: %d", len(part(value.Draw(t, "body")))))
			} else if r.Method == "POST" {
				want = append(want, "content-length: 0")
			}
			block := c.encoder.append(nil, p, parts)
			if len(block) > p.bound(parts) {
				t.Fatalf("%d bytes, bound %d", len(block), p.bound(parts))
			}
			if got := decodeRequest(t, d, block); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got  %q\nwant %q", got, want)
			}
		}
	})
}
