// Package upstream asks models on several servers, chosen by priority and weight. If a server fails before it has
// answered anything, it asks another. A budget bounds repeated requests. The usage of an answer is always known at
// its end: from the server, or else counted and marked as estimated. That includes streams that were cut or left.
package upstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/services/bot/budget"
	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
)

// Prices are those of a model, each until the next one's time. Before that of the first, nothing costs anything.
type Prices []Price

// At returns the price at a time.
func (p Prices) At(t time.Time) Price {
	for _, price := range slices.Backward(p) {
		if !t.Before(price.From.Time) {
			return price
		}
	}
	return Price{}
}

// Free reports whether nothing ever costs anything.
func (p Prices) Free() bool {
	return !slices.ContainsFunc(p, func(price Price) bool { return !price.Free() })
}

// check reports prices that are not in the order of their times.
func (p Prices) check(at *fields.Report, field string) {
	for i := range p[min(1, len(p)):] {
		at.Check(p[i].From.Before(p[i+1].From.Time), fmt.Sprintf("%s[%d].from", field, i+1), "is not later than that of the price before it", "list prices in the order of their times, no two of one time")
	}
}

// Since is a time in the configuration: a day, which begins in UTC, or a time of RFC 3339.
type Since struct{ time.Time }

// SetText reads it.
func (s *Since) SetText(text, _ string) (err error) {
	if s.Time, err = time.Parse(time.DateOnly, text); err != nil {
		s.Time, err = time.Parse(time.RFC3339, text)
	}
	if s.Time = s.UTC(); err != nil {
		return fmt.Errorf("%q is no day and no time; such as 2030-01-02 or 2030-01-02T15:04:05Z", text)
	}
	return nil
}

// Price is the price of tokens and of other units, in billionths of the currency: 150 is 0.15 per million tokens. At 1
// per token, the most tokens of a request do not overflow it.
type Price struct {
	From            Since   `yaml:"from,single" json:"-" otherwise:"it always held" doc:"the day (UTC) or the time from which it holds, for requests that are admitted then; prices are in the order of their times"`
	Prompt          int64   `yaml:"prompt" json:"prompt,omitempty" range:"0..1000000000" doc:"the price of a token of a question, in billionths"`
	Cached          *int64  `yaml:"cached" json:"cached,omitempty" range:"0..1000000000" otherwise:"prompt" doc:"of one that the upstream had in its cache"`
	CacheWrite      *int64  `yaml:"cache_write" json:"cache_write,omitempty" range:"0..1000000000" otherwise:"prompt" doc:"of one that it put there"`
	PromptAudio     *int64  `yaml:"prompt_audio" json:"prompt_audio,omitempty" range:"0..1000000000" otherwise:"prompt" doc:"of one of a recording"`
	PromptImage     *int64  `yaml:"prompt_image" json:"prompt_image,omitempty" range:"0..1000000000" otherwise:"prompt" doc:"of one of an image"`
	Completion      int64   `yaml:"completion" json:"completion,omitempty" range:"0..1000000000" doc:"the price of a token of an answer, in billionths"`
	Reasoning       *int64  `yaml:"reasoning" json:"reasoning,omitempty" range:"0..1000000000" otherwise:"completion" doc:"of one of reasoning"`
	CompletionAudio *int64  `yaml:"completion_audio" json:"completion_audio,omitempty" range:"0..1000000000" otherwise:"completion" doc:"of one of a recording"`
	CompletionImage *int64  `yaml:"completion_image" json:"completion_image,omitempty" range:"0..1000000000" otherwise:"completion" doc:"of one of an image"`
	Unit            int64   `yaml:"unit" json:"unit,omitempty" range:"0..5000000000" doc:"the price of an image that was made, a second that was transcribed, a character that was spoken or a document that was ranked, in billionths"`
	Request         int64   `yaml:"request" json:"request,omitempty" range:"0..5000000000" doc:"the price of an answer, whatever it has, in billionths"`
	Batch           float64 `yaml:"batch" json:"batch,omitempty" range:"0.001..1" otherwise:"1" doc:"by what these prices are multiplied for a batch, such as 0.5"`
}

// A kind is a number of tokens of one side with its own price; nil takes the side's price.
type kind struct {
	tokens int
	price  *int64
}

