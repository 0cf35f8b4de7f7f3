// Package delivery accounts for events: which published events reached each subscriber, and
// what became of the others.
//
// Each publisher numbers what it publishes to a topic (wire.Source). A Subscriber notes the
// numbers that it sees, and what it has missed goes into a Ledger, which subscribers share.
// Once all publishers have finished, their Publications say what is still due, and Sum adds
// everything up. Each event that is due to a subscriber was then delivered, or is in exactly
// one of four counts: announced, uncertain, pending or lost.
//
// A missing event counts as lost only if three things hold: its publication was acknowledged,
// its subscriber was connected, and no gap event announced the gap.
//
// The package knows neither connections nor clocks. A Subscriber and its Ledger belong to one goroutine
// at a time; Publications may be used by several. A property test compares the counts with a model that
// remembers every event.
//
// To read the source: sequence.go has the numbers of one source at one subscriber. For each
// source it keeps the highest number, and which of the 64 numbers before it were seen.
// ledger.go has what is missing, and subscriber.go joins the two.
package delivery

import (
	"cmp"
	"slices"

	"dyno/load/wire"
)

// MaxSources bounds the sources that are distinguished for one subscriber.
const MaxSources = 4096

// A Subscriber is what one subscriber has seen of each source.
type Subscriber struct {
	whole     bool       // of sources that the ledger knows, all numbers are expected
	announced bool       // what is missing of sources not seen yet was announced
	sequences []sequence // in the order of their sources
}

// Accepted notes that the server has accepted the subscription, for the first time or again.
// Early says that nothing was published before, so nothing can have been missed; resumes says
// that the server was asked to continue after the last event seen. If it was not, the next
// number of each source is the first that is expected.
func (s *Subscriber) Accepted(early, resumes bool) {
	s.whole = early || s.whole && resumes
	if resumes {
		return
	}
	s.announced = false
	for k := range s.sequences {
		s.sequences[k].restarted = true
	}
}

// See notes that number n of a source, at least 1, has arrived. It allocates only for a
// source that is new to the subscriber, and to enlarge the ledger.
func (s *Subscriber) See(l *Ledger, source uint32, n uint64) {
	at, found := s.find(source)
	if !found {
		if len(s.sequences) == MaxSources {
			l.account.Untracked++
			return
		}
		q := newSequence(source)
		if _, expected := l.expected[source]; expected && s.whole {
			q.gap = s.announced
		} else {
			q.restarted = true
		}
		s.sequences = slices.Insert(s.sequences, at, q)
	}
	s.sequences[at].see(n, l)
}

// Gap notes an event by which the server says that others are missing: what is missing now,
// and before the next number of each source, was announced.
func (s *Subscriber) Gap() {
	s.announced = true
	for k := range s.sequences {
		q := &s.sequences[k]
		q.announced, q.gap = q.highest, true
	}
}

// A Follower tells whether a subscriber asks for the events of a topic, by its number
// (wire.Source.Topic). A wire.Stream is one.
type Follower interface{ Follows(topic int) bool }

// Awaits tells whether events have yet to arrive that were published for certain.
func (s *Subscriber) Awaits(all Published, f Follower) bool {
	for topic, sources := range all {
		if !f.Follows(topic) {
			continue
		}
		for i := range sources {
			if rest := s.rest(&sources[i]); uncertain(&sources[i], rest) < size(rest) {
				return true
			}
		}
	}
	return false
}

// Close ends the account. Publications that the subscriber has not seen are pending if it is not
// connected, and missing if it is.
func (s *Subscriber) Close(l *Ledger, all Published, f Follower, connected bool) {
	for k := range s.sequences {
		s.sequences[k].finish(l)
	}
	for topic, sources := range all {
		if !f.Follows(topic) {
			continue
		}
		for i := range sources {
			source := &sources[i]
			rest := s.rest(source)
			switch {
			case size(rest) == 0:
			case connected:
				q := newSequence(source.ID)
				q.gap = s.announced
				if at, found := s.find(source.ID); found {
					q = s.sequences[at]
				}
				l.miss(&q, rest, q.gap)
			default:
				n := uncertain(source, rest)
				l.account.Uncertain += n
				l.account.Pending += size(rest) - n
			}
		}
	}
}

// rest returns the numbers of a source that are due after the highest one seen.
func (s *Subscriber) rest(source *wire.Source) wire.Span {
	var seen uint64
	if at, found := s.find(source.ID); found {
		q := &s.sequences[at]
		if q.restarted {
			return nothing // its next number is the first that is expected
		}
		seen = q.highest
	} else if !s.whole || len(s.sequences) == MaxSources {
		return nothing
	}
	if seen >= source.Published {
		return nothing
	}
	return wire.Span{First: seen + 1, Last: source.Published}
}

// find returns the place of a source among the sequences, or the place where it belongs.
func (s *Subscriber) find(source uint32) (int, bool) {
	return slices.BinarySearchFunc(s.sequences, source, func(q sequence, source uint32) int { return cmp.Compare(q.source, source) })
}

// nothing is a span without numbers.
var nothing = wire.Span{First: 1, Last: 0}

// size returns how many numbers a span has.
func size(s wire.Span) uint64 { return s.Last + 1 - s.First }
