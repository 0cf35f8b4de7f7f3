package cli

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

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

// An aborter ends a run if a window breaks a threshold. It sees what all processes and agents of a load did.
type aborter struct {
	thresholds []plan.Threshold
	names      expr.Names
	times      record.TagSet // that the thresholds need
	abort      func(error)   // ends the run

	mu      sync.Mutex // guards what follows
	planned trial.Planned
	sum     record.Interval // of the window
	judged  time.Duration   // how much of the window was there when it was judged last
}

var _ trial.Watcher = (*aborter)(nil)

// newAborter returns the aborter of an experiment, or nil if no threshold ends it.
func newAborter(e *plan.Experiment, abort func(error)) *aborter {
	a := &aborter{names: expr.Names{Steps: e.Steps()}, abort: abort}
	for i := range e.Variants {
		a.names.Variants = append(a.names.Variants, e.Variants[i].Name)
	}
	for _, t := range e.Thresholds {
		holds, err := expr.Compile(t.Holds, expr.ForThreshold, a.names)
		if !t.Abort || err != nil { // which CheckAbort has refused
			continue
		}
		a.thresholds = append(a.thresholds, t)
		for _, figure := range holds.Refs("") {
			if tag, _, is := summaryOf(figure.Metric); is {
				a.times[tag] = true
			}
		}
	}
	if len(a.thresholds) == 0 {
		return nil
	}
	return a
}

// summaryOf tells which summary of which times a metric is, if it is one.
func summaryOf(metric string) (of record.Tag, summary string, is bool) {
	name, summary, _ := strings.Cut(metric, ".")
	of, is = record.TagOf(name)
	return of, summary, is
}

// Begin implements trial.Watcher.
func (a *aborter) Begin(next trial.Planned) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.planned, a.sum, a.judged = next, record.Interval{}, 0
}

// Interval implements trial.Watcher.
func (a *aborter) Interval(i record.Interval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.planned.Purpose != "" {
		return
	}
	i.KeepTimes(a.times)
	a.sum.AddTimes(&i)
	if i.Start < a.planned.Warmup { // a process that is ahead may have begun with the window
		a.sum.AddCounts(&record.Interval{Measured: i.Measured})
		return
	}
	a.sum.AddCounts(&i)
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
		tag, summary, _ := summaryOf(metric)
		return summarized(a.sum.Latency[tag], summary)
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
