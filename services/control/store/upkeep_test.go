package store

import (
	"slices"
	"testing"
)

// TestWhatIsOld: revisions are old by their number and by the changes that came after them, and are
// compacted by halves of what is kept.
func TestWhatIsOld(t *testing.T) {
	for name, c := range map[string]struct {
		keep  compaction
		marks []mark
		want  []int64 // what is compacted, in order
	}{
		"few changes": {
			compaction{keepRevisions: 100, keepChanges: 1_000_000},
			[]mark{{50, 50}, {100, 100}, {149, 149}, {150, 150}, {160, 160}, {199, 199}, {200, 200}, {1000, 1000}},
			[]int64{50, 100, 900},
		},
		"many in each": {
			compaction{keepRevisions: 1_000_000, keepChanges: 1000},
			[]mark{{10, 600}, {20, 1200}, {30, 1800}, {40, 2400}, {50, 3000}, {50, 3000}, {51, 9000}},
			[]int64{10, 20, 30, 50},
		},
		"a few, then many": {
			compaction{keepRevisions: 100, keepChanges: 1000},
			[]mark{{100, 100}, {200, 200}, {210, 1300}, {220, 2400}},
			[]int64{100, 200, 210},
		},
		"others' changes": {
			compaction{keepRevisions: 100, keepChanges: 1000},
			[]mark{{1000, 0}, {2000, 0}, {2000, 0}},
			[]int64{900, 1900},
		},
		"nothing is kept": {
			compaction{},
			[]mark{{5, 5}, {5, 5}, {6, 6}},
			[]int64{5, 6},
		},
		"nothing yet": {compaction{keepRevisions: 100, keepChanges: 1000}, []mark{{1, 0}, {20, 20}, {20, 20}}, nil},
	} {
		var got []int64
		for _, m := range c.marks {
			if to, worth := c.keep.next(m); worth {
				got = append(got, to.revision)
				c.keep.done = to
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: compacted to %v, want %v", name, got, c.want)
		}
	}
}

// TestMarksAreBounded: no more is remembered than is kept, however long it goes on.
func TestMarksAreBounded(t *testing.T) {
	c := compaction{keepRevisions: 100, keepChanges: 1000}
	for revision := range int64(10_000) {
		if to, worth := c.next(mark{revision, 2 * revision}); worth {
			c.done = to
		}
		if len(c.marks) > 102 {
			t.Fatalf("%d marks at revision %d", len(c.marks), revision)
		}
	}
}
