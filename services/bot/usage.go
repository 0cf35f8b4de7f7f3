package bot

import (
	"context"
	"net/http"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/internal/wait"
)

// keyUsage is a key's limits and usage.
type keyUsage struct {
	Key    string      `json:"key"`
	Models []string    `json:"models,omitempty"` // none is all
	Limits []limitUsed `json:"limits"`
	Today  todayUsed   `json:"today"` // since midnight (UTC), by the ledger
}

type limitUsed struct {
	Resource string  `json:"resource"`
	Team     string  `json:"team,omitempty"`  // whose limit it is, if not the key's
	User     string  `json:"user,omitempty"`  // also of that
	Model    string  `json:"model,omitempty"` // none is all
	Amount   int64   `json:"amount"`
	Window   float64 `json:"window_seconds"` // 0 never ends
	Used     int64   `json:"used"`           // with reservations
}

type todayUsed struct {
	Requests int64 `json:"requests"`
	Tokens   int64 `json:"tokens"`
	Money    int64 `json:"money"` // billionths
}

// usageOf reads a key's usage.
func (g *Gateway) usageOf(ctx context.Context, key *apiKey, now time.Time) (keyUsage, *reply.Refusal) {
	u := keyUsage{Key: key.id, Limits: []limitUsed{}}
	if len(key.models) > 0 {
		u.Models = key.models[0]
	}
	within, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	used, err := g.claims.Coordinator.Used(within, key.id, key.limits, now)
	if err != nil {
		return u, &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "limits_unavailable", Text: "the limits cannot be read now", After: time.Second}
	}
	for i, l := range key.limits {
		u.Limits = append(u.Limits, limitUsed{string(l.Resource), l.Part.Team, l.Part.Owner, l.Part.Model, l.Amount, l.Window.Seconds(), used[i]})
	}
	sum, err := g.sum(ctx, key, now.Truncate(24*time.Hour))
	if err != nil {
		return u, &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "ledger_unavailable", Text: "the ledger cannot be read now", After: time.Second}
	}
	u.Today = todayUsed{sum.Requests, sum.Tokens, sum.Money}
	return u, nil
}

// A summed is the ledger's sum of a key, and how long it is valid.
type summed struct {
	since, until time.Time
	cost         store.Cost
	err          error
}

// sumRest is the pause before a key's next sum, in multiples of a sum's time. So a key with a long ledger gets a
// small part of the one place, however often it asks.
const sumRest = 10

// sum sums up the ledger, for one key at a time: the archive's few connections are for writes. Simultaneous requests
// for a key, and later ones for a while, share the result.
func (g *Gateway) sum(ctx context.Context, key *apiKey, since time.Time) (store.Cost, error) {
	known := func() *summed {
		if s := key.summed.Load(); s != nil && s.since.Equal(since) && time.Now().Before(s.until) {
			return s
		}
		return nil
	}
	if s := known(); s != nil {
		return s.cost, s.err
	}
	if _, err := g.sums.Enter(ctx, key.sums); err != nil {
		return store.Cost{}, err
	}
	defer g.sums.Leave(key.sums)
	if s := known(); s != nil { // checked again, after the wait
		return s.cost, s.err
	}
	began := time.Now()
	// A client that asks and leaves repeatedly starts the sum only once.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.StoreTimeout)
	defer cancel()
	cost, err := g.archive.Sum(ctx, store.Part{Key: key.id}, since)
	if err != nil && ctx.Err() == nil {
		return store.Cost{}, err // the archive has failed at once
	}
	now := time.Now()
	key.summed.Store(&summed{since, now.Add(sumRest * now.Sub(began)), cost, err})
	return cost, err
}

// usage serves a client the usage of its own key.
func (g *Gateway) usage(w http.ResponseWriter, r *http.Request, who identity) *reply.Refusal {
	u, refused := g.usageOf(r.Context(), who.key, time.Now())
	if refused != nil {
		return refused
	}
	g.writeJSON(w, http.StatusOK, u)
	return nil
}

// pastTurn is an earlier turn of a conversation.
type pastTurn struct {
	ID    string    `json:"id"`
	Turn  int64     `json:"turn"`
	At    time.Time `json:"at"`
	Query string    `json:"query"`
	Reply string    `json:"reply"`
}

