package delivery

import (
	"dyno/internal/sums"
	"dyno/load/wire"
)

// An Account is what became of the events that were due to subscribers.
type Account struct {
	Repeated   uint64 // events that had been seen before
	Disordered uint64 // events that came after a later one of the same source

	// Each event that was due and never seen is in exactly one of these counts.
	Announced uint64 // the server said so by a gap event
	Uncertain uint64 // the publication was not acknowledged
	Pending   uint64 // the subscriber was without a connection at the end
	Lost      uint64 // none of these

	// Untracked counts events of more than MaxSources sources of one subscriber. Their missing events
	// are unknown.
	Untracked uint64
}

// A Ledger is what subscribers have found to be missing. It is bounded: what is missing when it is full
// counts as announced or lost even if it arrives later or is uncertain. The zero value has no room. Its
// subscribers expect nothing before the first number that they see of a source.
type Ledger struct {
	expected map[uint32]struct{}
	room     int
	entries  []entry
	account  Account // without the entries
}

// An entry is a span of numbers that are missing. It is empty when all have arrived late.
type entry struct {
	wire.Span
	source    uint32
	previous  int32 // entry of the same sequence, or none
	announced bool
}

// maxEntries bounds the entries of a ledger: 3 MiB.
const maxEntries = 1 << 16

// NewLedger returns an empty ledger. A subscriber from the beginning is to see everything from the
// expected sources. They must be known when the first event is seen.
func NewLedger(expected map[uint32]struct{}) *Ledger {
	return &Ledger{expected: expected, room: maxEntries}
}

// miss enters missing numbers of a sequence.
func (l *Ledger) miss(q *sequence, missing wire.Span, announced bool) {
	if q.last != none {
		e := &l.entries[q.last]
		if e.Last+1 == missing.First && e.announced == announced {
			e.Last = missing.Last
			return
		}
	}
	if len(l.entries) == l.room {
		*l.account.missing(announced) += size(missing)
		return
	}
	l.entries = append(l.entries, entry{missing, q.source, q.last, announced})
	q.last = int32(len(l.entries) - 1) //nolint:gosec // bounded by the room
}

// missing returns the count of events that are missing and were announced, or were not.
func (a *Account) missing(announced bool) *uint64 {
	if announced {
		return &a.Announced
	}
	return &a.Lost
}

// recover tells whether a number was missing, and takes it out.
func (l *Ledger) recover(q *sequence, n uint64) bool {
	for at := q.last; at != none; at = l.entries[at].previous {
		e := &l.entries[at]
		if n < e.First || n > e.Last {
			continue
		}
		rest := wire.Span{First: n + 1, Last: e.Last}
		e.Last = n - 1
		if size(rest) > 0 {
			// The one before it stays where it is; the one after is a new one.
			l.miss(q, rest, e.announced)
		}
		return true
	}
	return false
}

// Sum adds up the ledgers of subscribers whose accounts are closed.
func Sum(ledgers []*Ledger, all Published) Account {
	sources := map[uint32]*wire.Source{}
	for _, of := range all {
		for i := range of {
			sources[of[i].ID] = &of[i]
		}
	}
	var sum Account
	for _, l := range ledgers {
		sums.Add(&sum, &l.account)
		for _, e := range l.entries {
			var n uint64
			if s := sources[e.source]; s != nil {
				n = uncertain(s, e.Span)
			}
			sum.Uncertain += n
			*sum.missing(e.announced) += size(e.Span) - n
		}
	}
	return sum
}
