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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"dyno/internal/contentcoding"
	"dyno/services/bot/breaker"
	"dyno/services/bot/budget"
	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/internal/trace"
)

// A Pool asks upstreams. Its methods may be called from any goroutine.
type Pool struct {
	cfg       Config
	log       *slog.Logger
	providers []*provider
	targets   []*target
	named     map[string][]*target // by clients' names
	wild      []*target            // with a name that stands for many
	models    []string
	longest   time.Duration
	budget    *retryBudget
	random    func(n int64) int64
	retries   atomic.Uint64
	refused   atomic.Uint64 // retries refused by the budget
}

// A provider is a server. Pools that replace one another share it while it does not change, with its connections.
type provider struct {
	Server

	name      string
	via       http.RoundTripper
	own       *http.Transport // nil if Config has one
	breaker   breaker.Breaker
	vendor    vendor
	native    [openai.Endpoints]bool // by endpoint: its requests and answers pass as they are
	noOptions atomic.Bool            // it does not know options of streams, and gets none
	logged    atomic.Int64           // time of the last logged failure, in Unix seconds
}

// A target is a deployment: a model of a provider.
type target struct {
	Deployment
	*health

	provider *provider
	places   *budget.Budget
	bound    openai.Bound
	form     dialect.Server
	drop     []dialect.Feature
	urls     [openai.Endpoints]*url.URL // by endpoint, unless clients' names stand for many models; never changed

	requests, tokens *quota
}

// A health is what is known of a deployment. Pools that replace one another share it while its provider does not change.
type health struct {
	breaker breaker.Breaker
	latency atomic.Int64 // nanoseconds, a mean; 0 is unknown

	asked, failures, cooled atomic.Uint64
}

// State is the state of a deployment at one time.
type State struct {
	ID       string    `json:"-"`
	Name     string    `json:"name" doc:"its name in answers, metrics and the ledger"`
	Model    string    `json:"-"` // the provider's name
	Models   []string  `json:"models" doc:"the names of the model that clients use"`
	State    string    `json:"state" doc:"closed: it is asked; open: it cools down; half_open: one request decides whether others follow"`
	Until    time.Time `json:"until,omitzero" doc:"when its cool-down ends, or its provider's"`
	Ready    bool      `json:"-"` // it is asked
	Active   int64     `json:"in_flight" doc:"calls under way"`
	Asked    uint64    `json:"calls" doc:"calls"`
	Failures uint64    `json:"failures" doc:"calls that failed"`
	Cooled   uint64    `json:"cooldowns" doc:"how often it began to cool down, for one key or for all"`
	Requests *int64    `json:"requests_left,omitempty" doc:"requests that it may be sent now, of requests_per_minute"`
	Tokens   *int64    `json:"tokens_left,omitempty" doc:"the same of tokens"`
}

// New returns a pool. The error lists every fault of c.
func New(c Config) (*Pool, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Before == nil {
		c.Before = &Pool{}
	}
	p := &Pool{cfg: c, log: c.Logger, random: rand.Int64N}
	p.budget = p.newRetryBudget()
	if c.Codec.JSON == nil {
		p.cfg.Codec = openai.Standard()
	}
	if c.Readers == nil {
		p.cfg.Readers = &openai.ReaderPool{}
	}
	for _, one := range c.Providers {
		if err := p.addProvider(one); err != nil {
			return nil, err
		}
	}
	for _, u := range c.Upstreams {
		if err := p.addProvider(Provider{u.Name, u.Server}); err != nil {
			return nil, err
		}
	}
	p.named = map[string][]*target{}
	for _, d := range c.All() {
		p.addTarget(d)
	}
	p.models, p.longest = slices.Sorted(maps.Keys(p.named)), p.bound()
	p.retries.Store(c.Before.retries.Load())
	p.refused.Store(c.Before.refused.Load())
	p.cfg.Before = nil // it would keep all pools before
	return p, nil
}

func (p *Pool) addProvider(of Provider) error {
	c := p.cfg
	of.Dialect = cmp.Or(of.Dialect, OpenAI)
	of.URL = of.base()
	for _, b := range c.Before.providers {
		if b.name == of.Name && reflect.DeepEqual(b.Server, of.Server) {
			p.providers = append(p.providers, b)
			return nil
		}
	}
	to := &provider{Server: of.Server, name: of.Name, via: c.Transport, vendor: vendors[of.Dialect]}
	p.initBreaker(&to.breaker)
	to.noOptions.Store(of.NoStreamOptions)
	if to.via == nil { // each has its own policy
		to.own = outward.NewTransport(outward.Config{
			Policy: of.policy(c.Policy), MaxConnections: c.Client.Connections, MaxIdle: c.Client.Idle, IdleTimeout: c.Client.IdleTime,
			HTTP2: c.Client.HTTP2,
		})
		to.via = to.own
	}
	for _, e := range to.vendor.native {
		to.native[e] = true
	}
	if _, err := to.at(""); err != nil {
		return err
	}
	p.providers = append(p.providers, to)
	return nil
}

func (p *Pool) addTarget(d Deployment) {
	c := p.cfg
	at := p.providers[slices.IndexFunc(p.providers, func(s *provider) bool { return s.name == d.Provider })]
	d.FirstByte, d.Idle, d.Total = cmp.Or(d.FirstByte, c.FirstByte), cmp.Or(d.Idle, c.Idle), cmp.Or(d.Total, c.Total)
	places := d.MaxConcurrent
	if n := c.Client.Connections; c.Tenants > 1 && n > 0 && !c.Client.HTTP2 {
		places = min(places, n) // a tenant must not wait for the connections of others
	}
	t := &target{Deployment: d, health: &health{}, provider: at, places: budget.New(int64(places), c.Tenants), bound: openai.Bound{Field: d.bound(at.URL), Only: d.Bound != ""}, form: at.vendor.form(at.Server, d), drop: d.drops()}
	t.requests, t.tokens = newQuota(d.Requests), newQuota(d.Tokens)
	p.initBreaker(&t.breaker)
	if !strings.Contains(d.Model, wildcard) {
		for _, e := range at.vendor.native {
			if e != openai.Contents { // whose path also says whether it is a stream
				t.urls[e], _ = at.at(t.path(e, d.Model, false)) // as addProvider has
			}
		}
	}
	p.takeOver(t)
	p.targets = append(p.targets, t)
	for _, name := range d.Names {
		if strings.HasSuffix(name, wildcard) {
			p.wild = append(p.wild, t)
		} else {
			p.named[name] = append(p.named[name], t)
		}
	}
}

