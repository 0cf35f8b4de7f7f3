package validity

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
)

// Whatever values would have been longer, by no more than what is said, their quantile is
// no more than the bound; which is open only when all may have been above.
func TestShortenedTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		var by []disturbance.Shortening
		for range rapid.IntRange(0, 5).Draw(t, "kinds") {
			by = append(by, disturbance.Shortening{Requests: float64(rng.IntN(100)), By: 5e-3 * rng.Float64()})
		}
		recorded, truth := hist.New(), hist.New()
		for _, x := range by {
			for range int(x.Requests) {
				v := 1e6 * (1 + rng.ExpFloat64())
				recorded.Record(int64(v))
				truth.Record(int64(v + 1e9*x.By*rng.Float64()))
			}
		}
		for range rapid.IntRange(1, 500).Draw(t, "others") {
			v := int64(1e6 * (1 + rng.ExpFloat64()))
			recorded.Record(v)
			truth.Record(v)
		}
		got := shortenedTo(recorded, q, by)
		if want := recording.Seconds(float64(truth.Quantile(q))); got < want*(1-2e-3) {
			t.Fatalf("%v, want at least %v", got, want)
		}
		if math.IsInf(got, 1) {
			t.Fatal("nothing bounds it")
		}
	})
	h := equalTimes(100, time.Millisecond)
	if got := shortenedTo(h, 0.5, []disturbance.Shortening{{Requests: 60, By: math.Inf(1)}}); !math.IsInf(got, 1) {
		t.Errorf("%v: more than half may have taken any time", got)
	}
	few := equalTimes(20, time.Millisecond)
	few.Record(int64(time.Second))
	if got := shortenedTo(few, 0.01, []disturbance.Shortening{{Requests: 20, By: math.Inf(1)}}); got < 1 {
		t.Errorf("%v: the twenty-first is the lowest, if the others took longer: want 1 s", got)
	}
	if got := shortenedTo(h, 0.5, []disturbance.Shortening{{Requests: 40, By: math.Inf(1)}}); math.Abs(got-1e-3) > 1e-6 {
		t.Errorf("%v, want 1 ms", got)
	}
}

// Whatever requests were delayed, each by no more than its delay, their quantile would
// have been no less than the bound.
func TestLengthenedFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		share := rapid.Float64Range(0, 1).Draw(t, "delayed")
		scale := rapid.Float64Range(1e-5, 1e-2).Draw(t, "seconds")
		recorded, truth := hist.New(), hist.New()
		var delays []float64
		const n = 2000
		for range n {
			v, delay := 1e-3*(1+rng.ExpFloat64()), 0.0
			if rng.Float64() < share {
				delay = scale * rng.ExpFloat64()
				delays = append(delays, delay)
			}
			truth.Record(int64(1e9 * v))
			recorded.Record(int64(1e9 * (v + delay)))
		}
		const noticed = 50e-6
		got := lengthenedFrom(recorded, q, noticed, func(by float64) float64 {
			more := 0
			for _, d := range delays {
				if d > by {
					more++
				}
			}
			return float64(more) / n
		})
		// A rank is rounded to the nearest, and what is not noticed is left in.
		if want := recording.Seconds(float64(truth.Quantile(q))); got > want*(1+4e-3)+noticed {
			t.Fatalf("%v, want at most %v", got, want)
		}
	})
	h := equalTimes(100, time.Millisecond)
	all := func(float64) float64 { return 1 }
	if got := lengthenedFrom(h, 0.99, 50e-6, all); !math.IsInf(got, -1) {
		t.Errorf("%v: all may have been delayed by any time", got)
	}
	late := func(by float64) float64 {
		if by < 100e-6 {
			return 1
		}
		return 0
	}
	if got := lengthenedFrom(h, 0.5, 50e-6, late); !(got > 0.7e-3 && got < 0.8e-3) {
		t.Errorf("%v: all were delayed by at most 100 time.Microsecond", got)
	}
}

func equalTimes(n int64, v time.Duration) *hist.Histogram {
	h := hist.New()
	h.RecordN(int64(v), n)
	return h
}
