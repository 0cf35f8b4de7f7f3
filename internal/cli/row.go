package cli

import (
	"math"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// A style is the look of text on a terminal with colours.
type style string

// The styles, by their codes in ECMA-48 (SGR).
const (
	plain  style = ""
	red    style = "31"
	yellow style = "33"
)

// A span is a part of a row in one style.
type span struct {
	text  string
	style style
}

// A row is one line on a terminal.
type row []span

// text is the row without styles.
func (r row) text() string {
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.text)
	}
	return b.String()
}

// paint is the row with the codes for a terminal.
func (r row) paint(colour bool) string {
	if !colour {
		return r.text()
	}
	var b strings.Builder
	for _, s := range r {
		if s.style == plain {
			b.WriteString(s.text)
		} else {
			b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
		}
	}
	return b.String()
}

// width is how many columns the row takes.
func (r row) width() int {
	n := 0
	for _, s := range r {
		for _, c := range s.text {
			n += columnsOf(c)
		}
	}
	return n
}

// cut returns the part of the row that fits into so many columns.
func (r row) cut(columns int) row {
	var out row
	for _, s := range r {
		for i, c := range s.text {
			n := columnsOf(c)
			if n > columns {
				return append(out, span{s.text[:i], s.style})
			}
			columns -= n
		}
		out = append(out, s)
	}
	return out
}

// with returns the row with one more span, if it then fits into so many columns minus
// one, or if the number of columns is not known.
func (r row) with(s span, columns int) row {
	if columns > 0 && r.width()+(row{s}).width() > columns-1 {
		return r
	}
	return append(r, s)
}

// columnsOf is how many columns a character takes: two for Chinese, Japanese and Korean
// ones (Unicode Standard Annex 11), none for combining ones.
func columnsOf(c rune) int {
	if unicode.In(c, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(c).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// sparkline draws values above zero on a logarithmic scale, from the smallest to the
// largest. The scale covers at least a factor of four, so that an even latency looks
// even. Zero is a gap.
func sparkline(values []int64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	least, most := int64(math.MaxInt64), int64(0)
	for _, v := range values {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	scale := max(math.Log(float64(most)/float64(least)), math.Log(4))
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteByte(' ')
			continue
		}
		level := math.Log(float64(v)/float64(least)) / scale * float64(len(levels)-1)
		b.WriteRune(levels[int(math.Round(level))])
	}
	return b.String()
}