// of returns the deployments that serve a model: those that name it, or else those with a wildcard for it.
func (p *Pool) of(model string) []*target {
	if list := p.named[model]; list != nil {
		return list
	}
	var list []*target
	for _, t := range p.wild {
		if !slices.Contains(list, t) && t.Serves(model) {
			list = append(list, t)
		}
	}
	return list
}

// same reports whether two pools have the same deployment.
func (t *target) same(other *target) bool { return t.Name == other.Name && t.Model == other.Model }

// takeOver keeps the counters and places of the previous pool's deployment with this name and model. Its running calls
// keep their places.
func (p *Pool) takeOver(t *target) {
	for _, b := range p.cfg.Before.targets {
		taken := slices.ContainsFunc(p.targets, func(o *target) bool { return o.health == b.health })
		if !t.same(b) || taken { // an upstream may have a model at two prices
			continue
		}
		if t.provider == b.provider {
			t.health = b.health
		} else {
			t.asked.Store(b.asked.Load())
			t.failures.Store(b.failures.Load())
			t.cooled.Store(b.cooled.Load())
		}
		if b.Requests == t.Requests && b.Tokens == t.Tokens {
			t.requests, t.tokens = b.requests, b.tokens
		}
		if b.places.Most() == t.places.Most() {
			t.places = b.places
			t.places.SetTenants(p.cfg.Tenants)
		}
		return
	}
}

// Close closes idle connections, except to providers of the pool that replaces this one; nil is none.
func (p *Pool) Close(next *Pool) {
	for _, at := range p.providers {
		if at.own != nil && (next == nil || !slices.Contains(next.providers, at)) {
			at.own.CloseIdleConnections()
		}
	}
}

// Models returns clients' names of models, in order.
func (p *Pool) Models() []string { return p.models }

// Longest bounds the time of an answer, with all attempts.
func (p *Pool) Longest() time.Duration { return p.longest }

// bound returns what Longest does.
func (p *Pool) bound() (most time.Duration) {
	for _, t := range p.targets {
		most = max(most, t.Total)
	}
	models := 1
	for _, f := range p.cfg.Fallbacks {
		models = max(models, 1+len(p.fallbacks(f.Model, "")))
	}
	return most * time.Duration(p.cfg.Attempts*models)
}

// Has reports whether some upstream has a model.
func (p *Pool) Has(model string) bool { return len(p.of(model)) > 0 }

// CountsTokens reports whether some deployment of a model counts the tokens of a request.
func (p *Pool) CountsTokens(e openai.Endpoint, model string) bool {
	return len(p.counting(e, model)) > 0
}

// counting returns the deployments of a model that count the tokens of a request.
func (p *Pool) counting(e openai.Endpoint, model string) []*target {
	return slices.DeleteFunc(slices.Clone(p.of(model)), func(t *target) bool { return !t.provider.native[e] })
}

// Price returns a model's highest price at a time and any upstream: for an answer of an unknown upstream.
func (p *Pool) Price(model string, at time.Time) Price {
	return p.most(model, at, func(p Price) Price { return p })
}

// Reserve returns the highest price of any kind of token of a model, at a time and any upstream. It is for reservations before
// the upstream and the kinds are known.
func (p *Pool) Reserve(model string, at time.Time) Price { return p.most(model, at, Price.highest) }

func (p *Pool) most(model string, at time.Time, of func(Price) Price) (most Price) {
	for _, name := range append([]string{model}, p.fallbacks(model, "")...) {
		for _, t := range p.of(name) {
			price := of(t.Price.At(at))
			most = Price{Prompt: max(most.Prompt, price.Prompt), Completion: max(most.Completion, price.Completion), Unit: max(most.Unit, price.Unit), Request: max(most.Request, price.Request), Batch: max(most.Batch, cmp.Or(price.Batch, 1))}
		}
	}
	if most.Batch == 1 {
		most.Batch = 0
	}
	return most
}

// MaxTokens returns the most tokens that an answer of a model can have; 0 is unknown.
func (p *Pool) MaxTokens(model string) (most int) {
	for _, name := range append([]string{model}, p.fallbacks(model, "")...) {
		for _, t := range p.of(name) {
			if t.MaxTokens == 0 {
				return 0
			}
			most = max(most, t.MaxTokens)
		}
	}
	return most
}

// PricesAt returns a model's prices at an upstream.
func (p *Pool) PricesAt(upstream, model string) Prices {
	for _, t := range p.of(model) {
		if t.Name == upstream {
			return t.Price
		}
	}
	return nil
}

// States returns the states of the deployments, in the order of the configuration.
func (p *Pool) States() []State {
	var list []State
	now := time.Now()
	for _, t := range p.targets {
		s := State{t.ID, t.Name, t.Model, t.Names, "closed", t.breaker.Until(), true, t.places.Held(), t.asked.Load(), t.failures.Load(), t.cooled.Load(), t.requests.remains(now), t.tokens.remains(now)}
		if all := t.provider.breaker.Until(); all.After(s.Until) {
			s.Until = all
		}
		if now.Before(s.Until) {
			s.State, s.Ready = "open", false
		} else if !s.Until.IsZero() {
			s.State, s.Until = "half_open", time.Time{}
		}
		list = append(list, s)
	}
	return list
}

// Reset ends the cool-downs of a deployment and its provider, for all tenants and for each of those given; "" is of all
// deployments. It reports whether there is one.
func (p *Pool) Reset(id string, tenants []*Tenant) (found bool) {
	for _, t := range p.targets {
		if id != "" && t.ID != id {
			continue
		}
		found = true
		t.breaker.Reset()
		t.provider.breaker.Reset()
		for _, of := range tenants {
			of.standings[t.health].breaker.Reset()
			of.providers[t.provider].Reset()
		}
	}
	return found
}

// Retries returns how many requests were retried, and how many the budget refused.
func (p *Pool) Retries() (made, refused uint64) { return p.retries.Load(), p.refused.Load() }

