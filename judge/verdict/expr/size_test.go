package expr

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"dyno/results/rundir"
)

// held decides a claim of a size: a ratio, a change, a difference or a value, by what is measured.
func held(published, measured string, v Quantity) rundir.Claim {
	return DecideClaim(rundir.PlanClaim{Published: published, Measured: measured}, Names{Variants: []string{"a", "b"}}, facts{
		"b/a throughput": v, "b response.p99": v, "a response.p99": exactly(0), "b program.hits": v, "a program.hits": exactly(1),
	})
}

const (
	aRatio      = "ratio(b, a, throughput)"
	aChange     = "change(b, a, throughput)"
	aDifference = "value(b, response.p99) - value(a, response.p99)"
	aTime       = "value(b, response.p99)"
	aGain       = "value(b, program.hits) - 1"
	aShare      = "value(b, program.hits) / value(a, program.hits)"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		published, measured string
		of                  Quantity
		outcome             string
	}{
		{"1.5", aRatio, between(1.4, 1.5, 1.6), rundir.Agrees},
		{"1.5", aRatio, between(1.1, 1.45, 1.9), rundir.Agrees},
		{"1.5", aRatio, between(1.55, 1.58, 1.6), rundir.Agrees},     // near, although the interval excludes it
		{"1.5", aRatio, between(0.98, 1.45, 1.9), rundir.NotSettled}, // near, and no effect is possible
		{"1.5", aRatio, between(1.2, 1.3, 1.4), rundir.Smaller},      // three fifths of the gain
		{"1.5", aRatio, between(1.2, 1.35, 1.52), rundir.NotSettled}, // smaller, and as published is possible
		{"1.5", aRatio, between(1.7, 18, 20), rundir.Larger},         //
		{"1.5", aRatio, between(0.7, 0.8, 0.9), rundir.Refuted},      // the wrong sign
		{"1.5", aRatio, between(0.9, 1.1, 1.3), rundir.Refuted},      // the sign may hold, the size does not
		{"1.5", aRatio, between(0.9, 1.1, 1.41), rundir.NotSettled},  //
		{"1.07", aRatio, between(1.5, 1.8, 2.2), rundir.Larger},      // not within a fifth: 7 % is not 80 %
		{"1.07", aRatio, between(1.2, 1.25, 1.3), rundir.Larger},     //
		{"0.31", aRatio, between(0.0006, 0.0007, 0.0008), rundir.Larger},
		{"0.5", aRatio, between(0.45, 0.5, 0.55), rundir.Agrees},
		{"0.5", aRatio, between(0.7, 0.75, 0.8), rundir.Smaller},
		{"0.5", aRatio, between(1.1, 1.2, 1.3), rundir.Refuted},
		{"0.5", aRatio, between(-0.1, 0.1, 0.3), rundir.Larger}, // an interval below 0 is one to 0
		{"-42%", aChange, between(0.56, 0.58, 0.6), rundir.Agrees},
		{"-42%", aChange, between(0.7, 0.72, 0.74), rundir.Smaller},
		{"-42%", aChange, between(0.18, 0.2, 0.22), rundir.Larger},
		{"-42%", aChange, between(0.95, 1, 1.05), rundir.Refuted},
		{"+20%", aChange, between(1.18, 1.2, 1.22), rundir.Agrees},
		{"117ns", aDifference, between(-6.88e-6, 5.5e-6, 19.4e-6), rundir.NotSettled},
		{"117ns", aDifference, between(100e-9, 120e-9, 140e-9), rundir.Agrees},
		{"117ns", aDifference, between(-2e-6, -1e-6, -1e-9), rundir.Refuted},
		{"8.2ms", aTime, between(0.008, 0.0085, 0.009), rundir.Agrees},
		{"8.2ms", aTime, between(0.0091, 0.0092, 0.0093), rundir.Agrees},
		{"8.2ms", aTime, between(0.003, 0.0085, 0.03), rundir.NotSettled}, // near, and unknown
		{"8.2ms", aTime, between(0.010, 0.012, 0.014), rundir.Larger},
		{"8.2ms", aTime, between(0.001, 0.002, 0.003), rundir.Smaller}, // a value is never refuted
		{"8.2ms", aTime, between(0.005, 0.006, 0.0083), rundir.NotSettled},
		{"99.7%", aShare, between(0.98, 0.99, 1), rundir.Agrees},
		{"23%", aGain, between(1.2, 1.22, 1.24), rundir.Agrees},
		{"23%", aGain, between(1.01, 1.02, 1.03), rundir.Smaller},
		{"23%", aGain, between(0.8, 0.9, 0.98), rundir.Refuted},
		{"23%", aGain, between(0.9, 1, 1.1), rundir.Refuted},
	} {
		if got := held(c.published, c.measured, c.of); got.Outcome != c.outcome {
			t.Errorf("%s by %s: %v: %s (%s), want %s", c.published, c.measured, c.of, got.Outcome, got.Detail.English(), c.outcome)
		}
	}
}

