// Package capacity searches for the highest rate at which a server still keeps
// its thresholds. It is pure: trials in, the next rate to try out. Whoever makes
// the trials asks after each one what comes next:
//
//	var done []capacity.Trial
//	for {
//		state, err := goal.Next(done, 0)
//		if err != nil || state.Done {
//			return state, err
//		}
//		done = append(done, capacity.Trial{Rate: state.Next, Good: try(state.Next)})
//	}
//
// The search follows Multiple Loss Ratio Search (MLRsearch, RFC 9971) with one
// goal and trials of one length, where a trial is good or bad by thresholds
// instead of lost packets. A rate is a lower bound once enough of its trials were good: the
// share of bad ones stays within the goal's exceed ratio even if all trials that it may
// still have are bad. It is an upper bound once the share is beyond that even if all of
// them are good. Until then it is undecided, and tried again. The search finds the relevant
// upper bound, which is the smallest upper bound, and the relevant lower bound, which is
// the largest lower bound below it: a higher rate that was good by luck above a bad one
// does not count.
//
// One search is one observation. How sure its result is, only several of them
// tell.
package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The bounds of a Goal.
const (
	LeastRate       = 1e-6
	MostRate        = 1e12
	LeastResolution = 1e-4
	MostTrials      = 1000 // for each rate
)

// A Goal says what is searched for.
type Goal struct {
	From, To float64 // the range, in requests per second; both ends may be tried
	// Resolution is the width at which a search ends, relative to the lower bound:
	// 0.02 ends it with 1,000 good and 1,020 bad.
	Resolution float64
	Trials     int     // at most, for each rate
	Tolerate   float64 // the share of bad trials that a good rate may have, below 1
}

// Validate reports all faults, joined.
func (g Goal) Validate() error {
	var faults []error
	if !(g.From >= LeastRate && g.From <= MostRate) {
		faults = append(faults, fmt.Errorf("from %v: want %v to %v requests per second", g.From, LeastRate, MostRate))
	}
	if !(g.To > g.From && g.To <= MostRate) {
		faults = append(faults, fmt.Errorf("to %v: want more than from, %v, and at most %v requests per second", g.To, g.From, MostRate))
	}
	if !(g.Resolution >= LeastResolution && g.Resolution <= 1) {
		faults = append(faults, fmt.Errorf("resolution %v: want %v to 1, such as 0.02 for 2 %%", g.Resolution, LeastResolution))
	}
	if g.Trials < 1 || g.Trials > MostTrials {
		faults = append(faults, fmt.Errorf("trials %d: want 1 to %d", g.Trials, MostTrials))
	}
	if !(g.Tolerate >= 0 && g.Tolerate < 1) {
		faults = append(faults, fmt.Errorf("tolerate %v: want at least 0 and less than 1", g.Tolerate))
	}
	return errors.Join(faults...)
}

// A Trial is what one rate was found to be, once.
type Trial struct {
	Rate float64
	Good bool // the thresholds held
	// Disturbed marks a trial that says nothing about the server, for example because the
	// generator was the limit. It is repeated. If a rate has more disturbed trials than the
	// goal has trials, each further one counts as bad.
	Disturbed bool
}

// A State describes the progress of a search. Rates are in requests per second.
type State struct {
	Done bool
	Next float64 // the rate to try, unless done
	// Low is the relevant lower bound, 0 while there is none. At the end, 0 means that
	// the edge lies below the range. High is the relevant upper bound, +Inf while there
	// is none. At the end, +Inf means that the edge lies above the range.
	Low, High float64
}

// Next returns the state of a search after the trials done, in any order. It is a pure
// function of them, so an interrupted search continues from the same state, and a
// finished one can be replayed.
//
// Hint is where an earlier search found the edge, 0 for none. With a hint, the search
// begins with a bracket of seven resolutions about it. If the edge is not inside, the
// search moves on, each time by twice as far. Without a hint, it begins at From and
// doubles the rate. Between bounds it bisects on the scale of logarithms. Rates are
// rounded to a tenth of the resolution or finer, so that they read well and repeat
// exactly.
//
// A search ends: it tries about as many rates as the logarithm of the range over the
// resolution has digits in base two. A trial outside the range is an error.
func (g Goal) Next(done []Trial, hint float64) (State, error) {
	if err := errors.Join(g.Validate(), g.checkTrials(done), checkHint(hint)); err != nil {
		return State{}, fmt.Errorf("capacity: %w", err)
	}
	s := State{High: math.Inf(1)}
	rates := g.classify(done)
	for _, r := range rates {
		if r.class == upper {
			s.High = r.rate
			break
		}
		if r.class == lower {
			s.Low = r.rate
		}
	}
	// A rate that is undecided is tried to the end first, where it still matters.
	for _, r := range rates {
		if r.class == undecided && r.rate > s.Low && r.rate < s.High {
			s.Next = r.rate
			return s, nil
		}
	}
	switch {
	case s.High == g.From, s.Low == g.To, s.Low > 0 && g.narrow(s.Low, s.High):
		s.Done = true
	case s.Low > 0 && !math.IsInf(s.High, 1):
		s.Next = g.rounded(math.Sqrt(s.Low) * math.Sqrt(s.High))
	default:
		s.Next = g.outward(s, hint)
	}
	return s, nil
}

