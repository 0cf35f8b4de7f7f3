package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dyno/internal/contentcoding"
	"dyno/services/bot/breaker"
	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/bot/trace"
)

// A Pool asks upstreams. Its methods may be called from any goroutine.
type Pool struct {
	cfg     Config
	log     *slog.Logger
	own     []*http.Transport // none if somebody else's is used
	targets []*target
	models  []string
	budget  *retryBudget
	random  func(n int64) int64
	retries atomic.Uint64
	refused atomic.Uint64 // retries that the budget did not allow
}

type target struct {
	Upstream
	index   int // in the order of the configuration
	via     http.RoundTripper
	breaker breaker.Breaker             // of the server
	models  map[string]*breaker.Breaker // by its own names; never changed
	urls    [2]*url.URL                 // by endpoint; never changed
	places  *budget.Budget

	noOptions atomic.Bool // it is sent no options of streams, which it does not know

	asked, failures, cooled atomic.Uint64
	logged                  atomic.Int64 // when a failure was logged last, in Unix seconds
}

// State is what is known of an upstream, at one moment.
type State struct {
	Name                    string
	Active                  int64
	Asked, Failures, Cooled uint64 // requests; of these, failed; times that it began to cool down
	Ready                   bool
	// Cooling are the models that are not asked now, by the names that clients use, although the server is.
	Cooling []string
}

// New returns a pool. The error lists every fault of c.
func New(c Config) (*Pool, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: c, log: c.Logger, random: rand.Int64N}
	p.budget = p.newRetryBudget()
	if c.Codec.JSON == nil {
		p.cfg.Codec = openai.Standard()
	}
	if c.Readers == nil {
		p.cfg.Readers = &openai.ReaderPool{}
	}
	models := map[string]bool{}
	for i, u := range c.Upstreams {
		u.URL, u.Bound = strings.TrimSuffix(u.URL, "/"), u.bound()
		u.FirstByte, u.Idle = cmp.Or(u.FirstByte, c.FirstByte), cmp.Or(u.Idle, c.Idle)
		places := u.MaxConcurrent
		if n := c.Client.Connections; c.Tenants > 1 && n > 0 && !c.Client.HTTP2 {
			places = min(places, n) // who waits for a connection would wait for whoever has them
		}
		t := &target{Upstream: u, index: i, via: c.Transport, places: budget.New(int64(places), c.Tenants)}
		p.initBreaker(&t.breaker)
		t.models = map[string]*breaker.Breaker{}
		for _, own := range u.Models {
			if t.models[own] == nil {
				t.models[own] = &breaker.Breaker{}
				p.initBreaker(t.models[own])
			}
		}
		t.noOptions.Store(u.NoStreamOptions)
		if t.via == nil { // each has its own policy
			own := outward.NewTransport(outward.Config{
				Policy: u.policy(c.Policy), MaxConnections: c.Client.Connections, MaxIdle: c.Client.Idle, IdleTimeout: c.Client.IdleTime,
				HTTP2: c.Client.HTTP2,
			})
			p.own, t.via = append(p.own, own), own
		}
		for _, e := range []openai.Endpoint{openai.Chat, openai.Responses} {
			to, err := url.Parse(u.URL + e.Path())
			if err != nil {
				return nil, err
			}
			t.urls[e] = to
		}
		t.goOn(c.Before, c.Tenants)
		p.targets = append(p.targets, t)
		for name := range u.Models {
			models[name] = true
		}
	}
	p.models = slices.Sorted(maps.Keys(models))
	if c.Before != nil {
		p.retries.Store(c.Before.retries.Load())
		p.refused.Store(c.Before.refused.Load())
	}
	return p, nil
}

// goOn goes on with what a pool before has counted for the upstream of the same name, and with its places: calls that it
// has under way take theirs.
func (t *target) goOn(before *Pool, tenants int) {
	if before == nil {
		return
	}
	for _, b := range before.targets {
		if b.Name != t.Name {
			continue
		}
		t.asked.Store(b.asked.Load())
		t.failures.Store(b.failures.Load())
		t.cooled.Store(b.cooled.Load())
		if b.URL == t.URL {
			t.noOptions.Store(t.noOptions.Load() || b.noOptions.Load() && !b.NoStreamOptions)
		}
		if b.places.Most() == t.places.Most() {
			t.places = b.places
			t.places.SetTenants(tenants)
		}
	}
}

// Close frees connections that are not in use.
func (p *Pool) Close() {
	for _, t := range p.own {
		t.CloseIdleConnections()
	}
}

// Models are the names that clients use, in order.
func (p *Pool) Models() []string { return p.models }

// Has tells whether some upstream has a model.
func (p *Pool) Has(model string) bool {
	_, ok := slices.BinarySearch(p.models, model)
	return ok
}

// Price is the highest of a model's at any upstream that has it: for an answer of which it is not known who made it.
func (p *Pool) Price(model string) Price {
	return p.most(model, func(p Price) Price { return p })
}

