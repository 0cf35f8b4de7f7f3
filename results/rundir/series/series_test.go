package series

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// What was written is what is read, whatever the values.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9_.]{0,20}`).
			Filter(func(s string) bool { return s != TimeColumn }), 0, 5, rapid.ID).Draw(t, "columns")
		want := &Series{Columns: append([]string{TimeColumn}, columns...), Values: make([][]float64, 1+len(columns))}
		file := strings.Join(want.Columns, ",") + "\n"
		value := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)))
		for range rapid.IntRange(0, 10).Draw(t, "rows") {
			cells := make([]string, len(want.Columns))
			for c := range cells {
				v := value.Draw(t, "value")
				if c == 0 {
					v = rapid.Float64().Draw(t, "time")
				}
				if !math.IsNaN(v) {
					cells[c] = strconv.FormatFloat(v, 'f', -1, 64)
				}
				want.Values[c] = append(want.Values[c], v)
			}
			file += strings.Join(cells, ",") + "\n"
		}
		got, err := Read(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSeriesRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		rows int // that come with the error; -1: no series
		want string
	}{
		{"", -1, "the file is empty"},
		{"x\n", -1, "the first column is not time_seconds"},
		{"time_seconds,a,a\n", -1, "two columns are named a"},
		{"time_seconds,A\n", -1, `"A" cannot be a column's name`},
		{"time_seconds,a\n1,2\n3\n", 1, "line 3"},
		{"time_seconds,a\n1,2\n3,x\n", 1, `line 3: column 2: "x" is not a number`},
		{"time_seconds,a\n1,2\n,3\n", 1, "the row has no time"},
		{"time_seconds,a\n1,\"2\n", 0, "line 2"},
		{"time_seconds,a\n1," + strings.Repeat("2", maxRow+1), 0, "longer than"},
	} {
		s, err := Read(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.in, err, c.want)
		}
		if (s == nil) != (c.rows < 0) || s != nil && s.Rows() != c.rows {
			t.Errorf("%.40q: %+v, want %d rows", c.in, s, c.rows)
		}
	}
}