// kinds returns the kinds of a usage. Tokens of two kinds count as the first.
func (p Price) kinds(u openai.Usage) (prompt, completion []kind) {
	return []kind{{u.PromptAudio, p.PromptAudio}, {u.PromptImage, p.PromptImage}, {u.Cached, p.Cached}, {u.CacheWrite, p.CacheWrite}},
		[]kind{{u.CompletionAudio, p.CompletionAudio}, {u.CompletionImage, p.CompletionImage}, {u.Reasoning, p.Reasoning}}
}

// Of returns the price of a usage. No kind has more tokens than are left of its side.
func (p Price) Of(u openai.Usage) int64 {
	side := func(tokens int, price int64, kinds []kind) (money int64) {
		for _, k := range kinds {
			if k.price != nil {
				n := min(k.tokens, tokens)
				tokens -= n
				money += int64(n) * *k.price
			}
		}
		return money + int64(tokens)*price
	}
	prompt, completion := p.kinds(u)
	return side(u.Prompt, p.Prompt, prompt) + side(u.Completion, p.Completion, completion) + int64(u.Units)*p.Unit + p.Request
}

// OfBatch returns the price of a usage in a batch.
func (p Price) OfBatch(u openai.Usage) int64 {
	return int64(math.Round(float64(p.Of(u)) * cmp.Or(p.Batch, 1)))
}

// highest has the highest price of any kind of token on each side.
func (p Price) highest() Price {
	most := Price{Prompt: p.Prompt, Completion: p.Completion, Unit: p.Unit, Request: p.Request, Batch: p.Batch}
	prompt, completion := p.kinds(openai.Usage{})
	for _, k := range prompt {
		if k.price != nil {
			most.Prompt = max(most.Prompt, *k.price)
		}
	}
	for _, k := range completion {
		if k.price != nil {
			most.Completion = max(most.Completion, *k.price)
		}
	}
	return most
}

// Free reports whether nothing costs anything.
func (p Price) Free() bool { return p.highest() == Price{Batch: p.Batch} }

// Version returns a name of the price that is the same wherever it is, and the price as JSON. What costs nothing has none.
func (p Price) Version() (name, price string) {
	if p.Free() {
		return "", ""
	}
	key := [...]int64{p.Prompt, p.Completion, p.Unit, p.Request, given(p.Cached), given(p.CacheWrite), given(p.PromptAudio), given(p.PromptImage), given(p.Reasoning), given(p.CompletionAudio), given(p.CompletionImage), int64(p.Batch * 1e9)}
	v, known := versions.Get(key)
	if !known {
		text, _ := json.Marshal(p) // of numbers
		v = [2]string{fmt.Sprintf("%x", sha256.Sum256(text))[:8], string(text)}
		versions.Add(key, v)
	}
	return v[0], v[1]
}

// versions are those that were used last: each answer has one.
var versions, _ = lru.New[[12]int64, [2]string](1 << 10)

// given returns a price that may be missing; -1 if it is.
func given(price *int64) int64 {
	if price == nil {
		return -1
	}
	return *price
}

// A Server says how a server of models is reached.
type Server struct {
	Dialect Dialect         `yaml:"dialect" oneof:"openai azure vllm anthropic gemini ollama" otherwise:"openai" doc:"the form of its API; openai is that of most servers. What clients ask in another form is translated"`
	URL     string          `yaml:"url" otherwise:"the vendor's own, of openai, anthropic and gemini" doc:"the URL of its API, up to and including /v1 (gemini: /v1beta; ollama and azure with api-version: the server), without a user, a query or a fragment. Its address must be public or in allow_networks"`
	Key     secretfile.Text `yaml:"key_file" doc:"the file of the key that it is sent; to a public address, only by https"`
	// Headers and Query are no secrets: they are in the configuration.
	Headers map[string]string `yaml:"headers" names:"text" most:"64" doc:"further header fields that it is sent"`
	Query   map[string]string `yaml:"query" names:"text" most:"64" doc:"the query that it is sent, such as {api-version: preview}"`
	// NoStreamOptions is for a server that does not know them: the usage of its streams is estimated. A server that
	// refuses them is asked without them in any case.
	NoStreamOptions bool `yaml:"stream_options,inverted" default:"true" doc:"send it stream_options, which request a stream's usage"`
	Files           bool `yaml:"files" doc:"of several servers that keep files and batches (dialects openai and azure), this one gets clients' uploads; without it, the first"`
}

