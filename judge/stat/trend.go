package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MaxTrend is the longest series TheilSen and HamedRao take: they look at all
// pairs, eight million then, in 67 MB. Average neighbours of a longer one.
const MaxTrend = 4096

// exactKendall is the longest series without ties for which MannKendall counts
// permutations instead of approximating.
const exactKendall = 50

// A TrendLine is a straight line through a series.
type TrendLine struct {
	// Slope is the median of the slopes of all pairs, in units of y per unit of x.
	Slope float64
	// Intercept is the line's value at x = 0: it passes through both medians.
	Intercept float64
	// Interval is the slope's. It is unbounded where too few values, or too dependent ones, allow none
	// of the confidence asked for.
	Interval Interval
}

// At returns the line's value at x.
func (l TrendLine) At(x float64) float64 { return l.Intercept + l.Slope*x }

// TheilSen fits a line that up to 29 % of wild values do not move. It returns its slope's interval at a
// confidence such as 0.95. x must increase; three points at least, MaxTrend at most. inflation is how
// much more the number of concordant pairs varies than for independent errors: 1, or what HamedRao
// finds.
//
// Theil (1950); Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968).
// Sen's interval is a normal approximation with correction for ties; Conover for the intercept.
func TheilSen(x, y []float64, confidence, inflation float64) (TrendLine, error) {
	if err := checkPoints("theil-sen", x, y, 3); err != nil {
		return TrendLine{}, err
	}
	if len(x) > MaxTrend {
		return TrendLine{}, fmt.Errorf("theil-sen: %d points: want at most %d: average neighbours", len(x), MaxTrend)
	}
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
		}
	}
	slices.Sort(slopes)
	line := TrendLine{Slope: middle(slopes)}
	line.Intercept = medianOf(y) - line.Slope*medianOf(x)
	if math.IsNaN(line.Intercept) || math.IsInf(line.Intercept, 0) {
		return TrendLine{}, errors.New("theil-sen: the slopes are beyond what a float64 holds")
	}

	// The number of slopes below the true one varies as Kendall's S does.
	n := float64(len(slopes))
	half := distuv.UnitNormal.Quantile((1+confidence)/2) * math.Sqrt(kendallVariance(y)*inflation)
	low := int(math.RoundToEven((n-half)/2)) - 1
	high := int(math.RoundToEven((n + half) / 2))
	line.Interval = Interval{Low: math.Inf(-1), High: math.Inf(1)}
	if low >= 0 && high < len(slopes) {
		line.Interval = Interval{Low: slopes[low], High: slopes[high]}
	}
	return line, nil
}

// checkPoints says what makes points unfit for a curve through them.
func checkPoints(name string, x, y []float64, least int) error {
	if len(x) != len(y) {
		return fmt.Errorf("%s: %d values of x and %d of y: want as many", name, len(x), len(y))
	}
	if err := errors.Join(checkSeries(name+": x", x, least), checkSeries(name+": y", y, least)); err != nil {
		return err
	}
	for i := range x[1:] {
		if x[i+1] <= x[i] {
			return fmt.Errorf("%s: x: value %d is %v after %v: want it to increase", name, i+1, x[i+1], x[i])
		}
	}
	return nil
}

// A KendallTest is the outcome of MannKendall.
type KendallTest struct {
	// S is the number of pairs that rise less the number that fall.
	S int
	// Tau is S relative to its largest possible value, from −1 to 1.
	Tau float64
	// P is the two-sided p-value of there being no trend.
	P float64
	// Exact says that P was counted, not approximated.
	Exact bool
}

// MannKendall tests a series, in the order of time and evenly spaced or not, for
// a monotone trend. At least three values. Up to 50 without ties, and with
// inflation 1, P is exact; otherwise it is a normal approximation with corrections
// for ties and continuity, good from about ten values on. A constant series has no
// trend: S is 0 and P is 1.
//
// Values that depend on their neighbours, such as memory sampled every second,
// drift by chance: of plain tests of a series with lag-1 correlation 0.5, a quarter
// are positive at 5 %. inflation is how much that widens the distribution
// of S: 1 for independent values, or what HamedRao finds.
//
// Mann, Nonparametric tests against trend, Econometrica 13 (1945); Kendall, Rank Correlation Methods;
// the exact distribution counts inversions.
func MannKendall(xs []float64, inflation float64) (KendallTest, error) {
	if err := checkSeries("mann-kendall", xs, 3); err != nil {
		return KendallTest{}, err
	}
	t := KendallTest{S: kendallS(xs)}
	n := len(xs)
	pairs := n * (n - 1) / 2
	t.Tau = float64(t.S) / float64(pairs)
	if t.Exact = inflation == 1 && n <= exactKendall && !tied(xs); t.Exact {
		t.P = kendallExact(n, (pairs-max(t.S, -t.S))/2)
	} else if t.P = 1; t.S != 0 {
		z := (math.Abs(float64(t.S)) - 1) / math.Sqrt(kendallVariance(xs)*inflation)
		t.P = 2 * distuv.UnitNormal.Survival(z)
	}
	return t, nil
}