// Reserve is the highest price of any kind of token of a model, at any upstream that has it: what to reserve before it is
// known who answers, and by which tokens.
func (p *Pool) Reserve(model string) Price { return p.most(model, Price.highest) }

func (p *Pool) most(model string, of func(Price) Price) (most Price) {
	for _, t := range p.targets {
		if t.Models[model] != "" {
			price := of(t.PriceOf(model))
			most = Price{Prompt: max(most.Prompt, price.Prompt), Completion: max(most.Completion, price.Completion)}
		}
	}
	return most
}

// PriceAt is what tokens of a model cost at an upstream.
func (p *Pool) PriceAt(upstream, model string) Price {
	for _, t := range p.targets {
		if t.Name == upstream {
			return t.PriceOf(model)
		}
	}
	return Price{}
}

// States reads what is known of the upstreams, in the order of the configuration.
func (p *Pool) States() []State {
	var list []State
	now := time.Now()
	for _, t := range p.targets {
		s := State{t.Name, t.places.Held(), t.asked.Load(), t.failures.Load(), t.cooled.Load(), t.breaker.Answers(now), nil}
		for name, own := range t.Models {
			if !t.models[own].Answers(now) {
				s.Cooling = append(s.Cooling, name)
			}
		}
		slices.Sort(s.Cooling)
		s.Ready = s.Ready && len(s.Cooling) < len(t.Models)
		list = append(list, s)
	}
	return list
}

// Retries is how many requests were tried again, and how many were not for want of
// budget.
func (p *Pool) Retries() (made, refused uint64) { return p.retries.Load(), p.refused.Load() }

// An Error is why a request has no answer.
type Error struct {
	// Status is what the client should be told: the upstream's own if the request was at
	// fault, else one of 404, 429, 502, 503 and 504; 0 if it has gone.
	Status int
	Text   string
	// RetryAfter is when to come back; 0 is not known.
	RetryAfter time.Duration
	// Upstream is who was asked last; "" if none was.
	Upstream string
	// Attempts is how often one was asked.
	Attempts int
	// Sent says that an upstream had all of the request, or may have.
	Sent bool
	// Late says that an upstream had all of the request and did not answer in time, or did not come to the end
	// of its answer: it has worked on it, or may have.
	Late bool
	// Completion is about how many tokens an answer has of which the client gets nothing, and that is to be paid.
	Completion int
	// Usage is what such an answer has used, as the upstream says; nil if it does not.
	Usage *openai.Usage
	// Body is the upstream's answer to a request that was at fault; nil otherwise.
	Body []byte
	// Type and Code are the upstream's own names of the failure; "" if it names none, or if they are about the gateway's account.
	Type, Code string
	// Event is the upstream's own event that ends a stream of /v1/responses, without its key; nil if it has sent none that
	// clients know.
	Event *openai.Frame

	err     error // with all that is known: it may name addresses of this network, which are not the client's business
	fatal   bool  // another upstream would not do better
	idle    bool  // says nothing about the upstream
	unclear bool  // the upstream or who asked may be at fault: no reason to have it cool down
	once    bool  // the upstream has the request, or has answered it: it is not asked for the same again
	options bool  // it does not know the options of streams that it was sent
	server  bool  // no model could be asked: it is about the upstream as a whole
	// answered says that the server is there, whatever it says of the model.
	answered bool
}

// left is e for who has gone: what has come is paid all the same.
func (e *Error) left(attempts int, upstream string, why error) *Error {
	return &Error{Text: why.Error(), Upstream: upstream, Attempts: attempts, Sent: e.Sent, Late: e.Late, Completion: e.Completion, Usage: e.Usage, err: why}
}

func (e *Error) Error() string {
	if e.Upstream != "" {
		return "upstream " + e.Upstream + ": " + e.Text
	}
	return e.Text
}

// reason says what kind of failure it is, without what the upstream has said.
func (e *Error) reason() string {
	switch {
	case e.idle:
		return "left"
	case e.Body != nil:
		return "refused"
	}
	return http.StatusText(e.Status)
}

func (e *Error) Unwrap() error { return e.err }

// detail is what the operator is told.
func (e *Error) detail() string {
	if e.err != nil {
		return e.err.Error()
	}
	return e.Text
}

// An Answer is what an upstream has answered.
type Answer struct {
	Upstream string
	Price    Price
	Attempts int // that it took, 1 or more
	// Body and Reply are of an answer that is no stream; Usage is what it has used.
	Body  []byte
	Reply openai.Reply
	Usage openai.Usage
	// Stream is the other kind of answer; nil for that one. It must be closed.
	Stream *Stream
}

// pauses between tries of the same upstream: from the first to twice that, doubled each
// time.
const firstPause = 25 * time.Millisecond

