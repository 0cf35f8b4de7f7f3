// Package verdict turns measurements into statements: figures for each variant with their
// intervals, comparisons, ladders, sweeps, capacities, flags that say where figures are
// doubtful, and the outcomes of thresholds and claims. It reads only what a run folder
// holds, so a folder that somebody sent can be judged again. judge.go puts the steps in order.
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
// The unit is the trial. No figure is made of pilots, probes, trials that a resumed run
// replaced, or rounds that were left out for noise.
//
// # Figures
//
// Throughput, and every other figure that each trial has one of, is the geometric mean of the
// trials, with Student's t on their logarithms. If a trial has a zero, the plain mean is used, and
// the interval's name says so. Quantiles come from merged histograms. Their interval has the
// times at which the number of slower requests does not contradict the quantile, by a binomial
// test of their effective number; one with too few values beyond it is left out. A mean latency and a
// share of errors are sums over sums, with the interval of a ratio estimator. The largest latency
// and a number of errors are what the run saw, and estimate nothing. One trial has no intervals.
//
// # Comparisons
//
// Variants are compared by the ratios of their rounds: throughput, CPU time and the like by
// Student's t on log ratios, quantiles by Hodges and Lehmann's estimate with the signed-rank
// interval. Throughput is compared by ranks as well where a target lost a round: see
// compare/lost.go. Verdicts are those of stat.Judge with the plan's margin, at the confidence that
// the stopping rule leaves. In a family of several comparisons, better and worse also need the
// p-value adjusted by Holm's method. A family is all variants against the base, with all other
// pairs where the plan asks for pairs, or a ladder's neighbours and its steps against the first.
// The control, which is the base measured twice, is a family of its own and comes first.
//
// # What a figure is worth
//
// Checks have limits fixed beforehand and decide nothing. Disturbed stretches are marked by late
// sleepers, late sends, stolen time and pressure, never by a latency. A figure is ok, bounded,
// relative only (its ratios are valid, its value is not) or not identified: see package validity.
// A ratio of variants that were disturbed unevenly is bounded by the bounds of both; one that is not
// identified has no verdict. A run is valid when the plan's metric and the figures of its claims are
// identified and no disturbance leaves a threshold undecided.
//
// # Conditions
//
// rundir.Metrics lists the metrics. program.NAME is a number that a program printed. observed.NAME
// is one of an endpoint or command of the plan: a counter's growth per second, a gauge's mean.
// With subscribers, throughput and figures per request count events, and
// target.connection_reuse_ratio counts publications. See package expr for steps and units.
package verdict
