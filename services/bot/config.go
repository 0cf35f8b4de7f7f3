package bot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"dyno/services/bot/intent"
	"dyno/services/bot/jwt"
	"dyno/services/bot/mask"
	"dyno/services/bot/origin"
	"dyno/services/bot/outward"
	"dyno/services/bot/plugin"
	"dyno/services/bot/resume"
	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/trace"
	"dyno/services/bot/upstream"
	"dyno/services/internal/serve"
)

// An Archive is where turns and the ledger are kept.
type Archive string

// Where they can be.
const (
	ArchiveMemory   Archive = "memory"
	ArchiveSQLite   Archive = "sqlite"
	ArchivePostgres Archive = "postgres"
)

// A Disconnect is what becomes of an answer whose client has gone.
type Disconnect string

// What can become of it.
const (
	// Cancel leaves it at the upstream. What was used so far is accounted.
	Cancel Disconnect = "cancel"
	// Drain has it come to its end, within DrainTime, and keeps the turn.
	Drain Disconnect = "drain"
)

// An Outage is what becomes of requests while the limits' store does not answer.
type Outage string

// What can become of them.
const (
	// Refuse answers 503: no limit is ever exceeded.
	Refuse Outage = "refuse"
	// Local counts at this gateway alone, from zero.
	Local Outage = "local"
)

// A Key is an API key: who has it may ask, and log users in.
type Key struct {
	ID string `yaml:"id"`
	// SHA256 is of its secret, in hexadecimal. The secret itself is kept nowhere; it must
	// be long and random.
	SHA256 string `yaml:"sha256"`
	// Models are those that it may use; none is all.
	Models []string `yaml:"models"`
	// Limits bound what it may use, one for a resource and a window.
	Limits []Limit `yaml:"limits"`
}

// pays tells whether some upstream that the key may use has a price.
func (k Key) pays(upstreams []upstream.Upstream) bool {
	return slices.ContainsFunc(upstreams, func(u upstream.Upstream) bool {
		if u.Price == (upstream.Price{}) {
			return false
		}
		for model := range u.Models {
			if len(k.Models) == 0 || slices.Contains(k.Models, model) {
				return true
			}
		}
		return false
	})
}

// A Limit is store.Limit as configuration has it.
type Limit struct {
	Resource store.Resource `yaml:"resource"` // requests, tokens or money
	Amount   int64          `yaml:"amount"`   // money in billionths
	Window   time.Duration  `yaml:"window"`   // 0 is for ever
}

// An Issuer is somebody else whose tokens are accepted.
type Issuer struct {
	Name       string          `yaml:"name"` // the "iss" of its tokens
	Audience   string          `yaml:"audience"`
	Algorithms []jwt.Algorithm `yaml:"algorithms"`
	Lifetime   time.Duration   `yaml:"lifetime"` // of its tokens at most
	KeySet     string          `yaml:"key_set"`  // the URL of its keys
	Key        string          `yaml:"key"`      // the ID of the API key that pays
	Leeway     *time.Duration  `yaml:"leeway"`   // by how much its clock may differ; nil is 30 seconds
}

// defaultLeeway is that of an issuer that has none.
const defaultLeeway = 30 * time.Second

func (s Issuer) leeway() time.Duration {
	if s.Leeway == nil {
		return defaultLeeway
	}
	return *s.Leeway
}

// A Plugin is one as configuration has it.
type Plugin struct {
	Name          string        `yaml:"name"`
	URL           string        `yaml:"url"`     // one of the two
	Builtin       string        `yaml:"builtin"` // clock or calculator
	Intents       []string      `yaml:"intents"`
	Timeout       time.Duration `yaml:"timeout"`        // 0 is a second
	MaxConcurrent int           `yaml:"max_concurrent"` // 0 is 64
}

// Token says how users' tokens are made.
type Token struct {
	// Secret signs them, 32 bytes at least; none is one of this process's own.
	Secret []byte `yaml:"-"`
	// Previous is the secret before: its tokens are good until they expire.
	Previous []byte        `yaml:"-"`
	Issuer   string        `yaml:"issuer"`
	Audience string        `yaml:"audience"`
	Lifetime time.Duration `yaml:"lifetime"`
	// Remember bounds the tokens that are remembered as verified; 0 is none.
	Remember int `yaml:"remember"`
}

