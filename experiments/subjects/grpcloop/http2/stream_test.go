package http2

import (
	"testing"

	"pgregory.net/rapid"
)

// The table of streams is compared with a map, for numbers that collide and those that do
// not.
func TestStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table streams
		want := map[uint32]*Stream{}
		id := rapid.Map(rapid.IntRange(0, 60), func(n int) uint32 { return uint32(2*n + 1) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				i := id.Draw(t, "id")
				if want[i] == nil {
					want[i] = &Stream{id: i}
					table.put(want[i])
				}
			},
			"remove": func(t *rapid.T) {
				i := id.Draw(t, "id")
				if want[i] != nil {
					table.remove(i)
					delete(want, i)
				}
			},
			"": func(t *rapid.T) {
				for i := uint32(1); i < 125; i += 2 {
					if got := table.get(i); got != want[i] {
						t.Fatalf("%d: %v, want %v", i, got, want[i])
					}
				}
				if table.count != len(want) {
					t.Fatalf("%d streams, want %d", table.count, len(want))
				}
			},
		})
	})
}

func TestTimeout(t *testing.T) {
	for text, want := range map[string]int64{
		"1n": 1, "5u": 5000, "20m": 20e6, "99999999S": 99999999e9, "1M": 60e9, "2H": 7200e9, "99999999H": 1<<63 - 1, "0S": 1,
	} {
		if got, ok := timeout([]byte(text)); !ok || int64(got) != want {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "S", "1", "1s", "123456789S", "-1S", "1.5S", " 1S", "1 S"} {
		if got, ok := timeout([]byte(text)); ok {
			t.Errorf("%q: %v, want none", text, got)
		}
	}
}
