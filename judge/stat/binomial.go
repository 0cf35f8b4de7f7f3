package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
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

// ShareInterval is the exact interval of a chance of which k of n requests are a sample (Clopper and
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

// Settling is the least number of requests at which a share of them would show, with an error of at most
// alpha, on which side of p the chance is; 0 if none would.
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
