package bot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/admission"
	"dyno/services/bot/answer"
	"dyno/services/bot/budget"
	"dyno/services/bot/cache"
	"dyno/services/bot/claim"
	"dyno/services/bot/mask"
	"dyno/services/bot/metrics"
	"dyno/services/bot/openai"
	"dyno/services/bot/reply"
	"dyno/services/bot/requestlog"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
	"dyno/services/internal/trace"
)

// The outcomes of an answer, in the ledger.
const (
	outcomeOK      = "ok"
	outcomeAborted = "aborted" // the client left, and the answer was aborted
	outcomeDrained = "drained" // the client left, and the answer came to its end
	outcomeFailed  = "failed"  // no answer, or an incomplete one
	outcomeRefused = "refused" // by the upstream: the request was at fault
)

// An exchange is a request to a model and its answer, with all state from authentication to the ledger.
type exchange struct {
	g     *Gateway
	w     http.ResponseWriter
	r     *http.Request
	began time.Time

	who    identity
	body   *body // until the turn has its place and session, or the model answers
	placed bool
	ctx    *answer.Context // nil until the answer depends on its clients
	claim  *claim.Claim
	entry  store.Entry

	request   *openai.Request
	used      openai.Usage
	added     int // the bound on tokens that the gateway has added; 0 is none
	answer    *upstream.Answer
	err       error // why the answer is missing or incomplete
	how       cache.How
	asked     time.Duration // the upstream's time, for a stream until its first event
	first     time.Duration // from the request to the first byte of the answer
	free      bool          // nothing is charged for it
	held      budget.Grant  // of the answer
	limited   bool          // limits of the key are in the header
	log       *loggedText   // of the answer; nil logs none
	out       *reply.Writer // of a stream
	event     eventTimes    // of a stream, which does not have them on its stack while it waits
	unsettled *store.Object // may go on at its upstream, which says later what it has used; nil is nothing
	counted   []store.Limit // of the coordinator's
}

// begin begins an exchange, which must be closed. It takes no copy: a stream's stack would keep the room for it.
func (x *exchange) begin(g *Gateway, w http.ResponseWriter, r *http.Request, endpoint string) {
	x.g, x.w, x.r, x.began, x.entry.Endpoint = g, w, r, time.Now(), endpoint
	x.entry.ID = w.Header().Get(reply.ID)
}

// stages serve an exchange one after the other. The first one that refuses ends it.
func (x *exchange) stages(list ...func() *reply.Refusal) *reply.Refusal {
	for _, stage := range list {
		if refused := stage(); refused != nil {
			return x.refusal(refused)
		}
	}
	return nil
}

// refusal returns r, or the refusal for a stopped answer if the user has stopped it.
func (x *exchange) refusal(r *reply.Refusal) *reply.Refusal {
	if r.Header != nil {
		r.Header = x.passed(r.Header)
	}
	if x.ctx != nil && x.ctx.Stopped() {
		return &reply.Refusal{Status: statusGone, Code: "stopped", Text: answer.ErrStopped.Error()}
	}
	return r
}

// close releases the exchange's resources, after the answer is written: it takes memory until then.
func (x *exchange) close() {
	if line := requestlog.Of(x.w); line != nil {
		line.Entry, line.First = x.entry, float64(x.entry.FirstByte.Microseconds())/1e3
		line.CacheRead, line.CacheWrite, line.Reasoning = x.used.Cached, x.used.CacheWrite, x.used.Reasoning
		if x.request != nil {
			line.Asked = x.request.Model
		}
		if l := x.log; l != nil {
			line.Answer, line.AnswerCut = l.cut(l.stream.Close(l.text))
		}
	}
	if x.placed {
		x.held.Keep(0)
		x.g.places.Leave(x.who.key.places)
	}
	if x.ctx != nil {
		x.ctx.End()
	}
	if x.body != nil {
		x.body.free()
	}
}

// drainTime is how long an answer goes on without a client.
func (g *Gateway) drainTime(d Disconnect) time.Duration {
	if d == Cancel {
		return 0
	}
	return g.cfg.DrainTime
}

func (x *exchange) authenticate() (refused *reply.Refusal) {
	if x.who, refused = x.g.identify(x.r); refused == nil {
		x.entry.Key, x.entry.Team, x.entry.Owner = x.who.key.id, x.who.key.team, x.who.key.owner
	}
	return refused
}

