package live

import (
	"fmt"
	"io"
	"sync"

	"dyno/cli/board"
	"dyno/lab/trial"
	"dyno/load/engine/record"
	"dyno/results/mask"
	"dyno/results/rundir"
)

// A Rows shows a run with one row a second, from the intervals that the engine records
// anyway. It replaces the board where there is no terminal, or where the board is not
// wanted. It implements trial.Watcher; any goroutine may call its methods.
type Rows struct {
	mu      sync.Mutex // guards the fields below
	w       io.Writer
	planned trial.Planned
	second  *board.Second
}

var _ trial.PreparingWatcher = (*Rows)(nil)

// NewRows shows a run on a writer.
func NewRows(w io.Writer) *Rows { return &Rows{w: w, second: board.NewSecond()} }

// Begin says which trial comes next.
func (p *Rows) Begin(next trial.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = next
	p.second = board.NewSecond()
}

// Preparing says what the next trial has to wait for.
func (p *Rows) Preparing(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, mask.Text("", what))
}

// Interval adds one interval and shows a row when a second is complete.
func (p *Rows) Interval(i record.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.second.Add(i) {
		return
	}
	p.row()
}

// row shows the second and begins another. The caller holds mu.
func (p *Rows) row() {
	fmt.Fprintln(p.w, board.Name(p.planned)+p.second.Row(p.planned.Warmup))
	p.second = board.NewSecond()
}

// End shows what ended after the last complete second, and a trial's result. The report shows that of a quick load.
func (p *Rows) End(t *rundir.Trial, _ []rundir.Flag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.second.IsEmpty() {
		p.row()
	}
	if p.planned.Of != 1 {
		fmt.Fprintln(p.w, board.Row(p.planned, t, nil))
	}
	p.second = board.NewSecond()
}
