// Package pace says when requests are meant to start. An open loop follows a Schedule: arrival i has an
// intended start, counted from the load's start. It depends only on the stages, the process and the
// seed. A closed loop has think time between its requests instead: see Think.
//
// With rate λ(t), Λ(t) = ∫λ is the number of arrivals expected by t. Constant arrivals are at Λ⁻¹(0),
// Λ⁻¹(1), Λ⁻¹(2) and so on. Poisson arrivals apply Λ⁻¹ to the points of a Poisson process of rate one:
// by the time-rescaling theorem that is a Poisson process of rate λ(t), whatever the shape of λ.
//
// All randomness comes from math/rand/v2's PCG and from integer arithmetic. So the same seed gives the
// same schedule, bit for bit, on every machine.
package pace

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

// The limits within which the arithmetic is exact. One arrival a nanosecond is
// the resolution of the clock; one in 31 years is as good as none.
const (
	MaxRate     = 1e9  // arrivals per second
	MinRate     = 1e-9 // arrivals per second, unless it is 0
	MaxDuration = 366 * 24 * time.Hour
	MaxStages   = 10_000
)

// A Stage is a stretch of time. Its rate, in arrivals per second, goes in a straight line from From to
// To. A rate of 0 throughout is a pause. The last stage may have Duration 0, which means that it does
// not end; its rate must then be constant.
type Stage struct {
	Duration time.Duration
	From, To float64
}

// Steady returns the stages of an unchanging rate in arrivals per second; a
// duration of 0 is endless.
func Steady(rate float64, d time.Duration) []Stage {
	return []Stage{{Duration: d, From: rate, To: rate}}
}

// A Process says how arrivals scatter around their rate.
type Process uint8

// The processes.
const (
	Constant Process = iota // evenly spaced; the first at 0
	Poisson                 // independent of each other, as from many users
)

// Validate reports every fault of a schedule's description at once; each names
// the stage, counted from 1, the field, its value and what would be right.
func Validate(stages []Stage, p Process) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if p > Poisson {
		fault("process %d: want Constant (%d) or Poisson (%d)", uint8(p), Constant, Poisson)
	}
	if len(stages) == 0 {
		fault("stages: none given, want at least one")
	}
	if len(stages) > MaxStages {
		fault("stages: %d given, want at most %d", len(stages), MaxStages)
		return errors.Join(faults...)
	}
	var total time.Duration
	var arrivals, tooLong bool
	for i, s := range stages {
		for _, r := range []struct {
			field string
			rate  float64
		}{{"from", s.From}, {"to", s.To}} {
			if !validRate(r.rate) {
				fault("stage %d: %s: rate %v, want 0 or %v to %v arrivals per second", i+1, r.field, r.rate, MinRate, MaxRate)
			}
			arrivals = arrivals || r.rate != 0
		}
		switch last := i == len(stages)-1; {
		case s.Duration < 0:
			fault("stage %d: duration %v, want more than 0", i+1, s.Duration)
		case s.Duration == 0 && !last:
			fault("stage %d: duration 0 means endless, which only the last stage can be", i+1)
		case s.Duration == 0 && s.From != s.To:
			fault("stage %d: duration 0 means endless, which a ramp from %v to %v cannot be", i+1, s.From, s.To)
		case s.Duration == 0 && s.From == 0:
			fault("stage %d: duration 0 means endless, want a rate above 0", i+1)
		case s.Duration > MaxDuration-total:
			tooLong = true
		default:
			total += s.Duration
		}
	}
	if tooLong {
		fault("stages: longer than %v altogether, want at most that", MaxDuration)
	}
	if len(stages) > 0 && !arrivals {
		fault("stages: every rate is 0, want arrivals in at least one stage")
	}
	return errors.Join(faults...)
}

func validRate(r float64) bool { return r == 0 || r >= MinRate && r <= MaxRate }

// A Schedule holds the intended start of every arrival. It is immutable and may
// be shared.
type Schedule struct {
	stages  []stage
	process Process
	seed    uint64
}

