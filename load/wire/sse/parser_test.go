package sse

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/internal/ssetest"
	"dyno/load/wire/wiretest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A dispatched event, with what the source knows after it.
type dispatched struct {
	kind, data, id string
	at             int // where in the stream it ended
}

// A reading is all that a stream said.
type reading struct {
	events []dispatched
	id     string
	retry  time.Duration
	err    error
}

// read lets a parser read a stream cut at the given places.
func read(tb wiretest.TB, p *Parser, stream []byte, cuts ...int) (r reading) {
	tb.Helper()
	from, at := 0, 0
	for _, to := range append(cuts, len(stream)) {
		// A copy, as big as need be and gone afterwards, shows what is kept of it.
		piece := bytes.Clone(stream[from:to])
		from = to
		for rest := piece; r.err == nil; {
			n, m, found, err := p.Next(rest)
			if n < 0 || n > len(rest) || (!found && err == nil && n != len(rest)) {
				tb.Fatalf("used %d of %d bytes, found %v, %v", n, len(rest), found, err)
			}
			at += n
			rest = rest[n:]
			r.err = err
			if !found {
				break
			}
			r.events = append(r.events, dispatched{string(m.Type), string(m.Data), string(p.LastEventID()), at})
		}
		for i := range piece {
			piece[i] = '!'
		}
	}
	r.id, r.retry = string(p.LastEventID()), p.Retry()
	return r
}

func (r reading) equal(o reading) bool {
	return slices.Equal(r.events, o.events) && r.id == o.id && r.retry == o.retry && errors.Is(r.err, o.err)
}

// standard reads a stream as the standard's text goes.
func standard(stream string) (r reading) {
	all := ssetest.Read(stream, MaxRetry)
	for _, e := range all.Events {
		r.events = append(r.events, dispatched{e.Type, e.Data, e.ID, e.At})
	}
	r.id, r.retry = all.ID, all.Retry
	return r
}

// Examples of the standard, and the web platform's tests of the format.
func TestParse(t *testing.T) {
	event := func(kind, data, id string) dispatched { return dispatched{kind: kind, data: data, id: id} }
	for _, tt := range []struct {
		name, stream string
		want         reading
	}{
		{"one", "data: a\n\n", reading{events: []dispatched{event("", "a", "")}}},
		{"the standard's second example", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
			reading{events: []dispatched{event("", "first event", "1"), event("", "second event", "")}}},
		{"the standard's third example", "data\n\ndata\ndata\n\ndata:\n", reading{events: []dispatched{event("", "", ""), event("", "\n", "")}}},
		{"line ends", "data: a\r\rdata: b\n\ndata: c\r\n\r\ndata: d\n\r\ndata: e\r\n\ndata: f\r\r\n\n",
			reading{events: []dispatched{event("", "a", ""), event("", "b", ""), event("", "c", ""), event("", "d", ""), event("", "e", ""), event("", "f", "")}}},
		{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", reading{events: []dispatched{event("", "a", "")}}},
		{"two byte order marks", "\ufeff\ufeffdata: a\n\n", reading{}},
		{"half a byte order mark", "\xef\xbbdata: a\n\ndata: b\n\n", reading{events: []dispatched{event("", "b", "")}}},
		{"type and its end", "event: x\ndata: a\n\ndata: b\n\nevent: y\n\ndata: c\n\nevent\ndata: d\n\n",
			reading{events: []dispatched{event("x", "a", ""), event("", "b", ""), event("", "c", ""), event("", "d", "")}}},
		{"id without data", "id: 7\n\ndata: a\n\n", reading{events: []dispatched{event("", "a", "7")}, id: "7"}},
		{"id with NUL", "id: 7\n\nid: 8\x00\ndata: a\n\n", reading{events: []dispatched{event("", "a", "7")}, id: "7"}},
		{"id of an event that does not end", "id: 7\ndata: a\n\nid: 8\ndata: b\n", reading{events: []dispatched{event("", "a", "7")}, id: "7"}},
		{"id is erased", "id: 7\n\nid\ndata: a\n\n", reading{events: []dispatched{event("", "a", "")}}},
		{"retry", "retry: 1500\n", reading{retry: 1500 * time.Millisecond}},
		{"retry of no digits", "retry: 1500\nretry: 1.5\nretry: -1\nretry\nretry: 1e3\nretry:  7\n", reading{retry: 1500 * time.Millisecond}},
		{"retry beyond all bounds", "retry: 99999999999999999999999999\n", reading{retry: MaxRetry}},
		{"fields of other names", "Data: a\ndata : b\n data: c\ndatas: d\n:data: e\n\n", reading{}},
		{"control bytes", "data:\x00\t\x7f\xff\n\n", reading{events: []dispatched{event("", "\x00\t\x7f\xff", "")}}},
		{"no empty line", "data: a\n", reading{}},
		{"only ends", "\n\r\n\r\r\n\n", reading{}},
	} {
		if tt.want.id == "" && len(tt.want.events) > 0 {
			tt.want.id = tt.want.events[len(tt.want.events)-1].id
		}
		// Cut nowhere, everywhere, and at each place.
		every := make([]int, len(tt.stream))
		cuts := [][]int{nil, every}
		for i := range every {
			every[i] = i
			cuts = append(cuts, []int{i})
		}
		for _, cuts := range cuts {
			got := read(t, NewParser(), []byte(tt.stream), cuts...)
			for i := range got.events {
				got.events[i].at = 0
			}
			if !got.equal(tt.want) {
				t.Fatalf("%s, cut at %v:\n got %+v\nwant %+v", tt.name, cuts, got, tt.want)
			}
		}
	}
}

func drawCuts(t *rapid.T, n int) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(0, n), 0, 8).Draw(t, "cuts")
	slices.Sort(cuts)
	return cuts
}

