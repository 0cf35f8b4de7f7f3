package stat

import (
	"errors"
	"math"
	"slices"
)

// A Curve is the shape of a rising curve whose knee is looked for.
type Curve int

const (
	// Convex curves rise ever more steeply, as latency does with rate.
	Convex Curve = iota
	// Concave curves rise ever less, as throughput does with concurrency.
	Concave
)

// Knee returns the place of the point where a rising curve bends most. That is the point furthest from
// the straight line between its ends, both axes scaled to 1. ok is false when it has none. x must
// increase; at least five points, already averaged: nothing is smoothed here. sensitivity is how far,
// in mean distances of x, the curve must turn back before a bend counts: 1 is the authors' choice, more
// ignores ripples.
//
// The knee is a summary, not a limit: it moves with the range of x measured, and no
// interval says how sure it is. For what a service can take, search for capacity.
//
// Satopää, Albrecht, Irwin and Raghavan, Finding a "Kneedle" in a haystack, ICDCS
// Workshops 2011; the first knee of a finished curve, without the spline.
func Knee(x, y []float64, curve Curve, sensitivity float64) (at int, ok bool, err error) {
	if err := checkPoints("knee", x, y, 5); err != nil {
		return 0, false, err
	}
	lowest, highest := slices.Min(y), slices.Max(y)
	if lowest == highest {
		return 0, false, nil
	}
	last := len(x) - 1
	width, height := x[last]-x[0], highest-lowest
	if math.IsInf(width, 0) || math.IsInf(height, 0) {
		return 0, false, errors.New("knee: the points span more than a float64 holds")
	}
	// How far the curve lies above the diagonal. A convex one is turned upside down
	// and back to front first.
	above := make([]float64, len(x))
	for i := range x {
		if curve == Concave {
			above[i] = (y[i]-lowest)/height - (x[i]-x[0])/width
		} else {
			above[last-i] = (highest-y[i])/height - (x[last]-x[i])/width
		}
	}
	k, ok := firstKnee(above, sensitivity/float64(last))
	if ok && curve == Convex {
		k = last - k
	}
	return k, ok, nil
}

// firstKnee returns the first local maximum from which the curve falls by more than
// drop before it rises again.
func firstKnee(above []float64, drop float64) (int, bool) {
	at, found := 0, false
	for i := 1; i < len(above)-1; i++ {
		switch {
		case above[i] >= above[i-1] && above[i] >= above[i+1]:
			at, found = i, true
		case above[i] <= above[i-1] && above[i] <= above[i+1]:
			found = false
		}
		if found && above[i+1] < above[at]-drop {
			return at, true
		}
	}
	return 0, false
}