// New returns the schedule of the stages, one after the other. The seed matters
// to Poisson arrivals only. An error is Validate's.
func New(stages []Stage, p Process, seed uint64) (*Schedule, error) {
	if err := Validate(stages, p); err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	s := &Schedule{stages: make([]stage, 0, len(stages)), process: p, seed: seed}
	var begin time.Duration
	before := new(big.Rat)
	for _, in := range stages {
		st := newStage(in, begin, before)
		s.stages = append(s.stages, st)
		begin += in.Duration
	}
	return s, nil
}

// stage is a Stage with its place in the schedule.
type stage struct {
	Stage
	begin time.Duration
	limit int64 // arrivals are less than this many ns after begin

	first, last fixed // Λ at begin and end

	// A constant rate: 1e9/rate, the exact number of ns per arrival as a fraction
	// in lowest terms. A rate is a float64 of at most MaxRate, so 64 bits
	// hold the denominator; it is at least MinRate, so 128 hold the numerator.
	periodNum fixed // an integer here: hi, lo are its two words
	periodDen uint64

	// A ramp, seen from its lower end: the rate there per ns, and half of its increase per ns.
	low, halfSlope float64
}

// newStage adds the stage's arrivals to before.
func newStage(in Stage, begin time.Duration, before *big.Rat) stage {
	s := stage{Stage: in, begin: begin, limit: int64(in.Duration), first: toFixed(before)}
	from, to := new(big.Rat).SetFloat64(in.From), new(big.Rat).SetFloat64(in.To)
	if in.Duration == 0 {
		s.limit = math.MaxInt64 - int64(begin)
		s.last = fixed{math.MaxUint64, math.MaxUint64}
	} else {
		count := new(big.Rat).Add(from, to)
		count.Mul(count, big.NewRat(int64(in.Duration), 2*int64(time.Second)))
		before.Add(before, count)
		s.last = toFixed(before)
	}
	switch {
	case in.From != in.To:
		low, high := min(in.From, in.To)/1e9, max(in.From, in.To)/1e9
		s.low, s.halfSlope = low, (high-low)/float64(in.Duration)/2
	case in.From > 0:
		period := new(big.Rat).Quo(big.NewRat(int64(time.Second), 1), from)
		s.periodNum, s.periodDen = toWords(period.Num()), period.Denom().Uint64()
	}
	return s
}

// at returns when, in ns after begin, Λ reaches pos; false if that is not in this stage. It never
// decreases as pos increases. Times are rounded to the nearest nanosecond before they are compared with
// the stage's end. So a rate that float64 cannot hold, such as 10 an hour, still has 10 arrivals in an
// hour.
func (s *stage) at(pos fixed) (int64, bool) {
	if !pos.less(s.last) {
		return 0, false
	}
	x := pos.minus(s.first) // 0 if rounding made an earlier stage pass pos on
	var t int64
	switch {
	case s.From == s.To:
		var ok bool
		if t, ok = x.scale(s.periodNum, s.periodDen); !ok {
			return 0, false
		}
	case s.From < s.To:
		t = s.solve(x.float())
	default:
		// A falling ramp is solved from its end. There its slope makes a sum of positive terms, so
		// nothing cancels out.
		t = max(0, s.limit-s.solve(s.last.minus(pos).float()))
	}
	return t, t < s.limit
}

// solve returns the nearest ns to the root t of low·t + halfSlope·t² = x. The
// closed formula is only a guess: a root found by comparing area, which never
// decreases, never decreases in x either. The guess is off by a few ns at most
// as long as stages are shorter than MaxDuration.
func (s *stage) solve(x float64) int64 {
	if x == 0 {
		return 0
	}
	root := math.Sqrt(float64(s.low*s.low) + float64(4*s.halfSlope*x))
	t := min(int64(2*x/(s.low+root)), s.limit)
	for t < s.limit && s.area(t) <= x {
		t++
	}
	for t > 0 && s.area(t-1) > x {
		t--
	}
	return t
}

// area returns Λ from the lower end to half a ns past t. The conversions keep the
// compiler from fusing, which some machines can and others cannot.
func (s *stage) area(t int64) float64 {
	f := float64(t) + 0.5
	return float64(s.low*f) + float64(s.halfSlope*float64(f*f))
}
