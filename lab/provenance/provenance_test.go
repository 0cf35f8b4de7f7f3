package provenance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
	"dyno/load/scenario"
)

// TestDigests: the record has the files that commands name and loads read, and another sum when one has changed.
func TestDigests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server, script := write("server", "one"), write("script", "two")
	t.Setenv("PATH", dir)
	var e plan.Experiment
	e.Variants = make([]plan.Variant, 1)
	v := &e.Variants[0]
	v.Target.Start = []string{"server", script, "--port", "{{port}}", dir, filepath.Join(dir, "none")}
	v.Services = []plan.Service{{Process: plan.Process{Dir: dir, Start: []string{"./script", "server"}}}, {Process: plan.Process{Start: []string{"nowhere"}}}}
	body, rows := write("body", "four"), write("rows.csv", "five")
	v.Load.Request = &plan.Request{BodyFile: body}
	v.Load.Scenario = &scenario.Spec{Data: []scenario.Data{{Name: "users", File: rows}}}
	before := Digests(&e)
	if got, want := slices.Sorted(maps.Keys(before)), slices.Sorted(slices.Values([]string{"server", server, script, body, rows})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	link := filepath.Join(dir, "link")
	if err := os.Link(server, link); err != nil {
		t.Fatal(err)
	}
	v.Target.Start = append(v.Target.Start, link)
	if again := Digests(&e); again[link] == "" || again[link] != before[server] {
		t.Errorf("by another name: %v, and before %v", again, before)
	}
	v.Target.Start = v.Target.Start[:len(v.Target.Start)-1]
	write("server", "another")
	write("rows.csv", "another")
	after := Digests(&e)
	if after["server"] == before["server"] || after["server"] != after[server] || after[rows] == before[rows] || after[body] != before[body] || after[script] != before[script] {
		t.Errorf("%v, and before %v", after, before)
	}
}

func TestInUse(t *testing.T) {
	allowed := []int{0, 1, 2, 3}
	var placed plan.Load
	placed.CPUs = []int{3}
	for _, c := range []struct {
		name    string
		variant plan.Variant
		want    []int
	}{
		{"nothing placed", plan.Variant{}, allowed},
		{"a target elsewhere", plan.Variant{Load: placed}, []int{3}},
		{"a target anywhere", plan.Variant{
			Load:   placed,
			Target: plan.Target{Process: plan.Process{Start: []string{"x"}}},
		}, allowed},
		{"all placed", plan.Variant{
			Load:     placed,
			Target:   plan.Target{Process: plan.Process{Start: []string{"x"}, CPUs: []int{0}}},
			Services: []plan.Service{{Process: plan.Process{CPUs: []int{0, 1}}}},
		}, []int{0, 1, 3}},
		{"a program", plan.Variant{
			Target: plan.Target{Protocol: plan.Program, Process: plan.Process{Start: []string{"x"}, CPUs: []int{1}}},
		}, []int{1}},
	} {
		got := inUse(&plan.Experiment{Variants: []plan.Variant{c.variant}}, allowed)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
