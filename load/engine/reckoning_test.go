package engine

import (
	"fmt"
	"testing"

	"dyno/load/wire"
)

// What a subscriber has missed is told apart by why.
func TestReckoning(t *testing.T) {
	// A source of topic 0 that has published 10, of which 3 and 4 were not acknowledged.
	published := wire.Source{ID: 1, Published: 10, Uncertain: []wire.Span{{First: 3, Last: 4}}}
	see := func(w *worker, numbers ...uint64) {
		for _, n := range numbers {
			w.hear(0, &w.audience.members[0], eventBytes(1, n), readAt(1))
		}
	}
	gap := func(w *worker) { w.hear(0, &w.audience.members[0], []byte("event: gap\ndata: {}\n\n"), readAt(1)) }
	type found struct{ lost, announced, uncertain, pending, slowMissing, slowAnnounced uint64 }
	for _, tt := range []struct {
		name        string
		interrupted bool
		published   uint64 // instead of 10
		happened    func(w *worker, m *subscription)
		want        found
	}{
		{name: "nothing was seen", want: found{lost: 8, uncertain: 2}},
		{name: "all was seen", happened: func(w *worker, _ *subscription) { see(w, 1, 2, 5, 6, 7, 8, 9, 10) }, want: found{uncertain: 2}},
		{name: "so were the uncertain ones", happened: func(w *worker, _ *subscription) { see(w, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) }},
		{name: "the tail is missing", happened: func(w *worker, _ *subscription) { see(w, 1, 2, 3, 4, 5, 6) }, want: found{lost: 4}},
		{name: "the last one seen is before the uncertain ones", published: 4, happened: func(w *worker, _ *subscription) { see(w, 1, 2) }, want: found{uncertain: 2}},
		{name: "the head is missing", happened: func(w *worker, _ *subscription) { see(w, 5, 6, 7, 8, 9, 10) }, want: found{lost: 2, uncertain: 2}},
		{name: "a hole is announced", happened: func(w *worker, _ *subscription) { see(w, 1, 2, 3, 4, 5); gap(w); see(w, 8, 9, 10) }, want: found{announced: 2}},
		{name: "the head is announced", happened: func(w *worker, _ *subscription) { gap(w); see(w, 7, 8, 9, 10) }, want: found{announced: 4, uncertain: 2}},
		{name: "everything is announced", happened: func(w *worker, _ *subscription) { gap(w) }, want: found{announced: 8, uncertain: 2}},
		{name: "the tail is announced", happened: func(w *worker, _ *subscription) { see(w, 1, 2, 3, 4, 5); gap(w) }, want: found{announced: 5}},
		{name: "it came later", happened: func(_ *worker, m *subscription) { m.whole = false }},
		{name: "it came later and saw the last", happened: func(w *worker, m *subscription) { m.whole = false; see(w, 10) }},
		{name: "it came later and missed some", happened: func(w *worker, m *subscription) { m.whole = false; see(w, 6, 8) }, want: found{lost: 3}},
		{name: "it is away", happened: func(w *worker, m *subscription) { see(w, 1, 2); m.state = absent }, want: found{pending: 6, uncertain: 2}},
		{name: "the measurement was interrupted", interrupted: true, happened: func(w *worker, _ *subscription) { see(w, 1, 2, 4, 5) }, want: found{pending: 5, uncertain: 1}},
		{name: "it began anew and saw nothing since", happened: func(w *worker, m *subscription) { see(w, 1, 2); m.sequences[0].restarted = true }},
		{name: "it began anew", happened: func(w *worker, m *subscription) {
			see(w, 1, 2)
			m.sequences[0].restarted = true
			see(w, 7, 9)
		}, want: found{lost: 2}},
		{name: "it is slow", happened: func(w *worker, m *subscription) { m.slow = true; see(w, 1, 3, 4); gap(w); see(w, 7) }, want: found{slowAnnounced: 3}},
		{name: "it is slow and misses some", happened: func(w *worker, m *subscription) { m.slow = true; see(w, 1, 3) }, want: found{slowMissing: 1}},
	} {
		w := newAudienceWorker(t, 1)
		w.engine.ours[1] = struct{}{}
		m := &w.audience.members[0]
		if !m.whole {
			t.Fatal("opened before the load, it is owed everything")
		}
		if tt.happened != nil {
			tt.happened(w, m)
		}
		published := published
		if tt.published > 0 {
			published.Published = tt.published
		}
		w.reckon(map[int][]source{0: {{published}}}, tt.interrupted)
		r := Streams{Failures: map[string]uint64{}}
		w.sum(&r, map[uint32]source{1: {published}})
		got := found{r.Lost, r.Announced, r.Uncertain, r.Pending, r.Slow.Missing, r.Slow.Announced}
		if got != tt.want || r.Repeated+r.Disordered+r.Unlisted > 0 {
			t.Errorf("%s: %+v, want %+v (%+v)", tt.name, got, tt.want, r)
		}
		if (len(r.Missing) > 0) != (r.Lost+r.Announced > 0) {
			t.Errorf("%s: lists %+v", tt.name, r.Missing)
		}
	}
}

// The list of what is missing is bounded.
func TestMissingIsBounded(t *testing.T) {
	w := newAudienceWorker(t, 1)
	m := &w.audience.members[0]
	for n := uint64(1); n < 3*MaxMissing; n += 2 {
		w.hear(0, m, eventBytes(1, n), readAt(1))
	}
	w.reckon(nil, false)
	r := Streams{Failures: map[string]uint64{}}
	w.sum(&r, nil)
	if len(r.Missing) != MaxMissing || r.Lost != 3*MaxMissing/2-1 || r.Missing[0] != (Missing{Source: 1, First: 2, Last: 2}) {
		t.Errorf("%d listed of %d: %s", len(r.Missing), r.Lost, fmt.Sprint(r.Missing[0]))
	}
}
