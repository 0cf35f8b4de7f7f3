package calls

import (
	"testing"

	"pgregory.net/rapid"
)

// The first of the timers is always the earliest, whatever is set, moved and removed.
func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var timers timers
		calls := make([]call, 20)
		want := map[*call]int64{}
		for i := range calls {
			calls[i].place = -1
		}
		pick := func(t *rapid.T) *call { return &calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")] }
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k := pick(t)
				want[k] = int64(rapid.IntRange(0, 30).Draw(t, "due"))
				timers.set(k, want[k])
			},
			"remove": func(t *rapid.T) {
				k := pick(t)
				timers.remove(k)
				delete(want, k)
			},
			"": func(t *rapid.T) {
				if len(timers.heap) != len(want) {
					t.Fatalf("%d timers, want %d", len(timers.heap), len(want))
				}
				for i, k := range timers.heap {
					if k.place != i || k.due != want[k] {
						t.Fatalf("at %d: place %d, due %d, want %d", i, k.place, k.due, want[k])
					}
					if timers.heap[0].due > k.due {
						t.Fatalf("the first is due at %d, another at %d", timers.heap[0].due, k.due)
					}
				}
			},
		})
	})
}