// Terms say how a model at a server is asked.
type Terms struct {
	// Models of equal priority get shares by their Weights.
	Priority      int               `yaml:"priority" range:"-1000000..1000000" default:"0" doc:"it is asked only if none of a lower number can be"`
	Weight        int               `yaml:"weight" range:"1..1048576" default:"1" doc:"its share of the requests among those of equal priority"`
	MaxConcurrent int               `yaml:"max_concurrent" range:"1..1048576" default:"4096" doc:"calls of one model under way"`
	MaxTokens     int               `yaml:"max_tokens" range:"0..134217728" otherwise:"unknown" doc:"the most tokens that an answer of it can have: with limits of tokens or money, a request without a bound reserves as many, and is not changed"`
	Price         Prices            `yaml:"price" most:"100" doc:"prices of tokens and of other units"`
	Requests      int64             `yaml:"requests_per_minute" range:"0..1000000000" otherwise:"without a bound" doc:"requests of a minute that one gateway sends it at most; further ones go to others, or get 429"`
	Tokens        int64             `yaml:"tokens_per_minute" range:"0..1000000000000" otherwise:"without a bound" doc:"the same of tokens, of questions and answers"`
	Bound         openai.BoundField `yaml:"bound" oneof:"max_tokens max_completion_tokens" otherwise:"max_tokens, which almost all servers know, but max_completion_tokens for OpenAI and Azure" doc:"the field for the bound on the tokens of an answer that the gateway adds, where there are limits and the client sets none. If it is set here, the server obeys no other: with limits it gets this one in addition to the client's"`
	FirstByte     time.Duration     `yaml:"first_byte_timeout" range:"0..24h" otherwise:"upstream.first_byte_timeout" doc:"how long it may be silent before the first event of a stream"`
	Drop          []string          `yaml:"drop" doc:"features that requests lose where the dialect does not have them, such as seed, or all that can be dropped, instead of being refused; the header X-Dyno-Dropped has the fields"`
	Idle          time.Duration     `yaml:"idle_timeout" range:"0..24h" otherwise:"upstream.idle_timeout" doc:"how long it may be silent within a stream"`
	Total         time.Duration     `yaml:"total_timeout" range:"0..24h" otherwise:"upstream.total_timeout" doc:"how long an answer may take, stream or not"`
}

// A Provider is a server, or a vendor, where an account has models.
type Provider struct {
	Name   string `yaml:"name,required" doc:"its name in deployments; no two the same, and none that of an upstream"`
	Server `yaml:",inline"`
}

// A Deployment is a model at a provider. What fails, cools down and has places is a deployment. Start from
// DefaultDeployment.
type Deployment struct {
	ID       string   // tells it from all others; All sets it
	Name     string   `yaml:"name" otherwise:"provider/model" doc:"its name in answers, metrics and the ledger; no two the same"`
	Provider string   `yaml:"provider,required" doc:"the name of a provider"`
	Model    string   `yaml:"model,required" doc:"the provider's own name of the model; * is what * stands for in names"`
	Names    []string `yaml:"names" most:"1000" otherwise:"model" doc:"the names of the model that clients use; one may end in *, such as openai/*, for models that no other deployment names"`
	Terms    `yaml:",inline"`
}

// An Upstream is a provider with its models: the short form of a Provider with a Deployment for each model, which all
// have the upstream's name. Start from DefaultUpstream.
type Upstream struct {
	Name   string `yaml:"name,required" doc:"its name in answers, metrics and the ledger; no two the same"`
	Server `yaml:",inline"`
	// Models maps clients' names of models to the server's own.
	Models map[string]string `yaml:"models,required" names:"text" most:"1000" doc:"its own name of each model, by the name that clients use"`
	Prices map[string]Prices `yaml:"prices" names:"text" most:"1000" otherwise:"price" doc:"prices of single models, by clients' names"`
	Terms  `yaml:",inline"`
}

// PriceOf returns the prices of a model.
func (u Upstream) PriceOf(model string) Prices {
	if p, ok := u.Prices[model]; ok {
		return p
	}
	return u.Price
}

