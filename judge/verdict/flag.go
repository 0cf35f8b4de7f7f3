package verdict

import (
	"maps"
	"slices"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// The kinds of flags that Judge raises. Those of a trial, up to FlagDependent, are also
// the kinds of its checks, in the order in which they are made. The exception is
// FlagLagNotChecked: a check of FlagGeneratorLag raises it when it cannot be made. A flag
// that breaks says that the target did not do what was asked. Its figures are right.
const (
	FlagConservation       = "conservation"
	FlagIncomplete         = "incomplete"
	FlagGeneratorResources = "generator_resources"
	FlagOwnLimit           = "own_limit"          // responses were larger than the generator takes
	FlagGeneratorStarved   = "generator_starved"  // in place of findings about the target
	FlagNoAnswers          = "no_answers"         // it breaks
	FlagStalled            = "stalled"            // it breaks
	FlagConnections        = "connections"        // it breaks
	FlagGeneratorLag       = "generator_lag"      // open loops
	FlagLagNotChecked      = "lag_not_checked"    // open loops
	FlagConnectionLimit    = "connection_limit"   // open loops: connections were the limit
	FlagGeneratorLagTail   = "generator_lag_tail" // loops that send
	FlagUnopened           = "unopened"           // a warning: the load began without some of the connections
	FlagRedirects          = "redirects"          // a warning: redirections count as good, and were not followed
	FlagDeviations         = "deviations"         // a warning: responses depart from HTTP/1.1, and were read
	FlagDrops              = "drops"              // open loops; it breaks
	FlagAchievedRate       = "achieved_rate"      // open loops
	FlagUnfinished         = "unfinished"
	FlagSubscribers        = "subscribers"     // of events; it breaks, unless dyno lacked descriptors
	FlagGeneratorCPU       = "generator_cpu"   // open loops
	FlagRunQueue           = "run_queue_wait"  // spoils a closed loop beyond StarvedGenerator
	FlagGeneratorLimit     = "generator_limit" // closed loops
	FlagSteal              = "steal"           // up to StealBad a warning
	FlagForeignCPU         = "foreign_cpu"     // up to ForeignBad a warning
	FlagLateWakeups        = "late_wakeups"    // a warning
	FlagMemoryPressure     = "memory_pressure" // up to StallBad a warning
	FlagIOPressure         = "io_pressure"     // up to StallBad a warning
	FlagDisturbed          = "disturbed"       // beyond DisturbedBad of the window
	FlagNotSteady          = "not_steady"
	FlagDependent          = "dependent"

	FlagNoTrials       = "no_complete_trial" // of the run, about a variant
	FlagBelowRange     = "below_range"       // of the run, about a variant's capacity; it breaks
	FlagPlateau        = "plateau"           // of the run, about a sweep
	FlagControlDiffers = "control_differs"   // of the run
	FlagPilotNotSteady = "pilot_not_steady"  // of the run
)

// The figures that a flag can bias, as beginnings of metrics' names.
const (
	biasAll        = "all"
	biasThroughput = rundir.MetricThroughput
	biasCPU        = rundir.MetricCPU
	biasLatency    = "latency" // stands for the names of all times
)

// A kindOfFlag says whom flags of a kind are about, which figures they can bias, and what they
// mean.
type kindOfFlag struct {
	about  string
	biases []string
	means  string
}

// kindsOfFlags has all kinds that Judge raises.
var kindsOfFlags = map[string]kindOfFlag{
	FlagConservation:       {rundir.AboutGenerator, []string{biasAll}, "a request is counted twice or not at all"},
	FlagIncomplete:         {rundir.AboutPlan, nil, "a trial did not end as planned"},
	FlagGeneratorResources: {rundir.AboutGenerator, []string{biasAll}, "dyno lacked descriptors, ports or memory"},
	FlagOwnLimit:           {rundir.AboutGenerator, []string{biasAll}, "responses were larger than dyno takes"},
	FlagGeneratorStarved:   {rundir.AboutMachine, []string{biasAll}, "dyno had no CPU while the target seemed to fail"},
	FlagNoAnswers:          {rundir.AboutTarget, nil, "the target gave no good answer, in the window or at its end"},
	FlagStalled:            {rundir.AboutTarget, nil, "the target answered nothing for a long time"},
	FlagConnections:        {rundir.AboutTarget, nil, "connections could not be opened, or got no answer"},
	FlagGeneratorLag:       {rundir.AboutGenerator, []string{rundir.TagResponse}, "dyno sent late, by the p99"},
	FlagLagNotChecked:      {rundir.AboutPlan, []string{rundir.TagResponse}, "no request shows how late dyno sent"},
	FlagConnectionLimit:    {rundir.AboutTarget, nil, "requests waited for a free connection: more of them would help"},
	FlagGeneratorLagTail:   {rundir.AboutGenerator, []string{rundir.TagResponse}, "dyno sent late, by the p99.9"},
	FlagUnopened:           {rundir.AboutTarget, nil, "some connections were not open when the load began"},
	FlagRedirects:          {rundir.AboutTarget, nil, "responses were redirections, which count as good and are not followed"},
	FlagDeviations:         {rundir.AboutTarget, nil, "responses depart from HTTP/1.1, and were read all the same"},
	FlagDrops:              {rundir.AboutTarget, nil, "too many requests waited, so that dyno dropped some"},
	FlagAchievedRate:       {rundir.AboutGenerator, []string{biasThroughput}, "dyno did not send at the rate that was asked for"},
	FlagUnfinished:         {rundir.AboutTarget, []string{biasLatency}, "requests had no response at the end"},
	FlagSubscribers:        {rundir.AboutTarget, nil, "subscribers received nothing, or lost their streams"},
	FlagGeneratorCPU:       {rundir.AboutGenerator, []string{biasThroughput}, "dyno used most of its CPUs"},
	FlagRunQueue:           {rundir.AboutMachine, []string{biasThroughput, biasLatency}, "dyno was ready to run without a CPU"},
	FlagGeneratorLimit:     {rundir.AboutGenerator, []string{biasThroughput, biasLatency}, "dyno was busy all the time, and the target was not"},
	FlagSteal:              {rundir.AboutMachine, []string{biasThroughput, biasLatency, biasCPU}, "the machine's host took CPU time away"},
	FlagForeignCPU:         {rundir.AboutMachine, []string{biasThroughput, biasLatency, biasCPU}, "other programs used CPU time"},
	FlagLateWakeups:        {rundir.AboutMachine, []string{biasLatency}, "sleeping threads woke up late"},
	FlagMemoryPressure:     {rundir.AboutMachine, []string{biasThroughput, biasLatency}, "tasks waited for memory"},
	FlagIOPressure:         {rundir.AboutMachine, []string{biasThroughput, biasLatency}, "tasks waited for disks"},
	FlagDisturbed:          {rundir.AboutMachine, []string{biasLatency}, "something else had a CPU that was wanted"},
	FlagNotSteady:          {rundir.AboutPlan, nil, "the halves of a window differ"},
	FlagDependent:          {rundir.AboutPlan, nil, "neighbouring stretches are too alike to count as many"},
	FlagNoTrials:           {rundir.AboutTarget, []string{biasAll}, "no trial of a variant is complete"},
	FlagBelowRange:         {rundir.AboutTarget, nil, "the capacity is below the lowest rate of the search"},
	FlagPlateau:            {rundir.AboutGenerator, []string{biasThroughput}, "more load brings no more throughput, and the target has time to spare"},
	FlagControlDiffers:     {rundir.AboutPlan, nil, "the base and its control differ, though they are the same"},
	FlagPilotNotSteady:     {rundir.AboutPlan, nil, "the pilot found no warm-up after which figures are steady"},
}

// A Check is what can be wrong with a run, by the kind of the flag that says so.
type Check struct {
	Kind, About, Means string
	Biases             []string // the figures that it can bias
}

// Checks lists them: those about the target first, and of each by name.
func Checks() (list []Check) {
	for _, about := range []string{rundir.AboutTarget, rundir.AboutGenerator, rundir.AboutMachine, rundir.AboutPlan} {
		for _, kind := range slices.Sorted(maps.Keys(kindsOfFlags)) {
			if k := kindsOfFlags[kind]; k.about == about {
				list = append(list, Check{kind, about, k.means, k.biases})
			}
		}
	}
	return list
}

// ours tells whether a flag is of a kind that Judge raises.
func ours(kind string) bool {
	_, ok := kindsOfFlags[kind]
	return ok
}

// spoilsRound tells whether a flag that spoils is a reason to measure the round again: it
// is about a disturbance, and the next round may have none.
func spoilsRound(kind string) bool { return kindsOfFlags[kind].about == rundir.AboutMachine }

// limitsGenerator tells whether a flag that spoils says that the generator was at its
// limit: then the target's figures have no upper end.
func limitsGenerator(kind string) bool {
	return slices.Contains([]string{FlagGeneratorCPU, FlagGeneratorLimit, FlagAchievedRate, FlagPlateau}, kind)
}

// disturbsWhole tells whether a flag that spoils leaves no stretch of the trial clean.
// Kinds that mark stretches leave some.
func disturbsWhole(kind string) bool {
	return slices.Contains([]string{FlagRunQueue, FlagGeneratorLimit, FlagForeignCPU}, kind)
}

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
	// A worker of the generator may be ready to run without a CPU for RunQueueLimit of
	// the window, and for WakeupCost each time it is given one. An idle CPU takes that
	// long too, until the kernel has switched to the thread. It delays no request by
	// more, and at a thousand requests a second it takes 1 % of the window.
	RunQueueLimit = 0.01
	WakeupCost    = 10 * time.Microsecond
)

