package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dyno/hist"
	"dyno/rundir"
)

// The kinds of flags that Judge raises. Where it does not say otherwise, a flag
// makes the trial invalid.
const (
	FlagIncomplete       = "incomplete"
	FlagConservation     = "conservation"
	FlagGeneratorLag     = "generator_lag"
	FlagGeneratorLagTail = "generator_lag_tail" // in a closed loop a warning
	FlagAchievedRate     = "achieved_rate"
	FlagDrops            = "drops"
	FlagGeneratorCPU     = "generator_cpu"
	FlagRunQueue         = "run_queue_wait"    // in a closed loop a warning
	FlagSteal            = "steal"             // up to StealBad a warning
	FlagNotSteady        = "not_steady"        // a warning
	FlagConnectionLimit  = "connection_limit"  // a warning: connections were the limit
	FlagLagNotChecked    = "lag_not_checked"   // a warning
	FlagNoTrials         = "no_complete_trial" // of the run, about a variant
)

// The limits behind the flags. Those on the generator are dyno's method, under
// which a run is invalid, not corrected, when the generator was the limit.
const (
	// The p99 of the generator's lag may be LagFloor, or LagShare of the median
	// response time if that is more. Beyond it, response times in an open loop
	// are partly the generator's own.
	LagFloor = 50 * time.Microsecond
	LagShare = 0.05
	// The p99.9 of the generator's lag may be TailLagShare of the reported p99.
	TailLagShare = 0.10
	// The rate achieved may differ from the rate wanted by RateTolerance.
	RateTolerance = 0.01
	// The generator may use BusyGenerator of its CPUs in an open loop: a single
	// server's queue grows with 1/(1-utilization), here fourfold.
	BusyGenerator = 0.75
	// A worker of the generator may be ready to run without a CPU for
	// RunQueueLimit of the window.
	RunQueueLimit = 0.01
	// The machine's steal time, as a share of all CPUs' time: StealWarn is worth
	// a word, StealBad spoils the trial.
	StealWarn = 0.01
	StealBad  = 0.03
	// The throughputs of the window's halves may differ by SteadyTolerance.
	SteadyTolerance = 0.01
)

// chance is how many standard deviations a count of random arrivals may be off
// before that is a finding. The standard deviation of a Poisson count n is √n.
const chance = 3

// steadyIntervals is how many intervals the window's halves must have together.
const steadyIntervals = 4

// examination holds what the flags of one complete trial depend on.
type examination struct {
	trial *rundir.Trial
	plan  rundir.PlanVariant
	times times
	log   []hist.Interval
	flags []rundir.Flag
}

func (x *examination) raise(kind string, invalid bool, format string, args ...any) {
	x.flags = append(x.flags, rundir.Flag{
		Kind:    kind,
		Trial:   x.trial.Number,
		Variant: x.trial.Variant,
		Detail:  fmt.Sprintf(format, args...),
		Invalid: invalid,
	})
}

// examine returns the flags of a trial, in a fixed order.
func examine(t *rundir.Trial, plan rundir.PlanVariant, tm times, log []hist.Interval) []rundir.Flag {
	x := examination{trial: t, plan: plan, times: tm, log: log}
	if !t.Conservation.OK {
		detail := t.Conservation.Detail
		if detail == "" {
			detail = "requests are not all accounted for"
		}
		x.raise(FlagConservation, true, "%s", detail)
	}
	if !t.Complete {
		reason := t.Error
		if reason == "" {
			reason = "the trial did not end"
		}
		first, _, _ := strings.Cut(reason, "\n")
		x.raise(FlagIncomplete, true, "%s", first)
		return x.flags
	}
	x.lag()
	if x.open() {
		x.rate()
		if share := t.Generator.CPUShare; share != nil && *share > BusyGenerator {
			x.raise(FlagGeneratorCPU, true, "the generator used %s of its CPUs, more than %s", percent(*share), percent(BusyGenerator))
		}
	}
	if share := t.Generator.RunQueueWaitShare; share != nil && *share > RunQueueLimit {
		x.raise(FlagRunQueue, x.open(), "the generator was ready to run without a CPU for %s of the window, more than %s", percent(*share), percent(RunQueueLimit))
	}
	x.steal()
	x.steady()
	return x.flags
}

func (x *examination) open() bool { return x.plan.Loop == "open" }

