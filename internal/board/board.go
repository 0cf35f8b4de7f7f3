// Package board draws a run on a terminal while it goes on: how far it is, rate and latency
// with their latest history, failures, and what the server uses. It is made of the intervals and
// readings that the engine records anyway, and drawn a few times a second.
//
//	b := board.Start(os.Stderr, title, true)
//	defer b.Close()
//	trial.Run(ctx, e, trial.Options{Watcher: b})
package board

import (
	"io"
	"math"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/results/rundir"
)

const (
	// redraw is how often the board is drawn: a fast terminal costs the generator nothing then.
	redraw = 200 * time.Millisecond
	// most is how many seconds of history are kept, a column each on a wide terminal.
	most = 200
	// rows is how many finished trials wait to be printed above the board; further ones are left out.
	rows = 256
)

// A Board implements trial.ReadingWatcher. Its methods may be called by any goroutine, and never
// wait for the terminal.
type Board struct {
	program *tea.Program
	done    chan struct{}

	mu    sync.Mutex // guards the following
	state state
	ended []string // rows of finished trials, to be printed above the board
}

var (
	_ trial.ReadingWatcher = (*Board)(nil)
	_ trial.BuildWatcher   = (*Board)(nil)
)

// A state is what the board shows.
type state struct {
	title    string
	building string // the command that builds what is measured; empty while trials run
	planned  trial.Planned
	elapsed  time.Duration // of the trial, with its warm-up

	ok, failed uint64 // of the trial
	second     second // not complete yet
	history    []second
	latency    *hist.Histogram // of the window

	cpus, memory float64 // of the server; NaN: not known
	reading      trial.Reading
	readAt       time.Duration
}

// A second is what happened in one.
type second struct {
	length   time.Duration
	ok       uint64
	events   uint64
	latency  *hist.Histogram
	rate     float64
	p99      float64 // seconds; 0: none
	isEvents bool
}

// Start begins to draw on a terminal. Title says what is run.
func Start(w io.Writer, title string, colour bool) *Board {
	b := newBoard(title)
	b.program = tea.NewProgram(model{board: b, colour: colour}, tea.WithOutput(w), tea.WithInput(nil),
		tea.WithoutSignalHandler(), tea.WithFPS(int(time.Second/redraw)))
	go func() {
		defer close(b.done)
		_, _ = b.program.Run() // a terminal that cannot be drawn on shows nothing
	}()
	return b
}

func newBoard(title string) *Board {
	return &Board{done: make(chan struct{}), state: state{title: title, latency: hist.New(), second: newSecond(), cpus: math.NaN(), memory: math.NaN()}}
}

func newSecond() second { return second{latency: hist.New()} }

// Close takes the board off the terminal. Rows of finished trials stay.
func (b *Board) Close() {
	b.program.Send(closing{})
	<-b.done
}

// Begin implements trial.Watcher.
func (b *Board) Begin(next trial.Planned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.state
	*s = state{title: s.title, planned: next, latency: hist.New(), second: newSecond(), history: s.history[:0], cpus: math.NaN(), memory: math.NaN()}
	s.reading = trial.Reading{CPUSeconds: math.NaN(), RSSBytes: math.NaN()}
}

// Building implements trial.BuildWatcher: building may take minutes.
func (b *Board) Building(command []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.building = rundir.MaskText("", strings.Join(command, " "))
}

// Reading implements trial.ReadingWatcher.
func (b *Board) Reading(r trial.Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.state
	if passed := (s.elapsed - s.readAt).Seconds(); passed >= 1 || math.IsNaN(s.reading.CPUSeconds) {
		if passed > 0 {
			s.cpus = (r.CPUSeconds - s.reading.CPUSeconds) / passed
		}
		s.reading, s.readAt = r, s.elapsed
	}
	s.memory = r.RSSBytes
}

// Interval implements trial.Watcher.
func (b *Board) Interval(i engine.Interval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.state
	s.elapsed = i.Start + i.Length
	s.ok += i.Completed
	s.failed += i.Failed
	now := &s.second
	now.length += i.Length
	now.ok += i.Completed
	now.events += i.Delivered
	now.isEvents = now.isEvents || i.Delivered > 0
	if times := times(i); times != nil {
		now.latency.Merge(times)
		s.latency.Merge(times)
	}
	if now.length < time.Second {
		return
	}
	done := now.ok
	if now.isEvents {
		done = now.events
	}
	now.rate = float64(done) / now.length.Seconds()
	if now.latency.Count() > 0 {
		now.p99 = float64(now.latency.Quantile(0.99)) / 1e9
	}
	now.latency = nil
	if len(s.history) == most {
		s.history = append(s.history[:0], s.history[1:]...)
	}
	s.history = append(s.history, *now)
	s.second = newSecond()
}

// times are those that the interval is judged by: of events where there are some, since responses are
// those of the publisher then.
func times(i engine.Interval) *hist.Histogram {
	if i.Delivered > 0 {
		if h := i.Latency[engine.Delivery]; h != nil {
			return h
		}
		return i.Latency[engine.EventGap]
	}
	return i.Latency[engine.Response]
}

// End implements trial.Watcher. The row of a finished trial stays above the board, except that of a
// quick load, whose result follows.
func (b *Board) End(t *rundir.Trial, flags []rundir.Flag) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.planned.Of != 1 && len(b.ended) < rows {
		b.ended = append(b.ended, Row(b.state.planned, t, flags))
	}
}

// take returns what is to be shown now, and the rows that were not printed yet.
func (b *Board) take() (state, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.history = append([]second(nil), s.history...)
	s.latency = s.latency.Clone()
	ended := b.ended
	b.ended = nil
	return s, ended
}