// The detail says why in the published unit.
func TestSizesSayWhy(t *testing.T) {
	for _, c := range []struct {
		published, measured string
		of                  Quantity
		want                string
	}{
		{"1.5", aRatio, between(0.9, 1.1, 1.3), "0.9 to 1.3 contains no effect and excludes the published 1.5: the sign may hold"},
		{"-42%", aChange, between(0.5, 0.9, 1.1), "-50% to 10% excludes neither no effect nor four fifths of the published -42%"},
		{"1.5", aRatio, between(1.1, 1.3, 1.6), "the sign is shown, the size is not settled: 1.1 to 1.6 contains the published 1.5"},
		{"8.2ms", aTime, between(0.001, 0.0085, 0.03), "1ms to 30ms is too wide for the published 8.2ms"},
	} {
		if got := held(c.published, c.measured, c.of).Detail.English(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A figure from which one is subtracted has a sign, and so has a multiple of it: without an effect it is 0.
func TestSigns(t *testing.T) {
	const hits, p99 = "value(b, program.hits)", "value(b, response.p99)"
	for measured, published := range map[string]string{
		hits + " - 2": "3", "2 - " + hits: "-3", "1 - " + hits: "-3", hits + " / 4 - 1": "3", p99 + " - 2ms": "3ms",
		"-(2 - " + hits + ")": "3", "5 * (" + hits + " - 2)": "3", "(" + hits + " - 2) * 5": "3", "(" + p99 + " - 2ms) / 40ms": "3",
		"(" + hits + " - value(a, program.hits)) / value(a, program.hits)": "3", "100 * change(b, a, throughput)": "3",
		"(" + hits + " - 2) + change(b, a, throughput)": "3", "-change(b, a, throughput)": "-3",
		hits: "", hits + " + 1": "", "2 * " + hits: "", "1 / " + hits: "", "abs(" + hits + " - 2)": "",
	} {
		c := rundir.PlanClaim{Published: cmp.Or(published, "3"), Measured: measured}
		e, err := compileClaim(c, Names{Variants: []string{"a", "b"}})
		if err != nil {
			t.Errorf("%s: %v", measured, err)
			continue
		}
		if signed := e.effect.form != formValue; signed != (published != "") {
			t.Errorf("%s: signed %t, want %t", measured, signed, published != "")
		}
	}
}

func TestPublishedFaults(t *testing.T) {
	for _, c := range []struct{ published, measured, want string }{
		{"80", aTime, "column 1: what was published is a plain number, and what is measured is a time"},
		{"80ms", aRatio, "column 1: what was published is a time, and what is measured is a plain number"},
		{"1", aRatio, "column 1: 1 is no effect; write a bound with holds"},
		{"0%", aChange, "column 1: 0% is no effect; write a bound with holds"},
		{"2 * 3", aRatio, "column 1: operator \"*\" is not what was published; want a number with its unit, such as 2.3, -42% or 80ms"},
		{"3 furlongs", aRatio, "column 3: unexpected \"furlongs\""},
	} {
		err := Checks.CheckPublished(c.published, c.measured, []string{"a", "b"}, nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s of %s: %v, want %s", c.published, c.measured, err, c.want)
		}
	}
	for _, text := range []string{"2.3", "throughput > 1/s", "1, 2"} {
		if err := Checks.CheckMeasured(text, []string{"a"}, nil); err == nil {
			t.Errorf("%s is taken for a measured figure", text)
		}
	}
}

// It does not matter which variant is the base, nor whether a size is written as a ratio or as a change.
func TestSizesDoNotDependOnHowTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.Float64Range(1.01, 100)
		published := factor.Draw(t, "published")
		v := rapid.Float64Range(0.05, 20).Draw(t, "measured")
		wide := rapid.Float64Range(1.001, 3).Draw(t, "width")
		of, back := between(v/wide, v, v*wide), between(1/(v*wide), 1/v, wide/v)
		text := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
		ratio := held(text(published), aRatio, of).Outcome
		if got := held(text(1/published), aRatio, back).Outcome; got != ratio && !isEdge(published, of) {
			t.Errorf("%s, and from the other side %s", ratio, got)
		}
		if got := held(text(100*(published-1))+"%", aChange, of).Outcome; got != ratio && !isEdge(published, of) {
			t.Errorf("%s, and as a change %s", ratio, got)
		}
	})
}

