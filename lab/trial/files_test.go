package trial

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dyno/lab/plan"
)

// TestSums: the record has the files that commands name and loads read, and another sum when one has changed.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server, script, program := write("server", "one"), write("script", "two"), write("dyno", "three")
	t.Setenv("PATH", dir)
	var e plan.Experiment
	e.Variants = make([]plan.Variant, 1)
	v := &e.Variants[0]
	v.Target.Start = []string{"server", script, "--port", "{{port}}", dir, filepath.Join(dir, "none")}
	v.Services = []plan.Service{{Process: plan.Process{Dir: dir, Start: []string{"./script", "server"}}}, {Process: plan.Process{Start: []string{"nowhere"}}}}
	body, rows := write("body", "four"), write("rows.csv", "five")
	v.Load.Request = &plan.Request{BodyFile: body}
	v.Load.Scenario = &plan.Scenario{Data: []plan.Data{{Name: "users", File: rows}}}
	before := sums(&e, program)
	if got, want := slices.Sorted(maps.Keys(before)), slices.Sorted(slices.Values([]string{"dyno", "server", server, script, body, rows})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	write("server", "another")
	write("rows.csv", "another")
	after := sums(&e, program)
	if after["server"] == before["server"] || after["server"] != after[server] || after["dyno"] != before["dyno"] || after[rows] == before[rows] || after[body] != before[body] || after[script] != before[script] {
		t.Errorf("%v, and before %v", after, before)
	}
}
