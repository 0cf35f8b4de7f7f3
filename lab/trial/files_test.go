package trial

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"dyno/lab/plan"
	"dyno/load/scenario"
	"dyno/results/rundir"
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
	before := digests(&e)
	if got, want := slices.Sorted(maps.Keys(before)), slices.Sorted(slices.Values([]string{"server", server, script, body, rows})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	link := filepath.Join(dir, "link")
	if err := os.Link(server, link); err != nil {
		t.Fatal(err)
	}
	v.Target.Start = append(v.Target.Start, link)
	if again := digests(&e); again[link] == "" || again[link] != before[server] {
		t.Errorf("by another name: %v, and before %v", again, before)
	}
	v.Target.Start = v.Target.Start[:len(v.Target.Start)-1]
	write("server", "another")
	write("rows.csv", "another")
	after := digests(&e)
	if after["server"] == before["server"] || after["server"] != after[server] || after[rows] == before[rows] || after[body] != before[body] || after[script] != before[script] {
		t.Errorf("%v, and before %v", after, before)
	}
}

// TestFilesAreSummedAfterTheFirstLoad: run.json has the sums when the second trial begins. So a run
// killed then can only be resumed with the same files. A folder that is removed has none.
func TestFilesAreSummedAfterTheFirstLoad(t *testing.T) {
	server := startNull(t)
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("body"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, temporary := range []bool{false, true} {
		e := twoVariants(t, server, 1)
		for i := range e.Variants {
			e.Variants[i].Load.Request = &plan.Request{BodyFile: body, Method: "POST"}
		}
		var l log
		o := options(t, &l)
		o.Temporary = temporary
		var summed []bool // when a trial begins
		l.onStart = func(Planned) {
			run, err := rundir.ReadRun(o.Dir)
			if err != nil {
				t.Error(err)
				return
			}
			summed = append(summed, run.Environment.Files[body] != "")
		}
		if err := Run(t.Context(), e, o); err != nil {
			t.Fatal(err)
		}
		if want := []bool{false, !temporary}; !slices.Equal(summed, want) {
			t.Errorf("temporary %v: sums at the beginnings of trials %v, want %v", temporary, summed, want)
		}
	}
}
