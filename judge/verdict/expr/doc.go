// Package expr reads the conditions of thresholds and claims, and decides them from
// figures that the caller provides. It knows neither trials nor how a figure is
// estimated.
//
// Thresholds and claims are written in one language:
//
//	response.p99 < 80ms and errors.ratio < 0.1%
//	throughput >= 5000/s
//	slope(rss) < 5%/30min
//	spread(throughput) < 5%
//	ratio(goroutine, pool, throughput) >= 1.36
//	value("pool-500", response.p99) < min(10ms, 2 * value("pool-100", response.p99))
//	ratio(thread, goroutine, program.switch_seconds) > 4
//
// A claim of a published size has two texts instead of a condition: the size, such as -42%, and the
// figure that is held against it, such as change(new, old, service.p50).
//
// # Figures
//
// A metric alone is that of each variant in turn in a threshold. In a claim the
// variant is named, unless there is only one. Functions lists what can be called.
//
// In a threshold slope(gauge) and spread(metric) are those of each variant in turn. In a
// claim they are those of the only variant. A variant's name needs quotes unless it is an
// identifier.
//
// After a metric, {step=NAME} selects the requests of one step of a scenario:
//
//	response.p99{step=login} < 200ms and errors.ratio{step=list} < 0.1%
//	ratio(new, old, service.p50{step=list}) < 1.02
//
// Throughput, response, service, errors.ratio and errors.total are known of each step. A
// step whose responses are answers of language models also has first_token, token_time,
// tokens_per_second, prompt_tokens_per_second and goodput.
//
// The operators are < <= > >= == != + - * / and, or, not. Comparisons may be chained:
// 1ms < response.p99 < 1s.
//
// # Units
//
// A unit follows its number directly: ns us µs ms s m min h; B KB MB GB KiB MiB GiB; %;
// /s /min /h. A share over a time is a rate as well, as 2%/h and 5%/30min are. A time
// over a time is a plain number. A plain number over a time is a rate, and a rate times a
// time is a plain number. Figures of different dimensions are neither compared nor added.
// A plain number may stand for a size or a rate, but a time and a slope need their unit:
// without, 80 would be 80 seconds and 5% would be 5 % in each second, limits that nothing
// breaks.
//
// # Intervals
//
// Every figure is an estimate with its interval, and arithmetic is that of intervals: the
// result holds all values that the operands can give. A figure named twice counts as two.
// So the ratio of two variants is narrower by ratio() than by a division. A comparison is
// true when the whole interval keeps it, and false when none of it does. It is undecided
// when the interval straddles the limit. Two figures are equal only where both are exact;
// they differ where their intervals do not meet. A figure that is missing leaves what
// needs it undecided. "And" and "or" are Kleene's: a side that settles the matter does,
// whatever the other is.
//
// A threshold that is undecided so is decided by the estimates, and says that it is not for sure. A figure
// without an interval, as of a single trial, decides a threshold, and leaves a claim undecided.
//
// # Short names
//
// p99, p99.9, mean and max alone are those of response times, or of deliveries where there are
// subscribers. A comma between conditions means "and".
package expr
