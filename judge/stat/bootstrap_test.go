package stat

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A pool stands for a histogram: values that can be merged and read.
type pool struct{ values []float64 }

func newPool(values ...float64) *pool { return &pool{values} }

func (p *pool) Merge(o *pool) { p.values = append(p.values, o.values...) }
func (p *pool) Reset()        { p.values = p.values[:0] }

func (p *pool) mean() float64 {
	sum := 0.0
	for _, x := range p.values {
		sum += x
	}
	return sum / float64(len(p.values))
}

var _ Mergeable[*pool] = (*pool)(nil)

func emptyPool() *pool { return &pool{} }

// firstMean is the mean of the only variant.
func firstMean(v []*pool) float64 { return v[0].mean() }

// oneEach makes rounds of one variant with one interval of one value.
func oneEach(values ...float64) (rounds [][][]*pool) {
	for _, x := range values {
		rounds = append(rounds, [][]*pool{{newPool(x)}})
	}
	return rounds
}

// With one interval a round this is the plain bootstrap, whose distribution of
// five values can be listed: 5⁵ draws.
func TestBootstrapAgainstAllDraws(t *testing.T) {
	values := []float64{1, 2, 4, 8, 16}
	var all []float64
	for k := range 3125 {
		sum := 0.0
		for range values {
			sum += values[k%5]
			k /= 5
		}
		all = append(all, sum/5)
	}
	slices.Sort(all)
	got, err := HierarchicalBootstrap(oneEach(values...), emptyPool, firstMean, Resampling{Draws: 100_000, Seed: 1, Confidence: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	want := Interval{interpolate(all, 0.05), interpolate(all, 0.95)}
	// The means are fifths apart, and a draw near the edge may fall either way.
	if math.Abs(got.Interval.Low-want.Low) > 0.21 || math.Abs(got.Interval.High-want.High) > 0.21 {
		t.Errorf("interval %v, want %v", got.Interval, want)
	}
	if got.Estimate != 6.2 {
		t.Errorf("estimate %v, want 6.2", got.Estimate)
	}
	// Σ(x−x̄)²/n² is the bootstrap's variance of a mean.
	if want := math.Sqrt((5.2*5.2 + 4.2*4.2 + 2.2*2.2 + 1.8*1.8 + 9.8*9.8) / 25); math.Abs(got.StdErr/want-1) > 0.02 {
		t.Errorf("standard error %v, want %v", got.StdErr, want)
	}
}

// The variance of a mean of means is that between rounds plus that within them,
// each by the bootstrap's formula.
func TestBootstrapHasBothLevels(t *testing.T) {
	var rounds [][][]*pool
	means, within := []float64{}, 0.0
	rng := newRNG(5)
	for range 6 {
		centre := rng.NormFloat64()
		var intervals []*pool
		var values []float64
		for range 4 {
			x := centre + rng.NormFloat64()
			values = append(values, x)
			intervals = append(intervals, newPool(x))
		}
		rounds = append(rounds, [][]*pool{intervals})
		m, v := momentsOf(values)
		means = append(means, m)
		within += v / 4
	}
	_, between := momentsOf(means)
	want := math.Sqrt(between/6 + within/36)
	got, err := HierarchicalBootstrap(rounds, emptyPool, firstMean, Resampling{Draws: 50_000, Seed: 1, Confidence: 0.95})
	if err != nil || math.Abs(got.StdErr/want-1) > 0.02 {
		t.Errorf("%+v, %v, want standard error %v", got, err, want)
	}
}

// momentsOf returns mean and variance, the latter by n.
func momentsOf(values []float64) (mean, variance float64) {
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		variance += (x - mean) * (x - mean) / float64(len(values))
	}
	return mean, variance
}

// A round keeps its pair: what both variants share cancels.
func TestBootstrapKeepsPairs(t *testing.T) {
	var rounds [][][]*pool
	for _, drift := range []float64{10, 20, 40, 80} {
		rounds = append(rounds, [][]*pool{{newPool(drift)}, {newPool(drift + 3)}})
	}
	difference := func(v []*pool) float64 { return v[1].mean() - v[0].mean() }
	got, err := HierarchicalBootstrap(rounds, emptyPool, difference, Resampling{Draws: 500, Seed: 1, Confidence: 0.95})
	if err != nil || !agree(got.Estimate, 3) || !agree(got.Interval.Low, 3) || !agree(got.Interval.High, 3) {
		t.Errorf("%+v, %v, want 3 throughout", got, err)
	}
}

// The same seed gives the same result, another one another; the intervals are
// left as they were; another unit scales the result.
func TestBootstrapIsRepeatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(rapid.Float64Range(0, 100), 3, 10, rapid.ID[float64]).Draw(t, "values")
		seed := rapid.Uint64().Draw(t, "seed")
		rounds := oneEach(values...)
		r := Resampling{Draws: 200, Seed: seed, Confidence: 0.9}
		one, err := HierarchicalBootstrap(rounds, emptyPool, firstMean, r)
		if err != nil {
			t.Fatal(err)
		}
		if two, err := HierarchicalBootstrap(rounds, emptyPool, firstMean, r); err != nil || two != one {
			t.Errorf("%+v, then %+v, %v", one, two, err)
		}
		for i, x := range values {
			if got := rounds[i][0][0].values; len(got) != 1 || got[0] != x {
				t.Errorf("round %d now holds %v", i, got)
			}
		}
		eight, err := HierarchicalBootstrap(oneEach(scaled(values, 8)...), emptyPool, firstMean, r)
		if err != nil || !agree(eight.Estimate, 8*one.Estimate) || !agree(eight.Interval.High, 8*one.Interval.High) {
			t.Errorf("%+v times eight is %+v, %v", one, eight, err)
		}
	})
	values := oneEach(1, 2, 4, 8, 16, 32)
	one, _ := HierarchicalBootstrap(values, emptyPool, firstMean, Resampling{Draws: 200, Seed: 1, Confidence: 0.9})
	if two, _ := HierarchicalBootstrap(values, emptyPool, firstMean, Resampling{Draws: 200, Seed: 2, Confidence: 0.9}); two.StdErr == one.StdErr {
		t.Errorf("seeds 1 and 2 both give %+v", one)
	}
}

