package verdict

import "dyno/results/rundir"

// A figure is an estimate with its interval, both in the metric's unit: seconds, bytes,
// per second or plain. An end that the data do not bound is infinite. Without an
// interval, as of a single trial, both ends are the estimate and bounded is false.
type figure struct {
	estimate  float64
	low, high float64
	bounded   bool // low and high are an interval
}

// evidence provides the figures that expressions need. An error says which figure is
// missing, and why.
type evidence interface {
	// value is a metric of one variant.
	value(variant string, m metric) (figure, error)
	// ratio is a metric of one variant over that of another, paired by rounds.
	ratio(variant, base string, m metric) (figure, error)
	// slope is the growth of a gauge of the target (rss, descriptors, threads,
	// goroutines) over the window, per second and relative to its level when the window
	// began. If there are several trials, it is that of the one that grew most.
	slope(variant, gauge string) (figure, error)
	// spread is the coefficient of variation of a metric from trial to trial of one variant: the
	// standard deviation as a share of the mean.
	spread(variant string, m metric) (figure, error)
	// doubtful describes the disturbance of the first figure that is not as it is
	// printed; nil if there is none.
	doubtful(places []place) *rundir.Message
	// unidentified says why the first figure is not identified; nil when all are.
	unidentified(places []place) *rundir.Message
}
