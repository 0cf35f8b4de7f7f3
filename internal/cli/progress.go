package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"dyno/internal/board"
	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/report"
	"dyno/results/rundir"
)

// A progress shows a run while it goes on, with one row a second, from the intervals that
// the engine records anyway: where there is no terminal for a board, or it is not wanted. It
// implements trial.Watcher; any goroutine may call its methods.
type progress struct {
	mu      sync.Mutex // guards the fields below
	w       io.Writer
	planned trial.Planned
	second  *board.Second
}

var _ trial.BuildWatcher = (*progress)(nil)

// newProgress shows a run on a writer.
func newProgress(w io.Writer) *progress { return &progress{w: w, second: board.NewSecond()} }

// hasBoard reports whether a board can be drawn on a writer: a terminal that is not dumb.
func hasBoard(w io.Writer, getenv func(string) string) bool {
	return terminalWidth(w) > 0 && getenv("TERM") != "dumb" && getenv("TERM") != ""
}

// defaultWidth is that of a terminal that does not say how wide it is.
const defaultWidth = 80

// terminalWidth is how many columns the terminal has that a writer writes to; 0 where it writes to
// none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a descriptor is small
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // a descriptor is small
	if err != nil || columns == 0 {
		return defaultWidth
	}
	return columns
}

// screen is what a writer shows.
func screen(w io.Writer, noColor, kept bool) report.Screen {
	width := terminalWidth(w)
	return report.Screen{Width: width, Colour: width > 0 && coloured(noColor, os.Getenv), Kept: kept}
}

// coloured reports whether to use colours: the terminal must have them, and they must not
// be disabled by a flag or by NO_COLOR (https://no-color.org).
func coloured(no bool, getenv func(string) string) bool {
	return !no && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Begin says which trial comes next.
func (p *progress) Begin(next trial.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = next
	p.second = board.NewSecond()
}

// Building says what is built before the first trial: that may take minutes.
func (p *progress) Building(command []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, "building: "+rundir.MaskText("", strings.Join(command, " ")))
}

// Interval adds one interval and shows a row when a second is complete.
func (p *progress) Interval(i engine.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.second.Add(i) {
		return
	}
	done, unit := p.second, "/s"
	if done.Delivered > 0 {
		unit = " events/s"
	}
	text := board.Name(p.planned) + fmt.Sprintf("%5.1fs  %s%s", (done.Start+done.Length).Seconds(), report.Count(done.Rate()), unit)
	switch h := done.Times; {
	case h.Count() > 0:
		text += fmt.Sprintf("  p50 %s  p99 %s  max %s", report.Duration(h.Quantile(0.5)), report.Duration(h.Quantile(0.99)), report.Duration(h.Max()))
	case done.Start < p.planned.Warmup:
		text += "  warming up"
	}
	if n := done.Failed(); n > 0 {
		text += fmt.Sprintf("  failed %d", n)
	}
	fmt.Fprintln(p.w, text)
	p.second = board.NewSecond()
}

// End shows the result of a trial, except that of a quick load, which follows.
func (p *progress) End(t *rundir.Trial, _ []rundir.Flag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.planned.Of != 1 {
		fmt.Fprintln(p.w, board.Row(p.planned, t, nil))
	}
	p.second = board.NewSecond()
}
