package bot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/ration"
	"dyno/services/bot/store"
	"dyno/services/bot/trace"
	"dyno/services/bot/upstream"
)

// An outcome is how an answer has ended, in the ledger.
type outcome string

const (
	outcomeOK      outcome = "ok"
	outcomeAborted outcome = "aborted" // the client left, and the answer was left too
	outcomeDrained outcome = "drained" // the client left, and the answer came to its end
	outcomeFailed  outcome = "failed"  // there is no answer, or half of one
	outcomeRefused outcome = "refused" // by the upstream: the request was at fault
)

// A job is an answer under way: it has a place, and a reservation.
type job struct {
	g           *Gateway
	who         identity
	request     *openai.Request
	limits      store.Limits
	reservation store.Reservation
	entry       store.Entry
	began       time.Time       // when the request came
	within      context.Context // of the request, for its spans alone
	answer      ration.Share    // what is held of its answer
}

// admit lets a request in: it has a place from then on, until it leaves.
func (g *Gateway) admit(ctx context.Context, who identity, endpoint string, began time.Time) (*job, *refusal) {
	full := &refusal{status: http.StatusServiceUnavailable, code: "ledger_full", text: "the ledger cannot keep up: nothing is answered that cannot be accounted", after: time.Second}
	if g.ledgerFull(who.key) {
		return nil, full
	}
	_, span := trace.Start(ctx, "queue")
	queue, err := g.places.enter(ctx, who.key.places)
	span.End()
	g.stats.queue.Observe(queue.Seconds())
	switch {
	case errors.Is(err, errCrowded):
		return nil, &refusal{status: http.StatusServiceUnavailable, code: "overloaded", text: err.Error(), after: time.Second}
	case err != nil:
		return nil, refuse(statusGone, "", "the client has gone")
	case g.ledgerFull(who.key): // since it waits for a place
		g.places.leave(who.key.places)
		return nil, full
	}
	return &job{g: g, who: who, limits: g.limits, began: began, within: ctx, answer: g.answers.Share(&who.key.answers), entry: store.Entry{
		ID: store.NewID(), Key: who.key.id, User: who.user, Endpoint: endpoint, Queue: queue,
	}}, nil
}

// ledgerFull tells whether no more may be answered than is under way, at all or of a key: one of several has half of what
// may wait for the ledger.
func (g *Gateway) ledgerFull(key *apiKey) bool {
	most := g.cfg.Batch.Pending
	return g.batch.State().Pending >= most || len(g.cfg.Keys) > 1 && g.batch.PendingOf(key.id) >= (most+1)/2
}

// health says whether requests are answered, and what is wrong with the archive.
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

// leave gives the place back, once the answer is written: it takes memory until then.
func (j *job) leave() {
	j.answer.Keep(0)
	j.g.places.leave(j.who.key.places)
}

// hold holds an answer until the job leaves, if there is room.
func (j *job) hold(a *upstream.Answer) error {
	if j.answer.Hold(int64(len(a.Body))) {
		return nil
	}
	e := upstream.Crowded(a.Usage.Completion)
	e.Upstream, e.Attempts = a.Upstream, a.Attempts
	return e
}

// start reserves what an answer may use at most. What has started must finish.
func (j *job) start(ctx context.Context, r *openai.Request) *refusal {
	if !j.g.pool.Has(r.Model) || !j.who.key.mayUse(r.Model) {
		return &refusal{status: http.StatusNotFound, code: "model_not_found", param: "model", text: fmt.Sprintf("model: %q is not served here, or not to this key", r.Model)}
	}
	j.request = r
	j.entry.Model, j.entry.Stream = r.Model, r.Stream
	return j.reserve(ctx)
}

// statusGone is what is logged and answered of a client that has gone (as nginx does).
const statusGone = 499

