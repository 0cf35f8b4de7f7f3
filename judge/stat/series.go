package stat

import (
	"errors"
	"fmt"
	"math"
)

// ErrConstant says that all values of a series are equal. Such a series has no correlation, trend line
// or shape.
var ErrConstant = errors.New("all values are equal")

// MSERBatch is how many neighbouring values MSER5 averages into one.
const MSERBatch = 5

// mserLeast is the fewest batches MSER5 accepts. It looks for the truncation point
// in the first three quarters: near the end, where few batches are left, the statistic is
// small by accident.
const mserLeast = 20

// checkSeries does as checkValues and says in which series.
func checkSeries(name string, xs []float64, least int) error {
	if err := checkValues(xs, least); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// A Truncation says where the steady state of one or more series begins.
type Truncation struct {
	// Index is the first value to keep, a multiple of MSERBatch.
	Index int
	// Steady is false when Index lies in the second half of the series: it was
	// then still changing, and a longer one is needed to say anything.
	Steady bool
	// Series is the one, by its place in the arguments, that needed the longest
	// warm-up; one that is not steady comes before all that are.
	Series int
}

// MSER5 finds where the warm-up ends: the truncation point d of a series, in batches of five values. It
// minimises the standard error of the mean of the rest, Σ(zᵢ − z̄)²/(n − d)². For several series of one
// trial it returns the worst: for example throughput, median latency and CPU per request, by 100 ms
// bins. At least 100 values each; those that do not fill the last batch are left out.
//
// A point in the second half is rejected, as the authors advise, and reported as not steady. By chance,
// steady series are rejected too: 12 to 15 % with 100 values, 3 to 4 % with 200, below 1 % with 300. A
// drift that is slow compared with the noise escapes: look at MannKendall too.
//
// White, An effective truncation heuristic for bias reduction in simulation
// output, Simulation 69 (1997); White, Cobb and Spratt, A comparison of five
// steady-state truncation heuristics for simulation, WSC 2000.
func MSER5(series ...[]float64) (Truncation, error) {
	if len(series) == 0 {
		return Truncation{}, errors.New("mser-5: no series")
	}
	var worst Truncation
	for i, xs := range series {
		if err := checkSeries(fmt.Sprintf("mser-5: series %d", i), xs, mserLeast*MSERBatch); err != nil {
			return Truncation{}, err
		}
		at := mser(batchMeans(xs, MSERBatch))
		n := len(xs) / MSERBatch
		t := Truncation{Index: at * MSERBatch, Steady: 2*at <= n, Series: i}
		if i == 0 || worst.Steady && !t.Steady || worst.Steady == t.Steady && t.Index > worst.Index {
			worst = t
		}
	}
	return worst, nil
}

// batchMeans averages each full batch of values.
func batchMeans(xs []float64, size int) []float64 {
	means := make([]float64, len(xs)/size)
	for i := range means {
		means[i] = Average(xs[i*size : (i+1)*size])
	}
	return means
}

// mser returns how many values to drop from the front. It goes backwards, so
// that one pass updates the sum of squares (Welford), and keeps the earliest of
// equal minima.
func mser(zs []float64) int {
	best, at := math.Inf(1), 0
	least := len(zs) / 4
	mean, squares := 0.0, 0.0
	for d := len(zs) - 1; d >= 0; d-- {
		rest := len(zs) - d
		delta := zs[d] - mean
		mean += delta / float64(rest)
		squares += delta * (zs[d] - mean)
		if s := squares / float64(rest*rest); rest >= least && s <= best {
			best, at = s, d
		}
	}
	return at
}

// centered is a series less its mean.
type centered struct {
	values  []float64
	squares float64 // Σ values²
}

// center also scales the deviations to at most 1. Correlations stay the same, and the squares do not
// vanish.
func center(xs []float64) (centered, error) {
	mean, widest := Average(xs), 0.0
	c := centered{values: make([]float64, len(xs))}
	for i, x := range xs {
		c.values[i] = x - mean
		widest = max(widest, math.Abs(c.values[i]))
	}
	if widest == 0 {
		return centered{}, ErrConstant
	}
	for i := range c.values {
		c.values[i] /= widest
		c.squares += c.values[i] * c.values[i]
	}
	return c, nil
}

// rho returns the autocorrelation at lag k. The divisor is n at all lags. This keeps the sequence
// positive definite, with a bias towards 0. (Box, Jenkins and Reinsel, Time Series Analysis, section
// 2.1.)
func (c centered) rho(k int) float64 {
	sum := 0.0
	for i, v := range c.values[k:] {
		sum += v * c.values[i]
	}
	return sum / c.squares
}

// positive calls do with the lags from 0 on and their autocorrelations. It ends before the first pair,
// an even lag and the next, with a negative sum (Geyer's initial positive sequence).
func (c centered) positive(do func(k int, rho float64)) {
	for k := 0; k+1 < len(c.values); k += 2 {
		a, b := c.rho(k), c.rho(k+1)
		if a+b <= 0 {
			return
		}
		do(k, a)
		do(k+1, b)
	}
}

// Dependence is how much less a series tells than as many independent values.
type Dependence struct {
	// Lag1 is the correlation of neighbours.
	Lag1 float64
	// Time is the integrated autocorrelation time 1 + 2Σρ, in values: how many of
	// them count for one. At least 1.
	Time float64
	// EffectiveSize is the number of values divided by Time.
	EffectiveSize float64
	// Lags is how many lags Time sums over.
	Lags int
}

// MeasureDependence estimates the integrated autocorrelation time and the
// effective sample size of a series of at least 10 values. Σρ ends before the
// first pair ρ₂ₘ + ρ₂ₘ₊₁ that is not positive (Geyer's initial positive sequence):
// summing all lags would only add noise. Negative correlation is not believed: it
// would promise more than the values there are, so Time is never less than 1.
// It fails with ErrConstant when all values are equal.
//
// A trend looks like dependence without end. Where the series is short compared with its memory (Time
// above a tenth of it), both figures are rough.
//
// Geyer, Practical Markov chain Monte Carlo, Statistical Science 7 (1992).
func MeasureDependence(xs []float64) (Dependence, error) {
	if err := checkSeries("dependence", xs, 10); err != nil {
		return Dependence{}, err
	}
	c, err := center(xs)
	if err != nil {
		return Dependence{}, fmt.Errorf("dependence: %w", err)
	}
	d := Dependence{Lag1: c.rho(1)}
	sum := 0.0
	c.positive(func(k int, rho float64) {
		sum += rho
		d.Lags = k
	})
	d.Time = max(1, 2*sum-1) // the sum has ρ(0) = 1
	d.EffectiveSize = float64(len(xs)) / d.Time
	return d, nil
}
