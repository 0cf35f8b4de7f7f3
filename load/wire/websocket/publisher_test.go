package websocket

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

func newPublishers(t *testing.T, c PublisherConfig) *PublisherTemplate {
	t.Helper()
	c.Request = http1.Request{Target: "/chat", Host: "example.com"}
	template, err := NewPublisherTemplate(c)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// publisher returns the next publisher, whose connection is open.
func publisher(t *testing.T, template *PublisherTemplate) (*Publisher, *peer) {
	t.Helper()
	m := template.Publisher()
	p := &peer{t, m}
	m.Reset()
	p.accept("")
	return m, p
}

// sourcesOf writes down a publisher's sources.
func sourcesOf(m *Publisher) (all []string) {
	for s := range m.Sources {
		all = append(all, fmt.Sprintf("%d of topic %d: %d, uncertain %v", s.ID, s.Topic, s.Published, s.Uncertain))
	}
	return all
}

// TestPublish: publishers send stamped messages to topics in turn. Each has ended once all of it is written.
func TestPublish(t *testing.T) {
	template := newPublishers(t, PublisherConfig{
		Message: Message{Text: []byte(`{"to":"{topic}","data":"{data}"}`)}, Topics: []string{"a", "b"}, Size: 60, Number: 1, Step: 2,
	})
	m, p := publisher(t, template)
	for n := range 3 {
		m.Stamp(int64(1000 + n))
		if err := m.Begin(0, 0, nil); err != nil || m.Free() != 0 || m.Waiting() {
			t.Fatalf("%v, %d free, waiting %t", err, m.Free(), m.Waiting())
		}
		if events := p.feed(frame(0x81, "news")); len(events) != 0 {
			t.Errorf("it has ended before it was written: %+v", events)
		}
		sent := p.sent()
		stamp := sse.Stamp{Source: uint32(2 + n%2), Sequence: uint64(1 + n/2), Time: int64(1000 + n)} //nolint:gosec // few
		want := `81:{"to":"` + []string{"a", "b"}[n%2] + `","data":"` + stamp.String() + strings.Repeat("x", 60-sse.StampBytes) + `"}`
		if !slices.Equal(sent, []string{want}) {
			t.Errorf("%q, want %q", sent, want)
		}
		if events := p.feed(""); len(events) != 1 || events[0].Kind != wire.MuxEnded || m.Free() != 1 {
			t.Errorf("%+v, %d free", events, m.Free())
		}
	}
	if m.Pushed() != 3 {
		t.Errorf("%d messages answer nothing", m.Pushed())
	}
	_ = m.Begin(0, 0, nil)
	m.Cancel(0)
	p.sent()
	if events := p.feed(""); len(events) != 0 || m.Free() != 1 {
		t.Errorf("%+v of one that was given up", events)
	}
	_ = m.Begin(0, 0, nil)
	if e := m.End(); e.Kind != wire.MuxFailed || e.Err != ErrClosed {
		t.Errorf("%+v", e)
	}
	m.Reset()
	if got, want := sourcesOf(m), []string{"2 of topic 0: 3, uncertain [{3 3}]", "3 of topic 1: 2, uncertain [{2 2}]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if other, _ := publisher(t, template); sourcesOf(other)[0] != "6 of topic 0: 0, uncertain []" {
		t.Errorf("%q", sourcesOf(other))
	}
}

// TestPublishAndAwait: with an id, a publication has ended when a message with it has come.
func TestPublishAndAwait(t *testing.T) {
	m, p := publisher(t, newPublishers(t, PublisherConfig{Message: Message{Text: []byte("{id} {data}")}, Topics: []string{""}, Size: sse.StampBytes, Step: 1}))
	_ = m.Begin(0, 0, nil)
	sent := p.sent()[0][3:]
	if events := p.feed(""); len(events) != 0 {
		t.Errorf("%+v before its answer", events)
	}
	if events := p.feed(frame(0x81, "news") + frame(0x81, "ok "+sent[:idSize])); len(events) != 1 || events[0].Kind != wire.MuxEnded {
		t.Errorf("%+v", events)
	}
	if stamp, ok := sse.FindStamp([]byte(sent)); !ok || stamp.Sequence != 1 {
		t.Errorf("%q", sent)
	}
	_ = m.Begin(0, 0, nil)
	m.Cancel(0)
	if got := sourcesOf(m); !slices.Equal(got, []string{"0 of topic 0: 2, uncertain [{2 2}]"}) {
		t.Errorf("%q", got)
	}
}

// TestPublisherFaults: each fault of a configuration is named.
func TestPublisherFaults(t *testing.T) {
	good := PublisherConfig{Message: Message{Text: []byte("{data}")}, Topics: []string{"a"}, Size: 60}
	for _, tt := range []struct {
		change func(c *PublisherConfig)
		want   string
	}{
		{func(c *PublisherConfig) { c.Message.Text = []byte("{topic}") }, "message with 0 times {data}"},
		{func(c *PublisherConfig) { c.Topics = []string{"a", "b"} }, "2 topics: want {topic} in the message"},
		{func(c *PublisherConfig) { c.Topics = nil }, "want a topic"},
		{func(c *PublisherConfig) { c.Size = 10 }, "size 10: want 50 to 1048576 bytes"},
		{func(c *PublisherConfig) { c.Message.Text = []byte("\xff{data}") }, "message 1: is not UTF-8"},
		{func(c *PublisherConfig) { c.First = []Message{{Text: []byte("\xff")}} }, "first message 1: is not UTF-8"},
	} {
		c := good
		c.Request = http1.Request{Target: "/", Host: "h"}
		tt.change(&c)
		if _, err := NewPublisherTemplate(c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestFirst: messages that are sent first each await a message of the server, after its greetings. Then the connection
// can be used. A stream subscribes then, and not before.
func TestFirst(t *testing.T) {
	d := Dial{Request: http1.Request{Target: "/", Host: "h"}, Greetings: 1, First: []Message{{Text: []byte("one")}, {Text: []byte("two"), Binary: true}}}
	template, err := NewTemplate(Config{Dial: d, Messages: []Message{{Text: []byte("ask")}}})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, template.Mux()}
	p.m.Reset()
	p.accept("")
	for _, tt := range []struct {
		feed, sends string
		free        int
	}{{"", "", 0}, {frame(0x81, "hello"), "81:one", 0}, {frame(0x01, "wel") + frame(0x80, "come"), "82:two", 0}, {frame(0x81, "ok"), "", 1}} {
		events := p.feed(tt.feed)
		if got := strings.Join(p.sent(), " "); len(events) != 0 || got != tt.sends || p.m.Free() != tt.free {
			t.Errorf("after %q: %q, %d free, %+v", tt.feed, got, p.m.Free(), events)
		}
	}
	if p.begin(0, 0) != "81:ask" || p.pushed() != 0 || len(p.feed(frame(0x81, "answer"))) != 1 {
		t.Error("the connection cannot be used")
	}

	streams, err := NewStreamTemplate(StreamConfig{Dial: d, Subscribe: Message{Text: []byte("subscribe")}})
	if err != nil {
		t.Fatal(err)
	}
	s := streams.Stream()
	s.Reset()
	key := keyPattern.FindSubmatch(s.Request())
	answer := acceptOf(key[1])
	bytes := []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + string(answer[:]) + "\r\n\r\n" +
		frame(0x81, "hello") + frame(0x81, "welcome") + frame(0x81, "ok") + frame(0x81, "event"))
	var kinds []wire.EventKind
	for {
		n, e, err := s.Next(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == wire.Nothing {
			break
		}
		bytes, kinds = bytes[n:], append(kinds, e.Kind)
	}
	out := len(s.Output())
	if !slices.Equal(kinds, []wire.EventKind{wire.Opened, wire.Message}) || out != len("one")+len("two")+len("subscribe")+3*6 {
		t.Errorf("%v, %d bytes sent", kinds, out)
	}
}