// An Error says why a request has no answer.
type Error struct {
	// Status is the status for the client: the upstream's own if the request was at fault, otherwise 404, 429, 502,
	// 503 or 504; 0 if the client has gone.
	Status int
	Text   string
	// RetryAfter is the pause before a retry; 0 is unknown.
	RetryAfter time.Duration
	// Upstream was asked last, for the client's name Model; "" if none was.
	Upstream, Model string
	// Attempts is the number of attempts.
	Attempts int
	// Sent says that an upstream may have the whole request.
	Sent bool
	// Late says that an upstream had the whole request, and did not answer, or not completely, in time: it may have
	// worked on it.
	Late bool
	// Completion estimates the tokens of an answer that must be paid, although the client gets none of it.
	Completion int
	// Usage is the upstream's usage of such an answer; nil if unknown.
	Usage *openai.Usage
	// Body is the upstream's answer to a request that was at fault, empty if its form is not the client's; nil otherwise.
	Body []byte
	// Param is the field at fault; "" is unknown.
	Param string
	// Header has the fields of the upstream's answer that the client gets; nil is none.
	Header http.Header
	// Type and Code are the upstream's names of the failure; "" if it has none, or if they concern the gateway's
	// account.
	Type, Code string
	// Event is the upstream's event that ends a stream of /v1/responses or /v1/messages, without its key; nil if it has sent none
	// that clients know.
	Event *openai.Frame

	err     error // with all details: it may name addresses of this network, which clients must not see
	fatal   bool  // another upstream would fail as well
	idle    bool  // not the upstream's failure
	unclear bool  // the upstream or the client may be at fault: no reason for a cool-down
	once    bool  // the upstream has the request, or has answered it: it must not get it again
	options bool  // it does not know the options of streams
	// elsewhere says that this upstream cannot answer the request, and another one may: its dialect cannot express it, or
	// it does not have the response that it continues.
	elsewhere bool
	server    bool // the failure concerns the whole upstream, with all models
	// answered says that the server is available, whatever the model's state.
	answered bool
}

// left is e for a client that has gone: the part of the answer so far is still paid.
func (e *Error) left(attempts int, upstream string, why error) *Error {
	return &Error{Text: why.Error(), Upstream: upstream, Model: e.Model, Attempts: attempts, Sent: e.Sent, Late: e.Late, Completion: e.Completion, Usage: e.Usage, err: why}
}

func (e *Error) Error() string {
	if e.Upstream != "" {
		return "upstream " + e.Upstream + ": " + e.Text
	}
	return e.Text
}

// reason returns the kind of failure, without the upstream's text.
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

// detail returns the text for the operator.
func (e *Error) detail() string {
	if e.err != nil {
		return e.err.Error()
	}
	return e.Text
}

// An Answer is an upstream's answer.
type Answer struct {
	Upstream string
	Model    string // the client's name of the one that has answered, which may be another than was asked for
	Prices   Prices
	Attempts int  // 1 or more
	Native   bool // it was not translated: the upstream may keep it
	// Dropped are the client's fields that the upstream did not get: its dialect does not have them.
	Dropped []string
	// Body, Reply and Usage are those of a whole answer.
	Body  []byte
	Reply openai.Reply
	Usage openai.Usage
	// Header has the fields of the upstream's answer that the client gets.
	Header http.Header
	// Stream is a streamed answer, which must be closed; nil for a whole one.
	Stream *Stream
	// Passed is an answer of Forward, which must be closed; nil for others.
	Passed *Passed
}

// pauses between tries of the same upstream: from the first to twice that, doubled each
// time.
const firstPause = 25 * time.Millisecond

// Ask asks for an answer. After the first event of a stream, it asks no other upstream. The error is an *Error, which
// is ctx's if that has ended. Tenant of sends the request, and holds the bytes of a whole answer until it is
// returned.
func (p *Pool) Ask(ctx context.Context, r *openai.Request, of *Tenant) (*Answer, error) {
	return p.AskStream(ctx, r, of, nil)
}

// AskStream is Ask with alive, if not nil. While an upstream works on a stream without an event, it is called from
// time to time. The caller is the goroutine that asks or reads the stream.
func (p *Pool) AskStream(ctx context.Context, r *openai.Request, of *Tenant, alive func()) (*Answer, error) {
	return p.askFor(ctx, &want{request: r, of: of, alive: alive, lastSign: time.Now()})
}

// askFor asks deployments of the request's model, and then those of its fallbacks.
func (p *Pool) askFor(ctx context.Context, w *want) (*Answer, error) {
	r, of := w.request, w.of
	if !p.Has(r.Model) && !w.kept() {
		return nil, &Error{Status: http.StatusNotFound, Text: fmt.Sprintf("model %q is not served here", r.Model)}
	}
	if w.model, w.retries = r.Model, p.budget; of != nil {
		w.retries = of.retries
	}
	w.retries.request()
	a, failure := p.askModel(ctx, w, nil)
	if failure == nil || failure.cause() == "" || ctx.Err() != nil || r.Endpoint.Counts() { // other models count otherwise
		return answered(a, failure)
	}
	for _, other := range p.fallbacks(r.Model, failure.cause()) {
		if of != nil && of.may != nil && !of.may(other) {
			continue
		}
		w.model = other
		if a, failure = p.askModel(ctx, w, failure); failure == nil || failure.cause() == "" || ctx.Err() != nil {
			break
		}
	}
	return answered(a, failure)
}

// answered returns an answer, or a failure that is an error.
func answered(a *Answer, failure *Error) (*Answer, error) {
	if failure != nil {
		return nil, failure
	}
	return a, nil
}

// askModel asks deployments of one model. last is the failure of the models before; nil is none.
func (p *Pool) askModel(ctx context.Context, w *want, last *Error) (*Answer, *Error) {
	all, before, bound := p.of(w.model), 0, p.cfg.Attempts
	ask, none := p.ask, ""
	switch {
	case w.kept():
		all, ask = []*target{cmp.Or(named(w.passing.At, all), named(w.passing.At, p.targets))}, p.forward
		if all[0] == nil {
			return nil, &Error{Status: http.StatusNotFound, Text: fmt.Sprintf("its upstream, %q, is not served here any more", w.passing.At)}
		}
		if w.passing.Method != http.MethodGet && w.passing.Method != http.MethodDelete {
			bound = 1 // what is made twice is paid twice
		}
	case w.passing != nil:
		all, ask, none = w.passing.takers(all), p.forward, fmt.Sprintf("no upstream of the model %q has this endpoint", w.model)
	case w.request.Endpoint.Counts():
		all = p.counting(w.request.Endpoint, w.model)
	}
	maker := named(w.request.Maker, p.targets)
	if w.request.Maker != "" && w.request.Names() { // others of its provider have the same
		all = slices.DeleteFunc(slices.Clone(all), func(t *target) bool { return maker == nil || t.provider != maker.provider })
		none = fmt.Sprintf("what it refers to is at the upstream %q, which does not serve the model %q", w.request.Maker, w.model)
	}
	if len(all) == 0 && none != "" {
		return nil, cmp.Or(last, &Error{Status: http.StatusNotFound, Text: none})
	}
	if last != nil {
		before = last.Attempts
	}
	// tried[t] says that t was tried; if true, it must not be asked again. forget clears false ones. failed is not
	// cleared.
	tried, failed, asked := map[*target]bool{}, map[*target]bool{}, false
	for attempt := 1; ; attempt++ {
		s, none := p.pick(all, maker, tried, w)
		if none != nil && len(tried) > 0 && attempt <= bound && leaves(all, tried) {
			// All available ones have been tried: repeat after a pause.
			forget(tried)
			if err := p.pause(ctx, attempt); err != nil {
				return nil, last.left(last.Attempts, last.Upstream, ctx.Err())
			}
			s, none = p.pick(all, maker, tried, w)
		}
		if none != nil {
			if asked && !last.elsewhere { // elsewhere, nobody can be asked
				if !last.once {
					last.RetryAfter = max(last.RetryAfter, none.RetryAfter)
				}
				return nil, last
			}
			return nil, none.after(last)
		}
		t := s.target
		a, err := ask(ctx, s, failed[t], w)
		if err == nil {
			a.Model, a.Attempts = w.model, before+attempt
			return a, nil
		}
		asked = true
		err.Model, err.Attempts = w.model, before+attempt
		err = err.after(last)
		if ctx.Err() != nil && err.Body == nil {
			return nil, err.left(err.Attempts, t.Name, ctx.Err())
		}
		last = err
		if err.options { // no failure: it is asked again without them
			if w.noOptions == nil {
				w.noOptions = map[*provider]bool{}
			}
			w.noOptions[t.provider] = true
			bound++
			continue
		}
		tried[t] = err.once
		if err.elsewhere && leaves(all, tried) { // no failure: the upstream has done nothing
			bound++
			continue
		}
		if err.fatal || attempt == bound || !leaves(all, tried) {
			return nil, err
		}
		if !w.retries.retry() {
			p.refused.Add(1)
			return nil, err
		}
		p.retries.Add(1)
		failed[t] = true
	}
}