// reserve takes what the answer may use at most.
func (j *job) reserve(ctx context.Context) *refusal {
	g, r := j.g, j.request
	now := time.Now()
	j.entry.At = now
	if len(j.who.key.limits) == 0 {
		return nil
	}
	if slices.ContainsFunc(j.who.key.limits, func(l store.Limit) bool { return l.Resource != store.Requests }) {
		r.Bound(g.cfg.ReplyTokens) // an answer must not use more than is reserved for it
		if r.Unseen() {
			r.PromptTokens += g.cfg.ContextTokens
		}
	}
	completion := r.MaxCompletion()
	cost := store.Cost{Requests: 1, Tokens: int64(r.PromptTokens + completion), Money: g.pool.Price(r.Model).Of(r.PromptTokens, completion)}
	if refused := exceeds(cost, j.who.key.limits); refused != nil {
		return refused
	}
	// Whoever leaves in the middle would leave a reservation behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.StoreTimeout)
	defer cancel()
	var err error
	j.reservation, err = j.limits.Reserve(ctx, j.who.key.id, j.who.key.limits, cost, now, g.longest())
	var reached *store.LimitError
	if err != nil && !errors.As(err, &reached) {
		g.stats.degraded("limits")
		j.takeBack(j.reservation)
		j.reservation = store.Reservation{}
		if g.cfg.LimitsOutage == Refuse {
			return &refusal{status: http.StatusServiceUnavailable, code: "limits_unavailable", text: "the limits cannot be checked now", after: time.Second}
		}
		j.limits = g.local
		j.reservation, err = j.limits.Reserve(ctx, j.who.key.id, j.who.key.limits, cost, now, g.longest())
	}
	if errors.As(err, &reached) {
		g.stats.limited(string(reached.Limit.Resource))
		j.who.key.tight.Store(true)
		if j.limits == g.limits {
			j.who.key.reached(reached, now)
		}
		return beyond(reached, reached.RetryAfter)
	}
	if err != nil {
		return refuse(http.StatusInternalServerError, "", "%v", err)
	}
	return nil
}

// affords refuses a request of a key that has not even the least left that it will reserve, before plugins are asked and
// conversations are read for it. Where the limits are another server's, that is found out by a request first.
func (g *Gateway) affords(ctx context.Context, key *apiKey, least store.Cost, now time.Time) *refusal {
	if len(key.limits) == 0 || g.redis != nil && !key.tight.Load() {
		return nil
	}
	if refused := exceeds(least, key.limits); refused != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	used, err := g.limits.Used(ctx, key.id, key.limits, now)
	if err != nil {
		return nil // whoever reserves will find out, and knows what to do
	}
	for i, l := range key.limits {
		if used[i]+least.Of(l.Resource) > l.Amount {
			g.stats.limited(string(l.Resource))
			e := store.Beyond(l, used[i], now)
			key.reached(e, now)
			return beyond(e, e.RetryAfter)
		}
	}
	key.tight.Store(false)
	return nil
}

// exceeds refuses what alone is more than a limit allows: it could not be answered at any other time, either.
func exceeds(cost store.Cost, limits []store.Limit) *refusal {
	for _, l := range limits {
		if need := cost.Of(l.Resource); need > l.Amount && l.Resource != store.Requests {
			return refuse(http.StatusBadRequest, "request_exceeds_limit", "this request may use %d %s, with its answer, and the limit of the key is %d: ask for less, with less context, or for a shorter answer", need, l.Resource, l.Amount)
		}
	}
	return nil
}

// beyond says that a limit is reached, and when it is not any more.
func beyond(e *store.LimitError, after time.Duration) *refusal {
	r := &refusal{status: http.StatusTooManyRequests, code: "rate_limit_exceeded", text: e.Error(), after: after}
	if e.Limit.Window == 0 {
		r.code = "insufficient_quota"
	}
	return r
}

// A result is what there is to account.
type result struct {
	outcome  outcome
	usage    openai.Usage
	price    upstream.Price
	upstream string
	attempts int
	cached   bool
	first    time.Duration // to the first byte of the answer; 0 is none
	turn     *store.Turn   // to be kept; nil is none
}

// A historyState is what became of a turn.
type historyState string

const (
	historyKept         historyState = "kept"          // it is in the archive
	historyNotConfirmed historyState = "not_confirmed" // the archive has not said that it is
	historyConflict     historyState = "conflict"      // another turn came in between: it is not
	historyUnavailable  historyState = "unavailable"   // the conversation could not be read: it is not
)

// finish accounts for an answer. When there is a turn, it waits until that is kept: this does not depend on whether the
// client is still there. Nobody waits for the ledger's entry, of a turn or of another answer: it is written together with
// others.
func (j *job) finish(r result) historyState {
	g, e := j.g, &j.entry
	e.Outcome, e.Upstream, e.Attempts, e.Cached = string(r.outcome), r.upstream, int64(r.attempts), r.cached
	e.Prompt, e.Completion, e.Estimated = int64(r.usage.Prompt), int64(r.usage.Completion), r.usage.Estimated
	cost := store.Cost{Requests: 1}
	if !r.cached {
		e.Money = r.price.Of(r.usage.Prompt, r.usage.Completion)
		cost.Tokens, cost.Money = int64(r.usage.Total()), e.Money
	}
	e.FirstByte, e.Took = r.first, time.Since(j.began)
	g.stats.ended(e)
	if j.reservation.ID != "" {
		defer j.settle(cost) // the ledger first: who has died in between owes nothing but a reservation
	}
	kept := *e // what waits does not hold on to the request
	if err := g.batch.Later(store.Record{Entry: &kept}); err != nil {
		g.log.Error("an answer is not in the ledger", "id", e.ID, "key", e.Key, "prompt", e.Prompt, "completion", e.Completion, "error", err)
		g.stats.unaccounted.Inc()
	}
	if r.turn == nil {
		return ""
	}
	return j.keep(r.turn)
}