// limit refuses a request of a key with a spent limit, before its body is read.
func (x *exchange) limit() (refused *reply.Refusal) {
	if refused = x.spent(); refused == nil {
		x.body, refused = x.g.readBody(x.r, x.who.key)
	}
	if line, most := requestlog.Of(x.w), int(x.g.cfg.LogContent); refused == nil && line != nil && most > 0 && json.Valid(x.body.B) { // what is no JSON is not masked
		text, _ := x.g.secrets.JSON(x.body.B)
		x.log = &loggedText{stream: x.g.secrets.Stream(), most: most}
		line.Request, line.RequestCut = x.log.cut(text)
	}
	return refused
}

// A loggedText is the beginning of a text that comes in pieces, without secrets.
type loggedText struct {
	stream *mask.Stream
	text   []byte
	most   int
}

// add adds a piece. A nil text is not logged.
func (l *loggedText) add(piece string) {
	if l != nil && len(l.text) <= l.most {
		l.text = l.stream.Write(l.text, piece)
	}
}

// addEvent adds the text of a stream's event.
func (l *loggedText) addEvent(e *openai.Event) {
	for _, d := range e.Deltas {
		if d.Choice == 0 {
			l.add(d.Text)
		}
	}
}

// cut returns the part of a text that is logged, and whether that is not all of it.
func (l *loggedText) cut(text []byte) (string, bool) {
	return strings.ToValidUTF8(string(text[:min(len(text), l.most)]), ""), len(text) > l.most
}

// admit waits for a place until ctx ends.
func (x *exchange) admit(ctx context.Context) *reply.Refusal {
	g, key := x.g, x.who.key
	full := &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "ledger_full", Text: "the ledger cannot keep up: answers that cannot be accounted are refused", After: time.Second}
	if g.ledgerFull(key) {
		return full
	}
	_, span := trace.Start(x.r.Context(), "queue")
	queue, err := g.places.Enter(ctx, key.places)
	span.End()
	g.stats.Queue.Observe(queue.Seconds())
	switch {
	case errors.Is(err, admission.ErrCrowded):
		return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "overloaded", Text: err.Error(), After: time.Second}
	case err != nil:
		return refusedGone()
	}
	x.placed, x.held = true, g.answers.Grant(&key.answers)
	if g.ledgerFull(key) { // checked again, after the wait for a place
		return full
	}
	e := &x.entry
	e.User, e.Queue = x.who.user, queue
	return nil
}

// statusGone is the status for a client that has gone, as in nginx.
const statusGone = 499

func refusedGone() *reply.Refusal { return reply.Refuse(statusGone, "", "the client has gone") }

// refusedBusy refuses a turn whose session was locked for too long, or whose client did not wait.
func refusedBusy(ctx context.Context) *reply.Refusal {
	if ctx.Err() != nil {
		return refusedGone()
	}
	return &reply.Refusal{Status: http.StatusConflict, Code: "turn_under_way", Text: "another turn of this conversation is under way", After: time.Second}
}

// reserve reserves the most that the answer may use, and locks a turn's session. While another gateway has the
// session, it waits until ctx ends.
func (x *exchange) reserve(ctx context.Context, q *openai.Request) *reply.Refusal {
	key := x.who.key
	if !key.pool.Has(q.Model) || !key.mayUse(q.Model) {
		return refusedModel(q.Model)
	}
	now := time.Now()
	x.request, x.entry.Model, x.entry.Stream, x.entry.At = q, q.Model, q.Stream, now
	r, refused := x.reservation(now)
	if refused != nil {
		return refused
	}
	return x.take(ctx, r, now)
}

