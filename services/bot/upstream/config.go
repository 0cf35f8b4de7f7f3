// Package upstream asks models on several servers, chosen by priority and weight. If a server fails before it has
// answered anything, it asks another. A budget bounds repeated requests. The usage of an answer is always known at
// its end: from the server, or else counted and marked as estimated. That includes streams that were cut or left.
package upstream

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/services/bot/budget"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
)

// Price is the price of tokens, in billionths of the currency: 150 is 0.15 per million tokens. At 1 per token, the
// most tokens of a request do not overflow it.
type Price struct {
	Prompt          int64  `yaml:"prompt" range:"0..1000000000" doc:"the price of a token of a question, in billionths"`
	Cached          *int64 `yaml:"cached" range:"0..1000000000" otherwise:"prompt" doc:"of one that the upstream had in its cache"`
	CacheWrite      *int64 `yaml:"cache_write" range:"0..1000000000" otherwise:"prompt" doc:"of one that it put there"`
	PromptAudio     *int64 `yaml:"prompt_audio" range:"0..1000000000" otherwise:"prompt" doc:"of one of a recording"`
	PromptImage     *int64 `yaml:"prompt_image" range:"0..1000000000" otherwise:"prompt" doc:"of one of an image"`
	Completion      int64  `yaml:"completion" range:"0..1000000000" doc:"the price of a token of an answer, in billionths"`
	Reasoning       *int64 `yaml:"reasoning" range:"0..1000000000" otherwise:"completion" doc:"of one of reasoning"`
	CompletionAudio *int64 `yaml:"completion_audio" range:"0..1000000000" otherwise:"completion" doc:"of one of a recording"`
	CompletionImage *int64 `yaml:"completion_image" range:"0..1000000000" otherwise:"completion" doc:"of one of an image"`
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
	return side(u.Prompt, p.Prompt, prompt) + side(u.Completion, p.Completion, completion)
}

