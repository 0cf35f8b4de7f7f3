package board

import (
	"time"

	"dyno/load/engine/record"
	"dyno/load/hist"
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

// Rate is of good responses per second, or of events where there are some.
func (s *Second) Rate() float64 {
	done := s.Completed
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
