package bot

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/store"
)

// TestErase: nothing of a user stays at any gateway, in any store: neither turns nor their number, neither events of streams
// nor answers of the cache, nor the name in the ledger. Of others, all stays but the answers.
func TestErase(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		r, key := newRecorder(t), unique("key")
		here := managed(t, newLLM(t, nil), func(c *Config) {
			set(c)
			r.at(c)
			c.Keys, c.CacheAge, c.ResumeAge = []Key{keyOf(key)}, time.Hour, time.Hour
		})
		there := here
		if here.cfg.Redis != "" {
			there = managed(t, newLLM(t, nil), func(c *Config) {
				set(c)
				r.at(c)
				c.Keys, c.CacheAge, c.ResumeAge = []Key{keyOf(key)}, time.Hour, time.Hour
			})
		}
		turn := func(b *bed, user string, stream bool, want string) {
			t.Helper()
			body := fmt.Sprintf(`{"bot_id":"b","user_id":%q,"history_id":"h","query":"a-secret","stream":%t}`, user, stream)
			if status, text, _ := b.ask("/v1/bot/chat", secretOf(key), body); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s, want %s", user, status, text, want)
			}
		}
		history := func(user, want string) {
			t.Helper()
			if status, text := here.get("/v1/bot/history?bot_id=b&history_id=h&user_id="+user, secretOf(key)); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s, want %s", user, status, text, want)
			}
		}
		cached := `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"a-secret"}]}`
		for _, b := range []*bed{here, there} {
			if status, text, _ := b.ask("/v1/chat/completions", b.login(key, "ann"), cached); status != http.StatusOK {
				t.Errorf("%d %s", status, text)
			}
		}
		turn(here, "ann", false, `"turn":1`)
		turn(there, "ann", true, `"turn":2`)
		turn(there, "bob", true, `"turn":1`)
		history("ann", `"count":2`)
		streams := there.events.Stats().Streams

		there.ledger(key, 5) // it has written what waited
		here.manage("DELETE", "/api/v1/users/ann/data", "", http.StatusNoContent)
		history("ann", `"count":0`)
		history("bob", `"count":1`)
		for _, b := range []*bed{here, there} {
			until(t, "the cache is empty", func() bool { return b.cache.Stats().Values == 0 })
		}
		until(t, "the stream of ann is gone, and that of bob is kept", func() bool { return there.events.Stats().Streams == streams-1 })
		for _, e := range here.ledger(key, 5) {
			if e.User == "ann" || strings.Contains(e.Session, "ann") {
				t.Errorf("%+v", e)
			}
		}
		if _, n := here.recall.Of(sessionOf(key, "b", "ann", "h")); n != store.Unknown {
			t.Errorf("%d turns are remembered", n)
		}
		turn(here, "ann", false, `"turn":1,"turns_told":0`)
		turn(here, "bob", false, `"turn":2,"turns_told":1`)
		if audit := fmt.Sprint(here.manage("GET", "/api/v1/audit?limit=1", "", 200)); !strings.Contains(audit, "action:erase") || !strings.Contains(audit, "id:ann") {
			t.Error(audit)
		}
	})
}
