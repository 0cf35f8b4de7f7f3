package rundir

import (
	"dyno/internal/texts"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Texts that are too large are cut, and say so; those that dyno writes are not.
func TestBound(t *testing.T) {
	run := &Run{Name: "x", Notes: []Message{texts.Verbatim("a")}, Plan: Plan{Source: strings.Repeat("s", maxText+1), Set: map[string]string{"a": "b"}}, Variants: []Variant{{Name: "v"}}}
	before, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	run.Bound()
	if after, err := json.Marshal(run); err != nil || string(after) != string(before) {
		t.Errorf("%v, %s", err, after)
	}

	huge := strings.Repeat("é", 1<<20)
	run = &Run{Name: huge, Notes: []Message{texts.Verbatim("x")}, Plan: Plan{Set: map[string]string{huge: huge}}, Variants: []Variant{{Name: "v"}}}
	run.Bound()
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
	run = &Run{Plan: Plan{Thresholds: slices.Repeat([]string{"x"}, 4)}, Command: []string{"a", "b", "c"}, DynoVersion: strings.Repeat("v", 30)}
	few.cut(reflect.ValueOf(run).Elem(), maxText)
	if len(run.Plan.Thresholds) != 4 || len(run.Command) != 1 || run.DynoVersion != strings.Repeat("v", 15)+"… [of 30 bytes]" || few.cutEntries != 2 || few.cutTexts != 1 {
		t.Errorf("%+v, %+v", run, few)
	}

	folder := &Folder{Trials: []*TrialFolder{{Trial: Trial{Error: huge}}, {Trial: Trial{Error: "short"}}}}
	folder.Bound()
	if e := folder.Trials[0].Error; len(e) > maxText+100 || folder.Trials[1].Error != "short" || len(folder.Run.Notes) != 1 {
		t.Errorf("%d bytes, %q", len(e), folder.Run.Notes)
	}
}
