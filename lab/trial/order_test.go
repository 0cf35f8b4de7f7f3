package trial

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/lab/plan"
)

func planOf(variants, rounds int, seed uint64) *plan.Experiment {
	e := &plan.Experiment{Design: plan.Design{Rounds: rounds, Seed: seed}}
	for i := range variants {
		e.Variants = append(e.Variants, plan.Variant{Name: fmt.Sprint("v", i)})
	}
	return e
}

func names(round []*plan.Variant) (all []string) {
	for _, v := range round {
		all = append(all, v.Name)
	}
	return all
}

// Each round of any plan holds each variant once. The same seed gives the same order. A longer run
// begins with the rounds of a shorter one.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		variants := rapid.IntRange(1, 12).Draw(t, "variants")
		rounds := rapid.IntRange(1, 12).Draw(t, "rounds")
		seed := rapid.Uint64().Draw(t, "seed")
		laid, longer := order(planOf(variants, rounds, seed), rounds), order(planOf(variants, rounds+1, seed), rounds+1)
		if len(laid) != rounds {
			t.Fatalf("%d rounds", len(laid))
		}
		for i := range laid {
			round := names(laid[i])
			if !slices.Equal(round, names(longer[i])) {
				t.Fatal("another order with the same seed")
			}
			if slices.Sort(round); len(slices.Compact(round)) != variants {
				t.Fatalf("a round holds %v", round)
			}
		}
	})
}

// Each seed gives an order of its own, and so does each round of one seed: there are too
// many of the 8! orders for two to be equal by chance in so few draws.
func TestOrderDiffers(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		for _, round := range order(planOf(8, 2, seed), 2) {
			seen[fmt.Sprint(names(round))] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d different orders among 10", len(seen))
	}
}