// keep waits until a turn is kept.
func (j *job) keep(turn *store.Turn) historyState {
	g := j.g
	_, span := trace.StartCall(j.within, "archive")
	defer span.End()
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	switch err := g.batch.Write(ctx, store.Record{Turn: turn}); {
	case err == nil:
		return historyKept
	case errors.Is(err, store.ErrConflict):
		return historyConflict
	}
	span.Fail("the archive does not answer")
	g.stats.degraded("archive")
	return historyNotConfirmed
}

// Pauses between tries to settle a reservation, and how many more there are once the gateway has been closed.
// One that is never settled is given back when its lease ends: the limit counts too little then, the ledger does
// not.
const (
	settlePause     = 200 * time.Millisecond
	lastSettlePause = 5 * time.Second
	settleTries     = 4
)

// longest is how long an answer can take, with all tries of its upstreams: what it has
// reserved of limits is given back after that.
func (g *Gateway) longest() time.Duration {
	return time.Duration(g.cfg.Upstream.Attempts)*g.cfg.Upstream.Total + g.cfg.DrainTime + time.Minute
}

// settle puts what was used in place of what was reserved: beside the request if the limits are another
// server's.
func (j *job) settle(cost store.Cost) {
	g := j.g
	work := func() {
		ends := j.reservation.At.Add(g.longest())
		tries, closed := settleTries, g.alive.Done()
		for pause := settlePause; ; pause = min(2*pause, lastSettlePause) {
			ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
			err := j.limits.Settle(ctx, j.reservation, cost)
			cancel()
			if err == nil {
				return
			}
			if errors.Is(err, store.ErrGone) || tries == 0 || !time.Now().Before(ends) {
				g.log.Warn("a reservation is not settled", "key", j.who.key.id, "error", err)
				g.stats.unsettled.Inc()
				return
			}
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-closed:
				t.Stop()
				closed, pause = nil, settlePause
			}
			if closed == nil {
				tries--
			}
		}
	}
	if g.redis == nil || j.limits == store.Limits(g.local) {
		work() // within the process
		return
	}
	select {
	case g.settles <- struct{}{}:
		g.tasks.Go(func() {
			defer func() { <-g.settles }()
			work()
		})
	default: // there are places for all answers under way: this store has not answered for long
		g.log.Warn("a reservation is not settled", "key", j.who.key.id, "error", "too many wait for the limits' store")
		g.stats.unsettled.Inc()
	}
}

// takeBack settles for nothing what may have been reserved, if there is a place for that
// beside the request: otherwise it is given back when its lease ends.
func (j *job) takeBack(r store.Reservation) {
	g, limits := j.g, j.limits
	if r.ID == "" {
		return
	}
	select {
	case g.settles <- struct{}{}:
	default:
		return
	}
	g.tasks.Go(func() {
		defer func() { <-g.settles }()
		ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
		defer cancel()
		_ = limits.Settle(ctx, r, store.Cost{}) // gone, most often: nothing was reserved
	})
}

// refusalOf says what a client is told when no upstream has answered.
func (g *Gateway) refusalOf(err error) *refusal {
	var e *upstream.Error
	switch {
	case errors.As(err, &e) && e.Status != 0:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refuse(statusGone, "", "the client has gone")
	default: // whoever was to make an answer that others wait for has panicked
		return refuse(http.StatusInternalServerError, "", "the answer could not be made")
	}
	f := g.faultOf(e)
	r := &refusal{status: e.Status, code: f.Code, kind: f.Type, text: f.Message, after: e.RetryAfter}
	if len(e.Body) > 0 && e.Body[0] == '{' {
		var masked int
		r.body, masked = g.out.JSON(e.Body)
		g.stats.masked("out", masked)
	}
	return r
}

// outcomeOf says how an answer that did not come is accounted.
func outcomeOf(err error, gone bool) outcome {
	var e *upstream.Error
	switch {
	case errors.As(err, &e) && e.Body != nil:
		return outcomeRefused
	case gone:
		return outcomeAborted
	}
	return outcomeFailed
}
