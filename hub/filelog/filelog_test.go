package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/hub/journal"
	"dyno/internal/leak"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, path string, c journal.Config) *Log {
	t.Helper()
	l, err := Open(path, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func add(t *testing.T, l *Log, u journal.Update) string {
	t.Helper()
	u.Topics = append(u.Topics, "t")
	id, err := l.Append(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// held returns the IDs and data of the journal.
func held(j *journal.Journal) (out []string) {
	entries, _ := j.Since(0, nil, 1000)
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%d %s %s %s %v %v %v", e.Seq, e.ID, e.Type, e.Data, e.Topics, e.Private, e.Retry))
	}
	return out
}

// TestReopen: a log that is opened again has the same contents, and continues.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	c := journal.Defaults()
	c.Events = 4
	l := open(t, path, c)
	epoch := l.Journal().Epoch()
	for i := range 6 {
		add(t, l, journal.Update{Data: []byte(fmt.Sprint("a\n", i))})
	}
	add(t, l, journal.Update{ID: "mine", Type: "x", Private: true, Retry: time.Second, Topics: []string{"u"}})
	want := held(l.Journal())
	if len(want) != 4 {
		t.Fatalf("%q", want)
	}
	if _, err := Open(path, c); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("opened twice: %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(t.Context(), journal.Update{Topics: []string{"t"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	l = open(t, path, c)
	if got := held(l.Journal()); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	if seq, found := l.Journal().Seek("mine"); !found || seq != 7 {
		t.Errorf("a given ID is at %d, %v", seq, found)
	}
	if id := add(t, l, journal.Update{}); id != "dyno:"+epoch+"-8" {
		t.Errorf("goes on with %s in epoch %s", id, epoch)
	}
	l.Close()

	c.Events = 2 // smaller than what is in the file
	l = open(t, path, c)
	if got := held(l.Journal()); len(got) != 2 || !strings.HasPrefix(got[1], "8 ") {
		t.Errorf("%q", got)
	}
	add(t, l, journal.Update{})
	l.Close()
	if n := records(t, path); n > 3 {
		t.Errorf("the file still has %d entries", n)
	}
}

// records counts the entries in a file.
func records(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketEntries).ForEach(func(_, _ []byte) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHeadSurvivesExpiry: numbers also continue when every entry has become too old.
func TestHeadSurvivesExpiry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	c := journal.Defaults()
	c.Age = time.Nanosecond
	l := open(t, path, c)
	for range 3 {
		add(t, l, journal.Update{})
	}
	l.Close()
	l = open(t, path, c)
	l.Journal().Expire(time.Now())
	add(t, l, journal.Update{}) // removes the old ones from the file
	l.Journal().Expire(time.Now().Add(time.Hour))
	l.Close()
	l = open(t, path, c)
	if head := l.Journal().Head(); head != 4 {
		t.Errorf("the head is %d, want 4", head)
	}
}

// TestConcurrent: updates from many goroutines are in the file once, in the journal's
// order.
func TestConcurrent(t *testing.T) {
	const writers, each = 8, 50
	path := filepath.Join(t.TempDir(), "history")
	l := open(t, path, journal.Defaults())
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			last := uint64(0)
			for i := range each {
				id, err := l.Append(context.Background(), journal.Update{Topics: []string{"t"}, Data: []byte(fmt.Sprint(w, " ", i))})
				if err != nil {
					t.Error(err)
					return
				}
				seq, found := l.Journal().Seek(id)
				if !found || seq <= last {
					t.Errorf("%s is at %d after %d", id, seq, last)
				}
				last = seq
			}
		})
	}
	work.Wait()
	want := held(l.Journal())
	l.Close()
	if got := held(open(t, path, journal.Defaults()).Journal()); len(got) != writers*each || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%d entries, want %d", len(got), writers*each)
	}
}

