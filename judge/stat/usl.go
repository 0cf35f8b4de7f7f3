package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// MinLevels is the fewest different levels ScalabilityFit accepts: three
	// parameters through fewer say little of how well the law holds.
	MinLevels = 6
	// MinRounds is the fewest rounds BootstrapScalability resamples.
	MinRounds = 5
)

// Scalability is the Universal Scalability Law: throughput at concurrency N is
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1))
//
// Gunther, Guerrilla Capacity Planning (2007), chapter 4.
type Scalability struct {
	// Lambda is the throughput of one, in the unit of the throughputs.
	Lambda float64
	// Sigma is contention: the share of work that cannot overlap. Not negative.
	Sigma float64
	// Kappa is the cost of coherency (β in some texts), which grows with pairs and
	// makes throughput fall again. Not negative.
	Kappa float64
}

// Throughput returns X(n).
func (s Scalability) Throughput(n float64) float64 {
	return s.Lambda * n / (1 + s.Sigma*(n-1) + s.Kappa*n*(n-1))
}

// Peak returns the concurrency √((1−σ)/κ) at which throughput is largest, and that
// throughput. ok is false when it has no peak above 1: it only grows when κ is 0
// and only falls when σ + κ is 1 or more.
func (s Scalability) Peak() (n, throughput float64, ok bool) {
	if !(s.Kappa > 0) || s.Sigma+s.Kappa >= 1 {
		return 0, 0, false
	}
	n = math.Sqrt((1 - s.Sigma) / s.Kappa)
	return n, s.Throughput(n), true
}

// ScalabilityFit fits the law to throughputs x at concurrencies n, from 1 up, by
// non-linear least squares under σ, κ ≥ 0. There must be at least MinLevels
// different levels; without low ones λ and σ are guesses, and σ may exceed 1.
// weights, one a throughput and above 0, make some count for more (1/variance;
// 1/x² for relative errors); nil is all alike.
//
// The fit minimises over a = 1/λ, b = σ/λ, c = κ/λ, in which N/X is linear: that
// gives the start, and Levenberg-Marquardt steps the rest. Where the free minimum
// has b or c below 0, the constrained one has b, c, or both at 0: the best of these.
func ScalabilityFit(n, x, weights []float64) (Scalability, error) {
	if err := checkScalability(n, x, weights); err != nil {
		return Scalability{}, err
	}
	f := newUSLFit(n, x, weights)
	best, least := uslParameters{}, math.Inf(1)
	for _, free := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {0}} {
		p, sum := f.minimise(f.linear(free), free)
		if p[1] >= 0 && p[2] >= 0 && sum < least {
			best, least = p, sum
		}
		if len(free) == 3 && best == p {
			break
		}
	}
	s := Scalability{
		Lambda: f.unit / best[0],
		Sigma:  best[1] / f.scale[1] / best[0],
		Kappa:  best[2] / f.scale[2] / best[0],
	}
	for _, v := range []float64{s.Lambda, s.Sigma, s.Kappa} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Scalability{}, errors.New("scalability: the levels show nothing of the throughput of one")
		}
	}
	return s, nil
}

