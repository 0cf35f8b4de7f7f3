package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire"
)

// An account is a sequence's, kept by remembering everything.
type account struct {
	seen, announced                    map[uint64]bool
	highest, floor                     uint64
	gapped, restarted                  bool
	repeated, disordered, told, untold uint64
}

func (a *account) see(n uint64) {
	if a.restarted {
		a.finish()
		*a = account{
			seen: map[uint64]bool{n: true}, announced: map[uint64]bool{}, highest: n, floor: n - 1,
			repeated: a.repeated, disordered: a.disordered, told: a.told, untold: a.untold,
		}
		return
	}
	switch {
	case n > a.highest:
		if a.gapped {
			for k := a.highest + 1; k < n; k++ {
				a.announced[k] = true
			}
			a.gapped = false
		}
		a.highest = n
	case a.seen[n] && n > a.floor:
		a.repeated++
	default:
		// A number from before the first one is not told from its repetitions, once
		// it is out of reach.
		if n <= a.floor && a.seen[n] && a.highest-n < memory {
			a.repeated++
		} else {
			a.disordered++
		}
	}
	a.seen[n] = true
}

func (a *account) gap() {
	for k := a.floor + 1; k <= a.highest; k++ {
		if a.highest-k < memory {
			a.announced[k] = true
		}
	}
	a.gapped = true
}

func (a *account) finish() {
	for k := a.floor + 1; k <= a.highest; k++ {
		switch {
		case a.seen[k]:
		case a.announced[k]:
			a.told++
		default:
			a.untold++
		}
	}
}

// tally sums a ledger up.
func (l *ledger) tally() (told, untold uint64) {
	told, untold = l.announced, l.lost
	for _, s := range l.stretches {
		if n := s.Last + 1 - s.First; s.announced {
			told += n
		} else {
			untold += n
		}
	}
	return told, untold
}

// Whatever arrives, in whatever order, a sequence comes to the same account as
// somebody who remembers everything.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Bool().Draw(t, "whole")
		q, want := partial(3), account{restarted: true}
		if whole {
			q = complete(3)
			want.restarted = false
		}
		want.seen, want.announced = map[uint64]bool{}, map[uint64]bool{}
		l := ledger{limit: maxStretches}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch action := rapid.IntRange(0, 20).Draw(t, "action"); action {
			case 0:
				q.announce()
				want.gap()
			case 1:
				q.restarted, want.restarted = true, true
			default:
				n := q.highest + 1
				switch {
				case action < 6:
					n += uint64(rapid.IntRange(0, 140).Draw(t, "skip"))
				case action < 14:
					n -= min(n-1, uint64(rapid.IntRange(0, 140).Draw(t, "back")))
				}
				// A whole run of them, as mostly.
				for range rapid.IntRange(1, 20).Draw(t, "run") {
					q.see(n, 5, &l)
					want.see(n)
					n++
				}
			}
		}
		q.finish(5, &l)
		want.finish()
		told, untold := l.tally()
		if l.repeated != want.repeated || l.disordered != want.disordered || told != want.told || untold != want.untold {
			t.Fatalf("repeated %d, disordered %d, announced %d, lost %d; want %d, %d, %d, %d",
				l.repeated, l.disordered, told, untold, want.repeated, want.disordered, want.told, want.untold)
		}
		for _, s := range l.stretches {
			if s.source != 3 || s.subscriber != 5 {
				t.Fatalf("stretch %+v of another", s)
			}
		}
	})
}

// A full ledger still counts, and holds no more than its limit.
func TestLedgerIsBounded(t *testing.T) {
	q, l := complete(1), ledger{limit: 3}
	for n := uint64(2); n < 2000; n += 2 {
		q.see(n, 0, &l)
		if n == 1000 {
			q.announce()
		}
	}
	q.finish(0, &l)
	told, untold := l.tally()
	if len(l.stretches) != 3 || told+untold != 999 || l.announced == 0 || l.announced+l.lost != 996 {
		t.Errorf("%d stretches, %d announced and %d lost in all, %d and %d of them unlisted", len(l.stretches), told, untold, l.announced, l.lost)
	}
}

func TestUncertain(t *testing.T) {
	s := source{wire.Source{Uncertain: []wire.Span{{First: 3, Last: 5}, {First: 9, Last: 9}, {First: 20, Last: 29}}}}
	for _, tt := range []struct {
		of   wire.Span
		want uint64
	}{
		{wire.Span{First: 1, Last: 2}, 0}, {wire.Span{First: 1, Last: 3}, 1}, {wire.Span{First: 5, Last: 9}, 2},
		{wire.Span{First: 6, Last: 8}, 0}, {wire.Span{First: 1, Last: 100}, 14}, {wire.Span{First: 25, Last: 26}, 2},
		{wire.Span{First: 30, Last: 40}, 0},
	} {
		if got := s.uncertain(tt.of); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.of, got, tt.want)
		}
	}
}

// Members come out of the agenda in the order of their deadlines, each at its last
// one, and not when they were taken out.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := make([]subscription, 12)
		for i := range members {
			members[i].place = none
		}
		var a agenda
		model := map[int32]int64{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			i := int32(rapid.IntRange(0, len(members)-1).Draw(t, "member"))
			if rapid.IntRange(0, 3).Draw(t, "action") == 0 {
				a.clear(members, i)
				delete(model, i)
			} else {
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				a.set(members, i, at)
				model[i] = at
			}
			if len(a) != len(model) {
				t.Fatalf("%d members, want %d", len(a), len(model))
			}
		}
		var got, want []int64
		for len(a) > 0 {
			i := a[0]
			if members[i].deadline != model[i] {
				t.Fatalf("member %d at %d, want %d", i, members[i].deadline, model[i])
			}
			got = append(got, model[i])
			a.clear(members, i)
		}
		for _, at := range model {
			want = append(want, at)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("came at %v, want %v", got, want)
		}
	})
}

// Seeing a number allocates nothing, even if it is missing a predecessor and the
// ledger is full.
func BenchmarkSequence(b *testing.B) {
	q, l := complete(1), ledger{}
	b.ReportAllocs()
	for n := uint64(1); b.Loop(); n++ {
		q.see(n, 0, &l)
		if n%10 == 0 {
			n++
		}
	}
}