// Config says what a gateway does. Start from Defaults.
type Config struct {
	// Listen is where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks
	// one. It must be a loopback address unless AllowRemote is set. "" is for gateways
	// that are used by their Handler only.
	Listen string `yaml:"listen"`
	// AllowRemote permits Listen and Admin addresses that other machines reach.
	AllowRemote         bool `yaml:"allow_remote"`
	serve.AdminListener `yaml:",inline"`
	// Page serves a page to chat in at /.
	Page bool `yaml:"page"`
	// AllowNetworks are networks that upstreams, plugins and key sets may be in although
	// they are not public.
	AllowNetworks []string `yaml:"allow_networks"`

	// AllowOrigins are the origins of pages of other sites that may use the API (CORS). A single "*" is every origin.
	AllowOrigins []string `yaml:"allow_origins"`

	// Keys are the API keys. Without any, everybody who reaches a loopback Listen may log
	// in and ask, without limits.
	Keys    []Key    `yaml:"keys"`
	Token   Token    `yaml:"token"`
	Issuers []Issuer `yaml:"issuers"`

	// Upstream is who answers; its Policy is AllowNetworks.
	Upstream upstream.Config `yaml:"-"`
	// Model answers /v1/bot/chat; "" is the first by name.
	Model string `yaml:"model"`
	// SystemPrompt is what its conversations begin with; "" is nothing.
	SystemPrompt string `yaml:"system_prompt"`
	// HistoryTokens and HistoryTurns bound what of a conversation is told to the model
	// again: the latest turns that fit. ReplyTokens bounds its answer, and that to a request of
	// the endpoints of OpenAI's kind that has no bound, if its key has limits of tokens or money.
	HistoryTokens int `yaml:"history_tokens"`
	HistoryTurns  int `yaml:"history_turns"`
	ReplyTokens   int `yaml:"reply_tokens"`
	// ContextTokens is how many tokens a model is taken to read beside what is in the request, if its key has limits of tokens
	// or money: of what an upstream keeps or finds by its own tools, and of files by ID or link. What the upstream tells counts.
	ContextTokens int `yaml:"context_tokens"`
	// HistoryBytes is the memory for what is told again of conversations that go on, so that SQLite is not read
	// for each turn; 0 has it read. Archives of several gateways are read for each turn in any case.
	HistoryBytes int64 `yaml:"history_bytes"`

	// Rules is the file of the rules for intents; "" finds nothing but "chat". It is looked
	// at for changes every RulesInterval.
	Rules         string        `yaml:"rules"`
	RulesInterval time.Duration `yaml:"rules_interval"`
	Plugins       []Plugin      `yaml:"plugins"`
	PluginBudget  time.Duration `yaml:"plugin_budget"`

	// MaskIn and MaskOut replace secrets in what is asked and in what is answered, by
	// MaskRules.
	MaskIn    bool        `yaml:"mask_in"`
	MaskOut   bool        `yaml:"mask_out"`
	MaskRules []mask.Rule `yaml:"mask_rules"`

	// CacheAge is for how long answers are kept that are no streams and whose temperature
	// is 0; 0 keeps none. An API key has only its own. CacheBytes bounds them.
	CacheAge   time.Duration `yaml:"cache_age"`
	CacheBytes int64         `yaml:"cache_bytes"`

	// ResumeAge is for how long a client that has lost its connection may read on in a
	// stream of /v1/bot/chat after its end; 0 is never. ResumeStreamBytes bounds what is kept
	// of one stream, ResumeBytes what is kept of all.
	ResumeAge         time.Duration `yaml:"resume_age"`
	ResumeStreamBytes int64         `yaml:"resume_stream_bytes"`
	ResumeBytes       int64         `yaml:"resume_bytes"`

	// Archive is where turns and the ledger are: File is SQLite's, Postgres a connection
	// string. SyncWrites has SQLite wait for the disk.
	Archive    Archive `yaml:"archive"`
	File       string  `yaml:"file"`
	SyncWrites bool    `yaml:"sync_writes"`
	Postgres   string  `yaml:"-"`
	// Redis has sessions and limits, at host:port, unix:PATH, redis://user:password@host:port/db or, with TLS,
	// rediss://…; "" is this process.
	Redis string `yaml:"redis"`
	// LimitsOutage is what becomes of requests while Redis does not answer.
	LimitsOutage Outage `yaml:"limits_outage"`
	// StoreTimeout bounds one operation of a store: a connection that is stuck is given up.
	StoreTimeout time.Duration `yaml:"store_timeout"`
	// Batch bounds what waits for the archive. Beyond that requests are refused.
	Batch store.BatchConfig `yaml:"-"`

	// MaxConcurrent bounds the answers under way. MaxWaiting more wait, in order, for
	// MaxWait at most (beyond: 503).
	MaxConcurrent int           `yaml:"max_concurrent"`
	MaxWaiting    int           `yaml:"max_waiting"`
	MaxWait       time.Duration `yaml:"max_wait"`
	// SessionWait is how long a turn waits for those of its session before it, and
	// SessionWaiters how many may (beyond: 409). SessionLease is for how long a turn still
	// has its session when its gateway has died.
	SessionWait    time.Duration `yaml:"session_wait"`
	SessionWaiters int           `yaml:"session_waiters"`
	SessionLease   time.Duration `yaml:"session_lease"`
	// ChatDisconnect is of /v1/bot/chat, ModelDisconnect of /v1/chat/completions, ResponsesDisconnect of /v1/responses.
	ChatDisconnect      Disconnect    `yaml:"chat_disconnect"`
	ModelDisconnect     Disconnect    `yaml:"model_disconnect"`
	ResponsesDisconnect Disconnect    `yaml:"responses_disconnect"`
	DrainTime           time.Duration `yaml:"drain_time"`

	// MaxBodyBytes bounds a request's body (beyond: 413), MaxQueryBytes a query of
	// /v1/bot/chat.
	MaxBodyBytes  int64 `yaml:"max_body_bytes"`
	MaxQueryBytes int   `yaml:"max_query_bytes"`
	// MaxBodiesBytes bounds those that are held at once (beyond: 503): until an answer begins, or for one that is no
	// stream ends. A key has half of it at most if there are others.
	MaxBodiesBytes int64 `yaml:"max_bodies_bytes"`
	// MaxAnswersBytes bounds what is held of answers at once (beyond: 503): of whole ones until they are written, and of
	// streams of /v1/bot/chat the text, which is kept. A key has half of it at most if there are others.
	MaxAnswersBytes int64 `yaml:"max_answers_bytes"`
	// WriteTimeout bounds writing one piece of an answer.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// HTTP2 lets clients speak HTTP/2 without TLS, beside HTTP/1.1.
	HTTP2 bool `yaml:"http2"`
	// IdleTimeout is how long a client's connection is kept while nothing is asked.
	IdleTimeout time.Duration `yaml:"idle_timeout"`

	// TraceEndpoint is a collector's URL, such as http://127.0.0.1:4318/v1/traces; "" traces
	// nothing. TraceRatio is the share of requests that is traced, of those that do not say
	// themselves.
	TraceEndpoint string  `yaml:"trace_endpoint"`
	TraceRatio    float64 `yaml:"trace_ratio"`

	// DrainTimeout is how long answers under way may go on at the end.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Logger takes what happens to the gateway; nil discards.
	Logger *slog.Logger `yaml:"-"`
	// Parts are the gateway's own unless a program measures others.
	Parts Parts `yaml:"-"`
}

