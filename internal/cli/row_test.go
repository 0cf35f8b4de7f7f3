package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   string
	}{
		{nil, ""},
		{[]int64{0, 0}, "  "},
		{[]int64{5, 5, 5}, "▁▁▁"},
		{[]int64{100, 105, 98}, "▁▁▁"}, // an even latency looks even
		{[]int64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000}, "▁▂▃▄▅▆▇█"},
		{[]int64{1000, 0, 4000}, "▁ █"},
		{[]int64{1000, 2000}, "▁▅"},
		{[]int64{1, 1 << 62}, "▁█"},
	} {
		if got := sparkline(c.values); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

// A sparkline has a place for each value, and is higher where the value is.
func TestSparklineIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Min(0)).Draw(t, "values")
		drawn := []rune(sparkline(values))
		if len(drawn) != len(values) {
			t.Fatalf("%d values became %d characters", len(values), len(drawn))
		}
		for i, v := range values {
			for j, w := range values {
				if v < w && drawn[i] > drawn[j] {
					t.Fatalf("%d is %c and %d is %c", v, drawn[i], w, drawn[j])
				}
			}
		}
	})
}

func TestRow(t *testing.T) {
	r := row{{"pool 池", plain}, {"  failed 3", red}, {"  steal", yellow}}
	if got := r.paint(false); got != "pool 池  failed 3  steal" || got != r.text() {
		t.Errorf("%q", got)
	}
	if got, want := r.paint(true), "pool 池\x1b[31m  failed 3\x1b[0m\x1b[33m  steal\x1b[0m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := r.width(); got != 24 {
		t.Errorf("%d columns, want 24: a Chinese character takes two", got)
	}
	for columns, want := range map[int]string{0: "", 5: "pool ", 6: "pool ", 7: "pool 池", 10: "pool 池  f", 24: r.text(), 99: r.text()} {
		if got := r.cut(columns).text(); got != want {
			t.Errorf("cut to %d columns: %q, want %q", columns, got, want)
		}
	}
	if got := r.with(span{"XY", plain}, 27).text(); !strings.HasSuffix(got, "XY") {
		t.Errorf("%q: there was room", got)
	}
	if got := r.with(span{"XY", plain}, 26).text(); got != r.text() {
		t.Errorf("%q: there was no room", got)
	}
	if got := columnsOf('\u0301'); got != 0 {
		t.Errorf("a combining accent takes %d columns", got)
	}
}

// What is cut is a beginning of the row, as long as fits.
func TestCutFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := row{{rapid.String().Draw(t, "a"), plain}, {rapid.String().Draw(t, "b"), red}}
		columns := rapid.IntRange(0, 40).Draw(t, "columns")
		got := r.cut(columns)
		rest, ok := strings.CutPrefix(r.text(), got.text())
		if !ok || got.width() > columns {
			t.Fatalf("%q cut to %d is %q", r.text(), columns, got.text())
		}
		if first, _ := utf8.DecodeRuneInString(rest); rest != "" && got.width()+columnsOf(first) <= columns {
			t.Fatalf("%q cut to %d is %q: there is room for more", r.text(), columns, got.text())
		}
	})
}
