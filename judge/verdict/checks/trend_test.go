package checks

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// soak is a closed trial with a window of 60 s after 2 s. It has a reading of each column
// every quarter of a second, before and after the window too.
func soak(columns map[string]func(seconds float64) float64) recording.Recording {
	s := soundClosed()
	s.Trial.WindowSeconds = 60
	s.Series = &series.Series{Columns: []string{series.TimeColumn}, Values: [][]float64{nil}}
	for at := 0.; at <= 64; at += 0.25 {
		s.Series.Values[0] = append(s.Series.Values[0], at)
	}
	for name, of := range columns {
		var values []float64
		for _, at := range s.Series.Values[0] {
			values = append(values, of(at))
		}
		s.Series.Columns = append(s.Series.Columns, name)
		s.Series.Values = append(s.Series.Values, values)
	}
	return s
}

func TestTrends(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ts := Trends(soak(map[string]func(float64) float64{
		// Before and after the window it is otherwise: that does not count.
		"target_rss_bytes": func(at float64) float64 {
			if at < 1.9 || at > 62.1 {
				return 1e9
			}
			return 1e6*(1+0.01*(at-2)) + 1e3*r.NormFloat64() // 1 % of the level at the begin a second
		},
		"target_threads":     func(float64) float64 { return 12 },
		"target_descriptors": func(at float64) float64 { return math.Floor(at) - 100 },
		"target_goroutines": func(at float64) float64 {
			if at > 10 && at < 12 {
				return 40
			}
			return math.NaN()
		},
		"target_cpu_seconds": func(at float64) float64 { return at },
	}))
	if len(ts) != 4 {
		t.Fatalf("%d trends: %+v", len(ts), ts)
	}
	for i, gauge := range []string{"rss", "threads", "descriptors", "goroutines"} {
		if ts[i].Metric != gauge || ts[i].Variant != "v" || ts[i].Trial != 1 {
			t.Errorf("trend %d is %+v, want %s", i, ts[i], gauge)
		}
	}
	rss, threads := ts[0], ts[1]
	if e := rss.Slope; rss.Values != 241 || e.Interval != rundir.ByTheilSen || e.Confidence != 0.95 || math.Abs(*e.Estimate-0.01) > 1e-4 ||
		!(*e.Low < *e.Estimate && *e.Estimate < *e.High) || *e.High-*e.Low > 1e-3 || *rss.P > 1e-6 || math.Abs(*rss.Growth-60**e.Estimate) > 1e-12 {
		t.Errorf("rss %+v: slope %v (%v to %v), p %v, growth %v", rss, *e.Estimate, *e.Low, *e.High, *rss.P, *rss.Growth)
	}
	if e := threads.Slope; *e.Estimate != 0 || *e.Low != 0 || *e.High != 0 || *threads.P != 1 || *threads.Growth != 0 || threads.Detail.English() != "it never changed" {
		t.Errorf("threads %+v", threads)
	}
	for i, why := range map[int]string{2: "its level was -98", 3: "7 readings in the window: want at least 10"} {
		if e := ts[i].Slope; e.Estimate != nil || e.Low != nil || e.High != nil || e.Interval != rundir.NoInterval || ts[i].P != nil || ts[i].Growth != nil || !strings.Contains(ts[i].Detail.English(), why) {
			t.Errorf("trend %+v, want none: %s", ts[i], why)
		}
	}
	if ts := Trends(soundClosed()); ts != nil {
		t.Errorf("trends of nothing: %+v", ts)
	}
}

// A series too long for all its pairs has the slope of its parts' means.
func TestLongTrend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	at, values := make([]float64, 10*trendPoints+7), make([]float64, 10*trendPoints+7)
	for i := range at {
		at[i] = 5 + float64(i)
		values[i] = 1000 * (1 + 1e-5*float64(i) + 0.001*r.NormFloat64())
	}
	g, err := measureGrowth(at, values, 5)
	if err != nil || math.Abs(*g.slope.Estimate-1e-5) > 1e-7 || *g.slope.Low > 1e-5 || *g.slope.High < 1e-5 || g.p > 1e-6 {
		t.Errorf("slope %v (%v to %v), p %v, %v; want 1e-5", *g.slope.Estimate, *g.slope.Low, *g.slope.High, g.p, err)
	}
}

// A gauge that does not grow seldom seems to: it may be random counts, remember, be
// collected now and then, or walk. A gauge that grows is found.
func TestTrendsBySimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const trials = 150
	r := rand.New(rand.NewPCG(5, 6))
	found := func(n int, next func(i int) float64) float64 {
		positive := 0.0
		for range trials {
			at, values := make([]float64, n), make([]float64, n)
			for i := range at {
				at[i], values[i] = float64(i)/4, next(i)
			}
			g, err := measureGrowth(at, values, 0)
			if err != nil {
				t.Fatal(err)
			}
			excludes := g.slope.Low != nil && *g.slope.Low > 0 || g.slope.High != nil && *g.slope.High < 0
			if g.p < 0.05 != excludes && math.Abs(g.p-0.05) > 0.01 {
				t.Errorf("p %v, but the slope's interval excludes 0: %v", g.p, excludes)
			}
			if g.p < 0.05 {
				positive += 1. / trials
			}
		}
		return positive
	}
	memory := func(share float64) func(int) float64 {
		v := 0.0
		return func(i int) float64 {
			if i == 0 {
				v = 0
			}
			v = share*v + 10*r.NormFloat64()
			return 10000 + v
		}
	}
	heap := 0.0
	collected := func(grows float64) func(int) float64 {
		return func(i int) float64 {
			if heap += 70 + 10*r.Float64(); heap > 1000 {
				heap = 0
			}
			return 10000 + heap + grows*float64(i)
		}
	}
	// At 5 %, 150 trials have 1 to 17 positive ones, but for one in a thousand.
	for name, next := range map[string]func(int) float64{
		"Poisson counts": func(int) float64 { return math.Round(10000 + 100*r.NormFloat64()) },
		"half memory":    memory(0.5),
		"long memory":    memory(0.9),
		"random walk":    memory(1),
		"collected heap": collected(0),
	} {
		if share := found(80, next); share > 0.117 {
			t.Errorf("%s: %.3f of windows seem to grow", name, share)
		}
	}
	if share := found(80, func(int) float64 { return math.Round(10000 + 100*r.NormFloat64()) }); share < 0.006 {
		t.Errorf("Poisson counts: %.3f of windows seem to grow: the test cannot find anything", share)
	}
	if share := found(80, collected(12)); share < 0.9 { // by 10 % in the window
		t.Errorf("a leak under a collected heap: found in %.3f of windows", share)
	}
}