// Defaults returns the Config that every field starts from. It has neither an address
// nor upstreams.
func Defaults() Config {
	return Config{
		Page:          true,
		Token:         Token{Issuer: "dyno-bot", Audience: "dyno-bot", Lifetime: 10 * time.Minute, Remember: 16 << 10},
		Upstream:      upstream.Defaults(),
		HistoryTokens: 2048, HistoryTurns: 32, HistoryBytes: 32 << 20, ReplyTokens: 1024, ContextTokens: 128_000,
		RulesInterval: 2 * time.Second,
		PluginBudget:  2 * time.Second,
		MaskRules:     mask.Defaults(),
		CacheBytes:    64 << 20,
		ResumeAge:     resume.Defaults().Age, ResumeStreamBytes: resume.Defaults().StreamBytes, ResumeBytes: resume.Defaults().Bytes,
		TraceRatio:    trace.Defaults().Ratio,
		Archive:       ArchiveMemory,
		LimitsOutage:  Refuse,
		StoreTimeout:  3 * time.Second,
		Batch:         store.BatchDefaults(),
		MaxConcurrent: 16 << 10, MaxWaiting: 4 << 10, MaxWait: 10 * time.Second,
		SessionWait: 10 * time.Second, SessionWaiters: 8, SessionLease: 30 * time.Second,
		ChatDisconnect: Drain, ModelDisconnect: Cancel, ResponsesDisconnect: Cancel, DrainTime: 30 * time.Second,
		MaxBodyBytes: 4 << 20, MaxQueryBytes: 16 << 10, MaxBodiesBytes: 128 << 20, MaxAnswersBytes: 128 << 20,
		WriteTimeout: 30 * time.Second, HTTP2: true, IdleTimeout: 5 * time.Minute, DrainTimeout: 10 * time.Second,
	}
}

