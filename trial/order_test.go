package trial

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/experiment"
)

func planOf(variants, rounds int, seed uint64) *experiment.Experiment {
	e := &experiment.Experiment{Design: experiment.Design{Rounds: rounds, Seed: seed}}
	for i := range variants {
		e.Variants = append(e.Variants, experiment.Variant{Name: fmt.Sprint("v", i)})
	}
	return e
}

func names(slots []slot) (all []string) {
	for _, s := range slots {
		all = append(all, s.variant.Name)
	}
	return all
}

// Whatever the plan, each round holds each variant once, and trials are numbered
// as they are measured. The same seed gives the same order.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		variants := rapid.IntRange(1, 12).Draw(t, "variants")
		rounds := rapid.IntRange(1, 12).Draw(t, "rounds")
		seed := rapid.Uint64().Draw(t, "seed")
		slots := order(planOf(variants, rounds, seed))
		if len(slots) != variants*rounds {
			t.Fatalf("%d trials", len(slots))
		}
		for i, s := range slots {
			if s.number != i+1 || s.round != i/variants+1 {
				t.Fatalf("trial %d is number %d of round %d", i+1, s.number, s.round)
			}
		}
		for round := range slices.Chunk(names(slots), variants) {
			if slices.Sort(round); len(slices.Compact(round)) != variants {
				t.Fatalf("a round holds %v", round)
			}
		}
		if !slices.Equal(names(slots), names(order(planOf(variants, rounds, seed)))) {
			t.Fatal("another order with the same seed")
		}
	})
}

// Seeds give orders of their own, and so do the rounds of one seed: 8! orders are
// too many for two to be alike by chance in so few draws.
func TestOrderDiffers(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		for round := range slices.Chunk(names(order(planOf(8, 2, seed))), 8) {
			seen[fmt.Sprint(round)] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d different orders among 10", len(seen))
	}
}
