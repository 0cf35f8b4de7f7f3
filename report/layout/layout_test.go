package layout

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Wrap("[1] ", "a µ", LineWidth), "[1] a µ"}, {Wrap("", "", LineWidth), ""},
		{Wrap("[1] ", strings.Repeat("µ", 105)+" b "+strings.Repeat("c", 200)+" d", LineWidth), "[1] " + strings.Repeat("µ", 105) + "\n    b\n    " + strings.Repeat("c", 200) + "\n    d"},
		{Wrap("[1] ", strings.Repeat("µ", 104)+" b", LineWidth), "[1] " + strings.Repeat("µ", 104) + " b"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// Columns are aligned by characters, not by bytes.
func TestTableAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringOfN(rapid.SampledFrom([]rune("aµ≥–x9")), 1, 8, -1)
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		var tb Table
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			tb.Add(rapid.SliceOfN(cell, columns, columns).Draw(t, "row")...)
		}
		var b strings.Builder
		tb.Write(&b)
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(tb.Rows) {
			t.Fatalf("%d lines of %d rows", len(lines), len(tb.Rows))
		}
		for i, line := range lines {
			if diff := cmp.Diff(tb.Rows[i], strings.Fields(line)); diff != "" {
				t.Error(diff)
			}
			if columns > 1 && utf8.RuneCountInString(line) != utf8.RuneCountInString(lines[0]) {
				t.Errorf("lines of different length:\n%s", b.String())
			}
		}
	})
}

// Columns that find no room go below, with the first column again; none is lost.
func TestTableFolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, rows := rapid.IntRange(2, 30).Draw(t, "columns"), rapid.IntRange(1, 3).Draw(t, "rows")
		var tb Table
		for r := range rows {
			row := []string{"r" + strconv.Itoa(r)}
			for c := 1; c < columns; c++ {
				row = append(row, strings.Repeat("x", rapid.IntRange(1, 40).Draw(t, "width"))+strconv.Itoa(r)+"y"+strconv.Itoa(c))
			}
			tb.Add(row...)
		}
		var b strings.Builder
		tb.Write(&b)
		found := map[string]int{}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > tableWidth {
				t.Errorf("%d characters: %s", n, line)
			}
			fields := strings.Fields(line)
			if !strings.HasPrefix(fields[0], "r") {
				t.Errorf("no first column: %s", line)
			}
			for _, f := range fields[1:] {
				found[f]++
			}
		}
		for _, row := range tb.Rows {
			for _, cell := range row[1:] {
				if found[cell] == 0 {
					t.Errorf("%s is missing", cell)
				}
			}
		}
	})
}

func TestTableProse(t *testing.T) {
	tb := Table{Head: []string{"", "text"}, Left: []int{1}, Prose: true}
	tb.Add("a", strings.Repeat("word ", 40))
	tb.Add("the title of a group that is longer than the column")
	tb.Add("b", "c")
	var b strings.Builder
	tb.Write(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "  a  word word") || !strings.HasPrefix(lines[2], "     word") || lines[4] != "  b  c" {
		t.Errorf("got\n%s", b.String())
	}
}
