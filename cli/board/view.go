package board

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"dyno/internal/units"
	"dyno/lab/protocols"
	"dyno/lab/trial"
	"dyno/load/wire"
	"dyno/report/figure"
	"dyno/results/rundir"
)

// A model is the board as bubbletea draws it.
type model struct {
	board  *Board
	shown  state
	width  int
	colour bool
}

// The messages to a model: to draw what there is, and to leave an empty terminal.
type (
	tick    struct{}
	closing struct{}
)

func next() tea.Cmd { return tea.Tick(redraw, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return next() }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width = msg.Width
	case closing:
		_, ended := m.board.take()
		m.shown = state{}
		if len(ended) > 0 {
			return m, tea.Sequence(tea.Println(strings.Join(ended, "\n")), tea.Quit)
		}
		return m, tea.Quit
	case tick:
		shown, ended := m.board.take()
		m.shown = shown
		if len(ended) > 0 {
			return m, tea.Batch(tea.Println(strings.Join(ended, "\n")), next())
		}
		return m, next()
	}
	return m, nil
}

// leastWidth is how wide a terminal counts as that is narrower, or does not say how wide it is.
const leastWidth = 60

// View implements tea.Model.
func (m model) View() tea.View {
	if m.shown.latency == nil {
		return tea.NewView("")
	}
	return tea.NewView(strings.Join(m.shown.lines(max(m.width, leastWidth), m.colour), "\n") + "\n")
}

// lines renders a state for a terminal of that width. bubbletea truncates longer lines.
func (s state) lines(width int, colour bool) []string {
	lines := []string{s.heading()}
	if s.preparing != "" {
		return append(lines, s.preparing)
	}
	lines = append(lines, s.progress(width), "")
	unit, rate := "requests/s", 0.
	if s.counts.Delivered > 0 {
		unit = "events/s"
	}
	if n := len(s.rates); n > 0 {
		rate = s.rates[n-1]
	}
	const name, value = 13, 44 // columns
	row := func(label, text string, history []float64) {
		line := fmt.Sprintf("  %-*s%-*s", name, label, value, text)
		lines = append(lines, strings.TrimRight(line+spark(history, width-name-value-4), " "))
	}
	row(unit, figure.PerSecond(rate), s.rates)
	latency := "warming up"
	if h := s.latency; h.Count() > 0 {
		latency = fmt.Sprintf("p50 %s  p90 %s  p99 %s", figure.Duration(h.Quantile(0.5)), figure.Duration(h.Quantile(0.9)), figure.Duration(h.Quantile(0.99)))
	}
	row("latency", latency, s.p99s)
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, fmt.Sprintf("  %-*s%s", name, label, text))
		}
	}
	c := trial.Counted(&s.counts, s.planned.Warmup)
	failed := plain(c.Unanswered()) + " failed"
	if c.Unanswered() > 0 && colour {
		failed = "\x1b[31m" + failed + "\x1b[0m"
	}
	if n := c.NotSent(); n > 0 {
		failed += " · " + plain(n) + " not sent"
	}
	add("responses", plain(c.Answered())+" ok · "+failed)
	codes := map[string]int64{}
	for code, n := range s.counts.Status {
		codes[protocols.StatusName(s.planned.Protocol, code)] += int64(n) //nolint:gosec // a count
	}
	add("status", frequent(codes))
	kinds := c.ByKind
	delete(kinds, wire.Status.String())
	if n := c.Dropped - c.Unsent; n > 0 {
		kinds["dropped"] = n
	}
	add("errors", frequent(kinds))
	add("server", s.server())
	return lines
}

func plain(n int64) string { return units.Whole(n) }

// maxKinds is how many status codes, or kinds of errors, are shown.
const maxKinds = 4

// frequent writes counts, the largest first.
func frequent(counts map[string]int64) string {
	keys := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	var parts []string
	for _, k := range keys[:min(len(keys), maxKinds)] {
		parts = append(parts, k+" × "+plain(counts[k]))
	}
	return strings.Join(parts, " · ")
}

