package http2

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"dyno/load/wire/wiretest"
)

func TestRequestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   string // part of the message; none if it is sound
	}{
		{"sound", func(*Request) {}, ""},
		{"asterisk", func(r *Request) { r.Method, r.Path = "OPTIONS", "*" }, ""},
		{"te", func(r *Request) { r.Header = []Field{{Name: "TE", Value: "trailers"}} }, ""},
		{"content-length", func(r *Request) { r.Header, r.Body = []Field{{Name: "Content-Length", Value: "2"}}, []byte("ab") }, ""},
		{"content-length of what comes later", func(r *Request) { r.Header, r.BitByBit = []Field{{Name: "content-length", Value: "7"}}, true }, ""},
		{"no method", func(r *Request) { r.Method = "" }, `method ""`},
		{"method", func(r *Request) { r.Method = "G T" }, `method "G T"`},
		{"connect", func(r *Request) { r.Method = "CONNECT" }, "tunnels"},
		{"scheme", func(r *Request) { r.Scheme = "ftp" }, `scheme "ftp": want http or https`},
		{"authority", func(r *Request) { r.Authority = "" }, `authority ""`},
		{"authority with a path", func(r *Request) { r.Authority = "h/p" }, `authority "h/p"`},
		{"path", func(r *Request) { r.Path = "x" }, `path "x"`},
		{"path with a space", func(r *Request) { r.Path = "/a b" }, `path "/a b"`},
		{"path with a fragment", func(r *Request) { r.Path = "/a#b" }, `path "/a#b"`},
		{"asterisk with GET", func(r *Request) { r.Path = "*" }, `path "*"`},
		{"path that varies", func(r *Request) { r.VariesPath = true }, "want none, as it varies"},
		{"field name", func(r *Request) { r.Header = []Field{{Name: "a b"}} }, `header 1 "a b": want a token`},
		{"pseudo-header field", func(r *Request) { r.Header = []Field{{Name: ":path", Value: "/"}} }, "want a token"},
		{"field value", func(r *Request) { r.Header = []Field{{Name: "a", Value: "x\n"}} }, "no control bytes"},
		{"space around a value", func(r *Request) { r.Header = []Field{{Name: "a", Value: " x"}} }, "no space around"},
		{"value that varies", func(r *Request) { r.Header = []Field{{Name: "a", Value: "x", Varies: true}} }, "want none, as it varies"},
		{"indexing", func(r *Request) { r.Header = []Field{{Name: "a", Indexing: 3}} }, "indexing 3"},
		{"host", func(r *Request) { r.Header = []Field{{Name: "Host", Value: "h"}} }, "authority"},
		{"connection", func(r *Request) { r.Header = []Field{{Name: "Connection", Value: "close"}} }, "HTTP/2 has no such field"},
		{"te of another kind", func(r *Request) { r.Header = []Field{{Name: "te", Value: "gzip"}} }, "want trailers"},
		{"wrong content-length", func(r *Request) { r.Header = []Field{{Name: "content-length", Value: "1"}} }, "want 0"},
		{"content-length of what varies", func(r *Request) { r.Header, r.VariesBody = []Field{{Name: "content-length", Value: "0"}}, true }, "it is added"},
		{"content-length twice", func(r *Request) {
			r.Header = []Field{{Name: "content-length", Value: "0"}, {Name: "content-length", Value: "0"}}
		}, "want it once"},
		{"body of what comes later", func(r *Request) { r.Body, r.BitByBit = []byte("x"), true }, "given later"},
		{"body that varies", func(r *Request) { r.Body, r.VariesBody = []byte("x"), true }, "body of 1 bytes"},
	} {
		r := Request{Method: "GET", Scheme: "http", Authority: "h:8080", Path: "/a?b=%20"}
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
		{func(c *Config) { c.Requests[1].Path = "x" }, `request 2: path "x"`},
		{func(c *Config) { c.Requests[0].Header = []Field{{Name: "a", Value: strings.Repeat("\"", 300<<10)}} }, "request 1: header of 3"},
		{func(c *Config) { c.Streams = 0 }, "streams 0: want 1 to 10000"},
		{func(c *Config) { c.Streams = 10001 }, "streams 10001"},
		{func(c *Config) { c.SendBuffer = -1 }, "send buffer -1"},
		{func(c *Config) { c.Fields = make([]string, 65) }, "65 fields"},
		{func(c *Config) { c.Fields = []string{"Etag"} }, `field 1 "Etag"`},
		{func(c *Config) { c.Fields = []string{":status"} }, `field 1 ":status"`},
		{func(c *Config) { c.Settings = DefaultSettings(); c.Settings.StreamWindow = 0 }, "stream window 0: want 1 to 2147483647"},
		{func(c *Config) { c.Settings = DefaultSettings(); c.Settings.ConnectionWindow = 65534 }, "connection window 65534: want 65535"},
		{func(c *Config) { c.Settings = DefaultSettings(); c.Settings.MaxFrameSize = 1 }, "max frame size 1"},
		{func(c *Config) { c.Settings = DefaultSettings(); c.Settings.HeaderTableSize = -1 }, "header table size -1"},
		{func(c *Config) { c.Limits = DefaultLimits(); c.Limits.HeaderBytes = 1 }, "header limit 1"},
		{func(c *Config) { c.Limits = DefaultLimits(); c.Limits.BodyBytes = -1 }, "body limit -1"},
		{func(c *Config) { c.Limits = DefaultLimits(); c.Limits.Informational = 256 }, "informational limit 256"},
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
		sensitive := ""
		if f.Sensitive {
			sensitive = " (never indexed)"
		}
		lines = append(lines, f.Name+": "+f.Value+sensitive)
	}
	return lines
}

