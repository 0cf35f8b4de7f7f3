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

// Few tells whether count is too small a number of values for anything to be decided by a
// quantile of theirs.
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
// decimals, so that p5 is the 5th percentile, p99 the 99th and p999 the 99.9th.
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

// Summary returns the figure of a name, such as p99. It is nil if it is not known.
func (q *Quantiles) Summary(name string) *float64 {
	for _, s := range Summaries() {
		if s.Name == name {
			return s.Of(q)
		}
	}
	return nil
}

// Times returns the times of a clock. They are empty if the variant has none.
func (v *Variant) Times(clock string) *Quantiles {
	return timesOf(clock, v.Streams, v.Tokens, map[string]*Quantiles{
		TagResponse: &v.Response, TagService: &v.Service, TagSendLag: &v.SendLag, TagConnect: &v.Connect, TagFirstByte: &v.FirstByte,
		TagReadDelay: &v.ReadDelay, TagServiceRead: &v.ServiceRead, TagHandshake: &v.Handshake,
		TagFirstMessage: &v.FirstMessage, TagMessageGap: &v.MessageGap, TagMessage: &v.Message,
	})
}

// Times returns the times of a clock. They are empty if the trial has none.
func (t *Trial) Times(clock string) *Quantiles {
	return timesOf(clock, t.Streams, t.Tokens, map[string]*Quantiles{
		TagResponse: &t.Response, TagService: &t.Service, TagSendLag: &t.SendLag, TagConnect: &t.Connect, TagFirstByte: &t.FirstByte,
		TagReadDelay: &t.ReadDelay, TagServiceRead: &t.ServiceRead, TagHandshake: &t.Handshake,
		TagFirstMessage: &t.FirstMessage, TagMessageGap: &t.MessageGap, TagMessage: &t.Message,
	})
}

func timesOf(clock string, s *Streams, t *Tokens, own map[string]*Quantiles) *Quantiles {
	if t != nil {
		own[TagFirstToken], own[TagTokenTime] = &t.FirstToken, &t.TokenTime
	}
	if s != nil {
		own[TagOpening], own[TagFirstEvent], own[TagEventGap], own[TagDelivery] = &s.Opening, &s.FirstEvent, &s.EventGap, &s.Delivery
	}
	if q := own[clock]; q != nil {
		return q
	}
	return &Quantiles{}
}
