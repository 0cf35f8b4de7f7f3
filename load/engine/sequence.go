package engine

import (
	"math/bits"
	"slices"
	"sort"

	"dyno/load/wire"
)

// A sequence accounts for the events of one source at one subscriber: which of the
// numbers from 1 it has seen. It remembers the highest and which of the 64 up to
// there; a number not seen when it leaves these is missing, and noted in a ledger.
type sequence struct {
	highest   uint64 // seen; 0 before the first
	seen      uint64 // bit i: highest-i was seen, or does not exist
	floor     uint64 // up to here nothing was expected
	announced uint64 // up to here the missing ones were announced
	source    uint32
	last      int32 // its latest stretch in the ledger, or none
	gapped    bool  // what is missing before the next number was announced
	restarted bool  // the subscription is a new one: the next number is its first
}

// memory is how many numbers a sequence tells apart.
const memory = 64

// complete returns a sequence of which everything is expected.
func complete(source uint32) sequence {
	return sequence{source: source, seen: ^uint64(0), last: none}
}

// partial returns a sequence that is expected from its first event on.
func partial(source uint32) sequence {
	return sequence{source: source, seen: ^uint64(0), last: none, restarted: true}
}

// see takes note of a number, at least 1, that the subscriber has received.
func (q *sequence) see(n uint64, subscriber int32, l *ledger) {
	if q.restarted {
		q.finish(subscriber, l)
		q.highest, q.seen, q.floor = n, 1, n-1
		q.announced, q.last = 0, none // what was missing then stays missing
		q.gapped, q.restarted = false, false
		return
	}
	if n > q.highest {
		if q.gapped {
			q.announced, q.gapped = n-1, false
		}
		if n == q.highest+1 && q.seen>>(memory-1) == 1 {
			q.highest, q.seen = n, q.seen<<1|1
			return
		}
		q.rise(n, subscriber, l)
		return
	}
	behind := q.highest - n
	switch {
	case behind < memory && q.seen>>behind&1 == 1:
		l.repeated++
	case behind < memory:
		q.seen |= 1 << behind
		l.disordered++
	case n <= q.floor, l.recover(q, n):
		l.disordered++
	default:
		l.repeated++
	}
}

// rise makes n the highest number. Those that leave the memory unseen are missing.
func (q *sequence) rise(n uint64, subscriber int32, l *ledger) {
	by := n - q.highest
	leaving := min(by, memory)
	q.miss(q.seen|^uint64(0)>>leaving, subscriber, l)
	if by > memory {
		q.note(q.highest+1, n-memory, subscriber, l)
	}
	q.highest = n
	q.seen = q.seen<<by | 1 // a shift by 64 or more leaves nothing
}

// miss notes the numbers whose bit is not set in seen.
func (q *sequence) miss(seen uint64, subscriber int32, l *ledger) {
	for unseen := ^seen; unseen != 0; {
		i := bits.Len64(unseen) - 1
		unseen &^= 1 << i
		if i := uint64(i); i < q.highest-q.floor { //nolint:gosec // a bit's number
			q.note(q.highest-i, q.highest-i, subscriber, l)
		}
	}
}

// note puts missing numbers into the ledger.
func (q *sequence) note(first, last uint64, subscriber int32, l *ledger) {
	if first <= q.announced {
		end := min(last, q.announced)
		l.miss(q, subscriber, wire.Span{First: first, Last: end}, true)
		first = end + 1
	}
	if first <= last {
		l.miss(q, subscriber, wire.Span{First: first, Last: last}, false)
	}
}

// announce takes note of a gap event: what is missing so far, and before the next
// number, was announced.
func (q *sequence) announce() {
	q.announced, q.gapped = q.highest, true
}

// finish ends the account: what was not seen is missing.
func (q *sequence) finish(subscriber int32, l *ledger) {
	q.miss(q.seen, subscriber, l)
	q.seen = ^uint64(0)
}

// A ledger is what the sequences of one worker's subscribers found. It is bounded:
// past limit stretches of missing numbers only their counts are kept.
type ledger struct {
	limit                int
	stretches            []stretch
	repeated, disordered uint64
	announced, lost      uint64 // numbers missing that found no place
}

// A stretch is numbers that are missing. It is empty when all have arrived late.
type stretch struct {
	wire.Span
	source     uint32
	subscriber int32
	previous   int32 // stretch of the same sequence, or none
	announced  bool
}

// maxStretches is the limit of a worker's ledger: 3 MiB.
const maxStretches = 1 << 16

func (l *ledger) miss(q *sequence, subscriber int32, missing wire.Span, announced bool) {
	if q.last != none {
		s := &l.stretches[q.last]
		if s.Last+1 == missing.First && s.announced == announced && s.First <= s.Last {
			s.Last = missing.Last
			return
		}
	}
	if len(l.stretches) == l.limit {
		n := missing.Last - missing.First + 1
		if announced {
			l.announced += n
		} else {
			l.lost += n
		}
		return
	}
	l.stretches = append(l.stretches, stretch{missing, q.source, subscriber, q.last, announced})
	q.last = int32(len(l.stretches) - 1) //nolint:gosec // bounded by the limit
}

// recover tells whether a number was missing, and takes it out.
func (l *ledger) recover(q *sequence, n uint64) bool {
	for at := q.last; at != none; at = l.stretches[at].previous {
		s := &l.stretches[at]
		if n < s.First || n > s.Last {
			continue
		}
		behind := wire.Span{First: n + 1, Last: s.Last}
		s.Last = n - 1
		if behind.First <= behind.Last {
			// The one before it stays where it is; the one behind is a new one.
			l.miss(q, s.subscriber, behind, s.announced)
		}
		return true
	}
	return false
}

// A source is a wire.Source after its last publication.
type source struct{ wire.Source }

// uncertain returns how many of the numbers were not acknowledged.
func (s source) uncertain(of wire.Span) (n uint64) {
	spans := s.Uncertain
	from := sort.Search(len(spans), func(i int) bool { return spans[i].Last >= of.First })
	for _, u := range spans[from:] {
		if u.First > of.Last {
			break
		}
		n += min(u.Last, of.Last) - max(u.First, of.First) + 1
	}
	return n
}

// find returns the place of a source among sequences, which are in the order of
// their sources, or the place where it belongs.
func find(sequences []sequence, source uint32) (int, bool) {
	return slices.BinarySearchFunc(sequences, source, func(q sequence, source uint32) int {
		switch {
		case q.source < source:
			return -1
		case q.source > source:
			return 1
		}
		return 0
	})
}
