package bot

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"dyno/services/bot/admission"
	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// apiKey is a Key that is in use.
type apiKey struct {
	id          string
	team, owner string     // "" is none
	models      [][]string // patterns; a model must match one of each list
	limits      []store.Limit
	declared    bool              // in the file
	sum, old    [sha256.Size]byte // hashes of its secrets; old is zero, or works until oldUntil
	oldUntil    time.Time
	expires     time.Time // zero is never
	disabled    string    // why its requests are refused; "" is not at all

	spent  atomic.Pointer[spent]  // the last known spent limit; nil is none
	tight  atomic.Bool            // it was refused for a limit, and has not passed one since
	summed atomic.Pointer[summed] // the last sum; nil is none
	*shares
	// The upstreams of the key's requests, and its part of them.
	pool   *upstream.Pool
	tenant *upstream.Tenant
	model  string // of /v1/bot/chat
}

// shares are a key's parts of memory for requests and answers, and of places.
type shares struct {
	bodies, uploads, answers   budget.Tenant
	places, reads, pasts, sums *admission.Tenant
}

// A capacity is what keys divide: memory and places.
type capacity struct {
	bodies  *budget.Budget    // of requests
	uploads *budget.Budget    // of requests, in temporary files
	answers *budget.Budget    // whole answers, and the kept text of streams
	places  *admission.Places // for answers
	reads   *admission.Places // for requests that read a conversation
	pasts   *admission.Places // for turns that read their conversations
	sums    *admission.Places // for summing up the ledger
}

// maxReaders bounds the requests that wait to read the archive.
const maxReaders = 1024

// maxPasts is how many turns read their conversations at once. It exceeds an archive's connections: turns wait for
// them in the order of arrival, whatever their key.
const maxPasts = 16

func newCapacity(c *Config) capacity {
	keys := c.tenants()
	return capacity{
		bodies:  budget.New(c.MaxBodiesBytes, keys),
		uploads: budget.New(c.MaxUploadsBytes, keys),
		answers: budget.New(c.MaxAnswersBytes, keys),
		places:  admission.New(c.MaxConcurrent, c.MaxWaiting, c.MaxWait, keys),
		reads:   admission.New(2, maxReaders, c.StoreTimeout, keys),             // the archive has few connections
		pasts:   admission.New(maxPasts, c.MaxConcurrent, c.StoreTimeout, keys), // as many as have a place may wait
		sums:    admission.New(1, maxReaders, 2*c.StoreTimeout, keys),           // a request may wait for longer than one sum takes
	}
}

// setKeys sets the number of keys.
func (c *capacity) setKeys(n int) {
	for _, b := range []*budget.Budget{c.bodies, c.uploads, c.answers} {
		b.SetTenants(n)
	}
	for _, p := range []*admission.Places{c.places, c.reads, c.pasts, c.sums} {
		p.SetKeys(n)
	}
}

func (c *capacity) newShares() *shares {
	return &shares{places: c.places.NewTenant(), reads: c.reads.NewTenant(), pasts: c.pasts.NewTenant(), sums: c.sums.NewTenant()}
}

// A spent limit is a limit on requests that a key has reached, with the time of the finding.
type spent struct {
	limit *store.LimitError
	at    time.Time
}

// spentFor bounds for how long a limit counts as spent, within its window: reservations of a dead gateway are
// released.
const spentFor = time.Minute

// reached notes a reached limit, if every request exceeds it until its window ends.
func (k *apiKey) reached(e *store.LimitError, now time.Time) {
	if e.Limit.Resource == store.Requests && e.Limit.Window > 0 && e.Limit.Part.Model == "" {
		k.spent.Store(&spent{e, now})
	}
}

// refused returns the refusal of a key's requests while a limit is known to be spent, or nil.
func (k *apiKey) refused(now time.Time) *reply.Refusal {
	s := k.spent.Load()
	if s == nil || now.Sub(s.at) >= min(s.limit.RetryAfter, spentFor) {
		return nil
	}
	return beyond(s.limit, s.limit.RetryAfter-now.Sub(s.at))
}

// spent refuses a request of a key without any left, before all other work.
func (x *exchange) spent() *reply.Refusal {
	refused := x.who.key.refused(x.began)
	if refused != nil {
		x.g.stats.Limited(string(store.Requests))
		e := x.who.key.spent.Load().limit
		x.showLimits([]store.Limit{e.Limit}, []int64{e.Used}, x.began)
	}
	return refused
}

