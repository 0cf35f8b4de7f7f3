package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Places come out in the order of their timers, each at its last one, and not when it was cleared.
func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length = 12
		timers := NewTimers(length)
		model := map[int32]int64{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			i := int32(rapid.IntRange(0, length-1).Draw(t, "place"))
			if rapid.IntRange(0, 3).Draw(t, "action") == 0 {
				timers.Clear(i)
				delete(model, i)
			} else {
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				timers.Set(i, at)
				model[i] = at
			}
			if len(timers.heap) != len(model) {
				t.Fatalf("%d timers, want %d", len(timers.heap), len(model))
			}
		}
		var got, want []int64
		for at := timers.Next(); at != never; at = timers.Next() {
			i, due := timers.Pop()
			if at != model[i] || due != at {
				t.Fatalf("place %d at %d, want %d", i, due, model[i])
			}
			got = append(got, at)
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
