package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestDiskFull: while the disk has too little room, nothing is written, and everything is read; an
// alarm says so. There must be some more for writes to be taken again.
func TestDiskFull(t *testing.T) {
	var free atomic.Uint64
	free.Store(100)
	looked := make(chan struct{})
	s := opened(t, func(c *Config) {
		c.diskOf = func(string) (disk, error) {
			d := disk{free.Load(), 100}
			select {
			case looked <- struct{}{}:
			default:
			}
			return d, nil
		}
	})
	// The first look may have been in progress. The second one sees the new value, and is over when the third begins.
	set := func(bytes uint64) {
		t.Helper()
		free.Store(bytes)
		for range 3 {
			<-looked
		}
	}
	apply := func(key string) error {
		_, err := s.Apply(t.Context(), Request{Then: []Op{{Key: key, Value: []byte("v")}}})
		return err
	}
	alarm := func() bool {
		t.Helper()
		st, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		full := slices.Contains(st.Alarms, alarmDisk)
		if full != strings.Contains(st.Warning, "disk") {
			t.Errorf("alarms %v, warning %q", st.Alarms, st.Warning)
		}
		return full
	}
	if err := apply("s/a"); err != nil || alarm() {
		t.Fatalf("as much is free as must be: %v", err)
	}
	for _, c := range []struct {
		free uint64
		full bool
	}{{99, true}, {100, true}, {124, true}, {125, false}, {100, false}, {0, true}, {1000, false}} {
		set(c.free)
		if err := apply("s/b"); errors.Is(err, ErrDiskFull) != c.full || !c.full && err != nil {
			t.Errorf("%d are free: %v", c.free, err)
		}
		if alarm() != c.full {
			t.Errorf("%d are free: alarm %v", c.free, !c.full)
		}
		if err := s.Reclaim(t.Context()); errors.Is(err, ErrDiskFull) != c.full {
			t.Errorf("%d are free: reclaim: %v", c.free, err)
		}
		if got := get(t, s, "s/a"); string(got.Value) != "v" {
			t.Errorf("%d are free: read %+v", c.free, got)
		}
	}
}

// TestDiskOf: a small disk needs less room.
func TestDiskOf(t *testing.T) {
	folder := t.TempDir()
	d, err := diskOf(folder)
	if err != nil || d.free == 0 || d.least == 0 || d.least > minFree {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := diskOf(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder that is not there has a disk")
	}
}

// TestReserved: the database's file has space reserved on the disk beyond its end. So etcd can write to a full disk,
// and the file is no longer.
func TestReserved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	r := reserved{file: file}
	r.extend() // there is none yet
	for _, size := range []int64{4096, 1 << 20} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil { // all of it is a hole
			t.Fatal(err)
		}
		r.extend()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := info.Sys().(*syscall.Stat_t).Blocks
		if r.size == 0 && blocks == 0 {
			t.Skip("this file system reserves nothing")
		}
		if info.Size() != size || blocks*512 < size+reserve {
			t.Errorf("%d bytes: the file has %d, and %d on the disk", size, info.Size(), blocks*512)
		}
	}
}