// take makes a reservation, and locks a turn's session.
func (x *exchange) take(ctx context.Context, r *store.Reservation, now time.Time) *reply.Refusal {
	g, key := x.g, x.who.key
	err := x.claim.Begin(ctx, r)
	var reached *store.LimitError
	away := err != nil && !errors.As(err, &reached) && !errors.Is(err, store.ErrBusy)
	if away && r == nil {
		return nil
	}
	if away {
		g.stats.Degraded("limits")
		if g.cfg.LimitsOutage == Refuse {
			return &reply.Refusal{Status: http.StatusServiceUnavailable, Code: "limits_unavailable", Text: "the limits cannot be checked now", After: time.Second}
		}
		err = x.claim.BeginLocally(ctx, r)
	}
	switch {
	case errors.As(err, &reached):
		g.stats.Limited(string(reached.Limit.Resource))
		key.tight.Store(true)
		if !away {
			key.reached(reached, now)
		}
		x.showLimits([]store.Limit{reached.Limit}, []int64{reached.Used}, now)
		return beyond(reached, reached.RetryAfter)
	case errors.Is(err, store.ErrBusy):
		return refusedBusy(ctx)
	case err != nil:
		return reply.Refuse(http.StatusInternalServerError, "", "%v", err)
	case r != nil:
		x.showLimits(r.Limits, r.Used, now)
		if !away {
			x.counted = r.Limits
		}
	}
	return nil
}

func refusedModel(name string) *reply.Refusal {
	return &reply.Refusal{Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Text: fmt.Sprintf("model: %q is not served here, or not to this key", name)}
}

// reservation returns the most that the answer may use; nil without limits.
func (x *exchange) reservation(now time.Time) (*store.Reservation, *reply.Refusal) {
	r, limits := x.request, x.who.key.limitsOf(x.request.Model)
	if slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Resource == store.Tokens || l.Resource == store.Money }) && !r.Endpoint.Counts() {
		x.bound()
		if r.HasHiddenContext() {
			r.PromptTokens += x.g.cfg.ContextTokens
		}
	}
	return x.reservationOf(openai.Usage{Prompt: r.PromptTokens, Completion: r.MaxCompletion()}, now)
}

// reservationOf returns the reservation of a usage; nil without limits.
func (x *exchange) reservationOf(u openai.Usage, now time.Time) (*store.Reservation, *reply.Refusal) {
	key := x.who.key
	limits := key.limitsOf(x.request.Model)
	if len(limits) == 0 {
		return nil, nil
	}
	cost := store.Cost{Requests: 1}
	if !x.free && !x.request.Endpoint.Counts() { // counting uses none
		cost.Tokens, cost.Money = int64(u.Total()), moneyOf(x.entry.Endpoint, key.pool.Reserve(x.request.Model, now), u)
	}
	if slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Resource == store.Parallel }) {
		cost.Parallel = 1
	}
	if refused := exceeds(cost, limits); refused != nil {
		return nil, refused
	}
	longest := key.pool.Longest() + x.g.cfg.DrainTime + time.Minute // of an answer, with all attempts at upstreams
	return &store.Reservation{ID: store.NewID(), Key: key.id, Limits: limits, At: now, Cost: cost, Lease: longest}, nil
}

// bound bounds a request without a bound: an answer must not exceed its reservation. A model's own most tokens are a
// bound that it need not be told.
func (x *exchange) bound() {
	r, most := x.request, x.who.key.pool.MaxTokens(x.request.Model)
	if r.MaxTokens == 0 && most > 0 {
		r.MaxTokens = most
	} else if r.Bound(x.g.cfg.ReplyTokens) {
		x.added = r.MaxTokens
	}
}

// ask asks an upstream, or the cache if that is permitted. The result is recorded in any case.
func (x *exchange) ask(cached bool) {
	g, began := x.g, time.Now()
	switch {
	case x.request.Stream:
		x.out = reply.New(x.w, g.cfg.WriteTimeout)
		x.answer, x.err = x.who.key.pool.AskStream(x.ctx, x.request, x.who.key.tenant, x.alive)
		g.stats.Asked(x.answer, began)
		x.first = time.Since(x.began)
	case cached && g.cache != nil && x.request.Deterministic():
		sum := sha256.Sum256(x.request.Key())
		var k *CachedAnswer
		k, x.how, x.err = g.cache.Get(x.ctx, x.who.key.id+"\x00"+string(sum[:]), func(ctx context.Context) (*CachedAnswer, error) {
			a, err := g.ask(ctx, x)
			return &CachedAnswer{a}, err
		})
		if x.err == nil {
			x.answer = k.Answer
		}
	default:
		x.answer, x.err = g.ask(x.ctx, x)
	}
	x.asked = time.Since(began)
	if x.err == nil && !x.request.Stream {
		x.log.add(x.answer.Reply.Text)
	}
	if a := x.answer; x.err == nil && !x.request.Stream && !x.held.Hold(int64(len(a.Body))) {
		e := upstream.Crowded(a.Usage.Completion)
		e.Upstream, e.Attempts, e.Usage = a.Upstream, a.Attempts, &a.Usage
		x.err = e
	}
}

