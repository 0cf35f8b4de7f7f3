// Package recall remembers what models are told of conversations that go on.
package recall

import (
	"slices"
	"time"

	"dyno/services/bot/cache"
	"dyno/services/bot/store"
)

// Recall remembers what models are told of conversations that go on, so that the archive is read once for
// a conversation and not for each of its turns. It is for an archive that no other process writes to. After a turn that may
// or may not have been kept, the conversation is forgotten. A nil Recall remembers nothing.
type Recall struct {
	turns, tokens int // of a conversation, at most
	table         *cache.Sharded[conversation]
}

// age is how long a conversation without turns is remembered.
const age = time.Hour

// New returns a Recall of conversations of at most that many turns and tokens, in that many bytes; 0 is nil.
func New(turns, tokens int, bytes int64) *Recall {
	if bytes == 0 {
		return nil
	}
	return &Recall{turns: turns, tokens: tokens, table: cache.NewSharded[conversation](bytes)}
}

// A conversation has its last turns, which nobody changes and which have no session, and the number of its turns.
type conversation struct {
	session string
	turns   []store.Turn
	count   int64
}

// Size is cache.Value's.
func (c conversation) Size() int64 {
	const each, every = 128, 256 // of a turn, and of a conversation, without texts
	size := int64(every + len(c.session) + cap(c.turns)*each)
	for _, t := range c.turns {
		size += int64(len(t.ID) + len(t.User) + len(t.Reply))
	}
	return size
}

// Of returns the last turns of a conversation, and how many it has; that is store.Unknown if it is not remembered.
func (r *Recall) Of(session string) ([]store.Turn, int64) {
	if r == nil {
		return nil, store.Unknown
	}
	if c, ok := r.table.Get(session, time.Now()); ok {
		return c.turns, c.count
	}
	return nil, store.Unknown
}

// Forget forgets a conversation: it is not known whether it has another turn.
func (r *Recall) Forget(session string) {
	if r != nil {
		r.table.Remove(session)
	}
}

// Keep remembers the last turns of a conversation, and how many it has.
func (r *Recall) Keep(session string, turns []store.Turn, count int64) {
	if r == nil {
		return
	}
	last := slices.Clone(turns[max(Recent(turns, r.tokens), len(turns)-r.turns):]) // earlier turns are not kept in memory
	for i := range last {
		last[i].Session = "" // each has a text of its own for it
	}
	r.table.Keep(session, conversation{session, slices.Clip(last), count}, time.Now().Add(age))
}

// Add remembers a turn that was kept, if those before it are remembered.
func (r *Recall) Add(t *store.Turn) {
	before, count := r.Of(t.Session)
	if r == nil || t.Number > 1 && count != t.Number-1 {
		return
	}
	if t.Number == 1 {
		before = nil
	}
	r.Keep(t.Session, append(before[:len(before):len(before)], *t), t.Number)
}

// Recent returns the index of the first of the latest turns that have at most that many tokens.
func Recent(turns []store.Turn, tokens int) int {
	first := len(turns)
	for first > 0 && tokens >= turns[first-1].Tokens {
		first--
		tokens -= turns[first].Tokens
	}
	return first
}
