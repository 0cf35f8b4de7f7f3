// Package disturbance finds what disturbed a trial: in which stretches of its window, how much
// of it, and how many requests may have been delayed. It goes by signs of the machine and of the
// generator, and by no latency: a stall of the target is what dyno wants to measure.
package disturbance

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const (
	// leastDelay is the delay that is assumed to affect a figure. noticeableShare is the share
	// of a latency that is assumed to affect it, if that is more.
	leastDelay      = 50 * time.Microsecond
	noticeableShare = 0.02
	// stolenStretch is the share of some CPUs' time, stolen between two readings, that
	// marks the stretch between them. pressedStretch is the same for memory or disks.
	stolenStretch  = 0.10
	pressedStretch = 0.10
	// LongStall is the delay from which the whole stretch counts as disturbed. For
	// shorter delays requests are counted: a virtual machine has some of them in each
	// second, and each affects a handful.
	LongStall = time.Millisecond
	// edgeStretch is how close to an end of the window a disturbance moves responses
	// across it, in seconds.
	edgeStretch = 0.01
	// sampled is the time between a sleeper's wake-ups. Each wake-up tells whether the
	// CPU was available at one moment.
	sampled = 5 * time.Millisecond
	// shortestTurn and longestTurn are how long a program keeps a CPU that it shares.
	shortestTurn = time.Millisecond
	longestTurn  = 4 * time.Millisecond
	// longestGuard bounds the assumed time that a queue takes to drain.
	longestGuard = time.Second
)

// A Disturbance describes a trial's disturbed stretches. A stretch is an interval of the
// trial's log.
type Disturbance struct {
	Known bool            // there was an observer that could notice it
	Clean recording.Times // recorded in the other stretches
	// Share is of the window, in disturbed stretches.
	Share     float64
	Moved     float64      // share of the requests that may have moved noticeably
	Taken     float64      // share of the window in which another program had a CPU that was wanted
	Shortened []Shortening // by a late generator
	Lost      LostTime
	AtEdge    bool // an end of the window is disturbed
	// These are the inputs of Contaminated.
	counted float64         // share of the window between readings of steal or pressure
	Window  float64         // seconds
	stalls  []float64       // how late sleepers woke, seconds
	lags    *hist.Histogram // of the generator in an open loop; nil: none
	Foreign float64         // share of the target's time that others took
	idle    float64         // share of the window, of a closed loop's generator without a CPU
	follow  float64         // how long a delay's consequences last, as a share of it
	inside  float64         // seconds that a request is inside the target
	Works   []float64       // how long the same work took the target's CPUs, reading by reading, seconds
	// signs holds, for each kind of check, how much of the window it marks.
	signs map[string]float64
	// Whole holds the kinds of checks that leave no stretch of the trial clean.
	Whole []string
}

// A LostTime is the share of the window in which the generator, or the target, could have
// worked but had no CPU.
type LostTime struct {
	Generator, Target float64
	Stolen            float64 // of the target's: by the hypervisor, and not by other programs
}

// A span is a stretch of the trial's time line, in seconds.
type span struct {
	from, to float64
	sign     string
}

// Noticeable is the delay, in seconds, that is assumed to affect a latency.
func Noticeable(latency float64) float64 {
	return max(leastDelay.Seconds(), noticeableShare*latency)
}

// A detector looks for what disturbed a trial.
type detector struct{ recording.Recording }

