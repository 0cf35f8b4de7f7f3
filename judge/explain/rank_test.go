package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// functions are the shares of a profile as servers have them: a few large, many small.
func functions(n int) []float64 {
	shares := make([]float64, n)
	sum := 0.0
	for i := range shares {
		shares[i] = 1 / float64(i+1)
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// A sampler draws a profiled trial: samples fall on functions by chance, and the
// machine is now faster, now slower.
type sampler struct {
	random  *rand.Rand
	shares  []float64
	samples int     // of a trial
	noise   float64 // standard deviation of the logarithm of the machine's speed
}

// draw returns the cost by function. The planted function's share comes on top.
func (s sampler) draw(planted float64) cost {
	c := cost{}
	speed := math.Exp(s.noise * s.random.NormFloat64())
	put := func(name string, share float64) {
		want := share * float64(s.samples)
		got := want + math.Sqrt(want)*s.random.NormFloat64() // Poisson, nearly
		c[name] = max(0, got) / float64(s.samples) * 20e-6 * speed
	}
	for i, share := range s.shares {
		put(fmt.Sprintf("f%03d", i), share)
	}
	if planted > 0 {
		put("planted", planted)
	}
	return c
}

func (s sampler) rounds(n int, planted float64) []round {
	var rounds []round
	for range n {
		rounds = append(rounds, round{s.draw(0), s.draw(planted)})
	}
	return rounds
}

// A function that takes 3 % of the CPU time comes first in nearly all comparisons. Without a change,
// nearly none ranks a function.
func TestRanking(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const comparisons = 400
	s := sampler{random: rand.New(rand.NewPCG(1, 2)), shares: functions(150), samples: 2500, noise: 0.03}
	first, ranked := 0, 0
	for range comparisons {
		items, err := rank(s.rounds(8, 0.03))
		if err != nil {
			t.Fatal(err)
		}
		if items[0].Name == "planted" && items[0].Ranked {
			first++
		}
		if items, err = rank(s.rounds(8, 0)); err != nil {
			t.Fatal(err)
		}
		if items[0].Ranked {
			ranked++
		}
	}
	if first < comparisons*95/100 {
		t.Errorf("the planted function came first in %d of %d", first, comparisons)
	}
	// Holm holds the probability at or below 5 %; three standard deviations above that
	// are 33 of 400.
	if ranked > 33 {
		t.Errorf("something was ranked in %d of %d comparisons of a server with itself", ranked, comparisons)
	}
}

// The items' changes add up to the change of the whole, and ranked items come first, by size.
func TestItemsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(0, 1e-3)
		draw := func() cost {
			return rapid.MapOfN(rapid.StringMatching("[a-e]"), value, 0, 5).Draw(t, "cost")
		}
		rounds := make([]round, rapid.IntRange(1, 10).Draw(t, "rounds"))
		want := 0.0
		for i := range rounds {
			rounds[i] = round{draw(), draw()}
			want += (rounds[i].variant.total() - rounds[i].base.total()) / float64(len(rounds))
		}
		items, err := rank(rounds)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, x := range items {
			sum += *x.Change.Estimate
			if len(x.Change.Values) != len(rounds) || len(rounds) == 1 && (x.Ranked || x.P != nil) {
				t.Fatalf("%+v", x)
			}
			if i == 0 {
				continue
			}
			before := items[i-1]
			if x.Ranked && !before.Ranked || x.Ranked == before.Ranked && math.Abs(*x.Change.Estimate) > math.Abs(*before.Change.Estimate) {
				t.Fatalf("%+v after %+v", x, before)
			}
		}
		if math.Abs(sum-want) > 1e-9 {
			t.Fatalf("the items add up to %v, the whole is %v", sum, want)
		}
	})
}
