package trial

import (
	"math/rand/v2"

	"dyno/lab/plan"
)

// order plans the given number of rounds. Each round holds every variant once, in a random order from
// the seed. So a drift of the machine affects all variants alike (randomised multiple interleaved
// trials: Abedi and Brecht, "Conducting Repeatable Experiments in Highly Variable Cloud Computing
// Environments", ICPE 2017).
func order(e *plan.Experiment, count int) [][]*plan.Variant {
	rng := rand.New(rand.NewPCG(e.Design.Seed, 0x0d1a)) //nolint:gosec // an order, not a secret
	rounds := make([][]*plan.Variant, count)
	for i := range rounds {
		for _, v := range rng.Perm(len(e.Variants)) {
			rounds[i] = append(rounds[i], &e.Variants[v])
		}
	}
	return rounds
}
