package cli

import (
	"io"
	"maps"
	"slices"
	"strings"

	"dyno/cli/output"
	"dyno/internal/exit"
	"dyno/measure"
	"dyno/report"
	"dyno/report/export"
	"dyno/report/html"
	"dyno/report/short"
	"dyno/results/rundir"
)

// Forms that commands name: the default, and the one that prints several runs.
const (
	plainText = "text"
	markdown  = "markdown"
)

// formOptions say how a run is printed.
type formOptions struct {
	full, noColor, kept bool
	variant, tag        string // where a form is of one variant, or of one of its times
	forms               []Form
}

// A writer prints a run. In Markdown, it prints several.
type writer func(w io.Writer, runs ...*rundir.Folder) error

// writer returns what prints in a form.
func (o *formOptions) writer(form string) (writer, error) {
	writers := o.writers()
	if write := writers[form]; write != nil {
		return write, nil
	}
	return nil, exit.Misused("one of "+strings.Join(slices.Sorted(maps.Keys(writers)), ", "), "--format %q is not possible", form)
}

func (o *formOptions) writers() map[string]writer {
	ofOne := func(write func(io.Writer, *rundir.Folder) error) writer {
		return func(w io.Writer, runs ...*rundir.Folder) error { return write(w, runs[0]) }
	}
	ofVariant := func(write func(io.Writer, *rundir.Folder) error) writer {
		return ofOne(func(w io.Writer, f *rundir.Folder) error {
			if err := write(w, f); err != nil {
				return exit.With(exit.Usage, err, "")
			}
			return nil
		})
	}
	writers := map[string]writer{
		plainText: ofOne(func(w io.Writer, f *rundir.Folder) error {
			if o.full {
				return report.Text(w, f)
			}
			return output.Short(w, f, o.noColor, o.kept)
		}),
		markdown: func(w io.Writer, runs ...*rundir.Folder) error {
			if o.full {
				return report.Markdown(w, runs...)
			}
			return short.Markdown(w, runs...)
		},
		"html":       ofOne(html.Write),
		"json":       ofOne(func(w io.Writer, f *rundir.Folder) error { return export.JSON(w, &f.Run) }),
		"junit":      ofOne(func(w io.Writer, f *rundir.Folder) error { return export.JUnit(w, &f.Run) }),
		"bench":      ofOne(export.Benchmark),
		"csv":        ofOne(export.CSV),
		"csv-trials": ofOne(export.TrialsCSV),
		"hgrm":       ofVariant(func(w io.Writer, f *rundir.Folder) error { return export.Hgrm(w, f, o.variant, o.tag) }),
	}
	for _, tool := range export.LoadTools() {
		writers[tool] = ofVariant(func(w io.Writer, f *rundir.Folder) error { return export.Load(w, f, tool, o.variant) })
	}
	for _, form := range o.forms {
		writers[form.Name] = ofOne(func(w io.Writer, f *rundir.Folder) error { return form.Write(w, measure.ResultOf(f)) })
	}
	return writers
}