// Find finds a trial's disturbed stretches.
func Find(of recording.Recording, flags []rundir.Flag) *Disturbance {
	s := &detector{of}
	d := &Disturbance{Known: s.StallsKnown, Clean: recording.Times{}, signs: map[string]float64{}, Lost: s.lostBy()}
	s.count(d)
	for _, f := range flags {
		if f.Spoils && checks.DisturbsWhole(f.Kind) && !slices.Contains(d.Whole, f.Kind) {
			d.Whole = append(d.Whole, f.Kind)
		}
	}
	spans := s.disturbedSpans()
	if d.Window > 0 {
		for _, at := range apart(s.readSpans()) {
			d.counted += max(0, min(at.to, s.Trial.WarmupSeconds+d.Window)-max(at.from, s.Trial.WarmupSeconds)) / d.Window
		}
	}
	d.Shortened = s.shorten(d.idle)
	stretches := map[span]string{} // of the window's intervals: what disturbs them
	for _, i := range s.Log {
		if rundir.IsStepTag(i.Tag) {
			continue // one interval for the whole window: no stretch
		}
		at := span{from: i.Start.Seconds(), to: (i.Start + i.Length).Seconds()}
		if _, seen := stretches[at]; !seen {
			stretches[at] = touched(at, spans)
		}
		if stretches[at] == "" && len(d.Whole) == 0 {
			d.Clean.Add(i.Tag, i.Hist)
		}
	}
	begin, end := s.Trial.WarmupSeconds, s.Trial.WarmupSeconds+s.Trial.WindowSeconds
	for at, sign := range stretches {
		length := min(at.to, end) - max(at.from, begin)
		if sign == "" || !(length > 0) || !(s.Trial.WindowSeconds > 0) {
			continue
		}
		part := length / s.Trial.WindowSeconds
		d.Share += part
		d.signs[sign] += part
	}
	d.AtEdge = touched(span{from: begin - edgeStretch, to: begin + edgeStretch}, spans) != "" || touched(span{from: end - edgeStretch, to: end + edgeStretch}, spans) != ""
	d.Share = min(d.Share, 1)
	if len(d.Whole) > 0 {
		d.Share = 1
	}
	d.Moved = d.DelayedShare(s.noticed())
	d.Taken = d.Lost.Generator + d.Lost.Target
	for _, late := range d.stalls {
		if d.Window > 0 {
			d.Taken += late / d.Window
		}
	}
	if d.Taken = min(d.Taken, 1); len(d.Whole) > 0 {
		d.Taken = 1
	}
	d.Clean.Pack()
	return d
}

// touched returns the sign of the span that overlaps a stretch, or "" for none. The spans
// are in order and do not overlap.
func touched(at span, spans []span) string {
	n, _ := slices.BinarySearchFunc(spans, at.to, func(s span, to float64) int { return cmp.Compare(s.from, to) })
	if n > 0 && spans[n-1].to > at.from {
		return spans[n-1].sign
	}
	return ""
}

// apart joins spans that overlap. The sign is that of the first.
func apart(spans []span) (joined []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// disturbedSpans returns the disturbed spans in order, without overlaps. Each includes
// the guard time after it.
func (s *detector) disturbedSpans() (spans []span) {
	long := max(s.noticed(), LongStall.Seconds())
	for _, stall := range s.Stalls {
		if s.SharesCPUs() {
			break // its own target's work keeps a sleeper waiting
		}
		late := stall.Late.Seconds()
		if late <= long || !s.StallInWindow(stall) {
			continue
		}
		spans = append(spans, span{stall.Due.Seconds(), stall.Due.Seconds() + late + s.guard(late), checks.FlagLateWakeups})
	}
	if s.Open() && !s.SharesCPUs() {
		for _, i := range s.Log {
			if i.Tag != rundir.TagGeneratorLag || i.Hist.Count() == 0 {
				continue
			}
			if late := recording.Seconds(float64(i.Hist.Max())); late > long {
				spans = append(spans, span{i.Start.Seconds(), (i.Start + i.Length).Seconds() + s.guard(late), checks.FlagGeneratorLag})
			}
		}
	}
	return apart(append(spans, s.readSpans()...))
}

// readSpans returns the spans that counters reveal. They are as long as the time between
// two readings.
func (s *detector) readSpans() (spans []span) {
	spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "generator_cpus_cpu_steal_seconds", "generator_cpus_cpu_seconds")...)
	spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "target_cpus_cpu_steal_seconds", "target_cpus_cpu_seconds")...)
	if s.Series != nil && s.Series.Column("generator_cpus_cpu_seconds") == nil {
		spans = append(spans, s.readings(checks.FlagSteal, stolenStretch, "machine_cpu_steal_seconds", "machine_cpu_seconds")...)
	}
	spans = append(spans, s.readings(checks.FlagMemoryPressure, pressedStretch, "machine_memory_stall_seconds", rundir.TimeColumn)...)
	spans = append(spans, s.readings(checks.FlagIOPressure, pressedStretch, "machine_io_stall_seconds", rundir.TimeColumn)...)
	return spans
}

