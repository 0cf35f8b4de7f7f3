package filelock

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestLocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		files[i] = f
	}
	one, other := files[0], files[1]
	if err := Lock(one); err != nil {
		t.Fatal(err)
	}
	for i, try := range []func(*os.File) error{TryLock, TryShare} {
		if err := try(other); !errors.Is(err, ErrLocked) {
			t.Errorf("%d: a locked file: %v", i, err)
		}
	}
	if _, err := one.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(other); err != nil || string(text) != "text" {
		t.Errorf("a locked file is read: %q, %v", text, err)
	}
	if err := Release(one); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(TryShare(one), TryShare(other)); err != nil {
		t.Error(err)
	}
}
