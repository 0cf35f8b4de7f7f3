package stat

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

// An Outcome is a comparison's result.
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

// Judge returns the outcome of a comparison. It takes two intervals of the ratio of
// the variant to its base, and the margin: a share, such as 0.02.
//
// The variant is better or worse when the first interval, at 95 % or as Stopping says, excludes one.
// The size of the difference does not matter. Otherwise the two are equivalent when the second interval
// lies within the margin, from 1/1.02 to 1.02. The second interval has confidence 1 − 2·alpha, which is
// 90 % for alpha 0.05. This is the same as two one-sided tests at level alpha (Schuirmann: A comparison
// of the two one-sided tests procedure and the power approach, 1987). A difference that is not found is
// no equivalence.
//
// An interval with a NaN, or a margin that is not above zero, shows nothing.
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
