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
// the kinds of its checks. They are in the order in which the checks are made. The
// exception is FlagLagNotChecked: a check of FlagGeneratorLag raises it when it cannot be
// made. A flag that breaks says that the target did not do what was asked. Its figures
// are right.
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
	FlagConflicts          = "conflicts"          // a warning: most requests create what exists already
	FlagRedirects          = "redirects"          // a warning: redirections count as good, and were not followed
	FlagDeviations         = "deviations"         // a warning: responses depart from HTTP/1.1, and were read
	FlagTeardown           = "teardown"           // a warning: it failed, after the load
	FlagDrops              = "drops"              // open loops; it breaks
	FlagAchievedRate       = "achieved_rate"      // open loops
	FlagBacklog            = "backlog"            // of searches' probes
	FlagUnfinished         = "unfinished"
	FlagSubscribers        = "subscribers"     // of events; it breaks, unless dyno ran out of descriptors
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

// A Check describes what can be wrong with a run or a figure. Its kind is that of the flag, or the cause, that says so.
// It is declared here alone: run.json, reports, pages and the reference take it from here. Its sentences are in package
// texts, and have the kind in their names, such as found.steal.
type Check struct {
	Kind, About      string      // About is empty for a cause of which there is no check
	Biases           []string    // the figures that it can bias
	Unit             rundir.Unit // of what it measures; empty: it measures nothing
	Means            string
	English, Chinese string // what pages call it
	Remedy           string // the sentence of package texts that says what helps; empty: nothing does
}

// CauseClocks is the cause of a ratio's state that is no check: the responses of its variants were ended by different clocks.
const CauseClocks = "clocks"

