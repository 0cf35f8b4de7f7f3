package ui

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// Texts that are too large are cut, and say so; those that dyno writes are not.
func TestBound(t *testing.T) {
	run := &rundir.Run{Name: "x", Notes: []rundir.Message{texts.Verbatim("a")}, Plan: rundir.Plan{Source: strings.Repeat("s", maxText+1), Set: map[string]string{"a": "b"}}, Variants: []rundir.Variant{{Name: "v"}}}
	before, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	boundRun(run)
	if after, err := json.Marshal(run); err != nil || string(after) != string(before) {
		t.Errorf("%v, %s", err, after)
	}

	huge := strings.Repeat("é", 1<<20)
	run = &rundir.Run{Name: huge, Notes: []rundir.Message{texts.Verbatim("x")}, Plan: rundir.Plan{Set: map[string]string{huge: huge}}, Variants: []rundir.Variant{{Name: "v"}}}
	boundRun(run)
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(run.Name, "éé") || !strings.HasSuffix(run.Name, "é… [of 2097152 bytes]") || len(run.Name) > maxText+100 {
		t.Errorf("a name of %d bytes: %.20q", len(run.Name), run.Name)
	}
	if last := run.Notes[len(run.Notes)-1]; !strings.HasPrefix(last.English(), "not all of run.json is shown: 3 texts and 0 entries") {
		t.Errorf("%q", last)
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes", len(text))
	}

	few := &bound{texts: 20, entries: 5}
	run = &rundir.Run{Plan: rundir.Plan{Thresholds: slices.Repeat([]string{"x"}, 4)}, Command: []string{"a", "b", "c"}, DynoVersion: strings.Repeat("v", 30)}
	few.cut(reflect.ValueOf(run).Elem(), maxText)
	if len(run.Plan.Thresholds) != 4 || len(run.Command) != 1 || run.DynoVersion != strings.Repeat("v", 15)+"… [of 30 bytes]" || few.cutEntries != 2 || few.cutTexts != 1 {
		t.Errorf("%+v, %+v", run, few)
	}

	folder := &rundir.Folder{Trials: []*rundir.TrialFolder{{Trial: rundir.Trial{Error: huge}}, {Trial: rundir.Trial{Error: "short"}}}}
	boundFolder(folder)
	if e := folder.Trials[0].Error; len(e) > maxText+100 || folder.Trials[1].Error != "short" || len(folder.Run.Notes) != 1 {
		t.Errorf("%d bytes, %q", len(e), folder.Run.Notes)
	}
}
