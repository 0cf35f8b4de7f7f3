package report

import (
	"strings"
	"unicode/utf8"
)

const (
	lineWidth  = 110 // characters of a line of prose, at most
	tableWidth = 120 // characters of a line of a table, unless one column is wider
	proseWidth = 24  // characters that a table's last column of prose has at least
)

// A part is a section of a report: a title with lines and tables, the same for every
// format. The code that makes a part makes its text printable.
type part struct {
	title string
	flush bool // its lines stand at the margin, as those below the report's own title do
	items []item
}

// An item is a table; or a line, which may begin with a mark: its further lines are then
// indented. Verbatim text is neither wrapped nor formatted.
type item struct {
	table    *table
	mark     string
	text     string
	verbatim bool
}

// writeText writes a part as text. The content below its title is indented by two.
func (s *part) writeText(b *strings.Builder) {
	b.WriteString(Printable(s.title) + "\n")
	indent := "  "
	if s.flush {
		indent = ""
	}
	for _, i := range s.items {
		switch {
		case i.table != nil:
			i.table.write(b)
		case i.verbatim:
			b.WriteString(indent + i.mark + Printable(i.text) + "\n")
		default:
			b.WriteString(wrap(indent+i.mark, Printable(i.text), lineWidth) + "\n")
		}
	}
}

// wrap breaks prose into lines. The first begins with the mark, the others are
// indented as far.
func wrap(mark, text string, limit int) string {
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

// A table is aligned in columns: the first to the left, the others to the right
// unless they are named in left. A row of one cell is the title of those below it.
type table struct {
	head  []string
	rows  [][]string
	left  []int
	prose bool // the last column is text, which is wrapped
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// columns is how many columns there are.
func (t *table) columns() int {
	n := len(t.head)
	for _, row := range t.rows {
		n = max(n, len(row))
	}
	return n
}

// write prints the table, indented by two. Widths are in characters, so µ and ≥ take one
// place. Lines have no spaces at the end. Columns that do not fit go below the others,
// with the first column again.
func (t *table) write(b *strings.Builder) {
	rows := t.rows
	if t.head != nil {
		rows = append([][]string{t.head}, rows...)
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
		for to < columns && (t.prose || to == from || width+2+widths[to] <= tableWidth) {
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
func (t *table) writeColumns(b *strings.Builder, rows [][]string, widths []int, from, to int) {
	left := map[int]bool{0: true}
	for _, i := range t.left {
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
			case t.prose && i == len(widths)-1:
				mark := strings.Repeat(" ", indent)
				text := wrap(mark, cell, max(tableWidth, indent+proseWidth))
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
			out[i] = append(out[i], Printable(cell))
		}
	}
	return out
}