// Ask asks for an answer. Who has answered the first event of a stream has answered it:
// no other upstream is asked afterwards. The error is an *Error, which is ctx's if that has ended. Of is who asks,
// and who holds what comes of an answer that is no stream, until it is returned.
func (p *Pool) Ask(ctx context.Context, r *openai.Request, of *Tenant) (*Answer, error) {
	return p.AskStream(ctx, r, of, nil)
}

// AskStream is Ask with alive, which is called while an upstream shows that it is at work on a stream, but has no event: from
// time to time, by the goroutine that asks or that reads the stream. nil is nobody.
func (p *Pool) AskStream(ctx context.Context, r *openai.Request, of *Tenant, alive func()) (*Answer, error) {
	if !p.Has(r.Model) {
		return nil, &Error{Status: http.StatusNotFound, Text: fmt.Sprintf("model %q is not served here", r.Model)}
	}
	retries := p.budget
	if of != nil {
		retries = of.retries
	}
	retries.request()
	w := &want{request: r, of: of, alive: alive, told: time.Now()}
	// True in tried are those that are not asked again. Failed is not cleared.
	tried, failed := map[*target]bool{}, map[*target]bool{}
	var last *Error
	for attempt, bound := 1, p.cfg.Attempts; ; attempt++ {
		s, none := p.pick(r.Model, tried, of)
		if none != nil && len(tried) > 0 && attempt <= bound && p.leaves(r.Model, tried) {
			// All that are well have been tried: once more, after a pause.
			forget(tried)
			if err := p.pause(ctx, attempt); err != nil {
				return nil, last.left(last.Attempts, last.Upstream, ctx.Err())
			}
			s, none = p.pick(r.Model, tried, of)
		}
		if none != nil {
			if last != nil {
				if !last.once {
					last.RetryAfter = max(last.RetryAfter, none.RetryAfter)
				}
				return nil, last
			}
			return nil, none
		}
		t := s.target
		a, err := p.ask(ctx, s, failed[t], w)
		if err == nil {
			a.Attempts = attempt
			return a, nil
		}
		if last != nil {
			err.Sent, err.Late, err.Completion = err.Sent || last.Sent, err.Late || last.Late, max(err.Completion, last.Completion)
			if last.Late || last.Completion > 0 {
				err.Usage = nil // one has told, and another has not
			}
		}
		if ctx.Err() != nil && err.Body == nil {
			return nil, err.left(attempt, t.Name, ctx.Err())
		}
		err.Attempts = attempt
		last = err
		if err.options { // no failure: it is asked without them
			if w.noOptions == nil {
				w.noOptions = map[*target]bool{}
			}
			w.noOptions[t] = true
			bound++
			continue
		}
		tried[t] = err.once
		if err.fatal || attempt == bound || !p.leaves(r.Model, tried) {
			return nil, err
		}
		if !retries.retry() {
			p.refused.Add(1)
			return nil, err
		}
		p.retries.Add(1)
		failed[t] = true
	}
}

// leaves tells whether some upstream may be asked, or asked again.
func (p *Pool) leaves(model string, tried map[*target]bool) bool {
	return slices.ContainsFunc(p.targets, func(t *target) bool { return t.Models[model] != "" && !tried[t] })
}

// forget removes those that may be asked again.
func forget(tried map[*target]bool) {
	maps.DeleteFunc(tried, func(_ *target, once bool) bool { return !once })
}

// A want is what is asked for, by all attempts.
type want struct {
	request   *openai.Request
	of        *Tenant
	alive     func()           // nil is nobody
	told      time.Time        // when alive was called last, an event was returned, or who asks began to wait
	noOptions map[*target]bool // that are not sent options of streams
}

