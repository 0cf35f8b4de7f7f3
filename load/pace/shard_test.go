package pace

import (
	"testing"

	"pgregory.net/rapid"
)

// The union over shards, and over shards of shards, is the whole, each number once.
func TestShardsAreAPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outer := rapid.IntRange(1, 7).Draw(t, "outer")
		inner := rapid.IntRange(1, 7).Draw(t, "inner")
		const each = 5
		seen := make([]int, each*outer*inner)
		for i := range outer {
			for j := range inner {
				s := Shard{i, outer}.Sub(Shard{j, inner})
				if err := s.Validate(); err != nil {
					t.Fatal(err)
				}
				for n := range uint64(each) {
					seen[s.At(n)]++
					if s.At(n)%uint64(outer) != uint64(i) {
						t.Fatalf("%+v has %d, which is not of shard %d of %d", s, s.At(n), i, outer)
					}
				}
			}
		}
		for n, times := range seen {
			if times != 1 {
				t.Fatalf("number %d is in %d shards", n, times)
			}
		}
	})
}
