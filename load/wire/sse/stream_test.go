package sse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/wiretest"
)

func newStream(tb wiretest.TB, c StreamConfig) *Stream {
	tb.Helper()
	if c.Request.Target == "" {
		c.Request.Target, c.Request.Host = "/events", "h"
	}
	t, err := NewStreamTemplate(c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return t.Stream()
}

const (
	okHead     = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	byClose    = okHead + "\r\n"
	inChunks   = okHead + "Transfer-Encoding: chunked\r\n\r\n"
	stampWords = "dyno1 0000000007 000000000001 0000000000000000005 "
)

// subscribe carries a response, cut at the given places, as the engine does.
func subscribe(tb wiretest.TB, s *Stream, response string, cuts ...int) (found []wire.Event, used int, err error) {
	tb.Helper()
	s.Reset()
	s.Request()
	from := 0
	for _, to := range append(cuts, len(response)) {
		p := []byte(response[from:to])
		from = to
		for {
			n, e, err := s.Next(p)
			if n < 0 || n > len(p) || (e.Kind == wire.Nothing && err == nil && n != len(p)) {
				tb.Fatalf("used %d of %d bytes: %+v, %v", n, len(p), e, err)
			}
			used += n
			p = p[n:]
			if err != nil {
				return found, used, err
			}
			if e.Kind == wire.Nothing {
				break
			}
			found = append(found, e)
			if e.Kind == wire.Exhausted {
				return found, used, nil
			}
		}
	}
	return found, used, s.End()
}

func TestRequest(t *testing.T) {
	s := newStream(t, StreamConfig{Request: http1.Request{Target: "/e?topic=a", Host: "h", Header: []http1.Field{{Name: "accept", Value: "*/*"}}}})
	const usual = "GET /e?topic=a HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\naccept: */*\r\nCache-Control: no-cache\r\n\r\n"
	s.Reset()
	if got := string(s.Request()); got != usual || s.Resumes() {
		t.Errorf("%q", got)
	}
	if _, _, err := subscribe(t, s, byClose+"id: ü7\nretry: 50\ndata: a\n\nid: 8\ndata: b"); err != nil {
		t.Error(err)
	}
	if s.Retry() != 50*time.Millisecond {
		t.Errorf("retry after %v", s.Retry())
	}
	s.Reset()
	const again = "GET /e?topic=a HTTP/1.1\r\nHost: h\r\nUser-Agent: dyno\r\naccept: */*\r\nCache-Control: no-cache\r\nLast-Event-ID: ü7\r\n\r\n"
	if got := string(s.Request()); got != again || !s.Resumes() {
		t.Errorf("%q, want %q", got, again)
	}
	// An ID that was erased is not sent.
	if _, _, err := subscribe(t, s, byClose+"id\n\n"); err != nil {
		t.Error(err)
	}
	s.Reset()
	if got := string(s.Request()); got != usual || s.Resumes() {
		t.Errorf("%q", got)
	}
	s = newStream(t, StreamConfig{Forgets: true})
	if _, _, err := subscribe(t, s, byClose+"id: 7\ndata: a\n\n"); err != nil {
		t.Error(err)
	}
	s.Reset()
	if got := string(s.Request()); strings.Contains(got, "Last-Event-ID") || s.Resumes() {
		t.Errorf("%q", got)
	}
}

func TestStreamOutcomes(t *testing.T) {
	opened := wire.Event{Kind: wire.Opened}
	message := func(bytes int) wire.Event { return wire.Event{Kind: wire.Message, Bytes: bytes} }
	exhausted := wire.Event{Kind: wire.Exhausted}
	stamped := wire.Event{Kind: wire.Message, Stamped: true, Source: 7, Sequence: 1, Time: 5, Bytes: len("data: \n\n") + len(stampWords)}
	for _, tt := range []struct {
		name, response string
		want           []wire.Event
		err            error
		closed         bool
	}{
		{name: "ended by the connection", response: byClose + "data: a\n\ndata: b\n\n", want: []wire.Event{opened, message(9), message(9)}},
		{name: "ended within an event", response: byClose + "data: a\n\ndata: b\n", want: []wire.Event{opened, message(9)}},
		{name: "ended by a last chunk", response: inChunks + "9\r\ndata: a\n\n\r\n0\r\n\r\n", want: []wire.Event{opened, message(9), exhausted}},
		{name: "an event in chunks", response: inChunks + "3\r\ndat\r\n1\r\na\r\n5\r\n: a\n\n\r\n0\r\n\r\n", want: []wire.Event{opened, message(9), exhausted}},
		{name: "two events in a chunk", response: inChunks + "12\r\ndata: a\n\ndata: b\n\n\r\n0\r\n\r\n", want: []wire.Event{opened, message(9), message(9), exhausted}},
		{name: "of known length", response: okHead + "Content-Length: 9\r\n\r\ndata: a\n\n", want: []wire.Event{opened, message(9), exhausted}},
		{name: "empty", response: okHead + "Content-Length: 0\r\n\r\n", want: []wire.Event{opened, exhausted}},
		{name: "cut in a chunk", response: inChunks + "9\r\ndata: a", want: []wire.Event{opened}, err: http1.ErrClosedBody},
		{name: "no chunk", response: inChunks + "x\r\n", want: []wire.Event{opened}, err: http1.ErrChunkSize},
		{name: "parameters", response: "HTTP/1.1 200 OK\r\ncontent-type:Text/Event-Stream ; charset=utf-8\r\n\r\n", want: []wire.Event{opened}},
		{name: "informational", response: "HTTP/1.1 103 Early\r\nContent-Type: text/event-stream\r\n\r\n" + byClose, want: []wire.Event{opened}},
		{name: "media type of the informational one", response: "HTTP/1.1 103 Early\r\nContent-Type: text/event-stream\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", err: ErrMediaType},
		{name: "no media type", response: "HTTP/1.1 200 OK\r\n\r\n", err: ErrMediaType},
		{name: "another media type", response: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", err: ErrMediaType},
		{name: "no content", response: "HTTP/1.1 204 No Content\r\n\r\n", err: wire.StatusError(204), closed: true},
		{name: "redirection", response: "HTTP/1.1 301 Moved\r\nContent-Type: text/event-stream\r\n\r\n", err: wire.StatusError(301)},
		{name: "other success", response: "HTTP/1.1 201 Created\r\nContent-Type: text/event-stream\r\n\r\n", err: wire.StatusError(201)},
		{name: "failure", response: "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", err: wire.StatusError(503)},
		{name: "not HTTP", response: "data: a\n\n", err: http1.ErrNotHTTP},
		{name: "nothing", response: "", err: http1.ErrClosedEarly},
		{name: "half a head", response: okHead, err: http1.ErrClosedHeader},
		{name: "comments are counted with what follows", response: byClose + ":\n\n: x\n\ndata: a\n\n", want: []wire.Event{opened, message(3 + 5 + 9)}},
		{name: "gap", response: byClose + "event: gap\ndata: " + stampWords + "\n\n", want: []wire.Event{opened, {Kind: wire.Gap, Bytes: 67 + 2}}},
		{name: "stamp", response: byClose + "data: " + stampWords + "\n\n", want: []wire.Event{opened, stamped}},
	} {
		for cut := range tt.response {
			s := newStream(t, StreamConfig{})
			got, _, err := subscribe(t, s, tt.response, cut)
			if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || s.Closed() != tt.closed {
				t.Fatalf("%s, cut at %d: %+v, %v, closed %v; want %+v, %v", tt.name, cut, got, err, s.Closed(), tt.want, tt.err)
			}
			if s.parser.open != nil || s.request != nil {
				if s.Reset(); s.parser.open != nil || s.request != nil {
					t.Fatalf("%s, cut at %d: holds a buffer after Reset", tt.name, cut)
				}
			}
		}
	}
	if _, _, err := subscribe(t, newStream(t, StreamConfig{}), byClose+strings.Repeat("x", maxBytes+1)); !errors.Is(err, ErrLine) {
		t.Errorf("a line that is too long: %v", err)
	}
	s := newStream(t, StreamConfig{GapType: "hole"})
	if got, _, err := subscribe(t, s, byClose+"event: hole\ndata\n\nevent: gap\ndata\n\n"); err != nil || len(got) != 3 || got[1].Kind != wire.Gap || got[2].Kind != wire.Message {
		t.Errorf("%+v, %v", got, err)
	}
}

// A subscription refused before makes no difference to the next.
func TestStreamIsUsedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStream(t, StreamConfig{})
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			before := rapid.SampledFrom([]string{"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu", inChunks + "9\r\ndata: a", "x", inChunks + "x\r\n", byClose + "data: \xef", ""}).Draw(t, "response")
			_, _, _ = subscribe(t, s, before, drawCuts(t, len(before))...)
		}
		response := inChunks + "9\r\n\ufeffdata: \r\n3\r\na\n\n\r\n0\r\n\r\n"
		got, used, err := subscribe(t, s, response, drawCuts(t, len(response))...)
		want := []wire.Event{{Kind: wire.Opened}, {Kind: wire.Message, Bytes: 12}, {Kind: wire.Exhausted}}
		if err != nil || used != len(response) || len(got) != 3 || got[1].Kind != wire.Message || got[2] != want[2] {
			t.Fatalf("%+v, %d of %d bytes, %v", got, used, len(response), err)
		}
	})
}