// ask asks an upstream for a whole answer.
func (g *Gateway) ask(ctx context.Context, x *exchange) (*upstream.Answer, error) {
	began := time.Now()
	a, err := x.who.key.pool.Ask(ctx, x.request, x.who.key.tenant)
	g.stats.Asked(a, began)
	return a, err
}

// alive sends a stream's client a comment while an upstream works.
func (x *exchange) alive() {
	x.out.Alive(x.setID)
	if x.out.Gone {
		x.ctx.Leave()
	}
}

// setID sets the response's header fields that are known before an upstream answers.
func (x *exchange) setID(h http.Header) {
	h.Set("X-Dyno-Queue-Seconds", strconv.FormatFloat(x.entry.Queue.Seconds(), 'f', 6, 64))
	if x.added > 0 {
		h.Set("X-Dyno-Max-Tokens", strconv.Itoa(x.added))
	}
}

// setSource sets the response's header fields about the answer's source.
func (x *exchange) setSource() {
	h := x.w.Header()
	x.setID(h)
	if x.answer.Attempts > 0 {
		h.Set("X-Dyno-Upstream", x.answer.Upstream)
		h.Set("X-Dyno-Attempts", strconv.Itoa(x.answer.Attempts))
	}
	if list := x.answer.Dropped; len(list) > 0 {
		h.Set("X-Dyno-Dropped", openai.Brief(strings.Join(list, ", ")))
	}
	if x.how == cache.Made {
		maps.Copy(h, x.passed(x.answer.Header))
	} else {
		h.Set("X-Dyno-Cache", [...]string{"", "joined", "hit"}[x.how])
	}
}

// startStream begins a streamed answer. It frees the request's text, because a stream may last long.
func (x *exchange) startStream() {
	x.request.Forget()
	x.body.free()
	x.out.Head()
	x.setSource()
	x.answer.Header = nil // sent
}

// pass reads a stream to its end, passes every event to each, and closes the stream. It sets x.err on a failure.
func (x *exchange) pass(each func(e *openai.Event, more bool)) {
	g, s := x.g, x.answer.Stream
	defer s.Close()
	defer x.deliver(s.Progress)()
	g.stats.Streams.Add(1)
	defer g.stats.Streams.Add(-1)
	for {
		e, err := s.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				x.err = err
			}
			return
		}
		x.event.begin()
		x.log.addEvent(e)
		each(e, s.More())
		if x.out.Gone {
			x.ctx.Leave()
		}
		x.event.end(g.stats)
	}
}

// eventTimes are when an event came and went, and the one before it.
type eventTimes struct{ came, went, cameBefore time.Time }

func (p *eventTimes) begin() { p.cameBefore, p.came = p.came, time.Now() }

func (p *eventTimes) end(stats *metrics.Stats) {
	now := time.Now()
	stats.Event.Observe(now.Sub(p.came).Seconds())
	if !p.cameBefore.IsZero() {
		stats.Gaps[0].Observe(p.came.Sub(p.cameBefore).Seconds())
		stats.Gaps[1].Observe(now.Sub(p.went).Seconds())
	}
	p.went = now
}

// A historyState says whether a turn was kept.
type historyState string

const (
	historyKept         historyState = "kept"          // it is in the archive
	historyNotConfirmed historyState = "not_confirmed" // the archive has not confirmed it
	historyConflict     historyState = "conflict"      // another turn came in between: it is not kept
	historyUnavailable  historyState = "unavailable"   // the conversation could not be read: it is not kept
)

