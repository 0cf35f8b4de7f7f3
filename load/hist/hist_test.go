package hist

import (
	"bytes"
	"math"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// reference returns HdrHistogram's own histogram of the same layout.
func reference() *hdr.Histogram { return hdr.New(1, Highest, digits) }

func of(values ...int64) *Histogram {
	h := New()
	for _, v := range values {
		h.Record(v)
	}
	return h
}

// latencies draws values of every magnitude, edges of buckets among them.
func latencies(highest int64) *rapid.Generator[[]int64] {
	value := rapid.Custom(func(t *rapid.T) int64 {
		v := int64(math.Exp2(rapid.Float64Range(0, math.Log2(float64(highest))).Draw(t, "log2")))
		if rapid.Bool().Draw(t, "edge") {
			low, high := bounds(index(v))
			v = rapid.SampledFrom([]int64{low - 1, low, high, high + 1}).Draw(t, "which")
		}
		return max(0, min(v, highest))
	})
	return rapid.SliceOfN(value, 0, 100)
}

func TestLayoutIsTheReferences(t *testing.T) {
	if got := index(Highest); got != top {
		t.Errorf("index(Highest) = %d, top is %d", got, top)
	}
	next := int64(0)
	for i := range buckets {
		low, high := bounds(i)
		if low != next || index(low) != i || index(high) != i {
			t.Fatalf("bucket %d is %d to %d, of index %d and %d; want it to begin at %d", i, low, high, index(low), index(high), next)
		}
		if low > 0 && float64(high-low) > float64(low)/1000 {
			t.Fatalf("bucket %d, %d to %d, is wider than a thousandth", i, low, high)
		}
		next = high + 1
	}

	ref := reference()
	for i := range buckets {
		low, _ := bounds(i)
		if err := ref.RecordValue(low); err != nil {
			t.Fatal(err)
		}
	}
	var bar int
	bars := ref.Distribution()
	for ; bar < buckets; bar++ {
		if low, high := bounds(bar); bars[bar].From != low || bars[bar].To != high || bars[bar].Count != 1 {
			t.Fatalf("bucket %d is %d to %d, the reference's %v", bar, low, high, bars[bar])
		}
	}
}

// TestAgreesWithReference compares all figures, in the dense form and in the
// compact one.
func TestAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := latencies(Highest).Draw(t, "values")
		h, ref := New(), reference()
		exactMin, exactMax := int64(math.MaxInt64), int64(0)
		for _, v := range values {
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			if n == 1 {
				h.Record(v)
			} else {
				h.RecordN(v, n)
			}
			if err := ref.RecordValues(v, n); err != nil {
				t.Fatal(err)
			}
			exactMin, exactMax = min(exactMin, v), max(exactMax, v)
		}
		if len(values) == 0 {
			exactMin = 0
		}
		for _, h := range []*Histogram{h, h.Clone()} {
			if h.Count() != ref.TotalCount() || h.Min() != exactMin || h.Max() != exactMax {
				t.Fatalf("count, min, max %d, %d, %d; want %d, %d, %d", h.Count(), h.Min(), h.Max(), ref.TotalCount(), exactMin, exactMax)
			}
			mean := min(max(ref.Mean(), float64(exactMin)), float64(exactMax)) // the reference's may lie outside
			if !near(h.Mean(), mean) || !near(h.StdDev(), ref.StdDev()) {
				t.Fatalf("mean %v, standard deviation %v; want %v, %v", h.Mean(), h.StdDev(), mean, ref.StdDev())
			}
			for _, p := range []float64{0.001, 1, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100, rapid.Float64Range(0.001, 100).Draw(t, "p")} {
				if got, want := h.Quantile(p/100), min(ref.ValueAtPercentile(p), exactMax); got != want {
					t.Fatalf("p%v is %d, want %d", p, got, want)
				}
			}
			if h.Quantile(0) != exactMin || h.Quantile(-1) != exactMin || h.Quantile(2) != exactMax {
				t.Fatalf("quantiles at and beyond the ends: %d, %d, %d", h.Quantile(0), h.Quantile(-1), h.Quantile(2))
			}
			var below int64
			bars := ref.Distribution()
			h.Each(func(low, high, count int64) bool {
				for bars[0].Count == 0 {
					bars = bars[1:]
				}
				if bars[0] != (hdr.Bar{From: low, To: high, Count: count}) {
					t.Fatalf("bucket %d to %d: %d, want %v", low, high, count, bars[0])
				}
				bars = bars[1:]
				if got := h.CountAtOrBelow(low - 1); got != below {
					t.Fatalf("%d at or below %d, want %d", got, low-1, below)
				}
				below += count
				if got := h.CountAtOrBelow(low); got != below {
					t.Fatalf("%d at or below %d, want %d", got, low, below)
				}
				return true
			})
			if below != h.Count() || h.CountAtOrBelow(math.MaxInt64) != below {
				t.Fatalf("buckets hold %d of %d", below, h.Count())
			}
		}
	})
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestMergeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(latencies(3*Highest), 1, 4).Draw(t, "values")
		whole, merged := New(), New()
		if rapid.Bool().Draw(t, "into compact") {
			merged = New().Clone()
		}
		for _, values := range lists {
			part := New()
			for _, v := range values {
				v -= 5 // some are negative
				whole.Record(v)
				part.Record(v)
			}
			if rapid.Bool().Draw(t, "from compact") {
				part = part.Clone()
			}
			before := part.Clone()
			merged.Merge(part)
			same(t, part, before)
		}
		same(t, merged, whole)
		same(t, merged.Clone(), whole)
	})
}

