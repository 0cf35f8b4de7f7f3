package delivery

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire"
)

// A model is a sequence that remembers everything.
type model struct {
	seen, announced map[uint64]bool
	highest, floor  uint64
	gap, restarted  bool
	account         Account
	due, delivered  uint64 // numbers

	unacknowledged map[uint64]bool
}

func newModel(whole bool, unacknowledged map[uint64]bool) *model {
	return &model{seen: map[uint64]bool{}, announced: map[uint64]bool{}, restarted: !whole, unacknowledged: unacknowledged}
}

func (m *model) see(n uint64) {
	if m.restarted {
		m.finish()
		*m = model{
			seen: map[uint64]bool{n: true}, announced: map[uint64]bool{}, highest: n, floor: n - 1,
			account: m.account, due: m.due, delivered: m.delivered, unacknowledged: m.unacknowledged,
		}
		return
	}
	switch {
	case n > m.highest:
		if m.gap {
			for k := m.highest + 1; k < n; k++ {
				m.announced[k] = true
			}
			m.gap = false
		}
		m.highest = n
	case !m.seen[n], n <= m.floor && m.highest-n >= window:
		// A number from before the first one cannot be distinguished from its repetitions,
		// once it is out of reach.
		m.account.Disordered++
	default:
		m.account.Repeated++
	}
	m.seen[n] = true
}

func (m *model) announce() {
	for k := m.floor + 1; k <= m.highest; k++ {
		if m.highest-k < window {
			m.announced[k] = true
		}
	}
	m.gap = true
}

// finish says of each number up to the highest what became of it.
func (m *model) finish() {
	for k := m.floor + 1; k <= m.highest; k++ {
		m.end(k, m.announced[k], true)
	}
}

// end says what became of a number that was due.
func (m *model) end(k uint64, announced, connected bool) {
	m.due++
	switch {
	case m.seen[k]:
		m.delivered++
	case m.unacknowledged[k]:
		m.account.Uncertain++
	case !connected:
		m.account.Pending++
	case announced:
		m.account.Announced++
	default:
		m.account.Lost++
	}
}

// counts returns an account without what it lists.
func counts(a Account) Account {
	a.Missing = nil
	return a
}

// Whatever happened, each publication that is due to a subscriber was delivered, or is
// announced, uncertain, pending or lost, and nothing else: the account is that of somebody
// who remembers everything.
func TestEveryPublicationIsAccountedFor(t *testing.T) {
	const topics, subscribers = 2, 2
	rapid.Check(t, func(t *rapid.T) {
		var sources []wire.Source
		all, expected := NewPublications(2), map[uint32]struct{}{}
		unacknowledged := map[uint32]map[uint64]bool{}
		for id := range uint32(4) {
			s := wire.Source{ID: id, Topic: int(id % topics), Published: uint64(rapid.IntRange(0, 400).Draw(t, "published"))}
			unacknowledged[id] = map[uint64]bool{}
			for n := uint64(1); n <= s.Published; n += uint64(rapid.IntRange(1, 200).Draw(t, "skip")) {
				last := min(s.Published, n+uint64(rapid.IntRange(0, 9).Draw(t, "span")))
				s.Uncertain = append(s.Uncertain, wire.Span{First: n, Last: last})
				for ; n <= last; n++ {
					unacknowledged[id][n] = true
				}
			}
			sources = append(sources, s)
			expected[id] = struct{}{}
		}
		all.Add(sources[:1])
		if _, complete := all.All(); complete {
			t.Fatal("complete before the last publisher has finished")
		}
		all.Add(sources[1:])
		published, complete := all.All()
		if !complete || len(all.List()) != len(sources) {
			t.Fatalf("%d sources, complete %v", len(all.List()), complete)
		}

		ledger := NewLedger(expected)
		var want Account
		var due, delivered uint64
		for number := range int32(subscribers) {
			s := Subscriber{Number: number}
			topic := topicFollower(rapid.IntRange(0, topics-1).Draw(t, "topic"))
			early := rapid.Bool().Draw(t, "early")
			s.Accepted(early, false)
			models := map[uint32]*model{}
			for _, source := range sources {
				if topic.Follows(source.Topic) && early {
					models[source.ID] = newModel(true, unacknowledged[source.ID])
				}
			}
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				source := sources[rapid.SampledFrom([]uint32{0, 2}).Draw(t, "source")+uint32(topic)]
				switch action := rapid.IntRange(0, 20).Draw(t, "action"); {
				case action == 0:
					s.Gap()
					for _, m := range models {
						m.announce()
					}
				case action == 1:
					resumes := rapid.Bool().Draw(t, "resumes")
					s.Accepted(false, resumes)
					if resumes {
						break
					}
					for id, m := range models {
						if m.restarted = true; len(m.seen) == 0 {
							delete(models, id) // was never seen, and is a new one to this subscription
						}
					}
				case source.Published > 0:
					m := models[source.ID]
					if m == nil {
						m = newModel(false, unacknowledged[source.ID])
						models[source.ID] = m
					}
					n := m.highest + 1
					switch {
					case action < 6:
						n += uint64(rapid.IntRange(0, 140).Draw(t, "ahead"))
					case action < 14:
						n -= min(n-1, uint64(rapid.IntRange(0, 140).Draw(t, "back")))
					}
					for range rapid.IntRange(1, 20).Draw(t, "run") { // mostly they come in order
						if n <= source.Published {
							s.See(ledger, source.ID, n)
							m.see(n)
						}
						n++
					}
				}
			}
			connected := rapid.Bool().Draw(t, "connected")
			awaits := false
			for _, source := range sources {
				m := models[source.ID]
				if m == nil || !topic.Follows(source.Topic) {
					continue
				}
				m.finish()
				for k := m.highest + 1; k <= source.Published && !m.restarted; k++ {
					awaits = awaits || !m.unacknowledged[k]
					m.end(k, m.gap, connected)
				}
				want.Add(&m.account)
				due, delivered = due+m.due, delivered+m.delivered
			}
			if s.Awaits(published, topic) != awaits {
				t.Fatalf("subscriber %d awaits events: %v, want %v", number, !awaits, awaits)
			}
			s.Close(ledger, published, topic, connected)
		}
		got := Sum([]*Ledger{ledger}, published)
		if fmt.Sprint(counts(got)) != fmt.Sprint(counts(want)) {
			t.Fatalf("account %+v, want %+v", counts(got), counts(want))
		}
		if sum := delivered + got.Announced + got.Uncertain + got.Pending + got.Lost; sum != due {
			t.Fatalf("%d of %d due are accounted for: %+v", sum, due, counts(got))
		}
	})
}