// pause waits before the same upstreams are tried again.
func (p *Pool) pause(ctx context.Context, attempt int) error {
	d := firstPause << min(attempt-2, 8) // the second try is the first that waits
	timer := time.NewTimer(d + time.Duration(p.random(int64(d))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pick takes an upstream for a request, one that has not been tried. If there is none
// it says why.
func (p *Pool) pick(model string, tried map[*target]bool, of *Tenant) (slot, *Error) {
	now := time.Now()
	for {
		var (
			candidates []*target
			busy       string
			soonest    time.Time
		)
		for _, t := range p.targets {
			if _, before := tried[t]; before || t.Models[model] == "" {
				continue
			}
			s := p.slot(t, of, model)
			ready, when := s.ready(now)
			all, own := s.place.Full()
			switch {
			case !ready:
				if soonest.IsZero() || when.Before(soonest) {
					soonest = when
				}
			case all:
				busy = "all upstreams are busy"
			case own:
				busy = "this key has as many requests at the upstreams as one may have: others need the rest"
			default:
				candidates = append(candidates, t)
			}
		}
		if len(candidates) == 0 {
			e := &Error{Status: http.StatusServiceUnavailable, Text: "no upstream is well", RetryAfter: time.Second}
			if busy != "" {
				e.Text = busy
			} else if !soonest.IsZero() {
				e.RetryAfter = max(soonest.Sub(now), time.Second)
			}
			return slot{}, e
		}
		s := p.slot(choose(candidates, p.random), of, model)
		if !s.place.Hold(1) {
			continue // others have taken the last place
		}
		if s.begin(now) {
			s.target.asked.Add(1)
			return s, nil
		}
		s.place.Keep(0)
	}
}

// Why a call was given up, as the cause of its context.
var (
	errFirstByte = errors.New("nothing came in time")
	errIdle      = errors.New("nothing more came in time")
	errTotal     = errors.New("it took too long")
)

// isLate tells whether a call was given up because of its time, rather than by who asked.
func isLate(cause error) bool {
	return errors.Is(cause, errFirstByte) || errors.Is(cause, errIdle) || errors.Is(cause, errTotal)
}

// ask asks one upstream. Again says that the request has failed there before.
func (p *Pool) ask(ctx context.Context, s slot, again bool, w *want) (_ *Answer, failure *Error) {
	t, r := s.target, w.request
	c := &call{pool: p, slot: s, again: again, request: r, options: !t.noOptions.Load() && !w.noOptions[t]}
	within, span := trace.StartCall(ctx, "upstream")
	c.span = span
	c.span.Text("upstream.name", t.Name)
	c.span.Text("gen_ai.request.model", t.Models[r.Model])
	c.ctx, c.cancel = context.WithCancelCause(within)
	c.total = time.AfterFunc(p.cfg.Total, func() { c.cancel(errTotal) })
	defer func() {
		if failure != nil {
			failure.Upstream, failure.Sent = t.Name, c.sent.Load()
			c.end(ctx, failure)
		}
	}()
	asked := r.Body(t.Models[r.Model], t.Bound, c.options)
	// A body that net/http knows to be in memory goes out together with its head, in one write.
	var question *bytes.Reader
	body := func() (io.ReadCloser, error) {
		question = bytes.NewReader(asked)
		return io.NopCloser(question), nil
	}
	traced := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			c.sent.Store(true)
		}
	}})
	first, _ := body()
	req, err := http.NewRequestWithContext(traced, http.MethodPost, "", first)
	if err != nil {
		return nil, &Error{Status: http.StatusBadGateway, Text: errUnreached.Error(), err: err}
	}
	req.ContentLength, req.GetBody = int64(len(asked)), body
	req.URL, req.Host = t.urls[r.Endpoint], t.urls[r.Endpoint].Host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity") // without it, any coding would be welcome (RFC 9110, section 12.5.3)
	trace.Inject(c.ctx, req.Header)
	if t.Key != "" {
		req.Header.Set("Authorization", "Bearer "+string(t.Key))
	}
	if r.Stream {
		req.Header.Set("Accept", "text/event-stream")
		c.timer = time.AfterFunc(t.FirstByte, c.silent)
	}
	// Without http.Client, which would follow redirects: they are not followed, and it takes a
	// third of the stack.
	resp, err := t.via.RoundTrip(req) //nolint:bodyclose // the call closes it at its end
	if asked = nil; c.sent.Load() {   // the request goes on as long as the stream does
		question.Reset(nil)
	}
	if err != nil {
		return nil, c.fault(fmt.Errorf("%w: %w", errUnreached, err))
	}
	c.body = resp.Body
	coding := strings.Join(resp.Header.Values("Content-Encoding"), ",")
	text, err := contentcoding.NewReader(resp.Body, coding, maxDecoded)
	if err != nil {
		return nil, c.coded(resp.StatusCode, err)
	}
	if text != io.Reader(resp.Body) {
		text, resp.ContentLength = decoded{text}, -1
	}
	c.span.Number("http.response.status_code", int64(resp.StatusCode))
	if resp.StatusCode != http.StatusOK {
		return nil, c.status(resp, text)
	}
	if !r.Stream {
		var holder *budget.Tenant
		if w.of != nil {
			holder = w.of.answers
		}
		return c.whole(t, text, resp.ContentLength, holder)
	}
	resp.Header = nil // which the body would hold until its end
	c.timer.Reset(t.FirstByte)
	stream := &Stream{call: c, want: w, reader: p.cfg.Readers.Get(text)}
	stream.reader.Most, stream.reader.Alive = int(p.cfg.MaxEventBytes), stream.alive
	if failure := stream.begin(); failure != nil {
		stream.giveBack()
		return nil, failure
	}
	c.begun.Store(true)
	c.timer.Stop()
	if c.decides() { // others need not wait for its end
		c.good()
	}
	return &Answer{Upstream: t.Name, Price: t.PriceOf(r.Model), Stream: stream}, nil
}

// maxDecoded bounds what one answer decodes to. Answers and events have bounds of their own.
const maxDecoded = 1 << 30

// coded refuses an answer whose Content-Encoding is not known. It is not asked for again: it would be paid for again.
func (c *call) coded(status int, err error) *Error {
	e := &Error{Status: http.StatusBadGateway, Text: "its answer cannot be read: " + err.Error(), err: err, fatal: true, Late: status == http.StatusOK}
	if status != http.StatusOK {
		c.sent.Store(false)
	}
	return e
}

