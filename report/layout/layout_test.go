package layout

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

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
