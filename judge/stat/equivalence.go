package stat

import (
	"fmt"
	"math"
)

// An Equivalence is the outcome of two one-sided tests.
type Equivalence struct {
	// Interval is that of the ratio B/A at confidence 1 − 2·alpha: at 0.05 the
	// 90 % interval. It lies within the margin exactly when P is below alpha.
	Interval   Interval
	P          float64 // of a ratio outside the margin: the larger of the two
	Equivalent bool    // the interval lies within the margin
}

// EquivalenceTest tests whether a ratio is within a margin of one, given the log
// ratios of two or more rounds: two one-sided t tests at level alpha, 0.05 by
// custom (Schuirmann: A comparison of the two one-sided tests procedure and the
// power approach, 1987). The margin is a share, 0.02 for 2 %, and is the same in
// both directions: from 1/1.02 to 1.02.
//
// A difference that is not found is not equivalence; this is.
func EquivalenceTest(logRatios []float64, margin, alpha float64) (Equivalence, error) {
	if err := checkMargin(margin); err != nil {
		return Equivalence{}, err
	}
	if !(alpha >= 1e-9 && alpha < 0.5) {
		return Equivalence{}, fmt.Errorf("alpha %v: want more than 0 and less than 0.5, such as 0.05", alpha)
	}
	m, err := PairedMean(logRatios, 1-2*alpha)
	if err != nil {
		return Equivalence{}, err
	}
	room := logMargin(margin) - math.Abs(m.Estimate) // to the nearer end
	e := Equivalence{Interval: Interval{math.Exp(m.Interval.Low), math.Exp(m.Interval.High)}, P: 0.5}
	if room != 0 {
		e.P = student(m.N).Survival(room / standardError(m.StdDev, m.N))
	}
	e.Equivalent = e.P <= alpha
	return e, nil
}

// A Direction says which way is good.
type Direction int

// The directions.
const (
	HigherIsBetter Direction = iota // throughput
	LowerIsBetter                   // latency, CPU per request
)

func (d Direction) String() string {
	if d == LowerIsBetter {
		return "lower is better"
	}
	return "higher is better"
}

// An Outcome is what may be said of a comparison.
type Outcome int

// The outcomes. An invalid run has none of them.
const (
	Inconclusive Outcome = iota // neither a difference nor equivalence is shown
	Equivalent                  // the difference, if any, is within the margin
	Better
	Worse
)

func (o Outcome) String() string {
	return [...]string{Inconclusive: "inconclusive", Equivalent: "equivalent", Better: "better", Worse: "worse"}[o]
}

// Judge returns the outcome of a comparison from two intervals of the ratio of
// the variant to its base and the margin, a share such as 0.02. The variant is
// better or worse when the first, at 95 % or what Stopping says, excludes one,
// however small the difference; else the two are equivalent when the second,
// that of the EquivalenceTest, at 90 % or less doubt, lies within the margin,
// from 1/1.02 to 1.02. An interval with a NaN, or a margin that is not above
// zero, shows nothing.
func Judge(ratio, narrower Interval, margin float64, good Direction) Outcome {
	higher, lower := Better, Worse
	if good == LowerIsBetter {
		higher, lower = Worse, Better
	}
	switch {
	case !(ratio.Low <= ratio.High):
		return Inconclusive
	case ratio.Low > 1:
		return higher
	case ratio.High < 1:
		return lower
	case margin > 0 && narrower.Within(Interval{1 / (1 + margin), 1 + margin}):
		return Equivalent
	}
	return Inconclusive
}