// decoded reads an answer that has a Content-Encoding. What is no such body is not in the form of an answer.
type decoded struct{ from io.Reader }

func (d decoded) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	var network net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.As(err, &network) {
		return n, err
	}
	return n, fmt.Errorf("%w: %w", openai.ErrForm, err)
}

// A call is a request to one upstream.
type call struct {
	slot
	pool    *Pool
	again   bool // another call of the request has failed at this upstream: they count once
	request *openai.Request
	options bool            // a stream has options
	sent    atomic.Bool     // all of the request is on its way
	begun   atomic.Bool     // the first event of a stream has come
	ctx     context.Context // of the call
	cancel  context.CancelCauseFunc
	total   *time.Timer // cancels when it takes too long
	timer   *time.Timer // cancels when nothing comes; nil for what is no stream
	body    io.ReadCloser
	span    trace.Span
	ended   bool
}

// silent cancels because nothing has come in time.
func (c *call) silent() {
	if c.begun.Load() {
		c.cancel(errIdle)
		return
	}
	c.cancel(errFirstByte)
}

// end frees what the call has, and counts how it ended: failure is nil if it was good.
func (c *call) end(outer context.Context, failure *Error) {
	if c.ended {
		return
	}
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.body != nil {
		_ = c.body.Close()
	}
	c.total.Stop()
	c.cancel(nil)
	t := c.target
	c.place.Keep(0)
	if failure != nil {
		c.span.Fail(failure.reason())
	}
	c.span.End()
	switch {
	case failure == nil:
		c.good()
	case outer.Err() != nil || failure.idle:
		c.nothing()
	case failure.fatal:
		c.good() // it has answered: the request was at fault
	default:
		t.failures.Add(1)
		if failure.unclear || c.again && failure.RetryAfter == 0 {
			c.nothing()
		} else if own, all := c.failed(time.Now(), failure); own || all {
			t.cooled.Add(1)
			model := c.request.Model
			if failure.server {
				model = "" // all of them
			}
			c.pool.log.Warn("upstream cools down", "upstream", t.Name, "model", model, "for_all_keys", all, "error", c.pool.brief(failure.detail()))
			return
		}
		level := slog.LevelDebug
		if now := time.Now().Unix(); t.logged.Swap(now) != now { // not for each of very many requests
			level = slog.LevelWarn
		}
		if c.pool.log.Enabled(outer, level) {
			c.pool.log.Log(outer, level, "upstream failed", "upstream", t.Name, "error", c.pool.brief(failure.detail()))
		}
	}
}

// brief is what is logged of what an upstream says.
func (p *Pool) brief(text string) string {
	if p.cfg.Mask != nil {
		text = p.cfg.Mask(text)
	}
	return openai.Brief(text)
}

// Crowded says that there is no room for an answer that has that many tokens.
func Crowded(tokens int) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Text: "the answers that are under way are too large", RetryAfter: time.Second, Completion: tokens, err: budget.ErrFull, fatal: true}
}

// What clients are told of a call that failed.
var (
	errUnreached = errors.New("it cannot be reached")
	errBroken    = errors.New("its connection broke")
	errPending   = errors.New("the answer is still to come")
)

// fault says what went wrong on the way.
func (c *call) fault(err error) *Error {
	e := &Error{Status: http.StatusBadGateway, Text: errBroken.Error(), err: err}
	var none *openai.NoneError
	switch cause := context.Cause(c.ctx); {
	case isLate(cause):
		e.Status, e.Text, e.err = http.StatusGatewayTimeout, cause.Error(), cause
		e.Late = c.sent.Load()
		e.once = e.Late // it may be at work on it still, and be paid for it
		e.server = !e.Late
	case errors.Is(err, openai.ErrLarge): // as that of another upstream would be
		e.Text, e.fatal = err.Error(), true
	case errors.As(err, &none):
		none.Message = openai.ErrNone.Error() + ": " + none.Message
		return c.reported(none.Fault)
	case errors.Is(err, openai.ErrNone), errors.Is(err, errPending):
		e.Text = err.Error()
	case errors.Is(err, openai.ErrForm): // it would have it once more
		e.Text, e.once = openai.ErrForm.Error(), true
	case errors.Is(err, outward.ErrRefused):
		e.Text, e.server = "its address is not allowed", true
	case errors.Is(err, openai.ErrCut), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Text, e.err = openai.ErrCut.Error(), openai.ErrCut
	case errors.Is(err, errUnreached):
		e.Text, e.server = errUnreached.Error(), !c.sent.Load()
	}
	return e // others are of the network, and name both ends, or of the library for HTTP
}

// reported is a failure that the upstream itself reports.
func (c *call) reported(f openai.Fault) *Error {
	return &Error{Status: http.StatusBadGateway, Text: string(c.withoutKey([]byte(f.Message))), Type: f.Type, Code: f.Code}
}

