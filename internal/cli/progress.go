package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"dyno/engine"
	"dyno/hist"
	"dyno/report"
	"dyno/rundir"
	"dyno/trial"
)

// A progress shows a run while it goes on, one row a second, from the intervals
// that the engine records anyway. On a terminal a row replaces the one before
// it. It implements trial.Watcher; its methods may be called by any goroutine.
type progress struct {
	mu       sync.Mutex // guards the fields below
	w        io.Writer
	repaint  bool
	quiet    bool
	planned  trial.Planned
	since    time.Duration
	good     uint64
	bad      uint64
	length   time.Duration
	response *hist.Histogram
	width    int // of the row that stands
}

var _ trial.Watcher = (*progress)(nil)

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, response: hist.New()}
	if f, ok := w.(*os.File); ok {
		p.repaint = term.IsTerminal(int(f.Fd())) //nolint:gosec // a descriptor is small
	}
	return p
}

// Begin says which trial comes next.
func (p *progress) Begin(next trial.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = next
	p.clear()
}

// Interval adds one interval and shows a row when a second has come together.
func (p *progress) Interval(i engine.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.length == 0 {
		p.since = i.Start
	}
	p.good += i.Completed
	p.bad += i.Failed
	p.length += i.Length
	if h := i.Latency[engine.Response]; h != nil {
		p.response.Merge(h)
	}
	if p.length < time.Second {
		return
	}
	row := fmt.Sprintf("%s  %5.1fs  %s/s", p.name(), (p.since + p.length).Seconds(),
		report.Count(float64(p.good)/p.length.Seconds()))
	if p.response.Count() > 0 {
		row += fmt.Sprintf("  p50 %s  p99 %s  max %s", report.Duration(p.response.Quantile(0.5)),
			report.Duration(p.response.Quantile(0.99)), report.Duration(p.response.Max()))
	} else {
		row += "  warming up"
	}
	if p.bad > 0 {
		row += fmt.Sprintf("  failed %d", p.bad)
	}
	p.show(row, false)
	p.reset()
}

// End shows what came out of a trial.
func (p *progress) End(t *rundir.Trial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row := p.name() + "  "
	switch {
	case t.Error != "":
		first, _, _ := strings.Cut(t.Error, "\n")
		row += "failed: " + report.Printable(first)
	case t.Throughput != nil:
		row += report.Count(*t.Throughput) + "/s"
		if t.Response.P50 != nil {
			row += "  p50 " + report.Seconds(*t.Response.P50)
		}
		if t.Response.P99 != nil {
			row += "  p99 " + report.Seconds(*t.Response.P99)
		}
		if failed := t.Counts.Sent - t.Counts.OK; failed > 0 {
			row += fmt.Sprintf("  failed %d", failed)
		}
	case len(t.Measures) > 0: // a program
		row += report.Seconds(t.WindowSeconds)
	}
	p.show(row, true)
	p.reset()
}

func (p *progress) name() string {
	next, count := p.planned, ""
	switch {
	case next.Of == 1:
		return report.Printable(next.Variant)
	case next.Of > 0:
		count = fmt.Sprintf("%*d/%d", len(fmt.Sprint(next.Of)), next.Number, next.Of)
	case next.Round > 0:
		count = fmt.Sprintf("%4d  round %d", next.Number, next.Round)
	default:
		count = fmt.Sprintf("%4d", next.Number)
	}
	name := fmt.Sprintf("%s  %-*s", count, next.Width, report.Printable(next.Variant))
	switch next.Purpose {
	case rundir.PurposePilot:
		name += "  pilot"
	case rundir.PurposeProbe:
		name += "  at " + report.Count(next.Rate) + "/s"
	}
	return name
}

// show writes a row; a final one stays on the terminal.
func (p *progress) show(row string, final bool) {
	if p.quiet {
		return
	}
	if !p.repaint {
		fmt.Fprintln(p.w, row)
		return
	}
	width := len([]rune(row))
	fmt.Fprintf(p.w, "\r%s%s", row, strings.Repeat(" ", max(0, p.width-width)))
	p.width = width
	if final {
		fmt.Fprintln(p.w)
		p.width = 0
	}
}

func (p *progress) clear() {
	if p.repaint && p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
	p.reset()
}

func (p *progress) reset() {
	p.good, p.bad, p.length = 0, 0, 0
	p.response.Reset()
}
