package pace

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShardValidate(t *testing.T) {
	for _, tt := range []struct {
		shard Shard
		want  string
	}{
		{Whole(), ""},
		{Shard{2, 3}, ""},
		{Shard{}, "shard 0 of 0: want 1 to 16777216 shards"},
		{Shard{0, maxShards + 1}, "want 1 to"},
		{Shard{3, 3}, "shard 3 of 3: want an index from 0 to 2"},
		{Shard{-1, 3}, "shard -1 of 3: want an index from 0 to 2"},
	} {
		switch err := tt.shard.Validate(); {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", tt.shard, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: error %v, want %q", tt.shard, err, tt.want)
		}
	}
}

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
