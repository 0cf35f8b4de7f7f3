package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

func newSessions(t *testing.T, d Dial, steps ...Step) *SessionTemplate {
	t.Helper()
	d.Request = http1.Request{Target: "/chat", Host: "example.com"}
	template, err := NewSessionTemplate(SessionConfig{Dial: d, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// started is a session whose connection is open, unless a step is to open it. more are further fields of the response.
func started(t *testing.T, template *SessionTemplate, more string) *peer {
	t.Helper()
	p := &peer{t, template.Session()}
	p.m.Reset()
	if !template.opens {
		p.accept(more)
	}
	if p.m.Free() != 1 {
		t.Fatal("no step may begin")
	}
	return p
}

// TestSession: each kind of step, what it sends, and what ends it.
func TestSession(t *testing.T) {
	has := func(message, value []byte) bool { return bytes.Contains(message, value) }
	ended := func(size int64, data string) wire.MuxEvent {
		return wire.MuxEvent{Kind: wire.MuxEnded, Status: wire.NoStatus, Bytes: size, Data: []byte(data)}
	}
	for _, tt := range []struct {
		name   string
		step   Step
		parts  []string
		sends  string
		feed   string
		events []wire.MuxEvent
		pushed int64
	}{
		{name: "ask", step: Step{Text: []byte("a")}, sends: "81:a", feed: frame(0x81, "b"), events: []wire.MuxEvent{ended(1, "b")}},
		{name: "binary", step: Step{Varies: true, Binary: true}, parts: []string{"\xff"}, sends: "82:\xff", feed: frame(0x02, "b") + frame(0x80, "c"), events: []wire.MuxEvent{ended(2, "bc")}},
		{name: "send", step: Step{Kind: Send, Varies: true}, parts: []string{"a"}, sends: "81:a", events: []wire.MuxEvent{ended(0, "")}},
		{name: "listen until", step: Step{Kind: Listen, Until: has, Value: []byte("x")}, feed: frame(0x81, "a") + frame(0x81, "bx"), events: []wire.MuxEvent{ended(3, "bx")}, pushed: 1},
		{name: "until what varies", step: Step{Until: has, ValueVaries: true, Varies: true}, parts: []string{"x", "a"}, sends: "81:a", feed: frame(0x81, "a") + frame(0x81, "bx"), events: []wire.MuxEvent{ended(3, "bx")}, pushed: 1},
		{name: "several", step: Step{Kind: Listen, Until: has, Value: []byte("x"), Count: 2}, feed: frame(0x81, "x1") + frame(0x81, "a") + frame(0x81, "x2"), events: []wire.MuxEvent{ended(5, "x2")}, pushed: 1},
		{name: "collected", step: Step{Kind: Listen, Count: 3, Collect: true}, feed: frame(0x81, "1") + frame(0x81, "2") + frame(0x81, "3"), events: []wire.MuxEvent{
			{Kind: wire.MuxMessage, Status: wire.NoStatus, Bytes: 1, Data: []byte("[1")}, {Kind: wire.MuxMessage, Status: wire.NoStatus, Bytes: 2, Data: []byte(",2")}, ended(3, ",3]"),
		}},
		{name: "ping", step: Step{Kind: Ping, Text: []byte("p")}, sends: "89:p", feed: frame(0x81, "a") + frame(0x8a, "p"), events: []wire.MuxEvent{ended(0, "")}, pushed: 1},
		{name: "close", step: Step{Kind: Close, Code: 1000}, sends: "88:\x03\xe8", feed: frame(0x81, "a") + frame(0x88, "\x03\xe9bye"), events: []wire.MuxEvent{{Kind: wire.MuxEnded, Status: 1001, Data: []byte{}}}, pushed: 1},
		{name: "closed", step: Step{Kind: Closed}, feed: frame(0x88, "\x0f\xa0"), events: []wire.MuxEvent{{Kind: wire.MuxEnded, Status: 4000, Data: []byte{}}}},
		{name: "closed without a code", step: Step{Kind: Closed}, feed: frame(0x88, ""), events: []wire.MuxEvent{{Kind: wire.MuxEnded, Status: closeNoCode, Data: []byte{}}}},
	} {
		p := started(t, newSessions(t, Dial{}, tt.step), "")
		p.feed(frame(0x81, "before the step"))
		var parts [][]byte
		for _, text := range tt.parts {
			parts = append(parts, []byte(text))
		}
		if err := p.m.Begin(0, 0, parts); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := strings.Join(p.sent(), " "); got != tt.sends || p.m.Free() != 0 {
			t.Errorf("%s: sent %q", tt.name, got)
		}
		events := p.feed(tt.feed)
		if fmt.Sprintf("%+v", events) != fmt.Sprintf("%+v", tt.events) || p.pushed() != tt.pushed+1 {
			t.Errorf("%s: %+v, %d pushed; want %+v", tt.name, events, p.pushed(), tt.events)
		}
		ends := tt.step.Kind == Close || tt.step.Kind == Closed
		if free := p.m.Free(); (free == 0) != ends {
			t.Errorf("%s: %d may begin", tt.name, free)
		}
	}
}

// TestSessionID: the answer of a message with an id repeats it.
func TestSessionID(t *testing.T) {
	p := started(t, newSessions(t, Dial{}, Step{Text: []byte("ask {id}")}), "")
	first := p.begin(0, 0)[3:]
	if events := p.feed(frame(0x81, "news") + frame(0x81, "re: "+first)); len(events) != 1 || p.pushed() != 1 {
		t.Errorf("%+v", events)
	}
	second := p.begin(0, 0)[3:]
	if events := p.feed(frame(0x81, first)); len(events) != 0 || first == second {
		t.Errorf("%q is taken for %q", first, second)
	}
}

// TestSessionOpens: a step opens the connection, by a handshake that varies; a lost one is opened in the same way, and
// another such step takes a new one.
func TestSessionOpens(t *testing.T) {
	open := Step{Kind: Open, Request: http1.Request{VariesTarget: true, Host: "example.com", Header: []http1.Field{{Name: "Authorization", Varies: true}}}}
	p := started(t, newSessions(t, Dial{}, open, Step{Text: []byte("a")}), "")
	if err := p.m.Begin(0, 1, nil); !errors.Is(err, ErrNotOpen) {
		t.Errorf("a message before the handshake: %v", err)
	}
	renewer := p.m.(wire.Renewer)
	parts := [][]byte{[]byte("/room?token=1"), []byte("Bearer x")}
	for range 2 {
		if renewer.Renews(0) {
			t.Error("a fresh connection is to be another one")
		}
		if err := p.m.Begin(0, 0, parts); err != nil {
			t.Fatal(err)
		}
		request, events := p.accept("")
		want := wire.MuxEvent{Kind: wire.MuxEnded, Status: http.StatusSwitchingProtocols}
		if !strings.HasPrefix(request, "GET /room?token=1 HTTP/1.1\r\n") || !strings.Contains(request, "\r\nAuthorization: Bearer x\r\n") || len(events) != 1 || fmt.Sprint(events[0]) != fmt.Sprint(want) {
			t.Errorf("%q: %+v", request, events)
		}
		parts[0][0], parts[1][0] = '/', 'B' // which the caller may use again
		p.begin(0, 1)
		if renewer.Renews(1) {
			t.Error("a message takes a new connection")
		}
		p.m.End()
		p.m.Reset() // it was lost
		if p.m.Free() != 0 {
			t.Error("a step may begin before the connection is open again")
		}
		if request, events := p.accept(""); !strings.HasPrefix(request, "GET /room?token=1 ") || len(events) != 0 || p.m.Free() != 1 {
			t.Errorf("%q: %+v", request, events)
		}
		if !renewer.Renews(0) {
			t.Error("the connection is open, and the step does not take another")
		}
		p.m.Reset()
	}
	if err := p.m.Begin(0, 0, parts); err != nil {
		t.Fatal(err)
	}
	p.m.Output()
	p.m.Wrote(len(p.m.Output()))
	if events := p.feed("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"); len(events) != 1 || events[0].Status != 403 || events[0].Err != nil || p.m.Free() != 0 {
		t.Errorf("%+v", events)
	}
}

// TestSessionLost: a step ends with its connection, and one that is given up awaits nothing.
func TestSessionLost(t *testing.T) {
	for kind, want := range map[Kind]error{Ask: ErrClosed, Close: ErrCut, Closed: ErrCut} {
		p := started(t, newSessions(t, Dial{}, Step{Kind: kind, Code: 1000}), "")
		if err := p.m.Begin(0, 0, nil); err != nil {
			t.Fatal(err)
		}
		if e := p.m.End(); e.Kind != wire.MuxFailed || !errors.Is(e.Err, want) || p.m.End().Kind != wire.MuxNothing {
			t.Errorf("%d: %+v", kind, e)
		}
	}
	p := started(t, newSessions(t, Dial{}, Step{}), "")
	p.begin(0, 0)
	p.m.Cancel(0)
	if events := p.feed(frame(0x81, "late")); len(events) != 0 || p.pushed() != 1 || p.m.Free() != 1 {
		t.Errorf("%+v", events)
	}
	p.begin(0, 0)
	if _, err := p.try(frame(0x88, "\x03\xf5")); err == nil || err.Error() != "reset: the server closed the connection by code 1013 (try again later)" {
		t.Error(err)
	}
	fresh := started(t, newSessions(t, Dial{}, Step{Kind: Open, Request: http1.Request{Target: "/", Host: "h"}}), "")
	if _, err := fresh.try("x"); !errors.Is(err, ErrUnasked) {
		t.Error(err)
	}
}

func TestSessionValidate(t *testing.T) {
	bad := SessionConfig{Dial: Dial{Request: http1.Request{Target: "/", Host: "h"}}, Steps: []Step{
		{Text: []byte("\xff")}, {Kind: Close, Code: 999}, {Kind: Ping, Text: make([]byte, 126)}, {Kind: Open}, {Kind: Close, Code: 4999}, {Text: []byte("\xff"), Binary: true},
	}}
	var got []string
	for line := range strings.Lines(bad.Validate().Error()) {
		step, _, _ := strings.Cut(line, ":")
		got = append(got, step)
	}
	if got = slices.Compact(got); len(got) < 4 || !slices.Equal(got[:3], []string{"step 1", "step 2", "step 3"}) || !strings.HasPrefix(got[3], "step 4") {
		t.Errorf("%q", got)
	}
}
