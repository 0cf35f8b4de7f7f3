// Package verdict turns measurements into statements: figures for each variant with their
// intervals, comparisons, ladders, sweeps, capacities, flags that say where figures are
// doubtful, and the outcomes of thresholds and claims. It reads only what a run folder
// holds, so a folder that somebody sent can be judged again. A Referee judges while a run
// is still being measured.
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
// A throughput is the geometric mean of the trials' throughputs, with Student's t on
// their logarithms. The same is true of every figure that each trial has one of. If a
// trial has a zero, the plain mean is used, and the interval's name says so. Quantiles
// come from merged histograms, never from averages of quantiles, and have Woodruff's
// interval with the trials as clusters. A quantile with too few values beyond it is left
// out. A mean latency and a share of errors are sums over sums, with the interval of a
// ratio estimator. The largest latency and a number of errors are what the run saw, and
// estimate nothing. One trial alone has no intervals.
//
// # Comparisons
//
// Variants are compared by the ratios of their rounds: throughput, CPU time and the like
// by Student's t on log ratios, quantiles by Hodges and Lehmann's estimate with the
// interval of the signed-rank test. Throughput is compared by ranks as well where a
// target lost a round: see compare/lost.go. Verdicts are those of stat.Judge with the plan's
// margin, at the confidence that the plan's stopping rule leaves. In a family of several
// comparisons, better and worse need the p-value adjusted by Holm's method as well. A
// family is all variants against the base, together with all other pairs where the plan asks
// for pairs, or a ladder's neighbours together with its steps against the first. The control, which is the base measured twice, is a family of
// its own and comes first. A ratio that is not identified has no verdict.
//
// # What a figure is worth
//
// Each trial is examined by checks with limits fixed beforehand. Stretches in which the
// machine or the generator disturbed it are marked: by late sleepers, late sends, stolen
// time and pressure, never by a latency. A figure is ok when these disturbances can have
// moved it only a little. It is bounded when the true value lies between two values,
// whatever happened in those stretches. It is relative only when its ratios are valid and
// its value is not. Otherwise it is not identified. A ratio of variants that were disturbed
// unevenly is bounded by the bounds of both. A run is valid when the plan's metric and the
// figures of its claims are identified and no disturbance leaves a threshold undecided.
//
// # Conditions
//
// Thresholds and claims are written in one language, which package expr describes and reads.
// rundir.Metrics lists the metrics. program.NAME is a number that a program printed; and
// observed.NAME one of an endpoint or a command of the plan: for a counter its growth per
// second, for a gauge its mean. Throughput, and figures per request, count events where there
// are subscribers. target.connection_reuse_ratio is of the requests of the window, or of
// publications where there are subscribers. Throughput, response, service and errors are known of
// each step of a scenario as well, as in response.p99{step=login}.
package verdict
