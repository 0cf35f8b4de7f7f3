package checks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// chance is how many standard deviations a count of random arrivals may be off before it
// is a finding. The standard deviation of a Poisson count n is √n.
const chance = 3

// examination collects what is found about one trial.
type examination struct {
	recording.Recording
	checks         []rundir.Check
	flags          []rundir.Flag
	fewConnections bool     // were the limit
	unattributed   []string // kinds of findings about the target that the generator may have caused
}

// Examine checks a trial. The checks come in the order of the kinds. Checks that do not
// apply to the trial's loop are left out: a program, which is its own load, need only
// have ended. An incomplete trial gets no further checks, unless it is a substitute. Each check that warns or fails
// raises a flag of its kind.
//
// The dependence is that of a complete trial whose throughput was meant to be even; nil
// where it is not known.
func Examine(s recording.Recording) ([]rundir.Check, []rundir.Flag, *rundir.Dependence) {
	x := examination{Recording: s}
	if s.IsProgram() {
		x.complete()
		return x.checks, x.flags, nil
	}
	x.conserved()
	if failed := x.Trial.Teardown; failed != "" {
		x.add(rundir.Check{Kind: FlagTeardown, Outcome: rundir.CheckWarning, Detail: new(texts.New("found.teardown").With("ways", texts.Verbatim(failed)))})
	}
	if !x.complete() {
		return x.checks, x.flags, nil
	}
	x.checkSilence()
	x.remarks()
	if x.Open() {
		x.connectionsNeeded()
	}
	if !x.OnlySubscribers() && !x.SharesCPUs() {
		x.lag()
	}
	if x.Open() {
		x.drops()
		x.achieved()
		x.backlog()
	}
	if !x.OnlySubscribers() {
		x.unfinished()
	}
	if x.Trial.Streams != nil {
		x.subscribers()
	}
	x.checkAttributable()
	if !x.SharesCPUs() {
		x.generator()
	}
	x.startSkew()
	x.machine()
	bins := x.bins()
	x.steady(bins)
	d := measureDependence(bins, s.Trial.WarmupSeconds)
	x.dependent(d, len(bins))
	return x.checks, x.flags, d
}

// add records a check, and raises a flag unless there is nothing to say. A check of what is no number was not made: files
// cannot hold it.
func (x *examination) add(c rundir.Check) {
	if notFinite(c.Measured) || notFinite(c.Limit) {
		c = notMade(c.Kind, new(texts.New("unchecked.unobserved")))
	}
	c.Unit = declared[c.Kind].Unit
	if c.About == "" {
		c.About = declared[c.Kind].About
	}
	if c.Outcome == rundir.CheckBroken && c.Kind != FlagIncomplete && limited(x.Trial) > 0 {
		c.Outcome = rundir.CheckUnknown // the target answered, and the generator did not take it
	}
	if c.Outcome == rundir.CheckBroken && !x.attributable(c.Kind) && x.away() > AwayGenerator {
		c.Outcome = rundir.CheckUnknown
		x.unattributed = append(x.unattributed, c.Kind)
	}
	x.checks = append(x.checks, c)
	switch c.Outcome {
	case rundir.CheckWarning, rundir.CheckDisturbed, rundir.CheckBroken:
		x.raise(c.Kind, c.Outcome == rundir.CheckDisturbed, c.Detail)
		raised := &x.flags[len(x.flags)-1]
		raised.About, raised.Breaks = c.About, c.Outcome == rundir.CheckBroken
		raised.Measured, raised.Limit, raised.Unit, raised.Agent = c.Measured, c.Limit, c.Unit, c.Agent
	}
}

func notFinite(v *float64) bool { return v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) }

func (x *examination) raise(kind string, disturbs bool, found *rundir.Message) {
	x.flags = append(x.flags, NewFlag(kind, x.Trial.Variant, disturbs, found))
	x.flags[len(x.flags)-1].Trial = x.Trial.Number
}

// NewFlag makes a flag of one of Judge's kinds.
func NewFlag(kind, variant string, disturbs bool, found *rundir.Message) rundir.Flag {
	c := declared[kind]
	return rundir.Flag{Kind: kind, About: c.About, Variant: variant, Detail: found, Biases: c.Biases, Disturbs: disturbs}
}

// unknown records a check that could not be made.
func (x *examination) unknown(kind string, why *rundir.Message) { x.add(notMade(kind, why)) }