var declared = map[string]Check{
	FlagConservation: {About: rundir.AboutGenerator, Biases: []string{BiasAll}, Remedy: "remedy.conservation",
		Means: "a request is counted twice or not at all", English: "every request accounted for", Chinese: "请求数守恒"},
	FlagIncomplete: {About: rundir.AboutPlan, Remedy: "remedy.output",
		Means: "a trial did not end as planned", English: "trial complete", Chinese: "试验完整"},
	FlagGeneratorResources: {About: rundir.AboutGenerator, Biases: []string{BiasAll}, Unit: rundir.Count, Remedy: "remedy.resources",
		Means: "dyno lacked descriptors, ports or memory", English: "dyno’s descriptors and ports", Chinese: "dyno 自身的描述符和端口"},
	FlagOwnLimit: {About: rundir.AboutGenerator, Biases: []string{BiasAll}, Unit: rundir.Count, Remedy: "remedy.own_limit",
		Means: "responses were larger than dyno takes", English: "answers not larger than dyno takes", Chinese: "应答未超过 dyno 所能接收的大小"},
	FlagGeneratorStarved: {About: rundir.AboutMachine, Biases: []string{BiasAll}, Unit: rundir.Share, Remedy: "remedy.generator",
		Means: "dyno had no CPU while the target seemed to fail", English: "the generator had a CPU", Chinese: "发生器有 CPU 可用"},
	FlagNoAnswers: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.silent",
		Means: "the target gave no good answer, in the window or at its end", English: "answered at all", Chinese: "有应答"},
	FlagStalled: {About: rundir.AboutTarget, Unit: rundir.Seconds, Remedy: "remedy.silent",
		Means: "the target answered nothing for a long time", English: "answering without a standstill", Chinese: "应答没有停顿"},
	FlagConnections: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.silent",
		Means: "connections could not be opened, or got no answer", English: "connections served", Chinese: "连接得到服务"},
	FlagGeneratorLag: {About: rundir.AboutGenerator, Biases: []string{rundir.TagResponse}, Unit: rundir.Seconds, Remedy: "remedy.generator",
		Means: "dyno sent late, by the p99", English: "generator lag, p99", Chinese: "发生器滞后 p99"},
	FlagLagNotChecked: {About: rundir.AboutPlan, Biases: []string{rundir.TagResponse}, Remedy: "remedy.window",
		Means: "no request shows how late dyno sent", English: "generator lag not checked", Chinese: "未检查发生器滞后"},
	FlagConnectionLimit: {About: rundir.AboutTarget, Unit: rundir.Seconds, Remedy: "remedy.slow",
		Means: "requests waited for a free connection: more of them would help", English: "connections were the limit", Chinese: "连接数成为瓶颈"},
	FlagGeneratorLagTail: {About: rundir.AboutGenerator, Biases: []string{rundir.TagResponse}, Unit: rundir.Seconds, Remedy: "remedy.generator",
		Means: "dyno sent late, by the p99.9", English: "generator lag, tail", Chinese: "发生器滞后尾部"},
	FlagUnopened: {About: rundir.AboutTarget, Unit: rundir.Count,
		Means: "some connections were not open when the load began", English: "connections open when the load began", Chinese: "负载开始时连接已建立"},
	FlagConflicts: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.conflicts",
		Means: "most responses were 409: the requests create what exists already", English: "requests answered without a conflict", Chinese: "请求没有冲突"},
	FlagRedirects: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.redirects",
		Means: "responses were redirections, which count as good and are not followed", English: "requests answered without a redirect", Chinese: "请求没有被重定向"},
	FlagDeviations: {About: rundir.AboutTarget, Unit: rundir.Count,
		Means: "responses depart from HTTP/1.1, and were read all the same", English: "responses as HTTP/1.1 wants them", Chinese: "响应符合 HTTP/1.1"},
	FlagTeardown: {About: rundir.AboutTarget,
		Means: "the teardown of the scenario failed, after the load: what was to be removed may still be there", English: "teardown done", Chinese: "清理步骤已完成"},
	FlagFewConnections: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput, rundir.TagResponse}, Unit: rundir.PerSecond,
		Means: "dyno had too few connections for the rate", English: "connections for the rate", Chinese: "连接数足够维持速率"},
	FlagDrops: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.slow",
		Means: "too many requests waited, so that dyno dropped some", English: "requests dropped", Chinese: "丢弃的请求"},
	FlagAchievedRate: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput}, Unit: rundir.Share, Remedy: "remedy.slow",
		Means: "dyno did not send at the rate that was asked for", English: "achieved rate", Chinese: "实际达到的速率"},
	FlagBacklog: {About: rundir.AboutTarget, Unit: rundir.Share,
		Means: "requests came faster than they were answered", English: "growing backlog", Chinese: "积压增长"},
	FlagUnfinished: {About: rundir.AboutTarget, Biases: []string{biasLatency}, Unit: rundir.Share, Remedy: "remedy.unfinished",
		Means: "requests had no response at the end", English: "unfinished requests", Chinese: "未完成的请求"},
	FlagSubscribers: {About: rundir.AboutTarget, Unit: rundir.Count, Remedy: "remedy.silent",
		Means: "subscribers received nothing, or lost their streams", English: "subscribers served", Chinese: "订阅者得到服务"},
	FlagGeneratorCPU: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput}, Unit: rundir.Share, Remedy: "remedy.generator",
		Means: "dyno used most of its CPUs", English: "generator CPU", Chinese: "发生器 CPU"},
	FlagRunQueue: {About: rundir.AboutMachine, Biases: []string{BiasThroughput, biasLatency}, Unit: rundir.Share, Remedy: "remedy.generator",
		Means: "dyno was ready to run without a CPU", English: "generator waiting for a CPU", Chinese: "发生器等待 CPU"},
	FlagGeneratorLimit: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput, biasLatency}, Unit: rundir.Share, Remedy: "remedy.limit",
		Means: "dyno was busy all the time, and the target was not", English: "generator was the limit", Chinese: "发生器成为瓶颈"},
	FlagStartSkew: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput, biasLatency}, Unit: rundir.Seconds, Remedy: "remedy.start_skew",
		Means: "agents did not begin at one time, or nobody knows whether they did", English: "start skew of agents", Chinese: "各 agent 开始时刻之差"},
	FlagSteal: {About: rundir.AboutMachine, Biases: []string{BiasThroughput, biasLatency, BiasCPU}, Unit: rundir.Share, Remedy: "remedy.steal",
		Means: "the machine's host took CPU time away", English: "CPU stolen by the host", Chinese: "被宿主机占用的 CPU"},
	FlagForeignCPU: {About: rundir.AboutMachine, Biases: []string{BiasThroughput, biasLatency, BiasCPU}, Unit: rundir.Share, Remedy: "remedy.foreign",
		Means: "other programs used CPU time", English: "CPU used by other programs", Chinese: "其他程序占用的 CPU"},
	FlagLateWakeups: {About: rundir.AboutMachine, Biases: []string{biasLatency}, Unit: rundir.Share, Remedy: "remedy.late",
		Means: "sleeping threads woke up late", English: "late wake-ups", Chinese: "唤醒延迟"},
	FlagMemoryPressure: {About: rundir.AboutMachine, Biases: []string{BiasThroughput, biasLatency}, Unit: rundir.Share, Remedy: "remedy.memory",
		Means: "tasks waited for memory", English: "memory pressure", Chinese: "内存压力"},
	FlagIOPressure: {About: rundir.AboutMachine, Biases: []string{BiasThroughput, biasLatency}, Unit: rundir.Share, Remedy: "remedy.io",
		Means: "tasks waited for disks", English: "disk pressure", Chinese: "磁盘压力"},
	FlagDisturbed: {About: rundir.AboutMachine, Biases: []string{biasLatency}, Unit: rundir.Share, Remedy: "remedy.disturbed",
		Means: "something else had a CPU that was wanted", English: "disturbed share of the window", Chinese: "窗口受干扰的比例"},
	FlagNotSteady: {About: rundir.AboutPlan, Unit: rundir.Share, Remedy: "remedy.steady",
		Means: "the halves of a window differ", English: "steady window", Chinese: "窗口内稳定"},
	FlagDependent: {About: rundir.AboutPlan, Unit: rundir.Count, Remedy: "remedy.dependent",
		Means: "neighbouring stretches are too alike to count as many", English: "independent bins", Chinese: "时间片相互独立"},
	FlagNoTrials: {About: rundir.AboutTarget, Biases: []string{BiasAll}, Remedy: "remedy.output",
		Means: "no trial of a variant is complete", English: "no complete trial", Chinese: "没有完整的试验"},
	FlagBelowRange: {About: rundir.AboutTarget, Remedy: "remedy.range",
		Means: "the capacity is below the lowest rate of the search", English: "up to the range’s lowest rate", Chinese: "达到范围的最低速率"},
	FlagPlateau: {About: rundir.AboutGenerator, Biases: []string{BiasThroughput}, Remedy: "remedy.limit",
		Means: "more load brings no more throughput, and the target has time to spare", English: "plateau with an idle target", Chinese: "被测程序空闲而出现平台"},
	FlagControlDiffers: {About: rundir.AboutPlan, Remedy: "remedy.control",
		Means: "the base and its control differ, though they are the same", English: "A/A control differs", Chinese: "A/A 对照出现差异"},
	FlagPilotNotSteady: {About: rundir.AboutPlan, Remedy: "remedy.pilot",
		Means: "the pilot found no warm-up after which figures are steady", English: "pilot not steady", Chinese: "预试验不稳定"},
	CauseClocks:             {Remedy: "remedy.clocks", English: "clocks of the responses", Chinese: "响应的时钟"},
	rundir.CauseAgentClocks: {Remedy: "remedy.agent_clocks", English: "clocks of agents", Chinese: "各 agent 的时钟"},
}

// Of returns what is declared of a kind. For a kind that is not declared, it has only the
// kind.
func Of(kind string) Check {
	c := declared[kind]
	c.Kind = kind
	return c
}

// Kinds lists all kinds that are declared, by name.
func Kinds() []string { return slices.Sorted(maps.Keys(declared)) }

// All lists the checks: those about the target first, and of each by name.
func All() (list []Check) {
	for _, about := range []string{rundir.AboutTarget, rundir.AboutGenerator, rundir.AboutMachine, rundir.AboutPlan} {
		for _, kind := range Kinds() {
			if c := Of(kind); c.About == about {
				list = append(list, c)
			}
		}
	}
	return list
}

// IsKnown tells whether a flag is of a kind that Judge raises.
func IsKnown(kind string) bool {
	return declared[kind].About != ""
}

// DisturbsRound tells whether a flag that disturbs is a reason to measure the round again: it
// is about a disturbance, and the next round may have none.
func DisturbsRound(kind string) bool { return declared[kind].About == rundir.AboutMachine }

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
