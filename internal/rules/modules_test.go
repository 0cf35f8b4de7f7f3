package rules

import (
	"path/filepath"
	"testing"
)

// TestModules: the main module needs nothing of the other one. Each has the same versions of others'
// modules alone and in the workspace. So tests and releases use the same versions.
func TestModules(t *testing.T) {
	top := root(t)
	t.Setenv("GOWORK", filepath.Join(top, "go.work"))
	together := listModules(t, top, "-test", "work")
	t.Setenv("GOWORK", "off")
	for _, folder := range []string{top, filepath.Join(top, "experiments")} {
		for dir, name := range listModules(t, folder, "-test", "./...") {
			if together[dir] != name && dir != top {
				t.Errorf("%s/go.mod has %s, and the workspace another version: run go mod tidy in both modules, with GOWORK=off", folder, name)
			}
		}
	}
}
