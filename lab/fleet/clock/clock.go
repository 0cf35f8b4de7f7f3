// Package clock compares the clocks of two machines. It is pure: samples in, an offset and the
// bound of its error out.
//
// A sample is a request and its response. Each event has the time of its own machine's clock:
//
//	ours    Sent ------------------------------ Arrived
//	             \                            /
//	theirs        Received ------ Answered --
//
// The offset is theirs minus ours. No message arrives before it is sent, so the offset lies between
// Answered - Arrived and Received - Sent. That interval is as long as both messages together
// were on their way, however unequal the two ways are. The sample with the shortest round trip
// therefore bounds the error by half of it (RFC 5905, section 8).
//
// Several samples bound the offset better: it lies in all of their intervals. This is the intersection of Marzullo
// (K. Marzullo, S. Owicki: Maintaining the Time in a Distributed System, PODC 1983), which RFC 5905 uses in section
// 11.2.1. There a minority of clocks may be wrong. Here all samples are of one clock. So a contradicting sample shows
// that the clock jumped, and the measurement is refused.
//
// Clocks run at different rates, so a measurement holds at one instant only. A Clock has the last two
// measurements, and finds the rate between them:
//
//	now, err := clock.Measure(samples)
//	c, err = c.With(now)
//	theirs, within := c.At(ours)
//
// An offset that is used for a while is bounded for all of it by measurements before and after: see Apart.
//
// All times are nanoseconds since any instant, from 0 to 4e18: either clock may count from the
// machine's start or from 1970. Clocks must not be set during their use. Linux has such a clock in
// CLOCK_MONOTONIC, whose rate changes and which does not jump.
package clock

import (
	"errors"
	"fmt"
	"math"
)

// Assumptions about clocks, in nanoseconds per nanosecond.
const (
	// Tolerance bounds the difference between the rates of two clocks. It is MAXFREQ of RFC 5905,
	// and the fastest rate at which Linux corrects its clock.
	Tolerance = 500e-6
	// Wander bounds how far the rate is from the one last measured. It is PHI of RFC 5905.
	Wander = 15e-6
)

// The bounds of a measurement. A longer round trip gives no useful bound.
const (
	MaxSamples   = 1000
	MaxRoundTrip = 60e9
)

// latest bounds times, so that sums of two of them do not overflow.
const latest = 4e18

// rounding bounds the arithmetic's error, in nanoseconds.
const rounding = 2

// A Sample is one exchange, in nanoseconds: Sent and Arrived by our clock, Received and Answered by
// theirs.
type Sample struct {
	Sent, Received, Answered, Arrived int64
}

// validate refuses times that no exchange can have.
func (s Sample) validate() error {
	for _, t := range []int64{s.Sent, s.Received, s.Answered, s.Arrived} {
		if t < 0 || t > latest {
			return fmt.Errorf("a time of %d ns: want 0 to %d", t, int64(latest))
		}
	}
	switch {
	case s.Arrived < s.Sent:
		return fmt.Errorf("the answer arrived %d ns before the question was sent: our clock jumped", s.Sent-s.Arrived)
	case s.Answered < s.Received:
		return fmt.Errorf("the answer was sent %d ns before the question was received: their clock jumped", s.Received-s.Answered)
	case s.Arrived-s.Sent > MaxRoundTrip:
		return fmt.Errorf("a round trip of %d ns: want at most %d", s.Arrived-s.Sent, int64(MaxRoundTrip))
	}
	return nil
}

// interval returns a sample's interval of the offset. It can be empty, because the clocks' rates differ during the
// sample.
func (s Sample) interval() interval { return interval{s.Answered - s.Arrived, s.Received - s.Sent} }

// An interval is closed.
type interval struct{ low, high int64 }

func (i interval) and(other interval) interval {
	return interval{max(i.low, other.low), min(i.high, other.high)}
}

// around returns the middle, and how far the ends are from it at most.
func (i interval) around() (middle, reach int64) {
	return i.low + (i.high-i.low)/2, (i.high - i.low + 1) / 2
}

// A Measurement says that the offset was within Offset ± Error at an instant of our clock. All are
// nanoseconds.
type Measurement struct {
	At, Offset, Error int64
}

