package report

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"dyno/report/short"
	"dyno/results/rundir"
)

func TestMarkdown(t *testing.T) {
	for name, folders := range map[string][]*rundir.Folder{
		"compare": {exampleCompare()}, "quick": {exampleQuick()}, "ladder": {exampleLadder()}, "pairs": {examplePairs()},
		"document": {exampleProgram(), exampleInvalid(), exampleCapacity(), exampleSoak()},
	} {
		var b bytes.Buffer
		if err := Markdown(&b, folders...); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".md", b.String())
	}
	if err := Markdown(&bytes.Buffer{}); err == nil {
		t.Error("a document of no run: no error")
	}
}

// The short form of every kind of run fits a comment: whatever the texts, and however many.
func TestShortMarkdown(t *testing.T) {
	for name, f := range examples() {
		var b bytes.Buffer
		if err := short.Markdown(&b, f); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".short.md", b.String())
		if n := strings.Count(b.String(), "\n"); n > 25 {
			t.Errorf("%s: %d lines:\n%s", name, n, b.String())
		}
		rewild(reflect.ValueOf(f), []string{"Kind", "State", "Outcome", "Role", "Verdict", "Interval", "Metric", "Figure", "Loop", "Dir"})
		b.Reset()
		if err := short.Markdown(&b, f, f); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u009b\u202e\r\x00") || strings.Count(b.String(), "\n") > 51 {
			t.Errorf("%s, of wild texts: %q", name, b.String())
		}
	}
	if err := short.Markdown(&bytes.Buffer{}); err == nil {
		t.Error("a document of no run: no error")
	}
}

// Every row of a table has as many cells as its head.
func TestMarkdownTables(t *testing.T) {
	for name, f := range examples() {
		var b bytes.Buffer
		if err := Markdown(&b, f, f); err != nil {
			t.Fatal(err)
		}
		cells := 0
		for line := range strings.Lines(b.String()) {
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if !strings.HasPrefix(line, "|") {
				n = 0
			}
			if n > 0 && cells > 0 && n != cells {
				t.Errorf("%s: %d cells, want %d: %s", name, n, cells, line)
			}
			cells = n
		}
	}
}