// Validate reports every fault at once: the field, its value, what would be right. It reads the files of the rules and of
// the admin listener's token, and opens nothing else.
func (c Config) Validate() error {
	var errs []error
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
	}
	between := func(field string, value, low, high int64) {
		if value < low || value > high {
			fault(field, value, fmt.Sprintf("must be from %d to %d", low, high))
		}
	}
	period := func(field string, d, low, high time.Duration) {
		if d < low || d > high {
			fault(field, d, fmt.Sprintf("must be from %v to %v", low, high))
		}
	}
	if c.Listen != "" {
		if err := serve.CheckListen("listen", c.Listen, c.AllowRemote); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	if len(c.Keys) == 0 && c.Listen != "" {
		if a, err := serve.ParseAddress(c.Listen); err == nil && !a.Local() {
			fault("keys", "none", "everybody could ask a gateway that other machines reach: give API keys")
		}
	}
	for i, site := range c.AllowOrigins {
		if !origin.Valid(site) && (site != "*" || len(c.AllowOrigins) > 1) {
			fault(fmt.Sprintf("allow origins %d", i+1), fmt.Sprintf("%q", site), `must be like https://example.org or http://localhost:8080, or "*" alone`)
		}
		if site == "*" && len(c.Keys) == 0 {
			fault(fmt.Sprintf("allow origins %d", i+1), `"*"`, "goes with keys: any page could ask a gateway that asks for none")
		}
	}
	policy, err := c.policy()
	if err != nil {
		errs = append(errs, fmt.Errorf("allow networks: %w", err))
	}
	errs = append(errs, c.validateKeys(policy)...)
	u := c.Upstream
	u.Policy = policy
	if err := u.Validate(); err != nil {
		errs = append(errs, err)
	} else {
		has := func(model string) bool {
			return slices.ContainsFunc(u.Upstreams, func(s upstream.Upstream) bool { return s.Models[model] != "" })
		}
		if c.Model != "" && !has(c.Model) {
			fault("model", fmt.Sprintf("%q", c.Model), "no upstream has it")
		}
		for i, k := range c.Keys {
			for _, model := range k.Models {
				if !has(model) {
					fault(fmt.Sprintf("key %d: models", i+1), fmt.Sprintf("%q", model), "no upstream has it")
				}
			}
			for j, l := range k.Limits {
				if l.Resource == store.Money && !k.pays(u.Upstreams) {
					fault(fmt.Sprintf("key %d: limit %d", i+1, j+1), l.Resource, "no upstream that it may use has a price: it would bound nothing")
				}
				if l.Resource == store.Tokens && l.Amount > 0 && l.Amount <= int64(c.ReplyTokens) {
					fault(fmt.Sprintf("key %d: limit %d: amount", i+1, j+1), l.Amount, fmt.Sprintf("must be more than the reply tokens, %d, which each answer without a bound of its own reserves", c.ReplyTokens))
				}
			}
		}
	}
	between("history tokens", int64(c.HistoryTokens), 0, 1<<20)
	between("history turns", int64(c.HistoryTurns), 0, 1024)
	between("history bytes", c.HistoryBytes, 0, 1<<34)
	between("reply tokens", int64(c.ReplyTokens), 1, 1<<20)
	between("context tokens", int64(c.ContextTokens), 0, 1<<27)
	period("rules interval", c.RulesInterval, 100*time.Millisecond, time.Hour)
	intents := intent.Default().Intents()
	if c.Rules != "" {
		if f, err := intent.Open(c.Rules, nil); err != nil {
			errs, intents = append(errs, err), nil
		} else {
			intents = f.Intents()
		}
	}
	if err := plugin.Validate(c.PluginBudget, c.plugins()); err != nil {
		errs = append(errs, err)
	}
	for i, p := range c.Plugins {
		at := fmt.Sprintf("plugin %d, %q", i+1, p.Name)
		for _, name := range p.Intents {
			if intents != nil && !slices.Contains(intents, name) {
				fault(at+": intents", fmt.Sprintf("%q", name), "the rules have none of this name: it would never be asked for it")
			}
		}
		switch {
		case (p.URL == "") == (p.Builtin == ""):
			fault(at, p.URL+p.Builtin, "must have one of url and builtin")
		case p.URL != "":
			if err := policy.CheckURL(p.URL); err != nil {
				errs = append(errs, fmt.Errorf("%s: url: %w", at, err))
			}
		default:
			if _, err := plugin.Builtin(p.Builtin); err != nil {
				errs = append(errs, fmt.Errorf("%s: builtin: %w", at, err))
			}
		}
	}
	if _, err := mask.New(c.MaskRules); err != nil {
		errs = append(errs, fmt.Errorf("mask rules: %w", err))
	}
	period("cache age", c.CacheAge, 0, 24*time.Hour)
	between("cache bytes", c.CacheBytes, 1<<20, 1<<34)
	if c.ResumeAge != 0 {
		if err := c.resume().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("resume: %w", err))
		}
	}
	switch c.Archive {
	case ArchiveMemory, ArchiveSQLite, ArchivePostgres:
	default:
		fault("archive", fmt.Sprintf("%q", c.Archive), "must be memory, sqlite or postgres")
	}
	if (c.File != "") != (c.Archive == ArchiveSQLite) {
		fault("file", fmt.Sprintf("%q", c.File), "goes with archive sqlite, and only with that")
	}
	if (c.Postgres != "") != (c.Archive == ArchivePostgres) {
		fault("postgres", map[bool]string{true: "given", false: "not given"}[c.Postgres != ""], "goes with archive postgres, and only with that")
	}
	if c.Postgres != "" {
		if err := postgres.CheckURL(c.Postgres); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.batches().Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Redis != "" {
		if err := redis.CheckAddress(c.Redis); err != nil {
			errs = append(errs, err)
		}
		if c.StoreTimeout >= c.SessionWait {
			fault("store timeout", c.StoreTimeout, fmt.Sprintf("must be less than the session wait, %v: while Redis does not answer, turns would be refused as if others were under way", c.SessionWait))
		}
	}
	if c.LimitsOutage != Refuse && c.LimitsOutage != Local {
		fault("limits outage", fmt.Sprintf("%q", c.LimitsOutage), "must be refuse or local")
	}
	period("store timeout", c.StoreTimeout, 10*time.Millisecond, 5*time.Minute)
	between("max concurrent", int64(c.MaxConcurrent), 1, 1<<20)
	between("max waiting", int64(c.MaxWaiting), 0, 1<<20)
	period("max wait", c.MaxWait, time.Millisecond, time.Hour)
	period("session wait", c.SessionWait, time.Millisecond, time.Hour)
	between("session waiters", int64(c.SessionWaiters), 0, 1<<10)
	period("session lease", c.SessionLease, 300*time.Millisecond, time.Hour)
	for _, d := range []struct {
		field string
		v     Disconnect
	}{{"chat disconnect", c.ChatDisconnect}, {"model disconnect", c.ModelDisconnect}, {"responses disconnect", c.ResponsesDisconnect}} {
		if d.v != Cancel && d.v != Drain {
			fault(d.field, fmt.Sprintf("%q", d.v), "must be cancel or drain")
		}
	}
	period("drain time", c.DrainTime, time.Millisecond, time.Hour)
	between("max body bytes", c.MaxBodyBytes, 1, 1<<30)
	if c.MaxBodiesBytes < 2*c.MaxBodyBytes || c.MaxBodiesBytes > 1<<40 {
		fault("max bodies bytes", c.MaxBodiesBytes, fmt.Sprintf("must be from twice max body bytes, %d, to %d", 2*c.MaxBodyBytes, int64(1)<<40))
	}
	if most := c.Upstream.MaxAnswerBytes; c.MaxAnswersBytes < 2*most || c.MaxAnswersBytes > 1<<40 {
		fault("max answers bytes", c.MaxAnswersBytes, fmt.Sprintf("must be from twice an answer's most, %d, to %d", 2*most, int64(1)<<40))
	}
	between("max query bytes", int64(c.MaxQueryBytes), 1, 1<<20)
	if c.TraceEndpoint != "" {
		if err := c.trace().Validate(); err != nil {
			errs = append(errs, err)
		} else if err := policy.CheckURL(c.TraceEndpoint); err != nil {
			errs = append(errs, fmt.Errorf("trace endpoint: %w", err))
		}
	}
	period("idle timeout", c.IdleTimeout, time.Millisecond, 24*time.Hour)
	period("write timeout", c.WriteTimeout, time.Millisecond, time.Hour)
	period("drain timeout", c.DrainTimeout, 0, time.Hour)
	return errors.Join(errs...)
}