// notMade is a check that could not be made.
func notMade(kind string, why *rundir.Message) rundir.Check {
	return rundir.Check{Kind: kind, Outcome: rundir.CheckUnknown, Detail: why}
}

// compare records a figure that must not be above its limit.
func (x *examination) compare(kind string, measured, limit float64, bad string, found *rundir.Message) {
	x.add(compared(kind, measured, limit, bad, found))
}

// compared is the check of a figure that must not be above its limit. If it is above, the outcome
// is bad, and found describes it.
func compared(kind string, measured, limit float64, bad string, found *rundir.Message) rundir.Check {
	c := rundir.Check{Kind: kind, Measured: &measured, Limit: &limit, Outcome: rundir.CheckOK}
	if measured > limit {
		c.Outcome, c.Detail = bad, found
	}
	return c
}

func (x *examination) conserved() {
	c := rundir.Check{Kind: FlagConservation, Outcome: rundir.CheckOK}
	if !x.Trial.Conservation.OK {
		c.Outcome, c.Detail = rundir.CheckDisturbed, new(texts.New("found.conservation", "error", x.Trial.Conservation.Detail))
		if x.Trial.Conservation.Detail == "" {
			c.Detail = new(texts.New("found.conservation.unsaid"))
		}
	}
	x.add(c)
}

func (x *examination) complete() bool {
	c := rundir.Check{Kind: FlagIncomplete, Outcome: rundir.CheckOK}
	if !x.Trial.Complete {
		c.Outcome, c.Detail = rundir.CheckDisturbed, new(texts.New("found.incomplete.unended"))
		if x.Trial.Fault == rundir.FaultTarget {
			c.Outcome, c.About = rundir.CheckBroken, rundir.AboutTarget
		}
		if x.Trial.Fault == rundir.FaultAgent {
			c.About = rundir.AboutGenerator
		}
		if x.Trial.Error != "" {
			t := *x.Trial
			t.Error, _, _ = strings.Cut(t.Error, "\n")
			t.Error = strings.TrimSuffix(t.Error, "; last output:") // which is on the lines below
			why := t.Failure()
			if why.Kind == texts.Others {
				why = texts.New("found.incomplete", "error", t.Error)
			}
			c.Detail = &why
		}
	}
	x.add(c)
	return x.Trial.Complete || x.Substitute
}

// remarks records what the target did that makes no figure wrong but that a reader has to know.
// Without such a finding the trial has no check of its kind.
func (x *examination) remarks() {
	remark := func(kind string, n int64, found *rundir.Message) {
		if n > 0 {
			x.compare(kind, float64(n), 0, rundir.CheckWarning, found)
		}
	}
	c := x.Trial.Connections
	found, late := new(texts.New("found.unopened", "n", units.Digits(c.Unopened), "of", units.Digits(c.Requested))), c.Unopened
	if s := x.Trial.Streams; s != nil && late == 0 {
		found, late = new(texts.New("found.unopened.subscribers", "n", units.Digits(s.Untried), "of", units.Digits(s.Requested))), s.Untried
	}
	if exhausted(x.Trial) == 0 {
		remark(FlagUnopened, late, found)
	}
	if n := x.Trial.Counts.ByStatus["409"]; 2*n > x.Trial.Counts.Sent {
		remark(FlagConflicts, n, new(texts.New("found.conflicts", "n", units.Digits(n), "of", units.Digits(x.Trial.Counts.Sent))))
	}
	// A scenario's steps say what they expect.
	if n := redirected(x.Trial); x.Trial.Users == nil && x.Trial.Counts.Redirects == nil {
		remark(FlagRedirects, n, new(texts.New("found.redirects", "n", units.Digits(n), "of", units.Digits(x.Trial.Counts.Sent))))
	}
	var ways []texts.Message
	most := int64(0)
	for _, way := range slices.Sorted(maps.Keys(x.Trial.Deviations)) {
		n := x.Trial.Deviations[way]
		ways, most = append(ways, texts.New("deviation."+way, "n", units.Digits(n))), max(most, n)
	}
	departs := texts.New("found.deviations").With("ways", ways...)
	remark(FlagDeviations, most, &departs)
}

// redirected counts the responses that lead to another address (RFC 9110, section 15.4).
func redirected(t *rundir.Trial) (n int64) {
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		n += t.Counts.ByStatus[status]
	}
	return n
}

