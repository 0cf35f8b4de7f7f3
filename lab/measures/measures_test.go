package measures

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseMeasures(t *testing.T) {
	many := func(n int) string {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf(`"m%d": %d`, i, i))
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	for _, c := range []struct {
		line string
		want map[string]float64
		err  string
	}{
		{`{"a": 1}`, map[string]float64{"a": 1}, ""},
		{` {"a_b2":-1.5e3 , "c":0}` + "\r", map[string]float64{"a_b2": -1500, "c": 0}, ""},
		{`{}`, nil, "without numbers"},
		{`[1]`, nil, "want a JSON object"},
		{`5`, nil, "want a JSON object"},
		{`ok`, nil, "want a JSON object"},
		{`{"a": 1`, nil, "unexpected EOF"},
		{`{"a": 1,}`, nil, "byte"},
		{`{"a" 1}`, nil, "byte"},
		{`{"a": 1} x`, nil, "something follows"},
		{`{"a": 1}{"b": 1}`, nil, "something follows"},
		{`{"a": 1, "a": 2}`, nil, "a: is there twice"},
		{`{"a": "1"}`, nil, `a: "1": want a finite number`},
		{`{"a": null}`, nil, "a: null: want a finite number"},
		{`{"a": {"b": 1}}`, nil, "want a finite number"},
		{`{"a": 1e999}`, nil, "a: 1e999: want a finite number"},
		{`{"A": 1, "2": 1, "": 1, "a.b": true}`, nil, `"a.b": want a name`},
		{`{"A": 1, "b": true}`, nil, "b: true: want a finite number"},
		{`{"` + strings.Repeat("x", 101) + `": 1}`, nil, "want a name"},
		{many(1001), nil, "more than 1000 numbers"},
	} {
		got, err := parseMeasures([]byte(c.line))
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.100s: %v, %v; want %s", c.line, got, err, c.err)
		}
	}
	if got, err := parseMeasures([]byte(many(1000))); err != nil || len(got) != 1000 {
		t.Errorf("%d numbers, %v", len(got), err)
	}
	if _, err := parseMeasures([]byte(`{` + strings.TrimSuffix(strings.Repeat(`"A": 1,`, 50), ",") + `}`)); err == nil || strings.Count(err.Error(), "\n") != 10 {
		t.Errorf("fifty faults: %v", err)
	}
}

func FuzzMeasures(f *testing.F) {
	for _, s := range []string{`{"a": 1}`, `{"a": 1, "b_seconds": 2.5e-9}`, `{}`, `[]`, `{"a": {}}`, `{"a":1}{`, `{"a`, "", `{"a": 1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		measures, err := parseMeasures(line)
		if err != nil {
			if measures != nil {
				t.Error("figures together with an error")
			}
			return
		}
		if len(measures) == 0 || len(measures) > maxMeasures {
			t.Errorf("%d figures", len(measures))
		}
		for name, v := range measures {
			if !measureName().MatchString(name) || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%q: %v", name, v)
			}
		}
	})
}

// However the output is cut into pieces, its last line that is not blank is kept.
func TestLastLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[ab \n]{0,6}`)).Draw(t, "pieces")
		var l LastLine
		for _, p := range pieces {
			if n, err := l.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		want := ""
		for _, line := range slices.Backward(strings.Split(strings.Join(pieces, ""), "\n")) {
			if strings.TrimSpace(line) != "" {
				want = line
				break
			}
		}
		l.end()
		if got := string(l.last.text); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
	var l LastLine
	for range 3 {
		_, _ = l.Write([]byte(strings.Repeat("x", maxLastLine/2)))
	}
	if m, err := l.Measures(); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("%v, %v", m, err)
	}
	if len(l.last.text) > maxLastLine {
		t.Errorf("%d bytes are kept", len(l.last.text))
	}
	_, _ = l.Write([]byte("\n{\"a\": 1}\n"))
	if m, err := l.Measures(); err != nil || m["a"] != 1 {
		t.Errorf("after a line that was too long: %v, %v", m, err)
	}
}
