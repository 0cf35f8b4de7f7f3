package bot

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"dyno/services/bot/admission"
	"dyno/services/bot/budget"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// apiKey is a Key that is in use.
type apiKey struct {
	id     string
	models []string
	limits []store.Limit
	spent  atomic.Pointer[spent]  // what was found out last; nil is nothing
	tight  atomic.Bool            // it was refused for a limit, and has not been found to have something left since
	summed atomic.Pointer[summed] // what was summed up last; nil is nothing
	*shares
	// What the key's requests are answered by, and its part of that.
	pool   *upstream.Pool
	tenant *upstream.Tenant
	model  string // of /v1/bot/chat
}

// shares are a key's parts of what keys share: memory of requests and of answers, and places.
type shares struct {
	bodies, answers            budget.Tenant
	places, reads, pasts, sums *admission.Tenant
}

// A spent limit is one of requests that a key has reached, and when that was found out.
type spent struct {
	limit *store.LimitError
	at    time.Time
}

// spentFor is for how long a limit is taken to be spent, within its window: what was reserved by a gateway that has died
// is given back.
const spentFor = time.Minute

// reached notes that a limit is reached, if it is one that no request can be below until its window ends.
func (k *apiKey) reached(e *store.LimitError, now time.Time) {
	if e.Limit.Resource == store.Requests && e.Limit.Window > 0 {
		k.spent.Store(&spent{e, now})
	}
}

// refused refuses all requests of a key while a limit is spent; nil if none is known to be.
func (k *apiKey) refused(now time.Time) *reply.Refusal {
	s := k.spent.Load()
	if s == nil || now.Sub(s.at) >= min(s.limit.RetryAfter, spentFor) {
		return nil
	}
	return beyond(s.limit, s.limit.RetryAfter-now.Sub(s.at))
}

// spent refuses a request of a key that has none left, before anything is done for it.
func (g *Gateway) spent(key *apiKey, now time.Time) *reply.Refusal {
	refused := key.refused(now)
	if refused != nil {
		g.stats.Limited(string(store.Requests))
	}
	return refused
}

func (k *apiKey) mayUse(model string) bool {
	return len(k.models) == 0 || slices.Contains(k.models, model)
}

// affords refuses a request of a key that has not even the least left that it will reserve, before plugins are asked and
// conversations are read for it. Where the limits are another server's, that is found out by a request first.
func (g *Gateway) affords(ctx context.Context, key *apiKey, least store.Cost, now time.Time) *reply.Refusal {
	if len(key.limits) == 0 || g.redis != nil && !key.tight.Load() {
		return nil
	}
	if refused := exceeds(least, key.limits); refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	used, err := g.claims.Coordinator.Used(ctx, key.id, key.limits, now)
	if err != nil {
		return nil // whoever reserves will find out, and knows what to do
	}
	for i, l := range key.limits {
		if used[i]+least.Of(l.Resource) > l.Amount {
			g.stats.Limited(string(l.Resource))
			e := store.Beyond(l, used[i], now)
			key.reached(e, now)
			return beyond(e, e.RetryAfter)
		}
	}
	key.tight.Store(false)
	return nil
}

// exceeds refuses a request that alone exceeds a limit: waiting would not help.
func exceeds(cost store.Cost, limits []store.Limit) *reply.Refusal {
	for _, l := range limits {
		if need := cost.Of(l.Resource); need > l.Amount && l.Resource != store.Requests {
			return reply.Refuse(http.StatusBadRequest, "request_exceeds_limit", "this request may use %d %s, with its answer, and the limit of the key is %d: ask for less, with less context, or for a shorter answer", need, l.Resource, l.Amount)
		}
	}
	return nil
}

// beyond refuses a request for a limit that is reached, and says when to try again.
func beyond(e *store.LimitError, after time.Duration) *reply.Refusal {
	r := &reply.Refusal{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Text: e.Error(), After: after}
	if e.Limit.Window == 0 {
		r.Code = "insufficient_quota"
	}
	return r
}

// ledgerFull tells whether no more may be answered than is under way, at all or of a key: one of several has half of what
// may wait for the ledger.
func (g *Gateway) ledgerFull(key *apiKey) bool {
	most := g.cfg.Batch.Pending
	return g.batch.State().Pending >= most || len(g.live.Load().payers) > 1 && g.batch.PendingOf(key.id) >= (most+1)/2
}

// health tells whether requests are accepted, and what is wrong with the archive.
func (g *Gateway) health() (accepts bool, wrong string) {
	b := g.batch.State()
	switch {
	case b.Pending >= g.cfg.Batch.Pending:
		return false, fmt.Sprintf("the archive is full or does not answer: %d records wait to be written, and nothing is answered that cannot be accounted", b.Pending)
	case b.Failing:
		return true, fmt.Sprintf("the archive is full or does not answer: %d records wait to be written", b.Pending)
	}
	return true, ""
}
