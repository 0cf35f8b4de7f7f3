package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Subscribers come out of the heap in the order of their timers, each at its last one, and
// not when they were taken out.
func TestTimerHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := make([]subscriber, 12)
		for i := range all {
			all[i].place = none
		}
		var h timerHeap
		model := map[int32]int64{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			i := int32(rapid.IntRange(0, len(all)-1).Draw(t, "subscriber"))
			if rapid.IntRange(0, 3).Draw(t, "action") == 0 {
				h.clear(all, i)
				delete(model, i)
			} else {
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				h.set(all, i, at)
				model[i] = at
			}
			if len(h) != len(model) {
				t.Fatalf("%d timers, want %d", len(h), len(model))
			}
		}
		var got, want []int64
		for len(h) > 0 {
			i := h[0]
			if all[i].timer != model[i] {
				t.Fatalf("subscriber %d at %d, want %d", i, all[i].timer, model[i])
			}
			got = append(got, model[i])
			h.clear(all, i)
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
