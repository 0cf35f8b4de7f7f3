package help_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"dyno/cli"
	"dyno/cli/help"
)

var update = flag.Bool("update", false, "write the pages")

// The pages of the reference are those that help makes. With -update it writes them.
func TestReference(t *testing.T) {
	for name, want := range help.Reference(cli.Root()) {
		path := filepath.Join("../../docs/reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a document of the repository
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not as help makes it (%v): go test ./cli/help -run TestReference -update", path, err)
		}
	}
}
