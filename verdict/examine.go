package verdict

import (
	"fmt"
	"math"
	"strings"
	"time"

	"dyno/rundir"
)

// The units of checks.
const (
	inSeconds = "s"
	asRatio   = "ratio"
	asCount   = "count"
)

// chance is how many standard deviations a count of random arrivals may be off
// before that is a finding. The standard deviation of a Poisson count n is √n.
const chance = 3

// examination collects what is found about one trial.
type examination struct {
	subject
	checks []rundir.Check
	flags  []rundir.Flag
	untold []string // kinds of findings about the target that may be the generator's own doing
}

// examine checks a trial. The checks come in the order of the kinds, those left
// out that do not apply to its loop: a program, which is its own load, need only
// have ended. Of an incomplete trial nothing more is checked. Each check that
// warns or fails raises a flag of its kind.
//
// The dependence is that of a complete trial whose throughput was meant to be
// even; nil where nothing can be said.
func examine(s subject) ([]rundir.Check, []rundir.Flag, *rundir.Dependence) {
	x := examination{subject: s}
	if s.program() {
		x.complete()
		return x.checks, x.flags, nil
	}
	x.conserved()
	if !x.complete() {
		return x.checks, x.flags, nil
	}
	x.dead()
	if !x.streaming() && !x.shared() {
		x.lag()
	}
	if x.open() {
		x.drops()
		x.achieved()
	}
	if !x.streaming() {
		x.unfinished()
	}
	if x.trial.Streams != nil {
		x.subscribers()
	}
	x.told()
	if !x.shared() {
		x.generator()
	}
	x.machine()
	bins := x.bins()
	x.steady(bins)
	d := measureDependence(bins, s.trial.WarmupSeconds)
	x.dependent(d, len(bins))
	return x.checks, x.flags, d
}

// add records a check, and raises a flag unless there is nothing to say.
func (x *examination) add(c rundir.Check) {
	if c.About == "" {
		c.About = kindsOfFlags[c.Kind].about
	}
	if c.Outcome == rundir.CheckBroken && c.Kind != FlagIncomplete && x.away() > AwayGenerator {
		c.Outcome = rundir.CheckUnknown
		x.untold = append(x.untold, c.Kind)
	}
	x.checks = append(x.checks, c)
	switch c.Outcome {
	case rundir.CheckWarning, rundir.CheckSpoilt, rundir.CheckBroken:
		x.raise(c.Kind, c.Outcome == rundir.CheckSpoilt, c.Detail)
		raised := &x.flags[len(x.flags)-1]
		raised.About, raised.Breaks = c.About, c.Outcome == rundir.CheckBroken
		raised.Measured, raised.Limit, raised.Unit = c.Measured, c.Limit, c.Unit
	}
}

func (x *examination) raise(kind string, spoils bool, detail string) {
	x.flags = append(x.flags, newFlag(kind, x.trial.Variant, spoils, detail))
	x.flags[len(x.flags)-1].Trial = x.trial.Number
}

// newFlag makes a flag of one of Judge's kinds.
func newFlag(kind, variant string, spoils bool, detail string) rundir.Flag {
	k := kindsOfFlags[kind]
	return rundir.Flag{Kind: kind, About: k.about, Variant: variant, Detail: detail, Biases: k.biases, Spoils: spoils}
}

// unknown records a check that could not be made.
func (x *examination) unknown(kind, unit, format string, args ...any) {
	x.add(rundir.Check{Kind: kind, Unit: unit, Outcome: rundir.CheckUnknown, Detail: fmt.Sprintf(format, args...)})
}

// compare records a figure that must not be above its limit. Above it the outcome
// is bad, for the reason given; what was known beforehand needs none.
func (x *examination) compare(kind, unit string, measured, limit float64, bad, format string, args ...any) {
	c := rundir.Check{Kind: kind, Unit: unit, Measured: &measured, Limit: &limit, Outcome: rundir.CheckOK}
	if measured > limit {
		c.Outcome, c.Detail = bad, fmt.Sprintf(format, args...)
	}
	x.add(c)
}

func (x *examination) conserved() {
	c := rundir.Check{Kind: FlagConservation, Outcome: rundir.CheckOK}
	if !x.trial.Conservation.OK {
		c.Outcome, c.Detail = rundir.CheckSpoilt, x.trial.Conservation.Detail
		if c.Detail == "" {
			c.Detail = "requests are not all accounted for"
		}
	}
	x.add(c)
}