// highest has the highest price of any kind of token on each side.
func (p Price) highest() Price {
	most := Price{Prompt: p.Prompt, Completion: p.Completion}
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

// Free reports whether no token costs anything.
func (p Price) Free() bool { return p.highest() == Price{} }

// An Upstream is one server. Start from Defaults.
type Upstream struct {
	Name string          `yaml:"name,required" doc:"its name in answers, metrics and the ledger; no two the same"`
	URL  string          `yaml:"url,required" doc:"the URL of its API, up to and including /v1, without a user, a query or a fragment. Its address must be public or in allow_networks"`
	Key  secretfile.Text `yaml:"key_file" doc:"the file of the key that it is sent as a bearer token; to a public address, only by https"`
	// Models maps clients' names of models to the server's own.
	Models map[string]string `yaml:"models,required" names:"text" most:"1000" doc:"its own name of each model, by the name that clients use"`
	// Upstreams of equal priority get shares by their Weights.
	Priority      int               `yaml:"priority" range:"-1000000..1000000" default:"0" doc:"it is asked only if none of a lower number can be"`
	Weight        int               `yaml:"weight" range:"1..1048576" default:"1" doc:"its share of the requests among those of equal priority"`
	MaxConcurrent int               `yaml:"max_concurrent" range:"1..1048576" default:"4096" doc:"calls under way"`
	Price         Price             `yaml:"price" doc:"prices of tokens"`
	Prices        map[string]Price  `yaml:"prices" names:"text" most:"1000" otherwise:"price" doc:"prices of single models, by clients' names"`
	Bound         openai.BoundField `yaml:"bound" oneof:"max_tokens max_completion_tokens" otherwise:"max_tokens, which almost all servers know, but max_completion_tokens for OpenAI and Azure" doc:"the field that tells it how many tokens an answer may have, where there are limits"`
	FirstByte     time.Duration     `yaml:"first_byte_timeout" range:"0..24h" otherwise:"upstream.first_byte_timeout" doc:"how long it may be silent before the first event of a stream"`
	Idle          time.Duration     `yaml:"idle_timeout" range:"0..24h" otherwise:"upstream.idle_timeout" doc:"how long it may be silent within a stream"`
	// NoStreamOptions is for a server that does not know them: the usage of its streams is estimated. A server that
	// refuses them is asked without them in any case.
	NoStreamOptions bool `yaml:"stream_options,inverted" default:"true" doc:"send it stream_options, which request a stream's usage"`
}

// PriceOf returns the price of a model.
func (u Upstream) PriceOf(model string) Price {
	if p, ok := u.Prices[model]; ok {
		return p
	}
	return u.Price
}

// policy returns the policy for its addresses: its key is a secret.
func (u Upstream) policy(p outward.Policy) outward.Policy {
	if u.Key != "" {
		return p.RequireTLSOrAllowlist(u.URL)
	}
	return p
}

// bound returns the field for the bound on tokens.
func (u Upstream) bound() openai.BoundField {
	if u.Bound != "" {
		return u.Bound
	}
	to, err := url.Parse(u.URL)
	if err == nil && (to.Hostname() == "api.openai.com" || strings.HasSuffix(to.Hostname(), ".openai.azure.com")) {
		return openai.MaxCompletionTokens
	}
	return openai.MaxTokens
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
	Upstreams []Upstream `yaml:"upstreams,outer" most:"256" doc:"the servers of models"`
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
	Attempts int `yaml:"attempts" range:"1..16" default:"3" doc:"how often one request is tried, the first time included"`
	// It keeps retries from doubling the load of a failing server.
	RetryRatio float64 `yaml:"retry_ratio" range:"0..1" default:"0.1" doc:"retries per request of a key in the long run"`
	RetryBurst int     `yaml:"retry_burst" range:"0..1048576" default:"20" doc:"retries of a key at once"`
	// Consecutive failures, with cut streams, make an upstream cool down. It gets no requests for Cooldown, and then
	// one that decides. Each time doubles, up to MaxCooldown. The attempts of one request count once, and failures of
	// only one tenant count for that tenant. An upstream with a Retry-After is not asked before that.
	Failures    int           `yaml:"failures" range:"1..2147483647" default:"3" doc:"consecutive failures after which an upstream gets no requests for a model for a while; for any model, if it cannot be reached or refuses the gateway"`
	Cooldown    time.Duration `yaml:"cooldown" range:"1ms..24h" default:"1s" doc:"how long it is not asked the first time; then one request decides, and each further time is twice as long"`
	MaxCooldown time.Duration `yaml:"max_cooldown" range:"1ms..24h" default:"30s" doc:"the longest such time"`
	// Before is the pool that this one replaces; nil is none. Upstreams of equal names keep its counters. Cool-downs
	// end.
	Before *Pool
	// Mask replaces secrets in logged texts of upstreams; nil replaces none.
	Mask func(text string) string
	// Logger gets events of upstreams; nil discards.
	Logger *slog.Logger
}

// maxRetryAfter bounds upstreams' Retry-After. One request after each time finds out whether it is over.
const maxRetryAfter = time.Hour

// Defaults returns the Config that every field starts from. It has no upstreams.
func Defaults() Config { return fields.Default[Config]() }

// DefaultUpstream returns the Upstream that every field starts from.
func DefaultUpstream() Upstream { return fields.Default[Upstream]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express. The report is that of the enclosing
// configuration.
func (c Config) Check(r *fields.Report) {
	r.Check(len(c.Upstreams) > 0, "upstreams", "there is none", "such as --upstream http://127.0.0.1:9000/v1")
	seen := map[string]bool{}
	for i, u := range c.Upstreams {
		at := r.At("upstreams[%d]", i)
		at.Check(!seen[u.Name], "name", fmt.Sprintf("%q is there twice", u.Name), "give each upstream its own")
		seen[u.Name] = true
		at.Error("url", u.policy(c.Policy).CheckURL(u.URL))
		at.Check(!strings.ContainsAny(u.URL, "?#"), "url", fmt.Sprintf("%q has a query or a fragment", u.URL), "leave it out: paths are put after it")
		at.Check(len(u.Models) > 0, "models", "there is none", "such as {dyno-1: dyno-1}")
		for name, own := range u.Models {
			at.Check(own != "", "models."+name, "is empty", "the server's own name of the model")
		}
		for name := range u.Prices {
			at.Check(u.Models[name] != "", "prices."+name, fmt.Sprintf("%q is none of its models", name), "a name of models, as clients use it")
		}
	}
	r.Check(c.MaxCooldown >= c.Cooldown, "upstream.max_cooldown", fmt.Sprintf("%v is too little", c.MaxCooldown), fmt.Sprintf("at least cooldown, %v", c.Cooldown))
}
