package rundir

import (
	"strconv"
	"strings"

	"dyno/load/hist"
)

// Beyond is how many values must lie beyond a quantile for anything to be decided by it. With
// fewer, the next value could move it anywhere. So a p99 needs 1,000 values and a p99.9 needs
// 10,000. Reports mark one that has fewer with a ~.
const Beyond = 10

// Times are summaries of times by their tags in latency.hlog.
type Times map[string]Quantiles

// TimesOf summarises histograms of nanoseconds; empty ones are left out.
func TimesOf(histograms map[string]*hist.Histogram) Times {
	times := Times{}
	for tag, h := range histograms {
		if q := QuantilesOf(h); q.Count > 0 {
			times[tag] = q
		}
	}
	return times
}

// QuantilesOf summarises a histogram of nanoseconds; nil counts as an empty one.
func QuantilesOf(h *hist.Histogram) Quantiles {
	if h == nil || h.Count() == 0 {
		return Quantiles{}
	}
	q := Quantiles{Count: h.Count(), Mean: seconds(h.Mean()), Max: seconds(float64(h.Max()))}
	for _, s := range Summaries() {
		if s.Quantile > 0 && IsKnown(q.Count, s.Quantile) {
			*s.of(&q) = seconds(float64(h.Quantile(s.Quantile)))
		}
	}
	return q
}

// IsKnown tells whether count values have a quantile. One without a value beyond it would be the
// maximum. There is always a median.
func IsKnown(count int64, quantile float64) bool {
	return count > 0 && (beyond(count, quantile) >= 1 || quantile <= 0.5)
}

// beyond is how many of a number of values lie beyond a quantile.
func beyond(count int64, quantile float64) float64 {
	return float64(count)*(1-quantile) + 1e-6 // 1000 values have 10 beyond 0.99
}

// Few tells whether count values are too few to decide anything by their quantile.
func Few(count int64, quantile float64) bool {
	return quantile > 0 && beyond(count, quantile) < Beyond
}

func seconds(ns float64) *float64 {
	return new(ns / 1e9)
}

// A Summary is one figure of a clock's times.
type Summary struct {
	Name     string  // as in response.p99
	Quantile float64 // of the times; 0 for the maximum and the mean
	of       func(*Quantiles) **float64
}

// Of returns the figure, or nil if it is not known.
func (s Summary) Of(q *Quantiles) *float64 { return *s.of(q) }

// Summaries lists what Quantiles has.
func Summaries() []Summary {
	return []Summary{
		{"p50", 0.5, func(q *Quantiles) **float64 { return &q.P50 }},
		{"p75", 0.75, func(q *Quantiles) **float64 { return &q.P75 }},
		{"p90", 0.9, func(q *Quantiles) **float64 { return &q.P90 }},
		{"p95", 0.95, func(q *Quantiles) **float64 { return &q.P95 }},
		{"p99", 0.99, func(q *Quantiles) **float64 { return &q.P99 }},
		{"p999", 0.999, func(q *Quantiles) **float64 { return &q.P999 }},
		{"p9999", 0.9999, func(q *Quantiles) **float64 { return &q.P9999 }},
		{"max", 0, func(q *Quantiles) **float64 { return &q.Max }},
		{"mean", 0, func(q *Quantiles) **float64 { return &q.Mean }},
	}
}

// QuantileOf reads the name of any quantile: the percent in two digits, and then its
// decimals. So p5 is the 5th percentile, p99 the 99th and p999 the 99.9th.
func QuantileOf(name string) (quantile float64, ok bool) {
	digits, ok := strings.CutPrefix(name, "p")
	if !ok || len(digits) > 7 || len(digits) > 2 && strings.HasSuffix(digits, "0") || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	if len(digits) > 2 {
		digits = digits[:2] + "." + digits[2:]
	}
	percent, err := strconv.ParseFloat(digits, 64)
	return percent / 100, err == nil && percent > 0
}

// QuantileName is the name of a quantile as people write it: p99.9 for p999.
func QuantileName(name string) string {
	if _, ok := QuantileOf(name); ok && len(name) > 3 {
		return name[:3] + "." + name[3:]
	}
	return name
}
