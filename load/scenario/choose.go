package scenario

import (
	"math/bits"
	"slices"
)

// A choice draws one of several by weight, from a table of sums.
type choice struct{ sums []uint64 }

func newChoice(weights []int) (c choice) {
	var sum uint64
	for _, w := range weights {
		sum += uint64(w)
		c.sums = append(c.sums, sum)
	}
	return c
}

// pick makes of a random number one of the weights' numbers.
func (c choice) pick(random uint64) int {
	x, _ := bits.Mul64(random, c.sums[len(c.sums)-1])
	// The first sum above x.
	i, _ := slices.BinarySearch(c.sums, x+1)
	return i
}

// without is the choice among those that are not taken out; empty if all are.
func (c choice) without(out []bool) (rest choice) {
	var before, sum uint64
	some := false
	for i, s := range c.sums {
		if !out[i] {
			sum += s - before
			some = true
		}
		before = s
		rest.sums = append(rest.sums, sum)
	}
	if !some {
		return choice{}
	}
	return rest
}

// golden is 2⁶⁴ divided by the golden ratio, and odd.
const golden = 0x9e3779b97f4a7c15

// spread returns place n of a sequence that covers the numbers evenly from its beginning, wherever it
// begins: so even a few users spread over the flows by their shares, which random numbers would not
// ensure. (The multiples of the golden ratio, modulo one, have the lowest discrepancy of all such
// sequences.)
func spread(start, n uint64) uint64 { return start + n*golden }
