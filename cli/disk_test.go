package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/exit"
	"dyno/selftest/oracle"
)

// smallDisk mounts a file system of a few pages.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// When the disk is full, the run ends with a clear error. What was measured before
// is kept, and printed.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "160k")
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "many.yaml"), `name: many
target: {protocol: http, address: "`+server.Addr().String()+`"}
load: {closed: {connections: 1}, warmup: 0, requests: 50}
design: {rounds: 100}
`)
	out := filepath.Join(disk, "out")
	d := begin(t, dir, "run", "--full", "-o", out, "many.yaml")
	if code := d.wait(t); code != exit.Failed {
		t.Errorf("exit code %d, want %d", code, exit.Failed)
	}
	for _, want := range []string{out, "no space left on device", "hint: make room on the disk"} {
		if !strings.Contains(d.stderr.String(), want) {
			t.Errorf("the error does not say %q:\n%s", want, d.stderr.String())
		}
	}
	f := open(t, out)
	if f.Complete() || f.Run.Complete || len(f.Trials) == 0 {
		t.Fatalf("complete: %v, %d trials", f.Complete(), len(f.Trials))
	}
	complete := 0
	for _, trial := range f.Trials {
		if !trial.Complete {
			continue
		}
		complete++
		if h, err := trial.Latency("response"); err != nil || h.Count() != 50 {
			t.Errorf("trial %d: %d response times, %v", trial.Number, h.Count(), err)
		}
	}
	if complete == 0 {
		t.Error("no trial is complete")
	}
	if !strings.Contains(d.stdout.String(), "INCOMPLETE: ") || !strings.Contains(d.stdout.String(), "throughput, good responses per second") {
		t.Errorf("what was measured is not printed:\n%s", d.stdout.String())
	}
}

// Nothing is measured when there is no room for its results.
func TestDiskFullAtOnce(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "4k")
	write(t, filepath.Join(disk, "full"), strings.Repeat("x", os.Getpagesize()))
	d := begin(t, t.TempDir(), "http", "-n", "1", "-c", "1", "-o", filepath.Join(disk, "out"), "http://127.0.0.1:9/")
	if code := d.wait(t); code != exit.Failed {
		t.Errorf("exit code %d, want %d", code, exit.Failed)
	}
	if text := d.stderr.String(); !strings.Contains(text, "no space left on device") || strings.Contains(text, "no such file") {
		t.Errorf("unclear error:\n%s", text)
	}
}
