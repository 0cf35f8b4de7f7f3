package expr

import "dyno/results/rundir"

// A Quantity is an estimate with its interval, both in the metric's unit: seconds, bytes,
// per second or plain. An end that the data do not bound is infinite. Without an
// interval, as of a single trial, both ends are the estimate and Bounded is false.
type Quantity struct {
	Estimate  float64
	Low, High float64
	Bounded   bool // Low and High are an interval
}

// Evidence provides the figures that expressions need. An error says which figure is
// missing, and why.
type Evidence interface {
	// Value is a metric of one variant.
	Value(variant, metric string) (Quantity, error)
	// Ratio is a metric of one variant over that of another, paired by rounds.
	Ratio(variant, base, metric string) (Quantity, error)
	// Slope is the growth over the window of a gauge of the target: rss, descriptors,
	// threads or goroutines. It is per second, and relative to the gauge's level when the
	// window began. If there are several trials, it is that of the one that grew most.
	Slope(variant, gauge string) (Quantity, error)
	// Spread is the coefficient of variation of a metric from trial to trial of one variant: the
	// standard deviation as a share of the mean.
	Spread(variant, metric string) (Quantity, error)
	// Needed returns how many requests a figure rests on. It also returns how many would show, with the
	// measured share, on which side of a limit the figure is; 0 if no number would, or if that is unknown.
	Needed(figure Ref, limit float64) (requests, needed int64)
	// FewRounds says that figures come from too few undisturbed rounds to speak against a claim; nil if
	// they can.
	FewRounds(figures []Ref) *rundir.Message
	// Doubtful describes the disturbance of the first figure that is not as it is
	// printed; nil if there is none.
	Doubtful(figures []Ref) *rundir.Message
	// Unidentified says why the first figure is not identified; nil when all are.
	Unidentified(figures []Ref) *rundir.Message
}

// A Ref refers to a figure: a metric of a variant, or its ratio to that of a base. Without a
// base, Base is empty.
type Ref struct{ Metric, Variant, Base string }
