package pace

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestThinkTimes(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		think        Think
		min, max     time.Duration
		mean, spread float64 // in ms; spread is the standard deviation
	}{
		{Think{}, 0, 0, 0, 0},
		{Think{Constant: 3 * ms}, 3 * ms, 3 * ms, 3, 0},
		{Think{Uniform: &Span{2 * ms, 8 * ms}}, 2 * ms, 8 * ms, 5, 6 / math.Sqrt(12)},
		{Think{Uniform: &Span{2 * ms, 2 * ms}}, 2 * ms, 2 * ms, 2, 0},
		{Think{Exponential: 5 * ms}, 0, 200 * ms, 5, 5},
		{Think{Exponential: MaxThink}, 0, 40 * MaxThink, 86400e3, 86400e3},
	} {
		if err := tt.think.Validate(); err != nil {
			t.Errorf("%+v: %v", tt.think, err)
		}
		const n = 100_000
		var sum, squares float64
		rng := NewRNG(1, 2)
		for range n {
			d := tt.think.Draw(&rng)
			if d < tt.min || d > tt.max {
				t.Fatalf("%+v: %v, want %v to %v", tt.think, d, tt.min, tt.max)
			}
			x := float64(d) / 1e6
			sum += x
			squares += (x - tt.mean) * (x - tt.mean)
		}
		if got := sum / n; math.Abs(got-tt.mean) > 0.01*tt.mean {
			t.Errorf("%+v: mean %v, want %v", tt.think, got, tt.mean)
		}
		if got := math.Sqrt(squares / n); math.Abs(got-tt.spread) > 0.02*tt.spread {
			t.Errorf("%+v: standard deviation %v, want %v", tt.think, got, tt.spread)
		}
	}
}

func TestUniformThinkReachesBothEnds(t *testing.T) {
	think, rng := Think{Uniform: &Span{1, 3}}, NewRNG(1, 1)
	var seen [4]int
	for range 300 {
		seen[think.Draw(&rng)]++
	}
	for d := 1; d <= 3; d++ {
		if seen[d] < 50 {
			t.Errorf("%d of 300 think times are %d ns, want about 100", seen[d], d)
		}
	}
}

func TestThinkValidate(t *testing.T) {
	for _, tt := range []struct {
		think Think
		want  []string
	}{
		{Think{Constant: -1}, []string{"constant: -1ns, want 0 to 24h0m0s"}},
		{Think{Constant: 1, Uniform: &Span{5, 4}}, []string{"more than one distribution", "uniform.to: 4ns is less than from, 5ns"}},
		{Think{Uniform: &Span{1, 25 * time.Hour}}, []string{"uniform.to: 25h0m0s, want 0 to 24h0m0s"}},
		{Think{Exponential: 1, Constant: 1}, []string{"more than one distribution"}},
	} {
		err := tt.think.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %v, want %q", tt.think, err, want)
			}
		}
	}
}