// withoutKey returns what an upstream says without its key, which it may repeat.
func (c *call) withoutKey(text []byte) []byte {
	if c.target.Key == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte(c.target.Key), []byte("[key]"))
}

// tokens estimates how many tokens what has come of an answer is.
func (c *call) tokens(body []byte) int { return c.bounded(openai.TextBytes(body)) }

// bounded estimates how many tokens that many bytes of text are: at most as many as were asked for.
func (c *call) bounded(bytes int) int {
	n := openai.EstimateTokens(bytes)
	if most := c.request.MaxCompletion(); most > 0 {
		n = min(n, most)
	}
	return n
}

// maxRefusal bounds what is read of an answer that is none.
const maxRefusal = 64 << 10

// status says what a status but 200 means.
func (c *call) status(resp *http.Response, text io.Reader) *Error {
	c.sent.Store(false) // it has not worked on it
	e := &Error{Status: http.StatusBadGateway, Text: "status " + strconv.Itoa(resp.StatusCode), answered: true, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	body, _ := io.ReadAll(io.LimitReader(text, maxRefusal))
	body = c.withoutKey(body)
	f := c.pool.cfg.Codec.ParseFault(body)
	if f.Message != "" {
		e.Text += ": " + f.Message
	}
	e.Type, e.Code = f.Type, f.Code
	e.options = resp.StatusCode/100 == 4 && c.options && c.request.MayDropOptions() && openai.NamesOptions(body)
	if !json.Valid(body) { // or half of it: a string without its end cannot be masked
		body = []byte{}
	}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		e.Status = s
	case s == http.StatusServiceUnavailable:
		e.Status = s
	case s == http.StatusForbidden, s == http.StatusRequestTimeout, s == http.StatusConflict, s == http.StatusTooEarly:
		// Another may answer. But who asks such things again and again would have the upstream cool down for everybody.
		e.unclear = true
	case s == http.StatusNotFound && c.request.Continues():
		e.Status, e.Body, e.fatal, e.RetryAfter = s, body, true, 0 // what the request names is not there
	case s == http.StatusUnauthorized, s == http.StatusPaymentRequired, s == http.StatusNotFound, s == http.StatusProxyAuthRequired, s == http.StatusMisdirectedRequest:
		// The gateway's own fault: its key, its account, its URL, or which models it believes to be there.
		e.Type, e.Code = "", "" // a client would take it for its own
		e.server = s == http.StatusUnauthorized || s == http.StatusPaymentRequired || s == http.StatusProxyAuthRequired
	case 400 <= s && s < 500:
		e.Status, e.Body, e.fatal, e.RetryAfter = s, body, true, 0
	}
	return e
}

// retryAfter reads the field of that name (RFC 9110, section 10.2.3).
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter) //nolint:gosec // 31 bits
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// whole reads an answer that is no stream.
func (c *call) whole(t *target, from io.Reader, length int64, of *budget.Tenant) (*Answer, *Error) {
	most := c.pool.cfg.MaxAnswerBytes
	share := c.pool.cfg.Answers.Grant(of)
	defer share.Keep(0) // who asks holds it from then on
	if ahead := min(length, most, mostAhead); !share.Hold(ahead) {
		return nil, Crowded(c.bounded(int(ahead)))
	}
	body, err := readAll(share.Reader(io.LimitReader(from, most+1)), length)
	// failed is of an answer that has begun: the upstream has worked on it.
	failed := func(err error) *Error {
		e := c.fault(err)
		e.Late, e.Completion = true, c.tokens(body)
		return e
	}
	switch {
	case errors.Is(err, budget.ErrFull):
		return nil, Crowded(c.tokens(body))
	case err != nil:
		return nil, failed(err)
	}
	if int64(len(body)) > most { // as that of another upstream would
		return nil, &Error{Status: http.StatusBadGateway, Text: fmt.Sprintf("the answer has more than %d bytes", most), Completion: c.tokens(body), Usage: c.usageBehind(from, body), fatal: true}
	}
	reply, err := c.pool.cfg.Codec.ParseReply(c.request.Endpoint, body)
	switch {
	case err == nil && reply.Pending && !c.request.Background:
		return nil, failed(errPending)
	case errors.Is(err, openai.ErrNone): // it says so itself
		c.sent.Store(false)
		return nil, c.fault(err)
	case err != nil:
		return nil, failed(err)
	}
	a := &Answer{Upstream: t.Name, Price: t.PriceOf(c.request.Model), Body: body, Reply: reply}
	a.Usage = openai.Usage{Prompt: c.request.PromptTokens, Completion: openai.EstimateTokens(reply.Bytes), Estimated: true}
	if reply.Usage != nil {
		a.Usage = *reply.Usage
	}
	if reply.Pending { // what it comes to is told to nobody here: it may be all that was asked for
		a.Usage = soFar(a.Usage, c.request, c.request.MaxCompletion())
	}
	c.end(c.ctx, nil)
	return a, nil
}