// lag judges how late the generator was. The generator's lag is the part of the send lag
// that is not due to waiting for a connection. A log without it is judged by the whole
// send lag, which is never less.
func (x *examination) lag() {
	times := x.latest()
	generator := lagTag(times)
	if x.Open() {
		x.lagBody(times, generator)
	}
	// In a closed loop the reported percentiles are service times, which begin at the
	// write. There lag reduces throughput but does not bias the percentiles.
	tail, of := times.Quantile(generator, 1000), times.Quantile(x.reported(), 100)
	if tail == nil || of == nil {
		x.unknown(FlagGeneratorLagTail, new(texts.New("unchecked.tail")))
		return
	}
	x.compare(FlagGeneratorLagTail, *tail, max(TailLagFloor.Seconds(), TailLagShare**of), rundir.CheckWarning,
		new(texts.New("found.generator_lag_tail", "lag", units.ShortTime(*tail), "floor", units.ShortTime(TailLagFloor.Seconds()), "share", units.Percent(TailLagShare), "of", units.ShortTime(*of))))
}

// reported is the tag of the percentiles that are reported.
func (x *examination) reported() string {
	if x.Open() {
		return rundir.TagResponse
	}
	return rundir.TagService
}

// lagTag is the tag by which the generator's lag is judged.
func lagTag(times recording.Times) string {
	if times[rundir.TagGeneratorLag] == nil {
		return rundir.TagSendLag
	}
	return rundir.TagGeneratorLag
}

// latest returns the times by which the generator's lag is judged: those of the stage in which its tail is the longest
// share of the time that is reported. The others would hide that.
func (x *examination) latest() recording.Times {
	worst, most := x.Times, 0.0
	for _, s := range x.Stages {
		tail, of := s.Times.Quantile(lagTag(s.Times), 1000), s.Times.Quantile(x.reported(), 100)
		if tail == nil || of == nil || *of <= 0 {
			continue
		}
		if share := *tail / *of; share > most {
			worst, most = s.Times, share
		}
	}
	return worst
}

// lagBody judges the p99 of the generator's lag, and also whether requests waited for a
// connection.
func (x *examination) lagBody(times recording.Times, generator string) {
	p99, p50 := times.Quantile(generator, 100), times.Quantile(rundir.TagResponse, 2)
	if p99 == nil || p50 == nil {
		x.unknown(FlagGeneratorLag, new(texts.New("unchecked.lag")))
		x.raise(FlagLagNotChecked, false, new(texts.New("unchecked.lag")))
		x.unknown(FlagConnectionLimit, new(texts.New("unchecked.requests")))
		return
	}
	limit := max(LagFloor.Seconds(), LagShare**p50)
	x.compare(FlagGeneratorLag, *p99, limit, rundir.CheckWarning,
		new(texts.New("found.generator_lag", "lag", units.ShortTime(*p99), "most", units.ShortTime(limit), "floor", units.ShortTime(LagFloor.Seconds()), "share", units.Percent(LagShare))))
	switch send := times.Quantile(rundir.TagSendLag, 100); {
	case send == nil:
		x.unknown(FlagConnectionLimit, new(texts.New("unchecked.send_lags")))
	case *p99 > limit:
		x.unknown(FlagConnectionLimit, new(texts.New("unchecked.generator_late")))
	case !x.fewConnections:
		x.compare(FlagConnectionLimit, *send, limit, rundir.CheckWarning,
			new(texts.New("found.connection_limit", "lag", units.ShortTime(*send), "own", units.ShortTime(*p99))))
	}
}

// connectionsNeeded judges by Little's law whether dyno had too few connections. It uses the target's time while some
// connections were free. It makes no check if that time grew once none were free. The target may then be at its own
// limit, where requests also wait, and longer the more there are. In a search, probes with fewer connections show that.
func (x *examination) connectionsNeeded() {
	t := x.Trial
	c, mean := &t.Connections, t.Times[rundir.TagService].Mean
	if t.Purpose == rundir.PurposeProbe || mean == nil || !(c.Unqueued > 0 && t.WindowSeconds > 0) || *mean > Queued*c.Unqueued || IsSaturated(t) {
		return
	}
	atOnce := c.Users()
	if l := t.Loaded; l != nil && l.Allowed > 0 {
		atOnce = min(atOnce, c.Requested*l.Allowed)
	}
	time := min(c.Unqueued, *mean)
	due, most := float64(t.Counts.Scheduled)/t.WindowSeconds, float64(atOnce)/time
	x.fewConnections = due > most
	found := "found.few_connections"
	if l := t.Loaded; c.Multiplexed > 0 && (l == nil || l.Allowed == 0 || l.Allowed > max(1, c.Streams)) {
		found = "found.few_connections.streams"
	}
	x.compare(FlagFewConnections, due, most, rundir.CheckDisturbed, new(texts.New(found, "n", units.Digits(c.Requested),
		"at_once", units.Digits(atOnce), "time", units.ShortTime(time), "most", units.FourDigits(most), "due", units.FourDigits(due))))
}

