package bot

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/internal/wait"
)

// keyUsage is a key's limits and usage.
type keyUsage struct {
	Key    string      `json:"key"`
	Models []string    `json:"models,omitempty"` // none is all
	Limits []limitUsed `json:"limits"`
	// Today is the usage since midnight (UTC), by the ledger; nil if that cannot be read.
	Today *todayUsed `json:"today"`
}

type limitUsed struct {
	Resource string  `json:"resource"`
	Team     string  `json:"team,omitempty"`  // whose limit it is, if not the key's
	User     string  `json:"user,omitempty"`  // also of that
	Model    string  `json:"model,omitempty"` // none is all
	Amount   int64   `json:"amount"`
	Window   float64 `json:"window_seconds"` // 0 never ends
	Used     *int64  `json:"used"`           // with reservations; nil if it cannot be read
}

type todayUsed struct {
	Requests int64 `json:"requests"`
	Tokens   int64 `json:"tokens"`
	Money    int64 `json:"money"` // billionths
}

var (
	errLimitsAway = errors.New("the limits cannot be read now")
	errLedgerAway = errors.New("the ledger cannot be read now")
)

// usageOf reads a key's usage. It leaves out unreadable parts, and returns their error.
func (g *Gateway) usageOf(ctx context.Context, key *apiKey, now time.Time) (keyUsage, error) {
	u := keyUsage{Key: key.id, Limits: []limitUsed{}}
	if len(key.models) > 0 {
		u.Models = key.models[0]
	}
	within, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	used, err := g.claims.Coordinator.Used(within, key.id, key.limits, now)
	for i, l := range key.limits {
		e := limitUsed{Resource: string(l.Resource), Team: l.Part.Team, User: l.Part.Owner, Model: l.Part.Model, Amount: l.Amount, Window: l.Window.Seconds()}
		if err == nil {
			e.Used = &used[i]
		}
		u.Limits = append(u.Limits, e)
	}
	if err != nil {
		err = errLimitsAway
	}
	sum, ledger := g.sum(ctx, key, now.Truncate(24*time.Hour))
	if ledger != nil {
		return u, errors.Join(err, errLedgerAway)
	}
	u.Today = &todayUsed{sum.Requests, sum.Tokens, sum.Money}
	return u, err
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
	u, err := g.usageOf(r.Context(), who.key, time.Now())
	if err != nil {
		code := "limits_unavailable"
		if !errors.Is(err, errLimitsAway) {
			code = "ledger_unavailable"
		}
		return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: code, Text: err.Error(), After: time.Second}
	}
	g.writeJSON(w, http.StatusOK, u)
	return nil
}

// keysPath is the operator's page, on the admin listener.
const keysPath = "/keys/"

// maxListedKeys bounds the keys in one answer: each is read from both stores.
const maxListedKeys = 100

// keyList is the operator's list. It has no secret, and no hash of one.
type keyList struct {
	Keys      []keyUsage      `json:"keys"`
	Total     int             `json:"total"`
	Managed   bool            `json:"managed"`        // the API for keys is there
	Next      int             `json:"next,omitempty"` // offset of the keys after these
	Missing   []string        `json:"missing"`        // parts that could not be read
	Upstreams []upstreamState `json:"upstreams"`
	Archive   archiveState    `json:"archive"`
}

type upstreamState struct {
	Name     string `json:"name"`
	Model    string `json:"model"` // the upstream's name of it
	Ready    bool   `json:"ready"`
	Active   int64  `json:"active"`
	Asked    uint64 `json:"asked"`
	Failures uint64 `json:"failures"`
}

type archiveState struct {
	Kind    Archive `json:"kind"`
	Pending int     `json:"pending"`
	Failing bool    `json:"failing"`
}

// serveKeys answers with the keys from ?offset=N on, by their IDs.
func (g *Gateway) serveKeys(w http.ResponseWriter, r *http.Request) {
	offset := 0
	if text := r.URL.Query().Get("offset"); text != "" {
		var err error
		if offset, err = strconv.Atoi(text); err != nil || offset < 0 {
			reply.Refuse(http.StatusBadRequest, "", "offset: %q: want a number from 0 on", text).Answer(w, openai.Chat, g.cfg.WriteTimeout)
			return
		}
	}
	now, live := time.Now(), g.live.Load()
	live.mu.RLock()
	keys := maps.Clone(live.payers)
	live.mu.RUnlock()
	ids := slices.Sorted(maps.Keys(keys))
	list := keyList{Keys: []keyUsage{}, Total: len(ids), Managed: g.cfg.ManageKeys, Missing: []string{}, Upstreams: []upstreamState{}}
	ids = ids[min(offset, len(ids)):]
	if len(ids) > maxListedKeys {
		ids, list.Next = ids[:maxListedKeys], offset+maxListedKeys
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.StoreTimeout)
	defer cancel()
	for _, id := range ids {
		u, err := g.usageOf(ctx, keys[id], now)
		list.Keys = append(list.Keys, u)
		for _, away := range []error{errLimitsAway, errLedgerAway} {
			if errors.Is(err, away) && !slices.Contains(list.Missing, away.Error()) {
				list.Missing = append(list.Missing, away.Error())
			}
		}
	}
	for _, s := range live.pool.States() {
		list.Upstreams = append(list.Upstreams, upstreamState{s.Name, s.Model, s.Ready, s.Active, s.Asked, s.Failures})
	}
	b := g.batch.State()
	list.Archive = archiveState{g.cfg.Archive, b.Pending, b.Failing}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	g.writeJSON(w, http.StatusOK, list)
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
