package protocols

import (
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/load/wire"
)

// Each protocol says what its load is spoken with.
func TestCodecs(t *testing.T) {
	of := func(protocol string, change func(v *plan.Variant)) *plan.Variant {
		v := plan.DefaultVariant(protocol)
		v.Target.URL, v.Target.Address = "http://127.0.0.1:1/{topic}", "127.0.0.1:1"
		if change != nil {
			change(&v)
		}
		return &v
	}
	publish := func(v *plan.Variant) {
		v.Load.Subscribers.Topics = 2
		v.Load.Publish = &plan.Publish{Path: "/p", Size: 100, Form: plan.FormMercure, Topic: "t{topic}"}
	}
	for _, c := range []struct {
		name            string
		variant         *plan.Variant
		request, stream string // what they begin with; empty: there are none
	}{
		{"http", of(plan.HTTP, func(v *plan.Variant) { v.Load.Request.Path = "/x?y=1" }), "GET /x?y=1 HTTP/1.1\r\n", ""},
		{"http with a body", of(plan.HTTP, func(v *plan.Variant) { v.Load.Request.Body = "x" }), "POST /%7Btopic%7D HTTP/1.1\r\n", ""},
		{"http with a body in a file", of(plan.HTTP, func(v *plan.Variant) { v.Load.Request.BodyFile = "protocol_test.go" }), "POST /%7Btopic%7D HTTP/1.1\r\n", ""},
		{"http with a method", of(plan.HTTP, func(v *plan.Variant) { v.Load.Request.Method, v.Load.Request.Body = "GET", "x" }), "GET /%7Btopic%7D HTTP/1.1\r\n", ""},
		{"tcp", of(plan.TCP, func(v *plan.Variant) { v.Load.Payload, v.Load.Framing = 4, plan.FramingLine }), "xxx\n", ""},
		{"tcp with lengths", of(plan.TCP, func(v *plan.Variant) { v.Load.Payload, v.Load.Framing = 2, plan.FramingLength }), "\x00\x00\x00\x02", ""},
		{"sse", of(plan.SSE, nil), "", "GET /0 HTTP/1.1\r\n"},
		{"sse with publications", of(plan.SSE, publish), "POST /p HTTP/1.1\r\n", "GET /1 HTTP/1.1\r\n"},
	} {
		codecs, err := CodecsOf(t.Context(), c.variant, 1, 2)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if (codecs.Clients != nil) != (c.request != "") || (codecs.Streams != nil) != (c.stream != "") {
			t.Errorf("%s: clients %t, streams %t", c.name, codecs.Clients != nil, codecs.Streams != nil)
			continue
		}
		if codecs.Clients != nil {
			client := codecs.Clients(1)()
			client.Reset()
			if got := client.Request(); !strings.HasPrefix(string(got), c.request) {
				t.Errorf("%s: %.40q, want %q", c.name, got, c.request)
			}
		}
		if codecs.Streams != nil {
			stream := codecs.Streams(1)(1)
			stream.Reset()
			if got := stream.Request(); !strings.HasPrefix(string(got), c.stream) {
				t.Errorf("%s: %.40q, want %q", c.name, got, c.stream)
			}
		}
	}
	for _, c := range []struct {
		variant *plan.Variant
		want    string
	}{
		{of(plan.HTTP, func(v *plan.Variant) { v.Load.Request.BodyFile = "testdata/none" }), "load.request.body_file: "},
		{of(plan.HTTP, func(v *plan.Variant) { v.Target.URL = "nothing" }), "nothing"},
		{of(plan.SSE, func(v *plan.Variant) { v.Load.Publish = &plan.Publish{Path: "/a b", Size: 100} }), "load.publish: "},
		{of(plan.Program, nil), "a program is run"},
	} {
		if _, err := CodecsOf(t.Context(), c.variant, 1, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.variant.Target.Protocol, err, c.want)
		}
	}
}

// Content is counted, however long it is, and a header may be as large as the plan says.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, response string
		header         int
		want           wire.Kind
	}{
		{"3 GiB of content", "HTTP/1.1 200 OK\r\nContent-Length: 3221225472\r\n\r\n", 64 << 10, wire.None},
		{"100 kB of header", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 100_000) + "\r\nContent-Length: 0\r\n\r\n", 64 << 10, wire.Limit},
		{"100 kB of header, which it may have", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 100_000) + "\r\nContent-Length: 0\r\n\r\n", 128 << 10, wire.None},
	} {
		v := plan.DefaultVariant(plan.HTTP)
		v.Target.URL, v.Target.Address, v.Load.MaxHeader = "http://127.0.0.1:1/", "127.0.0.1:1", c.header
		codecs, err := CodecsOf(t.Context(), &v, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		client := codecs.Clients(0)()
		client.Reset()
		client.Request()
		if _, _, err := client.Response([]byte(c.response)); wire.KindOf(err) != c.want {
			t.Errorf("%s: %v, want kind %v", c.name, err, c.want)
		}
	}
}

// All protocols with a URL, and both versions of HTTP, have the limit of a header.
func TestLimitsOfProtocols(t *testing.T) {
	const large = 100_000
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nA: " + strings.Repeat("x", large) + "\r\n\r\n")
	ask, publish := plan.DefaultVariant(plan.LLM), plan.DefaultVariant(plan.SSE)
	ask.Load.Ask.Model = "m"
	publish.Load.Publish = &plan.Publish{Path: "/p", Size: 100, Form: plan.FormMercure, Topic: "t"}
	call := ofGRPC(t, "t.Echo/Expand", func(v *plan.Variant) { v.Load.Call.Web, v.Load.HTTP2.Use = plan.WebText, plan.HTTP2Never })
	for _, v := range []*plan.Variant{&ask, &publish, call} {
		v.Target.URL, v.Target.Address = "http://127.0.0.1:1/", "127.0.0.1:1"
		if v == call {
			v.Target.URL = "http://127.0.0.1:1"
		}
		for _, header := range []int{large / 2, 2 * large} {
			v.Load.MaxHeader = header
			codecs, err := CodecsOf(t.Context(), v, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			client := codecs.Clients(0)()
			client.Reset()
			client.Request()
			_, _, err = client.Response(answer)
			if got := wire.KindOf(err) == wire.Limit; got != (header < large) {
				t.Errorf("%s, limit %d: %v", v.Target.Protocol, header, err)
			}
			if codecs.Streams == nil {
				continue
			}
			stream := codecs.Streams(0)(0)
			stream.Reset()
			stream.Request()
			n, _, err := stream.Next(answer)
			if err == nil {
				_, _, err = stream.Next(answer[n:])
			}
			if got := wire.KindOf(err) == wire.Limit; got != (header < large) {
				t.Errorf("a stream, limit %d: %v", header, err)
			}
		}
	}
	if l := http2Config(&call.Load).MaxHeader; l != 2*large {
		t.Errorf("HTTP/2: %d", l)
	}
}

// A line is counted, and not held.
func TestLongLine(t *testing.T) {
	v := plan.DefaultVariant(plan.TCP)
	v.Target.Address, v.Load.Payload, v.Load.Framing = "127.0.0.1:1", 4, plan.FramingLine
	codecs, err := CodecsOf(t.Context(), &v, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	client := codecs.Clients(0)()
	client.Reset()
	client.Request()
	if _, done, err := client.Response([]byte(strings.Repeat("x", 1<<20) + "\n")); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}
