package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MaxExactSignFlip is how many differences SignFlip tries all signs of.
const MaxExactSignFlip = 32

// signFlipDraws is how many signs SignFlip draws beyond that: with the observed
// ones they make 100,000, so that the P of 0.05 is right to ±0.0014.
const signFlipDraws = 99_999

// maxSignFlip bounds the time of a test, to some seconds.
const maxSignFlip = 10_000

// A Flip is the outcome of a sign-flip test.
type Flip struct {
	P        float64 // two-sided
	Smallest float64 // the P that no data of this size could go below
	Exact    bool    // all signs were tried, not a sample of them
}

// SignFlip tests whether paired differences are as likely to be above zero as below, each by as much:
// if the variants were the same, any of their signs could be the other one. P is the share of the 2ⁿ
// arrangements of signs with at least the observed distance from zero (Fisher: The design of
// experiments, 1935). It assumes no distribution. It needs one difference; Smallest says whether there
// are enough: 2/2ⁿ, where differences of zero, which have no sign, do not count.
//
// Up to MaxExactSignFlip differences all arrangements are counted. Beyond,
// arrangements drawn with the seed stand for them, and P is (b+1)/(m+1), which
// is never zero (Phipson, Smyth: Permutation p-values should never be zero,
// 2010). More than 10,000 differences are an error.
func SignFlip(differences []float64, seed uint64) (Flip, error) {
	if err := checkValues(differences, 1); err != nil {
		return Flip{}, err
	}
	if len(differences) > maxSignFlip {
		return Flip{}, fmt.Errorf("%d differences: want at most %d", len(differences), maxSignFlip)
	}
	signed := slices.DeleteFunc(slices.Clone(differences), func(d float64) bool { return d == 0 })
	var observed, total float64
	for i, d := range signed {
		observed += d
		signed[i] = math.Abs(d)
		total += math.Abs(d)
	}
	// Sums that are equal on paper differ by their rounding.
	threshold := math.Abs(observed) - 1e-12*total
	if len(signed) <= MaxExactSignFlip {
		smallest := min(1, math.Ldexp(2, -len(signed)))
		return Flip{P: flipAll(signed, threshold), Smallest: smallest, Exact: true}, nil
	}
	p := flipSome(signed, threshold, newRNG(seed))
	return Flip{P: p, Smallest: 1.0 / (signFlipDraws + 1)}, nil
}

// flipAll returns the share of all arrangements of signs whose sum is at least
// the threshold in magnitude. It lists the sums of either half and counts the
// pairs (Horowitz, Sahni: Computing partitions with applications to the knapsack
// problem, 1974), so that 2ⁿ arrangements cost 2^(n/2).
func flipAll(magnitudes []float64, threshold float64) float64 {
	if threshold <= 0 {
		return 1
	}
	half := len(magnitudes) / 2
	left, right := flippedSums(magnitudes[:half]), flippedSums(magnitudes[half:])
	count, high := 0, len(right)
	for _, sum := range left { // rising, so what it needs from the right falls
		for high > 0 && sum+right[high-1] >= threshold {
			high--
		}
		count += len(right) - high
	}
	// As many sums lie at or below the negative threshold.
	return math.Ldexp(2*float64(count), -len(magnitudes))
}

// flippedSums returns the sums of all arrangements of signs, sorted.
func flippedSums(magnitudes []float64) []float64 {
	sums := []float64{0}
	for _, m := range magnitudes {
		next := make([]float64, 0, 2*len(sums))
		plus := 0 // sums that m has been added to
		for _, s := range sums {
			for ; sums[plus]+m < s-m; plus++ {
				next = append(next, sums[plus]+m)
			}
			next = append(next, s-m)
		}
		for ; plus < len(sums); plus++ {
			next = append(next, sums[plus]+m)
		}
		sums = next
	}
	return sums
}

// flipSome estimates that share from arrangements drawn at random.
func flipSome(magnitudes []float64, threshold float64, rng *rand.Rand) float64 {
	extreme := 1 // the observed arrangement
	for range signFlipDraws {
		sum := 0.0
		var signs uint64
		for i, m := range magnitudes {
			if i%64 == 0 {
				signs = rng.Uint64()
			}
			if signs&1 == 0 {
				m = -m
			}
			sum += m
			signs >>= 1
		}
		if math.Abs(sum) >= threshold {
			extreme++
		}
	}
	return float64(extreme) / (signFlipDraws + 1)
}