func TestRequestOnTheWire(t *testing.T) {
	config := testConfig()
	config.Requests = []Request{
		{Method: "GET", Scheme: "http", Authority: "example.org", Path: "/index.html?page=1", Header: []Field{
			{Name: "Accept", Value: "*/*"}, {Name: "authorization", Value: "Bearer 0123456789"}, {Name: "accept-encoding", Value: "gzip, deflate"}}},
		{Method: "PUT", Scheme: "https", Authority: "example.org", VariesPath: true, VariesBody: true, Header: []Field{
			{Name: "User-Agent", Value: "other"}, {Name: "x-trace", Varies: true}, {Name: "etag", Varies: true},
			{Name: "x-secret", Value: "s", Indexing: NeverIndexed}, {Name: "x-plain", Value: "p", Indexing: Plain}, {Name: "x-token", Varies: true, Indexing: NeverIndexed}}},
		{Method: "POST", Scheme: "http", Authority: "example.org", Path: "/", Body: []byte("abc")},
	}
	c := newClient(t, config)
	d := hpack.NewDecoder(defaultTableSize, nil)
	encode := func(request int, parts ...string) ([]string, int) {
		var b [][]byte
		for _, p := range parts {
			b = append(b, []byte(p))
		}
		block := c.encoder.append(nil, &c.t.requests[request], b)
		if bound := c.t.requests[request].bound(b); len(block) > bound {
			t.Errorf("request %d: %d bytes, bound %d", request, len(block), bound)
		}
		return decodeRequest(t, d, block), len(block)
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	first := []string{":method: GET", ":scheme: http", ":authority: example.org", ":path: /index.html?page=1",
		"user-agent: dyno", "accept: */*", "authorization: Bearer 0123456789", "accept-encoding: gzip, deflate"}
	got, _ := encode(0)
	expect(got, first...)
	got, size := encode(0)
	expect(got, first...)
	if size != len(first) {
		t.Errorf("a request that repeats itself takes %d bytes, want one for each of %d fields", size, len(first))
	}
	second := func(path, trace, etag, token, length string) []string {
		return []string{":method: PUT", ":scheme: https", ":authority: example.org", ":path: " + path, "user-agent: other", "x-trace: " + trace, "etag: " + etag,
			"x-secret: s (never indexed)", "x-plain: p", "x-token: " + token + " (never indexed)", "content-length: " + length}
	}
	got, _ = encode(1, "/a", "1", "one", "t", "body")
	expect(got, second("/a", "1", "one", "t", "4")...)
	got, _ = encode(1, "/b?c=~", "22", "", "u", strings.Repeat("x", 1000))
	expect(got, second("/b?c=~", "22", "", "u", "1000")...)
	got, size = encode(2)
	expect(got, ":method: POST", ":scheme: http", ":authority: example.org", ":path: /", "user-agent: dyno", "content-length: 3")
	if size != 5+3 { // the length is new
		t.Errorf("%d bytes", size)
	}
}

// Whatever the requests, their parts, and what the peer allows its table to be, the peer
// reads what was meant.
func TestEncoderAgrees(t *testing.T) {
	value := rapid.OneOf(rapid.StringMatching(`[!-~]{0,30}`), rapid.SampledFrom([]string{"", "x", "gzip, deflate"}),
		rapid.Map(rapid.IntRange(0, 2000), func(n int) string { return strings.Repeat("v", n) }))
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		config.Requests = nil
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			r := Request{Method: rapid.SampledFrom([]string{"GET", "POST", "PURGE"}).Draw(t, "method"), Scheme: "http",
				Authority: rapid.SampledFrom([]string{"a", "b.example:81"}).Draw(t, "authority"), Path: "/"}
			if r.VariesPath = rapid.Bool().Draw(t, "varies path"); r.VariesPath {
				r.Path = ""
			}
			r.VariesBody = rapid.Bool().Draw(t, "varies body")
			for range rapid.IntRange(0, 30).Draw(t, "fields") {
				f := Field{Name: rapid.OneOf(rapid.SampledFrom([]string{"accept", "a", "b", "user-agent"}), rapid.StringMatching(`x-[a-z]{1,3}`)).Draw(t, "name"),
					Varies: rapid.Bool().Draw(t, "varies"), Indexing: Indexing(rapid.IntRange(0, 2).Draw(t, "indexing"))}
				if !f.Varies {
					f.Value = value.Draw(t, "value")
				}
				r.Header = append(r.Header, f)
			}
			config.Requests = append(config.Requests, r)
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
			want := []string{":method: " + r.Method, ":scheme: http", ":authority: " + r.Authority}
			if r.VariesPath {
				want = append(want, ":path: "+part("/"+value.Draw(t, "path")))
			} else {
				want = append(want, ":path: /")
			}
			if r.count("user-agent") == 0 {
				want = append(want, "user-agent: dyno")
			}
			for _, f := range r.Header {
				if f.Varies {
					f.Value = part(value.Draw(t, "part"))
				}
				mark := ""
				if f.Indexing == NeverIndexed {
					mark = " (never indexed)"
				}
				want = append(want, f.Name+": "+f.Value+mark)
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
