package stat

import (
	"math"
	"slices"
	"testing"
)

func TestUnpairedRatioAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		A, B                                             []float64
		Confidence                                       float64
		Estimate, Low, High, T, P, DF, Error, Detectable decimal
	}](t, "unpaired") {
		u, err := UnpairedRatio(c.A, c.B, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", u.Estimate, c.Estimate)
		expect(t, i, "low", u.Interval.Low, c.Low)
		expect(t, i, "high", u.Interval.High, c.High)
		expect(t, i, "t", u.T, c.T)
		expect(t, i, "p", u.P, c.P)
		expect(t, i, "degrees of freedom", u.DF, c.DF)
		expect(t, i, "standard error", u.LogError, c.Error)
		expect(t, i, "detectable", u.Detectable, c.Detectable)
		if u.NA != len(c.A) || u.NB != len(c.B) {
			t.Errorf("case %d: %+v", i, u)
		}
	}
}

func TestUnpairedRatioWithoutSpread(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		p    float64
	}{{[]float64{2, 2}, []float64{2, 2, 2}, 1}, {[]float64{2, 2}, []float64{4, 4, 4}, 0}} {
		u, err := UnpairedRatio(c.a, c.b, 0.95)
		if err != nil || u.P != c.p || u.Interval.Low != u.Interval.High || u.DF != 3 || u.Detectable != 0 {
			t.Errorf("%v and %v: %+v, %v", c.a, c.b, u, err)
		}
	}
}

func TestWoodruffSharesAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		Count, Below  []float64
		Q, Confidence float64
		Low, High     decimal
	}](t, "woodruff") {
		var clusters []Cluster
		for k := range c.Count {
			clusters = append(clusters, Cluster{c.Count[k], c.Below[k]})
		}
		low, high, err := WoodruffShares(clusters, c.Q, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "low", low, c.Low)
		expect(t, i, "high", high, c.High)
	}
}

func TestWoodruffSharesEnds(t *testing.T) {
	// One trial has all that lies beyond: nothing bounds the quantile.
	low, high, err := WoodruffShares([]Cluster{{100, 100}, {100, 100}, {100, 94}}, 0.98, 0.95)
	if err != nil || low >= 0.98 || high <= 1 {
		t.Errorf("%v to %v, %v: want an end above 1", low, high, err)
	}
	low, high, err = WoodruffShares([]Cluster{{100, 0}, {100, 0}, {100, 6}}, 0.02, 0.95)
	if err != nil || low != 0 || high <= 0.02 {
		t.Errorf("%v to %v, %v: want an end at 0", low, high, err)
	}
	// Trials alike in their shares differ in nothing, whatever their size.
	low, high, err = WoodruffShares([]Cluster{{100, 50}, {1000, 500}, {0, 0}}, 0.5, 0.95)
	if err != nil || !agree(low, 0.5) || !agree(high, 0.5) {
		t.Errorf("%v to %v, %v: want a point", low, high, err)
	}
	for _, c := range []struct {
		clusters []Cluster
		says     string
	}{
		{[]Cluster{{10, 5}}, "too few values: 1 trials"},
		{[]Cluster{{0, 0}, {0, 0}}, "no trial has any"},
		{[]Cluster{{10, 5}, {10, 11}}, "trial 1 has 10 values, 11 of them below"},
		{[]Cluster{{10, 5}, {math.NaN(), 1}}, "trial 1"},
		{[]Cluster{{10, -1}, {10, 1}}, "trial 0"},
	} {
		low, _, err := WoodruffShares(c.clusters, 0.5, 0.95)
		expectError(t, err, c.says)
		if !math.IsNaN(low) {
			t.Errorf("%v: low %v together with an error", c.clusters, low)
		}
	}
}

// Eight trials of log-normal times, whose levels differ by so much from trial to
// trial: all together they are log-normal too, and their quantiles known.
func TestWoodruffSharesCover(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const trials, runs, within = 8, 300, 1.0
	z := map[float64]float64{0.5: 0, 0.9: 1.2815515655446004, 0.99: 2.3263478740408408}
	rng := newRNG(29)
	for _, c := range []struct{ q, between float64 }{{0.5, 0.05}, {0.99, 0.05}, {0.9, 0.2}, {0.99, 0.2}} {
		truth := math.Exp(math.Hypot(within, c.between) * z[c.q])
		held := 0
		for range runs {
			var merged []float64
			var samples [trials][]float64
			for i := range samples {
				level := c.between * rng.NormFloat64()
				for range 200 + rng.IntN(200) {
					samples[i] = append(samples[i], math.Exp(level+within*rng.NormFloat64()))
				}
				merged = append(merged, samples[i]...)
			}
			slices.Sort(merged)
			at := func(share float64) float64 {
				return merged[min(len(merged)-1, max(0, int(math.Ceil(share*float64(len(merged))))-1))]
			}
			quantile := at(c.q)
			clusters := make([]Cluster, trials)
			for i, s := range samples {
				clusters[i].Count = float64(len(s))
				for _, x := range s {
					if x <= quantile {
						clusters[i].Below++
					}
				}
			}
			low, high, err := WoodruffShares(clusters, c.q, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if at(low) <= truth && (high >= 1 || truth <= at(high)) {
				held++
			}
		}
		share := float64(held) / runs
		// Three standard errors are 0.039.
		if math.Abs(share-0.945) > 0.039 {
			t.Errorf("p%v, trials differing by %v: held the truth in %v, want about 0.945", 100*c.q, c.between, share)
		}
	}
}
