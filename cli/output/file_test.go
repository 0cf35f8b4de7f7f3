package output

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that is a mount of its own, as those of containers may be, is written to.
func TestReplaceAMount(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := errors.Join(os.WriteFile(from, []byte("long before"), 0o600), os.WriteFile(to, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("a file cannot be mounted here, which takes root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(to, 0); err != nil {
			t.Error(err)
		}
	}()
	err := Replace(to, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if got, failed := os.ReadFile(from); err != nil || failed != nil || string(got) != "new" {
		t.Errorf("%q, %v, %v", got, err, failed)
	}
	if left, err := os.ReadDir(dir); len(left) != 2 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
}
