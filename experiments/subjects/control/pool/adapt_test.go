package pool

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestThreshold: one reading has the formula of the report, the other its example.
func TestThreshold(t *testing.T) {
	all := AsWritten()
	all.Start = 0
	for _, c := range []struct {
		policy Adaptive
		rate   float64
		want   time.Duration
	}{
		{AsExample(), 0, 3 * time.Second}, {AsExample(), 500, 3 * time.Second}, {AsExample(), 501, 1500 * time.Millisecond},
		{AsExample(), 800, 1500 * time.Millisecond}, {AsExample(), 1599, 1500 * time.Millisecond}, {AsExample(), 1600, 750 * time.Millisecond},
		{AsExample(), 1e300, 750 * time.Millisecond}, {AsExample(), math.Inf(1), 750 * time.Millisecond}, {AsExample(), math.NaN(), 3 * time.Second},
		{AsWritten(), 0, 3 * time.Second}, {AsWritten(), 500, 3 * time.Second}, {AsWritten(), 501, 750 * time.Millisecond}, {AsWritten(), 800, 750 * time.Millisecond},
		{all, 0, 3 * time.Second}, {all, 50, 3 * time.Second}, {all, 100, 3 * time.Second}, {all, 199, 3 * time.Second},
		{all, 200, 1500 * time.Millisecond}, {all, 399, 1500 * time.Millisecond}, {all, 400, 750 * time.Millisecond}, {all, 800, 750 * time.Millisecond},
	} {
		if got := c.policy.Threshold(c.rate); got != c.want {
			t.Errorf("factor %v, from %v: %v a second: %v, want %v", c.policy.Factor, c.policy.Start, c.rate, got, c.want)
		}
	}
}

// anyAdaptive draws a policy that is valid.
func anyAdaptive(t *rapid.T) Adaptive {
	size := rapid.IntRange(1, 100).Draw(t, "size")
	a := Adaptive{
		Size: size, MaxSize: rapid.IntRange(size, 400).Draw(t, "max size"),
		Base:  time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "base")),
		Least: rapid.Float64Range(0.01, 1).Draw(t, "least"), Start: rapid.Float64Range(0, 1000).Draw(t, "start"),
		Step: rapid.Float64Range(1, 1000).Draw(t, "step"), Factor: rapid.Float64Range(1.01, 10).Draw(t, "factor"), Window: time.Second, Fall: rapid.Float64Range(0.001, 1).Draw(t, "fall"),
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestThresholdFallsWithTheRate, within its bounds.
func TestThresholdFallsWithTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAdaptive(t)
		low := rapid.Float64Range(0, 1e6).Draw(t, "low")
		high := low + rapid.Float64Range(0, 1e6).Draw(t, "more")
		x, y := a.Threshold(low), a.Threshold(high)
		if x < y || x > a.Base || float64(y) < a.Least*float64(a.Base)-1 {
			t.Fatalf("%v at %v, %v at %v", x, low, y, high)
		}
	})
}

// TestSize: within its bounds whatever happens, and no larger while nobody waits.
func TestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAdaptive(t)
		now, r := a.start()
		for range rapid.IntRange(1, 50).Draw(t, "looks") {
			before := now.size
			if rapid.Bool().Draw(t, "evicted") {
				if now = r.evicted(); now.size > before {
					t.Fatalf("%d of %d after an eviction", now.size, before)
				}
				continue
			}
			w := window{length: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "length")), requests: rapid.IntRange(0, 1000).Draw(t, "requests")}
			w.hits = rapid.IntRange(0, w.requests).Draw(t, "hits")
			w.waited = rapid.IntRange(0, w.requests-w.hits).Draw(t, "waited")
			now = r.next(w)
			if now.size < a.Size || now.size > a.MaxSize || now.size > before && w.waited == 0 || now.size < before {
				t.Fatalf("%d after %d, for %+v", now.size, before, w)
			}
		}
	})
}

// TestFall: the pool grows if the share of hits falls faster than allowed. It does not grow for a slower fall,
// nor by chance.
func TestFall(t *testing.T) {
	const requests = 1_000_000 // in a window: chance is small
	for name, c := range map[string]struct {
		shares []float64
		want   []int // sizes
	}{
		"steady":         {[]float64{1, 1, 1}, []int{16, 16, 16}},
		"until it rises": {[]float64{0.99, 0.98, 0.9999}, []int{20, 25, 25}},
		"4 % a minute":   {[]float64{1, 0.9994, 0.9988, 0.9982}, []int{16, 16, 16, 16}},
		"12 % a minute":  {[]float64{1, 0.998, 0.996, 0.994}, []int{16, 20, 25, 31}},
		"low from start": {[]float64{0.5, 0.5}, []int{20, 25}},
		"and back":       {[]float64{0.9, 1, 0.9995}, []int{20, 20, 20}},
		"to the most":    {[]float64{0, 0, 0, 0, 0, 0, 0, 0}, []int{20, 25, 31, 38, 47, 58, 64, 64}},
	} {
		_, r := AsWritten().start()
		for i, share := range c.shares {
			hits := int(share * requests)
			if got := r.next(window{time.Second, requests, hits, requests - hits}).size; got != c.want[i] {
				t.Errorf("%s: %d after look %d, want %d", name, got, i, c.want[i])
			}
		}
	}
	// Two misses of a hundred are no more than chance where one is expected.
	_, r := AsWritten().start()
	r.next(window{time.Second, 10_000, 9_900, 100})
	r = &adapting{policy: AsWritten(), size: 16, line: 0.99}
	if got := r.next(window{time.Second, 100, 98, 2}).size; got != 16 {
		t.Errorf("%d after two misses of a hundred", got)
	}
}

func TestPolicyFaults(t *testing.T) {
	for _, p := range []Policy{Fixed{Size: 16, Idle: time.Second}, AsWritten()} {
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for field, err := range map[string]error{
		"size: 0: ":       Fixed{Idle: 1}.Validate(),
		"idle: 0s: ":      Fixed{Size: 1}.Validate(),
		"max size: 0: ":   Adaptive{Size: 1}.Validate(),
		"base: 0s: ":      Adaptive{}.Validate(),
		"least: 0: ":      Adaptive{}.Validate(),
		"start: NaN: ":    Adaptive{Start: math.NaN()}.Validate(),
		"step: 0: ":       Adaptive{}.Validate(),
		"factor: 0: ":     Adaptive{}.Validate(),
		"window: 0s: ":    Adaptive{}.Validate(),
		"fall: 2: ":       Adaptive{Fall: 2}.Validate(),
		"size: 10001: mu": Fixed{Size: 10_001, Idle: 1}.Validate(),
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: want %q", err, field)
		}
	}
}
