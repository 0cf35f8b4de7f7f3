package oracle

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Distribution of times is given by its quantile function. Draws are made from it by
// inversion, so draws and quantiles cannot disagree.
type Distribution interface {
	// Quantile returns the time not exceeded by a share q of all draws,
	// 0 ≤ q < 1. It is never negative nor longer than an hour.
	Quantile(q float64) time.Duration

	// Validate reports every impossible parameter.
	Validate() error
}

// Fixed is always the same time.
type Fixed time.Duration

// LogNormal is the exponential of a normal distribution with deviation Sigma:
// the long right tail that service times often have.
type LogNormal struct {
	Median time.Duration
	Sigma  float64 // of the logarithm; 0.5 puts p99 at 3.2 times the median
}

// Bimodal is Slow for a share of the draws and Fast for the others.
type Bimodal struct {
	Fast, Slow time.Duration
	SlowShare  float64 // 0.01 for 99:1
}

// Exponential has no memory: a Poisson process's gaps, M/M/1's service times.
type Exponential struct {
	Mean time.Duration
}

var (
	_ Distribution = Fixed(0)
	_ Distribution = LogNormal{}
	_ Distribution = Bimodal{}
	_ Distribution = Exponential{}
)

// Quantile implements Distribution.
func (d Fixed) Quantile(float64) time.Duration { return time.Duration(d) }

// Quantile implements Distribution.
func (d LogNormal) Quantile(q float64) time.Duration {
	z := math.Sqrt2 * math.Erfinv(2*q-1)
	return clamp(float64(d.Median) * math.Exp(d.Sigma*z))
}

// Quantile implements Distribution.
func (d Bimodal) Quantile(q float64) time.Duration {
	if q >= 1-d.SlowShare {
		return d.Slow
	}
	return d.Fast
}

// Quantile implements Distribution.
func (d Exponential) Quantile(q float64) time.Duration {
	return clamp(-float64(d.Mean) * math.Log1p(-q))
}

// Validate implements Distribution.
func (d Fixed) Validate() error { return validDuration("fixed delay", time.Duration(d)) }

// Validate implements Distribution.
func (d LogNormal) Validate() error {
	err := validDuration("log-normal median", d.Median)
	if !(d.Sigma >= 0 && d.Sigma <= 5) {
		err = errors.Join(err, fmt.Errorf("oracle: log-normal sigma: %v: must be between 0 and 5", d.Sigma))
	}
	return err
}

// Validate implements Distribution.
func (d Bimodal) Validate() error {
	err := errors.Join(validDuration("bimodal fast", d.Fast), validDuration("bimodal slow", d.Slow))
	if !(d.SlowShare >= 0 && d.SlowShare <= 1) {
		err = errors.Join(err, fmt.Errorf("oracle: bimodal slow share: %v: must be between 0 and 1", d.SlowShare))
	}
	return err
}

// Validate implements Distribution.
func (d Exponential) Validate() error { return validDuration("exponential mean", d.Mean) }

// clamp rounds ns to a Duration between 0 and maxDelay.
func clamp(ns float64) time.Duration {
	return time.Duration(min(max(math.Round(ns), 0), float64(maxDelay)))
}

// seeded returns the generator that every seeded choice of this package uses:
// the same seed, the same choices, on every machine.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
