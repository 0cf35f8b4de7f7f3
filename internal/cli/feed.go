package cli

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"

	"dyno/internal/texts"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/ui"
)

// feedArgs is what dyno ui puts before the arguments of a run that it starts. The rest
// are those with which the run can be repeated.
func feedArgs() []string { return []string{"__follow-run"} }

// followed tells whether dyno ui has started this process.
func followed(args []string) bool { return len(args) > 0 && args[0] == feedArgs()[0] }

// feedDescriptor is where such a process writes, the first that os/exec passes on.
const feedDescriptor = 3

// feedQueue is how many events may wait for whoever reads; what is beyond is left out. An
// interval must not wait for a reader.
const feedQueue = 1024

// A feed tells whoever follows what a run does, a line of JSON for each ui.Event. When
// nobody reads any more, the run is ended: it was started to be followed. It implements
// trial.Watcher; its methods may be called by any goroutine.
type feed struct {
	lines  chan []byte
	done   chan struct{}
	now    func() time.Time
	mu     sync.Mutex // guards what follows
	number int        // of the trial
	second ui.Second
	good   uint64
	times  map[engine.Tag]*hist.Histogram
}

var _ trial.Watcher = (*feed)(nil)

// clocks are the times that are told.
func clocks() []engine.Tag { return []engine.Tag{engine.Response, engine.Service, engine.Delivery} }

func newFeed(to *os.File, cancel context.CancelCauseFunc) *feed {
	syscall.CloseOnExec(int(to.Fd())) // what the run starts would keep it open
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
		_ = to.Close() // whoever has gone needs no end
	}()
	return f
}

// close sends what is left.
func (f *feed) close() {
	close(f.lines)
	<-f.done
}

func (f *feed) tell(e ui.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		return // an infinite figure: there is no such thing to tell
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
	f.reset(next.Number)
	f.tell(ui.Event{Begin: &b})
}

// Interval implements trial.Watcher: it tells when a second has come together.
func (f *feed) Interval(i engine.Interval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.good += i.Completed + i.Delivered
	f.second.Failed += i.Failed
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

// flush tells what has come together. The caller holds mu.
func (f *feed) flush() {
	s := f.second
	s.At, s.Trial, s.Throughput = f.now(), f.number, float64(f.good)/s.Seconds
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

// latencyOf leaves out quantiles that no value lies beyond.
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
	// What is left is a part of a second, or the wait for what nobody counts any more.
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

// watcher is told how a run goes: whoever started it, or the terminal.
func (a *app) watcher(out output) trial.Watcher {
	if a.feed != nil {
		return a.feed
	}
	return newProgress(a.stderr, out.quiet, out.noColor)
}
