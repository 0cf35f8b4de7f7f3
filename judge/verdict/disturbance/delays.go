package disturbance

import (
	"math"
	"slices"

	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// findDelays finds what may have delayed requests, wherever they are.
func (s *detector) findDelays(d *Disturbance) {
	for _, stall := range s.Stalls {
		if s.StallInWindow(stall) && !s.SharesCPUs() {
			d.stalls = append(d.stalls, delay{stall.Late.Seconds(), s.Delayed(stall)})
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
	d.Window, d.busyPeriod, d.Works = s.Trial.WindowSeconds, s.busyPeriod(), s.works()
	for _, at := range merged(s.readSpans()) {
		if d.Window > 0 {
			d.counted += max(0, min(at.to, s.Trial.WarmupSeconds+d.Window)-max(at.from, s.Trial.WarmupSeconds)) / d.Window
		}
	}
	if p90 := s.Times.Quantile(s.Plan.Latency(), 10); p90 != nil {
		d.inside = *p90
	}
}

// noticed is the delay, in seconds, that affects the trial's figures.
func (s *detector) noticed() float64 {
	median := 0.0
	if p50 := s.Times.Quantile(s.Plan.Latency(), 2); p50 != nil {
		median = *p50
	}
	return Noticeable(median)
}

// busyPeriod is the length of the busy period after a delay, as a share of the delay. For a
// target whose CPU is not its limit, its CPU time underestimates this. In a closed loop
// nothing piles up: all users wait already, and once they have been served the delay is
// over.
func (s *detector) busyPeriod() float64 {
	if !s.Open() {
		return 0
	}
	utilization := 0.5
	if share := s.Trial.Target.CPUShare; share != nil {
		utilization = min(max(*share, utilization), 0.99)
	}
	return utilization / (1 - utilization)
}

// ShortlyDelayed is the share of a trial's requests that delays of more than epsilon seconds may
// have moved, and by which kinds of delays. Delays from LongStall on are not among them: they
// mark stretches.
func (d *Disturbance) ShortlyDelayed(epsilon float64) (share float64, kinds []string) {
	return d.contaminated(epsilon, LongStall.Seconds())
}

// contaminated is the share of a trial's requests that may have moved a figure, by delays
// between epsilon and most seconds. It does not tell which requests they are.
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
func (d *Disturbance) contaminated(epsilon, most float64) (share float64, kinds []string) {
	of := map[string]float64{}
	if epsilon < longestTurn.Seconds() { // their turns are no longer
		of[checks.FlagForeignCPU] = d.Foreign * (1 + d.busyPeriod + d.inside/shortestTurn.Seconds())
		of[checks.FlagRunQueue] = d.idle * (1 + d.inside/shortestTurn.Seconds())
	}
	for _, s := range d.stalls {
		late := s.late
		if whole := late + min(late, sampled.Seconds()); whole > epsilon && late <= most && d.Window > 0 {
			stalled := max(sampled.Seconds(), whole)
			of[checks.FlagLateWakeups] += s.share * (stalled + min(late*d.busyPeriod, longestGuard.Seconds()) + d.inside) / d.Window
		}
	}
	if d.lags != nil && d.lags.Count() > 0 {
		late := d.lags.Count() - d.lags.CountAtOrBelow(int64(epsilon*1e9))
		if !math.IsInf(most, 1) {
			late -= d.lags.Count() - d.lags.CountAtOrBelow(int64(most*1e9))
		}
		of[checks.FlagGeneratorLag] = float64(max(late, 0)) * (1 + d.busyPeriod) / float64(d.lags.Count())
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
	share, _ := d.contaminated(epsilon, math.Inf(1))
	return min(share+d.counted, 1)
}

// A Shortening describes what late sends of a closed loop may have done to other requests: a
// number of them met a queue that was shorter.
type Shortening struct {
	Requests float64
	By       float64 // seconds of work, at most
}

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
			all = append(all, Shortening{s.Delayed(stall) * float64(max(s.Plan.Connections, 1)) * max(1, sampled.Seconds()/whole), whole})
		}
	}
	if idle > 0 {
		all = append(all, Shortening{idle * requests, longestTurn.Seconds()})
	}
	return all
}
