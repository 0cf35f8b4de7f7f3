package stat

import (
	"errors"
	"fmt"
	"math"
	"sort"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// LogRatios returns ln(b/a) of each round. All values must be above zero.
func LogRatios(a, b []float64) ([]float64, error) {
	if err := checkPairs(a, b); err != nil {
		return nil, err
	}
	d := make([]float64, len(a))
	for i := range a {
		if a[i] <= 0 || b[i] <= 0 {
			return nil, fmt.Errorf("round %d has %v and %v: a ratio needs values above zero", i, a[i], b[i])
		}
		d[i] = math.Log(b[i]) - math.Log(a[i]) // b/a might not be representable
	}
	return d, nil
}

// Differences returns b−a of each round.
func Differences(a, b []float64) ([]float64, error) {
	if err := checkPairs(a, b); err != nil {
		return nil, err
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	return d, nil
}

func checkPairs(a, b []float64) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d values against %d: want one of each variant in every round", len(a), len(b))
	}
	if err := checkValues(a, 1); err != nil {
		return fmt.Errorf("base: %w", err)
	}
	if err := checkValues(b, 1); err != nil {
		return fmt.Errorf("variant: %w", err)
	}
	return nil
}

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
	if err := errors.Join(checkValues(differences, 2), checkConfidence(confidence)); err != nil {
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

// A Ratio is a paired comparison of two variants.
type Ratio struct {
	N        int      // rounds
	Estimate float64  // of B/A: the geometric mean of the rounds' ratios
	Interval Interval // for B/A
	P        float64  // two-sided, for a ratio of one
	LogMean  float64  // ln Estimate
	// LogStdDev is the standard deviation of one round's log ratio; small ones
	// read as shares of the value, 0.02 as 2 %.
	LogStdDev float64
	// Detectable is the smallest change that so many rounds find in four
	// comparisons of five, as a share: 0.03 is a ratio of 1.03, or of 1/1.03.
	Detectable float64
}

// PairedRatio returns the ratio of b to a over rounds, both in the same unit and
// above zero, with its interval exp(mean ± t·s/√n) from the log ratios. It needs
// two rounds.
func PairedRatio(a, b []float64, confidence float64) (Ratio, error) {
	d, err := LogRatios(a, b)
	if err != nil {
		return Ratio{}, err
	}
	m, err := PairedMean(d, confidence)
	if err != nil {
		return Ratio{}, err
	}
	return Ratio{
		N:          m.N,
		Estimate:   math.Exp(m.Estimate),
		Interval:   Interval{math.Exp(m.Interval.Low), math.Exp(m.Interval.High)},
		P:          m.P,
		LogMean:    m.Estimate,
		LogStdDev:  m.StdDev,
		Detectable: math.Expm1(DetectableEffect(m.StdDev, m.N, confidence, 0.8)),
	}, nil
}

// DetectableEffect returns the smallest true mean that n rounds find with this
// power, (t + t')·s/√n in the unit of the standard deviation s: t is the
// quantile of the two-sided test, t' that of the power, 0.8 by custom. This is
// the approximation by the central t. By the noncentral one its power is 0.798
// at eight rounds, and within 0.01 of 0.8 from five on. It returns NaN for fewer
// than two rounds, a negative s, or levels that are not between 0 and 1.
func DetectableEffect(stdDev float64, n int, confidence, power float64) float64 {
	if n < 2 || !(stdDev >= 0) || checkConfidence(confidence) != nil || !(power > 0 && power < 1) {
		return math.NaN()
	}
	return max(0, tQuantile((1+confidence)/2, n)+tQuantile(power, n)) * standardError(stdDev, n)
}

// MaxRounds is the highest number of rounds that FurtherRounds counts to.
const MaxRounds = 1_000_000

// FurtherRounds returns how many more rounds would settle a comparison of n
// rounds whose log ratios have this mean and standard deviation, if both stay as
// they are: either the interval then excludes a ratio of one, or its half-width
// is at most half the margin. Both settle it, for an interval that narrow and
// not clear of one lies within the margin altogether. A result of MaxRounds−n
// stands for that many or more.
func FurtherRounds(logMean, logStdDev float64, n int, margin, confidence float64) (int, error) {
	if err := errors.Join(checkValues([]float64{logMean, logStdDev}, 2), checkMargin(margin), checkConfidence(confidence)); err != nil {
		return 0, err
	}
	if n < 2 || n > MaxRounds {
		return 0, fmt.Errorf("%w: %d rounds, want 2 to %d", ErrTooFew, n, MaxRounds)
	}
	if logStdDev < 0 {
		return 0, fmt.Errorf("standard deviation %v: want zero or more", logStdDev)
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
