package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		if err != nil || !strings.Contains(string(got), "<polyline") || strings.Contains(string(got), "NaN") || strings.Contains(string(got), "P & P") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	write("runs/R0-x/run.json", `{"variants": [{"name": "a", "figures": {}}]}`)
	if err := takeCurves(filepath.Join(dir, "runs"), page); err == nil {
		t.Error("a curve without points")
	}
}
