package stat

import (
	"errors"
	"fmt"
	"math"
	"sort"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Mean is what Student's t says of paired differences. It assumes that they
// are independent and their mean about normal; the order and the distribution of
// the trials themselves do not matter.
type Mean struct {
	N        int      // rounds
	Estimate float64  // in the unit of the differences
	StdDev   float64  // of one difference
	Interval Interval // for the mean
	T        float64  // with N−1 degrees of freedom
	P        float64  // two-sided, for a mean of zero
}

// PairedMean returns the mean of paired differences with its interval
// mean ± t·s/√n (Student: The probable error of a mean, 1908). It needs two
// rounds. Differences that are all equal leave nothing to doubt: the interval is
// a point, and P is 0, or 1 if they are all zero.
func PairedMean(differences []float64, confidence float64) (Mean, error) {
	if err := checkValues(differences, 2); err != nil {
		return Mean{}, err
	}
	m := Mean{N: len(differences)}
	m.Estimate, m.StdDev = gonum.MeanStdDev(differences, nil)
	half := halfWidth(m.StdDev, m.N, confidence)
	m.Interval = Interval{m.Estimate - half, m.Estimate + half}
	if m.Estimate != 0 { // else T is 0 even when the standard deviation is
		m.T = m.Estimate / standardError(m.StdDev, m.N)
	}
	m.P = min(1, 2*student(m.N).CDF(-math.Abs(m.T)))
	return m, nil
}

// DetectableEffect returns the smallest true mean that n rounds find with this power. It is (t +
// t')·s/√n in the unit of the standard deviation s: t is the quantile of the two-sided test, and t' the
// power's quantile, 0.8 by custom. This is the approximation by the central t. By the noncentral one
// its power is 0.798 at eight rounds, and within 0.01 of 0.8 from five on. It returns NaN for fewer
// than two rounds.
func DetectableEffect(stdDev float64, n int, confidence, power float64) float64 {
	if n < 2 {
		return math.NaN()
	}
	return max(0, tQuantile((1+confidence)/2, n)+tQuantile(power, n)) * standardError(stdDev, n)
}

// MaxRounds is the highest number of rounds that FurtherRounds counts to.
const MaxRounds = 1_000_000

// FurtherRounds returns how many more rounds would settle a comparison of n rounds. It assumes that
// mean and standard deviation of the log ratios stay as they are: either the interval then excludes a
// ratio of one, or its half-width is at most half the margin. Both settle it, for an interval that
// narrow and not clear of one lies within the margin altogether. A result of MaxRounds−n stands for
// that many or more.
func FurtherRounds(logMean, logStdDev float64, n int, margin, confidence float64) (int, error) {
	if err := errors.Join(checkValues([]float64{logMean, logStdDev}, 2), checkMargin(margin)); err != nil {
		return 0, err
	}
	if n < 2 || n > MaxRounds {
		return 0, fmt.Errorf("%w: %d rounds, want 2 to %d", ErrTooFew, n, MaxRounds)
	}
	return sort.Search(MaxRounds-n, func(more int) bool {
		half := halfWidth(logStdDev, n+more, confidence)
		return half < math.Abs(logMean) || half <= logMargin(margin)/2
	}), nil
}

// logMargin returns a margin on the scale of log ratios, where it is the same in
// both directions: B is as far from A as A from B.
func logMargin(margin float64) float64 { return math.Log1p(margin) }

// student is the distribution of the mean of n values over its standard error.
func student(n int) distuv.StudentsT {
	return distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
}

func tQuantile(p float64, n int) float64 { return student(n).Quantile(p) }

func standardError(stdDev float64, n int) float64 { return stdDev / math.Sqrt(float64(n)) }

// halfWidth returns half the width of the t interval.
func halfWidth(stdDev float64, n int, confidence float64) float64 {
	return tQuantile((1+confidence)/2, n) * standardError(stdDev, n)
}
