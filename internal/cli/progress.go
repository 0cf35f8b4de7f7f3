package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"dyno/lab/trial"
	"dyno/load/engine"
	"dyno/load/hist"
	"dyno/report"
	"dyno/results/rundir"
)

// A progress shows a run while it goes on, with one row a second, from the intervals that
// the engine records anyway. On a terminal a row replaces the one before it, ends in a
// sparkline of the latest p99s, and is cut to the terminal's width. It implements
// trial.Watcher; any goroutine may call its methods.
type progress struct {
	mu       sync.Mutex // guards the fields below
	w        io.Writer
	repaint  bool
	colour   bool       // only if it repaints
	columns  func() int // of the terminal at the moment; 0 is not known
	quiet    bool
	planned  trial.Planned
	since    time.Duration
	good     uint64
	bad      uint64
	events   uint64 // that subscribers received
	length   time.Duration
	response *hist.Histogram // or, of events, from the stamp to the arrival, or from one to the next
	p99s     []int64         // of the trial's latest seconds in ns, sparkSeconds at most; 0: no value
	width    int             // of the current row
}

// sparkSeconds is how many seconds a sparkline shows.
const sparkSeconds = 30

var _ trial.Watcher = (*progress)(nil)

// newProgress shows a run on a writer. Colour needs a terminal.
func newProgress(w io.Writer, quiet, noColour bool) *progress {
	p := &progress{w: w, quiet: quiet, response: hist.New(), columns: func() int { return 0 }}
	if terminalWidth(w) > 0 {
		p.repaint = true
		p.colour = coloured(noColour, os.Getenv)
		p.columns = func() int { return terminalWidth(w) }
	}
	return p
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
	p.p99s = p.p99s[:0]
	p.clear()
}

// Building says what is built before the first trial: that may take minutes.
func (p *progress) Building(command []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		fmt.Fprintln(p.w, "building: "+rundir.MaskText("", strings.Join(command, " ")))
	}
}

// Interval adds one interval and shows a row when a second is complete.
func (p *progress) Interval(i engine.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.length == 0 {
		p.since = i.Start
	}
	p.good += i.Completed
	p.bad += i.Failed
	p.events += i.Delivered
	p.length += i.Length
	times := i.Latency[engine.Response]
	if i.Delivered > 0 { // then responses are those of the publisher
		times = cmp.Or(i.Latency[engine.Delivery], i.Latency[engine.EventGap])
	}
	if times != nil {
		p.response.Merge(times)
	}
	if p.length < time.Second {
		return
	}
	work, unit := p.good, "/s"
	if p.events > 0 {
		work, unit = p.events, " events/s"
	}
	text := p.name() + fmt.Sprintf("%5.1fs  %s%s", (p.since+p.length).Seconds(), report.Count(float64(work)/p.length.Seconds()), unit)
	p99 := int64(0)
	switch {
	case p.response.Count() > 0:
		p99 = p.response.Quantile(0.99)
		text += fmt.Sprintf("  p50 %s  p99 %s  max %s", report.Duration(p.response.Quantile(0.5)),
			report.Duration(p99), report.Duration(p.response.Max()))
	case p.since < p.planned.Warmup:
		text += "  warming up"
	}
	r := row{{text, plain}}
	if p.bad > 0 {
		r = append(r, span{fmt.Sprintf("  failed %d", p.bad), red})
	}
	if len(p.p99s) == sparkSeconds {
		p.p99s = append(p.p99s[:0], p.p99s[1:]...)
	}
	p.p99s = append(p.p99s, p99)
	if p.repaint {
		r = r.with(span{"  " + sparkline(p.p99s), plain}, p.columns())
	}
	p.show(r, false)
	p.reset()
}

// End shows the result of a trial, and on a terminal what is wrong with it.
func (p *progress) End(t *rundir.Trial, flags []rundir.Flag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.planned.Of == 1 { // the result is printed now
		p.clear()
		return
	}
	text := p.name()
	var r row
	switch {
	case t.Error != "" && !t.Interrupted:
		first, _, _ := strings.Cut(t.Error, "\n")
		r = row{{text, plain}, {"failed: " + report.Printable(first), red}}
	case t.Throughput != nil:
		text += report.Count(*t.Throughput) + "/s"
		if t.Response.P50 != nil {
			text += "  p50 " + report.Seconds(*t.Response.P50)
		}
		if t.Response.P99 != nil {
			text += "  p99 " + report.Seconds(*t.Response.P99)
		}
		r = row{{text, plain}}
		failed := t.Counts.Sent - t.Counts.OK
		if t.Interrupted {
			failed -= t.Counts.Unfinished
		}
		if failed > 0 {
			r = append(r, span{fmt.Sprintf("  failed %d", failed), red})
		}
		if t.Interrupted {
			r = append(r, span{"  interrupted", red})
		}
	case len(t.Measures) > 0: // a program
		r = row{{text + report.Seconds(t.WindowSeconds), plain}}
	default:
		r = row{{text, plain}}
	}
	if p.repaint && t.Error == "" {
		r = append(r, marks(flags)...)
	}
	p.show(r, true)
	p.reset()
}

// marks names each kind of flag once.
func marks(flags []rundir.Flag) (r row) {
	seen := map[string]bool{}
	for _, f := range flags {
		if seen[f.Kind] {
			continue
		}
		seen[f.Kind] = true
		s := span{"  " + report.Printable(f.Kind), yellow}
		if f.Spoils || f.Breaks {
			s.style = red
		}
		r = append(r, s)
	}
	return r
}

// name says which trial it is, where there are several, with two blanks behind it.
func (p *progress) name() string {
	next, count := p.planned, ""
	switch {
	case next.Of == 1:
		return ""
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
	case rundir.PurposeIdle:
		return name + "  beside idle " + report.Printable(next.Beside) + "  "
	case rundir.PurposeProbe:
		name += "  at " + report.Count(next.Rate) + "/s"
	}
	if next.Beside != "" {
		name += "  beside " + report.Printable(next.Beside)
	}
	return name + "  "
}

// show writes a row; a final one stays on the terminal.
func (p *progress) show(r row, final bool) {
	if p.quiet {
		return
	}
	if !p.repaint {
		fmt.Fprintln(p.w, r.text())
		return
	}
	// The last column stays free: a terminal may otherwise move to the next line.
	columns := p.columns()
	if columns > 0 && !final {
		r = r.cut(columns - 1)
	}
	width := r.width()
	fmt.Fprintf(p.w, "\r%s%s", r.paint(p.colour), strings.Repeat(" ", max(0, p.width-width)))
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
	p.good, p.bad, p.events, p.length = 0, 0, 0, 0
	p.response.Reset()
}