func (x *examination) complete() bool {
	c := rundir.Check{Kind: FlagIncomplete, Outcome: rundir.CheckOK}
	if !x.trial.Complete {
		reason := x.trial.Error
		if reason == "" {
			reason = "the trial did not end"
		}
		c.Outcome = rundir.CheckSpoilt
		if x.trial.Fault == rundir.FaultTarget {
			c.Outcome, c.About = rundir.CheckBroken, rundir.AboutTarget
		}
		c.Detail, _, _ = strings.Cut(reason, "\n")
		c.Detail = strings.TrimSuffix(c.Detail, "; last output:") // which is on the lines below
	}
	x.add(c)
	return x.trial.Complete
}

// lag judges how late the generator was. Its lag is the part of the send lag
// that is not due to waiting for a connection. A log without it is judged by
// the whole send lag, which is never less.
func (x *examination) lag() {
	generator := tagGeneratorLag
	if x.times[generator] == nil {
		generator = tagSendLag
	}
	if x.open() {
		x.lagBody(generator)
	}
	// In a closed loop the reported percentiles are service times, which begin
	// at the write: lag costs throughput there but does not stain them.
	reported := tagResponse
	if !x.open() {
		reported = tagService
	}
	tail, of := x.times.quantile(generator, 1000), x.times.quantile(reported, 100)
	if tail == nil || of == nil {
		x.unknown(FlagGeneratorLagTail, inSeconds, "fewer than 1,000 requests: too few for a p99.9")
		return
	}
	x.compare(FlagGeneratorLagTail, inSeconds, *tail, max(TailLagFloor.Seconds(), TailLagShare**of), rundir.CheckWarning,
		"p99.9 of the generator's lag is %v, more than %v and than %s of the p99 reported, %v", short(*tail), TailLagFloor, percent(TailLagShare), short(*of))
}

// lagBody judges the p99 of the generator's lag, and whether requests waited for
// a connection besides.
func (x *examination) lagBody(generator string) {
	p99, p50 := x.times.quantile(generator, 100), x.times.quantile(tagResponse, 2)
	if p99 == nil || p50 == nil {
		const reason = "fewer than 100 requests: too few to tell whether the generator was in time"
		x.unknown(FlagGeneratorLag, inSeconds, reason)
		x.raise(FlagLagNotChecked, false, reason)
		x.unknown(FlagConnectionLimit, inSeconds, "fewer than 100 requests")
		return
	}
	limit := max(LagFloor.Seconds(), LagShare**p50)
	x.compare(FlagGeneratorLag, inSeconds, *p99, limit, rundir.CheckWarning,
		"p99 of the generator's lag is %v, more than %v: max(%v, %s of the median response time)",
		short(*p99), short(limit), LagFloor, percent(LagShare))
	switch send := x.times.quantile(tagSendLag, 100); {
	case send == nil:
		x.unknown(FlagConnectionLimit, inSeconds, "fewer than 100 send lags were recorded")
	case *p99 > limit:
		x.unknown(FlagConnectionLimit, inSeconds, "the generator itself was too late to tell")
	default:
		x.compare(FlagConnectionLimit, inSeconds, *send, limit, rundir.CheckWarning,
			"p99 of the send lag is %v, of the generator's own lag %v: requests waited for a free connection", short(*send), short(*p99))
	}
}

func (x *examination) drops() {
	c := x.trial.Counts
	dropped := c.Dropped - c.Unsent // those are the generator's own
	x.compare(FlagDrops, asCount, float64(dropped), 0, rundir.CheckBroken,
		"%d of %d requests were dropped: none of the connections became free", dropped, c.Scheduled)
}

// achieved judges whether the load was the one wanted: whether all that was due
// was sent, and whether as much was due as the rate asks for, by more than chance.
func (x *examination) achieved() {
	// What was dropped because the target left no connection free was offered to it.
	c := x.trial.Counts
	sent, due := float64(c.Sent+c.Dropped-c.Unsent), float64(c.Scheduled)
	rate, window := x.rate(), x.trial.WindowSeconds
	if off := differ(sent, due); off > RateTolerance || rate == nil || !(*rate > 0 && window > 0) {
		x.compare(FlagAchievedRate, asRatio, off, RateTolerance, rundir.CheckSpoilt,
			"%.0f requests were sent and %.0f were due: %s off", sent, due, percent(off))
		return
	}
	wanted := *rate * window
	off := differ(sent, wanted)
	x.compare(FlagAchievedRate, asRatio, off, max(RateTolerance, chance/math.Sqrt(wanted)), rundir.CheckSpoilt,
		"%.4g requests a second were sent and %.4g wanted: %s off", sent/window, *rate, percent(off))
}

