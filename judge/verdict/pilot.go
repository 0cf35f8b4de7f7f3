package verdict

import (
	"fmt"
	"math"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// The constants of pilots.
const (
	// pilotBin is the length, in seconds, of the bins of a pilot's series.
	pilotBin = 0.1
	// warmupFactor is a reserve, because one pilot does not know how the next trial
	// starts.
	warmupFactor = 1.5
	// leastWarmup, in seconds: connections are opened and caches filled in any case.
	leastWarmup = 0.5
)

// Warmup finds how long the warm-up of all variants must be: one and a half times the
// longest warm-up of their pilots. MSER-5 finds the warm-up of a pilot, on bins of 100 ms
// of throughput, median latency and CPU per request. For a pilot that was still changing
// in its second half, its first half counts as its warm-up. If a variant has several
// complete pilots, the last counts. Warmup fails when a variant has none, or one that is
// shorter than 100 bins.
func (Referee) Warmup(plan rundir.Plan, pilots []*rundir.TrialFolder) (*rundir.Pilot, error) {
	p := &rundir.Pilot{WarmupSeconds: leastWarmup, Variants: []rundir.PilotVariant{}}
	for _, v := range plan.Variants {
		if v.AliasOf != "" { // a control is measured like its original
			continue
		}
		var last *rundir.TrialFolder
		for _, t := range pilots {
			if t.Variant == v.Name && t.Complete && (last == nil || t.Number > last.Number) {
				last = t
			}
		}
		if last == nil {
			return nil, fmt.Errorf("pilot of %s: none was completed", v.Name)
		}
		found, err := settling(v, recording.FromFolder(last))
		if err != nil {
			return nil, fmt.Errorf("pilot of %s: %w", v.Name, err)
		}
		p.Variants = append(p.Variants, found)
		p.WarmupSeconds = max(p.WarmupSeconds, warmupFactor*found.SteadySeconds)
	}
	return p, nil
}

// settling returns when a pilot became steady.
func settling(v rundir.PlanVariant, from recording.Source) (rundir.PilotVariant, error) {
	found := rundir.PilotVariant{Variant: v.Name}
	names := []string{"throughput", "p50", "cpu_per_request"}
	series, err := pilotSeries(v, from)
	if err != nil {
		return found, err
	}
	if len(series) < len(names) {
		found.Detail = new(texts.New("found.pilot.cpu"))
	}
	at, err := stat.MSER5(series...)
	if err != nil {
		return found, err
	}
	found.Steady = at.Steady
	found.SteadySeconds = float64(at.Index) * pilotBin
	if !at.Steady {
		found.SteadySeconds = from.Trial.WindowSeconds / 2
	}
	if at.Index > 0 {
		found.Series = names[at.Series]
	}
	return found, nil
}

// pilotSeries reads what a pilot recorded, by bins.
func pilotSeries(v rundir.PlanVariant, from recording.Source) ([][]float64, error) {
	log, err := from.Log()
	if err != nil {
		return nil, fmt.Errorf("latency log: %w", err)
	}
	observed, err := from.Series()
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	return binned(v, from.Trial, log, observed), nil
}

// binned returns a pilot's throughput and median latency by bins. The target's CPU time
// per request follows if it was observed. A bin without responses has the latency and the
// CPU time of the one before: nothing says that they changed.
func binned(v rundir.PlanVariant, t *rundir.Trial, log []hist.Interval, observed *series.Series) [][]float64 {
	n := int(t.WindowSeconds/pilotBin + 0.01) // a rest that does not fill a bin is left out
	latency := v.Latency()
	responses, lengths, latencies := make([]float64, n), make([]float64, n), make([]*hist.Histogram, n)
	for _, i := range log {
		bin := int(((i.Start + i.Length/2).Seconds() - t.WarmupSeconds) / pilotBin)
		if bin < 0 || bin >= n {
			continue
		}
		if i.Tag == recording.CountedTag(v) {
			responses[bin] += float64(i.Hist.Count())
			lengths[bin] += i.Length.Seconds() // an interval ends when a worker gets to it
		}
		if i.Tag == latency {
			if latencies[bin] == nil {
				latencies[bin] = hist.New()
			}
			latencies[bin].Merge(i.Hist)
		}
	}
	cpu, haveCPU := cpuByBin(t, observed, n)
	throughput, median, perRequest := make([]float64, n), make([]float64, n), make([]float64, n)
	for b := range n {
		if lengths[b] > 0 {
			throughput[b] = responses[b] / lengths[b]
		}
		if b > 0 {
			median[b], perRequest[b] = median[b-1], perRequest[b-1]
		}
		if h := latencies[b]; h != nil && h.Count() > 0 {
			median[b] = recording.Seconds(float64(h.Quantile(0.5)))
		}
		if responses[b] > 0 {
			perRequest[b] = cpu[b] / (throughput[b] * pilotBin)
		}
	}
	if !haveCPU {
		return [][]float64{throughput, median}
	}
	return [][]float64{throughput, median, perRequest}
}

// cpuColumn is the target's CPU time so far, in seconds.
const cpuColumn = "target_cpu_seconds"

// cpuByBin returns the CPU time that the target used in each bin. Its counter is taken to
// grow evenly between two ticks.
func cpuByBin(t *rundir.Trial, observed *series.Series, n int) (used []float64, ok bool) {
	used = make([]float64, n)
	if observed == nil {
		return used, false
	}
	var at, counter []float64
	times := observed.Column(series.TimeColumn)
	for i, v := range observed.Column(cpuColumn) {
		if !math.IsNaN(v) {
			at, counter = append(at, times[i]), append(counter, v)
		}
	}
	if len(at) < 2 {
		return used, false
	}
	tick := 1
	before := 0.0
	for b := range n + 1 {
		// Beyond the ends the nearest tick counts.
		edge := min(max(t.WarmupSeconds+float64(b)*pilotBin, at[0]), at[len(at)-1])
		for tick < len(at)-1 && at[tick] < edge {
			tick++
		}
		now := counter[tick-1]
		if span := at[tick] - at[tick-1]; span > 0 {
			now += (counter[tick] - counter[tick-1]) * (edge - at[tick-1]) / span
		}
		if b > 0 {
			used[b-1] = now - before
		}
		before = now
	}
	return used, true
}
