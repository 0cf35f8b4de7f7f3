package delivery

import (
	"math/bits"

	"dyno/load/wire"
)

// A sequence accounts for the events of one source at one subscriber: which of the numbers
// from 1 it has seen. It remembers the highest and which of the 64 up to there; a number not
// seen when it leaves these is missing, and noted in the ledger.
type sequence struct {
	highest   uint64 // seen; 0 before the first
	seen      uint64 // bit i: highest-i was seen, or does not exist
	floor     uint64 // up to here nothing was expected
	announced uint64 // up to here the missing ones were announced
	source    uint32
	last      int32 // its latest entry in the ledger, or none
	gap       bool  // what is missing before the next number was announced
	restarted bool  // the next number is the first that is expected
}

// window is how many numbers a sequence tells apart.
const window = 64

// none is no entry of a ledger.
const none int32 = -1

// newSequence returns a sequence that expects everything.
func newSequence(source uint32) sequence {
	return sequence{source: source, seen: ^uint64(0), last: none}
}

// see takes note of a number that the subscriber has received. The next one in order, which
// most are, is dealt with first.
func (q *sequence) see(n uint64, l *Ledger) {
	if n == q.highest+1 && q.seen>>(window-1) == 1 && !q.gap && !q.restarted {
		q.highest, q.seen = n, q.seen<<1|1
		return
	}
	switch late := q.highest - n; {
	case q.restarted:
		q.finish(l)
		*q = sequence{source: q.source, highest: n, seen: 1, floor: n - 1, last: none} // what was missing then stays missing
	case n > q.highest:
		if q.gap {
			q.announced, q.gap = n-1, false
		}
		q.rise(n, l)
	case late < window && q.seen>>late&1 == 1:
		l.account.Repeated++
	case late < window:
		q.seen |= 1 << late
		l.account.Disordered++
	case n <= q.floor, l.recover(q, n):
		l.account.Disordered++
	default:
		l.account.Repeated++
	}
}

// rise makes n the highest number. Those that leave the window unseen are missing.
func (q *sequence) rise(n uint64, l *Ledger) {
	by := n - q.highest
	leaving := min(by, window)
	q.miss(q.seen|^uint64(0)>>leaving, l)
	if by > window {
		q.note(q.highest+1, n-window, l)
	}
	q.highest = n
	q.seen = q.seen<<by | 1 // a shift by 64 or more leaves nothing
}

// miss notes the numbers whose bit is not set in seen.
func (q *sequence) miss(seen uint64, l *Ledger) {
	for unseen := ^seen; unseen != 0; {
		i := bits.Len64(unseen) - 1
		unseen &^= 1 << i
		if i := uint64(i); i < q.highest-q.floor { //nolint:gosec // a bit's number
			q.note(q.highest-i, q.highest-i, l)
		}
	}
}

// note puts missing numbers into the ledger.
func (q *sequence) note(first, last uint64, l *Ledger) {
	if first <= q.announced {
		end := min(last, q.announced)
		l.miss(q, wire.Span{First: first, Last: end}, true)
		first = end + 1
	}
	if first <= last {
		l.miss(q, wire.Span{First: first, Last: last}, false)
	}
}

// finish ends the account: what was not seen is missing.
func (q *sequence) finish(l *Ledger) {
	q.miss(q.seen, l)
	q.seen = ^uint64(0)
}
