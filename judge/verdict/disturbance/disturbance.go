// Package disturbance finds what disturbed a trial: for how long something else had a CPU
// that was wanted, and how many requests may be late. It goes by signs of the machine
// and of the generator, and by no latency: a stall of the target is what dyno wants to measure.
package disturbance

import (
	"math"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

const (
	// leastDelay is the delay that is assumed to affect a figure. noticeableShare is the share
	// of a latency that is assumed to affect it, if that is more.
	leastDelay      = 50 * time.Microsecond
	noticeableShare = 0.05
	// turn is how long a program keeps a CPU that it shares, and longestTurn the longest time.
	turn        = 3 * time.Millisecond
	longestTurn = 4 * time.Millisecond
	// loadTurns is how late a sleeper on CPUs that the load itself uses may wake because of the load.
	loadTurns = 10 * time.Millisecond
	// sampled is the time between a sleeper's wake-ups. Each wake-up tells whether the
	// CPU was available at one moment.
	sampled = 5 * time.Millisecond
	// longestGuard bounds the assumed time that a queue takes to drain.
	longestGuard = time.Second
)

// A Disturbance describes what disturbed a trial.
type Disturbance struct {
	Known   bool    // there was an observer that could notice it
	Lost    float64 // share of the window: the generator or the target had work to do, and something else the CPU
	Foreign float64 // share of the target's CPUs' time that other programs took from it
	Moved   float64 // share of the requests whose latency may have been moved

	window float64            // seconds
	lostTo map[string]float64 // Lost, by the kind of check that tells of it
	turns  float64            // share of the window: others had the CPU, and requests that are timed waited
	stalls []delay            // of sleepers on the target's CPUs
	lags   *hist.Histogram    // of the generator in an open loop; nil: none
	drain  float64            // how long a delay's consequences last, as a share of it; 0 in a closed loop
	inside float64            // seconds that a request is inside the target
}

// A delay is how long a sleeper's CPU stood still, in seconds, and which share of the load it delayed.
type delay struct{ time, share float64 }

// Noticeable is the delay, in seconds, that is assumed to affect a latency of a resolution.
func Noticeable(resolution, latency float64) float64 {
	return max(resolution, noticeableShare*latency)
}

// A detector looks for what disturbed a trial.
type detector struct{ recording.Recording }

// Find finds what disturbed a trial.
func Find(of recording.Recording) *Disturbance {
	s := &detector{of}
	d := &Disturbance{Known: s.StallsKnown, window: s.Trial.WindowSeconds, drain: s.drain()}
	if p50 := s.Times.Quantile(s.Plan.Latency(), 2); p50 != nil {
		d.inside = *p50
	}
	if s.Open() && !s.SharesCPUs() {
		d.lags = s.Times[rundir.TagGeneratorLag]
	}
	if d.window < checks.ShortestBusy.Seconds() {
		return d // in which most time is spent on opening connections
	}
	stood := 0.0 // share of the window in which the target's CPUs stood still, as a sleeper noticed it
	for _, stall := range s.Stalls {
		if late := stall.Late.Seconds(); s.StallInWindow(stall) && s.delaysTarget(stall) {
			// On average the stall had begun as long before the wake-up as it lasted after.
			d.stalls = append(d.stalls, delay{late + min(late, sampled.Seconds()), s.Delayed(stall)})
			stood += s.Delayed(stall) * late / d.window
		}
	}
	d.lose(s, stood)
	d.Moved, _ = d.Delayed(Noticeable(leastDelay.Seconds(), d.inside))
	return d
}

// lose finds x, the share of the window that was lost: see docs/development/method.md. What others used of the CPUs is lost
// only as far as generator or target waited for a CPU. On CPUs that they share, each also waits for the
// other, which is the load: of the target's waiting, others caused what their share of the CPU time says.
func (d *Disturbance) lose(s *detector, stood float64) {
	t, foreign := s.Trial, s.foreign()
	others, waited, idle := foreign*checks.TargetCPUs(t), s.targetWaited(), s.generatorWaited()
	used := 0.0
	if t.Target.CPUSeconds != nil {
		used = *t.Target.CPUSeconds / d.window
	}
	if t.Target.ForeignShare != nil {
		idle = min(idle, others)
	}
	d.Foreign = min(foreign, waited)
	lost := min(others, waited)
	d.turns = lost
	if g := t.Generator.CPUSeconds; g != nil && t.Target.StealShare == nil && others > 0 && !math.IsInf(waited, 1) {
		d.turns = min(lost, waited*others/(others+*g/d.window))
	}
	if e := t.Ends; !s.Open() && (e == nil || e.ArrivalShare == nil || *e.ArrivalShare < 0.5) {
		d.turns = max(d.turns, idle) // these times end when the generator reads
	}
	if checks.IsSaturated(t) {
		idle = 0 // the target has no time to spare for what the generator does not send
	}
	d.lostTo = map[string]float64{
		checks.FlagForeignCPU:  lost / max(1, lost+used), // of several threads each goes on while another waits
		checks.FlagRunQueue:    idle,
		checks.FlagSteal:       max(recording.StolenShare(t, t.Target.StealShare), recording.StolenShare(t, t.Generator.StealShare)),
		checks.FlagLateWakeups: max(0, stood-foreign),
	}
	for _, share := range d.lostTo {
		d.Lost += share
	}
	d.Lost = min(d.Lost, 0.99)
}

// targetWaited is the share of the window in which the target was ready to run and had no CPU. What each
// wake-up takes does not count. It is infinite where that is not known.
func (s *detector) targetWaited() float64 {
	wait, wakeups := s.grown("target_run_queue_wait_seconds"), s.grown("target_voluntary_switches")
	switch {
	case !(wait >= 0):
		return math.Inf(1)
	case wakeups > 0:
		wait = max(0, wait-wakeups*checks.WakeupCost.Seconds())
	}
	return wait / s.Trial.WindowSeconds
}

// generatorWaited is the share of the window in which the generator was ready to run and had no CPU. What each
// wake-up takes does not count.
func (s *detector) generatorWaited() float64 {
	g := s.Trial.Generator
	if g.RunQueueWaitShare == nil || s.SharesCPUs() {
		return 0
	}
	usual := 0.0
	if g.TimeslicesPerSecond != nil {
		usual = *g.TimeslicesPerSecond * checks.WakeupCost.Seconds()
	}
	return max(0, *g.RunQueueWaitShare-usual)
}

// foreign is the share of the target's CPUs' time that others used. The trial's own
// figure is of all CPUs. It is used as if all of it had been taken from the target's
// CPUs.
func (s *detector) foreign() float64 {
	if s.Trial.Target.ForeignShare == nil {
		return 0
	}
	share := *s.Trial.Target.ForeignShare
	if busy, own, of := s.grown("target_cpus_cpu_busy_seconds"), s.grown("target_cpu_seconds"), s.grown("target_cpus_cpu_seconds"); of > 0 && !math.IsNaN(busy-own) {
		// If the generator shares these CPUs, its time is in that figure.
		share = min(share, (busy-own)/of)
	}
	if share <= checks.TickError {
		return 0
	}
	return share
}

// grown returns by how much a counter grew in the window; NaN where that is not known.
func (s *detector) grown(column string) float64 {
	first, last := math.NaN(), math.NaN()
	if s.Series == nil {
		return last
	}
	at := s.Series.Column(series.TimeColumn)
	for i, v := range s.Series.Column(column) {
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

// delaysTarget tells whether a sleeper's late wake-up means that the target's requests waited, too. The sleeper on the
// target's own CPUs has real-time priority. That of the generator only matters where they may be on the same CPUs. It
// also waits for the load itself. In an open loop the generator's lag is known by request.
func (s *detector) delaysTarget(stall series.Stall) bool {
	switch {
	case s.SharesCPUs():
		return false // its own target's work keeps a sleeper waiting
	case stall.Target:
		return true
	}
	return s.Trial.Target.StealShare == nil && stall.Late > loadTurns
}

// drain is the length of the busy period after a delay, as a share of the delay. For a
// target whose CPU is not its limit, its CPU time underestimates this. In a closed loop
// nothing piles up: all users wait already, and once they have been served the delay is
// over.
func (s *detector) drain() float64 {
	if !s.Open() {
		return 0
	}
	utilization := 0.5
	if share := s.Trial.Target.CPUShare; share != nil {
		utilization = min(max(*share, utilization), 0.99)
	}
	return utilization / (1 - utilization)
}

// Delayed is s, the share of a trial's requests that may have been delayed by more than epsilon seconds: see
// docs/development/method.md. It also says by which kinds of delays, the largest first. Which requests they are is not known.
func (d *Disturbance) Delayed(epsilon float64) (share float64, kinds []string) {
	of := map[string]float64{checks.FlagSteal: d.lostTo[checks.FlagSteal]}
	if epsilon < longestTurn.Seconds() {
		of[checks.FlagForeignCPU] = d.turns * (1 + d.drain + d.inside/turn.Seconds())
	}
	for _, s := range d.stalls {
		if s.time > epsilon {
			met := d.inside // seconds: in a closed loop only the requests that are inside then meet it
			if d.drain > 0 {
				met += max(sampled.Seconds(), s.time) + min(s.time*d.drain, longestGuard.Seconds())
			}
			of[checks.FlagLateWakeups] += s.share * met / d.window
		}
	}
	if d.lags != nil && d.lags.Count() > 0 {
		late := d.lags.Count() - d.lags.CountAtOrBelow(int64(epsilon*1e9))
		of[checks.FlagGeneratorLag] = float64(late) * (1 + d.drain) / float64(d.lags.Count())
	}
	kinds = checks.MostFirst(of)
	for _, kind := range kinds {
		share += of[kind]
	}
	return min(share, 1), kinds
}

// Causes lists what took time from a trial, the largest cause first.
func (d *Disturbance) Causes() []string { return checks.MostFirst(d.lostTo) }