// A worker in a closed loop works, waits for a CPU, or has nothing to do until the target
// answers. Only in the third state does the load wait for the target, so only a generator
// that has time to spare measures the target. Unless the target is at its own limit
// anyway, two things spoil the throughput:
const (
	// The worker has no CPU for more than StarvedGenerator of the window. Answers lie
	// unread for that long and the next requests wait with them, so the throughput is too
	// low by up to as much: more than twice the 2 % that count as a difference.
	StarvedGenerator = 0.05
	// The worker has nothing to do for less than 1 − ExhaustedGenerator of the window. A
	// faster target could then gain less than 5 %, however much faster it is.
	ExhaustedGenerator = 0.95
	// A target that uses SaturatedTarget of its CPUs is at its own limit: it has
	// at most a ninth more to give.
	SaturatedTarget = 0.90
	// The throughputs of PlateauLevels levels of load are a plateau when they differ by
	// at most PlateauTolerance, the difference that does not matter by default. The
	// generator ended the growth if it used PlateauGenerator of its CPUs and no target
	// was saturated.
	PlateauLevels    = 3
	PlateauTolerance = 0.02
	PlateauGenerator = 0.90
)

// The limits on the machine: beyond the first a trial has a warning, beyond the second it
// is spoilt.
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
	// DisturbedBad is the share of the window in which another program had a CPU that the
	// generator or the target wanted, beyond which a round is measured again. How many
	// requests met such a moment depends on how many wait at once, and decides how wide
	// the bounds are.
	DisturbedBad = 0.25
	// The share of the window in which every task that had something to do waited for
	// memory, or for input and output. As much throughput is lost. StallWarn equals the
	// limit on steadiness. At StallBad the trial measured the swap or the disk. The
	// target's own waiting counts.
	StallWarn = 0.01
	StallBad  = 0.10
)

