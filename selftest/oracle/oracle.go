package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// FreezeQuantile returns the response time not exceeded by a share q of the requests. They arrive
// evenly at a server that stops for hold in every period and otherwise answers at once. A request that
// arrives u into a freeze waits hold − u, and u is uniform. So above the share 1 − hold/period that
// meets no freeze:
//
//	L(q) = hold − (1−q)·period
//
// and zero below it. A real server's drain comes on top; StartFreeze reports it.
func FreezeQuantile(q float64, hold, period time.Duration) time.Duration {
	l := float64(hold) - (1-q)*float64(period)
	return time.Duration(math.Round(max(l, 0)))
}

// MM1Quantile returns the sojourn time (waiting and service) not exceeded by a share q of the requests
// at one worker. Service is exponential with serviceRate on average, and arrivals are Poisson at
// arrivalRate, both per second. The sojourn is exponential with the difference of the rates:
//
//	W(q) = −ln(1−q) / (serviceRate − arrivalRate)
//
// With arrivalRate ≥ serviceRate the queue has no steady state and the result is the
// longest Duration.
func MM1Quantile(q, arrivalRate, serviceRate float64) time.Duration {
	if arrivalRate >= serviceRate {
		return math.MaxInt64
	}
	seconds := -math.Log1p(-q) / (serviceRate - arrivalRate)
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// simulatedWindows is how many windows MM1Sampling makes. With 400, its own error is 4 %.
const simulatedWindows = 400

// MM1Sampling returns a bound on how far the mean of windows' q-quantiles is from MM1Quantile, in 95 of
// 100 cases. The queue is M/M/1, but has a sampling error: sojourns depend on each other for as long as
// a busy period lasts, so a window has few independent ones. It simulates single windows by Lindley's
// recursion, from the steady state. It takes 1.96 standard errors of their mean, and adds a single
// window's mean error. With arrivalRate ≥ serviceRate the result is the longest Duration.
func MM1Sampling(q, arrivalRate, serviceRate float64, window time.Duration, windows int) time.Duration {
	if arrivalRate >= serviceRate {
		return math.MaxInt64
	}
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a simulation that is the same each time
	theory := MM1Quantile(q, arrivalRate, serviceRate).Seconds()
	var sojourns []float64
	sum, squares := 0.0, 0.0
	for range simulatedWindows {
		sojourns = sojourns[:0]
		sojourn := r.ExpFloat64() / (serviceRate - arrivalRate)
		for left := window.Seconds(); left > 0; {
			gap := r.ExpFloat64() / arrivalRate
			left -= gap
			sojourn = max(0, sojourn-gap) + r.ExpFloat64()/serviceRate
			sojourns = append(sojourns, sojourn)
		}
		slices.Sort(sojourns)
		off := sojourns[int(q*float64(len(sojourns)))] - theory
		sum, squares = sum+off, squares+off*off
	}
	bias := sum / simulatedWindows
	deviation := math.Sqrt(max(0, squares/simulatedWindows-bias*bias))
	seconds := math.Abs(bias) + 1.96*deviation/math.Sqrt(float64(max(windows, 1)))
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// Capacity returns the highest rate, per second, that workers with the given
// mean service time can sustain.
func Capacity(workers int, service time.Duration) float64 {
	return float64(workers) / service.Seconds()
}
