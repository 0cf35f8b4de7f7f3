package bot

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/services/bot/store"
)

// TestCountIsNotTakenFromTheArchive: a turn that was not answered does not say how many there are by what it has read. A write
// whose end nobody has seen may still be under way.
func TestCountIsNotTakenFromTheArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	set := func(c *Config) {
		embedded(ArchiveSQLite, path)(c)
		c.Keys = []Key{keyOf("key", Limit{store.Requests, 1, 0})}
	}
	m := newLLM(t, nil)
	t.Run("a turn is kept", func(t *testing.T) {
		if r, status, text := serving(t, m, set).say(secretOf("key"), "h", "hello"); status != http.StatusOK || r.Turn.State != historyKept {
			t.Fatalf("%d %s", status, text)
		}
	})
	b := serving(t, m, set)
	if _, status, text := b.say(secretOf("key"), "h", "hello"); status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", status, text)
	}
	if n, err := b.claims.Coordinator.Begin(t.Context(), &store.Lock{Session: sessionOf("key", "b", "u1", "h"), Holder: "other", Lease: time.Hour}, nil); err != nil || n != store.Unknown {
		t.Errorf("%d turns, %v: want it to be unknown", n, err)
	}
}

// reads is an archive that counts how often conversations are read.
type reads struct {
	store.Archive
	n atomic.Int64
}

func (r *reads) Turns(ctx context.Context, session string, most int) ([]store.Turn, int64, error) {
	r.n.Add(1)
	return r.Archive.Turns(ctx, session, most)
}

// TestArchiveIsReadOnce for a conversation, not for each of its turns; another user's of the same name is another one.
func TestArchiveIsReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	set := func(bytes int64) func(c *Config) {
		return func(c *Config) {
			embedded(ArchiveSQLite, path)(c)
			c.HistoryBytes = bytes
		}
	}
	talk := func(b *bed, user, history string, turns ...int64) (read int64) {
		t.Helper()
		r := &reads{Archive: b.archive}
		b.archive = r
		for _, n := range turns {
			stream := n%2 == 0
			status, text, _ := b.ask("/v1/bot/chat", "", fmt.Sprintf(`{"bot_id":"b","user_id":%q,"history_id":%q,"query":"question %d","stream":%v}`, user, history, n, stream))
			if want := fmt.Sprintf(`"history":{"state":"kept","turn":%d,"turns_told":%d}`, n, n-1); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("turn %d: %d %s\nwant %s", n, status, text, want)
			}
		}
		return r.n.Load()
	}
	m := newLLM(t, nil)
	t.Run("remembered", func(t *testing.T) {
		b := serving(t, m, set(1<<20))
		if n := talk(b, "u", "h", 1, 2, 3, 4); n != 1 {
			t.Errorf("read %d times, want once", n)
		}
		if n := talk(b, "other", "h", 1, 2); n != 1 {
			t.Errorf("another user's: read %d times, want once", n)
		}
	})
	t.Run("started again", func(t *testing.T) {
		if n := talk(serving(t, m, set(1<<20)), "u", "h", 5, 6); n != 1 {
			t.Errorf("read %d times, want once", n)
		}
	})
	t.Run("not remembered", func(t *testing.T) {
		if n := talk(serving(t, m, set(0)), "u", "h", 7, 8); n != 2 {
			t.Errorf("read %d times, want twice", n)
		}
	})
}
