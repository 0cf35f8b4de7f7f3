package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	gonum "gonum.org/v1/gonum/stat"
)

// Mergeable is what can be added up and emptied, as a histogram can.
type Mergeable[H any] interface {
	Merge(H) // adds the argument, which is left as it is
	Reset()  // makes it empty
}

// Resampling says how to bootstrap.
type Resampling struct {
	Draws      int     // 100 to 100,000; 2,000 is enough for an interval
	Seed       uint64  // the same seed gives the same result
	Confidence float64 // of the interval, such as 0.95
}

// Validate reports all faults.
func (r Resampling) Validate() error {
	err := checkConfidence(r.Confidence)
	if r.Draws < 100 || r.Draws > 100_000 {
		err = errors.Join(err, fmt.Errorf("draws %d: want 100 to 100000", r.Draws))
	}
	return err
}

// A Resampled is a bootstrap estimate.
type Resampled struct {
	Estimate float64  // the statistic of the data as they are
	Interval Interval // percentiles of the draws
	StdErr   float64  // standard deviation of the draws
}

// HierarchicalBootstrap estimates a statistic of data that must be merged before
// it can be read. A sample is rounds[round][variant][interval], where an interval
// is what was recorded within, say, one second of a window. Each draw takes as
// many rounds as there are, with replacement; within each the intervals of each
// variant, with replacement; merges anew what belongs to one variant; and asks
// for the statistic, such as the log ratio of two p99, of the merged data by
// variant. So a round keeps its pairs, and seconds that went badly stay whole
// (Davison, Hinkley: Bootstrap methods and their application, 3.8).
//
// The interval is that of the percentiles. With few rounds it is somewhat too
// narrow, since no draw can vary more than they did: with eight, 95 % cover
// about 90 %. It is therefore a second opinion, not what decides.
//
// H is a pointer such as *hist.Histogram, and fresh returns an empty one. The
// statistic must not keep its argument, which is used again. The cost is Draws
// times the merging of the whole sample. It needs two rounds, the same number of
// variants in all, and an interval in each; a statistic that is not finite is an
// error.
func HierarchicalBootstrap[H Mergeable[H]](rounds [][][]H, fresh func() H, statistic func(variants []H) float64, r Resampling) (Resampled, error) {
	if err := errors.Join(checkRounds(rounds), r.Validate()); err != nil {
		return Resampled{}, err
	}
	merged := make([]H, len(rounds[0]))
	for v := range merged {
		merged[v] = fresh()
	}
	rng := newRNG(r.Seed)
	// measure merges what the choices select and returns its statistic.
	measure := func(choose func(i, n int) int) (float64, error) {
		for _, m := range merged {
			m.Reset()
		}
		for i := range rounds {
			for v, intervals := range rounds[choose(i, len(rounds))] {
				for j := range intervals {
					merged[v].Merge(intervals[choose(j, len(intervals))])
				}
			}
		}
		x := statistic(merged)
		if !(math.Abs(x) <= largest) {
			return 0, fmt.Errorf("statistic is %v: want a number of at most %v in magnitude", x, float64(largest))
		}
		return x, nil
	}

	estimate, err := measure(func(i, _ int) int { return i })
	if err != nil {
		return Resampled{}, err
	}
	draws := make([]float64, r.Draws)
	for k := range draws {
		if draws[k], err = measure(func(_, n int) int { return rng.IntN(n) }); err != nil {
			return Resampled{}, fmt.Errorf("draw %d: %w", k, err)
		}
	}
	slices.Sort(draws)
	tail := (1 - r.Confidence) / 2
	return Resampled{
		Estimate: estimate,
		Interval: Interval{interpolate(draws, tail), interpolate(draws, 1-tail)},
		StdErr:   gonum.StdDev(draws, nil),
	}, nil
}

// checkRounds refuses a sample that cannot be drawn from.
func checkRounds[H any](rounds [][][]H) error {
	if len(rounds) < 2 {
		return fmt.Errorf("%w: %d rounds, want at least 2", ErrTooFew, len(rounds))
	}
	for i, variants := range rounds {
		if len(variants) == 0 || len(variants) != len(rounds[0]) {
			return fmt.Errorf("round %d has %d variants, round 0 %d: want the same in all, and at least one", i, len(variants), len(rounds[0]))
		}
		for v, intervals := range variants {
			if len(intervals) == 0 {
				return fmt.Errorf("%w: round %d, variant %d has no intervals", ErrTooFew, i, v)
			}
		}
	}
	return nil
}
