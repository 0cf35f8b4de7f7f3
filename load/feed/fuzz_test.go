package feed

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/load/jsonpath"
	"dyno/load/pace"

	"pgregory.net/rapid"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// readCSV reads a file as dyno does, without a header, by columns called 0, 1 and so on.
func readCSV(t tester, path string, columns int, delimiter byte) ([][]string, error) {
	o := Options{Delimiter: delimiter}
	for i := range columns {
		o.Columns = append(o.Columns, Column{Name: strconv.Itoa(i)})
	}
	table, err := open(path, o, mapped)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	c := table.Cursor(pace.Whole(), Sequential, 0, Stop)
	for row, ok := c.Next(); ok; row, ok = c.Next() {
		var texts []string
		for i := range columns {
			texts = append(texts, string(row.Append(nil, i)))
		}
		rows = append(rows, texts)
	}
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	return rows, nil
}

// Faults that encoding/csv accepts and Open does not.
var (
	bareReturn = regexp.MustCompile(`\r([^\n]|$)`)
	emptyLine  = regexp.MustCompile(`(^|\n)\r?\n`)
)

// agreeCSV holds split, checker and cursor to encoding/csv. The file at path says text.
func agreeCSV(t tester, path, text string, delimiter byte) {
	// encoding/csv knows no lines that end in CR.
	ended := strings.TrimPrefix(text, "\ufeff")
	byCR := !strings.Contains(text, "\n")
	if byCR {
		ended = strings.ReplaceAll(ended, "\r", "\n")
	}
	r := csv.NewReader(strings.NewReader(ended))
	r.Comma = rune(delimiter)
	want, wantErr := r.ReadAll()
	columns := 1
	if len(want) > 0 {
		columns = len(want[0])
	}
	got, err := readCSV(t, path, columns, delimiter)
	switch {
	case err == nil && wantErr != nil:
		t.Fatalf("%q: %q, but encoding/csv says %v", text, got, wantErr)
	case err == nil:
		for _, row := range got {
			for i := range row { // encoding/csv makes line ends within quotes LF
				row[i] = strings.ReplaceAll(row[i], "\r\n", "\n")
				if byCR {
					row[i] = strings.ReplaceAll(row[i], "\r", "\n")
				}
			}
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
	case wantErr == nil && len(want) > 0 && utf8.ValidString(text) &&
		!bareReturn.MatchString(ended) && !emptyLine.MatchString(ended) && len(text) < MaxRow:
		t.Fatalf("%q: %v, but encoding/csv reads %q", text, err, want)
	}
}

func TestAgreesWithEncodingCSV(t *testing.T) {
	dir := func(name, text string) string { return write(t, name, text) }
	piece := rapid.SampledFrom([]string{`"`, `""`, ",", ";", "\n", "\r\n", "\r", "a", "é", " ", "b,c", "x\ny", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		agreeCSV(t, dir("x.csv", text), text, rapid.SampledFrom([]byte(",;")).Draw(t, "delimiter"))
	})
}

// FuzzCSV: Open agrees with encoding/csv.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{
		"a,b\n1,2\n", "\"a\"\"b\",c\r\n", "\"a\nb\"\n\"c", "a\"b\n", "\"a\"b\n", "a\rb\n", "\n\na\n\n", "\xef\xbb\xbfa\n", "\xef\xbb\xbf\n0", "\xff\xfe", "a,b\n1\n", "\"\"", "\"", ",\n,", "é,\"é\"\n",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, semicolon bool) {
		delimiter := byte(',')
		if semicolon {
			delimiter = ';'
		}
		agreeCSV(t, write(t, "x.csv", text), text, delimiter)
	})
}

// FuzzJSONLines: what Open takes, encoding/json reads with the same values; and Open takes
// all that is one object a line with the same members.
func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{
		"{\"a\":1}\n{\"a\":2}\n", "{\"a\":\"\\u00e9\",\"b\":[1,{}]}\r\n{\"b\":null,\"a\":true}\n\n", "{}", "[1]\n", "{\"a\":1}\n\n{\"a\":1}", "{\"a\":1", "{\"\":0}", "\xff", "{\"a\":1}{\"a\":2}\n", "{\"a\":1,\"a\":2}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Open(write(t, "x.jsonl", text), Options{})
		lines := strings.Split(strings.TrimRight(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "\n")
		names := jsonpath.Names([]byte(lines[0]))
		objects := make([]map[string]json.RawMessage, len(lines))
		sound := utf8.ValidString(text) && len(names) > 0 && !slices.Contains(names, "")
		for i, line := range lines {
			if json.Unmarshal([]byte(line), &objects[i]) != nil || objects[i] == nil {
				sound = false
			}
			for _, name := range names {
				if _, ok := objects[i][name]; !ok {
					sound = false
				}
			}
		}
		if err != nil {
			if sound {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if !utf8.ValidString(text) || table.Rows() != len(lines) {
			t.Fatalf("%q: %d rows of %d lines", text, table.Rows(), len(lines))
		}
		c := table.Cursor(pace.Whole(), Sequential, 0, Stop)
		for i, line := range lines {
			row, ok := c.Next()
			if !ok {
				t.Fatalf("%q: row %d: %v", text, i, c.Err())
			}
			for column, name := range table.Columns() {
				got := row.Append(nil, column)
				want := objects[i][name]
				if len(want) > 0 && want[0] == '"' {
					var s string
					if err := json.Unmarshal(want, &s); err != nil {
						t.Fatal(err)
					}
					want = []byte(s)
				}
				if strings.Count(line, "\"") == 2*len(jsonpath.Names([]byte(line))) && !bytes.Equal(got, want) { // no name twice, nothing nested
					t.Fatalf("%q: row %d, %s: %q, want %q", text, i, name, got, want)
				}
			}
		}
	})
}
