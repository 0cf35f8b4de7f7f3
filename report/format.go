package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// unknown stands where a figure is not known.
const unknown = "–"

// figure writes a value with three significant digits, without an exponent
// from 0.001 to 10 million.
func figure(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil || v == 0 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	magnitude := int(math.Floor(math.Log10(math.Abs(rounded)) + 1e-9))
	if magnitude < -3 || magnitude > 7 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(rounded, 'f', max(0, 2-magnitude), 64)
}

// A step is a unit and where it begins.
type step struct {
	from float64
	name string
}

// scaled writes a value in the largest unit that it reaches when it is rounded.
func scaled(v float64, steps []step) string {
	best := steps[0]
	for _, s := range steps {
		// Half of the last of three digits below the step rounds up to it.
		if math.Abs(v) >= s.from*(1-0.0005) {
			best = s
		}
	}
	return figure(v/best.from) + best.name
}

// Seconds writes a time in a unit that fits, with three significant digits.
func Seconds(seconds float64) string {
	if seconds == 0 {
		return "0 s"
	}
	return scaled(seconds, []step{{1e-9, " ns"}, {1e-6, " µs"}, {1e-3, " ms"}, {1, " s"}})
}

// planned writes a time of the plan as an experiment file has it.
func planned(seconds float64) string {
	return time.Duration(math.Round(seconds * 1e9)).String()
}

// Duration is Seconds of a time in nanoseconds, as histograms have it.
func Duration(ns int64) string { return Seconds(float64(ns) / 1e9) }

func size(bytes float64) string {
	return scaled(bytes, []step{{1, " B"}, {1 << 10, " KiB"}, {1 << 20, " MiB"}, {1 << 30, " GiB"}})
}

// Count writes a number with three significant digits, in thousands (k) or
// millions (M) where it is that large.
func Count(n float64) string {
	return scaled(n, []step{{1, ""}, {1e3, "k"}, {1e6, "M"}})
}

func percent(share float64) string { return figure(100*share) + " %" }

// maybe writes a figure that may not be known.
func maybe(v *float64, write func(float64) string) string {
	if v == nil {
		return unknown
	}
	return write(*v)
}

// whole writes a count with a comma between thousands.
func whole(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return whole(int64(n)) + " " + noun + "s"
}

// Printable makes text fit for one line of a terminal: runs of white space become
// one space, and what could move the cursor or turn the direction of writing
// is shown as its code.
func Printable(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			continue
		}
		b.WriteRune(r) // an invalid byte has become U+FFFD
	}
	return b.String()
}

// lineWidth is how many characters a line of prose has at most.
const lineWidth = 110

// wrap breaks prose into lines. The first begins with the mark, the others are
// indented as far.
func wrap(mark, text string) string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(mark))
	var b strings.Builder
	b.WriteString(mark)
	width := len(indent)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > lineWidth:
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
// unless they are named in left.
type table struct {
	head []string
	rows [][]string
	left []int
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table, indented by two. Widths are in characters, so µ and ≥
// take one place. A line does not end in spaces.
func (t *table) write(b *strings.Builder) {
	rows := t.rows
	if t.head != nil {
		rows = append([][]string{t.head}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	left := map[int]bool{0: true}
	for _, i := range t.left {
		left[i] = true
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			line.WriteString("  ")
			if left[i] {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// command writes a command as one would type it in a shell.
func command(args []string) string {
	var words []string
	for _, a := range args {
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_") != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return Printable(strings.Join(words, " "))
}

// cpus writes a list of CPUs as ranges.
func cpus(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		part := strconv.Itoa(list[i])
		if j > i {
			part += "-" + strconv.Itoa(list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
