package recall

import (
	"fmt"
	"strings"
	"testing"

	"dyno/services/bot/store"
)

// turnNumbered is a turn of the session "s" that takes that many tokens.
func turnNumbered(n int64, tokens int) *store.Turn {
	return &store.Turn{ID: fmt.Sprint("id", n), Session: "s", Number: n, User: fmt.Sprint("question ", n), Reply: "fine", Tokens: tokens}
}

// recalled names the turns that are remembered of a conversation of that many turns.
func recalled(r *Recall, session string, count int64) string {
	turns, known := r.Of(session)
	if known != count {
		return "unknown"
	}
	var list []string
	for _, t := range turns {
		list = append(list, fmt.Sprint(t.Number))
	}
	return strings.Join(list, " ")
}

// TestRecall: a remembered conversation has exactly the turns that a model would get, and only if their number is
// right.
func TestRecall(t *testing.T) {
	r := New(3, 100, 1<<20)
	if got := recalled(r, "s", 0); got != "unknown" {
		t.Errorf("nothing was said: %q", got)
	}
	for n, want := range []string{1: "1", "1 2", "1 2 3", "2 3 4"} { // three turns at most
		if n == 0 {
			continue
		}
		r.Add(turnNumbered(int64(n), 10))
		if got := recalled(r, "s", int64(n)); got != want {
			t.Errorf("after turn %d: %q, want %q", n, got, want)
		}
	}
	for _, count := range []int64{3, 5, 0} {
		if got := recalled(r, "s", count); got != "unknown" {
			t.Errorf("of %d turns: %q", count, got)
		}
	}
	r.Add(turnNumbered(5, 85)) // 100 tokens at most
	if got := recalled(r, "s", 5); got != "4 5" {
		t.Errorf("after a long turn: %q", got)
	}
	// Another gateway has turn 6: that there is a 7 does not say what 6 was.
	r.Add(turnNumbered(7, 10))
	if got := recalled(r, "s", 7); got != "unknown" {
		t.Errorf("after a turn of somebody else's: %q", got)
	}
	r.Keep("s", []store.Turn{*turnNumbered(6, 10), *turnNumbered(7, 10)}, 7)
	if got := recalled(r, "s", 7); got != "6 7" {
		t.Errorf("after the archive was read: %q", got)
	}
	// A conversation that has outgrown all bounds has no past.
	r.Add(turnNumbered(8, 101))
	if got := recalled(r, "s", 8); got != "" {
		t.Errorf("after a turn that is too long: %q", got)
	}
	r.Forget("s")
	if got := recalled(r, "s", 8); got != "unknown" {
		t.Errorf("after it was forgotten: %q", got)
	}
	again := New(3, 100, 1<<20)
	for _, n := range []int64{1, 2, 1} { // the archive has lost it, and it begins again
		again.Add(turnNumbered(n, 10))
	}
	if got := recalled(again, "s", 1); got != "1" {
		t.Errorf("after it has begun again: %q", got)
	}
	none := New(3, 100, 0)
	none.Keep("s", nil, 0)
	none.Add(turnNumbered(1, 10))
	none.Forget("s")
	if got := recalled(none, "s", 1); got != "unknown" {
		t.Errorf("without memory: %q", got)
	}
}

// TestRecallIsBounded: conversations that nobody goes on with make room, and what others still read is
// not touched.
func TestRecallIsBounded(t *testing.T) {
	const bytes = 1 << 20
	r := New(32, 1<<20, bytes)
	reply := strings.Repeat("x", 1000)
	held, _ := r.Of("s")
	for i := range 5000 {
		r.Add(&store.Turn{Session: fmt.Sprint(i), Number: 1, Reply: reply})
		if i == 0 {
			held, _ = r.Of("0")
		}
	}
	known := 0
	for i := range 5000 {
		if _, n := r.Of(fmt.Sprint(i)); n == 1 {
			known++
		}
	}
	if known < bytes/4000 || known > bytes/1000 {
		t.Errorf("%d conversations of 1 KB in %d bytes", known, bytes)
	}
	if _, n := r.Of("0"); n != store.Unknown || len(held) != 1 || held[0].Reply != reply {
		t.Errorf("the first one: %d turns, %+v", n, held)
	}
}
