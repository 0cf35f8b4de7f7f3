package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"reflect"
	"strconv"
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

// What stands in a cell is the figure, to the last digit.
func TestCSVIsExact(t *testing.T) {
	f := examples()["compare"]
	found := 0
	for _, row := range readCSV(t, export.CSV, f) {
		for _, v := range f.Run.Variants {
			if v.Name != row["variant"] || row["metric"] != "throughput" {
				continue
			}
			found++
			for column, want := range map[string]*float64{"estimate": v.Throughput.Estimate, "low": v.Throughput.Low, "high": v.Throughput.High} {
				if got, err := strconv.ParseFloat(row[column], 64); err != nil || got != *want {
					t.Errorf("%s of %s is %q, want %v", column, v.Name, row[column], *want)
				}
			}
			if row["unit"] != "1/s" || row["valid"] != strconv.FormatBool(f.Run.Valid) {
				t.Errorf("%v", row)
			}
		}
	}
	if found != len(f.Run.Variants) || found == 0 {
		t.Errorf("throughput of %d variants, want %d", found, len(f.Run.Variants))
	}
	counted := 0
	rows := readCSV(t, export.TrialsCSV, f)
	for _, row := range rows {
		if row["counted"] == "true" {
			counted++
		}
	}
	want := 0
	for _, v := range f.Run.Variants {
		want += v.Trials
	}
	if len(rows) != len(f.Trials) || counted != want {
		t.Errorf("%d rows, %d counted; want %d and %d", len(rows), counted, len(f.Trials), want)
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
