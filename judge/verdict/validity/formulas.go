package validity

import (
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
)

// The formulas of docs/development/method.md: each is an end of what a figure can truly be, if the other end is what was
// recorded. Whatever happened in the disturbed stretches, the truth lies between.

// leastQuantile is the least q-quantile, in seconds: a share of the values was delayed, by any time each. Which values
// were is unknown: they count as if they had been the fastest.
func leastQuantile(all *hist.Histogram, q, delayed float64) float64 {
	return recording.Seconds(float64(all.Quantile(max(q-delayed, 0))))
}

// leastMean is the least mean, in seconds: of the values that were delayed, each was the smallest.
func leastMean(all *hist.Histogram, delayed float64) (mean float64) {
	const parts = 200
	for i := range parts {
		mean += (1 - delayed) * leastQuantile(all, (1-delayed)*float64(i)/parts, 0) / parts // the lower end of each part
	}
	return mean + delayed*leastQuantile(all, 0, 0)
}

// mostThroughput is the largest throughput of a closed loop: a share of the window was lost, and all of it would have been
// work.
func mostThroughput(recorded, lost float64) float64 { return recorded / (1 - lost) }

// mostGoodput is the largest rate of good answers, of all: those that were delayed were good until then.
func mostGoodput(recorded, all, delayed float64) float64 {
	return max(recorded, min(recorded+delayed*all, all))
}

// leastCPU is the least CPU time per request. A share of the account was stolen. Others had a share of the CPUs' time, and
// the target refilled its caches after each of their turns.
func leastCPU(recorded, stolen, foreign float64) float64 {
	return recorded * max(0, 1-stolen) / (1 + refill*foreign)
}

// UnlikeRatio is how far below and above the recorded ratio of two variants the true one may be. All are logarithms.
// It is made of how far the ends of each are from its recorded figure. Whatever part of its bounds a disturbance used up in
// one variant, it used up in the other.
func UnlikeRatio(below, above, baseBelow, baseAbove float64) (low, high float64) {
	down, up := below-baseBelow, above-baseAbove
	return max(0, down) + max(0, -up), max(0, -down) + max(0, up)
}

// refill is how much longer a target's own work takes, as a share of the others'
// time on its CPUs: it finds caches and branch predictors filled by them.
// Next to a neighbour that used 30 %, it took up to 10 % longer.
const refill = 0.33