// differ is how far is is from want, as a share of want.
func differ(is, want float64) float64 {
	if want == 0 {
		return 0
	}
	return math.Abs(is-want) / want
}

// unfinished judges how much of the tail is censored on the right: such requests
// took at least as long as they were waited for.
func (x *examination) unfinished() {
	c := x.trial.Counts
	if c.Sent <= 0 {
		x.unknown(FlagUnfinished, asRatio, "no request was sent")
		return
	}
	if age, n := x.unanswered(); n > 0 {
		x.breaks(FlagUnfinished, asCount, float64(n), 0, true,
			"%d of %d requests were never answered, though %v and more was waited for each", n, c.Sent, short(age))
		return
	}
	x.compare(FlagUnfinished, asRatio, float64(c.Unfinished)/float64(c.Sent), UnfinishedLimit, rundir.CheckWarning,
		"%d of %d requests were unfinished at the end: the tail reported is only a lower bound", c.Unfinished, c.Sent)
}

// subscribers judges whether there were as many as planned: with fewer, each event cost
// the target less. Those it asked to stay away are missing by its own will.
func (x *examination) subscribers() {
	s := x.trial.Streams
	missing := s.Requested - s.Peak - s.Closed
	outcome := rundir.CheckBroken
	if s.Generator > 0 {
		outcome = rundir.CheckWarning // what dyno lacked is judged by itself
	}
	x.compare(FlagSubscribers, asCount, float64(max(0, missing)), 0, outcome,
		"at most %d of %d subscribers had a stream at once", s.Peak, s.Requested)
}

// generator judges whether the generator had the CPU that it needed.
func (x *examination) generator() {
	g := x.trial.Generator
	if x.open() {
		if g.CPUShare == nil {
			x.unknown(FlagGeneratorCPU, asRatio, notObserved)
		} else {
			x.compare(FlagGeneratorCPU, asRatio, *g.CPUShare, BusyGenerator, rundir.CheckSpoilt,
				"the generator used %s of its CPUs, more than %s", percent(*g.CPUShare), percent(BusyGenerator))
		}
	}
	x.starved()
	if !x.open() {
		x.exhausted()
	}
}

const notObserved = "not observed"

// shortestBusy is the shortest window of which how busy the generator was says anything:
// in a handful of requests, it is as busy as it can be with opening connections.
const shortestBusy = 50 * time.Millisecond

// starved judges for how long the generator was ready to run and had no CPU.
func (x *examination) starved() {
	wait, target := x.trial.Generator.RunQueueWaitShare, x.trial.Target.CPUShare
	switch {
	case wait == nil:
		x.unknown(FlagRunQueue, asRatio, notObserved)
	case !x.open() && target != nil && *target < SaturatedTarget && *wait > StarvedGenerator:
		x.compare(FlagRunQueue, asRatio, *wait, StarvedGenerator, rundir.CheckSpoilt,
			"the generator was ready to run without a CPU for %s of the window, more than %s, and the target used only %s of its own: it was not the limit",
			percent(*wait), percent(StarvedGenerator), percent(*target))
	case x.open() && *wait > StarvedGenerator:
		x.compare(FlagRunQueue, asRatio, *wait, StarvedGenerator, rundir.CheckSpoilt,
			"the generator was ready to run without a CPU for %s of the window, more than %s", percent(*wait), percent(StarvedGenerator))
	default:
		limit := RunQueueLimit
		if n := x.trial.Generator.TimeslicesPerSecond; n != nil {
			limit += *n * WakeupCost.Seconds()
		}
		x.compare(FlagRunQueue, asRatio, *wait, limit, rundir.CheckWarning,
			"the generator was ready to run without a CPU for %s of the window, more than %s", percent(*wait), percent(limit))
	}
}