// after adds the failure before it: what may have to be paid.
func (e *Error) after(last *Error) *Error {
	if last == nil {
		return e
	}
	e.Sent, e.Late, e.Completion, e.Attempts = e.Sent || last.Sent, e.Late || last.Late, max(e.Completion, last.Completion), max(e.Attempts, last.Attempts)
	if last.Late || last.Completion > 0 {
		e.Usage = nil // one has reported it, and another has not
	}
	return e
}

// leaves reports whether some upstream may be asked, or asked again.
func leaves(all []*target, tried map[*target]bool) bool {
	return slices.ContainsFunc(all, func(t *target) bool { return !tried[t] })
}

// forget removes upstreams that may be asked again.
func forget(tried map[*target]bool) {
	maps.DeleteFunc(tried, func(_ *target, once bool) bool { return !once })
}

// A want is a request, for all its attempts.
type want struct {
	request   *openai.Request
	passing   *Passing // of a request that passes as it is; otherwise nil
	model     string   // that is asked for now: the request's, or one in its place
	retries   *retryBudget
	of        *Tenant
	alive     func()             // may be nil
	lastSign  time.Time          // the last call of alive or returned event, or the start
	neutral   *dialect.Request   // for the first upstream of another dialect; nil until then
	unread    error              // why there is none
	noOptions map[*provider]bool // those that get no options of streams
}

// pause waits before upstreams are asked again.
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

// named returns the deployment of a list with a name; nil if there is none.
func named(name string, all []*target) *target {
	if i := slices.IndexFunc(all, func(t *target) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// pick takes an untried upstream for a request: maker, if that can be. If there is none, it returns the reason.
func (p *Pool) pick(all []*target, maker *target, tried map[*target]bool, w *want) (slot, *Error) {
	now := time.Now()
	tokens := int64(w.request.PromptTokens + w.request.MaxCompletion())
	for {
		var (
			candidates []*target
			busy       string
			limited    bool
			soonest    time.Time
		)
		for _, t := range all {
			if _, before := tried[t]; before {
				continue
			}
			s := p.slot(t, w.of, tokens)
			ready, when := s.ready(now)
			if ready {
				ready, when = s.within(now)
				limited = limited || !ready
			}
			full, own := s.place.Full()
			switch {
			case !ready:
				if soonest.IsZero() || when.Before(soonest) {
					soonest = when
				}
			case full:
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
			} else if limited {
				e.Status, e.Text = http.StatusTooManyRequests, "the upstreams get no more of that model for now"
			}
			if busy == "" && !soonest.IsZero() {
				e.RetryAfter = max(soonest.Sub(now), time.Second)
			}
			return slot{}, e
		}
		chosen := maker
		if !slices.Contains(candidates, maker) {
			chosen = p.choose(candidates)
		}
		s := p.slot(chosen, w.of, tokens)
		if !s.place.Hold(1) {
			continue // another request has taken the last place
		}
		if s.begin(now) {
			s.target.asked.Add(1)
			return s, nil
		}
		s.place.Keep(0)
	}
}

// Causes of the contexts of aborted calls.
var (
	errFirstByte = errors.New("nothing came in time")
	errIdle      = errors.New("nothing more came in time")
	errTotal     = errors.New("it took too long")
)

// isLate reports whether a call was aborted by a timeout, rather than by its client.
func isLate(cause error) bool {
	return errors.Is(cause, errFirstByte) || errors.Is(cause, errIdle) || errors.Is(cause, errTotal)
}

// ask asks one upstream. again says that the request has failed there before.
func (p *Pool) ask(ctx context.Context, s slot, again bool, w *want) (_ *Answer, failure *Error) {
	t, r, began := s.target, w.request, time.Now()
	c := p.newCall(ctx, s, again, w)
	defer func() { c.endFailed(ctx, failure) }()
	q, failure := t.question(w, c.options)
	if failure != nil {
		return nil, failure
	}
	c.question = q
	asked := q.body
	// net/http sends a body that it knows to be in memory together with the header, in one write.
	var question *bytes.Reader
	body := func() (io.ReadCloser, error) {
		question = bytes.NewReader(asked)
		return io.NopCloser(question), nil
	}
	first, _ := body()
	req, err := http.NewRequestWithContext(c.traced(), http.MethodPost, "", first)
	if err != nil {
		return nil, &Error{Status: http.StatusBadGateway, Text: errUnreached.Error(), err: err}
	}
	req.ContentLength, req.GetBody = int64(len(asked)), body
	req.URL, req.Host = q.to, q.to.Host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity") // without it, any coding would be acceptable (RFC 9110, section 12.5.3)
	trace.Inject(c.ctx, req.Header)
	t.provider.authorize(req.Header, q.header)
	if r.Stream {
		req.Header.Set("Accept", "text/event-stream")
		c.timer = time.AfterFunc(t.FirstByte, c.silent)
	}
	// Without http.Client, which would follow redirects: they are not followed, and it takes a
	// third of the stack.
	resp, err := t.provider.via.RoundTrip(req)   //nolint:bodyclose // the call closes it at its end
	if q.body, asked = nil, nil; c.sent.Load() { // the request goes on as long as the stream does
		question.Reset(nil)
	}
	if err != nil {
		return nil, c.fault(fmt.Errorf("%w: %w", errUnreached, err))
	}
	text, failure := c.receive(resp)
	if failure != nil {
		return nil, failure
	}
	if !r.Stream {
		var holder *budget.Tenant
		if w.of != nil {
			holder = w.of.answers
		}
		a, failure := c.whole(text, resp.ContentLength, holder)
		if failure == nil {
			t.took(time.Since(began))
			a.Header = passedOn(resp.Header)
		}
		return a, failure
	}
	passed := passedOn(resp.Header)
	resp.Header = nil // the body would keep it until its end
	c.timer.Reset(t.FirstByte)
	stream := &Stream{call: c, want: w}
	if q.client != nil {
		text = c.translate(text, stream)
	}
	stream.reader = p.cfg.Readers.Get(text)
	stream.reader.Most, stream.reader.Alive = int(p.cfg.MaxEventBytes), stream.alive
	if failure := stream.begin(); failure != nil {
		stream.giveBack()
		return nil, failure
	}
	c.started.Store(true)
	c.timer.Stop()
	t.took(time.Since(began))
	if c.decides() { // others must not wait for its end
		c.good()
	}
	return &Answer{Upstream: t.Name, Prices: t.Price, Header: passed, Dropped: q.dropped, Native: q.client == nil, Stream: stream}, nil
}

// newCall begins a call of a slot.
func (p *Pool) newCall(ctx context.Context, s slot, again bool, w *want) *call {
	t := s.target
	c := &call{pool: p, slot: s, again: again, request: w.request, kept: w.kept(), question: &question{}, options: !t.provider.noOptions.Load() && !w.noOptions[t.provider]}
	c.Operation, c.Provider, c.Model, c.began = "chat", cmp.Or(t.provider.vendor.known, string(t.provider.Dialect)), t.own(w.model), time.Now()
	if w.passing != nil {
		c.Operation, _, _ = strings.Cut(w.passing.Path[1:], "?")
	}
	within, span := trace.StartCall(ctx, c.Operation+" "+c.Model) // by OpenTelemetry's conventions for generative AI
	c.span = span
	c.span.Text("upstream.name", t.Name)
	c.span.Text("gen_ai.operation.name", c.Operation)
	c.span.Text("gen_ai.provider.name", c.Provider)
	c.span.Text("gen_ai.request.model", c.Model)
	c.ctx, c.cancel = context.WithCancelCause(within)
	c.total = time.AfterFunc(t.Total, func() { c.cancel(errTotal) })
	return c
}

// endFailed ends a call that has failed; a nil failure is none.
func (c *call) endFailed(outer context.Context, failure *Error) {
	if failure != nil {
		failure.Upstream, failure.Sent = c.target.Name, c.sent.Load()
		c.end(outer, failure)
	}
}

// traced returns a context for the request, which notes that the whole request was sent.
func (c *call) traced() context.Context {
	c.span.Text("server.address", c.to.Hostname())
	return httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			c.sent.Store(true)
		}
	}})
}

