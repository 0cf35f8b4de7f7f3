package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/internal/exit"
	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/expr"
	"dyno/lab/plan"
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// An abortedError says that a threshold ended a run.
type abortedError struct {
	threshold string
	after     time.Duration // the window's length until then
}

func (e *abortedError) Error() string { return e.AsMessage().String() }

// AsMessage returns the error as a message.
func (e *abortedError) AsMessage() texts.Message {
	return texts.New("reason.aborted", "threshold", e.threshold, "time", units.FormatDuration(e.after.Round(100*time.Millisecond)))
}

// judgeEvery is how much more of a window there is when it is judged again.
const judgeEvery = time.Second

// An aborter ends a run if a window breaks a threshold. It sees what all processes and agents of a load did, but for
// times, which it has of this process alone.
type aborter struct {
	thresholds []plan.Threshold
	names      expr.Names
	abort      func(error) // ends the run

	mu      sync.Mutex // guards what follows
	planned trial.Planned
	sum     record.Interval // of the window
	times   map[string]*hist.Histogram
	judged  time.Duration // how much of the window was there when it was judged last
}

var _ trial.Watcher = (*aborter)(nil)

// newAborter returns the aborter of an experiment, or nil if no threshold ends it.
func newAborter(e *plan.Experiment, abort func(error)) *aborter {
	a := &aborter{names: expr.Names{Steps: e.Steps()}, abort: abort}
	for _, t := range e.Thresholds {
		if t.Abort {
			a.thresholds = append(a.thresholds, t)
		}
	}
	if len(a.thresholds) == 0 {
		return nil
	}
	for i := range e.Variants {
		a.names.Variants = append(a.names.Variants, e.Variants[i].Name)
	}
	return a
}

// checkCarried refuses thresholds on times if agents carry the load: their times are known at the end only.
func (a *aborter) checkCarried(agents int) error {
	for _, t := range a.thresholds {
		time := ""
		_, _ = expr.Breaks(t.Holds, a.names.Variants[0], a.names, func(metric string) (float64, bool) { // which CheckAbort has judged
			if tag, _, _ := strings.Cut(metric, "."); tag == rundir.TagResponse || tag == rundir.TagService {
				time = metric
			}
			return 0, false
		})
		if agents > 0 && time != "" {
			return exit.With(exit.Usage, fmt.Errorf("threshold %q cannot end the run: %s of a load that agents carry is known at its end only", t.Holds, time),
				"throughput, errors.ratio and errors.total are known while it runs")
		}
	}
	return nil
}

// Begin implements trial.Watcher.
func (a *aborter) Begin(next trial.Planned) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.planned, a.sum, a.judged, a.times = next, record.Interval{}, 0, map[string]*hist.Histogram{}
}

// Interval implements trial.Watcher.
func (a *aborter) Interval(i record.Interval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.planned.Purpose != "" || i.Start < a.planned.Warmup {
		return
	}
	a.sum.AddCounts(&i)
	for tag, h := range i.Latency {
		name := record.Tag(tag).String() //nolint:gosec // there are few tags
		if h == nil || name != rundir.TagResponse && name != rundir.TagService {
			continue
		}
		if a.times[name] == nil {
			a.times[name] = hist.New()
		}
		a.times[name].Merge(h)
	}
	window := i.Start + i.Length - a.planned.Warmup
	if window < a.judged+judgeEvery {
		return
	}
	a.judged = window
	figure := a.figures(window)
	for _, t := range a.thresholds {
		if broken, err := expr.Breaks(t.Holds, a.planned.Variant, a.names, figure); broken && err == nil && window >= t.After {
			a.abort(&abortedError{t.Holds, window})
			return
		}
	}
}

// figures returns the figures of a window of this length so far.
func (a *aborter) figures(window time.Duration) func(metric string) (float64, bool) {
	counts := trial.CountsOf(&a.sum.Measured)
	return func(metric string) (float64, bool) {
		switch metric {
		case rundir.MetricThroughput:
			return float64(max(a.sum.Completed(), a.sum.Delivered)) / window.Seconds(), true
		case rundir.MetricErrorTotal:
			return float64(counts.Unanswered()), true
		case rundir.MetricErrorRatio:
			_, ratio := counts.Failures()
			if ratio == nil {
				return 0, false
			}
			return *ratio, true
		}
		tag, summary, _ := strings.Cut(metric, ".")
		return summarized(a.times[tag], summary)
	}
}

// summarized returns a figure of times in seconds, if there are enough to know it.
func summarized(h *hist.Histogram, summary string) (float64, bool) {
	if h == nil || h.Count() == 0 {
		return 0, false
	}
	if q, is := rundir.QuantileOf(summary); is {
		return float64(h.Quantile(q)) / 1e9, !rundir.Few(h.Count(), q)
	}
	all, of := rundir.QuantilesOf(h), rundir.Summaries()
	i := slices.IndexFunc(of, func(s rundir.Summary) bool { return s.Name == summary })
	if i < 0 || of[i].Of(&all) == nil {
		return 0, false
	}
	return *of[i].Of(&all), true
}

// End implements trial.Watcher.
func (a *aborter) End(*rundir.Trial, []rundir.Flag) {}

// isAborted tells whether a threshold ended the run.
func isAborted(err error) bool {
	_, is := errors.AsType[*abortedError](err)
	return is
}