// account writes an answer to the ledger, and reports its usage to the limits. The ledger comes first: a crash in
// between leaves only a reservation. The entry is written together with others, and no request waits for it.
func (x *exchange) account() {
	g, e := x.g, &x.entry
	u, price := x.usage()
	x.used = u
	e.Cached = x.err == nil && x.how != cache.Made
	cost := store.Cost{Requests: 1}
	if e.Cached || x.free {
		price = upstream.Price{}
	} else {
		cost.Tokens = int64(u.Total())
	}
	terms := charge(e, u, price)
	cost.Money = e.Money
	if _, known := g.prices.LoadOrStore(e.Price, true); known {
		terms = nil
	}
	e.FirstByte, e.Took = x.first, time.Since(x.began)
	if e.Outcome == store.Unfinished {
		x.keepBill(price)
	} else {
		g.stats.Ended(e)
	}
	kept := *e // the waiting entry must not keep the request alive
	if err := g.batch.Later(store.Record{Entry: &kept, Price: terms}); err != nil {
		g.log.Error("an answer is not in the ledger", "id", e.ID, "key", e.Key, "prompt", e.Prompt, "completion", e.Completion, "error", err)
		g.stats.Unaccounted.Inc()
		g.prices.Delete(e.Price) // it may not be kept either
	}
	x.claim.Use(cost)
}

// charge sets an entry's usage and money, and returns what its price is; nil without one.
func charge(e *store.Entry, u openai.Usage, price upstream.Price) *store.Price {
	e.Prompt, e.Completion, e.Kinds, e.Units, e.Estimated = int64(u.Prompt), int64(u.Completion), u.Kinds(), int64(u.Units), u.Estimated
	name, terms := price.Version()
	if e.Price, e.Money = name, moneyOf(e.Endpoint, price, u); name == "" {
		return nil
	}
	return &store.Price{Name: name, Terms: terms}
}

// moneyOf returns the price of a usage at an endpoint.
func moneyOf(endpoint string, price upstream.Price, u openai.Usage) int64 {
	if endpoint == openai.Batch {
		return price.OfBatch(u)
	}
	return price.Of(u)
}

// usage sets the answer's outcome, and returns its usage and price.
func (x *exchange) usage() (openai.Usage, upstream.Price) {
	e, gone := &x.entry, x.ctx.Gone()
	if a := x.answer; a != nil && (x.err == nil || a.Stream != nil) {
		e.Upstream, e.Model, e.Attempts = a.Upstream, a.Model, int64(a.Attempts)
		switch {
		case x.unsettled != nil && (a.Reply.Pending || a.Stream != nil && a.Stream.Continues()):
			e.Outcome = store.Unfinished
		case x.err == nil && gone:
			e.Outcome = outcomeDrained
		case x.err == nil:
			e.Outcome = outcomeOK
		case gone || errors.Is(x.err, answer.ErrLeft) || errors.Is(x.err, answer.ErrStopped):
			e.Outcome = outcomeAborted
		default:
			e.Outcome = outcomeFailed
		}
		if a.Stream != nil {
			return a.Stream.Usage(), a.Prices.At(e.At)
		}
		x.first = time.Since(x.began)
		return a.Usage, a.Prices.At(e.At)
	}
	x.first = 0
	e.Outcome = outcomeOf(x.err, gone || x.ctx.Stopped())
	sent, late, completion := false, false, 0
	var fault *upstream.Error
	if errors.As(x.err, &fault) {
		e.Upstream, e.Attempts = fault.Upstream, int64(fault.Attempts)
		sent, late, completion = fault.Sent, fault.Late, fault.Completion
		if fault.Usage != nil && x.how == cache.Made {
			return *fault.Usage, x.who.key.pool.PricesAt(fault.Upstream, fault.Model).At(e.At)
		}
	}
	// The upstream has answered, or probably has. A request that waited for another's answer has used nothing.
	if (e.Outcome == outcomeAborted && sent || late || completion > 0) && x.how == cache.Made {
		if x.request.Background { // it continues at the upstream
			completion = max(completion, x.request.MaxCompletion())
		}
		return openai.Usage{Prompt: x.request.PromptTokens, Completion: completion, Estimated: true}, x.who.key.pool.Price(x.request.Model, e.At)
	}
	return openai.Usage{}, upstream.Price{}
}

// keep waits until a turn is kept, even if the client has gone.
func (x *exchange) keep(turn *store.Turn) historyState {
	g := x.g
	_, span := trace.StartCall(x.r.Context(), "archive")
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
	g.stats.Degraded("archive")
	return historyNotConfirmed
}

// overhead notes the gateway's own time of a whole answer, without the time of others.
func (x *exchange) overhead(others time.Duration) {
	x.g.stats.Overhead.Observe((time.Since(x.began) - x.asked - others - x.entry.Queue).Seconds())
}
