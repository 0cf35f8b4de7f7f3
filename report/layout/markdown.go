package layout

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dyno/report/figure"
)

// WriteMarkdown writes a part with a title of a level.
func (s *Part) WriteMarkdown(b *strings.Builder, level int) {
	fmt.Fprintf(b, "\n%s %s\n", strings.Repeat("#", level), EscapeMarkdown(s.Title))
	list := false // the last item was one of a list, which another continues
	for _, i := range s.Items {
		if i.Table != nil || i.Verbatim || !list {
			b.WriteByte('\n')
		}
		list = false
		switch {
		case i.Table != nil:
			i.Table.WriteMarkdown(b)
		case i.Verbatim:
			fmt.Fprintf(b, "%s\n\n    %s\n", EscapeMarkdown(strings.TrimSpace(i.Mark)), figure.Printable(i.Text))
		default:
			fmt.Fprintf(b, "- %s\n", EscapeMarkdown(i.Mark+i.Text))
			list = true
		}
	}
}

// WriteMarkdown writes a table with pipes. The title of a group of rows is strong.
func (t *Table) WriteMarkdown(b *strings.Builder) {
	columns := t.columns()
	row := func(cells []string) {
		b.WriteByte('|')
		for i := range columns {
			cell := ""
			if i < len(cells) {
				cell = EscapeMarkdown(cells[i])
			}
			if len(cells) == 1 && i == 0 && columns > 1 && cell != "" {
				cell = "**" + cell + "**"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteByte('\n')
	}
	head := make([]string, columns)
	copy(head, t.Head)
	row(head)
	b.WriteByte('|')
	for i := range columns {
		if i == 0 || slices.Contains(t.Left, i) {
			b.WriteString(" --- |")
		} else {
			b.WriteString(" ---: |")
		}
	}
	b.WriteByte('\n')
	for _, cells := range t.Rows {
		row(cells)
	}
}

// EscapeMarkdown escapes text so that GitHub's Markdown shows it unchanged: on one line,
// without control characters, and with nothing that Markdown or HTML would interpret.
func EscapeMarkdown(s string) string {
	runes := []rune(figure.Printable(s))
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	ends := func(i int) bool { return i == len(runes) || runes[i] == ' ' }
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '>':
			b.WriteString("&gt;")
			continue
		case r == '&':
			b.WriteString("&amp;")
			continue
		case r == '_' && word(i-1) && word(i+1): // within a word it means nothing
		case strings.ContainsRune("\\`*_[]|~$#!", r),
			ends(i+1) && (i == 0 && (r == '-' || r == '+') || i > 0 && (r == '.' || r == ')') && numbers(runes[:i])),
			r == '-' && strings.Trim(string(runes), "- ") == "":
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// numbers tells whether text is digits only. A point or bracket after digits would begin
// a numbered list.
func numbers(runes []rune) bool {
	return !slices.ContainsFunc(runes, func(r rune) bool { return r < '0' || r > '9' })
}
