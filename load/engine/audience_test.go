package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

// newAudienceWorker returns a worker with count subscribers, of whom the first has a
// stream on which nothing has arrived yet.
func newAudienceWorker(tb testing.TB, count int) *worker {
	tb.Helper()
	template, err := sse.NewStreamTemplate(sse.StreamConfig{Request: http1.Request{Target: "/", Host: "h"}})
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{
		Address: "h:1", Window: time.Second,
		Subscribers: &Subscribers{Count: count, NewStreams: func(int) func(int) wire.Stream {
			return func(int) wire.Stream { return template.Stream() }
		}},
	}
	if err := c.Validate(); err != nil {
		tb.Fatal(err)
	}
	e := newEngine(c.withDefaults())
	e.collector = newCollector(1, time.Second, nil)
	w, err := e.newWorker(0, endpoint{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.poller.close)
	m := &w.audience.members[0]
	m.stream.Reset()
	m.stream.Request()
	m.state = asking
	w.hear(0, m, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), readAt(w.now()))
	if m.state != streaming {
		tb.Fatalf("%+v", w.audience.streams)
	}
	w.windowStart, w.windowEnd = 0, never
	return w
}

func eventBytes(source uint32, n uint64) []byte {
	stamp := sse.Stamp{Source: source, Sequence: n, Time: time.Now().UnixNano()}
	return fmt.Appendf(nil, "id: %d-%012d\ndata: %v%s\n\n", source, n, stamp, strings.Repeat("x", 50))
}

// An event that arrives costs no allocation, be it the next, a repeated or a late one,
// whole or in pieces.
func BenchmarkHear(b *testing.B) {
	for _, piece := range []int{1 << 20, 60} {
		b.Run(fmt.Sprintf("pieces-of-%d", piece), func(b *testing.B) {
			w := newAudienceWorker(b, 1)
			m := &w.audience.members[0]
			const events = 1024
			var stream [events][]byte
			for n := range stream {
				stream[n] = eventBytes(uint32(n%4), uint64(n/4+1))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				now := w.now()
				for rest := stream[n%events]; len(rest) > 0; {
					p := rest[:min(piece, len(rest))]
					w.hear(0, m, p, readAt(now))
					rest = rest[len(p):]
				}
				n++
			}
			if got := w.audience.streams.AllDelivered; got != uint64(n) || m.state != streaming {
				b.Errorf("%d events of %d: %+v", got, n, w.audience.streams)
			}
		})
	}
}

// The same, as a test.
func TestHearDoesNotAllocate(t *testing.T) {
	w := newAudienceWorker(t, 1)
	m := &w.audience.members[0]
	n := uint64(0)
	var events [300][]byte
	for i := range events {
		events[i] = eventBytes(1, uint64(i+1))
	}
	hear := func() {
		w.hear(0, m, events[n][:70], readAt(1))
		w.hear(0, m, events[n][70:], readAt(1))
		n += 2 // so that some are missing
	}
	w.audience.main.limit = 0
	hear()
	if allocs := testing.AllocsPerRun(100, hear); allocs > 0 {
		t.Errorf("%v allocations per event", allocs)
	}
	if s := w.audience.streams; s.AllDelivered != n/2 || m.state != streaming {
		t.Errorf("%+v", s)
	}
}

// The times of events are of the window, to the nanosecond: from the stamp on the wall
// clock, from the subscription, and from one to the next.
func TestEventTimes(t *testing.T) {
	w := newAudienceWorker(t, 2)
	w.engine.epoch = 1_000_000
	w.windowStart, w.windowEnd = 500, 900
	m := &w.audience.members[0]
	m.written = 100
	at := func(now, stamp int64, n uint64) {
		s := sse.Stamp{Source: 1, Sequence: n, Time: 1_000_000 + stamp}
		w.hear(0, m, fmt.Appendf(nil, "data: %v\n\n", s), readAt(now))
	}
	at(300, 290, 1)
	at(600, 570, 2) // the first of the window
	at(600, 580, 3) // in the same read
	at(899, 893, 4)
	at(900, 899, 5) // too late
	w.hear(0, m, []byte("data: no stamp\n\n"), readAt(901))
	for _, tt := range []struct {
		tag  Tag
		want []int64
	}{
		{FirstEvent, []int64{200}}, {EventGap, []int64{0, 299, 300}}, {Delivery, []int64{6, 20, 30}},
	} {
		h := w.sheet.latency[tt.tag]
		if h.Count() != int64(len(tt.want)) || h.Min() != tt.want[0] || h.Max() != tt.want[len(tt.want)-1] {
			t.Errorf("%v: %d values from %d to %d, want %v", tt.tag, h.Count(), h.Min(), h.Max(), tt.want)
		}
	}
	if s := w.audience.streams; s.Delivered != 3 || s.AllDelivered != 6 || s.Unstamped != 1 || s.DeliveredBytes != 3*uint64(sse.StampBytes+8) {
		t.Errorf("%+v", s)
	}
}

// A subscriber tells so many sources apart and counts the events of others.
func TestSourcesAreBounded(t *testing.T) {
	w := newAudienceWorker(t, 1)
	m := &w.audience.members[0]
	for source := range uint32(MaxSources + 10) {
		w.hear(0, m, eventBytes(source*7919%(MaxSources+10), 1), readAt(1))
	}
	if len(m.sequences) != MaxSources || w.audience.streams.Untracked != 10 || w.audience.streams.AllDelivered != MaxSources+10 {
		t.Errorf("%d sources, %d events untracked", len(m.sequences), w.audience.streams.Untracked)
	}
}

// The pause before reconnecting: what the server asks for is kept, our own is jittered
// downwards, both double with each failure in a row, and neither grows beyond its bound.
func TestAway(t *testing.T) {
	w := newAudienceWorker(t, 1)
	m := &w.audience.members[0]
	c := w.engine.config.Subscribers
	c.MinBackoff, c.MaxBackoff = time.Second, 10*time.Second
	for _, tt := range []struct {
		retry     string
		failures  uint8
		low, high time.Duration
	}{
		{"", 0, 500 * time.Millisecond, time.Second},
		{"", 1, 500 * time.Millisecond, time.Second},
		{"", 2, time.Second, 2 * time.Second},
		{"", 4, 4 * time.Second, 8 * time.Second},
		{"", 5, 5 * time.Second, 10 * time.Second},
		{"", 255, 5 * time.Second, 10 * time.Second},
		{"300", 0, 300 * time.Millisecond, 450 * time.Millisecond},
		{"300", 3, 1200 * time.Millisecond, 1800 * time.Millisecond},
		{"300", 255, 10 * time.Second, 15 * time.Second},
		{"60000", 0, 10 * time.Second, 15 * time.Second},
	} {
		if tt.retry != "" {
			w.hear(0, m, []byte("retry: "+tt.retry+"\n\n"), readAt(1))
		}
		m.failures = tt.failures
		lowest, highest := time.Duration(never), time.Duration(0)
		for range 1000 {
			d := w.away(m)
			lowest, highest = min(lowest, d), max(highest, d)
		}
		if spread := tt.high - tt.low; lowest < tt.low || lowest > tt.low+spread/20 || highest > tt.high || highest < tt.high-spread/20 {
			t.Errorf("retry %q after %d failures: %v to %v, want %v to %v", tt.retry, tt.failures, lowest, highest, tt.low, tt.high)
		}
	}
}
