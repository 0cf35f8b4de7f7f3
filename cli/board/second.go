package board

import (
	"cmp"
	"fmt"
	"time"

	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/report/figure"
)

// A Second gathers intervals until they are a second long.
type Second struct {
	record.Interval                 // without times
	Times           *hist.Histogram // of responses, or of events where there are some
}

// NewSecond returns a second without an interval.
func NewSecond() *Second { return &Second{Times: hist.New()} }

// Add adds an interval. It reports whether the second is complete.
func (s *Second) Add(i record.Interval) bool {
	if s.Length == 0 {
		s.Start = i.Start
	}
	s.Length += i.Length
	s.AddCounts(&i)
	if h := times(i); h != nil {
		s.Times.Merge(h)
	}
	return s.Length >= time.Second
}

// Row writes the second, as people follow a load: the rest of a load, which is shorter, has no rate.
func (s *Second) Row(warmup time.Duration) string {
	unit, done := "", s.Completed()
	if s.Delivered > 0 {
		unit, done = " events", s.Delivered
	}
	text := fmt.Sprintf("%5.1fs  ", (s.Start + s.Length).Seconds())
	if s.Length >= time.Second {
		text += figure.Count(s.Rate()) + unit + "/s"
	} else {
		text += plain(int64(done)) + cmp.Or(unit, " ok") //nolint:gosec // a count
	}
	switch h := s.Times; {
	case h.Count() > 0:
		text += fmt.Sprintf("  p50 %s  p99 %s  max %s", figure.Duration(h.Quantile(0.5)), figure.Duration(h.Quantile(0.99)), figure.Duration(h.Max()))
	case s.Start < warmup:
		text += "  warming up"
	}
	c := trial.Counted(&s.Interval, warmup)
	for _, of := range []struct {
		what string
		n    int64
	}{{"failed", c.Unanswered()}, {"not sent", c.NotSent()}} {
		if of.n > 0 {
			text += fmt.Sprintf("  %s %d", of.what, of.n)
		}
	}
	return text
}

// IsEmpty tells whether nothing has ended in it.
func (s *Second) IsEmpty() bool {
	return s.Measured == (record.Outcomes{}) && s.Warmup == (record.Outcomes{}) && s.Delivered == 0
}

// Rate is of good responses per second, or of events where there are some.
func (s *Second) Rate() float64 {
	done := s.Completed()
	if s.Delivered > 0 {
		done = s.Delivered
	}
	return float64(done) / s.Length.Seconds()
}

// times are those that an interval is judged by: of events where there are some, since responses are
// those of the publisher then.
func times(i record.Interval) *hist.Histogram {
	if i.Delivered == 0 {
		return i.Latency[record.Response]
	}
	if h := i.Latency[record.Delivery]; h != nil {
		return h
	}
	return i.Latency[record.EventGap]
}
