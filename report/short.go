package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// The sizes of the first screen.
const (
	screenLines = 24
	screenWidth = 100 // characters
	quickLines  = 16  // of a quick load
	leastRows   = 3   // of the answer's table, before anything else is cut
	nameWidth   = 28  // characters of a name in a table
)

// Short writes the answer of a run, on one screen: at most 24 lines of 100 characters,
// and 16 for a quick load. Kept tells that the folder stays, and may be named.
func Short(w io.Writer, f *rundir.Folder, kept bool) error {
	p := newPage(f)
	of := *f
	if !kept {
		of.Dir = ""
	}
	a := Make(&of)
	var lines []string
	if p.isQuick() && !p.nothing() {
		lines = p.quickScreen(a)
	} else {
		lines = p.screen(a)
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("answer as text: %w", err)
	}
	return nil
}

// said returns lines of text, in English.
func said(lines []texts.Message) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.In(texts.English))
	}
	return out
}

// block writes the sentences under a heading, in at most so many lines.
func block(head string, sentences []string, most int) []string {
	if len(sentences) == 0 {
		return nil
	}
	mark := fmt.Sprintf("%-15s", texts.Say(texts.English, head, nil))
	indent := strings.Repeat(" ", len([]rune(mark)))
	var lines []string
	for i, s := range sentences {
		if len(lines) >= most {
			more := texts.Say(texts.English, "more.lines", map[string]string{"n": whole(int64(len(sentences) - i))})
			last := &lines[len(lines)-1]
			*last = cut(*last, screenWidth-utf8.RuneCountInString(more)-2) + "; " + more
			break
		}
		m := indent
		if i == 0 {
			m = mark
		}
		lines = append(lines, wrapped(m, s, most-len(lines))...)
	}
	return lines
}

// wrapped breaks a sentence into at most so many lines of the screen, and cuts the rest.
func wrapped(mark, text string, most int) []string {
	lines := strings.Split(wrap(mark, Printable(text), screenWidth), "\n")
	if len(lines) > most {
		lines = append(lines[:most-1], lines[most-1]+" …")
		if rest := &lines[most-1]; utf8.RuneCountInString(*rest) > screenWidth {
			*rest = cut(*rest, screenWidth)
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(cut(lines[i], screenWidth), " ")
	}
	return lines
}

// cut shortens text to so many characters, the last of which marks the cut.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(0, most-1)]), " ") + "…"
}

// middle shortens a name in its middle, because beginning and end tell it from others.
func middle(name string, most int) string {
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	front := (most - 1) / 2
	return string(runes[:front]) + "…" + string(runes[len(runes)-(most-1-front):])
}

// screen is the first screen of an experiment. If there is no room, it says less about
// single figures, and then about the target.
func (p *page) screen(a Answer) []string {
	var lines []string
	for _, most := range [][2]int{{4, 3}, {3, 3}, {2, 3}, {2, 2}} {
		if lines = p.screenOf(a, most[0], most[1]); len(lines) <= screenLines {
			break
		}
	}
	return lines
}

// screenOf is the screen with so many lines of figures and of the target.
func (p *page) screenOf(a Answer, figures, target int) []string {
	lines := wrapped("", p.headline(), 2)
	for _, s := range said(a.Says) {
		lines = append(lines, wrapped("", s, 2)...)
	}
	lines = append(lines, "")
	below := block("pairs", said(a.Pairs), figures)
	if sure := texts.Joined(texts.English, a.Sure); sure != "" {
		below = append(below, block("sure", []string{sure}, 2)...)
	}
	below = append(below, block("broke", said(a.Broke), target)...)
	trust := said(a.Asked)
	if all := texts.Joined(texts.English, a.Trust); all != "" {
		trust = append([]string{all}, trust...)
	}
	below = append(below, block("trust", trust, figures)...)
	if again := strings.Join(said(a.Again), "; "); again != "" {
		below = append(below, block("again", []string{again}, 2)...)
	}
	if a.Next != nil {
		below = append(below, block("next", []string{a.Next.In(texts.English)}, 2)...)
	}
	if a.Rest != nil {
		below = append(below, block("rest", []string{a.Rest.In(texts.English)}, 1)...)
	}
	if a.Table != nil {
		room := screenLines - len(lines) - len(below) - 1
		lines = append(lines, a.Table.lines(max(leastRows+2, room))...)
		if len(lines)+len(below) < screenLines {
			lines = append(lines, "")
		}
	}
	return append(lines, below...)
}

