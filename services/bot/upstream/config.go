// Package upstream asks models: one of several servers, chosen by priority and weight,
// another when that fails before it has answered anything, and none a second time more
// often than a budget allows. What an answer has used is always known in the end: told
// by the server, or else counted and marked as estimated, of streams that were cut or
// left as well.
package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/bot/ration"
)

// Price is what tokens cost, in billionths of whatever money is counted in: 150 is 0.15
// per million tokens.
type Price struct{ Prompt, Completion int64 }

// Of returns what so many tokens cost.
func (p Price) Of(prompt, completion int) int64 {
	return p.Prompt*int64(prompt) + p.Completion*int64(completion)
}

// An Upstream is one server. Start from Defaults.
type Upstream struct {
	Name string
	// URL is where its API is, up to and including /v1.
	URL string
	// Key is sent as a bearer token; "" sends none.
	Key string
	// Models are those that it has: its own name by the name that clients use.
	Models map[string]string
	// Priority orders upstreams: one of a higher number is asked only if none of a lower
	// one can be. Among equals, each gets a share by its Weight.
	Priority, Weight int
	// MaxConcurrent bounds the calls under way.
	MaxConcurrent int
	Price         Price
	// Bound is how it is told how many tokens an answer may have, where there are limits: "" is max_tokens, which almost all
	// servers know, but for OpenAI's own max_completion_tokens, whose reasoning models refuse the other.
	Bound openai.BoundField
	// FirstByte and Idle are those of Config for this one; 0 are those of all.
	FirstByte, Idle time.Duration
	// NoStreamOptions sends it no options of streams, which it does not know: what its streams use is estimated. One that
	// refuses them is asked without them in any case.
	NoStreamOptions bool
}

// policy is what its addresses are held to: its key is a secret.
func (u Upstream) policy(p outward.Policy) outward.Policy {
	if u.Key != "" {
		return p.Trusting(u.URL)
	}
	return p
}

// bound is the field of its bound.
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

// A Client is how connections to upstreams are used.
type Client struct {
	// Connections bounds those to one upstream, those in use included: further calls wait, or, if there are several tenants,
	// find no place. 0 is no bound.
	Connections int
	// Idle bounds those that are kept for later, IdleTime for how long.
	Idle     int
	IdleTime time.Duration
	// HTTP2 speaks HTTP/2 to every upstream, without TLS too: all of them must.
	HTTP2 bool
}

// Config says what is asked, and how long. Start from Defaults.
type Config struct {
	Upstreams []Upstream
	// Policy says which addresses upstreams may have.
	Policy outward.Policy
	// Transport makes the calls; nil is one of this package's own, as Client says. It must
	// hold connections to the policy.
	Transport http.RoundTripper
	Client    Client
	// Codec reads what upstreams say; the zero value is openai.Standard.
	Codec openai.Codec
	// Readers lends what reads streams; nil is an openai.ReaderPool.
	Readers openai.Readers
	// Control prepares sockets before they connect, if Transport is nil; nil does nothing.
	Control func(network, address string, c syscall.RawConn) error

	// FirstByte and Idle bound for how long an upstream is silent on a stream: before its first event, and after it. Whatever
	// comes, such as the head of the answer or a comment, begins the time again. Total bounds all of an answer, stream or not.
	// Each try has as much.
	FirstByte, Idle, Total time.Duration
	// MaxAnswerBytes bounds an answer that is no stream.
	MaxAnswerBytes int64
	// Answers bounds what is held of all such answers while they come; nil is not at all.
	Answers *ration.Ration
	// Tenants is how many ask: if there are several, none has more than half of an upstream's places.
	Tenants int
	// Attempts bounds how often one request is tried, the first time included.
	Attempts int
	// RetryRatio is how many retries there may be per request of a tenant in the long run, and
	// RetryBurst how many at once: a server that fails is not asked twice as much.
	RetryRatio float64
	RetryBurst int
	// Failures in a row, streams that were cut among them, have an upstream cool down: it is not asked for Cooldown, then by
	// one request that decides; the tries of one request count once, and failures of one tenant alone for that tenant; each time twice as long, MaxCooldown at most. One that says
	// when to come back (Retry-After) is not asked before.
	Failures              int
	Cooldown, MaxCooldown time.Duration
	// Seed makes choices repeatable; 0 is another each time.
	Seed uint64
	// Mask replaces secrets in what is logged of an upstream's words; nil replaces none.
	Mask func(text string) string
	// Logger takes what happens to upstreams; nil discards.
	Logger *slog.Logger
}

// Bounds of Config.
const (
	maxUpstreams = 256
	maxWeight    = 1 << 20
	maxPrice     = 1e9 // 1 per token: with all tokens that a request can have, it is a number
	maxTime      = 24 * time.Hour
)

