package main

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"dyno/results/rundir"
)

// folder returns the page of the reference on run folders: their files, the fields of run.json and trial.json with
// the comments of the Go sources, and the columns of series.csv.
func folder(root string) ([]byte, error) {
	w := folderWriter{generator: generator{root: root, comments: map[string]map[string]string{}}, seen: map[reflect.Type]bool{}}
	w.out.WriteString(`# The run folder

A run is a folder. dyno's reports are made of it alone, and other tools can read it: JSON, HdrHistogram logs, CSV and
pprof profiles. ` + "`dyno run -o FOLDER`" + ` names it. Without a name it is ` + "`runs/NAME-TIME`" + `; a quick load keeps none.

| file | what it holds |
|---|---|
| ` + "`run.json`" + ` | plan, environment, figures, verdicts |
| ` + "`.begun.json`" + ` | ` + "`run.json`" + ` as the run began, in case that is damaged later |
| ` + "`report.html`" + ` | the report: one file that loads nothing |
| ` + "`trials/0001-VARIANT/trial.json`" + ` | one trial's counts and figures |
| ` + "`trials/0001-VARIANT/latency.hlog`" + ` | HdrHistogram log with the tags ` + strings.Join(rundir.Tags(), ", ") + ` |
| ` + "`trials/0001-VARIANT/series.csv`" + ` | what observers recorded, a row each tick |
| ` + "`trials/0001-VARIANT/stalls.csv`" + ` | when a CPU did not wake a thread that was due |
| ` + "`trials/0001-VARIANT/*.log`" + ` | output of the processes |
| ` + "`trials/0001-VARIANT/*.pb.gz`" + ` | profiles |

Times are in seconds, and their names end in ` + "`_seconds`" + `. Sizes are in bytes, rates are per second, ratios and shares are
plain numbers. What is not known is left out. ` + "`complete`" + ` is false until the end, when the verdict is
written with it. A run that was killed before, or found no room on the disk, has no verdict: a command that reads its folder
judges the trials, and keeps the verdict if it can. The version of the schema is ` + fmt.Sprint(rundir.SchemaVersion) + `.
`)
	for _, file := range []struct {
		name string
		of   reflect.Type
	}{{"run.json", reflect.TypeFor[rundir.Run]()}, {"trial.json", reflect.TypeFor[rundir.Trial]()}} {
		fmt.Fprintf(&w.out, "\n## %s\n", file.name)
		w.queue = append(w.queue, file.of)
		for len(w.queue) > 0 {
			t := w.queue[0]
			w.queue = w.queue[1:]
			if err := w.table(t); err != nil {
				return nil, err
			}
		}
	}
	w.out.WriteString("\n## series.csv\n\nA counter grows, and its unit is that of its growth. `*` stands for any text.\n\n| column | unit | counter |\n|---|---|---|\n")
	for _, c := range rundir.Columns() {
		counter := ""
		if c.Counter {
			counter = "yes"
		}
		fmt.Fprintf(&w.out, "| `%s` | %s | %s |\n", c.Name, c.Unit, counter)
	}
	return []byte(w.out.String()), nil
}

// A folderWriter writes a table for each struct, in the order in which it finds them.
type folderWriter struct {
	generator
	seen map[reflect.Type]bool
}

// table writes the fields of a struct, unless it has done that.
func (w *folderWriter) table(t reflect.Type) error {
	if w.seen[t] {
		return nil
	}
	w.seen[t] = true
	comments, err := w.commentsOf(t.PkgPath())
	if err != nil {
		return err
	}
	fmt.Fprintf(&w.out, "\n### %s\n\n", t.Name())
	if about := cell(comments[t.Name()]); about != "" {
		fmt.Fprintf(&w.out, "%s\n\n", about)
	}
	w.out.WriteString("| field | value | what it is |\n|---|---|---|\n")
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		of, err := w.value(f.Type)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		fmt.Fprintf(&w.out, "| `%s` | %s | %s |\n", cmp.Or(name, f.Name), of, cell(cmp.Or(comments[t.Name()+"."+f.Name], f.Tag.Get("about"))))
	}
	return nil
}

// value says what the JSON of a Go value is.
func (w *folderWriter) value(t reflect.Type) (string, error) {
	if t == reflect.TypeFor[time.Time]() {
		return "time, RFC 3339", nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.value(t.Elem())
	case reflect.Slice, reflect.Array:
		of, err := w.value(t.Elem())
		return "list of " + of, err
	case reflect.Map:
		of, err := w.value(t.Elem())
		return "mapping to " + of, err
	case reflect.Struct:
		w.queue = append(w.queue, t)
		return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name())), nil
	}
	return w.typeOf(t)
}

// cell is a comment as a cell of a table.
func cell(comment string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "*", `\*`).Replace(strings.Join(strings.Fields(comment), " "))
}