func (c Config) validateKeys(policy outward.Policy) (errs []error) {
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
	}
	ids, sums := map[string]bool{}, map[string]bool{}
	for i, k := range c.Keys {
		at := fmt.Sprintf("key %d", i+1)
		if k.ID == "" || len(k.ID) > 64 || !utf8.ValidString(k.ID) || ids[k.ID] {
			fault(at+": id", fmt.Sprintf("%q", k.ID), "must have 1 to 64 bytes of UTF-8, and be there once")
		}
		if b, err := hex.DecodeString(k.SHA256); err != nil || len(b) != 32 || sums[string(b)] {
			fault(at+": sha256", fmt.Sprintf("%q", k.SHA256), "must have 64 hexadecimal digits, and be there once")
		} else {
			sums[string(b)] = true
		}
		ids[k.ID] = true
		if len(k.Limits) > store.MaxLimits {
			fault(at+": limits", len(k.Limits), fmt.Sprintf("must be %d at most", store.MaxLimits))
		}
		counters := map[string]bool{}
		for j, l := range k.Limits {
			limit := store.Limit(l)
			if err := limit.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("%s: limit %d: %w", at, j+1, err))
			}
			if name := limit.Counter(time.Time{}); counters[name] {
				fault(fmt.Sprintf("%s: limit %d", at, j+1), name, "there are two of this resource and window")
			} else {
				counters[name] = true
			}
		}
	}
	if n := len(c.Token.Secret); n != 0 && (n < 32 || n > 1024) {
		fault("token secret", fmt.Sprint(n, " bytes"), "must have 32 to 1024")
	}
	if n := len(c.Token.Previous); n != 0 && (n < 32 || n > 1024) {
		fault("previous token secret", fmt.Sprint(n, " bytes"), "must have 32 to 1024")
	}
	if len(c.Token.Previous) > 0 && len(c.Token.Secret) == 0 {
		fault("previous token secret", "given", "goes with a token secret, which comes after it")
	}
	if c.Token.Remember < 0 || c.Token.Remember > jwt.MaxRemember {
		fault("token remember", c.Token.Remember, fmt.Sprintf("must be from 0 to %d", jwt.MaxRemember))
	}
	if c.Token.Issuer == "" || c.Token.Audience == "" {
		fault("token", fmt.Sprintf("issuer %q, audience %q", c.Token.Issuer, c.Token.Audience), "must not be empty")
	}
	if c.Token.Lifetime < time.Second || c.Token.Lifetime > 24*time.Hour || c.Token.Lifetime%time.Second != 0 {
		fault("token lifetime", c.Token.Lifetime, "must be whole seconds from 1s to 24h")
	}
	names, payers := map[string]bool{}, map[string]bool{}
	for i, s := range c.Issuers {
		at := fmt.Sprintf("issuer %d", i+1)
		switch {
		case s.Name == "" || names[s.Name]:
			fault(at+": name", fmt.Sprintf("%q", s.Name), "must be there, and once")
		case s.Name == c.Token.Issuer:
			fault(at+": name", fmt.Sprintf("%q", s.Name), "is the gateway's own")
		}
		names[s.Name] = true
		if s.Audience == "" {
			fault(at+": audience", `""`, "must not be empty")
		}
		if len(s.Algorithms) == 0 || slices.ContainsFunc(s.Algorithms, func(a jwt.Algorithm) bool { return !a.Public() }) {
			fault(at+": algorithms", s.Algorithms, "must be some of RS256, ES256 and EdDSA: a secret is not published")
		}
		if s.Lifetime <= 0 {
			fault(at+": lifetime", s.Lifetime, "must be more than 0")
		}
		if err := policy.Trusting(s.KeySet).CheckURL(s.KeySet); err != nil {
			errs = append(errs, fmt.Errorf("%s: key set: %w", at, err))
		}
		if d := s.leeway(); d < 0 || d > 5*time.Minute {
			fault(at+": leeway", d, "must be from 0s to 5m")
		}
		if len(c.Keys) > 0 && !ids[s.Key] {
			fault(at+": key", fmt.Sprintf("%q", s.Key), "is none of the API keys: somebody must pay")
		}
		payer := s.Key
		if len(c.Keys) == 0 {
			payer = "" // everybody's
		}
		if payers[payer] { // subjects are unique within an issuer only
			fault(at+": key", fmt.Sprintf("%q", s.Key), "is another issuer's too: users of the same name would read one another's conversations. Give each a key of its own")
		}
		payers[payer] = true
	}
	return errs
}