// limitFields are the header fields about what limits count, in OpenAI's form and in Anthropic's: the limit, what remains,
// and when it is whole again. The names are canonical: http.Header would make them so for each answer.
var limitFields = map[store.Resource][2][3]string{
	store.Requests: {
		{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	},
	store.Tokens: {
		{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	},
}

// showLimits sets the header fields about limits of requests and of tokens: of each, about the one with the least left.
func (x *exchange) showLimits(limits []store.Limit, used []int64, now time.Time) {
	for r, forms := range limitFields {
		at, least := -1, int64(math.MaxInt64)
		for i, l := range limits {
			if left := max(l.Amount-used[i], 0); l.Resource == r && left < least {
				at, least = i, left
			}
		}
		if at < 0 {
			continue
		}
		x.limited = true
		l, ends := limits[at], limits[at].Start(now).Add(limits[at].Window)
		names, values := forms[0], []string{strconv.FormatInt(l.Amount, 10), strconv.FormatInt(least, 10), ""}
		if reply.FormOf(x.r.URL.Path) == openai.Messages {
			names, values[2] = forms[1], ends.UTC().Format(time.RFC3339)
		} else {
			values[2] = ends.Sub(now).Truncate(time.Millisecond).String()
		}
		h := x.w.Header()
		for i, name := range names {
			if i < 2 || l.Window > 0 {
				h[name] = values[i : i+1 : i+1]
			}
		}
	}
}

// passed returns fields of an upstream's header: without its limits, if it has the key's own.
func (x *exchange) passed(h http.Header) http.Header {
	if x.limited {
		h = maps.Clone(h)
		maps.DeleteFunc(h, upstream.IsLimit)
	}
	return h
}

func (k *apiKey) mayUse(model string) bool {
	for _, list := range k.models {
		if !slices.ContainsFunc(list, func(pattern string) bool { return store.Matches(pattern, model) }) {
			return false
		}
	}
	return true
}

// limitsOf returns the limits that a request for a model falls under.
func (k *apiKey) limitsOf(model string) []store.Limit {
	other := func(l store.Limit) bool { return l.Part.Model != "" && !store.Matches(l.Part.Model, model) }
	if !slices.ContainsFunc(k.limits, other) {
		return k.limits
	}
	return slices.DeleteFunc(slices.Clone(k.limits), other)
}

// affords refuses a request if its key's limits do not cover even the least that it will reserve. It does so before
// plugins and conversations. With limits on another server, it asks that server first, if the key was refused before.
func (x *exchange) affords(least store.Cost) *reply.Refusal {
	g, key, now := x.g, x.who.key, x.began
	limits := key.limitsOf(key.model)
	if len(limits) == 0 || g.redis != nil && !key.tight.Load() {
		return nil
	}
	if refused := exceeds(least, limits); refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), g.cfg.StoreTimeout)
	defer cancel()
	used, err := g.claims.Coordinator.Used(ctx, key.id, limits, now)
	if err != nil {
		return nil // reserve will notice, and handles it
	}
	for i, l := range limits {
		if used[i]+least.Of(l.Resource) > l.Amount {
			g.stats.Limited(string(l.Resource))
			e := store.Beyond(l, used[i], now)
			key.reached(e, now)
			x.showLimits(limits, used, now)
			return beyond(e, e.RetryAfter)
		}
	}
	key.tight.Store(false)
	return nil
}

// exceeds refuses a request that alone exceeds a limit: waiting would not help.
func exceeds(cost store.Cost, limits []store.Limit) *reply.Refusal {
	for _, l := range limits {
		if need := cost.Of(l.Resource); need > l.Amount && l.Resource != store.Requests && l.Resource != store.Parallel {
			return reply.Refuse(http.StatusBadRequest, "request_exceeds_limit", "this request may use %d %s, with its answer, and the limit of the key is %d: ask for less, with less context, or for a shorter answer", need, l.Resource, l.Amount)
		}
	}
	return nil
}

// beyond refuses a request for a limit that is reached, and says when to try again.
func beyond(e *store.LimitError, after time.Duration) *reply.Refusal {
	r := &reply.Refusal{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Text: e.Error(), After: after}
	if e.Limit.Resource == store.Parallel {
		r.After = time.Second
	} else if e.Limit.Window == 0 {
		r.Code = "insufficient_quota"
	}
	return r
}

// ledgerFull reports whether the ledger has room only for the running answers, of all keys or of this one. One of
// several keys has half of the records that may wait.
func (g *Gateway) ledgerFull(key *apiKey) bool {
	most := g.cfg.Batch.Pending
	return g.batch.State().Pending >= most || g.live.Load().tenants > 1 && g.batch.PendingOf(key.id) >= (most+1)/2
}

// health reports whether requests are accepted, and the archive's fault.
func (g *Gateway) health() (accepts bool, wrong string) {
	b := g.batch.State()
	switch {
	case b.Pending >= g.cfg.Batch.Pending:
		return false, fmt.Sprintf("the archive is full or does not answer: %d records wait to be written, and answers that cannot be accounted are refused", b.Pending)
	case b.Failing:
		return true, fmt.Sprintf("the archive is full or does not answer: %d records wait to be written", b.Pending)
	}
	return true, ""
}
