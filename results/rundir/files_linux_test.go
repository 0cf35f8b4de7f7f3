package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/texts"
)

func TestDeviceFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full:", err)
	}
	f := &file{f: full, located: func(err error) error { return fmt.Errorf("at the path: %w", err) }}
	if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "at the path") {
		t.Errorf("%v, want ENOSPC with the path", err)
	}
}

// On a disk that fills up, errors name the file, and what was written before
// can be read.
func TestDiskFull(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(mount, "run")
	run := aRun()
	w := must(Create(dir, run))(t)
	writeTrial(t, w, 1, "pool")
	tw := must(w.Trial(2, "pool"))(t)
	f := must(tw.Create(SeriesFile))(t)
	var err error
	for range 1000 {
		if _, err = f.Write(bytes.Repeat([]byte("1,2\n"), 256)); err != nil {
			break
		}
	}
	located := func(what string, err error, name string) {
		t.Helper()
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v, want ENOSPC with the path", what, err)
		}
	}
	located("series", err, "trials/0002-pool/series.csv")
	located("trial", tw.Finish(aTrial(2, "pool")), "trials/0002-pool/trial.json")
	run.Notes = []Message{texts.Verbatim(strings.Repeat("x", 10_000))}
	located("run", w.Finish(run), "run.json")

	folder := must(Open(dir))(t)
	if folder.Complete() || len(folder.Trials) != 1 || folder.Run.Notes != nil {
		t.Errorf("%d trials, incomplete: %q", len(folder.Trials), folder.Incomplete)
	}
	if h := must(folder.Trials[0].Latency("response"))(t); h.Count() != 30 {
		t.Errorf("%d values in the trial that was finished before", h.Count())
	}
}

func TestOpenStaysInside(t *testing.T) {
	outside := t.TempDir()
	w := must(Create(filepath.Join(outside, "run"), aRun()))(t)
	writeTrial(t, w, 1, "pool")
	check(t, w.Close())
	secret := filepath.Join(outside, "run", RunFile)

	dir := t.TempDir()
	check(t, os.Symlink(secret, filepath.Join(dir, RunFile)))
	if _, err := Open(dir); err == nil {
		t.Error("run.json was read through a link that leads out")
	}

	dir = t.TempDir()
	w = must(Create(dir, aRun()))(t)
	writeTrial(t, w, 1, "pool")
	check(t, w.Close())
	check(t, os.Symlink(filepath.Join(outside, "run", "trials", "0001-pool"), filepath.Join(dir, "trials", "0002-pool")))
	check(t, os.Symlink(secret, filepath.Join(dir, "trials", "0001-pool", "link")))
	check(t, unix.Mkfifo(filepath.Join(dir, "trials", "0001-pool", "pipe"), 0o644))
	f := must(Open(dir))(t)
	if len(f.Trials) != 1 {
		t.Errorf("%d trials, one of them through a link that leads out", len(f.Trials))
	}
	for _, name := range []string{"link", "pipe", "../0001-pool/trial.json", "..", ".", "", "/etc/passwd", "none"} {
		if r, err := f.Trials[0].File(name); err == nil {
			t.Errorf("the file %q was opened: %v", name, r.Close())
		}
	}
	r := must(f.Trials[0].File(SeriesFile))(t)
	check(t, r.Close())
}