// history serves a user the last turns of one of their conversations: as many as a model would get.
func (g *Gateway) history(w http.ResponseWriter, r *http.Request, who identity) *reply.Refusal {
	q, refused := queryNames(r, "bot_id", "history_id", "user_id")
	if refused != nil {
		return refused
	}
	bot, history := q.Get("bot_id"), q.Get("history_id")
	user, refused := who.asUser(q.Get("user_id"))
	if refused != nil {
		return refused
	}
	for _, f := range []struct{ name, value string }{{"bot_id", bot}, {"user_id", user}, {"history_id", history}} {
		if !validName(f.value) {
			return refuseName(f.name)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.StoreTimeout)
	defer cancel()
	if _, err := g.reads.Enter(ctx, who.key.reads); err != nil {
		return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "overloaded", Text: "too many conversations are being read", After: time.Second}
	}
	turns, count, err := g.archive.Turns(ctx, sessionOf(who.key.id, bot, user, history), max(g.cfg.HistoryTurns, 1))
	g.reads.Leave(who.key.reads)
	if err != nil {
		g.stats.Degraded("archive")
		return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "archive_unavailable", Text: "the conversation cannot be read now", After: time.Second}
	}
	answer := struct {
		History string     `json:"history_id"`
		Count   int64      `json:"count"`
		Turns   []pastTurn `json:"turns"`
	}{history, count, make([]pastTurn, 0, len(turns))}
	held := g.answers.Grant(&who.key.answers) // until it is written
	defer held.Keep(0)
	texts := 0
	for _, t := range turns {
		texts += len(t.User) + len(t.Reply)
		answer.Turns = append(answer.Turns, pastTurn{t.ID, t.Number, t.At, t.User, t.Reply})
	}
	body, err := g.parts.Codec.JSON.Append(nil, answer)
	if err != nil {
		return reply.Refuse(http.StatusInternalServerError, "", "%v", err)
	}
	if !held.Hold(int64(texts + len(body))) {
		return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "overloaded", Text: "the answers that are under way are too large", After: time.Second}
	}
	w.Header().Set("Cache-Control", "no-store")
	reply.Body(w, g.cfg.WriteTimeout, http.StatusOK, body)
	return nil
}

// Old records are deleted every so often, in batches with pauses, so that others are written meanwhile.
const (
	expireEvery = time.Hour
	expireBatch = 1000
	mostBatches = 10_000 // of one kind, each time
	expirePause = 20 * time.Millisecond
)

// expire deletes what is older than the archive keeps it.
func (g *Gateway) expire() {
	r := g.cfg.Retention
	for what, days := range map[string]Days{"turns": r.Turns, "entries": r.Ledger, "audit": r.Audit} {
		before := time.Now().AddDate(0, 0, -int(days))
		for n, left := int64(expireBatch), mostBatches; days > 0 && n == expireBatch && left > 0 && wait.For(g.alive, expirePause); left-- {
			ctx, cancel := context.WithTimeout(g.alive, g.cfg.StoreTimeout)
			var err error
			if n, err = g.archive.Expire(ctx, what, before, expireBatch); err != nil && g.alive.Err() == nil {
				g.log.Warn("what is too old was not deleted", "of", what, "error", err)
			}
			cancel()
		}
	}
}

// erase deletes what there is of a user, apart from amounts in the ledger, and has the audit say so.
func (g *Gateway) erase(ctx context.Context, user string, by directory.If) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*g.cfg.StoreTimeout) // it reads all of the archive
	defer cancel()
	if err := g.batch.Flush(ctx); err != nil {
		return err
	}
	for _, in := range []interface {
		Erase(ctx context.Context, user string) error
	}{g.archive, g.claims.Coordinator, g.claims.Local} {
		if err := in.Erase(ctx, user); err != nil {
			return err
		}
	}
	return g.directory.Erase(ctx, user, by)
}

// forget removes from memory what is a user's, or may be: answers of the cache are many users'.
func (g *Gateway) forget(user string) {
	g.recall.Erase(user)
	if g.events != nil {
		g.events.Erase(user)
	}
	if g.cache != nil {
		g.cache.Empty(g.parts.Table(g.cfg.CacheBytes))
	}
}