// count stores the inputs of Contaminated.
func (s *detector) count(d *Disturbance) {
	for _, stall := range s.Stalls {
		if s.StallInWindow(stall) && !s.SharesCPUs() {
			d.stalls = append(d.stalls, stall.Late.Seconds())
		}
	}
	if s.Open() && !s.SharesCPUs() {
		d.lags = s.Times[rundir.TagGeneratorLag]
	}
	d.Foreign = s.foreign()
	if waited := s.grown("target_run_queue_wait_seconds"); s.Trial.WindowSeconds > 0 && waited >= 0 {
		// Of the time that others use, a target only feels the part that it had to wait
		// for.
		d.Foreign = min(d.Foreign, waited/s.Trial.WindowSeconds)
	}
	if !s.Open() {
		d.idle = d.Lost.Generator
	}
	d.Window, d.follow, d.Works = s.Trial.WindowSeconds, s.follow(), s.works()
	if p90 := s.Times.Quantile(s.Plan.Latency(), 10); p90 != nil {
		d.inside = *p90
	}
}

// Contaminated is the share of a trial's requests that may have moved a figure, by delays
// of more than epsilon seconds and at most as many as given. It is a count and not a place: it
// does not tell which requests they are.
//
// First, a sleeper's wake-ups are samples of its CPU. Each late wake-up stands for as
// much time as lies between two wake-ups, and for no less than the stall. On average the
// stall had begun as long before the wake-up as it lasted after. The requests inside the
// target when the stall began, and its consequences, are added.
//
// Second, in an open loop the generator's lag is known for each request. Each late
// request disturbs those after it.
//
// Third, requests find the target's CPUs taken in proportion to what others use of them,
// and so do the requests inside the target at each of the others' turns. The same is true
// of the CPUs of a closed loop's generator, which then reads late.
func (d *Disturbance) Contaminated(epsilon, most float64) (share float64, kinds []string) {
	of := map[string]float64{}
	if epsilon < longestTurn.Seconds() { // their turns are no longer
		of[checks.FlagForeignCPU] = d.Foreign * (1 + d.follow + d.inside/shortestTurn.Seconds())
		of[checks.FlagRunQueue] = d.idle * (1 + d.inside/shortestTurn.Seconds())
	}
	for _, late := range d.stalls {
		if whole := late + min(late, sampled.Seconds()); whole > epsilon && late <= most && d.Window > 0 {
			stood := max(sampled.Seconds(), whole)
			of[checks.FlagLateWakeups] += (stood + min(late*d.follow, longestGuard.Seconds()) + d.inside) / d.Window
		}
	}
	if d.lags != nil && d.lags.Count() > 0 {
		late := d.lags.Count() - d.lags.CountAtOrBelow(int64(epsilon*1e9))
		if !math.IsInf(most, 1) {
			late -= d.lags.Count() - d.lags.CountAtOrBelow(int64(most*1e9))
		}
		of[checks.FlagGeneratorLag] = float64(max(late, 0)) * (1 + d.follow) / float64(d.lags.Count())
	}
	for _, kind := range []string{checks.FlagForeignCPU, checks.FlagGeneratorLag, checks.FlagLateWakeups, checks.FlagRunQueue} {
		if of[kind] > 0 {
			share, kinds = share+of[kind], append(kinds, kind)
		}
	}
	return min(share, 1), kinds
}

// DelayedShare is the share of a trial's requests that may have been delayed by more than
// epsilon seconds. It goes by count alone: no stretch is left out. It is all of them
// where the generator was the limit.
func (d *Disturbance) DelayedShare(epsilon float64) float64 {
	if slices.ContainsFunc(d.Whole, checks.LimitsGenerator) {
		return 1
	}
	share, _ := d.Contaminated(epsilon, math.Inf(1))
	return min(share+d.counted, 1)
}

