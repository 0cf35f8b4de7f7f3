// Package short writes the answer of a run on one screen of a terminal, or as a comment in
// Markdown. A quick load and a search from flags have screens of their own.
package short

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// The sizes of the first screen.
const (
	screenLines = 24
	proseLimit  = 100 // characters of a line of prose where the terminal has more, or there is none
	leastRows   = 3   // of the answer's table, before anything else is cut
	nameWidth   = 28  // characters of a name in a table
)

// A Screen is where an answer is shown.
type Screen struct {
	Width  int  // of the terminal in characters; 0 stands for none, where no line is cut
	Colour bool // the terminal has colours
	Kept   bool // the run folder stays, and may be named
}

// Text writes the answer of a run on one screen: at most 24 lines, and 14 for a quick
// load and for a search from flags.
func Text(w io.Writer, f *rundir.Folder, s Screen) error {
	p := &page{judged.Of(f), s.Width}
	of := *f
	if !s.Kept {
		of.Dir = ""
	}
	a := answer.Make(&of)
	lines := p.ownScreen(a)
	if lines == nil {
		lines = p.screen(a)
	}
	if s.Colour {
		paint(lines)
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("answer as text: %w", err)
	}
	return nil
}

// A page is an answer while it is laid out.
type page struct {
	*judged.Result
	width int // of the terminal in characters; 0: there is none
}

// ownScreen is the screen of a quick load, or of a search from flags; nil of anything else.
func (p *page) ownScreen(a answer.Answer) []string {
	switch {
	case p.IsEmpty():
		return nil
	case p.IsQuick():
		return p.quickScreen(a)
	case p.IsSearch():
		return p.searchScreen(a)
	}
	return nil
}

// block writes the sentences under a heading, in at most n lines.
func (p *page) block(head string, sentences []string, most int) []string {
	mark := fmt.Sprintf("%-15s", texts.Say(texts.English, head, nil))
	indent := strings.Repeat(" ", len([]rune(mark)))
	var lines []string
	for i, s := range sentences {
		if len(lines) >= most {
			more := texts.Say(texts.English, "more.lines", map[string]string{"n": figure.Whole(int64(len(sentences) - i))})
			last := &lines[len(lines)-1]
			if p.width > 0 {
				*last = layout.Cut(*last, p.width-utf8.RuneCountInString(more)-2)
			}
			*last += "; " + more
			break
		}
		m := indent
		if i == 0 {
			m = mark
		}
		lines = append(lines, p.wrapped(m, s, most-len(lines))...)
	}
	return lines
}

// wrapped breaks a sentence into at most n lines of the screen, and cuts the rest. In a pipe
// it has as many lines as it needs.
func (p *page) wrapped(mark, text string, most int) []string {
	limit := proseLimit
	if p.width > 0 {
		limit = min(limit, p.width)
	}
	lines := strings.Split(layout.Wrap(mark, figure.Printable(text), limit), "\n")
	if len(lines) > most && p.width > 0 {
		lines = lines[:most]
		rest := &lines[most-1]
		*rest = layout.Cut(*rest, limit-2) + " …"
	}
	for i := range lines {
		lines[i] = strings.TrimRight(p.cut(lines[i]), " ")
	}
	return lines
}

// cut shortens a line to the terminal's width. In a pipe it stays as it is.
func (p *page) cut(line string) string {
	if p.width == 0 {
		return line
	}
	return layout.Cut(line, p.width)
}

// screen is the first screen of an experiment. If there is no room, it says less about
// single figures, and then about the target.
func (p *page) screen(a answer.Answer) []string {
	var lines []string
	for _, most := range [][2]int{{4, 3}, {3, 3}, {2, 3}, {2, 2}} {
		if lines = p.screenOf(a, most[0], most[1]); len(lines) <= screenLines {
			break
		}
	}
	return lines
}

// screenOf is the screen with a number of lines of figures and of the target.
func (p *page) screenOf(a answer.Answer, figures, target int) []string {
	lines := p.wrapped("", p.headline(), 2)
	for _, s := range answer.InEnglish(a.Says) {
		lines = append(lines, p.wrapped("", s, 2)...)
	}
	lines = append(lines, "")
	var below []string
	most := map[string]int{"pairs": figures, "broke": target, "trust": figures, "rest": 1} // lines
	for _, b := range a.Blocks() {
		if b.Head == "again" {
			b.Sentences = []string{strings.Join(b.Sentences, "; ")}
		}
		below = append(below, p.block(b.Head, b.Sentences, cmp.Or(most[b.Head], 2))...)
	}
	if a.Table != nil {
		room := screenLines - len(lines) - len(below) - 1
		lines = append(lines, tableLines(a.Table, max(leastRows+2, room), p.width)...)
		if len(lines)+len(below) < screenLines {
			lines = append(lines, "")
		}
	}
	return append(lines, below...)
}

// headline is the run's name with its question.
func (p *page) headline() string {
	if p.Run.Question == "" {
		return p.Title()
	}
	return p.Title() + ": " + p.Run.Question
}

// tableLines writes the table, no wider than the terminal, in at most the given number of lines. They
// include the head and the line that says how many rows are left out. Names are shortened first, then
// columns are left out. A figure is never cut.
func tableLines(b *answer.Brief, most, width int) []string {
	if width == 0 {
		width = math.MaxInt
	}
	rows := append([][]string{b.Head}, b.Rows...)
	more := 0
	if len(rows) > most {
		more = len(rows) - (most - 1)
		rows = rows[:most-1]
	}
	cells := make([][]string, len(rows))
	for r, row := range rows {
		for _, cell := range row {
			cells[r] = append(cells[r], figure.Printable(cell))
		}
	}
	widths := widthsOf(cells)
	last := len(widths) - 1
	if prose := b.Head[last] == "says" || b.Head[last] == "limit"; prose && total(widths) > width {
		widths[last] = max(leastProse, widths[last]-(total(widths)-width))
	}
	for n := range widths {
		if name := slices.Contains([]string{"variant", "base", "claim", "step"}, b.Head[n]); name {
			for total(widths) > width && widths[n] > leastName || widths[n] > nameWidth {
				widths[n]--
			}
		}
	}
	for i := len(widths) - 1; i > 0 && total(widths) > width; i-- {
		if !slices.Contains([]string{"outcome", "claim", "verdict", "change"}, b.Head[i]) {
			for r := range cells {
				cells[r] = slices.Delete(cells[r], i, i+1)
			}
			widths = slices.Delete(widths, i, i+1)
		}
	}
	t := layout.Table{Rows: cells, Width: math.MaxInt}
	for i := range widths {
		t.Left = append(t.Left, i)
		for _, row := range cells {
			if i > 0 && i == last {
				row[i] = layout.Cut(row[i], widths[i])
			} else {
				row[i] = layout.Middle(row[i], widths[i])
			}
		}
	}
	var text strings.Builder
	t.Write(&text)
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.TrimRight(layout.Cut(line, width), " \n"))
	}
	if more > 0 {
		lines = append(lines, "  "+texts.Say(texts.English, "more.rows", map[string]string{"n": figure.Whole(int64(more))}))
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

// reason returns, in parentheses, what the most frequent of a trial's failures says after a
// prefix; nothing without such a failure.
func reason(trial *rundir.Trial, prefix string) string {
	if trial == nil {
		return ""
	}
	for _, text := range judged.MostFrequent(trial.Failures) {
		if why, ok := strings.CutPrefix(text, prefix); ok {
			return " (" + why + ")"
		}
	}
	return ""
}