// Defaults returns the Config that every field starts from. It has no upstreams.
func Defaults() Config {
	return Config{
		FirstByte: 30 * time.Second, Idle: 30 * time.Second, Total: 5 * time.Minute, MaxAnswerBytes: 8 << 20,
		Client:   Client{Idle: 1024, IdleTime: 75 * time.Second},
		Attempts: 3, RetryRatio: 0.1, RetryBurst: 20, Failures: 3, Cooldown: time.Second, MaxCooldown: 30 * time.Second,
	}
}

// DefaultUpstream returns the Upstream that every field starts from.
func DefaultUpstream() Upstream { return Upstream{Weight: 1, MaxConcurrent: 4096} }

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Upstreams) == 0 || len(c.Upstreams) > maxUpstreams {
		fault("upstreams: %d: must be 1 to %d", len(c.Upstreams), maxUpstreams)
	}
	seen := map[string]bool{}
	for i, u := range c.Upstreams {
		at := fmt.Sprintf("upstream %d, %q", i+1, u.Name)
		if u.Name == "" || seen[u.Name] {
			fault("%s: name: must be there, and once", at)
		}
		seen[u.Name] = true
		if err := u.policy(c.Policy).CheckURL(u.URL); err != nil {
			fault("%s: URL: %w", at, err)
		} else if strings.ContainsAny(u.URL, "?#") {
			fault("%s: URL: %q: must have no query and no fragment: paths are put behind it", at, u.URL)
		}
		if len(u.Models) == 0 {
			fault("%s: models: none", at)
		}
		for name, own := range u.Models {
			if name == "" || own == "" {
				fault("%s: model %q, %q: must not be empty", at, name, own)
			}
		}
		if u.Weight < 1 || u.Weight > maxWeight {
			fault("%s: weight: %d: must be from 1 to %d", at, u.Weight, maxWeight)
		}
		if u.MaxConcurrent < 1 || u.MaxConcurrent > 1<<20 {
			fault("%s: max concurrent: %d: must be from 1 to %d", at, u.MaxConcurrent, 1<<20)
		}
		for _, d := range []time.Duration{u.FirstByte, u.Idle} {
			if d < 0 || d > maxTime {
				fault("%s: first byte %v, idle %v: must be from 0 to %v", at, u.FirstByte, u.Idle, maxTime)
				break
			}
		}
		if u.Bound != "" && u.Bound != openai.MaxTokens && u.Bound != openai.MaxCompletionTokens {
			fault("%s: bound: %q: must be %s or %s", at, u.Bound, openai.MaxTokens, openai.MaxCompletionTokens)
		}
		if u.Price.Prompt < 0 || u.Price.Completion < 0 || u.Price.Prompt > maxPrice || u.Price.Completion > maxPrice {
			fault("%s: price: %+v: must be from 0 to %.0e", at, u.Price, maxPrice)
		}
	}
	for _, t := range []struct {
		field string
		d     time.Duration
	}{{"first byte", c.FirstByte}, {"idle", c.Idle}, {"total", c.Total}, {"cooldown", c.Cooldown}, {"max cooldown", c.MaxCooldown}} {
		if t.d <= 0 || t.d > maxTime {
			fault("%s: %v: must be more than 0 and %v at most", t.field, t.d, maxTime)
		}
	}
	if c.MaxCooldown < c.Cooldown {
		fault("max cooldown: %v: must be the cooldown, %v, or more", c.MaxCooldown, c.Cooldown)
	}
	if n := c.Client.Connections; n < 0 || n > 1<<20 {
		fault("connections: %d: must be from 1 to %d, or 0 for no bound", n, 1<<20)
	}
	if n := c.Client.Idle; n < 1 || n > 1<<20 {
		fault("idle connections: %d: must be from 1 to %d", n, 1<<20)
	}
	if d := c.Client.IdleTime; d < time.Millisecond || d > maxTime {
		fault("idle connection time: %v: must be from 1ms to %v", d, maxTime)
	}
	if c.MaxAnswerBytes < 1 || c.MaxAnswerBytes > 1<<30 {
		fault("max answer bytes: %d: must be from 1 to %d", c.MaxAnswerBytes, 1<<30)
	}
	if c.Attempts < 1 || c.Attempts > 16 {
		fault("attempts: %d: must be from 1 to 16", c.Attempts)
	}
	if !(c.RetryRatio >= 0 && c.RetryRatio <= 1) {
		fault("retry ratio: %v: must be from 0 to 1", c.RetryRatio)
	}
	if c.RetryBurst < 0 || c.RetryBurst > 1<<20 {
		fault("retry burst: %d: must be from 0 to %d", c.RetryBurst, 1<<20)
	}
	if c.Failures < 1 {
		fault("failures: %d: must be 1 or more", c.Failures)
	}
	return errors.Join(errs...)
}
