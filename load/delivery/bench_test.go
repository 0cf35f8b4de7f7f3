package delivery

import (
	"fmt"
	"testing"
)

// An event allocates nothing, be it the next, a repeated or a late one, or one after
// others that are missing, of one source among many; nor does one for which a ledger has no
// more room.
func TestSeeDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	const sources = 64
	s, l := Subscriber{}, NewLedger(nil)
	s.Accepted(true, false)
	for source := range uint32(sources) {
		s.See(l, source, 1)
	}
	l.entries = make([]entry, 0, maxEntries)
	n := uint64(1)
	see := func() {
		for source := range uint32(sources) {
			s.See(l, source, n+1)
			s.See(l, source, n+1)
			s.See(l, source, n+4)
			s.See(l, source, n+3)
		}
		n += 5
	}
	if allocs := testing.AllocsPerRun(100, see); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	l.room = 0
	l.entries = nil
	for k := range s.sequences {
		s.sequences[k].last = none
	}
	if allocs := testing.AllocsPerRun(100, see); allocs > 0 {
		t.Errorf("%v allocations with a full ledger", allocs)
	}
	for k := range s.sequences {
		if q := &s.sequences[k]; q.highest != n-1 {
			t.Fatalf("source %d is at %d, want %d", q.source, q.highest, n-1)
		}
	}
	if a := l.account; a.Repeated == 0 || a.Disordered == 0 || a.Lost == 0 {
		t.Errorf("%+v", a)
	}
}

// BenchmarkSee is an event of one of a number of sources. Each tenth follows one that is
// missing.
func BenchmarkSee(b *testing.B) {
	for _, sources := range []int{1, 100} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			s, l := Subscriber{}, &Ledger{}
			s.Accepted(true, false)
			b.ReportAllocs()
			n, source := uint64(1), 0
			for b.Loop() {
				s.See(l, uint32(source), n) //nolint:gosec // small
				if source++; source == sources {
					source = 0
					if n++; n%10 == 0 {
						n++
					}
				}
			}
		})
	}
}