// deployments returns a deployment for each of its own models, and for each price of one.
func (u Upstream) deployments() (list []Deployment) {
	for _, name := range slices.Sorted(maps.Keys(u.Models)) {
		d := Deployment{Name: u.Name, Provider: u.Name, Model: u.Models[name], Names: []string{name}, Terms: u.Terms}
		d.Price = u.PriceOf(name)
		i := slices.IndexFunc(list, func(other Deployment) bool { return other.Model == d.Model && reflect.DeepEqual(other.Price, d.Price) })
		if i >= 0 {
			list[i].Names = append(list[i].Names, name)
			continue
		}
		list = append(list, d)
	}
	for i := 0; len(list) > 1 && i < len(list); i++ {
		list[i].ID = u.Name + "/" + list[i].Names[0]
	}
	return list
}

// policy returns the policy for its addresses: its key is a secret.
func (s Server) policy(p outward.Policy) outward.Policy {
	if s.Key != "" {
		return p.RequireTLSOrAllowlist(s.url())
	}
	return p
}

// drops returns the features to drop.
func (t Terms) drops() (list []dialect.Feature) {
	for _, name := range t.Drop {
		if name == allFeatures {
			list = append(list, slices.DeleteFunc(dialect.Features(), func(f dialect.Feature) bool { return !f.Droppable() })...)
			continue
		}
		list = append(list, dialect.Feature(name))
	}
	return list
}

// allFeatures stands for all features that can be dropped.
const allFeatures = "all"

// checkDrop reports features that there are not, or that must not be dropped.
func (t Terms) checkDrop(at *fields.Report) {
	for i, name := range t.Drop {
		at.Check(name == allFeatures || dialect.Feature(name).Droppable(), fmt.Sprintf("drop[%d]", i), fmt.Sprintf("%q cannot be dropped", name), "such as seed, or all; docs/services/bot-dialects.md lists the features")
	}
}

// url returns its URL, or that of its vendor.
func (s Server) url() string { return cmp.Or(s.URL, vendors[cmp.Or(s.Dialect, OpenAI)].url) }

// bound returns the field for the bound on tokens, of a server with that URL.
func (t Terms) bound(at string) openai.BoundField {
	if t.Bound != "" {
		return t.Bound
	}
	to, err := url.Parse(at)
	if err == nil && (to.Hostname() == "api.openai.com" || strings.HasSuffix(to.Hostname(), ".openai.azure.com")) {
		return openai.MaxCompletionTokens
	}
	return openai.MaxTokens
}

// wildcard ends a name of models that stands for many.
const wildcard = "*"

// TakeServers replaces the servers and models by another configuration's.
func (c *Config) TakeServers(from Config) {
	c.Providers, c.Deployments, c.Upstreams, c.Fallbacks = from.Providers, from.Deployments, from.Upstreams, from.Fallbacks
}

// All returns the deployments, with those of upstreams, and with all of their names.
func (c Config) All() []Deployment {
	list := slices.Clone(c.Deployments)
	for _, u := range c.Upstreams {
		list = append(list, u.deployments()...)
	}
	for i := range list {
		d := &list[i]
		d.Name, d.Names = d.name(), d.names()
		d.ID = cmp.Or(d.ID, d.Name)
	}
	return list
}

// Serves reports whether clients can ask it for a model, as far as names tell.
func (d Deployment) Serves(model string) bool {
	return slices.ContainsFunc(d.names(), func(n string) bool {
		before, many := strings.CutSuffix(n, wildcard)
		return n == model || many && strings.HasPrefix(model, before) && len(model) > len(before)
	})
}

// names returns the names that clients use.
func (d Deployment) names() []string {
	if len(d.Names) > 0 {
		return d.Names
	}
	return []string{d.Model}
}

// name returns its name in answers, metrics and the ledger.
func (d Deployment) name() string { return cmp.Or(d.Name, d.Provider+"/"+d.Model) }

// own returns the provider's name of a model that a client asks for by one of the names.
func (d Deployment) own(name string) string {
	if !strings.Contains(d.Model, wildcard) {
		return d.Model
	}
	for _, n := range d.names() {
		if before, is := strings.CutSuffix(n, wildcard); is && strings.HasPrefix(name, before) {
			return strings.Replace(d.Model, wildcard, name[len(before):], 1)
		}
	}
	return name
}

