package recording

import (
	"testing"

	"dyno/load/hist"
)

func TestMergedLog(t *testing.T) {
	of := func(values ...int64) *hist.Histogram {
		h := hist.New()
		for _, v := range values {
			h.Record(v)
		}
		return h
	}
	first, second := of(1, 5, 6e10), of(5, 7)
	got := Merged([]hist.Interval{{Tag: "x", Hist: first}, {Tag: "y", Hist: second}, {Tag: "x", Hist: second}})
	if !got["x"].Equal(of(1, 5, 5, 7, 6e10)) || !got["y"].Equal(second) || !first.Equal(of(1, 5, 6e10)) {
		t.Errorf("merged: x %d values, y %d", got["x"].Count(), got["y"].Count())
	}
}