// receive returns the decoded body of an answer, or the failure that its status says.
func (c *call) receive(resp *http.Response) (io.Reader, *Error) {
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
	if resp.StatusCode != http.StatusOK && (!c.kept || resp.StatusCode != http.StatusCreated) { // Azure has made a file
		return nil, c.status(resp, text)
	}
	return text, nil
}

// maxDecoded bounds one decoded answer. Answers and events have bounds of their own.
const maxDecoded = 1 << 30

// coded refuses an answer with an unknown Content-Encoding. It is not retried: it would have to be paid twice.
func (c *call) coded(status int, err error) *Error {
	e := &Error{Status: http.StatusBadGateway, Text: "its answer cannot be read: " + err.Error(), err: err, fatal: true, Late: status == http.StatusOK}
	if status != http.StatusOK {
		c.sent.Store(false)
	}
	return e
}

// decoded reads an answer with a Content-Encoding. An invalid body counts as an answer of unknown form.
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
	again   bool // a call of this request has failed at this upstream before: they count once
	request *openai.Request
	*question
	options bool            // a stream has options
	kept    bool            // it is about what this deployment keeps
	sent    atomic.Bool     // the whole request was sent
	started atomic.Bool     // the first event of a stream has come
	ctx     context.Context // of the call
	cancel  context.CancelCauseFunc
	total   *time.Timer // cancels after the time for the whole answer
	timer   *time.Timer // cancels after silence; nil for a whole answer
	body    io.ReadCloser
	span    trace.Span
	named   bool     // the span has the answer's ID
	reasons []string // of the span: why choices have ended
	ended   bool
	began   time.Time
	Called
}

// Called is a call as metrics have it, by OpenTelemetry's conventions for generative AI.
type Called struct {
	Operation, Provider, Model string // Model is the provider's name of it
	Failure                    string // "" is none
	Took                       time.Duration
	Usage                      openai.Usage
}

// used settles what the call has used.
func (c *call) used(u openai.Usage) {
	c.settle(u.Total())
	c.Usage = u
	c.span.Number("gen_ai.usage.input_tokens", int64(u.Prompt))
	c.span.Number("gen_ai.usage.output_tokens", int64(u.Completion))
}

// note has the span say what a part of the answer says of itself.
func (c *call) note(part []byte) {
	if c.span == (trace.Span{}) {
		return
	}
	if ids := openai.Words(part, "id", "responseId"); !c.named && len(ids) > 0 {
		c.named = true
		c.span.Text("gen_ai.response.id", ids[0])
	}
	c.reasons = append(c.reasons, openai.Words(part, "finish_reason", "stop_reason", "finishReason")...)
	c.reasons = c.reasons[:min(len(c.reasons), 32)] // an answer has a few
	c.span.Texts("gen_ai.response.finish_reasons", c.reasons)
}

// silent cancels after silence.
func (c *call) silent() {
	if c.started.Load() {
		c.cancel(errIdle)
		return
	}
	c.cancel(errFirstByte)
}

