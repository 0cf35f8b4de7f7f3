package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
)

// A page's curves are read from the run where that is there, and drawn from the points kept next to the page.
func TestCurves(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("runs/R0-x/run.json", `{"variants": [
		{"name": "a", "figures": {"response.p50": {"estimate": 0.001, "low": 0.0005, "high": 0.002}, "response.p99": {"estimate": 0.1}}},
		{"name": "b", "figures": {"response.p50": {"estimate": 0.003}}},
		{"name": "a.control", "figures": {"response.p50": {"estimate": 5}}}]}`)
	write("runs/R0-x/trials/0001-a/series.csv", "time_seconds,rss\n-0.1,1048576\n60,\n120,3145728\n")
	page := filepath.Join(dir, "R0.md")
	write("R0.md", `
<!-- curve percentiles R0-x response ms -->
![R0: P & P](R0-p.svg)

<!-- curve variants R0-x response.p50 ms a -->
![R0: medians](R0-v.svg)

<!-- curve time R0-x rss MiB a -->
![R0: memory](R0-t.svg)
`)
	if err := takeCurves(filepath.Join(dir, "runs"), page); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"R0-p.csv": "series,x,y,low,high\na,p50,1,0.5,2\na,p99,100,,\nb,p50,3,,\n",
		"R0-v.csv": "series,x,y,low,high\nresponse.p50,a,1,0.5,2\n",
		"R0-t.csv": "series,x,y,low,high\na,-0.00167,1,,\na,2,3,,\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %v, got\n%s", name, err, got)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	if err := takeCurves(filepath.Join(dir, "runs"), page); err != nil {
		t.Error("without the runs:", err)
	}
	if err := drawCurves(page); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"R0-p.svg", "R0-v.svg", "R0-t.svg"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		mark := "<polyline"
		if name == "R0-v.svg" {
			mark = "<circle"
		}
		if err != nil || !strings.Contains(string(got), mark) || strings.Contains(string(got), "NaN") || strings.Contains(string(got), "P & P") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	write("runs/R0-x/run.json", `{"variants": [{"name": "a", "figures": {}}]}`)
	if err := takeCurves(filepath.Join(dir, "runs"), page); err == nil {
		t.Error("a curve without points")
	}
}

// A flame graph has a box for each function, over its callers.
func TestFlame(t *testing.T) {
	dir := t.TempDir()
	of := func(name string, id uint64) (*pprof.Function, *pprof.Location) {
		f := &pprof.Function{ID: id, Name: name}
		return f, &pprof.Location{ID: id, Line: []pprof.Line{{Function: f}}}
	}
	outer, at := of("main.main", 1)
	inner, below := of("example.org/a/b.f[x,y]", 2)
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, Function: []*pprof.Function{outer, inner}, Location: []*pprof.Location{at, below},
		Sample: []*pprof.Sample{{Location: []*pprof.Location{below, at}, Value: []int64{75}}, {Location: []*pprof.Location{at}, Value: []int64{25}}},
	}
	folder := filepath.Join(dir, "trials", "0001-a")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, "cpu.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Write(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	points, err := flame(dir, "cpu", "a")
	if err != nil || len(points) != 2 || points[1].y != 75 || points[1].end != 1 {
		t.Fatalf("%+v, %v", points, err)
	}
	data := filepath.Join(dir, "x.csv")
	if err := save(data, points); err != nil {
		t.Fatal(err)
	}
	read, err := load(data)
	if err != nil || !reflect.DeepEqual(read, points) {
		t.Fatalf("%+v, want %+v: %v", read, points, err)
	}
	if got := (curve{kind: "flame", title: "a"}).draw(read); !strings.Contains(got, ">b.f[x,y]<") || !strings.Contains(got, "example.org/a/b.f[x,y] 75.0 %") {
		t.Error(got)
	}
	if _, err := flame(dir, "cpu", "none"); err == nil {
		t.Error("a flame graph of no profile")
	}
}
