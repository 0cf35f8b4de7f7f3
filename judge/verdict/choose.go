package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A Design is how two variants are best compared, as a pilot of some seconds has shown. Times are in seconds.
type Design struct {
	Duet           bool
	Metric         string
	Connections    int // of a closed loop
	Warmup, Window float64
	Rounds         int     // at most; a rule of three looks ends them
	Lasts          float64 // at most
	Why            rundir.Message
}

// The bounds of what is chosen.
const (
	mostRoundsTime = 95. // seconds: with the pilot, all takes less than two minutes
	leastRounds    = 12  // that three looks need
	mostRounds     = 36
	shortestWindow = 1. // seconds
	longestWindow  = 5.
	openWindow     = 2.   // of an open loop that is judged by a quantile
	windowRequests = 1000 // that a window has at least, if it is not the longest
	windowAnswers  = 20   // median service times that a window has at least, if it is not the longest
	mostQueueing   = 0.1  // seconds of service time from which a busy server gets fewer connections

	// busy is the share of a server's CPUs from which its CPU time limits it. The share includes the time that
	// it waits for them, and what a generator on them uses.
	busy = 0.8
	// together is the correlation from which a duet is worth its cost. It is the correlation of the CPU time
	// per request of two variants that run at once. The variance of their difference is then a quarter of
	// that of separate trials.
	together = 0.75
	// steady is by how much the figures after a warm-up may differ from those at the end.
	steady   = 0.05
	counting = 0.5 // seconds in which the calls of a trial are counted, in one round, but not in a duet
	// Of a duet's base, two trials are next to a variant without load.
	idleTrials = 2
)

// Choose finds the design from a pilot of one round: of base and variant, one after the other or at once. The rounds to
// come have the given number of trials. What is given stays: fields that are not zero. The error says why nothing can be
// chosen.
//
// The metric is CPU time per request if it limits a server. An open loop on a noisy machine also gets this metric,
// because noise moves it the least. Otherwise the metric is the plan's primary one.
func Choose(pilot *rundir.Folder, trials int, given Design) (Design, error) {
	return choose(&pilot.Run, sourcesOf(pilot), trials, given)
}

func choose(run *rundir.Run, pilots []recording.Source, trials int, given Design) (Design, error) {
	base := run.Plan.Variant(run.Plan.Base)
	open := base.Loop == "open"
	d := Design{Metric: run.Plan.PrimaryMetric(), Connections: base.Connections, Warmup: leastWarmup, Window: shortestWindow}
	rate, answer, window := math.Inf(1), 0., 0.
	isBusy, hasCPU := false, true
	var sides [2][]float64 // what is compared by the pilot's bins, of two that ran at once
	for _, from := range pilots {
		t := from.Trial
		if !t.Complete || t.Throughput == nil || *t.Throughput <= 0 || t.Times[rundir.TagService].P50 == nil {
			return d, fmt.Errorf("pilot of %s: it has no figures", t.Variant)
		}
		rate, answer = min(rate, *t.Throughput), max(answer, *t.Times[rundir.TagService].P50)
		hasCPU = hasCPU && t.Target.CPUSecondsPerRequest != nil
		isBusy = isBusy || isBusyIn(&run.Plan, t)
		series, err := pilotSeries(run.Plan.Variant(t.Variant), from)
		if err != nil {
			return d, fmt.Errorf("pilot of %s: %w", t.Variant, err)
		}
		last := series[len(series)-1]
		d.Warmup = max(d.Warmup, warmupOf(last, t.WindowSeconds))
		if t.Duet != nil {
			sides[t.Duet.CPUSet] = last
		}
		window = t.WindowSeconds
	}
	if run.FinishedAt == nil || len(pilots) == 0 {
		return d, errors.New("pilot: it was not finished")
	}
	starts := len(pilots)
	if run.Plan.Duet != nil { // all at once
		starts = 1
	}
	overhead := max(0, run.FinishedAt.Sub(pilots[0].Trial.StartedAt).Seconds()/float64(starts)-window)

	why := "choice.default"
	switch {
	case given.Metric != "":
		d.Metric, why = given.Metric, "choice.given"
	case hasCPU && isBusy:
		d.Metric, why = rundir.MetricCPU, "choice.busy"
	case hasCPU && open && slices.ContainsFunc(run.Trials, func(x rundir.Examined) bool { return x.Disturbed }):
		d.Metric, why = rundir.MetricCPU, "choice.noisy"
	}
	if open && d.Metric != rundir.MetricCPU {
		d.Window = openWindow
	}
	if given.Connections > 0 {
		d.Connections = given.Connections
	} else if isBusy && !open && answer > mostQueueing {
		fewer := max(1, int(float64(d.Connections)*mostQueueing/answer))
		answer, d.Connections = answer*float64(fewer)/float64(d.Connections), fewer
	}
	d.Window = max(d.Window, min(longestWindow, math.Ceil(max(windowAnswers*answer, windowRequests/rate))))
	d.Window = cmp.Or(given.Window, d.Window)
	each, once := overhead+d.Warmup+d.Window, counting*float64(trials)
	from := min(int(d.Warmup/pilotBin), len(sides[0]), len(sides[1])) // both warm up together, which is no noise
	if d.Duet = given.Duet; !d.Duet && d.Metric == rundir.MetricCPU && stat.Correlation(sides[0][from:], sides[1][from:]) > together {
		d.Duet, why = true, "choice.duet"
	}
	if d.Duet {
		once, trials = each*idleTrials, trials-1
	}
	round := each * float64(trials)
	d.Rounds = cmp.Or(given.Rounds, min(max(int((mostRoundsTime-once)/round), leastRounds), mostRounds))
	d.Lasts = once + round*float64(d.Rounds)
	d.Why = texts.New(why, "metric", d.Metric)
	return d, nil
}

// isBusyIn tells whether a target's CPUs were the limit in a trial: all that it may use, or one, which is all that
// a single thread uses.
func isBusyIn(plan *rundir.Plan, t *rundir.Trial) bool {
	if t.Target.CPUSeconds == nil {
		return false
	}
	used, cpus := *t.Target.CPUSeconds/t.WindowSeconds, 1
	if wait := t.Target.RunQueueWaitSecondsPerRequest; wait != nil {
		used += *wait * *t.Throughput
	}
	if t.Duet != nil {
		cpus = len(plan.Duet.CPUSets[t.Duet.CPUSet].TargetCPUs)
		if share := t.Generator.CPUShare; t.Duet.Shared && share != nil {
			used += *share * float64(t.Generator.Workers)
		}
	}
	return used >= busy*float64(cpus) || math.Abs(used-1) <= 1-busy
}

// warmupOf is the time, in seconds, after which the bins' values are close to those at the end; half the window at
// most.
func warmupOf(bins []float64, window float64) float64 {
	half := len(bins) / 2
	end, err := stat.Median(bins[half:])
	for after := leastWarmup; err == nil && after < window/2; after *= 2 {
		from := int(after / pilotBin)
		if first, err := stat.Median(bins[from : from+half/2]); err == nil && math.Abs(first-end) <= steady*end {
			return after
		}
	}
	return window / 2
}
