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
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/load/hist"
	"dyno/report/figure"
	"dyno/results/mask"
	"dyno/results/rundir"
)

const (
	// redraw is how often the board is drawn: a fast terminal costs the generator nothing then.
	redraw = 200 * time.Millisecond
	// maxHistory is how many seconds of history are kept, a column each on a wide terminal.
	maxHistory = 200
	// maxEnded is how many rows of finished trials wait to be printed above the board; further ones are
	// left out.
	maxEnded = 256
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
	_ trial.ReadingWatcher   = (*Board)(nil)
	_ trial.PreparingWatcher = (*Board)(nil)
)

// A state is what the board shows.
type state struct {
	title     string
	preparing string // what the next trial has to wait for; empty while one runs
	planned   trial.Planned
	elapsed   time.Duration // of the trial, with its warm-up

	counts  record.Interval // of the trial
	latency *hist.Histogram // of the window
	second  *Second         // not complete yet
	rates   []float64       // of the complete ones
	p99s    []float64       // of these, in nanoseconds; 0 without a response

	cpus, memory float64 // of the server; NaN: not known
	reading      trial.Reading
	readAt       time.Duration
}

func newState(title string, next trial.Planned) state {
	unknown := math.NaN()
	return state{
		title: title, planned: next, second: NewSecond(), latency: hist.New(),
		cpus: unknown, memory: unknown, reading: trial.Reading{CPUSeconds: unknown, RSSBytes: unknown},
	}
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
	return &Board{done: make(chan struct{}), state: newState(title, trial.Planned{})}
}

// Close takes the board off the terminal. Rows of finished trials stay.
func (b *Board) Close() {
	b.program.Send(closing{})
	<-b.done
}

// Begin implements trial.Watcher.
func (b *Board) Begin(next trial.Planned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = newState(b.state.title, next)
}

// Preparing implements trial.PreparingWatcher.
func (b *Board) Preparing(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.preparing = figure.Printable(mask.Text("", what))
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
func (b *Board) Interval(i record.Interval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.state
	s.elapsed = i.Start + i.Length
	s.counts.AddCounts(&i)
	if h := times(i); h != nil {
		s.latency.Merge(h)
	}
	if !s.second.Add(i) {
		return
	}
	s.rates = appended(s.rates, s.second.Rate())
	s.p99s = appended(s.p99s, float64(s.second.Times.Quantile(0.99))) // 0 without any
	s.second = NewSecond()
}

// appended adds a value to a history, which loses its oldest when it is full.
func appended(history []float64, x float64) []float64 {
	if len(history) == maxHistory {
		history = append(history[:0], history[1:]...)
	}
	return append(history, x)
}

// End implements trial.Watcher. The row of a finished trial stays above the board, except that of a
// quick load, whose result follows.
func (b *Board) End(t *rundir.Trial, flags []rundir.Flag) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.planned.Of != 1 && len(b.ended) < maxEnded {
		b.ended = append(b.ended, Row(b.state.planned, t, flags))
	}
}

// take returns what is to be shown now, and the rows that were not printed yet.
func (b *Board) take() (state, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.rates, s.p99s = slices.Clone(s.rates), slices.Clone(s.p99s)
	s.latency = s.latency.Clone()
	ended := b.ended
	b.ended = nil
	return s, ended
}
