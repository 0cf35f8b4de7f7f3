// Package verdict turns what was measured into what may be said: figures for
// each variant, comparisons with the base, flags that say where not to trust
// them, and the outcomes of thresholds and claims. It reads nothing but what a
// run folder holds, so a folder that somebody sent can be judged anew.
//
// Judge fills in the run of a folder. The unit is the trial: a throughput is the median
// of the trials' values, a ratio the median of the rounds' ratios. Quantiles
// come from merged histograms, never from averages of quantiles, and one that
// too few values support is left out. No interval is claimed.
//
// Thresholds and claims are written in one language, which Compile reads:
//
//	response.p99 < 80ms and errors.ratio < 0.1%
//	throughput >= 5000/s
//	ratio(goroutine, pool, throughput) >= 1.36
//	value("pool-500", response.p99) < min(10ms, 2 * value("pool-100", response.p99))
//
// It has the operators < <= > >= == != + - * / and, or, not; the functions
// ratio(variant, base, metric), value(variant, metric), min, max and abs; and
// numbers with a unit right behind them: ns us µs ms s m, B KB MB GB KiB MiB
// GiB, %, /s. A variant's name stands bare when it is an identifier and in
// quotes otherwise. In a threshold a metric alone is that of each variant in
// turn; in a claim the variant is named, unless there is only one.
//
// Metrics are throughput; response, service, send_lag, connect and first_byte,
// each with .p50 .p90 .p99 .p999 .max and .mean; errors.ratio (of the requests
// sent) and errors.total; target.cpu_per_request, cpu_share, user_share, rss,
// threads, descriptors, voluntary_switches_per_request and
// involuntary_switches_per_request; generator.cpu_per_request and cpu_share;
// connections.requested, opened, failed and peak.
package verdict
