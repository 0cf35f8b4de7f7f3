package calibrate

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"dyno/judge/stat"
)

// A Proportion is how often an event happened.
type Proportion struct{ Hits, Of int }

// Share returns hits over all, NaN of none.
func (p Proportion) Share() float64 { return float64(p.Hits) / float64(p.Of) }

// Interval returns the 95 % interval for the chance of a hit (Clopper and
// Pearson: The use of confidence or fiducial limits, Biometrika 1934): it covers
// the chance at least that often, whatever it is.
func (p Proportion) Interval() stat.Interval {
	const tail = 0.025
	i := stat.Interval{Low: 0, High: 1}
	hits, misses := float64(p.Hits), float64(p.Of-p.Hits)
	if p.Hits > 0 {
		i.Low = distuv.Beta{Alpha: hits, Beta: misses + 1}.Quantile(tail)
	}
	if p.Hits < p.Of {
		i.High = distuv.Beta{Alpha: hits + 1, Beta: misses}.Quantile(1 - tail)
	}
	return i
}

// An Outcome is the result of comparing a figure with its limit.
type Outcome string

// The outcomes.
const (
	Met       Outcome = "ok"
	Missed    Outcome = "MISSED"
	TooFew    Outcome = "too few to tell"
	Unlimited Outcome = "" // there is no limit
)

// enough is how many trials the limits on proportions are meant for.
const enough = 200

// within tells whether a proportion lies in a range of shares. A proportion outside misses the range. With fewer
// trials than the range is meant for, it misses only if the range is impossible.
func (p Proportion) within(low, high float64) Outcome {
	const rounding = 1e-9
	i := p.Interval()
	switch share := p.Share(); {
	case p.Of == 0 || math.IsNaN(share):
		return TooFew
	case share >= low-rounding && share <= high+rounding:
		return Met
	case p.Of < enough && i.High >= low && i.Low <= high:
		return TooFew
	}
	return Missed
}
