package bot

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/services/bot/store"
)

// turnNumbered is a turn of the session "s" that takes so many tokens.
func turnNumbered(n int64, tokens int) *store.Turn {
	return &store.Turn{ID: fmt.Sprint("id", n), Session: "s", Number: n, User: fmt.Sprint("question ", n), Reply: "fine", Tokens: tokens}
}

// recalled names the turns that are remembered of a conversation of so many.
func recalled(r *recall, session string, count int64) string {
	turns, known := r.of(session)
	if known != count {
		return "unknown"
	}
	var list []string
	for _, t := range turns {
		list = append(list, fmt.Sprint(t.Number))
	}
	return strings.Join(list, " ")
}

// TestRecall: what is remembered of a conversation is what a model would be told of it, and only where it
// has as many turns.
func TestRecall(t *testing.T) {
	r := newRecall(3, 100, 1<<20)
	if got := recalled(r, "s", 0); got != "unknown" {
		t.Errorf("nothing was said: %q", got)
	}
	for n, want := range []string{1: "1", "1 2", "1 2 3", "2 3 4"} { // three turns at most
		if n == 0 {
			continue
		}
		r.add(turnNumbered(int64(n), 10))
		if got := recalled(r, "s", int64(n)); got != want {
			t.Errorf("after turn %d: %q, want %q", n, got, want)
		}
	}
	for _, count := range []int64{3, 5, 0} {
		if got := recalled(r, "s", count); got != "unknown" {
			t.Errorf("of %d turns: %q", count, got)
		}
	}
	r.add(turnNumbered(5, 85)) // 100 tokens at most
	if got := recalled(r, "s", 5); got != "4 5" {
		t.Errorf("after a long turn: %q", got)
	}
	// Another gateway has turn 6: that there is a 7 does not say what 6 was.
	r.add(turnNumbered(7, 10))
	if got := recalled(r, "s", 7); got != "unknown" {
		t.Errorf("after a turn of somebody else's: %q", got)
	}
	r.keep("s", []store.Turn{*turnNumbered(6, 10), *turnNumbered(7, 10)}, 7)
	if got := recalled(r, "s", 7); got != "6 7" {
		t.Errorf("after the archive was read: %q", got)
	}
	// A conversation that has outgrown all bounds has no past.
	r.add(turnNumbered(8, 101))
	if got := recalled(r, "s", 8); got != "" {
		t.Errorf("after a turn that is too long: %q", got)
	}
	r.forget("s")
	if got := recalled(r, "s", 8); got != "unknown" {
		t.Errorf("after it was forgotten: %q", got)
	}
	again := newRecall(3, 100, 1<<20)
	for _, n := range []int64{1, 2, 1} { // the archive has lost it, and it begins again
		again.add(turnNumbered(n, 10))
	}
	if got := recalled(again, "s", 1); got != "1" {
		t.Errorf("after it has begun again: %q", got)
	}
	none := newRecall(3, 100, 0)
	none.keep("s", nil, 0)
	none.add(turnNumbered(1, 10))
	none.forget("s")
	if got := recalled(none, "s", 1); got != "unknown" {
		t.Errorf("without memory: %q", got)
	}
}

// TestRecallIsBounded: conversations that nobody goes on with make room, and what others still read is
// not touched.
func TestRecallIsBounded(t *testing.T) {
	const bytes = 1 << 20
	r := newRecall(32, 1<<20, bytes)
	reply := strings.Repeat("x", 1000)
	held, _ := r.of("s")
	for i := range 5000 {
		r.add(&store.Turn{Session: fmt.Sprint(i), Number: 1, Reply: reply})
		if i == 0 {
			held, _ = r.of("0")
		}
	}
	known := 0
	for i := range 5000 {
		if _, n := r.of(fmt.Sprint(i)); n == 1 {
			known++
		}
	}
	if known < bytes/4000 || known > bytes/1000 {
		t.Errorf("%d conversations of 1 KB in %d bytes", known, bytes)
	}
	if _, n := r.of("0"); n != store.Unknown || len(held) != 1 || held[0].Reply != reply {
		t.Errorf("the first one: %d turns, %+v", n, held)
	}
}

// TestRecallForgets what it does not tell: texts that are too long, and turns before the last.
func TestRecallForgets(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: measures memory")
	}
	const bytes = 1 << 20
	r := newRecall(2, 100, bytes)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 1000 {
		session := fmt.Sprint(i)
		r.add(&store.Turn{Session: session, Number: 1, User: strings.Repeat("x", 16<<10), Tokens: 4096})
		long := strings.Repeat("y", 16<<10)
		r.keep(session, []store.Turn{{User: long, Tokens: 10}, {Number: 2, Tokens: 10}, {Number: 3, Tokens: 10}}, 3)
	}
	if took := heap() - before; took > 4*bytes { // 32 MB if either is held on to
		t.Errorf("1,000 conversations of which nothing is told hold %d KiB", took>>10)
	}
	runtime.KeepAlive(r)
}

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
	if n, err := b.coordinator.Begin(t.Context(), &store.Lock{Session: sessionOf("key", "b", "u1", "h"), Holder: "other", Lease: time.Hour}, nil); err != nil || n != store.Unknown {
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