// end releases the call's resources, and counts its outcome: failure is nil for a good one.
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
	if failure != nil && !c.started.Load() {
		c.settle(failure.Completion)
	}
	if failure != nil {
		c.Failure = failure.reason()
		c.span.Fail(c.Failure)
	}
	c.span.End()
	if c.Took = time.Since(c.began); c.pool.cfg.Ended != nil {
		c.pool.cfg.Ended(&c.Called)
	}
	switch {
	case failure == nil:
		c.good()
	case outer.Err() != nil || failure.idle:
		c.discard()
	case failure.fatal || failure.elsewhere:
		c.good() // it has answered: the request was at fault
	default:
		t.failures.Add(1)
		if failure.unclear || c.again && failure.RetryAfter == 0 {
			c.discard()
		} else if own, all := c.failed(time.Now(), failure); own || all {
			t.cooled.Add(1)
			model := t.Model
			if failure.server {
				model = "" // all of them
			}
			c.pool.log.Warn("upstream cools down", "upstream", t.Name, "model", model, "for_all_keys", all, "error", c.pool.brief(failure.detail()))
			return
		}
		level := slog.LevelDebug
		if now := time.Now().Unix(); t.provider.logged.Swap(now) != now { // at most one a second
			level = slog.LevelWarn
		}
		if c.pool.log.Enabled(outer, level) {
			c.pool.log.Log(outer, level, "upstream failed", "upstream", t.Name, "error", c.pool.brief(failure.detail()))
		}
	}
}

// brief shortens and masks an upstream's text for the log.
func (p *Pool) brief(text string) string {
	if p.cfg.Mask != nil {
		text = p.cfg.Mask(text)
	}
	return openai.Brief(text)
}

// Crowded returns the error for an answer of a number of tokens, for which there is no room.
func Crowded(tokens int) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Text: "the answers that are under way are too large", RetryAfter: time.Second, Completion: tokens, err: budget.ErrFull, fatal: true}
}

// tooLarge returns the error for an answer of more bytes than are permitted.
func tooLarge(most int64) *Error {
	return &Error{Status: http.StatusBadGateway, Text: fmt.Sprintf("the answer has more than %d bytes", most), fatal: true}
}

// Texts for clients about failed calls.
var (
	errUnreached = errors.New("it cannot be reached")
	errBroken    = errors.New("its connection broke")
	errPending   = errors.New("the answer is still to come")
)

