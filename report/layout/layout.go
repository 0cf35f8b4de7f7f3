// Package layout sets out the parts of a report: sections with lines, tables and footnotes,
// as text in columns or as Markdown. It knows nothing of what is in them.
package layout

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"dyno/report/figure"
)

// The widths of a document.
const (
	LineWidth  = 110 // characters of a line of prose, at most
	tableWidth = 120 // characters of a line of a table, unless one column is wider
	proseWidth = 24  // characters that a table's last column of prose has at least
)

// A Part is a section of a report: a title with lines and tables, the same for every
// format. The code that makes a part makes its text printable.
type Part struct {
	Title string
	Flush bool // its lines stand at the margin, as those below the report's own title do
	Items []Item
}

// An Item is a table; or a line, which may begin with a mark: its further lines are then
// indented. Verbatim text is neither wrapped nor formatted.
type Item struct {
	Table    *Table
	Mark     string
	Text     string
	Verbatim bool
}

// WriteText writes a part as text. The content below its title is indented by two.
func (s *Part) WriteText(b *strings.Builder) {
	b.WriteString(Wrap("", figure.Printable(s.Title), LineWidth) + "\n")
	indent := "  "
	if s.Flush {
		indent = ""
	}
	for _, i := range s.Items {
		switch {
		case i.Table != nil:
			i.Table.Write(b)
		case i.Verbatim:
			b.WriteString(indent + i.Mark + figure.Printable(i.Text) + "\n")
		default:
			b.WriteString(Wrap(indent+i.Mark, figure.Printable(i.Text), LineWidth) + "\n")
		}
	}
}

// Wrap breaks prose into lines. The first begins with the mark, the others are
// indented as far.
func Wrap(mark, text string, limit int) string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(mark))
	var b strings.Builder
	b.WriteString(mark)
	width := len(indent)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > limit:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// A Table is aligned in columns: the first to the left, the others to the right
// unless they are named in left. A row of one cell is the title of those below it.
type Table struct {
	Head  []string
	Rows  [][]string
	Left  []int
	Prose bool // the last column is text, which is wrapped
	Width int  // of its lines in characters; 0: as in documents
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// columns is how many columns there are.
func (t *Table) columns() int {
	n := len(t.Head)
	for _, row := range t.Rows {
		n = max(n, len(row))
	}
	return n
}

// Write prints the table, indented by two. Widths are in characters, so µ and ≥ take one
// place. Lines have no spaces at the end. Columns that do not fit go below the others,
// with the first column again.
func (t *Table) Write(b *strings.Builder) {
	rows := t.Rows
	if t.Head != nil {
		rows = append([][]string{t.Head}, rows...)
	}
	rows = printable(rows)
	columns := t.columns()
	widths := make([]int, columns)
	for _, row := range rows {
		for i, cell := range row {
			if len(row) > 1 || columns == 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for from := 1; ; {
		to, width := from, 2+widths[0]
		for to < columns && (t.Prose || to == from || width+2+widths[to] <= cmp.Or(t.Width, tableWidth)) {
			width += 2 + widths[to]
			to++
		}
		t.writeColumns(b, rows, widths, from, to)
		if from = to; from >= columns {
			return
		}
	}
}

// writeColumns prints the first column and those of a range.
func (t *Table) writeColumns(b *strings.Builder, rows [][]string, widths []int, from, to int) {
	left := map[int]bool{0: true}
	for _, i := range t.Left {
		left[i] = true
	}
	for _, row := range rows {
		var line strings.Builder
		indent := 0
		for i, cell := range row {
			if i > 0 && (i < from || i >= to) {
				continue
			}
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			line.WriteString("  ")
			indent += 2
			switch {
			case t.Prose && i == len(widths)-1:
				mark := strings.Repeat(" ", indent)
				text := Wrap(mark, cell, max(tableWidth, indent+proseWidth))
				line.WriteString(strings.TrimPrefix(text, mark))
			case left[i]:
				line.WriteString(cell + pad)
			default:
				line.WriteString(pad + cell)
			}
			indent += widths[i]
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// printable returns cells in a form that a terminal can show.
func printable(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			out[i] = append(out[i], figure.Printable(cell))
		}
	}
	return out
}

// Cut shortens text to n characters, the last of which marks the cut.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(0, most-1)]), " ") + "…"
}

// Middle shortens a name in its middle, because beginning and end tell it from others.
func Middle(name string, most int) string {
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	front := (most - 1) / 2
	return string(runes[:front]) + "…" + string(runes[len(runes)-(most-1-front):])
}

// Raise moves a mark that all figures of a column share to the column's head. It counts the
// columns of each mark. A row with fewer cells is a title.
func (t *Table) Raise() map[string]int {
	marks := map[string]int{}
	for i := 1; i < len(t.Head); i++ {
		mark, same := "", true
		for _, row := range t.Rows {
			if i >= len(row) {
				continue
			}
			at := strings.LastIndex(row[i], " [")
			if at < 0 {
				same = same && row[i] == figure.Unknown
				continue
			}
			same = same && (mark == "" || mark == row[i][at:])
			mark = row[i][at:]
		}
		if !same || mark == "" {
			continue
		}
		t.Head[i] += mark
		marks[mark]++
		for _, row := range t.Rows {
			if i < len(row) {
				row[i] = strings.TrimSuffix(row[i], mark)
			}
		}
	}
	return marks
}
