package stat

import (
	"fmt"
	"math"
	"slices"
)

// MaxHistory is the longest series ChangePoints takes. Time grows with its square,
// with the permutations and with the changes found: at the default of permutations
// 1,000 values take about two seconds for each test.
const MaxHistory = 2048

// Divisive says how ChangePoints looks for changes.
type Divisive struct {
	// MinSegment is the fewest values between two changes, and so how many a change needs
	// after it to be found. At least 2.
	MinSegment int
	// Alpha is the level of each test, above 0 and below 1.
	Alpha float64
	// Permutations is how many a test draws. Fewer than 1/Alpha − 1 could never find
	// anything.
	Permutations int
	// Seed decides the permutations.
	Seed uint64
}

// A ChangePoint is where the distribution of a series changes.
type ChangePoint struct {
	// Index is the first value after the change.
	Index int
	// Statistic is the scaled energy distance between the values on both sides, in
	// the unit of the values.
	Statistic float64
	// P is its p-value, under the null hypothesis that the only changes are those found before it.
	P float64
	// Before and After are the means from the change before to this one, and from this
	// one to the next. They make no claim about the size: the same data chose the points.
	Before, After float64
}

// Relative returns the change of the mean relative to the one before: 0.05 is five
// per cent more. ok is false when that mean is 0.
func (c ChangePoint) Relative() (change float64, ok bool) {
	if c.Before == 0 {
		return 0, false
	}
	return (c.After - c.Before) / math.Abs(c.Before), true
}

// ChangePoints finds where the distribution of a series changes, in mean, spread or shape. It returns
// the points in order of time. The values must be independent between changes, as runs on different
// days are and neighbouring seconds are not. A series too short for two segments has none.
//
// E-divisive: split all segments in all ways, and take the split whose sides lie furthest apart in
// energy distance (exponent 1). The right side ends wherever that is furthest; keep it if at most a
// share alpha of random orders within the segments has one as far; repeat. A series without any change
// shows one with probability alpha at most; where there are some, there may be more in excess. The
// points are for alerts, not for comparing two versions.
//
// Matteson and James, A nonparametric approach for multiple change point analysis
// of multivariate data, JASA 109 (2014); for performance histories: Daly, Brown,
// Ingo, O'Leary and Bradford, The use of change point detection to identify
// software performance regressions, ICPE 2020.
func ChangePoints(xs []float64, d Divisive) ([]ChangePoint, error) {
	if err := checkSeries("change points", xs, 1); err != nil {
		return nil, err
	}
	if len(xs) > MaxHistory {
		return nil, fmt.Errorf("change points: %d values: want at most %d", len(xs), MaxHistory)
	}
	var points []ChangePoint
	segments := []segment{newSegment(xs, 0, d.MinSegment)}
	rng := newRNG(d.Seed)
	for {
		at := -1
		for i, s := range segments {
			if s.splittable() && (at < 0 || s.best > segments[at].best) {
				at = i
			}
		}
		if at < 0 || segments[at].best <= 0 {
			break
		}
		found := segments[at]
		as := 1 // the order found is one of the equally likely ones
		for range d.Permutations {
			if slices.ContainsFunc(segments, func(s segment) bool {
				if !s.splittable() {
					return false
				}
				shuffled := s.shuffled
				rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				_, best := s.search.split(shuffled)
				return best >= found.best*(1-1e-12) // ties but for rounding
			}) {
				as++
			}
		}
		p := float64(as) / float64(d.Permutations+1)
		if p > d.Alpha {
			break
		}
		points = append(points, ChangePoint{Index: found.start + found.at, Statistic: found.best, P: p})
		segments = slices.Replace(segments, at, at+1,
			newSegment(found.values[:found.at], found.start, d.MinSegment),
			newSegment(found.values[found.at:], found.start+found.at, d.MinSegment))
	}
	slices.SortFunc(points, func(a, b ChangePoint) int { return a.Index - b.Index })
	setMeans(xs, points)
	return points, nil
}

// setMeans fills in the means before and after each point, in order of time.
func setMeans(xs []float64, points []ChangePoint) {
	start := 0
	for i := range points {
		p, end := &points[i], len(xs)
		if i+1 < len(points) {
			end = points[i+1].Index
		}
		p.Before, p.After = Average(xs[start:p.Index]), Average(xs[p.Index:end])
		start = p.Index
	}
}

// A segment is a stretch of a series between two changes, with its best split.
type segment struct {
	values   []float64
	shuffled []float64 // the same values in whatever order
	start    int       // of values in the series
	at       int       // where the best split is, in values
	best     float64   // its statistic
	search   *splitSearch
}

func newSegment(values []float64, start, least int) segment {
	s := segment{values: values, start: start}
	if len(values) >= 2*least {
		s.shuffled = slices.Clone(values)
		s.search = newSplitSearch(len(values), least)
		s.at, s.best = s.search.split(values)
	}
	return s
}

// splittable tells whether there is room for two segments.
func (s segment) splittable() bool { return s.search != nil }

// splitSearch finds the best split of series of one length, again and again
// without allocating.
type splitSearch struct {
	least int
	// Sums of distances, for the split before τ: between the sides, within the left
	// and within the right, of the values so far.
	between, left, right []float64
}

func newSplitSearch(n, least int) *splitSearch {
	return &splitSearch{least, make([]float64, n), make([]float64, n), make([]float64, n)}
}

// split returns where xs[:τ] and xs[τ:κ] are furthest apart over all τ and κ, and how far: mn/(m+n)
// times the energy distance 2E|X−Y| − E|X−X′| − E|Y−Y′|. It adds one value after another at the right
// side's end. So the statistics of all splits follow from those before: O(n²) steps and O(n) memory.
func (s *splitSearch) split(xs []float64) (at int, best float64) {
	best = math.Inf(-1)
	clear(s.between)
	clear(s.left)
	clear(s.right)
	within := 0.0 // all values before k
	for k, last := range xs {
		s.left[k] = within
		sum := 0.0 // of the distances of the last value to those before it
		for _, x := range xs[:k] {
			sum += math.Abs(x - last)
		}
		within += sum
		before := 0.0 // the part of the sum left of τ
		for tau := 1; tau <= k; tau++ {
			before += math.Abs(xs[tau-1] - last)
			s.between[tau] += before
			s.right[tau] += sum - before
		}
		for tau := s.least; tau <= k+1-s.least; tau++ {
			m, n := float64(tau), float64(k+1-tau)
			distance := 2*s.between[tau]/(m*n) - 2*s.left[tau]/(m*(m-1)) - 2*s.right[tau]/(n*(n-1))
			if q := m * n / (m + n) * distance; q > best {
				at, best = tau, q
			}
		}
	}
	return at, best
}
