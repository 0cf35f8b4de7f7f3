package main

import (
	"math"
	"testing"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// TestCompare: figures are of the phases' own times, and of no other tag's.
func TestCompare(t *testing.T) {
	var intervals []hist.Interval
	for i := range 100 { // of a second each: 10 responses, at first slower and later fewer
		h, n, ms := hist.New(), int64(10), int64(10)
		if i < 10 {
			ms = 20
		}
		if i >= 80 {
			n = 5
		}
		h.RecordN(ms*1e6, n)
		other := hist.New()
		other.RecordN(1e9, 1000)
		start := time.Duration(i) * time.Second
		intervals = append(intervals, hist.Interval{Tag: rundir.TagResponse, Start: start, Length: time.Second, Hist: h}, hist.Interval{Tag: rundir.TagService, Start: start, Length: time.Second, Hist: other})
	}
	p := Phases{Cold: 5 * time.Second, First: 15 * time.Second, Middle: 60 * time.Second, Last: 20 * time.Second, Half: 10 * time.Second}
	got, err := p.compare(intervals)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"first_p99_ratio": 2, "last_p99_ratio": 1, "first_throughput_ratio": 1, "last_throughput_ratio": 0.5, "cold_p50_ratio": 2, "cold_max_ratio": 2} {
		if math.Abs(got[name]-want) > 0.01 {
			t.Errorf("%s: %g, want %g", name, got[name], want)
		}
	}
	if _, err := p.compare(intervals[:20]); err == nil {
		t.Error("an empty phase is no fault")
	}
}

// TestVary: a deviation is of whole slices after the cold beginning.
func TestVary(t *testing.T) {
	var intervals []hist.Interval
	for i := range 10 { // of half a second each; cold: 1000; then slices of 9 and 11 responses in turns
		h, n := hist.New(), int64(1000)
		if i >= 2 {
			n = 4 + int64(i/2%2) + int64(i%2)
		}
		h.RecordN(1e6, n)
		intervals = append(intervals, hist.Interval{Tag: rundir.TagResponse, Start: time.Duration(i) * time.Second / 2, Length: time.Second / 2, Hist: h})
	}
	got, err := Variation{Cold: time.Second, Slice: time.Second, Slices: 4}.compare(intervals)
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Sqrt(4./3) / 10; math.Abs(got["throughput_deviation"]-want) > 1e-9 || got["requests_per_second"] != 10 {
		t.Errorf("%v, want a deviation of %g of 10 responses", got, want)
	}
	if _, err := (Variation{Slice: time.Second, Slices: 9}).compare(intervals); err == nil {
		t.Error("a slice after the end is no fault")
	}
}