// drops judges whether requests were dropped. It is the target's doing unless dyno had too few connections.
func (x *examination) drops() {
	c := x.Trial.Counts
	dropped, outcome := c.Dropped-c.Unsent, rundir.CheckBroken // those are the generator's own
	if x.fewConnections {
		outcome = rundir.CheckOK
	}
	x.compare(FlagDrops, float64(dropped), 0, outcome,
		new(texts.New("found.drops", "n", units.Digits(dropped), "of", units.Digits(c.Scheduled))))
}

// achieved judges whether the load was the load that was asked for. All that was due must
// have been sent, within RateTolerance. The number due may differ from the rate's by as
// much, or by what chance explains.
func (x *examination) achieved() {
	// Requests that were dropped because the target left no connection free were offered
	// to it.
	c := x.Trial.Counts
	sent, due := float64(c.Sent+c.Dropped-c.Unsent), float64(c.Scheduled)
	rate, window := x.Rate(), x.Trial.WindowSeconds
	if off := differ(sent, due); off > RateTolerance || rate == nil || !(*rate > 0 && window > 0) {
		x.compare(FlagAchievedRate, off, RateTolerance, rundir.CheckDisturbed,
			new(texts.New("found.achieved_rate", "sent", fmt.Sprintf("%.0f", sent), "due", fmt.Sprintf("%.0f", due), "share", units.Percent(off))))
		return
	}
	if u := x.Trial.Users; u != nil { // the rate is that of iterations, whose requests are further ones
		sent = float64(u.Arrivals)
	}
	wanted := *rate * window
	off := differ(sent, wanted)
	x.compare(FlagAchievedRate, off, max(RateTolerance, chance/math.Sqrt(wanted)), rundir.CheckDisturbed,
		new(texts.New("found.achieved_rate.rate", "sent", units.FourDigits(sent/window), "wanted", units.FourDigits(*rate), "share", units.Percent(off))))
}

// differ returns |is−want| as a share of want.
func differ(is, want float64) float64 {
	if want == 0 {
		return 0
	}
	return math.Abs(is-want) / want
}

// backlog judges whether more and more requests of a probe waited: those that are due faster than the target answers
// may be answered after the window. By Little's law a backlog also grows until the first requests are answered, however
// fast the target is. A pause at the end leaves a backlog, too. So the growth has a limit: the requests due, minus
// those that the target answers in a window at its fastest rate.
func (x *examination) backlog() {
	c, window := &x.Trial.Counts, x.Trial.WindowSeconds
	if x.Trial.Purpose != rundir.PurposeProbe || c.Scheduled <= 0 || window <= 0 {
		return
	}
	// An answer may reach the kernel before the window and be read in it. It counts as completed in the window,
	// and nowhere else.
	left := max(0, float64(c.Answered()-c.CompletedInWindow+c.Unfinished+c.Carried.Unfinished))
	due := float64(c.Scheduled)
	grown := min(left-float64(c.Carried.Scheduled), due-x.fastest(window/2)*window)
	x.compare(FlagBacklog, max(0, grown/due), BacklogTolerance+BacklogChance*math.Sqrt(left)/due, rundir.CheckWarning,
		new(texts.New("found.backlog", "n", units.Digits(int64(left)), "before", units.Digits(c.Carried.Scheduled))))
}

// fastest is the highest rate at which requests ended in a stretch of the given length. Stretches follow each other
// from the window's beginning until the last request ended.
func (x *examination) fastest(stretch float64) (rate float64) {
	counted := recording.CountedTag(x.Plan)
	var count, seconds [64]float64
	for _, i := range x.Log {
		n := int((i.Start.Seconds() - x.Trial.WarmupSeconds) / stretch)
		if i.Tag == counted && n >= 0 && n < len(count) {
			count[n], seconds[n] = count[n]+float64(i.Hist.Count()), seconds[n]+i.Length.Seconds()
		}
	}
	for n := range count {
		if seconds[n] >= stretch/2 {
			rate = max(rate, count[n]/seconds[n])
		}
	}
	return rate
}