// narrow tells whether two bounds are as close as the goal asks, except for rounding.
func (g Goal) narrow(low, high float64) bool {
	return high <= low*(1+g.Resolution)*(1+1e-12)
}

// outward returns the rate to try while a bound is missing.
func (g Goal) outward(s State, hint float64) float64 {
	if hint == 0 {
		switch {
		case s.Low > 0:
			return g.within(2 * s.Low)
		case !math.IsInf(s.High, 1):
			return g.within(s.High / 2)
		}
		return g.From
	}
	// On the scale of logarithms, each step away from the bracket's other end goes twice
	// as far as the one before, and one width.
	width := firstBracket * math.Log1p(g.Resolution)
	hint = min(max(hint, g.From), g.To)
	bottom, top := hint*math.Exp(-width/2), hint*math.Exp(width/2)
	if s.Low > 0 {
		return g.within(s.Low * math.Exp(max(0, math.Log(s.Low/bottom))+width))
	}
	if !math.IsInf(s.High, 1) {
		return g.within(s.High / math.Exp(max(0, math.Log(top/s.High))+width))
	}
	return g.within(bottom)
}

// within rounds a rate, and keeps it in the range.
func (g Goal) within(rate float64) float64 { return min(max(g.rounded(rate), g.From), g.To) }

// rounded returns a rate rounded to a power of ten, or two or five of them, that is
// at most a tenth of the resolution.
func (g Goal) rounded(rate float64) float64 {
	finest := rate * g.Resolution / 10
	exponent := math.Floor(math.Log10(finest))
	steps := 1.0
	for _, s := range []float64{2, 5} {
		if s*math.Pow(10, exponent) <= finest {
			steps = s
		}
	}
	// Fractions are divided out: a tenth is no binary number, ten is one.
	if exponent < 0 {
		unit := math.Pow(10, -exponent)
		return math.Round(rate*unit/steps) * steps / unit
	}
	unit := steps * math.Pow(10, exponent)
	return math.Round(rate/unit) * unit
}

// firstBracket is how many resolutions about a hint are searched first. Three halvings
// leave one of them, with room for rounding. A bracket no wider than the resolution would
// be faster. But where the edge is soft, such a search would find its own hint again and
// again. Searches that take the result before them as a hint would be so alike that an
// interval over them holds the edge in 80 % instead of 95 %.
const firstBracket = 7

// A class is the outcome of a rate.
type class int

const (
	undecided class = iota
	lower           // a lower bound
	upper           // an upper bound
)

// A found rate is a rate with the result of its trials.
type found struct {
	rate  float64
	class class
}

// classify returns the rates that were tried, from the lowest. If a rate has more trials
// than the goal asks for, all of them count.
func (g Goal) classify(done []Trial) []found {
	type count struct{ good, bad, disturbed int }
	counts := map[float64]count{}
	for _, t := range done {
		c := counts[t.Rate]
		switch {
		case t.Disturbed && c.disturbed < g.Trials:
			c.disturbed++
		case t.Good && !t.Disturbed:
			c.good++
		default:
			c.bad++
		}
		counts[t.Rate] = c
	}
	rates := make([]found, 0, len(counts))
	for rate, c := range counts {
		all := max(g.Trials, c.good+c.bad)
		f := found{rate: rate}
		switch {
		case g.TooMany(c.bad, all):
			f.class = upper
		case !g.TooMany(all-c.good, all):
			f.class = lower
		}
		rates = append(rates, f)
	}
	slices.SortFunc(rates, func(a, b found) int { return cmp.Compare(a.rate, b.rate) })
	return rates
}

// TooMany reports whether a rate is bad if bad of all its trials are.
func (g Goal) TooMany(bad, all int) bool {
	return bad > int(g.Tolerate*float64(all)+1e-9) // 0.29 of 100 is 29
}

func (g Goal) checkTrials(done []Trial) error {
	for i, t := range done {
		if !(t.Rate >= g.From && t.Rate <= g.To) {
			return fmt.Errorf("trial %d has rate %v: want %v to %v", i, t.Rate, g.From, g.To)
		}
	}
	return nil
}

func checkHint(hint float64) error {
	if !(hint >= 0 && hint <= math.MaxFloat64) {
		return fmt.Errorf("hint %v: want a rate, or 0 for none", hint)
	}
	return nil
}