// How much is read of an answer that is too large, to find what it has used: timesBehind times what one may have. Its last
// endBehind bytes are looked at.
const (
	timesBehind = 8
	endBehind   = 16 << 10
)

// usageBehind finds what an answer that is too large has used, which stands at its end; nil is not known.
func (c *call) usageBehind(from io.Reader, body []byte) *openai.Usage {
	end := bytes.Clone(body[max(0, len(body)-endBehind):])
	piece := make([]byte, endBehind)
	for left := timesBehind * c.pool.cfg.MaxAnswerBytes; left > 0; {
		n, err := from.Read(piece)
		left -= int64(n)
		end = append(end, piece[:n]...)
		end = end[max(0, len(end)-endBehind):]
		if errors.Is(err, io.EOF) {
			return openai.LastUsage(end)
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// mostAhead bounds the room that is made because an upstream says that so much will come.
const mostAhead = 1 << 20

// readAll reads to the end. Length is what is said to come, -1 if nothing is.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(r)
	}
	b := bytes.NewBuffer(make([]byte, 0, min(length, mostAhead)+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// A Stream is an answer event by event. It is used by one goroutine at a time, but
// Cancel may be called from any.
type Stream struct {
	call   *call
	want   *want
	reader *openai.Reader // nil once it is given back
	frame  openai.Frame
	event  openai.Event
	first  bool // the event that has been read is not given out yet
	usage  *openai.Usage
	tokens int // counted
	done   bool
	begun  choices // that have text
	ended  choices // that have a reason to have ended
}

// choices are some of a stream's, by their numbers. One that is beyond those that a request may have is not told from others like it.
type choices uint32

func (c *choices) add(n int) {
	const most = 31
	*c |= 1 << uint(max(0, min(n, most))) //nolint:gosec // not negative
}

// complete tells whether all choices have ended: some servers say nothing after that, and some keep the connection open.
func (s *Stream) complete() bool {
	return s.ended != 0 && s.begun&^s.ended == 0 && bits.OnesCount32(uint32(s.ended)) >= s.call.request.Choices
}

// Times of waiting for what follows the end of all choices: what was used, and the event that says that there is no more.
const (
	usageTimeout = time.Second
	doneTimeout  = restTimeout
)

// patience is how long the next event is waited for.
func (s *Stream) patience() time.Duration {
	switch {
	case !s.call.begun.Load():
		return s.call.target.FirstByte
	case !s.complete():
		return s.call.target.Idle
	case s.event.UsageOnly:
		return doneTimeout
	}
	return usageTimeout
}

// alivePause is how often who waits for an event is told that the upstream is at work. The first time is not before that, so
// that a failure until then has a status of its own.
const alivePause = time.Second

// alive notes that the upstream is at work on its next event.
func (s *Stream) alive() {
	if s.complete() { // nothing that matters is to come
		return
	}
	s.call.timer.Reset(s.patience())
	if w := s.want; w.alive != nil && time.Since(w.told) >= alivePause {
		w.alive()
		w.told = time.Now() // however long that took
	}
}

// read reads one event.
func (s *Stream) read() error {
	var err error
	if s.frame, err = s.reader.Next(); err != nil {
		return err
	}
	if err := s.call.pool.cfg.Codec.ParseEvent(s.call.request.Endpoint, s.frame, &s.event); err != nil {
		return err
	}
	for _, d := range s.event.Deltas {
		s.begun.add(d.Choice)
	}
	for _, choice := range s.event.Ended {
		s.ended.add(choice)
	}
	if s.event.Usage != nil {
		s.usage = s.event.Usage
	}
	if s.event.Bytes > 0 {
		s.tokens += openai.EstimateTokens(s.event.Bytes) // one at least
	}
	if s.frame.End() && !s.endsHere() {
		return fmt.Errorf("%w: it ends before its answer does", openai.ErrCut)
	}
	s.done = s.event.Done
	return nil
}

// endsHere tells whether [DONE] is the end of a whole answer: of /v1/chat/completions, if all choices that have text have
// a reason to have ended, and one has. Some gateways send [DONE] where their own upstream has left them. Events of
// /v1/responses say themselves which is the last one.
func (s *Stream) endsHere() bool {
	return s.call.request.Endpoint == openai.Chat && s.ended != 0 && s.begun&^s.ended == 0
}

// begin reads the first event.
func (s *Stream) begin() *Error {
	c, codec := s.call, s.call.pool.cfg.Codec
	if err := s.read(); err != nil {
		if errors.Is(err, openai.ErrLarge) {
			e := c.fault(err)
			e.Completion = c.tokens(s.reader.Rest())
			return e
		}
		if rest := s.reader.Rest(); errors.Is(err, openai.ErrCut) && json.Valid(rest) { // no stream at all
			if f := codec.ParseFault(rest); f.Message != "" {
				return c.reported(f)
			}
			err = fmt.Errorf("%w: it is no stream", openai.ErrForm)
		}
		return c.fault(err)
	}
	if s.event.Failed.Message != "" {
		return c.reported(s.event.Failed)
	}
	if t := c.target; s.want.noOptions[t] && t.noOptions.CompareAndSwap(false, true) {
		c.pool.log.Warn("upstream does not know stream_options: the tokens of its streams are estimated", "upstream", t.Name)
	}
	s.first = true
	return nil
}

// Next returns the next event, as it came and as what it means. Both are good until the
// next call. After the event that is Done there is io.EOF. Any other error is an *Error,
// or that of Ask's context: the answer is not complete.
func (s *Stream) Next() (openai.Frame, *openai.Event, error) {
	if s.first {
		s.first = false
		return s.frame, &s.event, nil
	}
	if s.done || s.reader == nil {
		return openai.Frame{}, nil, io.EOF
	}
	s.call.timer.Reset(s.patience())
	err := s.read()
	s.call.timer.Stop() // however long it takes to pass it on
	if err != nil || s.event.Failed.Message != "" {
		return s.fail(err)
	}
	if s.want.alive != nil {
		s.want.told = time.Now()
	}
	return s.frame, &s.event, nil
}

// fail ends a stream of which no more can be read, or whose upstream has given up: err is nil then. It is Next's.
func (s *Stream) fail(err error) (openai.Frame, *openai.Event, error) {
	var e *Error
	if err != nil {
		if e = s.call.fault(err); errors.Is(err, openai.ErrLarge) {
			e.Completion = s.call.tokens(s.reader.Rest())
		}
	} else {
		e = s.call.reported(s.event.Failed)
		if s.event.Typed {
			f := s.frame.Clone()
			f.Data, f.Raw = s.call.withoutKey(f.Data), s.call.withoutKey(f.Raw)
			e.Event = &f
		}
	}
	e.Upstream = s.call.target.Name
	s.tokens += e.Completion
	e.unclear = errors.Is(e.err, errTotal) // who reads it may be slow
	if cause := context.Cause(s.call.ctx); cause != nil && !isLate(cause) {
		// Who asked has gone, or Cancel was called.
		e.idle = true
		s.call.end(s.call.ctx, e)
		return openai.Frame{}, nil, cause
	}
	if err != nil && s.complete() { // there is its end only to be said
		s.done, s.frame, s.event = true, openai.EndFrame(), openai.Event{Done: true}
		return s.frame, &s.event, nil
	}
	s.call.end(context.Background(), e)
	return openai.Frame{}, nil, e
}

// More tells whether the next event has come already: Next does not wait for it.
func (s *Stream) More() bool { return s.first || s.reader != nil && s.reader.More() }

// Usage is what the answer has used so far: as the upstream says, or else counted. An answer in the background goes on when it is left: it may use all that was asked for.
func (s *Stream) Usage() openai.Usage {
	u := openai.Usage{Prompt: s.call.request.PromptTokens, Estimated: true}
	if s.usage != nil {
		u = *s.usage
	}
	if s.done {
		if s.usage == nil {
			u.Completion = s.tokens
		}
		return u
	}
	counted := s.tokens
	if s.call.request.Background && s.event.Failed.Message == "" {
		counted = max(counted, s.call.request.MaxCompletion())
	}
	return soFar(u, s.call.request, counted)
}

// soFar is what an answer that has not ended uses, if it has that many tokens: some upstreams say at the beginning that
// nothing is used yet, or one token.
func soFar(u openai.Usage, r *openai.Request, tokens int) openai.Usage {
	if u.Prompt == 0 && r.PromptTokens > 0 {
		u.Prompt, u.Estimated = r.PromptTokens, true
	}
	if u.Completion < tokens {
		u.Completion, u.Estimated = tokens, true
	}
	return u
}

// Cancel has Next fail at once.
func (s *Stream) Cancel() { s.call.cancel(context.Canceled) }

// maxRest and restTimeout bound what is read behind the end of a stream, so that its connection can be
// used again.
const (
	maxRest     = 4 << 10
	restTimeout = 100 * time.Millisecond // a client may wait for it
)

// giveBack has another stream be read with the reader's memory.
func (s *Stream) giveBack() {
	if s.reader != nil {
		s.call.pool.cfg.Readers.Put(s.reader)
	}
	s.reader, s.frame = nil, openai.Frame{}
}

// Close frees the connection. An answer that is not complete is left at its upstream.
// What Next has returned is not good any more.
func (s *Stream) Close() {
	defer s.giveBack()
	if s.call.ended {
		return
	}
	if s.done {
		s.call.timer.Reset(restTimeout)
		_, _ = io.CopyN(io.Discard, s.call.body, maxRest) // what it says does not matter any more
		s.call.end(s.call.ctx, nil)
		return
	}
	s.call.end(s.call.ctx, &Error{Text: "left", idle: true})
}