// Measure intersects samples. The instant is the middle of the sample with the shortest round trip.
// The clocks may drift by Tolerance between it and the other samples.
func Measure(samples []Sample) (Measurement, error) {
	if len(samples) == 0 || len(samples) > MaxSamples {
		return Measurement{}, fmt.Errorf("clock: %d samples: want 1 to %d", len(samples), MaxSamples)
	}
	best := samples[0]
	for n, s := range samples {
		if err := s.validate(); err != nil {
			return Measurement{}, fmt.Errorf("clock: sample %d: %w", n+1, err)
		}
		if i, least := s.interval(), best.interval(); i.high-i.low < least.high-least.low {
			best = s
		}
	}
	at := best.Sent + (best.Arrived-best.Sent)/2
	all := interval{math.MinInt64, math.MaxInt64}
	for _, s := range samples {
		drift := drifted(Tolerance, max(at-s.Sent, s.Arrived-at))
		i := s.interval()
		all = all.and(interval{i.low - drift, i.high + drift})
	}
	if all.low > all.high {
		return Measurement{}, errors.New("clock: the samples contradict each other: a clock jumped during the measurement")
	}
	m := Measurement{At: at}
	m.Offset, m.Error = all.around()
	return m, nil
}

// drifted bounds how far clocks come apart within a time, if their rates differ by a rate. One nanosecond is for
// truncation.
func drifted(rate float64, time int64) int64 {
	if time < 0 {
		time = -time
	}
	return int64(math.Ceil(rate*float64(time))) + 1
}

// A Clock is another machine's measured clock. The zero Clock was not measured yet. A Clock does not change, so any
// goroutine may use it.
type Clock struct {
	measured       int // 0, 1 or 2 of the following
	last, previous Measurement
	// The rate of the offset, in nanoseconds per nanosecond, is within rate ± unsure.
	rate, unsure float64
}

// With returns the Clock after another measurement, which must be later than the last one. It refuses
// one that contradicts the last one: a clock jumped, and the caller may begin with a zero Clock. One that only
// contradicts the rate says that the rate wandered further than by Wander: then Tolerance alone bounds it.
func (c Clock) With(m Measurement) (Clock, error) {
	if c.measured == 0 {
		return Clock{measured: 1, last: m, unsure: Tolerance}, nil
	}
	passed := m.At - c.last.At
	if passed <= 0 {
		return Clock{}, fmt.Errorf("clock: measured at %d ns, and not after the last measurement at %d ns", m.At, c.last.At)
	}
	mean := float64(m.Offset-c.last.Offset) / float64(passed)
	unsure := float64(m.Error+c.last.Error+rounding) / float64(passed)
	if math.Abs(mean)-unsure > Tolerance {
		return Clock{}, fmt.Errorf("clock: the offset changed by %d ns within %d ns: a clock jumped", m.Offset-c.last.Offset, passed)
	}
	wander := Wander
	if foreseen := c.from(c.last, m.At); m.Offset+m.Error < foreseen.low || m.Offset-m.Error > foreseen.high {
		wander = 2 * Tolerance
	}
	low, high := max(mean-unsure-wander, -Tolerance), min(mean+unsure+wander, Tolerance)
	return Clock{2, m, c.last, low + (high-low)/2, (high - low) / 2}, nil
}

// Rate returns how much faster their clock runs than ours, in parts per million, and the bound of its
// error. After two measurements it is the rate between them; before, nothing but Tolerance is known.
func (c Clock) Rate() (ppm, within float64) {
	if c.measured == 0 {
		return 0, Tolerance * 1e6
	}
	return c.rate * 1e6, c.unsure * 1e6
}

// At translates an instant of our clock into theirs, and bounds the error, in nanoseconds. The bound
// grows with the time from the last measurement. Between the last two, both bound it. Without a measurement,
// or for an instant that no clock has, the bound is math.MaxInt64.
func (c Clock) At(ours int64) (theirs, within int64) {
	if c.measured == 0 || ours < 0 || ours > latest {
		return ours, math.MaxInt64
	}
	offset := c.from(c.last, ours)
	if c.measured == 2 {
		offset = offset.and(c.from(c.previous, ours))
	}
	middle, within := offset.around()
	return ours + middle, within
}

// Apart bounds how far the offset was from a given one, at every instant between two of our clock. In between, it may be
// further away than at both ends, but only as far as the rate allows.
func (c Clock) Apart(offset, from, to int64) int64 {
	rate := min(math.Abs(c.rate)+c.unsure, Tolerance)
	var ends [2]int64
	for i, ours := range []int64{from, to} {
		theirs, within := c.At(ours)
		if within == math.MaxInt64 {
			return within
		}
		off := theirs - ours - offset
		ends[i] = max(off, -off) + within
	}
	return max(ends[0], ends[1], (ends[0]+ends[1]+drifted(rate, to-from))/2+rounding)
}

// from returns the offset at an instant, by one measurement and the rate.
func (c Clock) from(m Measurement, ours int64) interval {
	middle := m.Offset + int64(math.Round(c.rate*float64(ours-m.At)))
	reach := m.Error + drifted(c.unsure, ours-m.At) + rounding
	return interval{middle - reach, middle + reach}
}
