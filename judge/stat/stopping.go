package stat

import (
	"errors"
	"fmt"
	"math"

	gonum "gonum.org/v1/gonum/stat"
)

// The part that the interval at a stop for precision leaves outside. Stopping favours a spread that is
// small by accident. At 0.05, up to 0.067 of comparisons of identical variants would find a difference,
// most at 15 to 25 rounds. At 0.034 no more than 0.05 do, by simulation of 100,000 for each of many
// spreads.
const precisionAlpha = 0.034

// The fewest rounds for three looks: t tests of fewer rounds are too unlike the normal ones that the
// levels were made for.
const leastForLooks = 12

// A Rule says when a comparison has enough rounds. None looks for the first
// significant result: that finds a difference between identical variants sooner
// or later.
type Rule int

// The rules.
const (
	FixedRounds Rule = iota // all of them, whatever they show
	Precision               // until the interval is narrow enough, wherever it lies
	ThreeLooks              // three O'Brien-Fleming looks at the result, which also stop at equivalence
)

func (r Rule) String() string {
	return [...]string{FixedRounds: "fixed rounds", Precision: "precision", ThreeLooks: "three looks"}[r]
}

// LeastRounds is how many rounds come before any stop for precision: the
// standard deviation of fewer is too often too small by accident.
const LeastRounds = 8

// Stopping decides when to stop a comparison.
type Stopping struct {
	Rule   Rule
	Rounds int // how many there may be: 2 or more, 8 for Precision, 12 for ThreeLooks
	// Margin is the difference that matters, a share such as 0.02: for Precision, and for ThreeLooks to
	// stop where there is none; 0: no look stops for that.
	Margin float64
}

// Validate reports all faults.
func (s Stopping) Validate() error {
	least := 2
	var errs []error
	switch s.Rule {
	case FixedRounds:
	case Precision:
		least = LeastRounds
		errs = append(errs, checkMargin(s.Margin))
	case ThreeLooks:
		least = leastForLooks
	default:
		return fmt.Errorf("rule %d: want fixed rounds, precision or three looks", int(s.Rule))
	}
	if s.Rounds < least || s.Rounds > MaxRounds {
		errs = append(errs, fmt.Errorf("rounds %d: want %d to %d for %v", s.Rounds, least, MaxRounds, s.Rule))
	}
	return errors.Join(errs...)
}

// A Look is one planned look at the result of a comparison.
type Look struct {
	Rounds int     // after which it comes
	Alpha  float64 // two-sided level of its test; its interval has confidence 1 − Alpha
}

// Looks returns the looks at which a decision may depend on the p-value: a single one at the end, or
// one after each third of the rounds. The three follow O'Brien and Fleming (A multiple testing
// procedure for clinical trials, 1979). Together they have level 0.050 for normal values with known
// spread; with the t test, by simulation, 0.051 at 24 rounds and 0.053 at 12. The early ones take
// little of it: the last is nearly what it would be alone.
func (s Stopping) Looks() []Look {
	switch s.Rule {
	case ThreeLooks:
		return []Look{{(s.Rounds + 2) / 3, 0.0005}, {(2*s.Rounds + 2) / 3, 0.014}, {s.Rounds, 0.045}}
	case Precision:
		return []Look{{s.Rounds, precisionAlpha}}
	}
	return []Look{{s.Rounds, 0.05}}
}

// A Decision says whether to stop, and the level of the result.
type Decision struct {
	Stop bool
	// Confidence of the interval to report when stopping. One minus it is the level of
	// the p-value, and of the test for equivalence where it is below 0.05. It makes up
	// for when the rule stops: the interval reported holds the true ratio in 95 % of
	// comparisons, except with few rounds, as Looks says.
	Confidence float64

	// Reasons of the decision. Without the half-width of an interval or a look at the result it was the
	// number of rounds.
	Rounds, Most      int     // made so far, and that there may be
	HalfWidth, Wanted float64 // of the interval; zero if it was not looked at
	Look, Looks       int     // the looks are numbered from 1; 0 if there was none
	P, Level          float64 // of that look
	Equivalent        bool    // at that look the difference was shown to be within the margin
}

// Decide decides whether to make another round, from the log ratios of all rounds made so far. It must
// be asked after every round; the looks are at exact numbers of rounds, and one that was passed over is
// not made up for.
//
// Precision stops at LeastRounds or more, when half the interval's width is at most half the margin, in
// log ratios: the comparison is then settled, one way or the other. It depends on the spread of the
// rounds and not on their mean, so that it favours no result.
//
// A look stops at a difference at its level, and also at equivalence: if Judge's interval for that, at
// the look's level but at most 5 %, lies within the margin. A stop there finds no difference, so that
// fewer of those that are not there are found.
func (s Stopping) Decide(logRatios []float64) (Decision, error) {
	if err := errors.Join(s.Validate(), checkValues(logRatios, 0)); err != nil {
		return Decision{}, err
	}
	n := len(logRatios)
	looks := s.Looks()
	d := Decision{Confidence: 1 - looks[len(looks)-1].Alpha, Rounds: n, Most: s.Rounds}
	switch {
	case n >= s.Rounds:
		d.Stop = true
	case s.Rule == Precision && n >= LeastRounds:
		d.HalfWidth, d.Wanted = halfWidth(gonum.StdDev(logRatios, nil), n, d.Confidence), logMargin(s.Margin)/2
		d.Stop = d.HalfWidth <= d.Wanted
	case s.Rule == ThreeLooks:
		for i, look := range looks {
			if n != look.Rounds {
				continue
			}
			m, err := PairedMean(logRatios, 1-look.Alpha)
			if err != nil {
				return Decision{}, err
			}
			half := halfWidth(m.StdDev, n, 1-2*min(0.05, look.Alpha))
			d.Equivalent = s.Margin > 0 && math.Abs(m.Estimate)+half <= math.Log1p(s.Margin)
			d.Stop, d.Confidence = m.P <= look.Alpha || d.Equivalent, 1-look.Alpha
			d.Look, d.Looks, d.P, d.Level = i+1, len(looks), m.P, look.Alpha
		}
	}
	return d, nil
}
