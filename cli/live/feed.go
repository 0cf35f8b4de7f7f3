package live

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"dyno/internal/filelock"
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/ui"
)

// followArg is what dyno ui puts before the arguments of a run that it starts. The rest can be
// used to repeat the run.
const followArg = "__follow-run"

// Followed reports whether dyno ui has started this process.
func Followed(args []string) bool { return len(args) > 0 && args[0] == followArg }

// feedQueue is how many events may wait for the reader. Events beyond that are left out,
// because an interval must not wait for a reader.
const feedQueue = 1024

// A Feed tells its reader what a run does, with a line of JSON for each ui.Event. It
// implements trial.Watcher; any goroutine may call its methods.
type Feed struct {
	lines  chan []byte
	done   chan struct{}
	now    func() time.Time
	mu     sync.Mutex // guards the following fields
	number int        // of the trial
	warmup time.Duration
	second ui.Second
	counts record.Interval // of the second
	times  map[record.Tag]*hist.Histogram
}

var _ trial.Watcher = (*Feed)(nil)

// OpenFeed returns the feed of a process that dyno ui has started.
func OpenFeed(failed func(error)) *Feed {
	return newFeed(inheritedFeed(), failed)
}

// OpenLiveFile returns the feed that a run has in its folder, for a dyno ui that did not start it. A
// run goes on where that file cannot be written.
func OpenLiveFile(dir string) *Feed {
	return newFeed(&liveFile{path: filepath.Join(dir, rundir.LiveFile)}, func(error) {})
}

// clocks are the latencies that are sent.
func clocks() []record.Tag { return []record.Tag{record.Response, record.Service, record.Delivery} }

// newFeed writes to what it closes at the end. It calls failed when that cannot be written.
func newFeed(to io.WriteCloser, failed func(error)) *Feed {
	f := &Feed{lines: make(chan []byte, feedQueue), done: make(chan struct{}), now: time.Now, times: map[record.Tag]*hist.Histogram{}}
	for _, c := range clocks() {
		f.times[c] = hist.New()
	}
	go func() {
		defer close(f.done)
		var err error
		for line := range f.lines {
			if err != nil {
				continue
			}
			if _, err = to.Write(line); err != nil {
				failed(err)
			}
		}
		_ = to.Close() // if the reader is gone, it does not matter
	}()
	return f
}

// maxLive bounds a live file in bytes: an hour and more. It then begins again.
const maxLive = 2 << 20

// A liveFile is in a run's folder while the run is under way. It is made with the first event:
// before, there is no folder.
type liveFile struct {
	path string
	file *os.File
	size int
}

func (l *liveFile) Write(p []byte) (int, error) {
	if l.file == nil {
		var err error
		if l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o644); err != nil {
			return 0, err
		}
		// It ends with this process, however that ends. A reader that probes it holds it briefly.
		if err := filelock.Lock(l.file); err != nil {
			return 0, err
		}
	}
	if l.size += len(p); l.size > maxLive {
		l.size = len(p)
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
	}
	return l.file.Write(p)
}

func (l *liveFile) Close() error {
	if l.file == nil {
		return nil
	}
	removed := os.Remove(l.path)
	err := l.file.Close()
	if removed != nil { // Windows removes no open file
		removed = os.Remove(l.path)
	}
	return errors.Join(removed, err)
}

// Close sends the remaining events.
func (f *Feed) Close() {
	close(f.lines)
	<-f.done
}

func (f *Feed) send(e ui.Event) {
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
func (f *Feed) Begin(next trial.Planned) {
	b := ui.Begin{Number: next.Number, Of: next.Of, Round: next.Round, Rounds: next.Rounds, Variant: next.Variant, Purpose: next.Purpose}
	if next.Purpose == rundir.PurposeProbe {
		b.Rate = &next.Rate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.warmup = next.Warmup
	f.reset(next.Number)
	f.send(ui.Event{Begin: &b})
}

// Interval implements trial.Watcher. It sends an event when a second is complete.
func (f *Feed) Interval(i record.Interval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.second.Seconds == 0 {
		f.counts.Start = i.Start
	}
	f.counts.AddCounts(&i)
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
func (f *Feed) flush() {
	s := f.second
	c := trial.Counted(&f.counts, f.warmup)
	s.At, s.Trial, s.Failed = f.now(), f.number, c.Unanswered()
	done := f.counts.Completed()
	if f.counts.Delivered > 0 { // as of a trial
		done = f.counts.Delivered
	}
	s.Throughput = float64(done) / s.Seconds
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
	f.send(ui.Event{Second: &s})
}

// reset begins another second. The caller holds mu.
func (f *Feed) reset(number int) {
	f.number, f.second, f.counts = number, ui.Second{}, record.Interval{}
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
func (f *Feed) End(t *rundir.Trial, flags []rundir.Flag) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// What remains is a part of a second, or the wait for responses that do not count any
	// more.
	if c := &f.counts; c.Completed()+c.Delivered > 0 || c.Measured != (record.Outcomes{}) {
		f.flush()
	}
	e := ui.TrialEnd{
		Number: t.Number, Round: t.Round, Variant: t.Variant, Purpose: t.Purpose, Complete: t.Complete, Error: t.Error,
		Throughput: t.Throughput, Failed: t.Counts.Unanswered(), Latency: t.Times[rundir.TagResponse], Clock: record.Response.String(), Flags: flags,
	}
	if t.Streams != nil {
		e.Latency, e.Clock = t.Times[rundir.TagDelivery], record.Delivery.String()
	}
	f.send(ui.Event{End: &e})
}
