package pace

import "math/rand/v2"

// scheduleStream is the stream of arrivals; connections have the others.
const scheduleStream = ^uint64(0)

// NewRNG returns the generator for one stream of a seed, such as one connection or user. Seeds and
// streams are small numbers that differ in a few bits; mixing makes their states unrelated.
func NewRNG(seed, stream uint64) rand.PCG {
	var p rand.PCG
	p.Seed(Mix(seed), Mix(Mix(seed)+stream))
	return p
}

// Mix is the output function of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014): a bijection whose results for numbers
// that differ in one bit look unrelated. It derives seeds from seeds.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// exponential returns a random number of mean one (von Neumann, Various techniques used in connection
// with random digits, 1951). It draws 4.3 numbers on average and uses no logarithm, whose last bit
// differs between machines: the result is exact to 2⁻⁶⁴.
//
// With u the first number, the chance that a run of falling numbers after it has even length is e⁻ᵘ; so
// u is kept with that chance. The whole part counts the failures before, each of which has chance 1/e.
func exponential(p *rand.PCG) fixed {
	for whole := uint64(0); ; whole++ {
		first := p.Uint64()
		even := true
		for last := first; ; even = !even {
			u := p.Uint64()
			if u >= last {
				break
			}
			last = u
		}
		if even {
			return fixed{whole, first}
		}
	}
}