func TestBootstrapUnfit(t *testing.T) {
	good := Resampling{Draws: 100, Confidence: 0.95}
	some := newPool(1)
	for _, c := range []struct {
		rounds [][][]*pool
		r      Resampling
		says   string
	}{
		{nil, good, "0 rounds"},
		{oneEach(1), good, "1 rounds"},
		{[][][]*pool{{}, {}}, good, "round 0 has 0 variants"},
		{[][][]*pool{{{some}}, {{some}, {some}}}, good, "round 1 has 2 variants, round 0 1"},
		{[][][]*pool{{{some}}, {{}}}, good, "round 1, variant 0 has no intervals"},
		{oneEach(1, 2), Resampling{Draws: 99, Confidence: 0.95}, "draws 99"},
		{oneEach(1, 2), Resampling{Draws: 1e6, Confidence: 2}, "confidence 2: want more than 0 and less than 1, such as 0.95\ndraws 1000000"},
		{oneEach(1, math.NaN()), good, "statistic is NaN"},
	} {
		_, err := HierarchicalBootstrap(c.rounds, emptyPool, firstMean, c.r)
		expectError(t, err, c.says)
	}
	if _, err := HierarchicalBootstrap(oneEach(1), emptyPool, firstMean, good); !errors.Is(err, ErrTooFew) {
		t.Errorf("one round: %v", err)
	}
	// Only draws without the second round cannot be read.
	_, err := HierarchicalBootstrap([][][]*pool{{{emptyPool()}}, {{some}}}, emptyPool, firstMean, good)
	expectError(t, err, "draw ")
}

// With eight rounds the percentiles cover what the documentation says.
func TestBootstrapCovers(t *testing.T) {
	const runs, n, seconds = 400, 8, 3
	rng := newRNG(23)
	covered := 0
	for run := range runs {
		var rounds [][][]*pool
		for range n {
			centre := rng.NormFloat64()
			var intervals []*pool
			for range seconds {
				intervals = append(intervals, newPool(centre+0.5*rng.NormFloat64()))
			}
			rounds = append(rounds, [][]*pool{intervals})
		}
		got, err := HierarchicalBootstrap(rounds, emptyPool, firstMean, Resampling{Draws: 400, Seed: uint64(run), Confidence: 0.95})
		if err != nil {
			t.Fatal(err)
		}
		if got.Interval.Contains(0) {
			covered++
		}
	}
	if share := float64(covered) / runs; share < 0.86 || share > 0.96 {
		t.Errorf("coverage %v, and the documentation says about 0.90", share)
	}
}
