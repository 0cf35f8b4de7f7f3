package sse

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

func newPublishers(tb testing.TB, c PublisherConfig) *PublisherTemplate {
	tb.Helper()
	t, err := NewPublisherTemplate(c)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// receive reads a publication as a server does.
func receive(t *testing.T, request []byte) (*http.Request, string) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		t.Fatalf("%q: %d bytes of body, %v", request, len(body), err)
	}
	return r, string(body)
}

const accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nid"

// Topics take turns, each with numbers of its own, and publishers have sources of
// their own.
func TestPublications(t *testing.T) {
	template := newPublishers(t, PublisherConfig{
		Request: http1.Request{Target: "/pub?id={topic}", Host: "h"}, Topics: []string{"a b", "c&d"}, Size: 70, First: 1, Step: 3,
	})
	publishers := []*Publisher{template.Publisher(), template.Publisher()}
	for n := range 6 {
		for k, p := range publishers {
			p.Stamp(int64(1000 + n))
			r, body := receive(t, p.Request())
			if _, done, err := p.Response([]byte(accepted)); !done || err != nil {
				t.Fatal(done, err)
			}
			topic := n % 2
			if got := r.URL.Query().Get("id"); r.Method != "POST" || got != []string{"a b", "c&d"}[topic] {
				t.Errorf("publication %d: %s to %q", n, r.Method, got)
			}
			stamp, ok := ParseStamp([]byte(body))
			want := Stamp{Source: uint32((1+3*k)*2 + topic), Sequence: uint64(n/2 + 1), Time: int64(1000 + n)}
			if !ok || stamp != want || body != want.String()+strings.Repeat("x", 70-StampBytes) {
				t.Errorf("publication %d: %q", n, body)
			}
		}
	}
	if p := publishers[0]; p.Status() != 202 || !p.Reusable() {
		t.Errorf("status %d, reusable %v", p.Status(), p.Reusable())
	}
}

// A form is read as the stamp that it holds.
func TestForm(t *testing.T) {
	p := newPublishers(t, PublisherConfig{
		Request: http1.Request{
			Target: "/.well-known/mercure", Host: "h", Body: []byte("topic={topic}&data={data}&private=on"),
			Header: []http1.Field{{Name: "Authorization", Value: "Bearer x"}},
		},
		Form: true, Topics: []string{"https://example.com/a?b=ü+c&d"},
	}).Publisher()
	p.Stamp(5)
	r, body := receive(t, p.Request())
	form, err := url.ParseQuery(body)
	if err != nil || strings.ContainsAny(body, " \n") || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("%q, header %v: %v", body, r.Header, err)
	}
	if form.Get("topic") != "https://example.com/a?b=ü+c&d" || form.Get("private") != "on" || form.Get("data") != (Stamp{Sequence: 1, Time: 5}).String() {
		t.Errorf("%v", form)
	}
}

// A publication without a 2xx is uncertain, whatever failed.
func TestAcknowledgement(t *testing.T) {
	p := newPublishers(t, PublisherConfig{Request: http1.Request{Target: "/", Host: "h"}}).Publisher()
	for n, fate := range []string{
		"ok", "503", "ok", "cut", "reset", "malformed", "ok", "next", "end", "ok", "under way",
	} {
		p.Request()
		switch fate {
		case "ok":
			_, _, _ = p.Response([]byte(accepted[:30]))
			if _, done, err := p.Response([]byte(accepted[30:])); !done || err != nil {
				t.Fatal(n, done, err)
			}
		case "503":
			if _, done, err := p.Response([]byte("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")); !done || wire.KindOf(err) != wire.Status {
				t.Fatal(n, done, err)
			}
		case "cut":
			_, _, _ = p.Response([]byte(accepted[:30]))
			if p.End() == nil {
				t.Fatal(n)
			}
			p.Reset()
		case "reset":
			p.Reset()
		case "malformed":
			if _, _, err := p.Response([]byte("?")); err == nil {
				t.Fatal(n)
			}
			p.Reset()
		case "next": // given up, as after a time-out
		case "end":
			// The end of the connection completes this response.
			_, _, _ = p.Response([]byte("HTTP/1.0 200 OK\r\n\r\nid"))
			if err := p.End(); err != nil {
				t.Fatal(n, err)
			}
		}
	}
	var got []wire.Source
	for s := range p.Sources {
		got = append(got, s)
	}
	want := []wire.Source{{Published: 11, Uncertain: []wire.Span{{First: 2, Last: 2}, {First: 4, Last: 6}, {First: 8, Last: 8}, {First: 11, Last: 11}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// The memory for failures is bounded.
func TestUncertainIsBounded(t *testing.T) {
	p := newPublishers(t, PublisherConfig{Request: http1.Request{Target: "/", Host: "h"}}).Publisher()
	for n := range 2 * (maxUncertain + 10) {
		p.Request()
		if n%2 == 0 {
			_, _, _ = p.Response([]byte(accepted))
		} else {
			p.Reset()
		}
	}
	for s := range p.Sources {
		if len(s.Uncertain) != maxUncertain || s.Unlisted != 10 {
			t.Errorf("%d spans, %d unlisted", len(s.Uncertain), s.Unlisted)
		}
	}
}

func TestPublisherFaults(t *testing.T) {
	_, err := NewPublisherTemplate(PublisherConfig{
		Request: http1.Request{Target: "x y", Host: "h", Body: []byte("{data}{data}")},
		Topics:  []string{"a", "b", "a"}, Size: 10,
	})
	want := `sse: topic 3 "a": want each once
3 topics: want {topic} in the target or in the body
body with 2 times {data}: want it once
size 10: want 50 to 1048576 bytes
target "x y": want a path that starts with /`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %v", err, want)
	}
	if _, err := NewPublisherTemplate(PublisherConfig{Request: http1.Request{Target: "/", Host: "h", Body: []byte{}}}); err == nil {
		t.Error("a body without data")
	}
}