// TestRefused: a fault of an update is reported, and the file is not changed.
func TestRefused(t *testing.T) {
	c := journal.Defaults()
	c.Bytes = 1000
	l := open(t, filepath.Join(t.TempDir(), "history"), c)
	for _, u := range []journal.Update{{}, {Topics: []string{"t"}, Data: make([]byte, 1000)}} {
		if _, err := l.Append(t.Context(), u); !errors.Is(err, journal.ErrUpdate) {
			t.Errorf("got %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if id, err := l.Append(ctx, journal.Update{Topics: []string{"t"}}); err == nil && id == "" {
		t.Error("neither kept nor refused")
	}
	if id := add(t, l, journal.Update{}); !strings.HasPrefix(id, "dyno:") {
		t.Errorf("ID %q", id)
	}
}

// TestPrivate: only the owner can read the history, whatever the umask is and whatever mode an existing file has.
func TestPrivate(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		if err := open(t, path, journal.Defaults()).Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamaged: a file of another kind, or with a gap, is not used.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a history\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(text, journal.Defaults()); err == nil {
		t.Error("opened a text")
	}
	if _, err := Open(filepath.Join(dir, "no", "such"), journal.Defaults()); err == nil {
		t.Error("opened a file in a folder that is not there")
	}
	for name, c := range map[string]struct {
		change func(tx *bbolt.Tx) error
		want   string
	}{
		"hole":   {func(tx *bbolt.Tx) error { return tx.Bucket(bucketEntries).Delete(key(2)) }, "after entry 1"},
		"record": {func(tx *bbolt.Tx) error { return tx.Bucket(bucketEntries).Put(key(2), []byte("{")) }, "entry 2: decode update"},
		"format": {func(tx *bbolt.Tx) error { return tx.Bucket(bucketState).Put(keyFormat, []byte("other")) }, `has format "other"`},
		"epoch":  {func(tx *bbolt.Tx) error { return tx.Bucket(bucketState).Put(keyEpoch, []byte("a-b")) }, `epoch: "a-b"`},
	} {
		path := filepath.Join(dir, name)
		l := open(t, path, journal.Defaults())
		for range 3 {
			add(t, l, journal.Update{})
		}
		l.Close()
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(c.change), db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, journal.Defaults()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTornPages: a file with missing pages, as after a power cut, is refused or read, and never ends the process.
func TestTornPages(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	l := open(t, whole, journal.Defaults())
	for range 200 {
		add(t, l, journal.Update{Data: []byte(strings.Repeat("x", 300))})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	damaged := 0
	for i := range len(content) / page {
		for name, torn := range map[string][]byte{
			"zero":      slices.Concat(content[:i*page], make([]byte, page), content[(i+1)*page:]),
			"other":     slices.Concat(content[:i*page], []byte(strings.Repeat("x", page)), content[(i+1)*page:]),
			"swapped":   slices.Concat(content[:i*page], content[:page], content[(i+1)*page:]),
			"truncated": content[:i*page],
		} {
			path := filepath.Join(dir, fmt.Sprint(name, i))
			if err := os.WriteFile(path, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := Open(path, journal.Defaults())
			if errors.Is(err, ErrDamaged) {
				damaged++
				if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, torn) {
					t.Errorf("%s page %d: the damaged file was changed, %v", name, i, err)
				}
			}
			if err != nil {
				continue
			}
			entries, _ := l.Journal().Since(0, nil, 1000)
			for _, e := range entries {
				if string(e.Data) != strings.Repeat("x", 300) {
					t.Errorf("%s page %d: entry %d has %q", name, i, e.Seq, e.Data)
				}
			}
			for range 20 { // which takes free pages
				if _, err := l.Append(t.Context(), journal.Update{Topics: []string{"t"}, Data: []byte(strings.Repeat("x", 300))}); err != nil && !errors.Is(err, ErrDamaged) {
					t.Errorf("%s page %d: %v", name, i, err)
				}
			}
			if err := l.Close(); err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s page %d: %v", name, i, err)
			}
		}
	}
	if damaged == 0 {
		t.Error("no damage was found")
	}
}

// TestPagesTornUnderway: a library that panics while it takes back what it has not written keeps its
// locks. Neither the next update nor Close waits for them, and another process may have the file.
func TestPagesTornUnderway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	l := open(t, path, journal.Defaults())
	add(t, l, journal.Update{Data: []byte("before")})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	metas := 2 * os.Getpagesize() // what the library has read, and does not read again
	torn := slices.Concat(content[:metas], bytes.Repeat([]byte("x"), len(content)-metas))
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(t.Context(), journal.Update{Topics: []string{"t"}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("appending to torn pages: %v, want %v", err, ErrDamaged)
		}
	}
	if entries, _ := l.Journal().Since(0, nil, 10); len(entries) != 1 || string(entries[0].Data) != "before" {
		t.Errorf("the journal has %d entries, want what was acknowledged", len(entries))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if _, err := Open(path, journal.Defaults()); !errors.Is(err, ErrDamaged) {
			t.Errorf("opening it again: %v, want %v", err, ErrDamaged)
		}
	}
}

// TestReservedIDs: a file in which publishers chose IDs that they may not choose any more can be read. Their updates get
// IDs by their places, so that a subscriber with such an ID loses nothing.
func TestReservedIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	l := open(t, path, journal.Defaults())
	epoch := l.Journal().Epoch()
	first := add(t, l, journal.Update{})
	l.Close()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for i, id := range []string{first, journal.Earliest, "dyno:" + epoch + "-99"} {
			record, err := journal.EncodeRecord(time.Now(), journal.Update{ID: id, Topics: []string{"t"}})
			if err != nil {
				return err
			}
			if err := tx.Bucket(bucketEntries).Put(key(uint64(i)+2), record); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, journal.Defaults())
	entries, _ := l.Journal().Since(0, nil, 10)
	for i, e := range entries {
		if want := fmt.Sprint("dyno:", epoch, "-", i+1); e.ID != want {
			t.Errorf("entry %d has ID %s, want %s", i+1, e.ID, want)
		}
	}
	if seq, found := l.Journal().Seek(first); len(entries) != 4 || !found || seq != 1 {
		t.Errorf("%d entries, the first at %d, %v", len(entries), seq, found)
	}
}