// A topicFollower follows one topic.
type topicFollower int

func (f topicFollower) Follows(topic int) bool { return topic == int(f) }

// A full ledger still counts, and holds no more than its limit.
func TestLedgerIsBounded(t *testing.T) {
	s, l := Subscriber{}, NewLedger(nil)
	l.room = 3
	s.Accepted(false, false)
	for n := uint64(2); n < 2000; n += 2 {
		s.See(l, 1, n)
		if n == 1000 {
			s.Gap()
		}
	}
	s.Close(l, nil, nil, true)
	got := Sum([]*Ledger{l}, nil)
	if len(l.entries) != 3 || got.Announced+got.Lost != 998 || got.Announced == 0 || got.Unlisted != 995 || len(got.Missing) != 3 {
		t.Errorf("%d entries, account %+v", len(l.entries), got)
	}
}

// The list of what is missing is bounded and in order, whichever ledgers it comes from.
func TestMissingIsBounded(t *testing.T) {
	var ledgers []*Ledger
	for number := range int32(2) {
		s, l := Subscriber{Number: 1 - number}, NewLedger(nil)
		s.Accepted(false, false)
		for n := uint64(1); n < 2*MaxMissing; n += 2 {
			s.See(l, 7, n)
		}
		s.Close(l, nil, nil, true)
		ledgers = append(ledgers, l)
	}
	got := Sum(ledgers, nil)
	if len(got.Missing) != MaxMissing || got.Lost != 2*(MaxMissing-1) || got.Unlisted != 0 {
		t.Errorf("%d listed of %d", len(got.Missing), got.Lost)
	}
	if first := got.Missing[0]; first != (Missing{Source: 7, First: 2, Last: 2}) {
		t.Errorf("the first is %+v", first)
	}
	if !slices.IsSortedFunc(got.Missing, func(a, b Missing) int { return a.Subscriber - b.Subscriber }) {
		t.Error("not in the order of subscribers")
	}
	got.Add(&got)
	if len(got.Missing) != MaxMissing || got.Lost != 4*(MaxMissing-1) {
		t.Errorf("twice: %d listed of %d", len(got.Missing), got.Lost)
	}
}

// A subscriber distinguishes a bounded number of sources and counts the events of others.
func TestSourcesAreBounded(t *testing.T) {
	s, l := Subscriber{}, NewLedger(nil)
	s.Accepted(true, false)
	for source := range uint32(MaxSources + 10) {
		s.See(l, source*7919%(MaxSources+10), 1)
	}
	// Whether anything is missing of those is unknown.
	s.Close(l, Published{0: {{ID: 7919 * (MaxSources + 1) % (MaxSources + 10), Published: 5}}}, topicFollower(0), true)
	if got := Sum([]*Ledger{l}, nil); len(s.sequences) != MaxSources || got.Untracked != 10 || got.Lost != 0 {
		t.Errorf("%d sources, account %+v", len(s.sequences), got)
	}
}