// exhausted judges whether the generator had time to spare in a closed loop. The
// wait is that of the worst worker, the CPU time the mean over workers, so that
// the sum errs on the side of the limit.
func (x *examination) exhausted() {
	g, target := x.trial.Generator, x.trial.Target.CPUShare
	if g.CPUShare == nil {
		x.unknown(FlagGeneratorLimit, asRatio, notObserved)
		return
	}
	if window := x.trial.WindowSeconds; window < shortestBusy.Seconds() {
		x.unknown(FlagGeneratorLimit, asRatio, "the window of %v was too short to tell", short(window))
		return
	}
	occupied := *g.CPUShare
	if g.RunQueueWaitShare != nil {
		occupied += *g.RunQueueWaitShare
	}
	limit := ExhaustedGenerator
	switch {
	case target == nil:
		x.compare(FlagGeneratorLimit, asRatio, occupied, limit, rundir.CheckWarning,
			"the generator was busy or waiting for a CPU for %s of the window: it may have been the limit; how busy the target was is not known", percent(occupied))
	case *target < SaturatedTarget:
		x.compare(FlagGeneratorLimit, asRatio, occupied, limit, rundir.CheckSpoilt,
			"the generator was busy or waiting for a CPU for %s of the window, and the target used only %s of its CPUs: the generator was the limit", percent(occupied), percent(*target))
	default:
		x.add(rundir.Check{Kind: FlagGeneratorLimit, Unit: asRatio, Measured: &occupied, Limit: &limit, Outcome: rundir.CheckOK,
			Detail: fmt.Sprintf("the target was at its limit: it used %s of its CPUs", percent(*target))})
	}
}

// machine judges what else went on.
func (x *examination) machine() {
	m := x.trial.Machine
	x.noise(FlagSteal, m.StealShare, StealWarn, StealBad, "the hypervisor took %s of the CPUs' time")
	if x.trial.Target.CPUShare == nil && m.ForeignShare != nil {
		x.unknown(FlagForeignCPU, asRatio, "the target's CPU time is not known, so that it is among the foreign")
	} else {
		x.noise(FlagForeignCPU, m.ForeignShare, ForeignWarn, ForeignBad, "other programs used %s of all CPUs' time")
	}
	if x.shared() {
		x.unknown(FlagLateWakeups, asRatio, "the generator shares its CPUs with its target")
	} else if m.LateWakeupShare == nil {
		x.unknown(FlagLateWakeups, asRatio, notObserved)
	} else {
		x.compare(FlagLateWakeups, asRatio, *m.LateWakeupShare, LateWarn, rundir.CheckWarning,
			"%s of short sleeps on the generator's CPUs ended more than 1 ms late", percent(*m.LateWakeupShare))
	}
	x.noise(FlagMemoryPressure, m.MemoryStall, StallWarn, StallBad, "for %s of the window, all that had work to do waited for memory")
	x.noise(FlagIOPressure, m.IOStall, StallWarn, StallBad, "for %s of the window, all that had work to do waited for input and output")
}

// noise records a share that is worth a word above warn and spoils the trial
// above bad.
func (x *examination) noise(kind string, share *float64, warn, bad float64, said string) {
	switch {
	case share == nil:
		x.unknown(kind, asRatio, notObserved)
	case *share > bad:
		x.compare(kind, asRatio, *share, bad, rundir.CheckSpoilt, said, percent(*share))
	default:
		x.compare(kind, asRatio, *share, warn, rundir.CheckWarning, said, percent(*share))
	}
}

// judgeDisturbed records how much of the window was disturbed, once that is known.
func (s *sample) judgeDisturbed(plan rundir.PlanVariant) {
	if isProgram(plan) {
		return
	}
	x := examination{subject: subject{trial: s.Trial, plan: plan}}
	if !s.disturbed.known {
		x.unknown(FlagDisturbed, asRatio, notObserved)
	} else {
		x.compare(FlagDisturbed, asRatio, s.disturbed.taken, DisturbedBad, rundir.CheckSpoilt,
			"for %s of the window something else had a CPU that generator or target wanted: %s", percent(s.disturbed.taken), strings.Join(s.disturbed.causes(), ", "))
	}
	s.checks, s.flags = append(s.checks, x.checks...), append(s.flags, x.flags...)
}

// disturbedShare is what run.json says of it; nil where nobody felt for it.
func (s *sample) disturbedShare() *float64 {
	if s.disturbed == nil || !s.disturbed.known {
		return nil
	}
	return &s.disturbed.moved
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
