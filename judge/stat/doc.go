// Package stat holds the statistics of repeated measurements. It is pure: numbers in,
// numbers out, the same for the same seed. It reads, writes, times and keeps nothing,
// and never changes the caller's slices. Tests compare its results with SciPy's.
//
// The unit is the trial. Two variants measured in the same round make one pair, and
// every computation uses one number of each round: the log ratio ln(B/A), or the
// difference B−A. Requests within a trial are not replicates.
//
// To compare two variants:
//
//   - PairedMean: the mean of the log ratios, with its t interval and p-value;
//   - DetectableEffect: the smallest effect that this number of rounds would have found;
//   - SignFlip: the same question without assuming a distribution;
//   - SignedRank and HodgesLehmann: for figures with outliers, such as a p99;
//   - Exchanged: for variants that ran at once and changed places;
//   - Judge: better, worse, equivalent or inconclusive;
//   - Holm: adjusts the p-values of several comparisons;
//   - UnpairedRatio: the ratio of two runs that were made at different times;
//   - Stopping: how many rounds to make, decided without looking for a result.
//
// To state how much the trials of one variant vary: CoefficientOfVariation.
//
// To look at one series or one curve: its warm-up, dependence, trend, change points
// and knee.
//
// Input that cannot be computed with, such as NaN, gives an error that says which
// value it was. Too few values give one that wraps ErrTooFew. All functions may
// be called concurrently.
package stat