// headline is the run's name with its question.
func (p *page) headline() string {
	if p.run.Question == "" {
		return p.title()
	}
	return p.title() + ": " + p.run.Question
}

// lines writes the table in at most so many lines, including its head and the line that
// says how many rows are left out. Names are shortened first, then columns are left out.
// A figure is never cut.
func (b *Brief) lines(most int) []string {
	rows := append([][]string{b.Head}, b.Rows...)
	more := 0
	if len(rows) > most {
		more = len(rows) - (most - 1)
		rows = rows[:most-1]
	}
	cells := make([][]string, len(rows))
	for r, row := range rows {
		for _, cell := range row {
			cells[r] = append(cells[r], Printable(cell))
		}
	}
	widths := widthsOf(cells)
	last := len(widths) - 1
	if prose := b.Head[last] == "says" || b.Head[last] == "limit"; prose && total(widths) > screenWidth {
		widths[last] = max(leastProse, widths[last]-(total(widths)-screenWidth))
	}
	for n := range widths {
		if name := slices.Contains([]string{"variant", "base", "claim", "step"}, b.Head[n]); name {
			for total(widths) > screenWidth && widths[n] > leastName || widths[n] > nameWidth {
				widths[n]--
			}
		}
	}
	for i := len(widths) - 1; i > 0 && total(widths) > screenWidth; i-- {
		if !slices.Contains([]string{"outcome", "claim", "verdict", "change"}, b.Head[i]) {
			for r := range cells {
				cells[r] = slices.Delete(cells[r], i, i+1)
			}
			widths = slices.Delete(widths, i, i+1)
		}
	}
	var lines []string
	for _, row := range cells {
		line := ""
		for i, cell := range row {
			if i > 0 && i == last {
				cell = cut(cell, widths[i])
			} else {
				cell = middle(cell, widths[i])
			}
			line += "  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		}
		lines = append(lines, strings.TrimRight(cut(line, screenWidth), " "))
	}
	if more > 0 {
		lines = append(lines, "  "+texts.Say(texts.English, "more.rows", map[string]string{"n": whole(int64(more))}))
	}
	return lines
}

// The fewest characters that names and prose of a table are shortened to.
const (
	leastName  = 9
	leastProse = 24
)

func widthsOf(cells [][]string) []int {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func total(widths []int) int {
	n := 0
	for _, w := range widths {
		n += 2 + w
	}
	return n
}

// quickScreen is that of a quick load.
func (p *page) quickScreen(a Answer) []string {
	v := &p.run.Variants[0]
	trial := p.only(v.Name)
	lines := wrapped("", p.title(), 1)
	lines = append(lines, wrapped("", p.load(), 1)...)
	for _, s := range said(p.unfinished()) {
		lines = append(lines, wrapped("", s, 2)...)
	}
	row := func(name, text string) {
		lines = append(lines, wrapped(fmt.Sprintf("  %-13s", name), text, 1)...)
	}
	what := "good responses/s"
	if v.Streams != nil {
		what = "events/s, delivered"
	}
	throughput := stated(counts(), v.Throughput, p.state("throughput", v.Name, "")) + " " + what
	if trial != nil && trial.WindowSeconds > 0 {
		throughput += ", in " + Seconds(trial.WindowSeconds) + " after " + Seconds(trial.WarmupSeconds) + " of warm-up"
	}
	row("throughput", throughput)
	if t := v.Tokens; t != nil {
		prompts := ""
		if t.PromptPerSecond != nil {
			prompts = ", prompts " + stated(counts(), p.estimate(*v, "prompt_tokens_per_second"), p.state("prompt_tokens_per_second", v.Name, "")) + " tokens/s"
		}
		row("tokens", stated(counts(), p.estimate(*v, "tokens_per_second"), p.state("tokens_per_second", v.Name, ""))+" tokens/s"+prompts+"; goodput "+
			stated(counts(), p.estimate(*v, "goodput"), p.state("goodput", v.Name, ""))+" answers/s within the goal")
	}
	c := v.Counts
	if p.run.Plan.Variant(v.Name).Loop != "stream" {
		text := whole(c.Sent) + " sent: " + whole(c.OK) + " ok, " + whole(c.Errors) + " errors, " + whole(c.Timeouts) + " timeouts, " + whole(c.Unfinished) + " unfinished"
		if c.Dropped > 0 {
			text += ", " + whole(c.Dropped) + " dropped"
		}
		row(p.sent(), text)
	}
	lines = append(lines, p.quickLatencies(v)...)
	lines = append(lines, wrapped(fmt.Sprintf("  %-13s", "answered"), p.answered(v, trial), 2)...)
	if len(v.Steps) > 0 {
		row("steps", p.shortSteps(v))
	}
	if s := v.Streams; s != nil {
		row("subscribers", fmt.Sprintf("%s asked for, %s at once, %s accepted, %s attempts failed, %s events lost", whole(s.Requested), whole(s.Peak), whole(s.Opened), whole(s.Failed), whole(s.Lost)))
	} else if trial != nil {
		k := trial.Connections
		text := whole(k.Requested) + " asked for, " + whole(k.Opened) + " opened, " + whole(k.Failed) + " failed"
		if k.Streams > 1 {
			text = whole(k.Requested) + " × " + whole(k.Streams) + text[len(whole(k.Requested)):]
		}
		if reuse := v.Target.ConnectionReuseRatio; reuse != nil {
			text += ", reused by " + percent(*reuse) + " of the " + p.sent()
		}
		if k.Refused > 0 {
			text += ", " + whole(k.Refused) + " requests refused and " + whole(k.Resent) + " sent again"
		}
		if v.Target.CPUSecondsPerRequest != nil {
			text += "; target CPU " + Seconds(*v.Target.CPUSecondsPerRequest) + " per " + p.unit()
		}
		row("connections", text)
	}
	if trial != nil && trial.TLS != nil {
		handshakes, agreed := secured(trial.TLS, &v.Handshake)
		row("handshakes", strings.Join(append([]string{handshakes}, agreed...), "; "))
	}
	head := func(name string) string { return "  " + fmt.Sprintf("%-13s", texts.Say(texts.English, name, nil)) }
	add := func(name string, sentences []string, most int) {
		for i, s := range sentences {
			if i == most || len(lines) >= quickLines-1 {
				return
			}
			mark := head(name)
			if i > 0 {
				mark = strings.Repeat(" ", len([]rune(mark)))
			}
			lines = append(lines, wrapped(mark, s, 1)...)
		}
	}
	if kept := len(p.run.Thresholds); kept > 0 {
		for _, t := range p.run.Thresholds {
			if !t.OK {
				kept--
			}
		}
		row("thresholds", fmt.Sprintf("%d of %d hold", kept, len(p.run.Thresholds)))
	}
	add("broke", said(a.Broke), 2)
	trust := said(a.Asked)
	if all := texts.Joined(texts.English, a.Trust); all != "" {
		trust = append([]string{all}, trust...)
	}
	add("trust", trust, 2)
	if a.Next != nil {
		add("next", []string{a.Next.In(texts.English)}, 1)
	}
	return append(lines, wrapped(head("rest"), a.Rest.In(texts.English), 1)...)
}

// quickLatencies is a line for each clock, as each figure's state allows.
func (p *page) quickLatencies(v *rundir.Variant) []string {
	t := table{head: []string{"", "p50", "p90", "p99", "p99.9", "max"}}
	var clocks []string
	add := func(name, clock string, q rundir.Quantiles) {
		if q.Count == 0 {
			return
		}
		row := []string{name}
		for i, x := range []*float64{q.P50, q.P90, q.P99, q.P999, q.Max} {
			figure := clock + "." + []string{"p50", "p90", "p99", "p999", "max"}[i]
			row = append(row, stated(times(), rundir.Estimate{Estimate: x}, p.state(figure, v.Name, "")))
		}
		t.add(row...)
	}
	if s := v.Streams; s != nil {
		add("delivery", "delivery", s.Delivery)
		add("event gap", "event_gap", s.EventGap)
	} else {
		open := p.run.Plan.Variant(v.Name).Loop == "open"
		if open {
			add("response", "response", v.Response)
		}
		add("service", "service", v.Service)
		if !open {
			add("response", "response", v.Response)
			clocks = append(clocks, "a closed loop leaves out what slow responses held back (coordinated omission); --rate shows it")
		}
	}
	if t := v.Tokens; t != nil {
		add("first token", "first_token", t.FirstToken)
		add("token time", "token_time", t.TokenTime)
	} else {
		add("first message", "first_message", v.FirstMessage)
	}
	add("message gap", "message_gap", v.MessageGap)
	add("message", "message", v.Message)
	add("send lag", "send_lag", v.SendLag)
	var b strings.Builder
	if len(t.rows) > 0 {
		for i := range t.rows {
			t.rows[i][0] = fmt.Sprintf("%-11s", t.rows[i][0])
		}
		t.write(&b)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, cut(strings.TrimRight(line, "\n"), screenWidth))
	}
	clock := newPage(p.folder)
	clock.section("")
	clock.ends([]rundir.Variant{*v})
	for _, i := range clock.parts[0].items {
		clocks = append(clocks, i.text)
	}
	for _, text := range clocks {
		lines = append(lines, wrapped("  ", text, 1)...)
	}
	return lines
}

// reason returns, in parentheses, what the most frequent of a trial's failures says behind a
// prefix; nothing without such a failure.
func reason(trial *rundir.Trial, prefix string) string {
	if trial == nil {
		return ""
	}
	for _, text := range descending(trial.Failures) {
		if why, ok := strings.CutPrefix(text, prefix); ok {
			return " (" + why + ")"
		}
	}
	return ""
}

// answered says how much of what was due was answered, and describes the failures.
func (p *page) answered(v *rundir.Variant, trial *rundir.Trial) string {
	var parts []string
	if v.Availability != nil {
		parts = append(parts, arrived(*v.Availability)+" of what was due")
	} else if v.Errors.Ratio != nil {
		parts = append(parts, arrived(1-*v.Errors.Ratio)+" of what was due")
	}
	for i, code := range descending(v.Counts.ByStatus) {
		if i < 3 {
			why := reason(trial, "status: grpc "+code+": ") + reason(trial, "status: status "+code+": ")
			parts = append(parts, "status "+code+" × "+whole(v.Counts.ByStatus[code])+why)
		}
	}
	for i, kind := range descending(v.Errors.ByKind) {
		if i < 3 && kind != "status" {
			part := kind + " × " + whole(v.Errors.ByKind[kind])
			if kind != "timeout" { // which says all by its name
				part += reason(trial, kind+": ")
			}
			parts = append(parts, part)
		}
	}
	if trial != nil && len(v.Errors.ByKind) == 0 {
		for _, text := range descending(trial.Failures) {
			parts = append(parts, text)
			break
		}
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, ", ")
}
