package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dyno/services/bot/store"
)

func write(t *testing.T, a *Archive, session string, number int64, reply string) error {
	t.Helper()
	each, err := a.Write(context.Background(), []store.Record{{Turn: &store.Turn{
		ID: fmt.Sprintf("%s-%d", session, number), Session: session, Number: number, Reply: reply,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return each[0]
}

func has(t *testing.T, a *Archive, session string) (turns int, count int64) {
	t.Helper()
	list, count, err := a.Turns(context.Background(), session, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(list), count
}

// bytes counts what an archive holds by another way than it does.
func bytes(a *Archive) (n int64) {
	for _, e := range a.sessions {
		t := e.Value.(*turns)
		n += sessionOverhead + int64(len(t.session))
		for _, turn := range t.list {
			n += int64(turnOverhead + len(turn.ID) + len(turn.Session) + len(turn.User) + len(turn.Reply))
		}
	}
	return n
}

// TestArchiveBytes: whatever is said, an archive holds no more bytes than it may, and what is used stays.
func TestArchiveBytes(t *testing.T) {
	const most = 1 << 20
	a := NewArchive(Bounds{Bytes: most, Turns: 64, Entries: 1})
	reply := strings.Repeat("x", 10_000)
	if err := write(t, a, "used", 1, "first"); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := write(t, a, fmt.Sprint("other ", i), 1, reply); err != nil {
			t.Fatal(err)
		}
		if got := bytes(a); got != a.bytes || got > most {
			t.Fatalf("after %d: %d bytes, counted as %d, of %d", i, got, a.bytes, most)
		}
		if turns, count := has(t, a, "used"); turns != 1 || count != 1 {
			t.Fatalf("after %d: what is read again and again has %d turns of %d", i, turns, count)
		}
	}
	if turns, _ := has(t, a, "other 0"); turns != 0 {
		t.Error("the first that nobody read is still there")
	}
	if turns, _ := has(t, a, "other 499"); turns != 1 {
		t.Error("the last one is not there")
	}
}

// TestArchiveLargeConversation: one that is too large by itself loses its first turns, and still knows how many
// it has: a turn of an earlier number is refused.
func TestArchiveLargeConversation(t *testing.T) {
	const most = 100_000
	a := NewArchive(Bounds{Bytes: most, Turns: 64, Entries: 1})
	for n := range int64(20) {
		if err := write(t, a, "large", n+1, strings.Repeat("x", 30_000)); err != nil {
			t.Fatal(err)
		}
	}
	if turns, count := has(t, a, "large"); turns != 3 || count != 20 {
		t.Errorf("%d turns of %d: want 3 of 20", turns, count)
	}
	if err := write(t, a, "large", 21, strings.Repeat("x", 2*most)); err != nil {
		t.Fatal(err)
	}
	if turns, count := has(t, a, "large"); turns != 0 || count != 21 || a.bytes != bytes(a) || a.bytes > most {
		t.Errorf("%d turns of %d, %d bytes, counted as %d", turns, count, bytes(a), a.bytes)
	}
	if err := write(t, a, "large", 21, "another"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a turn of a number that was there: %v", err)
	}
	if err := write(t, a, "large", 22, "next"); err != nil {
		t.Error(err)
	}
}