// unfinished judges how much of the tail is censored on the right: such requests took at
// least as long as dyno waited for them.
func (x *examination) unfinished() {
	c := x.Trial.Counts
	if c.Sent <= 0 {
		x.unknown(FlagUnfinished, new(texts.New("unchecked.unsent")))
		return
	}
	if age, n := x.unanswered(); n > 0 {
		x.breaks(FlagUnfinished, float64(n)/float64(c.Sent), 0, true,
			new(texts.New("found.unfinished.unanswered", "n", units.Digits(n), "of", units.Digits(c.Sent), "time", units.ShortTime(age))))
		return
	}
	x.compare(FlagUnfinished, float64(c.Unfinished)/float64(c.Sent), UnfinishedLimit, rundir.CheckWarning,
		new(texts.New("found.unfinished", "n", units.Digits(c.Unfinished), "of", units.Digits(c.Sent))))
}

// subscribers judges whether there were as many as planned: with fewer, each event cost
// the target less. Subscribers that the target asked to stay away are missing because it
// wants that.
func (x *examination) subscribers() {
	s := x.Trial.Streams
	missing := s.Requested - s.Peak - s.Closed
	outcome := rundir.CheckBroken
	if s.Generator > 0 {
		outcome = rundir.CheckWarning // a shortage of dyno's own is judged by itself
	}
	x.compare(FlagSubscribers, float64(max(0, missing)), 0, outcome,
		new(texts.New("found.subscribers", "n", units.Digits(s.Peak), "of", units.Digits(s.Requested))))
}

// generator judges whether the generator had the CPU that it needed.
func (x *examination) generator() {
	all := generators(x.Trial)
	if x.Open() {
		x.worst(all, x.busy)
	}
	x.worst(all, x.starved)
	if !x.Open() {
		x.worst(all, x.exhausted)
	}
}

const notObserved = "unchecked.unobserved"

// ShortestBusy is the shortest window in which the generator's CPU use means anything:
// with a handful of requests, it is as busy as it can be with opening connections.
const ShortestBusy = 50 * time.Millisecond

// busy judges how much of its CPUs the generator of an open loop used.
func (x *examination) busy(g *generator) rundir.Check {
	if g.CPUShare == nil {
		return notMade(FlagGeneratorCPU, new(texts.New(notObserved)))
	}
	return compared(FlagGeneratorCPU, *g.CPUShare, BusyGenerator, rundir.CheckDisturbed,
		new(texts.New("found.generator_cpu", "share", units.Percent(*g.CPUShare), "most", units.Percent(BusyGenerator))))
}

// starved judges for how long the generator was ready to run and had no CPU. On CPUs that it shares with the target,
// only the part that other programs used counts: the rest is its wait for the target.
func (x *examination) starved(g *generator) rundir.Check {
	wait, target := g.RunQueueWaitShare, &x.Trial.Target
	if wait == nil {
		return notMade(FlagRunQueue, new(texts.New(notObserved)))
	}
	if others := target.ForeignShare; others != nil && g.agent == "" {
		if *others <= TickError {
			others = new(0.)
		}
		wait = new(min(*wait, *others*TargetCPUs(x.Trial)))
	}
	switch found := new(texts.New("found.run_queue_wait", "share", units.Percent(*wait), "most", units.Percent(StarvedGenerator))); {
	case *wait <= StarvedGenerator:
	case x.Open():
		return compared(FlagRunQueue, *wait, StarvedGenerator, rundir.CheckDisturbed, found)
	case target.CPUShare != nil && !IsSaturated(x.Trial):
		found.Kind, found.Values["target"] = "found.run_queue_wait.idle", units.Percent(*target.CPUShare)
		return compared(FlagRunQueue, *wait, StarvedGenerator, rundir.CheckDisturbed, found)
	}
	limit := RunQueueLimit
	if n := g.TimeslicesPerSecond; n != nil {
		limit += *n * WakeupCost.Seconds()
	}
	return compared(FlagRunQueue, *wait, limit, rundir.CheckWarning,
		new(texts.New("found.run_queue_wait", "share", units.Percent(*wait), "most", units.Percent(limit))))
}