// noticed is the delay, in seconds, that affects the trial's figures.
func (s *detector) noticed() float64 {
	median := 0.0
	if p50 := s.Times.Quantile(s.Plan.Latency(), 2); p50 != nil {
		median = *p50
	}
	return Noticeable(median)
}

// guard is how long, in seconds, the consequences of a delay last: until the requests
// that piled up are served, next to those that continue to arrive, and are recorded. The
// busy period that a delay opens in a queue of utilization ρ is as long as the delay
// times ρ/(1−ρ).
func (s *detector) guard(late float64) float64 {
	drained := min(late*s.follow(), longestGuard.Seconds())
	if p90 := s.Times.Quantile(s.Plan.Latency(), 10); p90 != nil {
		drained += *p90
	}
	return drained
}

// follow is the length of the busy period after a delay, as a share of the delay. For a
// target whose CPU is not its limit, its CPU time underestimates this. In a closed loop
// nothing piles up: all users wait already, and once they have been served the delay is
// over.
func (s *detector) follow() float64 {
	if !s.Open() {
		return 0
	}
	utilization := 0.5
	if share := s.Trial.Target.CPUShare; share != nil {
		utilization = min(max(*share, utilization), 0.99)
	}
	return utilization / (1 - utilization)
}

// readings returns the spans between two readings in which a counter grew by more than a
// share of another.
func (s *detector) readings(sign string, share float64, part, whole string) (spans []span) {
	if s.Series == nil {
		return nil
	}
	at, parts, wholes := s.Series.Column(rundir.TimeColumn), s.Series.Column(part), s.Series.Column(whole)
	if parts == nil || wholes == nil {
		return nil
	}
	for i := 1; i < len(at); i++ {
		if grown := wholes[i] - wholes[i-1]; grown > 0 && parts[i]-parts[i-1] > share*grown && (s.InWindow(at[i]) || s.InWindow(at[i-1])) {
			late := parts[i] - parts[i-1]
			spans = append(spans, span{at[i-1], at[i] + s.guard(late), sign})
		}
	}
	return spans
}

// A Shortening describes what late sends of a closed loop may have done to the requests
// that came in time: so many met a queue that was shorter by at most so many seconds of
// work.
type Shortening struct{ Requests, By float64 }

// shorten returns how many requests of a closed loop a late generator may have made look
// faster than they would have been, and by how much. While the generator does not send,
// the target works off its queue, and the next request of each connection meets a shorter
// queue. This affects no more than one request for each connection and stall, by no more
// than the stall. A sleeper notices a stall shorter than its sleep only now and then, and
// that one stands for the others. In an open loop a late request only makes others wait,
// and its own time counts from when it was due.
func (s *detector) shorten(idle float64) (all []Shortening) {
	if s.Open() || s.OnlySubscribers() {
		return nil
	}
	epsilon, requests := s.noticed(), 0.0
	if h := s.Times[s.Plan.Latency()]; h != nil {
		requests = float64(h.Count())
	}
	for _, stall := range s.Stalls {
		if late := stall.Late.Seconds(); !stall.Target && late > epsilon && s.StallInWindow(stall) {
			whole := late + min(late, sampled.Seconds())
			all = append(all, Shortening{float64(max(s.Plan.Connections, 1)) * max(1, sampled.Seconds()/whole), whole})
		}
	}
	if idle > 0 {
		all = append(all, Shortening{idle * requests, longestTurn.Seconds()})
	}
	return all
}

// foreign is the share of the target's CPUs' time that others used. The trial's own
// figure is of all CPUs. It is used as if all of it had been taken from the target's
// CPUs.
func (s *detector) foreign() float64 {
	all := s.Trial.Target.ForeignShare
	if all == nil {
		return 0
	}
	if busy, own, of := s.grown("target_cpus_cpu_busy_seconds"), s.grown("target_cpu_seconds"), s.grown("target_cpus_cpu_seconds"); of > 0 && !math.IsNaN(busy-own) {
		// If the generator shares these CPUs, its time is in that figure.
		return max(0, min(*all, (busy-own)/of))
	}
	return max(0, *all)
}

