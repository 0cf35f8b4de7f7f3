package oracle

import (
	"math"
	"time"
)

// FreezeQuantile returns the response time not exceeded by a share q of the
// requests that arrive evenly at a server which stops for hold in every period
// and otherwise answers at once. A request that arrives u into a freeze waits
// hold − u, and u is uniform, so above the share 1 − hold/period that meets no
// freeze
//
//	L(q) = hold − (1−q)·period
//
// and zero below it. A real server's drain comes on top; StartFreeze reports it.
func FreezeQuantile(q float64, hold, period time.Duration) time.Duration {
	l := float64(hold) - (1-q)*float64(period)
	return time.Duration(math.Round(max(l, 0)))
}

// MM1Quantile returns the sojourn time (waiting and service) not exceeded by a
// share q of the requests at one worker with exponential service, serviceRate
// on average, and Poisson arrivals at arrivalRate, both per second. The sojourn
// is exponential with the difference of the rates:
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

// Capacity returns the highest rate, per second, that workers with the given
// mean service time can sustain.
func Capacity(workers int, service time.Duration) float64 {
	return float64(workers) / service.Seconds()
}