// isEdge tells whether a figure is so near to a limit that rounding decides.
func isEdge(published float64, v Quantity) bool {
	x := effect{published: published, form: formRatio}.relative(v)
	for _, at := range []float64{x.Low, x.Estimate, x.High} {
		for _, limit := range []float64{0, 0.8, 1, 1.2} {
			if math.Abs(at-limit) < 1e-9 {
				return true
			}
		}
	}
	return false
}

// How often outcomes are wrong, of ratios of eight rounds with normal noise in their logarithms. A claim is refuted
// although it is true, or called larger or smaller although it is as published, in at most one run of twenty. It
// agrees although there is no effect in at most one of forty: the interval has two sides.
func TestSizesAreSeldomWrong(t *testing.T) {
	const (
		runs, rounds = 2000, 8
		student      = 2.365 // the quantile of a 95 % interval with 7 degrees of freedom
	)
	random := rand.New(rand.NewPCG(1, 2))
	shares := func(truth, published, noise float64) map[string]float64 {
		counts := map[string]float64{}
		for range runs {
			logs := make([]float64, rounds)
			for i := range logs {
				logs[i] = math.Log(truth) + noise*random.NormFloat64()
			}
			mean, squares := 0., 0.
			for _, x := range logs {
				mean += x / rounds
			}
			for _, x := range logs {
				squares += (x - mean) * (x - mean)
			}
			half := student * math.Sqrt(squares/(rounds-1)/rounds)
			counts[held(strconv.FormatFloat(published, 'f', -1, 64), aRatio, between(math.Exp(mean-half), math.Exp(mean), math.Exp(mean+half))).Outcome] += 1. / runs
		}
		return counts
	}
	for _, noise := range []float64{0.02, 0.1, 0.3} {
		for _, published := range []float64{0.3, 1.1, 1.5, 4} {
			as, none := shares(published, published, noise), shares(1, published, noise)
			wrong := shares(1/published, published, noise)
			if as[rundir.Refuted] > 0.05 || as[rundir.Larger]+as[rundir.Smaller] > 0.06 {
				t.Errorf("as published, %v with noise %v: %v", published, noise, as)
			}
			if none[rundir.Agrees]+none[rundir.Larger]+none[rundir.Smaller] > 0.035 {
				t.Errorf("no effect, %v with noise %v: %v", published, noise, none)
			}
			if wrong[rundir.Agrees]+wrong[rundir.Larger]+wrong[rundir.Smaller] > 0.035 {
				t.Errorf("the other sign, %v with noise %v: %v", published, noise, wrong)
			}
		}
	}
}