// fault converts an error of the transport or of the codec.
func (c *call) fault(err error) *Error {
	e := &Error{Status: http.StatusBadGateway, Text: errBroken.Error(), err: err}
	var none *openai.NoneError
	switch cause := context.Cause(c.ctx); {
	case isLate(cause):
		e.Status, e.Text, e.err = http.StatusGatewayTimeout, cause.Error(), cause
		e.Late = c.sent.Load()
		e.once = e.Late // it may still work on it, and must be paid
		e.server = !e.Late
	case errors.Is(err, openai.ErrLarge): // another upstream's would be as large
		e.Text, e.fatal = err.Error(), true
	case errors.As(err, &none):
		none.Message = openai.ErrNone.Error() + ": " + none.Message
		return c.reported(none.Fault)
	case errors.Is(err, openai.ErrNone), errors.Is(err, errPending):
		e.Text = err.Error()
	case errors.Is(err, openai.ErrForm): // it would answer the same again
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

// reported returns a failure that the upstream itself reports.
func (c *call) reported(f openai.Fault) *Error {
	return &Error{Status: http.StatusBadGateway, Text: string(c.withoutKey([]byte(f.Message))), Type: f.Type, Code: f.Code}
}

// withoutKey removes the upstream's key from its text, which may repeat it.
func (c *call) withoutKey(text []byte) []byte {
	key := c.target.provider.Key
	if key == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte(key), []byte("[key]"))
}

// tokens estimates the tokens of the part of an answer so far.
func (c *call) tokens(body []byte) int { return c.bounded(openai.TextBytes(body)) }

// bounded estimates the tokens of a number of bytes of text, up to the request's bound.
func (c *call) bounded(bytes int) int {
	n := openai.EstimateTokens(bytes)
	if most := c.request.MaxCompletion(); most > 0 {
		n = min(n, most)
	}
	return n
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// maxRefusal bounds the bytes that are read of an error response.
const maxRefusal = 64 << 10

// status returns the error of a status other than 200.
func (c *call) status(resp *http.Response, text io.Reader) *Error {
	c.sent.Store(false) // it has not worked on it
	e := &Error{Status: http.StatusBadGateway, Text: "status " + strconv.Itoa(resp.StatusCode), answered: true, Header: passedOn(resp.Header)}
	body, _ := io.ReadAll(io.LimitReader(text, maxRefusal))
	body = c.withoutKey(body)
	e.RetryAfter = comesBack(resp.StatusCode, resp.Header, body, time.Now())
	f := c.pool.cfg.Codec.ParseFault(body)
	if f.Message != "" {
		e.Text += ": " + f.Message
	}
	e.Type, e.Code = f.Type, f.Code
	e.options = resp.StatusCode/100 == 4 && c.options && c.request.MayDropOptions() && openai.NamesOptions(body)
	if !json.Valid(body) { // it may be cut: an incomplete string cannot be masked
		body = []byte{}
	}
	switch s := c.target.provider.vendor.status(resp.StatusCode, body); {
	case s == http.StatusTooManyRequests:
		e.Status = s
	case s == http.StatusServiceUnavailable, s == statusOverloaded:
		e.Status = http.StatusServiceUnavailable
	case !c.kept && s == http.StatusConflict, s == http.StatusForbidden, s == http.StatusRequestTimeout, s == http.StatusTooEarly:
		// Another upstream may answer. But repeated requests of this kind must not make the upstream cool down for
		// all tenants.
		e.unclear = true
	case (c.kept || c.request.Continues() || len(c.request.References) > 0) && (s == http.StatusNotFound || f.Code == openai.NoPreviousResponse):
		e.Status, e.Body, e.elsewhere, e.once, e.RetryAfter = s, body, true, true, 0
	case s == http.StatusUnauthorized, s == http.StatusPaymentRequired, s == http.StatusNotFound, s == http.StatusProxyAuthRequired, s == http.StatusMisdirectedRequest:
		// The gateway's own fault: its key, its account, its URL, or which models it believes to be there.
		e.Type, e.Code = "", "" // a client would relate it to its own account
		e.server = s == http.StatusUnauthorized || s == http.StatusPaymentRequired || s == http.StatusProxyAuthRequired
	case 400 <= s && s < 500:
		if c.client != nil || c.embeds != nil { // the client knows its own form only
			body = []byte{}
		}
		e.Status, e.Body, e.fatal, e.RetryAfter = s, body, true, 0
	}
	return e
}

// Header fields of upstreams that clients get: the request's ID, and limits.
var (
	passedFields   = []string{"Request-Id", "X-Request-Id"}
	passedPrefixes = []string{"X-Ratelimit-", "Anthropic-Ratelimit-"}
)

// IsLimit reports whether a field of an upstream's header is about its limits.
func IsLimit(name string, _ []string) bool {
	return slices.ContainsFunc(passedPrefixes, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// Bounds of these fields.
const (
	maxPassed     = 32  // fields
	maxPassedText = 256 // bytes of a value
)

// passedOn returns the fields of an upstream's header that clients get; nil is none.
func passedOn(h http.Header) (passed http.Header) {
	for name, values := range h {
		if is := slices.Contains(passedFields, name) || IsLimit(name, values); !is || len(values[0]) > maxPassedText || len(passed) == maxPassed {
			continue
		}
		if passed == nil {
			passed = http.Header{}
		}
		passed[name] = values[:1:1]
	}
	return passed
}

// retryDelay is the field of google.rpc.RetryInfo, in the details of an error.
var retryDelay = regexp.MustCompile(`"retryDelay"\s*:\s*"([^"]+)"`)

// comesBack returns how long an upstream wants not to be asked, by its error response; 0 is unknown. Sources, of 2026-11:
// Retry-After (RFC 9110, section 10.2.3), retry-after-ms of Azure and OpenAI, google.rpc.RetryInfo of Gemini, and for status 429
// x-ratelimit-reset-* of Azure and OpenAI and anthropic-ratelimit-*-reset.
func comesBack(status int, h http.Header, body []byte, now time.Time) time.Duration {
	wait := cmp.Or(pauseOf(h.Get("Retry-After-Ms")+"ms", now), pauseOf(h.Get("Retry-After"), now))
	if said := retryDelay.FindSubmatch(body); wait == 0 && said != nil {
		wait = pauseOf(string(said[1]), now)
	}
	if wait == 0 && status == http.StatusTooManyRequests {
		for name, values := range h {
			if strings.Contains(name, "Ratelimit-") && values[0] == "0" { // others are not why
				wait = max(wait, pauseOf(h.Get(strings.Replace(name, "-Remaining", "-Reset", 1)), now))
			}
		}
	}
	return wait
}

// pauseOf reads a number of seconds, a duration such as 6m0s, or the time at which it ends; 0 for anything else.
func pauseOf(text string, now time.Time) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil {
		at, err := http.ParseTime(text)
		if err != nil {
			at, _ = time.Parse(time.RFC3339, text) // the zero time has passed
		}
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// whole reads a whole answer.
func (c *call) whole(from io.Reader, length int64, of *budget.Tenant) (*Answer, *Error) {
	most := c.pool.cfg.MaxAnswerBytes
	share := c.pool.cfg.Answers.Grant(of)
	defer share.Keep(0) // the caller holds it from then on
	if ahead := min(length, most, mostAhead); !share.Hold(ahead) {
		return nil, Crowded(c.bounded(int(ahead)))
	}
	body, err := readAll(share.Reader(io.LimitReader(from, most+1)), length)
	// failed returns the error of a begun answer: the upstream has worked on it.
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
	if int64(len(body)) > most { // as would that of another upstream
		e := tooLarge(most)
		e.Completion, e.Usage = c.tokens(body), c.usageBehind(from, body)
		return nil, e
	}
	if c.client != nil {
		if body, err = c.translateWhole(body); err != nil {
			return nil, failed(err)
		}
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
	t := c.target
	a := &Answer{Upstream: t.Name, Prices: t.Price, Body: body, Reply: reply, Dropped: c.dropped, Native: c.client == nil}
	a.Usage = openai.Usage{Prompt: c.request.PromptTokens, Completion: openai.EstimateTokens(reply.Bytes), Estimated: true}
	if reply.Usage != nil {
		a.Usage = *reply.Usage
	}
	if reply.Pending { // its usage is unknown here: it may be all that was requested
		a.Usage = soFar(a.Usage, c.request, c.request.MaxCompletion())
	}
	c.note(body)
	c.used(a.Usage)
	c.end(c.ctx, nil)
	return a, nil
}

// The bounds on reading an oversized answer, to find its usage: timesBehind times the permitted size. The last
// endBehind bytes are examined.
const (
	timesBehind = 8
	endBehind   = 16 << 10
)

// usageBehind finds the usage of an oversized answer, which is at its end; nil is unknown.
func (c *call) usageBehind(from io.Reader, body []byte) *openai.Usage {
	end := bytes.Clone(body[max(0, len(body)-endBehind):])
	piece := make([]byte, endBehind)
	for left := timesBehind * c.pool.cfg.MaxAnswerBytes; left > 0; {
		n, err := from.Read(piece)
		left -= int64(n)
		end = append(end, piece[:n]...)
		end = end[max(0, len(end)-endBehind):]
		if errors.Is(err, io.EOF) {
			return openai.LastUsage(c.request.Endpoint, end)
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// mostAhead bounds the memory that is allocated because of an upstream's Content-Length.
const mostAhead = 1 << 20

// readAll reads to the end. Length is the Content-Length, or -1.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(r)
	}
	b := bytes.NewBuffer(make([]byte, 0, min(length, mostAhead)+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// A Stream reads an answer event by event. It is for one goroutine at a time, except for Cancel and Progress.
type Stream struct {
	call    *call
	want    *want
	reader  *openai.Reader // nil after it is returned
	frame   openai.Frame
	event   openai.Event
	first   bool                         // the event was read, and not returned yet
	usage   atomic.Pointer[openai.Usage] // estimated, if its Completion is unknown
	bytes   atomic.Int64                 // of text so far
	done    bool
	started choices // choices that have text
	ended   choices // choices with a reason for their end
}

// choices is a set of a stream's choices, by their numbers. All numbers beyond the permitted ones share one bit.
type choices uint32

func (c *choices) add(n int) {
	const most = 31
	*c |= 1 << uint(max(0, min(n, most))) //nolint:gosec // not negative
}

// complete reports whether all choices have ended: some servers send nothing after that, and some keep the connection
// open.
func (s *Stream) complete() bool {
	return s.ended != 0 && s.started&^s.ended == 0 && bits.OnesCount32(uint32(s.ended)) >= s.call.request.Choices
}

// Times of waiting after the end of all choices: for the usage, and for the last event.
const (
	usageTimeout = time.Second
	doneTimeout  = restTimeout
)

// eventTimeout returns the bound on the wait for the next event.
func (s *Stream) eventTimeout() time.Duration {
	switch {
	case !s.call.started.Load():
		return s.call.target.FirstByte
	case !s.complete():
		return s.call.target.Idle
	case s.event.UsageOnly:
		return doneTimeout
	}
	return usageTimeout
}

// alivePause is the least pause between two calls of want.alive, and before the first. So an early failure can still
// set the response's status.
const alivePause = time.Second

// alive notes that the upstream works on its next event.
func (s *Stream) alive() {
	if s.complete() { // no important event is left
		return
	}
	s.call.timer.Reset(s.eventTimeout())
	if w := s.want; w.alive != nil && time.Since(w.lastSign) >= alivePause {
		w.alive()
		w.lastSign = time.Now() // however long that took
	}
}

// read reads one event. Until that is there, a stream's stack has as little as can be: examine is apart from it.
func (s *Stream) read() (err error) {
	if s.frame, err = s.reader.Next(); err != nil {
		return err
	}
	return s.examine()
}

// examine parses an event, and notes what the answer is with it.
func (s *Stream) examine() error {
	if err := s.call.pool.cfg.Codec.ParseEvent(s.call.request.Endpoint, s.frame, &s.event); err != nil {
		return err
	}
	s.call.note(s.frame.Data)
	if s.call.request.Endpoint.EndsByChoice() { // other streams say themselves that they are complete
		for _, d := range s.event.Deltas {
			s.started.add(d.Choice)
		}
		for _, choice := range s.event.Ended {
			s.ended.add(choice)
		}
	}
	if u := s.event.Usage; u != nil {
		s.usage.Store(s.call.request.Endpoint.Latest(s.usage.Load(), u))
	}
	s.bytes.Add(int64(s.event.Bytes))
	if s.frame.End() && !s.endsHere() {
		return fmt.Errorf("%w: it ends before its answer does", openai.ErrCut)
	}
	s.done = s.event.Done
	return nil
}

// endsHere reports whether [DONE] ends a complete answer. At /v1/chat/completions all choices with text must have a
// reason for their end, and at least one must. Some gateways send [DONE] after a failure of their own upstream. At other
// endpoints the last event says so itself.
func (s *Stream) endsHere() bool {
	return s.call.request.Endpoint.EndsByChoice() && s.ended != 0 && s.started&^s.ended == 0
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
		if rest := s.reader.Rest(); errors.Is(err, openai.ErrCut) && json.Valid(rest) { // not a stream
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
	if at := c.target.provider; s.want.noOptions[at] && at.noOptions.CompareAndSwap(false, true) {
		c.pool.log.Warn("upstream does not know stream_options: the tokens of its streams are estimated", "upstream", at.name)
	}
	s.first = true
	return nil
}

// Next returns the next event, which is valid until the next call, as is its Frame. After an event with Done it returns io.EOF. Any other error is an *Error, or that of Ask's context: the answer is not complete.
func (s *Stream) Next() (*openai.Event, error) {
	if s.first {
		s.first = false
		return &s.event, nil
	}
	if s.done || s.reader == nil {
		return nil, io.EOF
	}
	s.call.timer.Reset(s.eventTimeout())
	err := s.read()
	s.call.timer.Stop() // however long it takes to pass it on
	if err != nil || s.event.Failed.Message != "" {
		return s.fail(err)
	}
	if s.want.alive != nil {
		s.want.lastSign = time.Now()
	}
	return &s.event, nil
}

// fail ends a stream after an error, or, with nil, after the upstream's own failure. It returns the results of Next.
func (s *Stream) fail(err error) (*openai.Event, error) {
	var e *Error
	if err != nil {
		if e = s.call.fault(err); errors.Is(err, openai.ErrLarge) {
			n := openai.TextBytes(s.reader.Rest())
			e.Completion = s.call.bounded(n)
			s.bytes.Add(int64(n))
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
	e.unclear = errors.Is(e.err, errTotal) // the reader may be slow
	if cause := context.Cause(s.call.ctx); cause != nil && !isLate(cause) {
		// The client has gone, or Cancel was called.
		e.idle = true
		s.call.end(s.call.ctx, e)
		return nil, cause
	}
	if err != nil && s.complete() { // only the end is missing
		s.done, s.frame, s.event = true, openai.EndFrame(s.call.request.Endpoint), openai.Event{Done: true}
		return &s.event, nil
	}
	s.call.end(context.Background(), e)
	return nil, e
}

// Frame is the event that Next has returned, as it came.
func (s *Stream) Frame() openai.Frame { return s.frame }

// More reports whether the next event has already come: Next does not wait for it.
func (s *Stream) More() bool { return s.first || s.reader != nil && s.reader.More() }

// Usage returns the usage so far: the upstream's, or else counted. An answer in the background goes on without its
// client: it may use all that was requested.
func (s *Stream) Usage() openai.Usage {
	if u := s.usage.Load(); s.done && u != nil && !u.Estimated {
		return *u
	}
	u := s.Progress()
	if s.Continues() {
		return soFar(u, s.call.request, s.call.request.MaxCompletion())
	}
	return u
}

// Continues reports whether the answer goes on at its upstream, in the background, although the stream has ended.
func (s *Stream) Continues() bool {
	return s.call.request.Background && !s.done && s.event.Failed.Message == ""
}

// Progress returns the usage of the parts that have come. It may be called from any goroutine.
func (s *Stream) Progress() openai.Usage {
	u := openai.Usage{Prompt: s.call.request.PromptTokens, Estimated: true}
	if known := s.usage.Load(); known != nil {
		u = *known
	}
	return soFar(u, s.call.request, openai.EstimateTokens(int(s.bytes.Load())))
}

// soFar returns the usage of an incomplete answer with a number of tokens. Some upstreams report at the beginning
// that no token is used yet, or one.
func soFar(u openai.Usage, r *openai.Request, tokens int) openai.Usage {
	if u.Prompt == 0 && r.PromptTokens > 0 {
		u.Prompt, u.Estimated = r.PromptTokens, true
	}
	if u.Completion < tokens {
		u.Completion, u.Estimated = tokens, true
	}
	return u
}

// Cancel makes Next fail at once.
func (s *Stream) Cancel() { s.call.cancel(context.Canceled) }

// maxRest and restTimeout bound the reading after the end of a stream, which lets its connection be reused.
const (
	maxRest     = 4 << 10
	restTimeout = 100 * time.Millisecond // a client may wait for it
)

// giveBack returns the reader's memory, for another stream.
func (s *Stream) giveBack() {
	if s.reader != nil {
		s.call.pool.cfg.Readers.Put(s.reader)
	}
	s.reader, s.frame = nil, openai.Frame{}
}

// Close frees the connection, and aborts an incomplete answer. Results of Next become invalid.
func (s *Stream) Close() {
	defer s.giveBack()
	s.call.used(s.Usage())
	if s.call.ended {
		return
	}
	if s.done {
		s.call.timer.Reset(restTimeout)
		_, _ = io.CopyN(io.Discard, s.call.body, maxRest) // its contents do not matter any more
		s.call.end(s.call.ctx, nil)
		return
	}
	s.call.end(s.call.ctx, &Error{Text: "left", idle: true})
}
