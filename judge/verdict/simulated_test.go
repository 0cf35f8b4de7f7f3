package verdict

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/judge/verdict/validity"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// A simulated closed loop, whose true rate, times and CPU time are known, meets noise of known size. What the noise cost is
// anything between nothing and all that it could. The figures are judged as the formulas of docs/development/method.md say,
// and what is said of them holds the truth.
func TestSimulatedRunsAreJudgedByTheFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Float64Range(0, 1)
		foreign, waited := rapid.SampledFrom([]float64{0, 0.08, 0.2, 0.3}).Draw(t, "f"), part.Draw(t, "the target's wait, of the window")
		stolen, idle := 0.2*part.Draw(t, "h"), 0.2*part.Draw(t, "the generator's wait, of the window")
		const rate, cpu, used = 1000., 200e-6, 0.5 // one CPU, half of which the target uses

		took := min(foreign, waited)                                 // w of the method
		lost := took/max(1, took+used) + min(idle, foreign) + stolen // x
		recordedRate := rate * (1 - lost*part.Draw(t, "part of the lost time"))
		recordedCPU := cpu * (1 + took/3*part.Draw(t, "part of the caches")) / (1 - stolen/used*part.Draw(t, "part of the stolen"))
		truly, recorded, values := delayedTimes(t, took+stolen)
		inside := float64(recorded.Quantile(0.5)) / 1e9 // L
		share := took*(1+inside/0.003) + stolen         // s, of a delay shorter than 4 ms

		b := newBench(1, "v")
		b.run.Plan.Base = ""
		x := b.measure(1, "v", recordedRate)
		x.Target.CPUShare, x.Target.CPUSeconds, x.Target.CPUSecondsPerRequest = new(used), new(used*x.WindowSeconds), new(recordedCPU)
		x.Target.ForeignShare, x.Target.StealShare = &foreign, &stolen
		x.Generator.CPUShare, x.Generator.RunQueueWaitShare = new(0.4), &idle
		x.Ends = &rundir.Ends{ByArrival: recorded.Count()}
		x.Ends.Complete()
		b.series[1] = counters(map[string]float64{"target_run_queue_wait_seconds": waited * x.WindowSeconds})
		b.logs[1] = []hist.Interval{{Tag: rundir.TagService, Length: 4 * time.Second, Hist: recorded}}
		run := b.judge(t)

		fastest := 0.0 // the mean, if as many as were delayed took as long as the fastest
		for i := range values {
			fastest += values[0] + (values[i]-values[0])*min(1, max(0, (1-share)*float64(len(values))-float64(i)))
		}
		fastest /= float64(len(values))
		quantile := func(h *hist.Histogram, q float64) float64 { return float64(h.Quantile(max(0, q))) / 1e9 }
		for _, c := range []struct {
			figure                     string
			tolerated                  float64
			truth, recorded, low, high float64
		}{
			{"throughput", validity.WithinFigure, rate, recordedRate, recordedRate, recordedRate / (1 - lost)},
			{"target.cpu_per_request", validity.WithinFigure, cpu, recordedCPU, recordedCPU * (1 - stolen/used) / (1 + 0.33*took), recordedCPU},
			{"service.p50", validity.WithinLatency, quantile(truly, 0.5), quantile(recorded, 0.5), quantile(recorded, 0.5-share), quantile(recorded, 0.5)},
			{"service.p90", validity.WithinLatency, quantile(truly, 0.9), quantile(recorded, 0.9), quantile(recorded, 0.9-share), quantile(recorded, 0.9)},
			{"service.mean", validity.WithinLatency, truly.Mean() / 1e9, recorded.Mean() / 1e9, fastest, recorded.Mean() / 1e9},
		} {
			v := figureOfRun(t, run, c.figure, "v", "")
			moved := max(c.recorded-c.low, c.high-c.recorded)
			if v.State == rundir.StateOK && v.Low == nil {
				v.Low, v.High = &c.recorded, &c.recorded
			}
			if math.Abs(*v.Low-c.low) > 0.01*c.low || math.Abs(*v.High-c.high) > 0.01*c.high {
				t.Errorf("%s: %v to %v, want %v to %v", c.figure, *v.Low, *v.High, c.low, c.high)
			}
			allowed := c.tolerated * c.recorded
			if want := moved > allowed; math.Abs(moved-allowed) > 0.01*c.recorded && want != (v.State == rundir.StateBounded) {
				t.Errorf("%s: %s, moved by at most %v of %v", c.figure, v.State, moved, c.recorded)
			}
			if c.truth < 0.997*c.low || c.truth > 1.003*c.high {
				t.Errorf("%s: %v to %v, truly %v", c.figure, c.low, c.high, c.truth)
			}
		}
	})
}

// delayedTimes are a thousand service times as they truly are, and as they are recorded: a share of them is delayed.
func delayedTimes(t *rapid.T, share float64) (truly, recorded *hist.Histogram, values []float64) {
	truly, recorded = hist.New(), hist.New()
	const n = 1000
	base, step := rapid.Int64Range(1e6, 2e6).Draw(t, "fastest"), rapid.Int64Range(1e2, 1e4).Draw(t, "step")
	late := int(share * n * rapid.Float64Range(0, 1).Draw(t, "part of the delayed"))
	first := rapid.IntRange(1, n-1).Draw(t, "first delayed")
	by := rapid.Int64Range(0, 1e7).Draw(t, "delay")
	for i := range n {
		x := base + int64(i)*step
		truly.Record(x)
		if (i-first+n)%n < late && i > 0 {
			x += by
		}
		recorded.Record(x)
		values = append(values, float64(x)/1e9)
	}
	slices.Sort(values)
	return truly, recorded, values
}