// plugins are what is configured of plugins, without what is asked.
func (c Config) plugins() (specs []plugin.Spec) {
	for _, p := range c.Plugins {
		s := plugin.Defaults()
		s.Name, s.Intents = p.Name, p.Intents
		if p.Timeout != 0 {
			s.Timeout = p.Timeout
		}
		if p.MaxConcurrent != 0 {
			s.MaxConcurrent = p.MaxConcurrent
		}
		specs = append(specs, s)
	}
	return specs
}

// recordsEach is how many records an answer may add: an entry, and a turn.
const recordsEach = 2

// batches is how records are written.
func (c Config) batches() store.BatchConfig {
	b := c.Batch
	b.Pending += recordsEach * c.MaxConcurrent // of those under way when the bound is reached
	b.Timeout = c.StoreTimeout
	return b
}

func (c Config) resume() resume.Config {
	r := resume.Defaults()
	r.Age, r.StreamBytes, r.Bytes = c.ResumeAge, c.ResumeStreamBytes, c.ResumeBytes
	return r
}

func (c Config) trace() trace.Config {
	t := trace.Defaults()
	t.Endpoint, t.Ratio = c.TraceEndpoint, c.TraceRatio
	return t
}

func (c Config) policy() (outward.Policy, error) {
	networks, err := outward.ParseNetworks(c.AllowNetworks)
	return outward.Policy{Allow: networks}, err
}