// The limits on the window.
const (
	// The throughputs of the window's halves may differ by SteadyTolerance.
	SteadyTolerance = 0.01
	// The share of requests sent that may be unfinished at the end. They would have been
	// the slowest. Of the quantiles reported, the p99.9 is the first that lies among
	// them.
	UnfinishedLimit = 0.001
	// The window's bins must have an effective sample size of DependentSize. With fewer,
	// the trial's throughput is the mean of a handful of values, and one slow change of
	// the target more or less decides it. Only a longer window helps. The interval over
	// trials remains right, and wide.
	DependentSize = 10
)

// A subject is a trial with everything that its examination needs.
type subject struct {
	trial  *rundir.Trial
	plan   rundir.PlanVariant
	times  times           // merged, of the log
	log    []hist.Interval // of all tags
	series *rundir.Series  // what observers recorded; nil: nothing

	stalls      []rundir.Stall
	stallsKnown bool // there were observers for them
	substitute  bool // the trial was interrupted, and is judged by what it measured until then
}

// open tells whether the schedule alone decides when requests are due. In a probe it
// does.
func (s *subject) open() bool { return s.plan.Loop == "open" || s.trial.Rate != nil }

// streaming tells whether there were only subscribers: the load sent nothing that it
// could have been late with.
func (s *subject) streaming() bool { return s.plan.Loop == "stream" && s.trial.Rate == nil }

// program tells whether the target itself was the load.
func (s *subject) program() bool { return s.plan.Loop == "" && s.trial.Rate == nil }

// shared tells whether the generator was on its target's own CPUs by design, as in a duet
// on two CPUs. There its waiting for the target says nothing about the machine.
func (s *subject) shared() bool { return s.trial.Duet != nil && s.trial.Duet.Shared }

// rate is how many requests a second were asked for; nil in a closed loop, and for
// stages, whose rate is meant to change.
func (s *subject) rate() *float64 {
	if s.trial.Rate != nil {
		return s.trial.Rate
	}
	return s.plan.Rate
}
