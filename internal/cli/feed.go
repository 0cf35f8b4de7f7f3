package cli

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"

	"dyno/internal/board"
	"dyno/internal/texts"
	"dyno/lab/experiment"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/report"
	"dyno/results/rundir"
	"dyno/ui"
)

// feedArgs are the arguments that dyno ui puts before those of a run that it starts. The
// rest can be used to repeat the run.
func feedArgs() []string { return []string{"__follow-run"} }

// followed reports whether dyno ui has started this process.
func followed(args []string) bool { return len(args) > 0 && args[0] == feedArgs()[0] }

// feedDescriptor is where such a process writes. It is the first descriptor that os/exec
// passes on.
const feedDescriptor = 3

// feedQueue is how many events may wait for the reader. Events beyond that are left out,
// because an interval must not wait for a reader.
const feedQueue = 1024

// A feed tells its reader what a run does, with a line of JSON for each ui.Event. If
// nobody reads any more, the run ends: it was started to be followed. It implements
// trial.Watcher; any goroutine may call its methods.
type feed struct {
	lines  chan []byte
	done   chan struct{}
	now    func() time.Time
	mu     sync.Mutex // guards the following fields
	number int        // of the trial
	warmup time.Duration
	second ui.Second
	good   uint64
	times  map[engine.Tag]*hist.Histogram
}

var _ trial.Watcher = (*feed)(nil)

// clocks are the latencies that are sent.
func clocks() []engine.Tag { return []engine.Tag{engine.Response, engine.Service, engine.Delivery} }

func newFeed(to *os.File, cancel context.CancelCauseFunc) *feed {
	syscall.CloseOnExec(int(to.Fd())) // commands that the run starts would keep it open
	f := &feed{lines: make(chan []byte, feedQueue), done: make(chan struct{}), now: time.Now, times: map[engine.Tag]*hist.Histogram{}}
	for _, c := range clocks() {
		f.times[c] = hist.New()
	}
	go func() {
		defer close(f.done)
		failed := false
		for line := range f.lines {
			if failed {
				continue
			}
			if _, err := to.Write(line); err != nil {
				failed = true
				cancel(texts.NewError("reason.deserted"))
			}
		}
		_ = to.Close() // if the reader is gone, it does not matter
	}()
	return f
}

// close sends the remaining events.
func (f *feed) close() {
	close(f.lines)
	<-f.done
}

func (f *feed) tell(e ui.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		return // it holds an infinite figure, which JSON cannot express
	}
	select {
	case f.lines <- append(line, '\n'):
	default:
	}
}

// Begin implements trial.Watcher.
func (f *feed) Begin(next trial.Planned) {
	b := ui.Begin{Number: next.Number, Of: next.Of, Round: next.Round, Rounds: next.Rounds, Variant: next.Variant, Purpose: next.Purpose}
	if next.Purpose == rundir.PurposeProbe {
		b.Rate = &next.Rate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.warmup = next.Warmup
	f.reset(next.Number)
	f.tell(ui.Event{Begin: &b})
}

// Interval implements trial.Watcher. It sends an event when a second is complete.
func (f *feed) Interval(i engine.Interval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.good += i.Completed + i.Delivered
	f.second.Failed += i.Failed()
	f.second.Seconds += i.Length.Seconds()
	f.second.Elapsed = (i.Start + i.Length).Seconds()
	for c, h := range f.times {
		if i.Latency[c] != nil {
			h.Merge(i.Latency[c])
		}
	}
	if f.second.Seconds >= 1 {
		f.flush()
	}
}

// flush sends the second. The caller holds mu.
func (f *feed) flush() {
	s := f.second
	s.At, s.Trial, s.Throughput = f.now(), f.number, float64(f.good)/s.Seconds
	if s.Elapsed-s.Seconds >= f.warmup.Seconds() {
		s.Latency = map[string]ui.Latency{}
	}
	for _, c := range clocks() {
		if h := f.times[c]; h.Count() > 0 {
			if s.Latency == nil {
				s.Latency = map[string]ui.Latency{}
			}
			s.Latency[c.String()] = latencyOf(h)
		}
	}
	f.reset(f.number)
	f.tell(ui.Event{Second: &s})
}

// reset begins another second. The caller holds mu.
func (f *feed) reset(number int) {
	f.number, f.second, f.good = number, ui.Second{}, 0
	for _, h := range f.times {
		h.Reset()
	}
}

// latencyOf leaves out quantiles beyond which there is no value.
func latencyOf(h *hist.Histogram) ui.Latency {
	in := func(ns int64) float64 { return float64(ns) / 1e9 }
	beyond := func(oneIn int64) *float64 {
		if h.Count() < oneIn {
			return nil
		}
		s := in(h.Quantile(1 - 1/float64(oneIn)))
		return &s
	}
	return ui.Latency{P50: in(h.Quantile(0.5)), P90: beyond(10), P99: beyond(100), P999: beyond(1000), Max: in(h.Max())}
}

// End implements trial.Watcher.
func (f *feed) End(t *rundir.Trial, flags []rundir.Flag) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// What remains is a part of a second, or the wait for responses that do not count any
	// more.
	if f.good > 0 || f.second.Failed > 0 {
		f.flush()
	}
	e := ui.TrialEnd{
		Number: t.Number, Round: t.Round, Variant: t.Variant, Purpose: t.Purpose, Complete: t.Complete, Error: t.Error,
		Throughput: t.Throughput, Failed: t.Counts.Sent - t.Counts.OK, Latency: t.Response, Clock: engine.Response.String(), Flags: flags,
	}
	if t.Streams != nil {
		e.Latency, e.Clock = t.Streams.Delivery, engine.Delivery.String()
	}
	f.tell(ui.Event{End: &e})
}

// watcher returns the watcher of a run, and a function that ends it: a feed for the process that
// started the run, a board on a terminal, or rows.
func (a *app) watcher(j job) (w trial.Watcher, end func()) {
	switch {
	case a.feed != nil:
		return a.feed, func() {}
	case j.output.quiet:
		return watchers{}, func() {}
	case !j.output.noTUI && hasBoard(a.stderr, os.Getenv):
		title := j.experiment.Name
		if j.quick {
			title = rundir.MaskText("", experiment.Unquote(j.experiment.Variants[0].Describe()))
		}
		b := board.Start(a.stderr, report.Printable(title), coloured(j.output.noColor, os.Getenv))
		return b, b.Close
	}
	return newProgress(a.stderr), func() {}
}