// heading names the run, and which of its trials goes on.
func (s state) heading() string {
	p := s.planned
	if p.Of == 1 || p.Number == 0 {
		return s.title
	}
	if isSearch(p) {
		return s.title + " · " + rateOf(p)
	}
	parts := []string{s.title, "trial " + fmt.Sprint(p.Number)}
	if p.Of > 0 {
		parts[1] += fmt.Sprintf(" of %d", p.Of)
	}
	if p.Round > 0 {
		parts = append(parts, "round "+fmt.Sprint(p.Round))
		if p.Rounds > 0 {
			parts[2] += fmt.Sprintf(" of %d", p.Rounds)
		}
	}
	parts = append(parts, strings.TrimRight(strings.Join(measured(p), " "), " "))
	if text := left(p); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

// left says how long the run still takes; at most, if a rule may end it.
func left(p trial.Planned) string {
	if p.Left == 0 {
		return ""
	}
	text := units.FormatSeconds(math.Ceil(p.Left.Seconds())) + " left"
	if p.Of == 0 {
		text = "at most " + text
	}
	return text
}

// progress draws how far the trial is.
func (s state) progress(width int) string {
	all := s.planned.Warmup + s.planned.Window
	text := units.FormatSeconds(math.Round(s.elapsed.Seconds()))
	if s.planned.Window == 0 {
		return "  " + text
	}
	text += " of " + units.FormatSeconds(math.Round(all.Seconds()))
	if left := all - s.elapsed; left > 0 {
		text += ", " + units.FormatSeconds(math.Ceil(left.Seconds())) + " left"
	}
	bar := min(50, width-utf8.RuneCountInString(text)-6)
	done := int(math.Round(float64(bar) * min(1, s.elapsed.Seconds()/all.Seconds())))
	return "  " + strings.Repeat("█", done) + strings.Repeat("░", bar-done) + "  " + text
}

// server says what the server uses now.
func (s state) server() string {
	var parts []string
	if !math.IsNaN(s.cpus) {
		parts = append(parts, units.Figure(max(0, s.cpus))+" CPUs")
	}
	if !math.IsNaN(s.memory) {
		parts = append(parts, units.Sizes().Write(s.memory))
	}
	return strings.Join(parts, " · ")
}

// spark draws the latest of some values above zero, as many as fit, from zero to the largest. Zero is a
// gap.
func spark(values []float64, columns int) string {
	if columns <= 0 {
		return ""
	}
	values = values[max(0, len(values)-columns):]
	levels := []rune("▁▂▃▄▅▆▇█")
	if len(values) == 0 || slices.Max(values) <= 0 {
		return ""
	}
	top := slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(levels[min(len(levels)-1, int(v/top*float64(len(levels))))])
	}
	return b.String()
}

// Name says which trial it is, where there are several, and two blanks after it.
func Name(next trial.Planned) string {
	count := ""
	switch {
	case next.Of == 1:
		return ""
	case isSearch(next):
		return rateOf(next) + "  "
	case next.Of > 0:
		count = fmt.Sprintf("%*d/%d", len(fmt.Sprint(next.Of)), next.Number, next.Of)
	case next.Round > 0:
		count = fmt.Sprintf("%4d  round %d", next.Number, next.Round)
	default:
		count = fmt.Sprintf("%4d", next.Number)
	}
	parts := measured(next)
	if text := left(next); text != "" {
		parts = append(parts, text)
	}
	return count + "  " + strings.Join(parts, "  ") + "  "
}

// isSearch tells whether the rate is all that tells the loads of a run apart.
func isSearch(next trial.Planned) bool {
	return next.Purpose == rundir.PurposeProbe && next.Alone && next.Rounds == 1
}

// rateOf is the rate that a search tries.
func rateOf(next trial.Planned) string { return "at " + figure.Count(next.Rate) + "/s" }

// measured names the variant, as wide as the longest, and says what for it is measured.
func measured(next trial.Planned) []string {
	parts := []string{fmt.Sprintf("%-*s", next.Width, figure.Printable(next.Variant))}
	switch next.Purpose {
	case rundir.PurposePilot:
		parts = append(parts, "pilot")
	case rundir.PurposeIdle:
		return append(parts, "with idle "+figure.Printable(next.Peer))
	case rundir.PurposeProbe:
		parts = append(parts, rateOf(next))
	}
	if next.Peer != "" {
		parts = append(parts, "with "+figure.Printable(next.Peer))
	}
	return parts
}

// Row says what a finished trial measured, and names each kind of flag once.
func Row(next trial.Planned, t *rundir.Trial, flags []rundir.Flag) string {
	next.Left = 0 // it was so when the trial began
	line := Name(next)
	switch {
	case t.Error != "" && !t.Interrupted:
		first, _, _ := strings.Cut(t.Error, "\n")
		return line + "failed: " + figure.Printable(first)
	case t.Throughput != nil:
		line += figure.Count(*t.Throughput) + "/s"
		if q := t.Times[rundir.TagResponse]; q.P50 != nil {
			line += "  p50 " + figure.Seconds(*q.P50)
		}
		if q := t.Times[rundir.TagResponse]; q.P99 != nil {
			line += "  p99 " + figure.Seconds(*q.P99)
		}
		if failed := t.Counts.Unanswered(); failed > 0 {
			line += fmt.Sprintf("  failed %d", failed)
		}
		if t.Interrupted {
			line += "  interrupted"
		}
	case len(t.Measures) > 0: // a program
		line += figure.Seconds(t.WindowSeconds)
	}
	var kinds []string
	for _, f := range flags {
		if kind := figure.Printable(f.Kind); t.Error == "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.TrimRight(line+"  "+strings.Join(kinds, "  "), " ")
}
