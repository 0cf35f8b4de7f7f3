package feed

import (
	"math"
	"math/bits"

	"dyno/load/pace"
)

// rounds is how many rounds a permutation has. Four would do for large tables; tables of
// a few rows need more until each of their orders is about equally likely.
const rounds = 10

// A permutation is a random order of the numbers below n, computed one by one, without a table: a
// generalised Feistel network over pairs of digits (Black and Rogaway, Ciphers with arbitrary finite
// domains, 2002). Each round adds a hash of one digit to the other, which can be undone. So no two
// numbers have the same result. There are a few more pairs than n. A result of n or more goes round
// again, which ends because a permutation consists of cycles.
type permutation struct {
	n, a, b uint64 // a·b ≥ n, the pairs (l, r) with l < a and r < b
	keys    [rounds]uint64
}

// newPermutation returns the order of n numbers, n ≥ 1, that belongs to a seed.
func newPermutation(n, seed uint64) permutation {
	a := uint64(math.Ceil(math.Sqrt(float64(n))))
	p := permutation{n: n, a: a, b: (n + a - 1) / a}
	for i := range p.keys {
		p.keys[i] = pace.Mix(seed + uint64(i))
	}
	return p
}

// at returns the number at place i, i < n.
func (p *permutation) at(i uint64) uint64 {
	for {
		l, r := i%p.a, i/p.a
		for k := 0; k < rounds; k += 2 {
			if l += below(pace.Mix(r^p.keys[k]), p.a); l >= p.a {
				l -= p.a
			}
			if r += below(pace.Mix(l^p.keys[k+1]), p.b); r >= p.b {
				r -= p.b
			}
		}
		if i = r*p.a + l; i < p.n {
			return i
		}
	}
}

// below makes of a random number one below n. (Lemire, Fast random integer generation
// in an interval, 2019, without the correction: the chances differ by less than
// n/2⁶⁴.)
func below(random, n uint64) uint64 {
	hi, _ := bits.Mul64(random, n)
	return hi
}
