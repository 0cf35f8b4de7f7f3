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
	g          *Gateway
	who        identity
	request    *openai.Request
	hold       *hold // of a turn; nil is none
	settlement settlement
	entry      store.Entry
	began      time.Time       // when the request came
	within     context.Context // of the request, for its spans alone
	answer     ration.Share    // what is held of its answer
	finished   bool
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
	return &job{g: g, who: who, began: began, within: ctx, answer: g.answers.Share(&who.key.answers), entry: store.Entry{
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

// holdAnswer holds an answer until the job leaves, if there is room.
func (j *job) holdAnswer(a *upstream.Answer) error {
	if j.answer.Hold(int64(len(a.Body))) {
		return nil
	}
	e := upstream.Crowded(a.Usage.Completion)
	e.Upstream, e.Attempts = a.Upstream, a.Attempts
	return e
}

// start takes what an answer may use at most, and the session if there is one. What has started must finish. While another
// gateway has the session, it waits as long as ctx.
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

// reservation is what the answer may use at most; nil if nothing limits that.
func (j *job) reservation(now time.Time) (*store.Reservation, *refusal) {
	g, r, key := j.g, j.request, j.who.key
	if len(key.limits) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(key.limits, func(l store.Limit) bool { return l.Resource != store.Requests }) {
		r.Bound(g.cfg.ReplyTokens) // an answer must not use more than is reserved for it
		if r.Unseen() {
			r.PromptTokens += g.cfg.ContextTokens
		}
	}
	completion := r.MaxCompletion()
	cost := store.Cost{Requests: 1, Tokens: int64(r.PromptTokens + completion), Money: g.pool.Price(r.Model).Of(r.PromptTokens, completion)}
	if refused := exceeds(cost, key.limits); refused != nil {
		return nil, refused
	}
	return &store.Reservation{ID: store.NewID(), Key: key.id, Limits: key.limits, At: now, Cost: cost, Lease: g.longest()}, nil
}

// reserve takes what the answer may use at most, and locks its session.
func (j *job) reserve(ctx context.Context) *refusal {
	g, now := j.g, time.Now()
	j.entry.At = now
	r, refused := j.reservation(now)
	if refused != nil {
		return refused
	}
	if r == nil && j.hold == nil {
		return nil
	}
	with := g.coordinator
	err := j.hold.begin(ctx, with, r, g.cfg.StoreTimeout)
	var reached *store.LimitError
	if err != nil && !errors.As(err, &reached) && !errors.Is(err, store.ErrBusy) {
		if j.hold != nil {
			j.hold.miss()
		}
		if r == nil {
			return nil
		}
		g.stats.degraded("limits")
		g.settleLater(settlement{with: with, reservation: r}, time.Now()) // it may have been taken
		if g.cfg.LimitsOutage == Refuse {
			return &refusal{status: http.StatusServiceUnavailable, code: "limits_unavailable", text: "the limits cannot be checked now", after: time.Second}
		}
		with = g.local
		_, err = with.Begin(ctx, nil, r)
	}
	switch {
	case errors.As(err, &reached):
		g.stats.limited(string(reached.Limit.Resource))
		j.who.key.tight.Store(true)
		if with == g.coordinator {
			j.who.key.reached(reached, now)
		}
		return beyond(reached, reached.RetryAfter)
	case errors.Is(err, store.ErrBusy):
		return refusedBusy(ctx)
	case err != nil:
		return refuse(http.StatusInternalServerError, "", "%v", err)
	}
	if r != nil {
		j.settlement = settlement{with: with, reservation: r}
	}
	return nil
}

// refusedBusy answers a turn for whose session others did not make room in time, or whose client did not wait.
func refusedBusy(ctx context.Context) *refusal {
	if ctx.Err() != nil {
		return refuse(statusGone, "", "the client has gone")
	}
	return &refusal{status: http.StatusConflict, code: "turn_under_way", text: "another turn of this conversation is under way", after: time.Second}
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
	used, err := g.coordinator.Used(ctx, key.id, key.limits, now)
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
	j.settlement.used, j.finished = cost, true
	if j.hold == nil {
		defer j.settle() // the ledger first: who has died in between owes nothing but a reservation
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

// A settlement is what a coordinator is to be told at the end of an answer.
type settlement struct {
	with        store.Coordinator // nil has nothing to be told
	lock        *store.Lock       // nil is none
	turns       int64             // of its session
	reservation *store.Reservation
	used        store.Cost
}

// Pauses between tries to settle, and how many more there are once the gateway has been closed.
// A reservation that is never settled is given back when its lease ends: the limit counts too little then, the ledger does
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

// settle tells it beside the request, if another server is to be told.
func (j *job) settle() {
	switch {
	case j.settlement.with == nil:
	case j.g.redis == nil || j.settlement.with == j.g.local:
		j.g.settle(j.settlement) // within the process
	default:
		j.g.settleLater(j.settlement, j.settlement.reservation.At.Add(j.g.longest()))
	}
}

// settle tells it at once. What is not understood is told later: until the lease ends, the next turn would be refused
// for one that is over.
func (g *Gateway) settle(s settlement) {
	if s.with == nil || g.try(s) {
		return
	}
	g.stats.degraded("sessions")
	ends := time.Now().Add(g.cfg.SessionLease)
	if s.reservation != nil {
		ends = s.reservation.At.Add(g.longest())
	}
	g.settleLater(s, ends)
}

// try tells it once, and returns whether that was understood.
func (g *Gateway) try(s settlement) bool {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	err := s.with.End(ctx, s.lock, s.turns, s.reservation, s.used)
	if errors.Is(err, store.ErrGone) && s.used != (store.Cost{}) {
		g.unsettled(s, err)
	}
	return err == nil || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrUnlocked)
}

// unsettled notes that what was used is not counted in place of what was reserved.
func (g *Gateway) unsettled(s settlement, why error) {
	if s.reservation == nil || s.used == (store.Cost{}) {
		return
	}
	g.log.Warn("a reservation is not settled", "key", s.reservation.Key, "error", why)
	g.stats.unsettled.Inc()
}

// settleLater tells it beside requests, until that is understood or a moment comes, if there is a place.
func (g *Gateway) settleLater(s settlement, ends time.Time) {
	select {
	case g.settles <- struct{}{}:
	default: // there are places for all answers under way: this store has not answered for long
		g.unsettled(s, errors.New("too many wait for the coordinator"))
		return
	}
	g.tasks.Go(func() {
		defer func() { <-g.settles }()
		tries, closed, unlocked := settleTries, g.alive.Done(), time.Now().Add(g.cfg.SessionLease)
		for pause := settlePause; !g.try(s); {
			if tries == 0 || !time.Now().Before(ends) {
				g.unsettled(s, errors.New("the coordinator does not answer"))
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
			if s.lock == nil || time.Now().After(unlocked) {
				pause = min(2*pause, lastSettlePause)
			}
		}
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
