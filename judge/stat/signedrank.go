package stat

import (
	"fmt"
	"math"
	"slices"
)

// MaxSignedRank is how many differences the signed-rank functions take: the
// exact distribution costs the cube of it.
const MaxSignedRank = 250

// A Rank is the outcome of a signed-rank test.
type Rank struct {
	W float64 // sum of the ranks of the differences above zero
	P float64 // two-sided
}

// SignedRank tests whether paired differences lie symmetrically about zero (Wilcoxon: Individual
// comparisons by ranking methods, 1945). An outlier counts by its rank only. P is exact, with ties too:
// equal magnitudes share their mean rank, and the distribution belongs to these ranks. Differences of
// zero are ranked with the others and then left out. Left out beforehand, they would let evidence grow
// when a difference shrinks. (Pratt, Remarks on zeros and ties in the Wilcoxon signed rank procedures,
// 1959.) It takes 1 to MaxSignedRank differences; more are an error.
func SignedRank(differences []float64) (Rank, error) {
	if err := checkRanked(differences); err != nil {
		return Rank{}, err
	}
	magnitudes := make([]float64, len(differences))
	for i, d := range differences {
		magnitudes[i] = math.Abs(d)
	}
	var w int // doubled, as mean ranks are halves
	var signed []int
	for i, rank := range ranks(magnitudes) {
		doubled := int(math.Round(2 * rank))
		if differences[i] != 0 {
			signed = append(signed, doubled)
		}
		if differences[i] > 0 {
			w += doubled
		}
	}
	chance := rankSums(signed)
	tail := 0.0
	for _, p := range chance[:min(w, len(chance)-1-w)+1] { // it is symmetric
		tail += p
	}
	return Rank{W: float64(w) / 2, P: min(1, 2*tail)}, nil
}

// rankSums returns the chance of every sum of ranks when each of them counts
// with chance one half.
func rankSums(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	chance := make([]float64, total+1)
	chance[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for sum := reached; sum >= 0; sum-- {
			chance[sum] /= 2
			if sum >= r {
				chance[sum] += chance[sum-r] / 2
			}
		}
	}
	return chance
}

// A Location is a robust estimate of where paired differences lie.
type Location struct {
	Estimate float64  // in the unit of the differences
	Interval Interval // its ends are infinite if so few rounds cannot bound them
	Coverage float64  // the chance that the interval holds the true value: at least what was asked for
}

// HodgesLehmann estimates the centre of paired differences by the median of their Walsh averages
// (dᵢ+dⱼ)/2, i ≤ j. Its interval has the centres that the signed-rank test does not reject (Hodges,
// Lehmann: Estimates of location based on rank tests, 1963; Hollander, Wolfe: Nonparametric statistical
// methods, 3.3). It assumes that the differences are independent and symmetric about their centre.
// Coverage is exact for a continuous distribution; ties make it higher. At 95 % the interval is
// unbounded below six rounds. It takes 1 to MaxSignedRank differences; more are an error.
func HodgesLehmann(differences []float64, confidence float64) (Location, error) {
	if err := checkRanked(differences); err != nil {
		return Location{}, err
	}
	n := len(differences)
	walsh := make([]float64, 0, n*(n+1)/2)
	for i, a := range differences {
		for _, b := range differences[i:] {
			walsh = append(walsh, a/2+b/2)
		}
	}
	slices.Sort(walsh)

	natural := make([]int, n)
	for i := range natural {
		natural[i] = i + 1
	}
	// The interval leaves out as many averages at either end as the rank sum can
	// count while still being rejected.
	chance := rankSums(natural)
	outside, tail := 0, 0.0
	for tail+chance[outside] <= (1-confidence)/2 {
		tail += chance[outside]
		outside++
	}
	s := Location{Estimate: middle(walsh), Coverage: 1 - 2*tail, Interval: Interval{math.Inf(-1), math.Inf(1)}}
	if outside > 0 {
		s.Interval = Interval{walsh[outside-1], walsh[len(walsh)-outside]}
	}
	return s, nil
}

func checkRanked(differences []float64) error {
	if len(differences) > MaxSignedRank {
		return fmt.Errorf("%d differences: want at most %d", len(differences), MaxSignedRank)
	}
	return checkValues(differences, 1)
}
