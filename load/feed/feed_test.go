package feed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dyno/load/pace"
)

// mapped makes every file a large one.
const mapped = -1

// write returns the path of a new file.
func write(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func mustOpen(tb testing.TB, path string, o Options, kept int64) *Table {
	tb.Helper()
	t, err := open(path, o, kept)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := t.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

// all returns what the rows of a cursor say, up to a number of them.
func all(tb testing.TB, c *Cursor, most int) (rows [][]string) {
	tb.Helper()
	for len(rows) < most {
		row, ok := c.Next()
		if !ok {
			break
		}
		var texts []string
		for column := range c.t.columns {
			texts = append(texts, string(row.Append(nil, column)))
		}
		rows = append(rows, texts)
	}
	if err := c.Err(); err != nil {
		tb.Fatal(err)
	}
	return rows
}

const many = 1 << 20

func TestRows(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		options          Options
		columns          []string
		rows             [][]string
	}{
		{
			"lines that end in CR", "a.csv", "\xef\xbb\xbfuser,pass\rada,\"x\r1\"\rbob,y2\r", Options{},
			[]string{"user", "pass"}, [][]string{{"ada", "x\r1"}, {"bob", "y2"}},
		},
		{
			"JSON Lines that end in CR", "a.jsonl", "{\"a\":1}\r{\"a\":2}", Options{},
			[]string{"a"}, [][]string{{"1"}, {"2"}},
		},
		{
			"header", "a.csv", "user,pass\nada,x1\nbob,y2\n", Options{},
			[]string{"user", "pass"}, [][]string{{"ada", "x1"}, {"bob", "y2"}},
		},
		{
			"no end of the last line, CR LF, empty fields", "a.csv", "a,b,c\r\n1,,\r\n,,3", Options{},
			[]string{"a", "b", "c"}, [][]string{{"1", "", ""}, {"", "", "3"}},
		},
		{
			"quotes", "a.csv", "a,\"b \"\"x\"\"\"\n\"1,2\",\"line 1\r\nline \"\"2\"\"\"\n\"\",\"\"\"\"\n", Options{},
			[]string{"a", `b "x"`}, [][]string{{"1,2", "line 1\r\nline \"2\""}, {"", `"`}},
		},
		{
			"byte order mark, empty lines at the end", "a.csv", "\xef\xbb\xbfname\né\n\n\r\n\n", Options{},
			[]string{"name"}, [][]string{{"é"}},
		},
		{
			"no header, a tab", "a.tsv", "1\t2,3\n4\t5\n", Options{Delimiter: '\t', Columns: []Column{{Name: "x"}, {Name: "y"}}},
			[]string{"x", "y"}, [][]string{{"1", "2,3"}, {"4", "5"}},
		},
		{
			"members", "a.jsonl", "{\"id\":1,\"na me\":\"a\\u00e9\",\"x\":{\"y\":[1, 2]}}\r\n{\"x\":null,\"na me\":\"\",\"id\":-1e3,\"more\":0}", Options{},
			[]string{"id", "na me", "x"}, [][]string{{"1", "aé", `{"y":[1, 2]}`}, {"-1e3", "", "null"}},
		},
		{
			"paths", "a.txt", " {\"user\":{\"ids\":[1,\"two\"]},\"ok\":true}\n\n \n",
			Options{Format: JSONLines, Columns: []Column{{"last", "$.user.ids[-1]"}, {"ok", ""}}},
			[]string{"last", "ok"}, [][]string{{"two", "true"}},
		},
		{
			"the ending says that it is JSON", "A.NDJSON", "\xef\xbb\xbf{\"a\":1}", Options{},
			[]string{"a"}, [][]string{{"1"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := mustOpen(t, write(t, tt.file, tt.text), tt.options, maxKept)
			if got := table.Columns(); !slices.Equal(got, tt.columns) {
				t.Errorf("columns %q, want %q", got, tt.columns)
			}
			if table.Rows() != len(tt.rows) {
				t.Errorf("%d rows, want %d", table.Rows(), len(tt.rows))
			}
			got := all(t, table.Cursor(pace.Whole(), Sequential, 0, Stop), many)
			if !slices.EqualFunc(got, tt.rows, slices.Equal) {
				t.Errorf("rows %q, want %q", got, tt.rows)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	long := strings.Repeat("x", MaxRow)
	for _, tt := range []struct {
		name, file, text string
		options          Options
		want             []string // in the order of the faults
	}{
		{"ragged", "a.csv", "a,b\n1,2\n1\n1,2,3\n", Options{}, []string{
			`:3:1: 1 field, where the header has 2; want as many; a field that contains "," belongs in quotes`,
			`:4:1: 3 fields, where the header has 2`,
		}},
		{"ragged without a header", "a.csv", "1;2\n1\n", Options{Delimiter: ';', Columns: []Column{{Name: "a"}}}, []string{
			`:1:1: 2 fields, where the list of columns has 1; want as many; a field that contains ";" belongs in quotes`,
		}},
		{"quotes", "a.csv", "a,b\nx,y\"z\"\n1,\"2\"3\n\"é\n\"\"\",\"x\"y\n4,5\n", Options{}, []string{
			`:2:4: a quote inside a field that does not begin with one; put the whole field in quotes`,
			`:3:6: text after a closing quote; want the delimiter or the line's end`,
			`:5:8: text after a closing quote`,
		}},
		{"a quote that is never closed", "a.csv", "a,b\né,\"x\n1,2\n", Options{}, []string{
			`:2:3: a quote that is never closed; close it before the delimiter`,
		}},
		{"CR alone", "a.csv", "a,b\n1\r2,3\n4,5\r", Options{}, []string{
			`:2:2: a carriage return without a line feed; put the field in quotes, or end lines with LF or CR LF`,
			`:3:4: a carriage return without a line feed`,
		}},
		{"empty lines", "a.csv", "a\n\n\r\n1\n\n2\n\n", Options{}, []string{
			`:2:1: an empty line; take it out, or write "" for an empty value`,
			`:5:1: an empty line`,
		}},
		{"bytes that are not UTF-8", "a.csv", "a,b\nné,x\xe9y\n1,2\n", Options{}, []string{
			`:2:5: byte 0xe9, which is not UTF-8; want UTF-8: convert the file, for example with iconv`,
		}},
		{"UTF-16", "a.csv", "\xff\xfea\x00", Options{}, []string{`:1:1: the text is UTF-16; want UTF-8: convert it`}},
		{"names of columns", "a.csv", "a,,é,a\n1\n", Options{}, []string{
			`:1:3: a column without a name; want a name for each`,
			`:1:6: column "a": named twice; want each name once`,
		}},
		{"a header that cannot be read", "a.csv", "a\"b\n1\n2,3\n", Options{}, []string{`:1:2: a quote inside a field`}},
		{"too many columns", "a.csv", strings.Repeat("a,", MaxColumns) + "\n", Options{}, []string{`:1:1: 4097 columns; want at most 4096`}},
		{"an empty file", "a.csv", "", Options{}, []string{`a.csv: no rows of data; want a header and one row at least`}},
		{"only a header", "a.csv", "a,b\n", Options{}, []string{`a.csv: no rows of data; want a header and one row at least`}},
		{"only empty lines", "a.jsonl", "\n\n", Options{}, []string{`a.jsonl: no rows of data; want one row at least`}},
		{"a long row", "a.csv", "a\n" + long + "\n1\nx\"\n", Options{}, []string{
			`:2:1: a row of more than 1048576 bytes; want shorter ones`,
			`:4:2: a quote inside`,
		}},
		{"a long row in quotes", "a.csv", "a\n\"" + long + "\"\n1\nx\"\n", Options{}, []string{
			`:2:1: a quote that is not closed within 1048576 bytes; close it before the delimiter`,
		}},
		{"a long line of JSON", "a.jsonl", "{\"a\":\"" + long + "\"}\n{\"a\":1}\n{}\n", Options{}, []string{
			`:1:1: a row of more than 1048576 bytes; want shorter ones`,
			`:3:1: no value for the column "a"`,
		}},
		{"JSON", "a.jsonl", "{\"a\":1}\n{\"a\":é}\n{\"a\":1\n[1]\n\n 1\n{\"b\":{\"a\":1}}\n{\"a\":\"\xff\"}\n", Options{}, []string{
			`:2:6: not JSON: want a value: an object, an array, a string in double quotes, a number, true, false or null; want one JSON object a line`,
			`:3:7: not JSON: the document ends too early`,
			`:4:1: not an object; want one JSON object a line, such as {"name": "value"}`,
			`:6:2: not an object`,
			`:5:1: an empty line`,
			`:7:1: no value for the column "a", at $["a"]; want one in every row`,
			`:8:7: byte 0xff, which is not UTF-8`,
		}},
		{"an object without members", "a.jsonl", "{}\n{\"a\":1}\n", Options{}, []string{
			`:1:1: an object without members; want at least one, as the first object's members are the columns`,
		}},
		{"a path that finds nothing", "a.jsonl", "{\"a\":{\"b\":1}}\n{\"a\":2}\n", Options{Columns: []Column{{"x", "$.a.b"}}}, []string{
			`:2:1: no value for the column "x", at $.a.b; want one in every row`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(write(t, tt.file, tt.text), tt.options)
			checkFaults(t, err, tt.want)
			if f := (*Fault)(nil); !errors.As(err, &f) || filepath.Base(f.File) != tt.file {
				t.Errorf("%T, want a Fault of %s", err, tt.file)
			}
		})
	}
}

// How many faults are reported is bounded.
func TestFaultsAreBounded(t *testing.T) {
	_, err := Open(write(t, "a.csv", "a\n"+strings.Repeat("1,2\n", 1000)), Options{})
	got := strings.Split(err.Error(), "\n")
	if len(got) != maxFaults+1 || !strings.HasSuffix(got[maxFaults], "a.csv: the rest of the file was not checked") {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

// checkFaults fails unless an error has these faults, in their order.
func checkFaults(t *testing.T, err error, want []string) {
	t.Helper()
	got := strings.Split(fmt.Sprint(err), "\n")
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d:\n%v", len(got), len(want), err)
	}
	for i := range min(len(got), len(want)) {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("fault %q, want %q", got[i], want[i])
		}
	}
}

func TestOptionsFaults(t *testing.T) {
	for _, tt := range []struct {
		file    string
		options Options
		want    []string
	}{
		{"a.csv", Options{Delimiter: '\n'}, []string{`delimiter '\n': want one ASCII character`}},
		{"a.csv", Options{Delimiter: 0xe9}, []string{"want one ASCII character"}},
		{"a.csv", Options{Columns: []Column{{"a", "$.a"}, {"a", ""}, {"", ""}, {"\xff", ""}}}, []string{
			`columns[0]: path "$.a": want none for CSV`, "columns[1]: ", "columns[2]: ", "columns[3]: ",
		}},
		{"a.jsonl", Options{Delimiter: ',', Columns: []Column{{"a", "a"}}}, []string{
			"delimiter ',': want none for JSON Lines", `columns[0]: JSON path "a"`,
		}},
		{"a.jsonl", Options{Columns: make([]Column, MaxColumns+1)}, []string{"columns: 4097 given; want at most 4096"}},
	} {
		_, err := Open(tt.file, tt.options)
		checkFaults(t, err, tt.want)
	}
}

func TestWhatIsNoFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.csv"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file; want a file on disk") {
		t.Errorf("error %v, want that it is not a regular file", err)
	}
}

// A file that is cut off or changed while it is in use ends the cursor with an error.
func TestChangedFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows lets nobody change a file that is mapped")
	}
	var text strings.Builder
	text.WriteString("a,b\n")
	for i := range 20_000 {
		fmt.Fprintf(&text, "%05d,x\n", i)
	}
	for _, tt := range []struct {
		name, file, text string
		change           func(path string) error
		want             string
	}{
		{"cut off", "a.csv", text.String(), func(path string) error { return os.Truncate(path, 100_000) }, "row 12500: the file has changed since it was opened"},
		{"emptied", "a.csv", text.String(), func(path string) error { return os.Truncate(path, 0) }, "the file has changed"},
		{"overwritten", "a.csv", text.String(), func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(text.String(), "19990,", "1\n990,", 1)), 0o600)
		}, "row 19991: the file has changed"},
		{"other members", "a.jsonl", strings.Repeat("{\"a\":1}\n", 20_000), func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("{\"b\":1}\n", 20_000)), 0o600)
		}, "the file has changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.file, tt.text)
			c := mustOpen(t, path, Options{}, mapped).Cursor(pace.Whole(), Sequential, 1, Wrap)
			if _, ok := c.Next(); !ok {
				t.Fatal("no row")
			}
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			var dst []byte
			for range 2_000_000 {
				row, ok := c.Next()
				if !ok {
					break
				}
				dst = row.Append(dst[:0], 0)
			}
			if err := c.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, ok := c.Next(); ok {
				t.Error("a row after the error")
			}
		})
	}
}
