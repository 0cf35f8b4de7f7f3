// Package stat says what repeated measurements show, and how surely. It is pure:
// numbers in, numbers out, the same for the same seed, and nothing is read,
// written, timed or kept. The caller's slices are never changed.
//
// The unit is the trial. Two variants measured in the same round make one pair,
// and what is computed is computed on one number a round: the log ratio
// ln(B/A), or the difference B−A. Requests within a trial are not replicates.
//
// To compare two variants:
//
//   - PairedRatio: the ratio with its t interval, its p-value and the smallest
//     effect that so many rounds would have found;
//   - SignFlip: the same question without assuming a distribution;
//   - SignedRank and HodgesLehmann: for figures with outliers, such as a p99;
//   - QuantileInterval: for a median or another quantile of independent values;
//   - HierarchicalBootstrap: for what must be merged before it can be read, such
//     as the quantile of many histograms;
//   - EquivalenceTest: that the two differ by less than matters;
//   - Judge: what may be said of it in one word;
//   - Holm and BenjaminiHochberg: when there are several comparisons;
//   - UnpairedRatio: the ratio of two runs that were made apart from each other;
//   - Stopping: how many rounds to make, decided without looking for a result.
//
// To state one variant's level: GeometricMean over its trials, and WoodruffShares
// for a quantile of what all of them hold together.
//
// To look at one series or one curve: its warm-up, dependence, trend, change
// points, distribution of gaps and scalability.
//
// Input that cannot be computed with, such as NaN, gives an error that says which
// value it was. Too few values give one that wraps ErrTooFew. All functions may
// be called concurrently.
package stat
