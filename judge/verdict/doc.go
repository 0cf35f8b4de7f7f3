// Package verdict turns measurements into statements: figures with their intervals, comparisons,
// ladders, sweeps and capacities. Flags say where figures are doubtful. It also decides thresholds
// and claims. It reads only what a run folder holds, so a folder from another machine can be judged
// again. judge.go puts the steps in order.
//
// A Referee (referee.go) judges while a run is still being measured. The runner, package trial,
// declares what it asks; the command line joins the two. So the code that measures has no statistics.
//
// This package runs the packages below it, each of which imports only those before it:
//
//	expr         the language of thresholds and claims
//	recording    what one trial left in its folder
//	checks       what is wrong with one trial
//	disturbance  what disturbed it
//	dataset      the figures of all trials, by round and over all rounds
//	validity     how far a variant's figures can be relied on
//	compare      variants compared by their rounds
//	evidence     all of this, for expressions
//	search       searches for capacity
//	sweep        curves along a variable
//
// The unit is the trial. Figures use no pilots, no probes, no trials that a resumed run replaced, and
// no rounds left out for noise.
//
// # Figures
//
// Throughput, like every other figure with one value per trial, is the geometric mean of the trials.
// Its interval is that of Student's t on their logarithms. If a trial has a zero, the plain mean is
// used, and the interval's name says so. Quantiles come from merged histograms. Their interval comes
// from a binomial test: the number of slower requests does not contradict the quantile at the times
// in it. The test uses the effective number of requests. A quantile with too few values beyond it is
// left out. A mean latency and a share of errors are sums over sums, with the interval of a ratio
// estimator. The largest latency and a number of errors are what the run saw, and estimate nothing.
// One trial has no intervals.
//
// # Comparisons
//
// Variants are compared by the ratios of their rounds. Throughput, CPU time and the like are compared
// by Student's t on log ratios. Quantiles are compared by Hodges and Lehmann's estimate with the
// signed-rank interval. Throughput is compared by ranks as well where a target lost a round: see
// compare/lost.go. Verdicts are those of stat.Judge with the plan's margin, at the confidence that
// the stopping rule leaves. In a family of several comparisons, better and worse also need the
// p-value adjusted by Holm's method. A family is all variants against the base, with all other pairs
// where the plan asks for pairs. A ladder has two families. One has its steps against the first and
// the one before; the other has the whole ladder against each ladder without one step. The control,
// which is the base measured twice, is a family of its own and comes first.
//
// # What a figure is worth
//
// Checks have limits fixed beforehand and decide nothing. Disturbed stretches are marked by late
// sleepers, late sends, stolen time and pressure, never by a latency. A figure is ok, bounded,
// relative only (its ratios are valid, its value is not) or not identified: see package validity.
// A ratio of variants that were disturbed unevenly is bounded by the bounds of both; one that is not
// identified has no verdict. A run is valid when the plan's metric and its claims' figures are
// identified. No disturbance may leave a threshold undecided.
//
// # Conditions
//
// rundir.Metrics lists the metrics. program.NAME is a number that a program printed. observed.NAME
// is one of an endpoint or command of the plan: a counter's growth per second, a gauge's mean.
// With subscribers, throughput and figures per request count events, and
// target.connection_reuse_ratio counts publications. See package expr for steps and units.
package verdict