func TestUncertain(t *testing.T) {
	s := wire.Source{Uncertain: []wire.Span{{First: 3, Last: 5}, {First: 9, Last: 9}, {First: 20, Last: 29}}}
	for _, tt := range []struct {
		of   wire.Span
		want uint64
	}{
		{wire.Span{First: 1, Last: 2}, 0}, {wire.Span{First: 1, Last: 3}, 1}, {wire.Span{First: 5, Last: 9}, 2},
		{wire.Span{First: 6, Last: 8}, 0}, {wire.Span{First: 1, Last: 100}, 14}, {wire.Span{First: 25, Last: 26}, 2},
		{wire.Span{First: 30, Last: 40}, 0}, {wire.Span{First: 4, Last: 3}, 0}, {nothing, 0},
	} {
		if got := uncertain(&s, tt.of); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.of, got, tt.want)
		}
	}
}

// What a subscriber has missed is counted by its reason.
func TestClose(t *testing.T) {
	// 3 and 4 of 10 were not acknowledged.
	source := wire.Source{ID: 1, Published: 10, Uncertain: []wire.Span{{First: 3, Last: 4}}}
	see := func(s *Subscriber, l *Ledger, numbers ...uint64) {
		for _, n := range numbers {
			s.See(l, 1, n)
		}
	}
	for _, tt := range []struct {
		name      string
		late      bool
		away      bool
		published uint64 // instead of 10
		happened  func(s *Subscriber, l *Ledger)
		want      Account
	}{
		{name: "nothing was seen", want: Account{Lost: 8, Uncertain: 2}},
		{name: "all was seen", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 5, 6, 7, 8, 9, 10) }, want: Account{Uncertain: 2}},
		{name: "so were the uncertain ones", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) }},
		{name: "the tail is missing", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 3, 4, 5, 6) }, want: Account{Lost: 4}},
		{name: "the last one seen is before the uncertain ones", published: 4, happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2) }, want: Account{Uncertain: 2}},
		{name: "the head is missing", happened: func(s *Subscriber, l *Ledger) { see(s, l, 5, 6, 7, 8, 9, 10) }, want: Account{Lost: 2, Uncertain: 2}},
		{name: "a hole is announced", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 3, 4, 5); s.Gap(); see(s, l, 8, 9, 10) }, want: Account{Announced: 2}},
		{name: "the head is announced", happened: func(s *Subscriber, l *Ledger) { s.Gap(); see(s, l, 7, 8, 9, 10) }, want: Account{Announced: 4, Uncertain: 2}},
		{name: "everything is announced", happened: func(s *Subscriber, _ *Ledger) { s.Gap() }, want: Account{Announced: 8, Uncertain: 2}},
		{name: "the tail is announced", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 3, 4, 5); s.Gap() }, want: Account{Announced: 5}},
		{name: "it came later", late: true},
		{name: "it came later and saw the last", late: true, happened: func(s *Subscriber, l *Ledger) { see(s, l, 10) }},
		{name: "it came later and missed some", late: true, happened: func(s *Subscriber, l *Ledger) { see(s, l, 6, 8) }, want: Account{Lost: 3}},
		{name: "it is away", away: true, happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2) }, want: Account{Pending: 6, Uncertain: 2}},
		{name: "it is away with a hole", away: true, happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2, 5, 7) }, want: Account{Lost: 1, Pending: 3, Uncertain: 2}},
		{name: "it continued", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2); s.Accepted(false, true); see(s, l, 7, 8) }, want: Account{Lost: 4, Uncertain: 2}},
		{name: "it started over and saw nothing since", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2); s.Accepted(false, false) }},
		{name: "it started over before anything was published, after a gap", happened: func(s *Subscriber, _ *Ledger) { s.Gap(); s.Accepted(true, false) }, want: Account{Lost: 8, Uncertain: 2}},
		{name: "it started over at the first, and what was missing before comes again", published: 100, happened: func(s *Subscriber, l *Ledger) {
			see(s, l, 1, 2, 3, 4, 6)
			s.Accepted(false, false)
			for n := range uint64(100) {
				s.See(l, 1, n+1)
			}
			see(s, l, 5)
		}, want: Account{Lost: 1, Repeated: 1}},
		{name: "it started over", happened: func(s *Subscriber, l *Ledger) { see(s, l, 1, 2); s.Accepted(false, false); see(s, l, 7, 9) }, want: Account{Lost: 2}},
	} {
		s, l := Subscriber{}, NewLedger(map[uint32]struct{}{1: {}})
		s.Accepted(!tt.late, false)
		if tt.happened != nil {
			tt.happened(&s, l)
		}
		source := source
		if tt.published > 0 {
			source.Published = tt.published
		}
		published := Published{0: {source}, 1: {{ID: 2, Topic: 1, Published: 5}}}
		s.Close(l, published, topicFollower(0), !tt.away)
		got := Sum([]*Ledger{l}, published)
		if fmt.Sprint(counts(got)) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, counts(got), tt.want)
		}
		if (len(got.Missing) > 0) != (got.Lost+got.Announced > 0) {
			t.Errorf("%s: lists %+v", tt.name, got.Missing)
		}
	}
}