// A Client configures connections to upstreams.
type Client struct {
	// This counts connections in use. Further calls wait, or, with several tenants, find no place.
	Connections int           `yaml:"connections" range:"0..1048576" doc:"connections to one upstream; further calls wait; 0 is no bound"`
	Idle        int           `yaml:"idle_connections" range:"1..1048576" default:"1024" doc:"connections to one upstream that are kept for later"`
	IdleTime    time.Duration `yaml:"idle_connection_time" range:"1ms..24h" default:"75s" flag:"upstream-idle-time" doc:"how long they are kept"`
	HTTP2       bool          `yaml:"http2" doc:"speak HTTP/2 to upstreams, without TLS too: many streams share a connection, and all upstreams must know it"`
}

// Config configures a Pool. Start from Defaults.
type Config struct {
	Providers   []Provider   `yaml:"providers,outer" most:"256" doc:"the servers of models, or the accounts there"`
	Deployments []Deployment `yaml:"deployments,outer" most:"4096" doc:"the models of providers"`
	Fallbacks   []Fallback   `yaml:"fallbacks,outer" most:"1000" doc:"models that are asked in place of others"`
	Upstreams   []Upstream   `yaml:"upstreams,outer" most:"256" doc:"providers with models that all have the same terms"`
	// Managed says that deployments are made at run time, too: there may be none yet, and no fallback's.
	Managed bool
	// Policy says which addresses upstreams may have.
	Policy outward.Policy
	// Transport makes the calls; nil is a transport of this package, by Client. It must apply the policy to
	// connections.
	Transport http.RoundTripper
	Client    Client `yaml:",inline"`
	// Codec reads upstreams' messages; the zero value is openai.Standard.
	Codec openai.Codec
	// Readers lends readers of streams; nil is an openai.ReaderPool.
	Readers openai.Readers

	// Any bytes, such as the response's header or a comment, restart the times of FirstByte and Idle. Each attempt
	// has the full time.
	FirstByte      time.Duration `yaml:"first_byte_timeout" range:"1ms..24h" default:"30s" doc:"how long an upstream may be silent before the first event of a stream"`
	Idle           time.Duration `yaml:"idle_timeout" range:"1ms..24h" default:"30s" doc:"how long an upstream may be silent within a stream"`
	Total          time.Duration `yaml:"total_timeout" range:"1ms..24h" default:"5m" doc:"how long an answer may take, stream or not"`
	MaxAnswerBytes int64         `yaml:"max_answer_bytes" kind:"size" range:"1..1GiB" default:"8MiB" doc:"bytes of an answer that is no stream, and of the text of a stream of /v1/bot/chat; beyond: 502. Images and recordings need more"`
	MaxEventBytes  int64         `yaml:"max_event_bytes" kind:"size" range:"1KiB..256MiB" default:"8MiB" doc:"bytes of one event of a stream; beyond, the stream ends with an error. An image in base64 is one event"`
	// Answers bounds the bytes of all such answers while they arrive; nil is no bound.
	Answers *budget.Budget
	// Tenants is the number of tenants: one of several has at most half of an upstream's places.
	Tenants  int
	Balance  Balance `yaml:"balance" oneof:"weight least_busy latency" default:"weight" doc:"how requests are divided among deployments of equal priority: by weight, to the one with the fewest calls under way, or by the time that answers take"`
	Attempts int     `yaml:"attempts" range:"1..16" default:"3" doc:"how often one request is tried, the first time included"`
	// It keeps retries from doubling the load of a failing server.
	RetryRatio float64 `yaml:"retry_ratio" range:"0..1" default:"0.1" doc:"retries per request of a key in the long run"`
	RetryBurst int     `yaml:"retry_burst" range:"0..1048576" default:"20" doc:"retries of a key at once"`
	// Consecutive failures, with cut streams, make an upstream cool down. It gets no requests for Cooldown, and then
	// one that decides. Each time doubles, up to MaxCooldown. The attempts of one request count once, and failures of
	// only one tenant count for that tenant. An upstream with a Retry-After is not asked before that.
	Failures    int           `yaml:"failures" range:"1..2147483647" default:"3" doc:"consecutive failures after which an upstream gets no requests for a model for a while; for any model, if it cannot be reached or refuses the gateway"`
	Cooldown    time.Duration `yaml:"cooldown" range:"1ms..24h" default:"1s" doc:"how long it is not asked the first time; then one request decides, and each further time is twice as long"`
	MaxCooldown time.Duration `yaml:"max_cooldown" range:"1ms..24h" default:"30s" doc:"the longest such time"`
	// Before is the pool that this one replaces; nil is none. Deployments of equal names keep its counters, and its
	// cool-downs unless their provider changes.
	Before *Pool
	// Mask replaces secrets in logged texts of upstreams; nil replaces none.
	Mask func(text string) string
	// Ended gets each call; nil discards.
	Ended func(*Called)
	// Logger gets events of upstreams; nil discards.
	Logger *slog.Logger
}

