package hist

import (
	"math"
	"testing"
)

func TestRecordingDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	h, o := New(), of(1, 1e6, Highest)
	compact := o.Clone()
	v := int64(1)
	for name, f := range map[string]func(){
		"Record":           func() { h.Record(v); v = v*3%(2*Highest) - 1 },
		"RecordN":          func() { h.RecordN(v, 2) },
		"Merge":            func() { h.Merge(o) },
		"Merge of a clone": func() { h.Merge(compact) },
		"Reset":            h.Reset,
		"Quantile":         func() { h.Quantile(0.99) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// spread is a second of 100,000 responses, most within 50 to 250 µs.
func spread() []int64 {
	values := make([]int64, 100_000)
	x := uint64(1)
	for i := range values {
		x = x*6364136223846793005 + 1442695040888963407
		u := float64(x>>11) / (1 << 53)
		values[i] = 50_000 + int64(-40_000*math.Log(1-u))
	}
	return values
}

func BenchmarkRecord(b *testing.B) {
	h, values := New(), spread()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(values) {
			i = 0
		}
		h.Record(values[i])
	}
}
