package stat

import (
	"fmt"
	"math"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// An Unpaired is a comparison of two runs that were made at different times.
type Unpaired struct {
	NA, NB   int      // trials of each
	Estimate float64  // of B/A: the ratio of the geometric means
	Interval Interval // for B/A
	P        float64  // two-sided, for a ratio of one
	T        float64
	DF       float64 // degrees of freedom after Welch and Satterthwaite, seldom whole
	LogMean  float64 // ln Estimate
	LogError float64 // the standard error of LogMean
	// Detectable is a share: the smallest change that trials of this number and spread find in four
	// comparisons of five: 0.03 is a ratio of 1.03, or of 1/1.03.
	Detectable float64
}

// UnpairedRatio returns the ratio of b to a, values above zero of independent trials. Its interval
// comes from Welch's t on their logarithms: neither as many trials nor the same spread is assumed of
// both (Welch: The generalization of Student's problem when several different population variances are
// involved, 1947). It needs two values of each.
//
// Changes between the two runs, such as of the machine, are part of the ratio; only pairs within rounds
// are free of that. At 90 % the interval is that of two one-sided tests at 5 %, as Judge needs it.
//
// Values that are all equal on both sides leave nothing to doubt: the interval is
// a point, and P is 0, or 1 if the two are equal.
func UnpairedRatio(a, b []float64, confidence float64) (Unpaired, error) {
	logA, err := logarithms(a)
	if err != nil {
		return Unpaired{}, fmt.Errorf("base: %w", err)
	}
	logB, err := logarithms(b)
	if err != nil {
		return Unpaired{}, fmt.Errorf("variant: %w", err)
	}
	u := Unpaired{NA: len(a), NB: len(b)}
	meanA, varA := gonum.MeanVariance(logA, nil)
	meanB, varB := gonum.MeanVariance(logB, nil)
	u.LogMean = meanB - meanA
	u.Estimate = math.Exp(u.LogMean)
	partA, partB := varA/float64(u.NA), varB/float64(u.NB) // of the squared standard error
	u.LogError = math.Sqrt(partA + partB)
	u.DF = float64(u.NA + u.NB - 2)
	if sum := partA + partB; sum > 0 {
		// As shares of the sum, whose square could be too small for a number.
		shareA, shareB := partA/sum, partB/sum
		u.DF = 1 / (shareA*shareA/float64(u.NA-1) + shareB*shareB/float64(u.NB-1))
	}
	t := distuv.StudentsT{Sigma: 1, Nu: u.DF}
	critical := t.Quantile((1 + confidence) / 2)
	half := critical * u.LogError
	u.Interval = Interval{math.Exp(u.LogMean - half), math.Exp(u.LogMean + half)}
	if u.LogMean != 0 { // else T is 0 even when the standard error is
		u.T = u.LogMean / u.LogError
	}
	u.P = min(1, 2*t.CDF(-math.Abs(u.T)))
	u.Detectable = math.Expm1(max(0, critical+t.Quantile(0.8)) * u.LogError)
	return u, nil
}

// logarithms returns ln of two or more values above zero.
func logarithms(values []float64) ([]float64, error) {
	if err := checkValues(values, 2); err != nil {
		return nil, err
	}
	logs := make([]float64, len(values))
	for i, x := range values {
		if x <= 0 {
			return nil, fmt.Errorf("value %d is %v: a ratio needs values above zero", i, x)
		}
		logs[i] = math.Log(x)
	}
	return logs, nil
}
