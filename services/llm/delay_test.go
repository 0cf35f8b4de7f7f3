package llm

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestParseDelay(t *testing.T) {
	for text, want := range map[string]Delay{
		"0":                   {},
		"20ms":                {Constant, 20 * ms, 0},
		"exponential(20ms)":   {Exponential, 20 * ms, 0},
		"uniform(10ms, 30ms)": {Uniform, 10 * ms, 30 * ms},
		"normal(20ms,5ms)":    {Normal, 20 * ms, 5 * ms},
		"lognormal(20ms,1s)":  {LogNormal, 20 * ms, time.Second},
	} {
		got, err := ParseDelay(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseDelay(got.String()); err != nil || again != got {
			t.Errorf("%q became %q, which is %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                     "want a duration",
		"20":                   "want a duration",
		"-1s":                  "must be from 0",
		"11m":                  "must be from 0",
		"20ms,30ms":            "wants 1",
		"(20ms)":               "nothing before the bracket",
		"normal(20ms":          "not closed",
		"normal(20ms)":         "wants 2",
		"exponential(1s,2s)":   "wants 1",
		"pareto(1s,2s)":        "must be exponential",
		"uniform(30ms,10ms)":   "ends before it begins",
		"lognormal(0s,10ms)":   "median",
		"lognormal(20ms,10ms)": "median",
	} {
		if d, err := ParseDelay(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v: want %q", text, d, err, want)
		}
	}
}

// TestDraw holds 20,000 draws to what the distribution's parameters say. The bounds are
// over four standard errors, and the seed is fixed.
func TestDraw(t *testing.T) {
	const n = 20000
	for text, want := range map[string]struct{ mean, median, p84 time.Duration }{
		"20ms":                 {20 * ms, 20 * ms, 20 * ms},
		"exponential(20ms)":    {20 * ms, 13863 * time.Microsecond, 36652 * time.Microsecond},
		"uniform(10ms,30ms)":   {20 * ms, 20 * ms, 26827 * time.Microsecond},
		"normal(100ms,10ms)":   {100 * ms, 100 * ms, 110 * ms},
		"lognormal(20ms,40ms)": {25430 * time.Microsecond, 20 * ms, 40 * ms},
	} {
		d, err := ParseDelay(text)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		drawn := make([]time.Duration, n)
		sum := time.Duration(0)
		for i := range drawn {
			drawn[i] = d.Draw(r)
			sum += drawn[i]
		}
		slices.Sort(drawn)
		for _, c := range []struct {
			name      string
			got, want time.Duration
		}{{"mean", sum / n, want.mean}, {"median", drawn[n/2], want.median}, {"p84", drawn[n*8413/10000], want.p84}} {
			if math.Abs(float64(c.got-c.want)) > 0.04*float64(c.want) {
				t.Errorf("%s: %s %v, want %v", text, c.name, c.got, c.want)
			}
		}
	}
}

// TestDrawIsBounded: no distribution gives a delay below 0 or above the bound.
func TestDrawIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []Delay{{Normal, 0, time.Second}, {Exponential, maxDelay, 0}, {LogNormal, 1, maxDelay}} {
		for range 1000 {
			if v := d.Draw(r); v < 0 || v > maxDelay {
				t.Fatalf("%v: drew %v", d, v)
			}
		}
	}
}
