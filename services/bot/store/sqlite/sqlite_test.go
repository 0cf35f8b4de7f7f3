package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
	"dyno/services/bot/store"
)

func TestMain(m *testing.M) { leak.Main(m) }

// records are turns of as many conversations, with their entries in the ledger.
func records(from, n int) (list []store.Record) {
	for i := range n {
		id, now := store.NewID(), time.Now()
		list = append(list, store.Record{
			Turn:  &store.Turn{ID: id, Session: fmt.Sprintf("key/b/u/%x", (from+i)*7919), Number: 1, At: now, User: "how long?", Reply: "eight minutes", Tokens: 12},
			Entry: &store.Entry{ID: id, At: now, Key: "key", User: "u", Endpoint: "bot", Model: "m", Upstream: "up", Outcome: "ok", Prompt: 9, Completion: 4},
		})
	}
	return list
}

// TestLogIsBounded: while writes go on without a pause, what is copied to the database keeps up, and
// the log starts again. At the end there is none.
func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	a, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	const (
		writes   = 2500
		each     = 4
		pageSize = 4096
	)
	longest := int64(0)
	for i := range writes {
		if _, err := a.Write(t.Context(), records(i*each, each)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, info.Size())
	}
	// Without checkpoints it would have three pages or more for each record.
	if most := int64(6 * mostLogged * pageSize); longest > most {
		t.Errorf("the log has had %d bytes, want %d at most", longest, most)
	}
	if cost, err := a.Sum(t.Context(), store.Part{Key: "key"}, time.Time{}); err != nil || cost.Requests != writes*each {
		t.Errorf("%+v, %v", cost, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the log is there: %v", err)
	}
}

// TestExclusive: a file that belongs to one gateway is not opened by a second, until the first has closed it.
func TestExclusive(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "db"), Exclusive: true}
	first, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another gateway uses it") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestPrivate: only the owner can read conversations and the ledger, in new files and in existing ones with another
// mode.
func TestPrivate(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	folder := t.TempDir()
	parts := []string{"", "-wal", "-shm"}
	// opened opens a file by a name, and checks the files that there are then.
	opened := func(file, name string) *Archive {
		t.Helper()
		a, err := Open(t.Context(), Config{Path: filepath.Join(folder, name)})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if info, err := os.Stat(filepath.Join(folder, file+part)); err != nil || info.Mode().Perm() != private {
				t.Errorf("%s: %v, %v", file+part, info, err)
			}
		}
		return a
	}
	a := opened("new", "new")
	if _, err := a.Write(t.Context(), records(0, 1)); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts { // as a gateway that was killed has left them
		content, err := os.ReadFile(filepath.Join(folder, "new"+part))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "old"+part), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("old", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	a = opened("old", "link")
	if cost, err := a.Sum(t.Context(), store.Part{Key: "key"}, time.Time{}); err != nil || cost.Requests != 1 {
		t.Errorf("%+v, %v", cost, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenedAtOnce: gateways that share a file may start at once, although each would migrate a new one. SQLite
// refuses all but one of those that change its journal at once, without waiting.
func TestOpenedAtOnce(t *testing.T) {
	for i := range 10 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		var opened sync.WaitGroup
		for range 8 {
			opened.Go(func() {
				a, err := Open(t.Context(), Config{Path: path})
				if err != nil {
					t.Error(err)
					return
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		opened.Wait()
	}
}

// TestSumReadsItsIndex: a long ledger is summed up without reading entries, even in a file from this program's first
// version.
func TestSumReadsItsIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	old, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = old.ExecContext(t.Context(), migrations[0]+`; PRAGMA user_version = 1;
		INSERT INTO entries VALUES ('x', 1, 'key', '', '', '', '', '', '', 0, 0, 9, 4, 0, 5, 1, 0, 0, 0)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if c, err := a.Sum(t.Context(), store.Part{Key: "key"}, time.Time{}); err != nil || c != (store.Cost{Requests: 1, Tokens: 13, Money: 5}) {
		t.Errorf("%+v, %v", c, err)
	}
	var id, parent, unused int
	var plan string
	query, args := a.SumQuery(store.Part{Key: "key"}, time.Time{})
	if err := a.readers.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...).Scan(&id, &parent, &unused, &plan); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan, "USING COVERING INDEX entries_by_use (key=? AND at>?)") {
		t.Errorf("%s", plan)
	}
}