// Any stream, cut anywhere, means what the standard says.
func TestAgreesWithTheStandard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := ssetest.Draw(t)
		p := NewParser()
		got, want := read(t, p, stream, drawCuts(t, len(stream))...), standard(string(stream))
		if !got.equal(want) {
			t.Fatalf("%q:\n got %+v\nwant %+v", stream, got, want)
		}
		// At rest it holds no buffer, and after Reset neither; and of earlier bytes only the ID comes
		// back.
		p.Reset()
		if p.open != nil {
			t.Fatalf("holds a buffer after Reset")
		}
		if m := read(t, p, []byte("data: x\n\n")); len(m.events) != 1 || m.events[0].data != "x" || m.events[0].kind != "" || m.id != want.id {
			t.Fatalf("after Reset: %+v", m)
		}
		if p.open != nil {
			t.Fatalf("holds a buffer at rest")
		}
	})
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "\ufeffdata: a\r\rid: 1\x00\r\n\r\n", "event: x\ndata: a\ndata\n\nretry: 10\n", ": c\n\n\xef\xbb", "id\ndata:a\n\n",
	} {
		f.Add([]byte(s), uint8(3), uint8(5))
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, second uint8) {
		if len(stream) > 16<<10 {
			t.Skip("what is compared with takes time that grows with the square of the stream")
		}
		cuts := []int{min(int(first), len(stream)), min(int(first)+int(second), len(stream))}
		got, want := read(t, NewParser(), stream, cuts...), standard(string(stream))
		if errors.Is(got.err, ErrID) {
			return
		}
		if !got.equal(want) {
			t.Errorf("%q cut at %v:\n got %+v\nwant %+v", stream, cuts, got, want)
		}
	})
}

// A limit holds to the byte, wherever the stream is cut.
func TestLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		stream string
		want   error
	}{
		{"data:" + x(maxBytes-5) + "\n\n", nil},
		{"data:" + x(maxBytes-4) + "\n\n", ErrLine},
		{":" + x(maxBytes-1) + "\n\n", nil},
		{x(maxBytes + 1), ErrLine},
		{"data:" + x(maxBytes/2) + "\ndata:" + x(maxBytes/2-1) + "\n\n", nil},
		{"data:" + x(maxBytes/2) + "\ndata:" + x(maxBytes/2) + "\n\n", ErrEvent},
		{"id:" + x(maxID) + "\n\n", nil},
		{"id:" + x(maxID+1) + "\n\n", ErrID},
	} {
		for _, cut := range []int{0, 3, 1000, len(tt.stream)/2 + 3, len(tt.stream) - 2, len(tt.stream) - 1} {
			if got := read(t, NewParser(), []byte(tt.stream), cut); !errors.Is(got.err, tt.want) {
				t.Errorf("%.20q of %d bytes, cut at %d: %v, want %v", tt.stream, len(tt.stream), cut, got.err, tt.want)
			}
		}
	}
}

// Buffers for large events are not kept, so one of them does not cost memory permanently.
func TestLargeBuffersAreNotKept(t *testing.T) {
	p := NewParser()
	large := []byte("data: " + strings.Repeat("x", 2*maxSpare) + "\n\n")
	if got := read(t, p, large, 10, 2*maxSpare); len(got.events) != 1 || len(got.events[0].data) != 2*maxSpare {
		t.Fatalf("%d events, %v", len(got.events), got.err)
	}
	for _, e := range p.pool.spare {
		for _, v := range []value{e.line, e.data, e.kind, e.id} {
			if cap(v.buffer) > maxSpare {
				t.Errorf("keeps %d bytes", cap(v.buffer))
			}
		}
	}
}
