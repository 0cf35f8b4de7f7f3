package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder returns a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var sources = map[string]string{
	"a.txt": "text\nresult: lag 71.94 µs\nresult: lag_more 1\nresult: twice 1\nresult: twice 2\n",
	"b.md": "| of | quantity | expected | measured |\n| --- | --- | --- | --- |\n" +
		"| one | p50 |  | 0.7 µs |\n|  | p99 | – | 1.427 ms |\n\n" +
		"| name | p99 |\n| --- | --- |\n| two | &lt;0.0001 |\n",
}

func TestRender(t *testing.T) {
	dir := folder(t, sources)
	for _, c := range []struct{ text, want string }{
		{"x <!-- figure a.txt · lag -->52 µs<!-- / --> y", "x <!-- figure a.txt · lag -->71.9 µs<!-- / --> y"},
		{"<!-- figure b.md · one · p50 · measured --><!-- / -->, <!-- figure b.md · one · p99 · measured -->?<!-- / -->",
			"<!-- figure b.md · one · p50 · measured -->0.7 µs<!-- / -->, <!-- figure b.md · one · p99 · measured -->1.43 ms<!-- / -->"},
		{"<!-- figure b.md · two · p99 --><!-- / -->", "<!-- figure b.md · two · p99 --><0.0001<!-- / -->"},
		{"<!-- figures -->\n| a 1 | `b 2` | c <!-- figure a.txt · lag -->71.9 µs<!-- / --> |\n<!-- /figures -->",
			"<!-- figures -->\n| a 1 | `b 2` | c <!-- figure a.txt · lag -->71.9 µs<!-- / --> |\n<!-- /figures -->"},
	} {
		got, err := render(dir, c.text)
		if err != nil || got != c.want {
			t.Errorf("%s:\n%s, %v\nwant\n%s", c.text, got, err, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	dir := folder(t, sources)
	for text, want := range map[string]string{
		"<!-- figure a.txt -->1<!-- / -->":                                                            "want FILE · KEY",
		"<!-- figure a.txt · more -->1<!-- / -->":                                                     `a.txt: there is no line "result: more"`,
		"<!-- figure a.txt · twice -->1<!-- / -->":                                                    `a.txt: there are two lines for "twice"`,
		"<!-- figure c.txt · lag -->1<!-- / -->":                                                      "c.txt: no such file",
		"<!-- figure b.md · one · p50 · expected -->1<!-- / -->":                                      `b.md: no table has a figure for ["one" "p50"]`,
		"<!-- figure b.md · one · p99 · expected -->1<!-- / -->":                                      `b.md: no table has a figure for ["one" "p99"]`,
		"<!-- figure b.md · three · p99 -->1<!-- / -->":                                               `b.md: no table has a figure for ["three"]`,
		"<!-- figures -->\n| a | b | 12 µs |\n<!-- /figures -->":                                      `"12", of "12 µs": the number has no source`,
		"<!-- figures -->\n| a | b | <!-- figure a.txt · lag -->1<!-- / --> | 7 |\n<!-- /figures -->": `"7", of "7"`,
	} {
		if _, err := render(dir, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A document with a fault is left as it is.
func TestRun(t *testing.T) {
	files := map[string]string{"good.md": "<!-- figure a.txt · lag -->old<!-- / -->", "bad.md": "<!-- figure a.txt · none -->old<!-- / --><!-- figure a.txt · lag -->old<!-- / -->"}
	for name, content := range sources {
		files[name] = content
	}
	dir := folder(t, files)
	if err := run(dir, []string{"bad.md", "good.md", "missing.md"}); err == nil || !strings.Contains(err.Error(), "bad.md: ") || !strings.Contains(err.Error(), "missing.md") {
		t.Errorf("%v: want both faults", err)
	}
	for name, want := range map[string]string{"good.md": "<!-- figure a.txt · lag -->71.9 µs<!-- / -->", "bad.md": files["bad.md"]} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestTidy(t *testing.T) {
	for figure, want := range map[string]string{
		"70703": "70,700", "2,797,200": "2,800,000", "0.52345 ms": "0.523 ms", "1.427 ms": "1.43 ms", "55.0 (49.9 … 60.6)": "55.0 (49.9 … 60.6)",
		"999.6": "1,000", "0": "0", "20/20 [83.2, 100.0]": "20/20 [83.2, 100]", "1.68M/s ±13%": "1.68M/s ±13%", "0.00012345": "0.000123",
		"3.006–4.599 s": "3.01–4.60 s", "none": "none", "p9999 1234": "p9999 1,230",
	} {
		if got := tidy(figure); got != want {
			t.Errorf("%q: %q, want %q", figure, got, want)
		}
	}
}
