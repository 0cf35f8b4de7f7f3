package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// AtMost is the chance that at most k of n independent requests do what each does with the chance p: the
// binomial distribution, by the incomplete beta function. So k need not be a whole number.
func AtMost(k, n, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(n-k, k+1, 1-p)
}

// AtLeast is the chance that at least k of n do.
func AtLeast(k, n, p float64) float64 { return 1 - AtMost(k-1, n, p) }

// ShareInterval is the exact interval of a chance, for a sample of k in n requests (Clopper and
// Pearson: The use of confidence or fiducial limits illustrated in the case of the binomial, Biometrika
// 26, 1934). Each end is wrong with the chance alpha.
func ShareInterval(k, n, alpha float64) Interval {
	i := Interval{0, 1}
	if k > 0 {
		i.Low = mathext.InvRegIncBeta(k, n-k+1, alpha)
	}
	if k < n {
		i.High = mathext.InvRegIncBeta(k+1, n-k, 1-alpha)
	}
	return i
}

// EffectiveSize is how many independent requests say as much about a chance as several trials, whose
// requests are dependent: parts are the requests of each trial that count. Each end of the chance's
// interval is to be wrong with the chance alpha. Trials that all have the same share show no
// dependence. (Korn and Graubard: Confidence intervals for proportions with small expected number of
// positive counts estimated from survey data, Survey Methodology 24, 1998.)
func EffectiveSize(parts, wholes []float64, alpha float64) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for i, whole := range wholes {
		n, sum = n+whole, sum+parts[i]
	}
	for i, whole := range wholes {
		off := parts[i] - sum/n*whole
		squares += off * off
	}
	k := float64(len(wholes))
	if k < 2 || squares < 1e-9*n {
		return n
	}
	few := distuv.UnitNormal.Quantile(1-alpha) / tQuantile(1-alpha, len(wholes)) // few trials leave the spread uncertain
	return min(n, sum*(n-sum)*(k-1)/k/squares*few*few)
}

// Settling is the least number of requests with this share that shows on which side of p the chance is.
// An error has at most the chance alpha; 0 if none would.
func Settling(share, p, alpha float64) int64 {
	if math.Abs(share-p) < 1e-9 || p <= 0 || p >= 1 { // equal but for rounding
		return 0
	}
	settles := func(n int) bool {
		if k := share * float64(n); share < p {
			return AtMost(k, float64(n), p) <= alpha
		} else {
			return AtLeast(k, float64(n), p) <= alpha
		}
	}
	most := 1
	for !settles(most) {
		if most *= 2; most > math.MaxInt32 {
			return 0
		}
	}
	return int64(sort.Search(most, settles))
}
