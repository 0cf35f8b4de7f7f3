// Package checks examines one trial by limits that are fixed beforehand. A check says what it
// measured, its limit and its outcome, and raises a flag unless all is well. Every check is on
// record in run.json (trials[].checks), also one that passed. Flags are about the target, the
// generator, the machine or the plan. No limit depends on a result.
//
// silence.go has the checks on targets that do not answer, and availability.go the share of good answers.
package checks

import (
	"cmp"
	"maps"
	"slices"

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
	FlagFewConnections     = "few_connections"    // open loops: dyno's connections were the limit
	FlagGeneratorLag       = "generator_lag"      // open loops
	FlagLagNotChecked      = "lag_not_checked"    // open loops
	FlagConnectionLimit    = "connection_limit"   // open loops: requests waited for a connection
	FlagGeneratorLagTail   = "generator_lag_tail" // loops that send
	FlagUnopened           = "unopened"           // a warning: the load began without some of the connections
	FlagRedirects          = "redirects"          // a warning: redirections count as good, and were not followed
	FlagDeviations         = "deviations"         // a warning: responses depart from HTTP/1.1, and were read
	FlagDrops              = "drops"              // open loops; it breaks
	FlagAchievedRate       = "achieved_rate"      // open loops
	FlagBacklog            = "backlog"            // of searches' probes
	FlagUnfinished         = "unfinished"
	FlagSubscribers        = "subscribers"     // of events; it breaks, unless dyno lacked descriptors
	FlagGeneratorCPU       = "generator_cpu"   // open loops
	FlagRunQueue           = "run_queue_wait"  // disturbs a closed loop beyond StarvedGenerator
	FlagGeneratorLimit     = "generator_limit" // closed loops
	FlagStartSkew          = "start_skew"      // several agents; a warning
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
	BiasAll        = "all"
	BiasThroughput = rundir.MetricThroughput
	BiasCPU        = rundir.MetricCPU
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
	FlagConservation:       {rundir.AboutGenerator, []string{BiasAll}, "a request is counted twice or not at all"},
	FlagIncomplete:         {rundir.AboutPlan, nil, "a trial did not end as planned"},
	FlagGeneratorResources: {rundir.AboutGenerator, []string{BiasAll}, "dyno lacked descriptors, ports or memory"},
	FlagOwnLimit:           {rundir.AboutGenerator, []string{BiasAll}, "responses were larger than dyno takes"},
	FlagGeneratorStarved:   {rundir.AboutMachine, []string{BiasAll}, "dyno had no CPU while the target seemed to fail"},
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
	FlagFewConnections:     {rundir.AboutGenerator, []string{BiasThroughput, rundir.TagResponse}, "dyno had too few connections for the rate"},
	FlagDrops:              {rundir.AboutTarget, nil, "too many requests waited, so that dyno dropped some"},
	FlagAchievedRate:       {rundir.AboutGenerator, []string{BiasThroughput}, "dyno did not send at the rate that was asked for"},
	FlagBacklog:            {rundir.AboutTarget, nil, "requests came faster than they were answered"},
	FlagUnfinished:         {rundir.AboutTarget, []string{biasLatency}, "requests had no response at the end"},
	FlagSubscribers:        {rundir.AboutTarget, nil, "subscribers received nothing, or lost their streams"},
	FlagGeneratorCPU:       {rundir.AboutGenerator, []string{BiasThroughput}, "dyno used most of its CPUs"},
	FlagRunQueue:           {rundir.AboutMachine, []string{BiasThroughput, biasLatency}, "dyno was ready to run without a CPU"},
	FlagGeneratorLimit:     {rundir.AboutGenerator, []string{BiasThroughput, biasLatency}, "dyno was busy all the time, and the target was not"},
	FlagStartSkew:          {rundir.AboutGenerator, []string{BiasThroughput, biasLatency}, "agents did not begin at one time, or nobody knows whether they did"},
	FlagSteal:              {rundir.AboutMachine, []string{BiasThroughput, biasLatency, BiasCPU}, "the machine's host took CPU time away"},
	FlagForeignCPU:         {rundir.AboutMachine, []string{BiasThroughput, biasLatency, BiasCPU}, "other programs used CPU time"},
	FlagLateWakeups:        {rundir.AboutMachine, []string{biasLatency}, "sleeping threads woke up late"},
	FlagMemoryPressure:     {rundir.AboutMachine, []string{BiasThroughput, biasLatency}, "tasks waited for memory"},
	FlagIOPressure:         {rundir.AboutMachine, []string{BiasThroughput, biasLatency}, "tasks waited for disks"},
	FlagDisturbed:          {rundir.AboutMachine, []string{biasLatency}, "something else had a CPU that was wanted"},
	FlagNotSteady:          {rundir.AboutPlan, nil, "the halves of a window differ"},
	FlagDependent:          {rundir.AboutPlan, nil, "neighbouring stretches are too alike to count as many"},
	FlagNoTrials:           {rundir.AboutTarget, []string{BiasAll}, "no trial of a variant is complete"},
	FlagBelowRange:         {rundir.AboutTarget, nil, "the capacity is below the lowest rate of the search"},
	FlagPlateau:            {rundir.AboutGenerator, []string{BiasThroughput}, "more load brings no more throughput, and the target has time to spare"},
	FlagControlDiffers:     {rundir.AboutPlan, nil, "the base and its control differ, though they are the same"},
	FlagPilotNotSteady:     {rundir.AboutPlan, nil, "the pilot found no warm-up after which figures are steady"},
}

// A Check is what can be wrong with a run, by the kind of the flag that says so.
type Check struct {
	Kind, About, Means string
	Biases             []string // the figures that it can bias
}

// All lists them: those about the target first, and of each by name.
func All() (list []Check) {
	for _, about := range []string{rundir.AboutTarget, rundir.AboutGenerator, rundir.AboutMachine, rundir.AboutPlan} {
		for _, kind := range slices.Sorted(maps.Keys(kindsOfFlags)) {
			if k := kindsOfFlags[kind]; k.about == about {
				list = append(list, Check{kind, about, k.means, k.biases})
			}
		}
	}
	return list
}

// IsKnown tells whether a flag is of a kind that Judge raises.
func IsKnown(kind string) bool {
	_, ok := kindsOfFlags[kind]
	return ok
}

// DisturbsRound tells whether a flag that disturbs is a reason to measure the round again: it
// is about a disturbance, and the next round may have none.
func DisturbsRound(kind string) bool { return kindsOfFlags[kind].about == rundir.AboutMachine }

// LimitsGenerator tells whether a flag that disturbs says that the generator was at its
// limit: then the target's figures have no upper end.
func LimitsGenerator(kind string) bool {
	return slices.Contains([]string{FlagGeneratorCPU, FlagGeneratorLimit, FlagAchievedRate, FlagFewConnections, FlagPlateau}, kind)
}

// MostFirst lists what came at all, the most frequent or largest first.
func MostFirst[N int | float64](counts map[string]N) (names []string) {
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		if counts[name] > 0 {
			names = append(names, name)
		}
	}
	return names
}
