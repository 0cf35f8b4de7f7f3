package archive

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/results/rundir"
)

func TestAnnotations(t *testing.T) {
	dir := t.TempDir()
	if err := Annotate(dir, func(*Annotations) {}); err == nil {
		t.Error("a folder without a run was annotated")
	}
	run := filepath.Join(dir, rundir.RunFile)
	if err := os.WriteFile(run, []byte(`{"schema_version": 3, "name": "relay"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, err := ReadAnnotations(dir); err != nil || len(a.Tags) > 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, change := range []func(*Annotations){
		func(a *Annotations) { a.Tags = append(a.Tags, "v1.2", "release") },
		func(a *Annotations) { a.Tags, a.PinnedAt = append(a.Tags, "发布", "release"), at },
		func(a *Annotations) { a.Note = " after the new kernel\n" },
	} {
		if err := Annotate(dir, change); err != nil {
			t.Fatal(err)
		}
	}
	a, err := ReadAnnotations(dir)
	if err != nil || !slices.Equal(a.Tags, []string{"release", "v1.2", "发布"}) || a.Note != "after the new kernel" || !a.PinnedAt.Equal(at) {
		t.Fatalf("%+v, %v", a, err)
	}
	for want, change := range map[string]func(*Annotations){
		`tag "two words"`:    func(a *Annotations) { a.Tags = []string{"two words"} },
		`tag ""`:             func(a *Annotations) { a.Tags = []string{""} },
		"33 tags":            func(a *Annotations) { a.Tags = strings.Split("abcdefghijklmnopqrstuvwxyz1234567", "") },
		"note of 2001 bytes": func(a *Annotations) { a.Note = strings.Repeat("x", MaxNote+1) },
	} {
		if err := Annotate(dir, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if after, err := ReadAnnotations(dir); err != nil || !slices.Equal(after.Tags, a.Tags) {
		t.Errorf("%+v, %v", after, err)
	}
	if text, err := os.ReadFile(run); err != nil || string(text) != `{"schema_version": 3, "name": "relay"}` {
		t.Errorf("run.json has changed: %s, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(dir, AnnotationsFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAnnotations(dir); err == nil || !strings.Contains(err.Error(), AnnotationsFile) {
		t.Errorf("%v", err)
	}
}