// Any bytes at all make an outcome, wherever they are cut.
func FuzzStream(f *testing.F) {
	for _, s := range []string{byClose + "data: a\n\n", inChunks + "9\r\ndata: a\n\n\r\n0\r\n\r\n", "HTTP/1.1 204 No\r\n\r\n", okHead + "Content-Length: 3\r\n\r\nid\n"} {
		f.Add(s, uint8(20), uint8(60))
	}
	f.Fuzz(func(t *testing.T, response string, first, second uint8) {
		cuts := []int{min(int(first), len(response)), min(int(first)+int(second), len(response))}
		whole, used1, err1 := subscribe(t, newStream(t, StreamConfig{}), response)
		cut, used2, err2 := subscribe(t, newStream(t, StreamConfig{}), response, cuts...)
		if !slices.Equal(whole, cut) || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Errorf("%q: %+v, %v, used %d; cut at %v: %+v, %v, used %d", response, whole, err1, used1, cuts, cut, err2, used2)
		}
	})
}

func TestFollows(t *testing.T) {
	if s := newStream(t, StreamConfig{}); !s.Follows(0) || !s.Follows(99) {
		t.Error("without topics it follows all")
	}
	if s := newStream(t, StreamConfig{Topics: []int{3, 5}}); s.Follows(0) || !s.Follows(3) || !s.Follows(5) {
		t.Error("it follows topics other than its own")
	}
}

func TestStreamFaults(t *testing.T) {
	_, err := NewStreamTemplate(StreamConfig{
		Request: http1.Request{Method: "POST", Target: "x", Host: "h", Body: []byte("b"), Header: []http1.Field{{Name: "last-event-id", Value: "1"}}},
	})
	want := `sse: target "x": want a path that starts with /
method "POST": want GET
body of 1 bytes: want none
header Last-Event-ID: want none, as it is added when reconnecting`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %v", err, want)
	}
}

// A header beyond the limit is what is said, whatever of it came before.
func TestHeaderBeyondTheLimit(t *testing.T) {
	for _, begin := range []string{"HTTP/1.1 200 OK\r\n", "HTTP/1.1 503 Busy\r\n", okHead} {
		s := newStream(t, StreamConfig{MaxHeader: 100})
		got, _, err := subscribe(t, s, begin+"A: "+strings.Repeat("x", 100)+"\r\n\r\n")
		if len(got) > 0 || !errors.Is(err, http1.ErrHeaderTooLarge) {
			t.Errorf("%q: %+v, %v", begin, got, err)
		}
	}
}
