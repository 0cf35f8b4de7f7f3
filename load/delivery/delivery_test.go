package delivery

import (
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/sums"
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

// Each publication due to a subscriber was delivered, or is announced, uncertain, pending or lost: a
// model that remembers everything has the same counts.
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
		for number := range subscribers {
			s := Subscriber{}
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
				sums.Add(&want, &m.account)
				due, delivered = due+m.due, delivered+m.delivered
			}
			if s.Awaits(published, topic) != awaits {
				t.Fatalf("subscriber %d awaits events: %v, want %v", number, !awaits, awaits)
			}
			s.Close(ledger, published, topic, connected)
		}
		got := Sum([]*Ledger{ledger}, published)
		if got != want {
			t.Fatalf("account %+v, want %+v", got, want)
		}
		if sum := delivered + got.Announced + got.Uncertain + got.Pending + got.Lost; sum != due {
			t.Fatalf("%d of %d due are accounted for: %+v", sum, due, got)
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
	if len(l.entries) != 3 || got.Announced+got.Lost != 998 || got.Announced == 0 {
		t.Errorf("%d entries, account %+v", len(l.entries), got)
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
