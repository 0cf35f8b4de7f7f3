package verdict

import (
	"slices"
	"time"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// The kinds of flags that Judge raises. Those of a trial, up to FlagDependent, are
// also the kinds of its checks, in the order in which they are made; but
// FlagLagNotChecked is what a check of FlagGeneratorLag raises that cannot be
// made. One that breaks says that the target did not do what was asked; its figures are
// right.
const (
	FlagConservation       = "conservation"
	FlagIncomplete         = "incomplete"
	FlagGeneratorResources = "generator_resources"
	FlagGeneratorStarved   = "generator_starved"  // in place of findings about the target
	FlagNoAnswers          = "no_answers"         // it breaks
	FlagStalled            = "stalled"            // it breaks
	FlagConnections        = "connections"        // it breaks
	FlagGeneratorLag       = "generator_lag"      // open loops
	FlagLagNotChecked      = "lag_not_checked"    // open loops
	FlagConnectionLimit    = "connection_limit"   // open loops: connections were the limit
	FlagGeneratorLagTail   = "generator_lag_tail" // loops that send
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

// What a flag can bias: the beginnings of metrics' names.
const (
	biasAll        = "all"
	biasThroughput = throughputMetric
	biasCPU        = cpuMetric
	biasLatency    = "latency" // stands for the names of all that is timed
)

// A kindOfFlag says what flags of a kind are about and what they can bias.
type kindOfFlag struct {
	about  string
	biases []string
}

// kindsOfFlags has all kinds that Judge raises.
var kindsOfFlags = map[string]kindOfFlag{
	FlagConservation:       {rundir.AboutGenerator, []string{biasAll}},
	FlagIncomplete:         {rundir.AboutPlan, nil},
	FlagGeneratorResources: {rundir.AboutGenerator, []string{biasAll}},
	FlagGeneratorStarved:   {rundir.AboutMachine, []string{biasAll}},
	FlagNoAnswers:          {rundir.AboutTarget, nil},
	FlagStalled:            {rundir.AboutTarget, nil},
	FlagConnections:        {rundir.AboutTarget, nil},
	FlagGeneratorLag:       {rundir.AboutGenerator, []string{tagResponse}},
	FlagLagNotChecked:      {rundir.AboutPlan, []string{tagResponse}},
	FlagConnectionLimit:    {rundir.AboutTarget, nil},
	FlagGeneratorLagTail:   {rundir.AboutGenerator, []string{tagResponse}},
	FlagDrops:              {rundir.AboutTarget, nil},
	FlagAchievedRate:       {rundir.AboutGenerator, []string{biasThroughput}},
	FlagUnfinished:         {rundir.AboutTarget, []string{biasLatency}},
	FlagSubscribers:        {rundir.AboutTarget, nil},
	FlagGeneratorCPU:       {rundir.AboutGenerator, []string{biasThroughput}},
	FlagRunQueue:           {rundir.AboutMachine, []string{biasThroughput, biasLatency}},
	FlagGeneratorLimit:     {rundir.AboutGenerator, []string{biasThroughput, biasLatency}},
	FlagSteal:              {rundir.AboutMachine, []string{biasThroughput, biasLatency, biasCPU}},
	FlagForeignCPU:         {rundir.AboutMachine, []string{biasThroughput, biasLatency, biasCPU}},
	FlagLateWakeups:        {rundir.AboutMachine, []string{biasLatency}},
	FlagMemoryPressure:     {rundir.AboutMachine, []string{biasThroughput, biasLatency}},
	FlagIOPressure:         {rundir.AboutMachine, []string{biasThroughput, biasLatency}},
	FlagDisturbed:          {rundir.AboutMachine, []string{biasLatency}},
	FlagNotSteady:          {rundir.AboutPlan, nil},
	FlagDependent:          {rundir.AboutPlan, nil},
	FlagNoTrials:           {rundir.AboutTarget, []string{biasAll}},
	FlagBelowRange:         {rundir.AboutTarget, nil},
	FlagPlateau:            {rundir.AboutGenerator, []string{biasThroughput}},
	FlagControlDiffers:     {rundir.AboutPlan, nil},
	FlagPilotNotSteady:     {rundir.AboutPlan, nil},
}

// ours tells whether a flag is of a kind that Judge raises.
func ours(kind string) bool {
	_, ok := kindsOfFlags[kind]
	return ok
}

// spoilsRound tells whether a flag that spoils is reason to measure the round again: it is
// about what went on beside the measurement, and the next round may be spared.
func spoilsRound(kind string) bool { return kindsOfFlags[kind].about == rundir.AboutMachine }

// limitsGenerator tells whether a flag that spoils says that the generator could not do
// more: nothing bounds what the target could.
func limitsGenerator(kind string) bool {
	return slices.Contains([]string{FlagGeneratorCPU, FlagGeneratorLimit, FlagAchievedRate, FlagPlateau}, kind)
}

// disturbsWhole tells whether a flag that spoils leaves no stretch of the trial clean. Those
// that have stretches of their own do not.
func disturbsWhole(kind string) bool {
	return slices.Contains([]string{FlagRunQueue, FlagGeneratorLimit, FlagForeignCPU}, kind)
}

// The limits on the generator.
const (
	// The p99 of the generator's lag may be LagFloor, or LagShare of the median
	// response time if that is more. Beyond it, response times in an open loop
	// are partly the generator's own.
	LagFloor = 50 * time.Microsecond
	LagShare = 0.05
	// The p99.9 of the generator's lag may be TailLagFloor, or TailLagShare of the
	// reported p99 if that is more. The floor is what a good generator reaches: without
	// it, every trial of a fast target would be invalid.
	TailLagFloor = 500 * time.Microsecond
	TailLagShare = 0.10
	// The rate achieved may differ from the rate wanted by RateTolerance.
	RateTolerance = 0.01
	// The generator may use BusyGenerator of its CPUs in an open loop: a single
	// server's queue grows with 1/(1-utilization), here fourfold.
	BusyGenerator = 0.75
	// A worker of the generator may be ready to run without a CPU for RunQueueLimit
	// of the window, and for WakeupCost each time it is given one: that much goes by
	// on an idle CPU too, until the kernel has switched to the thread. It delays no
	// request by more, and a thousand requests a second take 1 % of the window by it.
	RunQueueLimit = 0.01
	WakeupCost    = 10 * time.Microsecond
)

// A worker in a closed loop works, waits for a CPU, or has nothing to do until
// the target answers. Only in the third state is the target what the load waits
// for, so only a generator that has time to spare measures the target. Unless the
// target is at its own limit all the same, two things spoil the throughput:
const (
	// More than StarvedGenerator of the window without a CPU. Answers lie unread
	// for that long and the next requests wait with them, so that throughput is
	// too low by up to as much: beyond twice the 2 % that count as a difference.
	StarvedGenerator = 0.05
	// Less than 1 − ExhaustedGenerator of the window with nothing to do. A faster
	// target could then gain less than 5 %, however much faster it is.
	ExhaustedGenerator = 0.95
	// A target that uses SaturatedTarget of its CPUs is at its own limit: it has
	// at most a ninth more to give.
	SaturatedTarget = 0.90
	// The throughputs of PlateauLevels levels of load are a plateau when they
	// differ by at most PlateauTolerance, the difference that does not matter by
	// default. The generator is what ended the growth when it used
	// PlateauGenerator of its CPUs, and no target was saturated.
	PlateauLevels    = 3
	PlateauTolerance = 0.02
	PlateauGenerator = 0.90
)

// The limits on the machine: the first is worth a word, the second spoils the
// trial.
const (
	// Steal time, as a share of all CPUs' time.
	StealWarn = 0.01
	StealBad  = 0.10
	// Foreign CPU time, as a share of all CPUs' time. What a scheduler spreads
	// evenly takes as much from a target that needs all of its CPUs. ForeignWarn is
	// more than twice the 2 % that count as a difference; ForeignBad is as large as
	// most differences that are looked for.
	ForeignWarn = 0.05
	ForeignBad  = 0.15
	// Sleeps of 5 ms that end more than 1 ms late, as a share of all. A thread that
	// sleeps again and again meets what the generator meets: beyond LateWarn the p99.9 of
	// what it wakes for is over 1 ms the machine's own. How far figures can be trusted is
	// settled by stretches, see DisturbedBad. Shared machines that were healthy showed
	// 0.0003 to 0.005.
	LateWarn = 0.001
	// DisturbedBad is the share of the window in which somebody else had a CPU that the
	// generator or the target wanted, beyond which a round is measured again. How many
	// requests that met depends on how many wait at once, and decides how wide the bounds
	// are.
	DisturbedBad = 0.25
	// The share of the window in which every task that had something to do waited
	// for memory, or for input and output. As much throughput is lost: StallWarn is
	// what not steady goes by, and at StallBad the trial measured the swap or the
	// disk. The target's own waiting counts.
	StallWarn = 0.01
	StallBad  = 0.10
)

// The limits on the window.
const (
	// The throughputs of the window's halves may differ by SteadyTolerance.
	SteadyTolerance = 0.01
	// The share of requests sent that may be unfinished at the end. They would have
	// been the slowest, so that of the quantiles reported the p99.9 is the first
	// that lies among them.
	UnfinishedLimit = 0.001
	// The window's bins must be worth DependentSize independent ones. With fewer,
	// the trial's throughput is the mean of a handful of values, and one slow
	// change of the target's more or less decides it: only a longer window helps.
	// The interval over trials remains right, and wide.
	DependentSize = 10
)

// A subject is a trial with all that it is examined by.
type subject struct {
	trial  *rundir.Trial
	plan   rundir.PlanVariant
	times  times           // merged, of the log
	log    []hist.Interval // of all tags
	series *rundir.Series  // what observers recorded; nil: nothing

	stalls      []rundir.Stall
	stallsKnown bool // somebody felt for them
}

// open tells whether the load came at times of its own. A probe's does.
func (s *subject) open() bool { return s.plan.Loop == "open" || s.trial.Rate != nil }

// streaming tells whether there were only subscribers: the load sent nothing that it
// could have been late with.
func (s *subject) streaming() bool { return s.plan.Loop == "stream" && s.trial.Rate == nil }

// program tells whether the target itself was the load.
func (s *subject) program() bool { return s.plan.Loop == "" && s.trial.Rate == nil }

// shared tells whether the generator was on its target's own CPUs by design, as in a duet
// on two CPUs: that it waits for its target there says nothing of the machine.
func (s *subject) shared() bool { return s.trial.Duet != nil && s.trial.Duet.Shared }

// rate is how many requests a second were wanted; nil in a closed loop and of
// stages, whose rate is meant to change.
func (s *subject) rate() *float64 {
	if s.trial.Rate != nil {
		return s.trial.Rate
	}
	return s.plan.Rate
}