// maxRetryAfter bounds upstreams' Retry-After. One request after each time finds out whether it is over.
const maxRetryAfter = time.Hour

// Defaults returns the Config that every field starts from. It has no upstreams.
func Defaults() Config { return fields.Default[Config]() }

// DefaultDeployment returns the Deployment that every field starts from.
func DefaultDeployment() Deployment { return fields.Default[Deployment]() }

// DefaultUpstream returns the Upstream that every field starts from.
func DefaultUpstream() Upstream { return fields.Default[Upstream]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express. The report is that of the enclosing
// configuration.
func (c Config) Check(r *fields.Report) {
	r.Check(len(c.Upstreams)+len(c.Deployments) > 0 || c.Managed, "upstreams", "there is none, and no deployment", "such as --upstream http://127.0.0.1:9000/v1")
	seen := map[string]bool{}
	server := func(at *fields.Report, name string, s Server) {
		at.Check(!seen[name], "name", fmt.Sprintf("%q is there twice", name), "give each provider and upstream its own")
		seen[name] = true
		at.Check(s.url() != "", "url", "is missing", "such as http://10.0.0.5:8000/v1")
		if s.url() != "" {
			at.Error("url", s.policy(c.Policy).CheckURL(s.url()))
		}
		at.Check(!strings.ContainsAny(s.URL, "?#"), "url", fmt.Sprintf("%q has a query or a fragment", s.URL), "leave it out: paths are put after it; query has parameters")
		at.Check(httpguts.ValidHeaderFieldValue(string(s.Key)), "key_file", "has a character that no header field can have", "the key alone")
		for field, value := range s.Headers {
			at.Check(httpguts.ValidHeaderFieldName(field) && httpguts.ValidHeaderFieldValue(value), "headers."+field, "is no header field", "such as OpenAI-Organization: org-1")
		}
	}
	for i, p := range c.Providers {
		server(r.At("providers[%d]", i), p.Name, p.Server)
	}
	for i, u := range c.Upstreams {
		at := r.At("upstreams[%d]", i)
		server(at, u.Name, u.Server)
		u.checkDrop(at)
		at.Check(len(u.Models) > 0, "models", "there is none", "such as {dyno-1: dyno-1}")
		for name, own := range u.Models {
			at.Check(own != "", "models."+name, "is empty", "the server's own name of the model")
		}
		u.Price.check(at, "price")
		for name, prices := range u.Prices {
			prices.check(at, "prices."+name)
			at.Check(u.Models[name] != "", "prices."+name, fmt.Sprintf("%q is none of its models", name), "a name of models, as clients use it")
		}
	}
	named := map[string]bool{}
	for i, d := range c.Deployments {
		at := r.At("deployments[%d]", i)
		at.Check(slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == d.Provider }), "provider", fmt.Sprintf("%q is no provider", d.Provider), "the name of one of providers")
		d.checkDrop(at)
		d.Price.check(at, "price")
		name := d.name()
		at.Check(!named[name] && !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.Name == name }), "name", fmt.Sprintf("%q is there twice", name), "give each deployment its own")
		named[name] = true
		many := strings.Contains(d.Model, wildcard)
		at.Check(strings.Count(d.Model, wildcard) <= 1, "model", fmt.Sprintf("%q has more than one *", d.Model), "one at most")
		for j, n := range d.names() {
			inner := strings.Contains(strings.TrimSuffix(n, wildcard), wildcard)
			at.Check(n != "" && !inner && strings.HasSuffix(n, wildcard) == many, fmt.Sprintf("names[%d]", j), fmt.Sprintf("%q is not possible", n), "a name; one that ends in * goes with a model that has *, and only with that")
		}
	}
	c.checkFallbacks(r)
	r.Check(c.MaxCooldown >= c.Cooldown, "upstream.max_cooldown", fmt.Sprintf("%v is too little", c.MaxCooldown), fmt.Sprintf("at least cooldown, %v", c.Cooldown))
}