// Values that are taken away again leave what there was.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some, others := latencies(3*Highest).Draw(t, "some"), latencies(3*Highest).Draw(t, "others")
		left, gone, all := New(), New(), New()
		for _, v := range some {
			left.Record(v)
			all.Record(v)
		}
		for _, v := range others {
			gone.Record(v)
			all.Record(v)
		}
		rest := all.Without(gone)
		if rest.Count() != left.Count() || !sameCounts(rest, left) {
			t.Fatalf("%d values are left, want %d", rest.Count(), left.Count())
		}
		bucket := func(v int64) int { return min(index(v), top) }
		if bucket(rest.Min()) != bucket(left.Min()) || bucket(rest.Max()) != bucket(left.Max()) {
			t.Fatalf("from %d to %d, want %d to %d", rest.Min(), rest.Max(), left.Min(), left.Max())
		}
	})
}

// same compares everything that there is to see.
func same(t interface{ Fatalf(string, ...any) }, a, b *Histogram) {
	type figures struct{ count, min, max int64 }
	of := func(h *Histogram) figures {
		return figures{h.Count(), h.Min(), h.Max()}
	}
	if of(a) != of(b) || !sameCounts(a, b) {
		t.Fatalf("histograms differ: %+v and %+v", of(a), of(b))
	}
}

// sameCounts tells whether all buckets of the two have the same counts.
func sameCounts(a, b *Histogram) bool { return bytes.Equal(a.Clone().packed, b.Clone().packed) }

func TestResetLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New()
		for round := range 3 {
			values := latencies(2*Highest).Draw(t, "values")
			for _, v := range values {
				h.Record(v - 3)
			}
			h.Reset()
			same(t, h, New())
			for i, n := range h.counts {
				if n != 0 {
					t.Fatalf("round %d: bucket %d still holds %d", round, i, n)
				}
			}
		}
	})
	c := of(1, 2, 3).Clone()
	c.Reset()
	c.Record(7)
	same(t, c, of(7))
}

func TestOutOfRange(t *testing.T) {
	_, end := bounds(top)
	h := of(-1, math.MinInt64, 0, Highest, end, end+1, 2*Highest, math.MaxInt64)
	h.RecordN(-7, 2)
	h.RecordN(3*Highest, 4)
	h.RecordN(5, 0)
	h.RecordN(5, -1)
	if h.Count() != 14 || h.Min() != 0 || h.Max() != math.MaxInt64 {
		t.Errorf("count %d, min %d, max %d", h.Count(), h.Min(), h.Max())
	}
	if got := h.CountAtOrBelow(0); got != 5 {
		t.Errorf("%d at or below 0, want 5", got)
	}
	if got := h.Quantile(0.9); got != end {
		t.Errorf("p90 of saturated values is %d, want the end of the last bucket, %d", got, end)
	}
	if got := h.Quantile(1); got != math.MaxInt64 {
		t.Errorf("p100 is %d, want the maximum", got)
	}
}
