package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ReadRun reads what Open does of run.json, and refuses what Open refuses.
func TestReadRun(t *testing.T) {
	for name, text := range map[string]string{
		"good":    `{"schema_version": 2, "name": "x", "trials_planned": 2, "variants": [{"name": "a", "trials": 1}]}`,
		"cut":     `{"schema_version": 2, "name"`,
		"later":   `{"schema_version": 99, "name": "x"}`,
		"no name": `{"schema_version": 2}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		run, err := ReadRun(dir)
		folder, opened := Open(dir)
		if name == "good" {
			if err != nil || opened != nil {
				t.Fatal(err, opened)
			}
			if diff := cmp.Diff(&folder.Run, run); diff != "" {
				t.Error(diff)
			}
			continue
		}
		if err == nil || opened == nil || err.Error() != opened.Error() || run != nil {
			t.Errorf("%s: %v, want %v", name, err, opened)
		}
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := ReadRun(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
