package short

import (
	"slices"
	"testing"
)

func TestStepsBetween(t *testing.T) {
	for _, c := range []struct {
		low, high int64
		want      []int64
	}{
		{1, 1, []int64{1}}, {0, 0, []int64{1}}, {3, 40, []int64{5, 10, 20, 50}}, {1000, 1000, []int64{1000}}, {999, 1001, []int64{1000, 2000}},
	} {
		if got := stepsBetween(c.low, c.high); !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d: %v, want %v", c.low, c.high, got, c.want)
		}
	}
}
