package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"reflect"
	"strings"
	"testing"

	"dyno/report/export"
	"dyno/results/rundir"
)

// table reads what a spreadsheet would, rows with the names of their columns.
func readCSV(t *testing.T, write func(io.Writer, *rundir.Folder) error, f *rundir.Folder) (rows []map[string]string) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, f); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			if _, twice := row[name]; twice {
				t.Fatalf("two columns named %q", name)
			}
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestCSV(t *testing.T) {
	for _, name := range []string{"compare", "program", "streams", "capacity"} {
		var b bytes.Buffer
		if err := export.CSV(&b, examples()[name]); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".csv", strings.ReplaceAll(b.String(), "\r\n", "\n"))
	}
	for _, name := range []string{"compare", "program"} {
		var b bytes.Buffer
		if err := export.TrialsCSV(&b, examples()[name]); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".trials.csv", strings.ReplaceAll(b.String(), "\r\n", "\n"))
	}
}

// No name becomes a formula, or drives a terminal, in any cell.
func TestCSVIsInert(t *testing.T) {
	for _, name := range []string{"compare", "program"} {
		f := examples()[name]
		for i := range f.Trials {
			rewild(reflect.ValueOf(&f.Trials[i].Trial), nil)
		}
		rewild(reflect.ValueOf(&f.Run), nil)
		f.Run.Name = "=HYPERLINK(1)"
		for _, write := range []func(io.Writer, *rundir.Folder) error{export.CSV, export.TrialsCSV} {
			for _, row := range readCSV(t, write, f) {
				if row["run"] != "'=HYPERLINK(1)" {
					t.Errorf("run %q", row["run"])
				}
				for column, cell := range row {
					if strings.ContainsAny(column+cell, "\x1b\x00\n\r\u202e") {
						t.Errorf("%q: %q", column, cell)
					}
				}
			}
		}
	}
}