func checkScalability(n, x, weights []float64) error {
	if len(n) != len(x) || weights != nil && len(weights) != len(x) {
		return fmt.Errorf("scalability: %d levels, %d throughputs, %d weights: want as many", len(n), len(x), len(weights))
	}
	var faults []error
	check := func(name string, values []float64) {
		name = "scalability: " + name
		if err := checkSeries(name, values, MinLevels); err != nil {
			faults = append(faults, err)
		} else if i := slices.IndexFunc(values, func(v float64) bool { return v <= 0 }); i >= 0 {
			faults = append(faults, fmt.Errorf("%s: value %d is %v: want above 0", name, i, values[i]))
		}
	}
	check("levels", n)
	check("throughputs", x)
	if weights != nil {
		check("weights", weights)
	}
	if i := slices.IndexFunc(n, func(v float64) bool { return v > 0 && v < 1 }); i >= 0 {
		faults = append(faults, fmt.Errorf("scalability: levels: value %d is %v: want at least 1", i, n[i]))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if different := len(slices.Compact(slices.Sorted(slices.Values(n)))); different < MinLevels {
		return fmt.Errorf("scalability: %w: %d different levels, want at least %d", ErrTooFew, different, MinLevels)
	}
	return nil
}

// uslParameters are a, b and c of N/X = a + b(N−1) + cN(N−1), for scaled terms.
type uslParameters [3]float64

// uslFit is what a fit goes by. Throughputs, weights and terms are in units of the
// largest of each, which keeps the equations well-conditioned.
type uslFit struct {
	terms   [][3]float64 // 1, N−1, N(N−1)
	n, x, w []float64
	unit    float64    // of throughput
	scale   [3]float64 // of the terms
}

func newUSLFit(n, x, weights []float64) *uslFit {
	most := slices.Max(n)
	f := &uslFit{n: n, unit: slices.Max(x), scale: [3]float64{1, most - 1, most * (most - 1)}}
	heaviest := 1.0
	if weights != nil {
		heaviest = slices.Max(weights)
	}
	for i, level := range n {
		f.terms = append(f.terms, [3]float64{1, (level - 1) / f.scale[1], level * (level - 1) / f.scale[2]})
		f.x = append(f.x, x[i]/f.unit)
		w := 1.0
		if weights != nil {
			w = weights[i] / heaviest
		}
		f.w = append(f.w, w)
	}
	return f
}

// denominator returns a + b(N−1) + cN(N−1) of observation i.
func (f *uslFit) denominator(p uslParameters, i int) float64 {
	t := f.terms[i]
	return p[0] + p[1]*t[1] + p[2]*t[2]
}

// linear returns the free parameters that fit N/X best. Its errors are weighted as
// those of X would be: N/X has X²/N times their deviation.
func (f *uslFit) linear(free []int) uslParameters {
	var e normalEquations
	for i, x := range f.x {
		scale := x * x / f.n[i]
		var row [3]float64
		for k, at := range free {
			row[k] = scale * f.terms[i][at]
		}
		e.add(row, x, f.w[i])
	}
	p := uslParameters{}
	if solution, ok := e.solve(len(free), 0); ok {
		for k, at := range free {
			p[at] = solution[k]
		}
	}
	if !f.inside(p) {
		// Any start inside will do: throughput that grows to the largest seen.
		p = uslParameters{1, 0, 0}
		if slices.Contains(free, 1) {
			p[1] = 1
		}
	}
	return p
}

// inside tells whether the curve is positive and finite at all levels.
func (f *uslFit) inside(p uslParameters) bool {
	if !(p[0] > 0) {
		return false
	}
	for i := range f.x {
		if d := f.denominator(p, i); !(d > 0) || math.IsInf(d, 0) {
			return false
		}
	}
	return true
}

// sum returns the weighted squares of the residuals.
func (f *uslFit) sum(p uslParameters) float64 {
	total := 0.0
	for i, x := range f.x {
		r := x - f.n[i]/f.denominator(p, i)
		total += f.w[i] * r * r
	}
	return total
}

// minimise takes Levenberg-Marquardt steps in the free parameters from a start
// inside, and returns where they end with the sum of squares there. Steps go only
// down and stop at 200, when they no longer matter or when none leads down.
//
// Marquardt, J. SIAM 11 (1963): the diagonal is scaled, so units do not matter.
func (f *uslFit) minimise(p uslParameters, free []int) (uslParameters, float64) {
	const (
		maxSteps = 200
		enough   = 1e-14 // relative decrease of the sum
		stiffest = 1e12
	)
	least, damping := f.sum(p), 1e-3
	for range maxSteps {
		var e normalEquations
		for i, x := range f.x {
			d := f.denominator(p, i)
			var slope [3]float64 // of the residual
			for k, at := range free {
				slope[k] = f.n[i] / (d * d) * f.terms[i][at]
			}
			e.add(slope, f.n[i]/d-x, f.w[i])
		}
		before := least
		for ; damping < stiffest; damping *= 10 {
			step, ok := e.solve(len(free), damping)
			if !ok {
				continue
			}
			next := p
			for k, at := range free {
				next[at] += step[k]
			}
			if f.inside(next) {
				if s := f.sum(next); s < least {
					p, least = next, s
					damping = max(damping/10, 1e-12)
					break
				}
			}
		}
		if before-least <= enough*before {
			break
		}
	}
	return p, least
}

// normalEquations are those of a least squares problem with up to three unknowns.
// A bootstrap solves hundreds of thousands, for which a matrix library is slow.
type normalEquations struct {
	left  [3][3]float64 // the lower triangle
	right [3]float64
}

// add takes in that row·unknowns should be y, with a weight.
func (e *normalEquations) add(row [3]float64, y, weight float64) {
	for a := range row {
		for b := range a + 1 {
			e.left[a][b] += weight * row[a] * row[b]
		}
		e.right[a] += weight * row[a] * y
	}
}

// solve returns the first k unknowns by Cholesky's decomposition, the diagonal
// stretched by a damping; ok is false when the equations do not determine them.
func (e *normalEquations) solve(k int, damping float64) (x [3]float64, ok bool) {
	var l [3][3]float64
	for a := range k {
		for b := range a + 1 {
			sum := e.left[a][b]
			if a == b {
				sum *= 1 + damping
			}
			for c := range b {
				sum -= l[a][c] * l[b][c]
			}
			if a != b {
				l[a][b] = sum / l[b][b]
			} else if l[a][a] = math.Sqrt(sum); !(sum > 0) {
				return x, false
			}
		}
	}
	for a := range k {
		x[a] = e.right[a]
		for b := range a {
			x[a] -= l[a][b] * x[b]
		}
		x[a] /= l[a][a]
	}
	for a := k - 1; a >= 0; a-- {
		for b := a + 1; b < k; b++ {
			x[a] -= l[b][a] * x[b]
		}
		x[a] /= l[a][a]
	}
	return x, true
}

// Resampling says how to bootstrap.
type Resampling struct {
	Draws      int     // 100 to 100,000; 2,000 is enough for an interval
	Seed       uint64  // the same seed gives the same result
	Confidence float64 // of the interval, such as 0.95
}

// Validate reports all faults.
func (r Resampling) Validate() error {
	err := checkConfidence(r.Confidence)
	if r.Draws < 100 || r.Draws > 100_000 {
		err = errors.Join(err, fmt.Errorf("draws %d: want 100 to 100000", r.Draws))
	}
	return err
}

// ScalabilityEstimate is a fit with what resampling says of it.
type ScalabilityEstimate struct {
	// Fit is the law through all rounds.
	Fit Scalability
	// Lambda, Sigma and Kappa are intervals of its parameters.
	Lambda, Sigma, Kappa Interval
	// Peaked is whether a peak may be claimed: the fit has one, and κ's interval
	// excludes 0. The next four fields are zero otherwise.
	Peaked bool
	// PeakLevel is the concurrency of the largest throughput. Outside the levels
	// measured it is extrapolated.
	PeakLevel      float64
	PeakThroughput float64
	// Their intervals.
	PeakLevelInterval, PeakThroughputInterval Interval
	// Misfit is the root mean square of how far the levels' means lie from the fit,
	// relative to the fit. No interval covers what the law itself gets wrong.
	Misfit float64
}

// BootstrapScalability fits the law to a sweep and resamples whole rounds for
// intervals: rounds[r][i] is the throughput of level n[i] in round r. weights are
// of the levels, nil for all alike. At least MinRounds rounds.
//
// The intervals are percentiles of the draws, further out by what a t distribution
// and n−1 need: plain percentiles of few rounds are too narrow. In simulation 95 %
// intervals of κ then hold it in 94 % of sweeps of eight rounds and 93 % of five.
//
// Hesterberg, What teachers should know about the bootstrap, The American
// Statistician 69 (2015): expanded percentile interval.
func BootstrapScalability(n []float64, rounds [][]float64, weights []float64, resampling Resampling) (ScalabilityEstimate, error) {
	if err := checkSweep(n, rounds, weights, resampling); err != nil {
		return ScalabilityEstimate{}, err
	}
	picked := make([]int, len(rounds))
	for r := range picked {
		picked[r] = r
	}
	var e ScalabilityEstimate
	var err error
	means := roundMeans(rounds, picked)
	if e.Fit, err = ScalabilityFit(n, means, weights); err != nil {
		return ScalabilityEstimate{}, err
	}
	for i := range n {
		off := means[i]/e.Fit.Throughput(n[i]) - 1
		e.Misfit += off * off / float64(len(n))
	}
	e.Misfit = math.Sqrt(e.Misfit)

	rng := newRNG(resampling.Seed)
	var lambda, sigma, kappa, peakLevel, peakThroughput []float64
	for draw := range resampling.Draws {
		for r := range picked {
			picked[r] = rng.IntN(len(rounds))
		}
		s, err := ScalabilityFit(n, roundMeans(rounds, picked), weights)
		if err != nil {
			return ScalabilityEstimate{}, fmt.Errorf("draw %d: %w", draw, err)
		}
		lambda, sigma, kappa = append(lambda, s.Lambda), append(sigma, s.Sigma), append(kappa, s.Kappa)
		at, x, ok := s.Peak()
		switch {
		case ok:
		case s.Kappa > 0: // it only falls
			at, x = 1, s.Lambda
		default: // it only grows; too few do to reach into an interval that is used
			at, x = math.Inf(1), s.Lambda/s.Sigma
		}
		peakLevel, peakThroughput = append(peakLevel, at), append(peakThroughput, x)
	}
	tail := expandedTail(resampling.Confidence, len(rounds))
	e.Lambda, e.Sigma, e.Kappa = percentiles(lambda, tail), percentiles(sigma, tail), percentiles(kappa, tail)
	at, x, ok := e.Fit.Peak()
	if ok && e.Kappa.Low > 0 {
		e.Peaked = true
		e.PeakLevel, e.PeakThroughput = at, x
		e.PeakLevelInterval, e.PeakThroughputInterval = percentiles(peakLevel, tail), percentiles(peakThroughput, tail)
	}
	return e, nil
}

func checkSweep(n []float64, rounds [][]float64, weights []float64, resampling Resampling) error {
	var faults []error
	if len(rounds) < MinRounds {
		faults = append(faults, fmt.Errorf("scalability: %w: %d rounds, want at least %d", ErrTooFew, len(rounds), MinRounds))
	}
	if err := resampling.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("scalability: %w", err))
	}
	for r, x := range rounds {
		if err := checkScalability(n, x, weights); err != nil {
			faults = append(faults, fmt.Errorf("round %d: %w", r, err))
		}
	}
	return errors.Join(faults...)
}

// roundMeans averages each level over the rounds picked. With as many throughputs
// of each level, their squares about the fit differ from those of the means only by
// what no fit can change.
func roundMeans(rounds [][]float64, picked []int) []float64 {
	means := make([]float64, len(rounds[0]))
	for _, r := range picked {
		for i, x := range rounds[r] {
			means[i] += x / float64(len(picked))
		}
	}
	return means
}

// expandedTail is the share of draws to leave out on either side.
func expandedTail(confidence float64, n int) float64 {
	return distuv.UnitNormal.CDF(-math.Sqrt(float64(n)/float64(n-1)) * tQuantile((1+confidence)/2, n))
}

// percentiles returns the interval that leaves a share of the values out on either
// side, none when it is too small for one. It sorts them.
func percentiles(values []float64, tail float64) Interval {
	slices.Sort(values)
	out := min(int(tail*float64(len(values))), (len(values)-1)/2)
	return Interval{Low: values[out], High: values[len(values)-1-out]}
}