// exhausted judges whether the generator had time to spare in a closed loop. The wait is
// that of the worst worker, and the CPU time is the mean over workers. So the sum errs on
// the side of the limit.
func (x *examination) exhausted(g *generator) rundir.Check {
	target := x.Trial.Target.CPUShare
	if g.CPUShare == nil {
		return notMade(FlagGeneratorLimit, new(texts.New(notObserved)))
	}
	if window := x.Trial.WindowSeconds; window < ShortestBusy.Seconds() {
		return notMade(FlagGeneratorLimit, new(texts.New("unchecked.window", "time", units.ShortTime(window))))
	}
	occupied := *g.CPUShare
	if g.RunQueueWaitShare != nil {
		occupied += *g.RunQueueWaitShare
	}
	limit := ExhaustedGenerator
	switch {
	case target == nil:
		return compared(FlagGeneratorLimit, occupied, limit, rundir.CheckWarning,
			new(texts.New("found.generator_limit.unknown", "share", units.Percent(occupied))))
	case !IsSaturated(x.Trial):
		return compared(FlagGeneratorLimit, occupied, limit, rundir.CheckDisturbed,
			new(texts.New("found.generator_limit", "share", units.Percent(occupied), "target", units.Percent(*target))))
	}
	return rundir.Check{Kind: FlagGeneratorLimit, Measured: &occupied, Limit: &limit, Outcome: rundir.CheckOK,
		Detail: new(texts.New("found.generator_limit.saturated", "target", units.Percent(*target)))}
}

// machine judges the disturbances by the machines: dyno's own, where the target may be, and those of the generator.
func (x *examination) machine() {
	all := append([]generator{{machine: &x.Trial.Machine}}, ofAgents(x.Trial)...)
	noise := func(kind string, warn, bad float64, of func(*rundir.Machine) *float64) {
		x.worst(all, func(g *generator) rundir.Check { return noisy(kind, of(g.machine), warn, bad) })
	}
	noise(FlagSteal, StealWarn, StealBad, func(m *rundir.Machine) *float64 { return m.StealShare })
	x.worst(all, x.foreign)
	if x.SharesCPUs() {
		x.unknown(FlagLateWakeups, new(texts.New("unchecked.shared")))
	} else {
		x.worst(generators(x.Trial), lateWakeups)
	}
	noise(FlagMemoryPressure, StallWarn, StallBad, func(m *rundir.Machine) *float64 { return m.MemoryStall })
	noise(FlagIOPressure, StallWarn, StallBad, func(m *rundir.Machine) *float64 { return m.IOStall })
}

// foreign judges what other programs used of a machine. On an agent's it is at most a warning: how long the agent
// waited for a CPU says what that cost.
func (x *examination) foreign(g *generator) rundir.Check {
	share, bad := g.machine.ForeignShare, ForeignBad
	if share != nil && x.Trial.Target.CPUShare == nil {
		return notMade(FlagForeignCPU, new(texts.New("unchecked.target_cpu")))
	}
	if g.agent != "" {
		bad = 1
	}
	return noisy(FlagForeignCPU, share, ForeignWarn, bad)
}

func lateWakeups(g *generator) rundir.Check {
	share := g.machine.LateWakeupShare
	if share == nil {
		return notMade(FlagLateWakeups, new(texts.New(notObserved)))
	}
	return compared(FlagLateWakeups, *share, LateWarn, rundir.CheckWarning,
		new(texts.New("found.late_wakeups", "share", units.Percent(*share))))
}

// noisy is the check of a share that is a warning above warn and disturbs the trial above bad.
func noisy(kind string, share *float64, warn, bad float64) rundir.Check {
	if share == nil {
		return notMade(kind, new(texts.New(notObserved)))
	}
	found := new(texts.New("found."+kind, "share", units.Percent(*share)))
	if *share > bad {
		return compared(kind, *share, bad, rundir.CheckDisturbed, found)
	}
	return compared(kind, *share, warn, rundir.CheckWarning, found)
}

// Disturbed judges how much of the window was disturbed, and by what, once that is known.
func Disturbed(s recording.Recording, known bool, taken float64, by []string) ([]rundir.Check, []rundir.Flag) {
	x := examination{Recording: s}
	if !known {
		x.unknown(FlagDisturbed, new(texts.New(notObserved)))
		return x.checks, x.flags
	}
	var causes []rundir.Message
	for _, kind := range by {
		causes = append(causes, texts.New("cause", "cause", kind))
	}
	x.compare(FlagDisturbed, taken, DisturbedBad, rundir.CheckDisturbed,
		new(texts.New("found.disturbed", "share", units.Percent(taken)).With("causes", causes...)))
	return x.checks, x.flags
}
