package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEncode(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Request
		want string
	}{
		{"get", Request{Method: "GET", Target: "/a?b=c", Host: "h:8080"},
			"GET /a?b=c HTTP/1.1\r\nHost: h:8080\r\nUser-Agent: dyno\r\n\r\n"},
		{"fields in order, own user agent", Request{Method: "GET", Target: "/", Host: "[::1]", Header: []Field{{Name: "X-B", Value: "1"}, {Name: "user-agent", Value: "u"}, {Name: "x-a", Value: ""}}},
			"GET / HTTP/1.1\r\nHost: [::1]\r\nX-B: 1\r\nuser-agent: u\r\nx-a: \r\n\r\n"},
		{"body", Request{Method: "POST", Target: "/", Host: "h", Body: []byte("a\r\n\x00")},
			"POST / HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\nContent-Length: 4\r\n\r\na\r\n\x00"},
		{"body of 0 bytes", Request{Method: "PUT", Target: "/", Host: "h"},
			"PUT / HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\nContent-Length: 0\r\n\r\n"},
		{"own content-length", Request{Method: "GET", Target: "/", Host: "h", Header: []Field{{Name: "content-length", Value: "2"}}, Body: []byte("hi")},
			"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\ncontent-length: 2\r\n\r\nhi"},
		{"options", Request{Method: "OPTIONS", Target: "*", Host: "h"},
			"OPTIONS * HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\n\r\n"},
		{"absolute target", Request{Method: "GET", Target: "http://o/x", Host: "o"},
			"GET http://o/x HTTP/1.1\r\nHost: o\r\nUser-Agent: dyno\r\n\r\n"},
	} {
		got, err := tt.r.Encode()
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n got %q\nwant %q", tt.name, err, got, tt.want)
		}
	}
}

func TestRequestFaults(t *testing.T) {
	_, err := Request{
		Method: "GE T", Target: "/a b", Host: "h\r\nX: y", Body: []byte("12345"),
		Header: []Field{
			{Name: "X:", Value: "a"}, {Name: "Y", Value: "a\r\nb"}, {Name: "hOst", Value: "h"}, {Name: "Transfer-Encoding", Value: "chunked"},
			{Name: "Upgrade", Value: "h2c"}, {Name: "Content-Length", Value: "4"}, {Name: "content-length", Value: "5"}, {Name: "Fine", Value: "é"},
		},
	}.Encode()
	want := `http1 request: method "GE T": want a token such as GET
target "/a b": byte 3 is ' ': want it percent-encoded
host "h\r\nX: y": want a host name or address, with :port unless it is 80
header 1 "X:": want a token as the name
header 2 "Y": value "a\r\nb": want no control bytes
header 3 "hOst": want it set as the request's host
header 4 "Transfer-Encoding": want none, as the body is sent whole with its content-length
header 5 "Upgrade": want none, as no other protocol can be switched to
header 6 "Content-Length": value "4": want 5, the body's length, or no such field
header 7 "content-length": want it once`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %v", err, want)
	}
	good := Request{Method: "GET", Target: "/", Host: "h"}
	for _, tt := range []struct {
		change func(*Request)
		want   string
	}{
		{func(r *Request) { r.Method = "" }, `method "": want a token`},
		{func(r *Request) { r.Method = "CONNECT" }, "tunnels"},
		{func(r *Request) { r.Target = "" }, `target "": want a path`},
		{func(r *Request) { r.Target = "a" }, `target "a": want a path`},
		{func(r *Request) { r.Target = "*" }, `target "*": want a path`},
		{func(r *Request) { r.Target = "/\xff" }, "percent-encoded"},
		{func(r *Request) { r.Target = "/a#b" }, "byte 3 is '#'"},
		{func(r *Request) { r.Host = "" }, `host "": want`},
		{func(r *Request) { r.Host = "u@h" }, `host "u@h": want`},
		{func(r *Request) { r.Host = "h/p" }, `host "h/p": want`},
		{func(r *Request) { r.Header = []Field{{Name: "", Value: "x"}} }, "want a token as the name"},
		{func(r *Request) { r.Header = []Field{{Name: "A", Value: "\x00"}} }, "no control bytes"},
		{func(r *Request) { r.Header = []Field{{Name: "Content-Length", Value: "+0"}} }, "want 0, the body's length"},
	} {
		r := good
		tt.change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: got %v; want one fault with %q", r, err, tt.want)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// A server reads whatever Encode accepts as one request, the intended one.
func TestEncodeIsReadAsMeant(t *testing.T) {
	any := rapid.StringMatching(`[\x00-\x7fé]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		r := Request{
			Method: rapid.OneOf(rapid.SampledFrom([]string{"GET", "POST", "HEAD"}), any).Draw(t, "method"),
			Target: "/" + any.Draw(t, "target"),
			Host:   "h" + any.Draw(t, "host"),
			Body:   rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			name := rapid.OneOf(rapid.SampledFrom([]string{"X-A", "Host", "Content-Length", "Transfer-Encoding"}), any)
			r.Header = append(r.Header, Field{Name: name.Draw(t, "name"), Value: any.Draw(t, "value")})
		}
		encoded, err := r.Encode()
		if err != nil {
			return
		}
		br := bufio.NewReader(bytes.NewReader(encoded))
		got, err := http.ReadRequest(br)
		if err != nil {
			if strings.ContainsAny(r.Target, "%:") || strings.ContainsAny(r.Host, "%:[]") {
				return // net/http also parses them as a URL, which is not for Encode to do
			}
			t.Fatalf("%q: %v", encoded, err)
		}
		body, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(body, r.Body) {
			t.Fatalf("%q: body %q, %v; want %q", encoded, body, err, r.Body)
		}
		if got.Method != r.Method || got.RequestURI != r.Target || got.Host != r.Host {
			t.Fatalf("%q: read as %s %s of %s", encoded, got.Method, got.RequestURI, got.Host)
		}
		if rest, _ := io.ReadAll(br); len(rest) > 0 {
			t.Fatalf("%q: %q is left", encoded, rest)
		}
	})
}