// lag judges how late the generator was. Its lag is the part of the send lag
// that is not due to waiting for a connection. A log without it is judged by
// the whole send lag, which is never less.
func (x *examination) lag() {
	generator := tagGeneratorLag
	if x.times[generator] == nil {
		generator = tagSendLag
	}
	p99 := x.times.quantile(generator, 100)
	if x.open() {
		p50 := x.times.quantile(tagResponse, 2)
		if p99 == nil || p50 == nil {
			x.raise(FlagLagNotChecked, false, "fewer than 100 requests: too few to tell whether the generator was in time")
			return
		}
		limit := max(LagFloor.Seconds(), LagShare**p50)
		if *p99 > limit {
			x.raise(FlagGeneratorLag, true, "p99 of the generator's lag is %v, more than %v: max(%v, %s of the median response time)",
				short(*p99), short(limit), LagFloor, percent(LagShare))
		} else if send := x.times.quantile(tagSendLag, 100); send != nil && *send > limit {
			x.raise(FlagConnectionLimit, false, "p99 of the send lag is %v, of the generator's own lag %v: requests waited for a free connection",
				short(*send), short(*p99))
		}
	}
	// In a closed loop the reported percentiles are service times, which begin
	// at the write: lag costs throughput there but does not stain them.
	reported := tagResponse
	if !x.open() {
		reported = tagService
	}
	tail, of := x.times.quantile(generator, 1000), x.times.quantile(reported, 100)
	if tail != nil && of != nil && *tail > TailLagShare**of {
		x.raise(FlagGeneratorLagTail, x.open(), "p99.9 of the generator's lag is %v, more than %s of the p99 reported, %v",
			short(*tail), percent(TailLagShare), short(*of))
	}
}

// rate judges whether the load was the one wanted.
func (x *examination) rate() {
	c := x.trial.Counts
	if c.Dropped > 0 {
		x.raise(FlagDrops, true, "%d of %d requests were dropped: none of the connections became free", c.Dropped, c.Scheduled)
	}
	sent := float64(c.Sent)
	if wanted := float64(c.Scheduled); differ(sent, wanted) > RateTolerance {
		x.raise(FlagAchievedRate, true, "%.0f requests were sent and %.0f were due: %s off", sent, wanted, percent(differ(sent, wanted)))
		return
	}
	if x.plan.Rate == nil || x.trial.WindowSeconds <= 0 {
		return
	}
	wanted := *x.plan.Rate * x.trial.WindowSeconds
	if differ(sent, wanted) > RateTolerance && math.Abs(sent-wanted) > chance*math.Sqrt(wanted) {
		x.raise(FlagAchievedRate, true, "%.4g requests a second were sent and %.4g wanted: %s off",
			sent/x.trial.WindowSeconds, *x.plan.Rate, percent(differ(sent, wanted)))
	}
}

// differ is how far is is from want, as a share of want.
func differ(is, want float64) float64 {
	if want == 0 {
		return 0
	}
	return math.Abs(is-want) / want
}

func (x *examination) steal() {
	share := x.trial.Machine.StealShare
	if share != nil && *share > StealWarn {
		x.raise(FlagSteal, *share > StealBad, "the hypervisor took %s of the CPUs' time", percent(*share))
	}
}

// steady compares the throughputs of the window's halves. It takes the
// intervals that lie within the window, but for the first and those that begin
// before a p99 of response times has passed: they lack the responses to requests
// that were due before the window. With fewer than steadyIntervals nothing can
// be said. Neither can it of stages, whose rate is meant to change.
func (x *examination) steady() {
	if x.open() && x.plan.Rate == nil {
		return
	}
	begin := x.trial.WarmupSeconds
	end := begin + x.trial.WindowSeconds
	var within []hist.Interval
	for _, i := range x.log {
		slack := i.Length.Seconds() / 20 // an interval ends when a worker gets to it
		if i.Tag == tagResponse && i.Start.Seconds() >= begin-slack && (i.Start+i.Length).Seconds() <= end+slack {
			within = append(within, i)
		}
	}
	slices.SortFunc(within, func(a, b hist.Interval) int { return int(a.Start - b.Start) })
	settled := begin
	if p99 := x.times.quantile(tagResponse, 100); p99 != nil {
		settled += *p99
	}
	first := 1
	for first < len(within) && within[first].Start.Seconds() < settled {
		first++
	}
	if len(within)-first < steadyIntervals {
		return
	}
	within = within[first:]
	half := len(within) / 2
	n1, s1 := completed(within[:half])
	n2, s2 := completed(within[len(within)-half:])
	if s1 <= 0 || s2 <= 0 || n1+n2 == 0 {
		return
	}
	off := math.Abs(n1/s1-n2/s2) / ((n1 + n2) / (s1 + s2))
	if off <= SteadyTolerance {
		return
	}
	// Arrivals of an open loop are random: their halves differ by chance.
	if x.open() && math.Abs(n1-n2) <= chance*math.Sqrt(n1+n2) {
		return
	}
	x.raise(FlagNotSteady, false, "the halves of the window differ by %s: %.4g and %.4g responses a second",
		percent(off), n1/s1, n2/s2)
}

func completed(intervals []hist.Interval) (n, seconds float64) {
	for _, i := range intervals {
		n += float64(i.Hist.Count())
		seconds += i.Length.Seconds()
	}
	return n, seconds
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// short rounds a time for reading.
func short(seconds float64) time.Duration {
	d := time.Duration(seconds * 1e9)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
