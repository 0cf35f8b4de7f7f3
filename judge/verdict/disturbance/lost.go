package disturbance

import (
	"math"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/recording"
	"dyno/results/rundir"
)

// A LostTime is the share of the window in which the generator, or the target, could have
// worked but had no CPU.
type LostTime struct {
	Generator, Target float64
	Stolen            float64 // of the target's: by the hypervisor, and not by other programs
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