// kendallS counts pairs by merging sorted halves, so that a long series takes
// n·log n steps: falling pairs are those that sorting swaps.
func kendallS(xs []float64) int {
	sorted, space := slices.Clone(xs), make([]float64, len(xs))
	falling := inversions(sorted, space)
	equal := 0
	for _, k := range tieSizes(sorted) {
		equal += k * (k - 1) / 2
	}
	return len(xs)*(len(xs)-1)/2 - equal - 2*falling
}

// inversions sorts xs and returns how many pairs were in falling order.
func inversions(xs, space []float64) int {
	if len(xs) < 2 {
		return 0
	}
	m := len(xs) / 2
	count := inversions(xs[:m], space[:m]) + inversions(xs[m:], space[m:])
	copy(space, xs)
	left, right := space[:m], space[m:]
	for k := range xs {
		if len(right) == 0 || len(left) > 0 && left[0] <= right[0] {
			xs[k], left = left[0], left[1:]
		} else {
			xs[k], right = right[0], right[1:]
			count += len(left)
		}
	}
	return count
}

// tieSizes returns the number of times each value of a sorted series occurs.
func tieSizes(sorted []float64) (sizes []int) {
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		sizes = append(sizes, j-i)
		i = j
	}
	return sizes
}

func tied(xs []float64) bool {
	return len(tieSizes(slices.Sorted(slices.Values(xs)))) < len(xs)
}

// kendallVariance is the variance of S when all orders are equally likely.
func kendallVariance(xs []float64) float64 {
	term := func(k int) float64 { return float64(k) * float64(k-1) * float64(2*k+5) }
	sum := term(len(xs))
	for _, k := range tieSizes(slices.Sorted(slices.Values(xs))) {
		sum -= term(k)
	}
	return sum / 18
}

// kendallExact returns the chance that a random order of n values has at most a number of falling
// pairs. Rising pairs have the same chance.
func kendallExact(n, falling int) float64 {
	// chance[k] is the chance of k falling pairs among m values: the m-th value is lower than 0 to m−1
	// others, each with the same chance.
	chance := []float64{1}
	for m := 2; m <= n; m++ {
		next := make([]float64, len(chance)+m-1)
		for k, c := range chance {
			for j := range m {
				next[k+j] += c / float64(m)
			}
		}
		chance = next
	}
	p := 0.0
	for _, c := range chance[:falling+1] {
		p += c
	}
	return min(1, 2*p)
}

// HamedRao estimates the inflation that TheilSen and MannKendall take: how much more S varies because
// neighbouring values, evenly spaced in time, resemble each other. It is 1 + 2/(n(n−1)(n−2)) Σ
// (n−k)(n−k−1)(n−k−2)·ρ(k). ρ is the autocorrelation of the ranks of the series less its Theil-Sen
// line. Ten values at least, MaxTrend at most. A straight line, such as a constant, has 1.
//
// Hamed and Rao sum all lags significant at 5 %; chance makes one in twenty significant. Here the sum
// ends as in MeasureDependence, and the result is never less than 1: a test does not become surer by an
// estimate of its own. In simulation that is nearer to 5 % of positive tests where nothing grows, but
// not there: with lag-1 correlation 0.5 it is 10 % for 60 values, 6 % for 200, 5 % for 500 (plain: 24
// %); with 0.95, 37 %, 22 % and 7 % (plain: 75 %). So take a series some hundred times as long as its
// memory, or ask for a smaller p-value.
//
// Hamed and Rao, A modified Mann-Kendall trend test for autocorrelated data,
// Journal of Hydrology 204 (1998).
func HamedRao(xs []float64) (float64, error) {
	if err := checkSeries("hamed-rao", xs, 10); err != nil {
		return 0, err
	}
	x, largest := make([]float64, len(xs)), 0.0
	for i := range x {
		x[i] = float64(i)
		largest = max(largest, math.Abs(xs[i]))
	}
	line, err := TheilSen(x, xs, 0.95, 1)
	if err != nil {
		return 0, fmt.Errorf("hamed-rao: %w", err)
	}
	rest := make([]float64, len(xs))
	for i := range rest {
		// A rest left by rounding on a straight line is not dependence.
		if r := xs[i] - line.At(x[i]); math.Abs(r) > 1e-12*largest {
			rest[i] = r
		}
	}
	c, err := center(ranks(rest))
	if errors.Is(err, ErrConstant) {
		return 1, nil
	}
	n, sum := float64(len(xs)), 0.0
	c.positive(func(k int, rho float64) {
		left := n - float64(k)
		sum += left * (left - 1) * (left - 2) * rho
	})
	// The sum has k = 0, which weighs half as much as the others.
	return max(1, 2*sum/(n*(n-1)*(n-2))-1), nil
}

// ranks numbers values from 1 by size; equal ones share the mean of their ranks.
func ranks(xs []float64) []float64 {
	order := make([]int, len(xs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case xs[a] < xs[b]:
			return -1
		case xs[a] > xs[b]:
			return 1
		}
		return 0
	})
	r := make([]float64, len(xs))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && xs[order[j]] == xs[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			r[at] = float64(i+j+1) / 2
		}
		i = j
	}
	return r
}
