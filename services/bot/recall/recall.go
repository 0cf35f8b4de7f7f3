// Package recall caches the latest turns of active conversations.
package recall

import (
	"slices"
	"time"

	"dyno/services/bot/cache"
	"dyno/services/bot/store"
)

// Recall caches the latest turns of active conversations. So the archive is read once for a conversation, and not for
// each turn. No other process may write to the archive. After a turn of unknown outcome, the conversation is
// forgotten. A nil Recall remembers nothing.
type Recall struct {
	turns, tokens int // bounds of one conversation
	table         *cache.Sharded[conversation]
}

// age is how long a conversation without turns is remembered.
const age = time.Hour

// New returns a Recall in a number of bytes; 0 returns nil. It keeps at most the given turns and tokens of a
// conversation.
func New(turns, tokens int, bytes int64) *Recall {
	if bytes == 0 {
		return nil
	}
	return &Recall{turns: turns, tokens: tokens, table: cache.NewSharded[conversation](bytes)}
}

// A conversation has its last turns, immutable and without their session, and the number of all its turns.
type conversation struct {
	session string
	turns   []store.Turn
	count   int64
}

// Size implements cache.Value.
func (c conversation) Size() int64 {
	const each, every = 128, 256 // overhead of a turn, and of a conversation, without texts
	size := int64(every + len(c.session) + cap(c.turns)*each)
	for _, t := range c.turns {
		size += int64(len(t.ID) + len(t.User) + len(t.Reply))
	}
	return size
}

// Of returns the last turns of a conversation, and its number of turns; store.Unknown if it is not remembered.
func (r *Recall) Of(session string) ([]store.Turn, int64) {
	if r == nil {
		return nil, store.Unknown
	}
	if c, ok := r.table.Get(session, time.Now()); ok {
		return c.turns, c.count
	}
	return nil, store.Unknown
}

// Forget forgets a conversation, which may have another turn.
func (r *Recall) Forget(session string) {
	if r != nil {
		r.table.Remove(session)
	}
}

// Erase forgets the conversations of a user.
func (r *Recall) Erase(user string) {
	if r != nil {
		r.table.RemoveFunc(func(session string) bool { return store.IsOf(session, user) })
	}
}

// Keep remembers the last turns of a conversation, and its number of turns.
func (r *Recall) Keep(session string, turns []store.Turn, count int64) {
	if r == nil {
		return
	}
	last := slices.Clone(turns[max(Recent(turns, r.tokens), len(turns)-r.turns):]) // earlier turns are not kept in memory
	for i := range last {
		last[i].Session = "" // each turn would keep its own copy of the session
	}
	r.table.Keep(session, conversation{session, slices.Clip(last), count}, time.Now().Add(age))
}

// Add remembers a kept turn, if the earlier ones are remembered.
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

// Recent returns the index of the first of the latest turns that fit into a number of tokens.
func Recent(turns []store.Turn, tokens int) int {
	first := len(turns)
	for first > 0 && tokens >= turns[first-1].Tokens {
		first--
		tokens -= turns[first].Tokens
	}
	return first
}
