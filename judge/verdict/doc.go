// Package verdict turns what was measured into what may be said: figures for
// each variant with their intervals, comparisons, ladders, sweeps, capacities,
// flags that say where not to trust them, and the outcomes of thresholds and
// claims. It reads nothing but what a run folder holds, so a folder that somebody
// sent can be judged anew. A Referee judges while a run is still being measured.
//
// The unit is the trial. Pilots, probes, trials that a resumed run replaced, and
// rounds that were left out for noise are behind no figure.
//
// # Figures
//
// A throughput is the geometric mean of the trials', with Student's t on their
// logarithms; so are all figures that each trial has one of. Where a trial has a zero it
// is the plain mean, and the interval's name says so.
// Quantiles come from merged histograms, never from averages of quantiles, and
// have Woodruff's interval with the trials as clusters; one that too few values
// support is left out. A mean latency and a share of errors are sums over sums,
// with the interval of a ratio estimator. The largest latency and a number of
// errors are what the run saw, and estimate nothing. One trial alone has no
// intervals.
//
// # Comparisons
//
// Variants are compared by the ratios of their rounds: throughput, CPU time and
// the like by Student's t on log ratios, quantiles by Hodges and Lehmann's
// estimate with the interval of the signed-rank test. So is throughput where a target
// lost a round: see lost.go. Verdicts are those of
// stat.Judge with the plan's margin, at the confidence that the plan's stopping
// rule leaves. In a family of several, better and worse need the p-value adjusted
// by Holm's method as well: all variants against the base, or a ladder's
// neighbours together with its steps against the first. The control, the base
// measured twice, is apart and comes first. A ratio that is not identified has no
// verdict.
//
// # What a figure is worth
//
// Each trial is examined by checks with limits fixed beforehand, and its stretches are
// marked in which the machine or the generator disturbed it: by late sleepers, late
// sends, stolen time and pressure, never by a latency. A figure is ok when that can
// have moved it by little, bounded when the truth lies between two values whatever
// happened in those stretches, relative only when its ratios stand and its value does
// not, and else not identified. A run is valid when the plan's metric is identified and
// no threshold or claim is left undecided by a disturbance.
//
// # Conditions
//
// Thresholds and claims are written in one language, which Compile describes and
// reads. Metrics are throughput and capacity; response, service, send_lag, connect,
// first_byte, read_delay (from arrival to the generator's read) and service_read (the
// service time until then), handshake (of TLS), and of events opening, first_event, event_gap and delivery,
// each with .p50 .p90 .p99 .p999 .max and .mean; errors.ratio (of the requests sent) and errors.total; target.cpu_per_request, cpu_share,
// user_share, rss, threads, descriptors, voluntary_switches_per_request and
// involuntary_switches_per_request; generator.cpu_per_request and cpu_share;
// connections.requested, opened, failed and peak; streams.lost, announced, repeated,
// disordered, gaps and reconnects; program.NAME, a number that a program printed; and
// observed.NAME, of an endpoint or a command of the plan: of a counter how much it grew
// in a second, of a gauge its mean. Throughput, and what is per request, is of events
// where there are subscribers.
package verdict
