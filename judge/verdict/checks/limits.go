package checks

import (
	"time"

	"dyno/results/rundir"
)

// The limits on the generator.
const (
	// The p99 of the generator's lag may be LagFloor, or LagShare of the median response
	// time if that is more. Beyond it, response times in an open loop are partly the
	// generator's own.
	LagFloor = 50 * time.Microsecond
	LagShare = 0.05
	// The p99.9 of the generator's lag may be TailLagFloor, or TailLagShare of the
	// reported p99 if that is more. The floor is what a good generator reaches: without
	// it, every trial of a fast target would be invalid.
	TailLagFloor = 500 * time.Microsecond
	TailLagShare = 0.10
	// The rate achieved may differ from the rate wanted by RateTolerance.
	RateTolerance = 0.01
	// The generator may use BusyGenerator of its CPUs in an open loop: a single server's
	// queue grows with 1/(1-utilization), here to four times its length.
	BusyGenerator = 0.75
	// Requests wait in the target if their mean service time is more than Queued times the unqueued one. That is the
	// mean of the requests sent before the first one waited for a connection.
	Queued = 1.15
	// A worker of the generator may be ready to run without a CPU for RunQueueLimit of the
	// window. WakeupCost is added for each time that it gets a CPU: an idle CPU takes that
	// long too, until the kernel has switched to the thread. It delays no request by more,
	// and at a thousand requests a second it takes 1 % of the window.
	RunQueueLimit = 0.01
	WakeupCost    = 10 * time.Microsecond
	// Agents may begin StartSkewLimit apart, the error of their clocks included. Beyond it their union is no longer
	// the schedule of one machine: each part is late by more than the delay from which a stretch counts as disturbed.
	StartSkewLimit = time.Millisecond
)

// A worker in a closed loop works, waits for a CPU, or has nothing to do until the target
// answers. The load waits for the target only in the third state. So only a generator
// that has time to spare measures the target. Unless the target is at its own limit
// anyway, two things bias the throughput:
const (
	// The worker has no CPU for more than StarvedGenerator of the window. Answers lie unread
	// for that long, and the next requests wait with them. So the throughput is too low by
	// up to as much: more than twice the 2 % that count as a difference.
	StarvedGenerator = 0.05
	// The worker has nothing to do for less than 1 − ExhaustedGenerator of the window. A
	// faster target could then gain less than 5 %, however much faster it is.
	ExhaustedGenerator = 0.95
	// A target that uses SaturatedTarget of its CPUs is at its own limit: it has
	// at most a ninth more to give.
	SaturatedTarget = 0.90
	// The throughputs of PlateauLevels levels of load are a plateau when they differ by at
	// most PlateauTolerance. This is the difference that does not matter by default. The
	// generator ended the growth if it used PlateauGenerator of its CPUs and no target was
	// saturated.
	PlateauLevels    = 3
	PlateauTolerance = 0.02
	PlateauGenerator = 0.90
)

// The limits on the machine: beyond the first a trial has a warning, beyond the second it
// is disturbed.
const (
	// Steal time, as a share of all CPUs' time.
	StealWarn = 0.01
	StealBad  = 0.10
	// Foreign CPU time, as a share of all CPUs' time. A scheduler that spreads it evenly
	// takes as much from a target that needs all of its CPUs. ForeignWarn is more than
	// twice the 2 % that count as a difference. ForeignBad is as large as most
	// differences that users look for.
	ForeignWarn = 0.05
	ForeignBad  = 0.15
	// Sleeps of 5 ms that end more than 1 ms late, as a share of all. A thread that
	// sleeps again and again meets the same delays as the generator. Beyond LateWarn the
	// machine alone makes the p99.9 of such delays more than 1 ms. How reliable figures
	// are is decided by stretches, see DisturbedBad. Healthy shared machines showed
	// 0.0003 to 0.005.
	LateWarn = 0.001
	// A round is measured again if more than DisturbedBad of a trial's window was disturbed:
	// another program had a CPU that the generator or the target wanted. The number of
	// requests that met such a moment decides how wide the bounds are. It depends on how
	// many wait at once.
	DisturbedBad = 0.25
	// The share of the window in which all tasks with work waited for memory, or for input
	// and output. As much throughput is lost. StallWarn equals the limit on steadiness. At
	// StallBad the trial measured the swap or the disk. The target's own waiting counts.
	StallWarn = 0.01
	StallBad  = 0.10
)

// The limits on the window.
const (
	// The throughputs of the window's halves may differ by SteadyTolerance.
	SteadyTolerance = 0.01
	// The backlog of a probe may grow by BacklogTolerance of the requests that were due. BacklogChance standard
	// deviations of the count of requests left are added to that. A search then errs by less than its resolution, if
	// hundreds are due.
	BacklogTolerance = 0.02
	BacklogChance    = 2
	// The share of requests sent that may be unfinished at the end. They would have been
	// the slowest. Of the quantiles reported, the p99.9 is the first that lies among
	// them.
	UnfinishedLimit = 0.001
	// The window's bins must have an effective sample size of DependentSize. With fewer, the
	// trial's throughput is the mean of a handful of values. One slow change of the target,
	// more or less, then decides it. Only a longer window helps. The interval over trials
	// remains right, and wide.
	DependentSize = 10
)

// TickError is how far the CPU time of other programs may be off, as a share of the CPUs' time: the
// kernel counts it by clock ticks, and wakes threads by the same clock. On an idle
// machine it was up to 0.056 with nothing else running.
const TickError = 0.06

// IsSaturated tells whether the target, or one of its threads, used nearly all the CPU
// time that it could. Time that the hypervisor took from the target counts as used.
func IsSaturated(t *rundir.Trial) bool {
	share := 0.0
	if t.Target.CPUShare != nil {
		share = *t.Target.CPUShare
		if t.Target.StealShare != nil {
			share += *t.Target.StealShare
		}
	}
	if t.Target.BusiestThreadShare != nil {
		share = max(share, *t.Target.BusiestThreadShare)
	}
	return share >= SaturatedTarget
}

// TargetCPUs is on how many CPUs the target may run, as far as that is known, and at least 1.
func TargetCPUs(t *rundir.Trial) float64 {
	used, share := t.Target.CPUSeconds, t.Target.CPUShare
	if used == nil || share == nil || !(*share > 0 && t.WindowSeconds > 0) {
		return 1
	}
	return max(1, *used/t.WindowSeconds / *share)
}
