package trial

import (
	"math/rand/v2"

	"dyno/experiment"
)

// A slot is one trial of the plan.
type slot struct {
	number  int // from 1
	round   int // from 1
	variant *experiment.Variant
}

// order lays out the trials: each round holds every variant once, in a random
// order of its own from the seed, so that a drift of the machine meets all
// variants alike (randomised multiple interleaved trials: Abedi and Brecht,
// "Conducting Repeatable Experiments in Highly Variable Cloud Computing
// Environments", ICPE 2017).
func order(e *experiment.Experiment) []slot {
	rng := rand.New(rand.NewPCG(e.Design.Seed, 0x0d1a)) //nolint:gosec // an order, not a secret
	slots := make([]slot, 0, e.Design.Rounds*len(e.Variants))
	for round := 1; round <= e.Design.Rounds; round++ {
		for _, v := range rng.Perm(len(e.Variants)) {
			slots = append(slots, slot{len(slots) + 1, round, &e.Variants[v]})
		}
	}
	return slots
}