// grown returns by how much a counter grew in the window; NaN where that is not known.
func (s *detector) grown(column string) float64 {
	if s.Series == nil {
		return math.NaN()
	}
	at, values := s.Series.Column(rundir.TimeColumn), s.Series.Column(column)
	if values == nil {
		return math.NaN()
	}
	first, last := math.NaN(), math.NaN()
	for i, v := range values {
		if !s.InWindow(at[i]) || math.IsNaN(v) {
			continue
		}
		if math.IsNaN(first) {
			first = v
		}
		last = v
	}
	return last - first
}

// works is how long the same piece of work took on the target's CPUs, in each reading of
// the window.
func (s *detector) works() (all []float64) {
	if s.Series == nil {
		return nil
	}
	at := s.Series.Column(rundir.TimeColumn)
	for i, v := range s.Series.Column("target_wakeup_work_seconds") {
		if v > 0 && s.InWindow(at[i]) && at[i] > s.Trial.WarmupSeconds { // this reading is of the time before the window
			all = append(all, v)
		}
	}
	return all
}

// stalledShare is the share of the window in which the target's CPUs stood still, as a sleeper
// there noticed it. On average a stall had begun as long before the sleeper was due as it
// lasted after, but for no longer than the sleep.
func (s *detector) stalledShare() (share float64) {
	for _, stall := range s.Stalls {
		if !s.SharesCPUs() && stall.Target && stall.Late > LongStall && s.StallInWindow(stall) && s.Trial.WindowSeconds > 0 {
			share += (stall.Late + min(stall.Late, sampled)).Seconds() / s.Trial.WindowSeconds
		}
	}
	return share
}

// lostBy is the time in which a process that could have worked had no CPU.
func (s *detector) lostBy() (l LostTime) {
	g, t := s.Trial.Generator, s.Trial.Target
	if g.RunQueueWaitShare != nil && !s.SharesCPUs() {
		usual := 0.0
		if g.TimeslicesPerSecond != nil {
			usual = *g.TimeslicesPerSecond * checks.WakeupCost.Seconds()
		}
		l.Generator = max(0, *g.RunQueueWaitShare-usual)
	}
	l.Generator += recording.StolenShare(s.Trial, g.StealShare)
	// A program that takes a CPU long enough to be noticed is foreign, too. The time that
	// the clock's ticks charge to others misses programs that run between two ticks.
	l.Stolen = recording.StolenShare(s.Trial, t.StealShare)
	l.Target = l.Stolen + max(s.foreign(), s.stalledShare())
	const most = 0.99
	return LostTime{min(l.Generator, most), min(l.Target, most), min(l.Stolen, most)}
}

// CleanQuantile returns a quantile of the clean stretches, in seconds; nil where too few values
// support it.
func (d *Disturbance) CleanQuantile(tag string, q float64) *float64 {
	h := d.Clean[tag]
	if h == nil || float64(h.Count())*(1-q) < rundir.Beyond-0.5 {
		return nil
	}
	v := recording.Seconds(float64(h.Quantile(q)))
	return &v
}

// Causes lists what disturbed a trial, the largest cause first.
func (d *Disturbance) Causes() []string {
	kinds := slices.SortedFunc(maps.Keys(d.signs), func(a, b string) int {
		return cmp.Or(cmp.Compare(d.signs[b], d.signs[a]), cmp.Compare(a, b))
	})
	return append(slices.Clone(d.Whole), slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(d.Whole, k) })...)
}

// Affected is the share of a tag's values that were recorded in disturbed stretches. In
// a closed loop a stretch in which little was sent counts as much as the others: without
// the disturbance, as much would have been sent.
func (d *Disturbance) Affected(tag string, all *hist.Histogram, closed bool) (bad, of float64) {
	of = float64(all.Count())
	clean := 0.0
	if h := d.Clean[tag]; h != nil {
		clean = float64(h.Count())
	}
	bad = of - clean
	if closed && d.Share < 1 {
		bad = max(bad, clean*d.Share/(1-d.Share))
	}
	return bad, clean + bad
}
