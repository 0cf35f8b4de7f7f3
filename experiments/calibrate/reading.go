package calibrate

import (
	"math"
	"slices"
	"time"
)

// The units of a Reading.
const (
	Seconds   = "s"
	PerSecond = "/s"
	Count     = "count"
	Share     = "share"
)

// A Reading is one figure that dyno, or another tool, has measured of a server whose
// answer is known.
type Reading struct {
	Oracle   string
	Quantity string
	Unit     string   // of all figures: one of the units above
	Expected *float64 // nil: there is only a limit
	Measured float64
	// Limit is the largest |Measured − Expected|, or without Expected the largest
	// Measured. If it is nil, the reading is shown and not judged.
	Limit *float64
	Note  string
}

// Deviation returns Measured − Expected, and whether there is one.
func (r *Reading) Deviation() (float64, bool) {
	if r.Expected == nil {
		return 0, false
	}
	return r.Measured - *r.Expected, true
}

// Outcome compares the reading with its limit.
func (r *Reading) Outcome() Outcome {
	if r.Limit == nil {
		return Unlimited
	}
	off := r.Measured
	if d, ok := r.Deviation(); ok {
		off = math.Abs(d)
	}
	if off <= *r.Limit {
		return Met
	}
	return Missed
}

// A percentile is a share with the limit on a reading of it: the larger of a time and of
// a share of the expected value.
type percentile struct {
	name  string
	q     float64
	floor time.Duration
	share float64
}

func (p percentile) limit(expected float64) *float64 {
	l := max(p.floor.Seconds(), p.share*expected)
	return &l
}

// agreement lists percentiles, each with the largest difference allowed between dyno's times and the kernel's
// time stamps.
func agreement() []percentile {
	return []percentile{
		{"p50", 0.50, 50 * time.Microsecond, 0},
		{"p99", 0.99, 100 * time.Microsecond, 0.01},
		{"p99.9", 0.999, 250 * time.Microsecond, 0.02},
	}
}

// stall lists the percentiles that depend on a server's freezes.
func stall() []percentile {
	return []percentile{{"p95", 0.95, 0, 0.02}, {"p99", 0.99, 0, 0.02}, {"p99.9", 0.999, 0, 0.02}}
}

// times are durations in nanoseconds, sorted.
type times []int64

func sorted(ns []int64) times {
	slices.Sort(ns)
	return ns
}

// quantile returns the time of rank q·n, rounded to nearest as histograms do, in
// seconds.
func (t times) quantile(q float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	rank := int(math.Round(q * float64(len(t))))
	return float64(t[min(max(rank, 1), len(t))-1]) / 1e9
}

func pointer(v float64) *float64 { return &v }
