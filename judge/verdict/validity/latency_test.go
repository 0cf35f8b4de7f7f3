package validity

import (
	"math"
	"testing"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
)

// The ends of a latency of 100 values: 90 of 1 ms in clean stretches, and 10 of 9 ms, of which 8
// are in disturbed ones.
func TestEndsOfALatency(t *testing.T) {
	const ms = time.Millisecond
	of := func(fast, slow int64) *hist.Histogram {
		h := hist.New()
		h.RecordN(int64(ms), fast)
		h.RecordN(int64(9*ms), slow)
		return h
	}
	disturbed := func(change func(*latency)) *latency {
		// By count alone, any value may have been delayed.
		limited := &dataset.Stats{Disturbance: &disturbance.Disturbance{Whole: []string{checks.FlagGeneratorLimit}}, Histograms: recording.Times{"": of(90, 10)}}
		l := &latency{all: of(90, 10), clean: of(90, 2), trials: []*dataset.Stats{limited}, of: 100, inDisturbed: 8, delayed: 8, noticeable: 50e-6}
		change(l)
		return l
	}
	asRecorded := func(*latency) {}
	seconds := recording.Seconds(float64(of(0, 1).Max()))
	for name, c := range map[string]struct {
		change         func(*latency)
		get            func(*latency) float64
		recorded, want float64
	}{
		"the median needs no disturbed value":         {asRecorded, func(l *latency) float64 { return l.leastQuantile(0.5) }, 0.001, 0.001},
		"the p95 may be one of them":                  {asRecorded, func(l *latency) float64 { return l.leastQuantile(0.95) }, 0.009, 0.001},
		"the p95 of a step may be one":                {func(l *latency) { l.step = "login" }, func(l *latency) float64 { return l.leastQuantile(0.95) }, 0.009, 0.001},
		"the p05 may have had no time at all":         {asRecorded, func(l *latency) float64 { return l.leastQuantile(0.05) }, 0.001, 0},
		"the p99 is no longer than recorded":          {asRecorded, func(l *latency) float64 { return l.mostQuantile(0.99) }, 0.009, 0.009},
		"nor is it, with a late generator, below":     {func(l *latency) { l.shortened = []disturbance.Shortening{{Requests: 1, By: 1}} }, func(l *latency) float64 { return l.mostQuantile(0.5) }, 0.001, 0.001},
		"half of all shortened moves the median":      {func(l *latency) { l.shortened = []disturbance.Shortening{{Requests: 45, By: 1}} }, func(l *latency) float64 { return l.mostQuantile(0.5) }, 0.001, 0.009},
		"the maximum is at least that of clean ones":  {asRecorded, (*latency).leastMaximum, 0.009, 0.009},
		"or that of values that no delay can explain": {func(l *latency) { l.clean, l.delayed = nil, 50 }, (*latency).leastMaximum, 0.009, 0.001},
		"if all were delayed it may be anything":      {func(l *latency) { l.clean, l.delayed = nil, 100 }, (*latency).leastMaximum, 0.009, 0},
		"the mean without those that were disturbed":  {asRecorded, (*latency).leastMean, 0.0018, 0.92 * (90*0.001 + 2*0.009) / 92},
		"the mean of a step, where any may be one":    {func(l *latency) { l.step = "login" }, (*latency).leastMean, 0.0018, 0.0018 - 0.08*0.009},
		"the mean without a clean value":              {func(l *latency) { l.clean = nil }, (*latency).leastMean, 0.0018, 0},
		"the mean is no larger than recorded":         {asRecorded, (*latency).mostMean, 0.0018, 0.0018},
		"shortened values add to it":                  {func(l *latency) { l.shortened = []disturbance.Shortening{{Requests: 10, By: 0.1}, {}} }, (*latency).mostMean, 0.0018, 0.0118},
	} {
		l := disturbed(c.change)
		l.estimate = min(c.recorded, seconds)
		if got := c.get(l); math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
