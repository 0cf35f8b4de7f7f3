package bot

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/internal/fields"
	"dyno/internal/jwt"
	"dyno/internal/secretfile"
	"dyno/internal/settings"
	"dyno/services/bot/intent"
	"dyno/services/bot/mask"
	"dyno/services/bot/origin"
	"dyno/services/bot/outward"
	"dyno/services/bot/plugin"
	"dyno/services/bot/resume"
	"dyno/services/bot/store"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/upstream"
	"dyno/services/internal/serve"
	"dyno/services/internal/trace"
)

// An Archive is where turns and the ledger are kept.
type Archive string

// The archives.
const (
	ArchiveMemory   Archive = "memory"
	ArchiveSQLite   Archive = "sqlite"
	ArchivePostgres Archive = "postgres"
)

// A Disconnect says what happens to an answer whose client has gone.
type Disconnect string

// The policies.
const (
	// Cancel aborts the answer at the upstream. The usage so far is accounted.
	Cancel Disconnect = "cancel"
	// Drain lets the answer end, within DrainTime, and keeps the turn.
	Drain Disconnect = "drain"
)

// An Outage says what happens to requests while the limits' store does not answer.
type Outage string

// The policies.
const (
	// Refuse answers 503: no limit is ever exceeded.
	Refuse Outage = "refuse"
	// Local counts at this gateway alone, from zero.
	Local Outage = "local"
)

// A Key is an API key: its owner may send requests, and log users in.
type Key struct {
	ID string `yaml:"id,required" doc:"its name in the ledger, in tokens and on the operator's page: 1 to 64 bytes, no two the same"`
	// The secret itself is not stored; it must be long and random.
	SHA256 string   `yaml:"sha256,required" doc:"the SHA-256 of its secret: 64 hexadecimal digits, no two the same"`
	Models []string `yaml:"models" otherwise:"all" doc:"the models that it may use; one may end in *, such as openai/*"`
	Limits []Limit  `yaml:"limits" most:"16" doc:"limits on its usage, one for each resource and window"`
}

// uses returns the deployments' names of models that the key may use.
func (k Key) uses(d upstream.Deployment) (models []string) {
	for _, name := range d.Names {
		if len(k.Models) == 0 || slices.ContainsFunc(k.Models, func(pattern string) bool { return store.Matches(pattern, name) }) {
			models = append(models, name)
		}
	}
	return models
}

// pays reports whether some model that the key may use has a price.
func (k Key) pays(all []upstream.Deployment) bool {
	return slices.ContainsFunc(all, func(d upstream.Deployment) bool { return !d.Price.Free() && len(k.uses(d)) > 0 })
}

// free returns the models that a key with a limit of money may use without paying, at some upstream.
func (k Key) free(all []upstream.Deployment) (models []string) {
	if !slices.ContainsFunc(k.Limits, func(l Limit) bool { return l.Resource == store.Money }) {
		return nil
	}
	for _, d := range all {
		if d.Price.Free() {
			models = append(models, k.uses(d)...)
		}
	}
	slices.Sort(models)
	return slices.Compact(models)
}

// A Limit is a store.Limit in the configuration's form.
type Limit struct {
	Resource store.Resource `yaml:"resource,required" oneof:"requests tokens money parallel" doc:"what it bounds; tokens: of questions and answers together; parallel: requests under way"`
	// Redis compares amounts in floating point.
	Amount int64         `yaml:"amount" range:"0..9007199254740992" doc:"the amount within one window; money in billionths; with 0, requests that use some are refused"`
	Window time.Duration `yaml:"window" range:"0..8784h" otherwise:"without end" doc:"the length of a window, in whole milliseconds; windows follow one another in UTC"`
}

// Days is an age in the configuration, such as 30d.
type Days uint16

// SetText reads it.
func (d *Days) SetText(text, _ string) error {
	if _, err := fmt.Sscanf(text+"\n", "%dd\n", d); err != nil || *d == 0 {
		return fmt.Errorf("%q is no number of days; such as 30d, 65535d at most", text)
	}
	return nil
}

// Retention says for how long the archive keeps what.
type Retention struct {
	Turns  Days `yaml:"turns" otherwise:"without end" doc:"turns of conversations, such as 30d"`
	Ledger Days `yaml:"ledger" otherwise:"without end" doc:"entries of the ledger; at least as long as the longest window of a limit that is not in Redis"`
	Audit  Days `yaml:"audit" otherwise:"without end" doc:"who changed which key, team, user and limit"`
}

// An Issuer is another party whose tokens are accepted.
type Issuer struct {
	Name       string          `yaml:"name" otherwise:"tokens without one" doc:"the claim iss of its tokens; no two the same"`
	Audience   string          `yaml:"audience" otherwise:"required with key_set; any" doc:"must be in the claim aud"`
	Algorithms []jwt.Algorithm `yaml:"algorithms" oneof:"RS256 ES256 EdDSA" otherwise:"required with key_set" doc:"those of its keys"`
	Lifetime   time.Duration   `yaml:"lifetime,required" range:"1ms..8784h" doc:"the longest time from iat to exp; of tokens without iat, from now to exp"`
	KeySet     string          `yaml:"key_set" doc:"the URL of its key set (RFC 7517); public with https, or in allow_networks; it excludes secret_file"`
	Secret     secretfile.Text `yaml:"secret_file" doc:"the file of the secret, of 32 to 1,024 bytes, with which it signs tokens (HS256); they need no iat"`
	Short      bool            `yaml:"short_secret" doc:"permit a secret of fewer than 32 bytes, which others guess sooner (RFC 7518)"`
	AnyUser    bool            `yaml:"any_user" doc:"it is a service that asks for any user: user_id names the user, and the claim sub does not"`
	Key        string          `yaml:"key" doc:"the id of the API key that pays; no two issuers have the same one"`
	Leeway     *time.Duration  `yaml:"leeway" range:"0..5m" otherwise:"30s" doc:"by how much its clock may differ"`
}

// limit returns it as stores have it.
func (l Limit) limit() store.Limit {
	return store.Limit{Resource: l.Resource, Amount: l.Amount, Window: l.Window}
}

// defaultLeeway is the leeway of an issuer without one.
const defaultLeeway = 30 * time.Second

func (s Issuer) leeway() time.Duration {
	if s.Leeway == nil {
		return defaultLeeway
	}
	return *s.Leeway
}

// A Plugin is a plugin in the configuration's form.
type Plugin struct {
	Name          string        `yaml:"name,required" doc:"its name in the context of a turn and in metrics; no two the same"`
	URL           string        `yaml:"url" doc:"where it is asked by POST; public, or in allow_networks; it excludes builtin"`
	Builtin       string        `yaml:"builtin" oneof:"clock calculator" doc:"one that the gateway has; it excludes url"`
	Intents       []string      `yaml:"intents" otherwise:"all" doc:"the intents that it is asked for"`
	Timeout       time.Duration `yaml:"timeout" range:"0..5m" otherwise:"1s" doc:"of one call, next to the budget of all"`
	MaxConcurrent int           `yaml:"max_concurrent" range:"0..65536" otherwise:"64" doc:"calls at once; more are not made; one key of several has half at most"`
}

// Token says how users' tokens are made.
type Token struct {
	// Secret signs them, with at least 32 bytes. Without one, the process makes its own.
	Secret []byte
	// Previous is the previous secret: its tokens are valid until they expire.
	Previous []byte
	Issuer   string        `yaml:"issuer" default:"dyno-bot" doc:"the claim iss"`
	Audience string        `yaml:"audience" default:"dyno-bot" doc:"the claim aud"`
	Lifetime time.Duration `yaml:"lifetime" range:"1s..24h" default:"10m" doc:"how long a token is good, in whole seconds; tokens of a longer lifetime are refused"`
	Remember int           `yaml:"remember" range:"0..1048576" default:"16384" doc:"tokens that are remembered as verified"`
}

// Config configures a gateway. Start from Defaults.
type Config struct {
	// Listen is "" for gateways that are used only by their Handler.
	Listen      string `yaml:"listen" doc:"where clients connect: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set; an address that other machines reach needs keys"`
	AllowRemote bool   `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener
	serve.TLS
	ClientCA      string    `yaml:"tls_client_ca" kind:"path" otherwise:"clients need no certificate" doc:"authorities of the certificates that clients of listen must show, read again when it changes"`
	AdminClientCA string    `yaml:"admin_client_ca" kind:"path" otherwise:"clients need no certificate" doc:"authorities of the certificates that clients of admin must show, also for probes; read again when it changes"`
	Operators     Operators `yaml:",inline"`
	Page          bool      `yaml:"page" default:"true" doc:"serve a page to chat in at /"`
	AllowNetworks []string  `yaml:"allow_networks" flag:"allow-network" doc:"further networks for upstreams, plugins, key sets and the trace collector, such as 10.1.0.0/16 or 127.0.0.1"`
	AllowOrigins  []string  `yaml:"allow_origins" flag:"allow-origin" doc:"pages of these origins may use the API (CORS), such as https://app.example; * alone is every origin, and needs keys"`

	// Without Keys, all clients of a loopback Listen may log in and send requests, without limits.
	Keys          []Key           `yaml:"keys" doc:"the API keys"`
	ManageKeys    bool            `yaml:"manage_keys" doc:"further keys, and teams, users, limits, providers and deployments, are made at run time: by the API of the admin listener. They are in the archive. Every request needs a key, even if the file has none"`
	TokenSecret   secretfile.Text `yaml:"token_secret_file" otherwise:"one of this process's own" doc:"the file of the secret that signs tokens, of 32 to 1,024 bytes"`
	TokenPrevious secretfile.Text `yaml:"token_previous_file" doc:"the file of the previous secret, whose tokens are still accepted"`
	Token         Token           `yaml:"token" doc:"how tokens are made and checked; all gateways of one secret should have the same"`
	Issuers       []Issuer        `yaml:"issuers" doc:"other issuers of accepted tokens"`

	// Upstream configures the upstreams; its Policy is AllowNetworks.
	Upstream     upstream.Config `yaml:"upstream" doc:"how all upstreams are asked"`
	Model        string          `yaml:"model" otherwise:"the first by name" doc:"the model of /v1/bot/chat"`
	SystemPrompt string          `yaml:"system_prompt" otherwise:"nothing" doc:"the first message of its conversations"`
	// The model gets the latest turns of a conversation that fit.
	HistoryTokens int `yaml:"history_tokens" range:"0..1048576" default:"2048" doc:"tokens of a conversation that the model is sent again"`
	HistoryTurns  int `yaml:"history_turns" range:"0..1024" default:"32" doc:"turns of a conversation that the model is sent again"`
	ReplyTokens   int `yaml:"reply_tokens" range:"1..1048576" default:"1024" doc:"the bound on tokens of an answer of /v1/bot/chat. With limits of tokens or money, it applies to all requests without a bound"`
	// The upstream's own limit has precedence.
	ContextTokens int   `yaml:"context_tokens" range:"0..134217728" default:"128000" doc:"tokens reserved for context outside of the request, under limits of tokens or money: data that an upstream keeps or finds by its own tools, and files by ID or link"`
	HistoryBytes  int64 `yaml:"history_bytes" kind:"size" range:"0..16GiB" default:"32MiB" doc:"memory for conversations that go on, so that SQLite is not read for each turn; archives of several gateways are read in any case"`

	Rules         string        `yaml:"rules" kind:"path" otherwise:"all is chat" doc:"the file of the rules for intents, read again when it changes"`
	RulesInterval time.Duration `yaml:"rules_interval" range:"100ms..1h" default:"2s" doc:"how often the file is checked for changes"`
	Plugins       []Plugin      `yaml:"plugins" most:"64" doc:"programs that add to the context of a turn"`
	PluginBudget  time.Duration `yaml:"plugin_budget" range:"1ms..5m" default:"2s" doc:"time of all plugins of a turn"`

	MaskIn    bool        `yaml:"mask_in" doc:"replace secrets in requests"`
	MaskOut   bool        `yaml:"mask_out" doc:"replace secrets in answers"`
	MaskRules []mask.Rule `yaml:"mask_rules" otherwise:"common keys and tokens" doc:"the form of a secret"`

	// A key gets only its own answers from the cache.
	CacheAge   time.Duration `yaml:"cache_age" range:"0..24h" doc:"how long whole answers with temperature 0 are cached; 0 caches none"`
	CacheBytes int64         `yaml:"cache_bytes" kind:"size" range:"1MiB..16GiB" default:"64MiB" doc:"the memory for them"`

	ResumeAge         time.Duration `yaml:"resume_age" range:"0..24h" default:"1m" doc:"how long a client that lost its connection may read on in a stream of /v1/bot/chat after its end; 0 is never"`
	ResumeStreamBytes int64         `yaml:"resume_stream_bytes" kind:"size" range:"1KiB..1GiB" default:"64KiB" doc:"memory for the events of one stream"`
	ResumeBytes       int64         `yaml:"resume_bytes" kind:"size" range:"1KiB..1024GiB" default:"64MiB" doc:"memory for the events of all streams"`

	UnknownResponses bool `yaml:"unknown_responses" doc:"let any key name responses, conversations, items and containers of which it is not known here who made them"`

	Archive      Archive         `yaml:"archive" oneof:"memory sqlite postgres" default:"memory" doc:"where turns and the ledger are"`
	File         string          `yaml:"file" doc:"SQLite's file, relative to the working directory"`
	SyncWrites   bool            `yaml:"sync_writes" flag:"sync" doc:"wait for the disk at each write of SQLite; without it a power cut, but not the end of the process, loses the last second"`
	PostgresFile secretfile.Text `yaml:"postgres_file" doc:"the file of PostgreSQL's connection string"`
	Postgres     string          // the connection string
	Redis        string          `yaml:"redis" otherwise:"this process" doc:"Redis for sessions and limits: host:port, unix:PATH, redis://host:port/db or, with TLS, rediss://host:port/db"`
	RedisFile    secretfile.Text `yaml:"redis_file" doc:"the file of Redis's address that has a password: redis://user:password@host:port/db or, with TLS, rediss://…; it excludes redis"`
	LimitsOutage Outage          `yaml:"limits_outage" oneof:"refuse local" default:"refuse" doc:"of requests while Redis does not answer; local: each gateway counts by itself, from zero"`
	Retention    Retention       `yaml:"retention" doc:"for how many days the archive keeps what; what is older is deleted within hours. Memory keeps what has room"`
	StoreTimeout time.Duration   `yaml:"store_timeout" range:"10ms..5m" default:"3s" doc:"of one operation of a store; with Redis, less than session_wait"`
	// Batch bounds the records that wait for the archive. Beyond that requests are refused.
	Batch store.BatchConfig

	MaxConcurrent       int           `yaml:"max_concurrent" range:"1..1048576" default:"16384" doc:"answers under way; further ones wait, and one of several keys has half at most"`
	MaxWaiting          int           `yaml:"max_waiting" range:"0..1048576" default:"4096" doc:"requests that wait; beyond: 503"`
	MaxWait             time.Duration `yaml:"max_wait" range:"1ms..1h" default:"10s" doc:"how long such a request waits; then 503"`
	SessionWait         time.Duration `yaml:"session_wait" range:"1ms..1h" default:"10s" doc:"how long a turn waits for those of its conversation before it; then 409"`
	SessionWaiters      int           `yaml:"session_waiters" range:"0..1024" default:"8" doc:"turns of one conversation that may wait; beyond: 409"`
	SessionLease        time.Duration `yaml:"session_lease" range:"300ms..1h" default:"30s" doc:"how long a turn still has its conversation when its gateway has died"`
	ChatDisconnect      Disconnect    `yaml:"chat_disconnect" oneof:"cancel drain" default:"drain" doc:"of answers of /v1/bot/chat whose client has left; drain: the answer is completed and the turn kept; cancel: it is ended"`
	ModelDisconnect     Disconnect    `yaml:"model_disconnect" oneof:"cancel drain" default:"cancel" doc:"of those of /v1/chat/completions and of the Gemini API"`
	ResponsesDisconnect Disconnect    `yaml:"responses_disconnect" oneof:"cancel drain" default:"cancel" doc:"of those of /v1/responses"`
	MessagesDisconnect  Disconnect    `yaml:"messages_disconnect" oneof:"cancel drain" default:"cancel" doc:"of those of /v1/messages"`
	DrainTime           time.Duration `yaml:"drain_time" range:"1ms..1h" default:"30s" doc:"how long drain lets an answer go on"`

	MaxBodyBytes  int64 `yaml:"max_body_bytes" kind:"size" range:"1..1GiB" default:"4MiB" doc:"bytes of a request; beyond: 413"`
	MaxQueryBytes int   `yaml:"max_query_bytes" kind:"size" range:"1..1MiB" default:"16KiB" doc:"bytes of a query of /v1/bot/chat; beyond: 400"`
	// A body is held until its stream begins or its whole answer ends.
	MaxBodiesBytes int64 `yaml:"max_bodies_bytes" kind:"size" range:"1..1024GiB" default:"128MiB" doc:"bodies of requests that are held at once; beyond: 503; at least twice max_body_bytes; one key of several has half at most"`
	// Uploads are in temporary files until their answers end.
	MaxUploadBytes  int64 `yaml:"max_upload_bytes" kind:"size" range:"1..16GiB" default:"32MiB" doc:"bytes of an upload of a recording or an image; beyond: 413"`
	MaxUploadsBytes int64 `yaml:"max_uploads_bytes" kind:"size" range:"1..1024GiB" default:"1GiB" doc:"temporary files of uploads at once, in $TMPDIR or /tmp; beyond: 503; at least twice max_upload_bytes; one key of several has half at most"`
	// Whole answers are held until they are written. Streams of /v1/bot/chat hold their text, which is kept.
	MaxAnswersBytes int64         `yaml:"max_answers_bytes" kind:"size" range:"1..1024GiB" default:"128MiB" doc:"memory for answers at once; beyond: 503; at least twice upstream.max_answer_bytes; one key of several has half at most"`
	WriteTimeout    time.Duration `yaml:"write_timeout" range:"1ms..1h" default:"30s" doc:"of writing one piece of an answer: an event of a stream, or 64 KiB of another answer"`
	HTTP2           bool          `yaml:"http2" default:"true" doc:"let clients speak HTTP/2 in addition to HTTP/1.1, without TLS as well, as proxies do"`
	IdleTimeout     time.Duration `yaml:"idle_timeout" range:"1ms..24h" default:"5m" doc:"how long a client's connection is kept while nothing is asked"`

	TraceEndpoint string  `yaml:"trace_endpoint" otherwise:"nothing is traced" doc:"a collector's URL (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; public, or in allow_networks"`
	TraceRatio    float64 `yaml:"trace_ratio" range:"0..1" default:"0.01" doc:"the share of requests that is traced, of those that do not say themselves"`

	LogRequests  string        `yaml:"log_requests" otherwise:"no log" doc:"the file that gets a line of JSON for each request, or stdout; opened again at SIGHUP"`
	LogContent   int64         `yaml:"log_content" kind:"size" range:"0..64KiB" otherwise:"no text" doc:"with log_requests, as many bytes of the text of a request, and as many of an answer's, are in its line, without the secrets of mask_rules"`
	DrainTimeout time.Duration `yaml:"drain_timeout" range:"0..1h" default:"10s" doc:"how long answers under way may go on at the end"`
	// Reread returns the present configuration, validated; nil if it is in no file.
	Reread func() (Config, error)
	// Logger gets the gateway's events; nil discards.
	Logger *slog.Logger
	Stdout io.Writer // of LogRequests, if it says so
	// Parts replaces parts of the gateway, for programs that measure them.
	Parts Parts
}

// Defaults returns the Config that every field starts from. It has neither an address
// nor upstreams.
func Defaults() Config {
	c := fields.Default[Config]()
	c.MaskRules, c.Batch = mask.Defaults(), store.BatchDefaults()
	return c
}

// Complete copies the secrets from files to the fields that use them.
func (c *Config) Complete() {
	set := func(to *[]byte, secret secretfile.Text) {
		if secret != "" {
			*to = []byte(secret)
		}
	}
	set(&c.Token.Secret, c.TokenSecret)
	set(&c.Token.Previous, c.TokenPrevious)
	c.Postgres = cmp.Or(string(c.PostgresFile), c.Postgres)
	c.Redis = cmp.Or(c.Redis, string(c.RedisFile))
}

// ReadConfig reads a configuration in YAML over Defaults. The error lists every fault.
func ReadConfig(path string) (Config, error) {
	c := Defaults()
	s := settings.New(&c)
	s.File = path
	s.Read()
	c.Complete()
	return c, s.Validate(c.Check)
}

// Validate reports every fault at once. It reads the files of the rules and of the admin listener's
// token, and opens nothing else.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	if c.Listen != "" {
		serve.CheckListener(r, "listen", c.Listen, c.AllowRemote)
		a, err := serve.ParseAddress(c.Listen)
		r.Check(err != nil || a.Local() || c.tenants() > 0, "keys", "there is none: any client could ask a gateway that other machines reach", "give API keys")
	}
	c.AdminListener.Check(r, c.AllowRemote)
	c.TLS.Check(r)
	c.CheckClientCA(r, "tls_client_ca", c.ClientCA)
	c.CheckClientCA(r, "admin_client_ca", c.AdminClientCA)
	r.Check(!c.ManageKeys || c.Admin != "", "manage_keys", "goes with an admin listener, where keys are made", "give --admin")
	for i, site := range c.AllowOrigins {
		at := fmt.Sprintf("allow_origins[%d]", i)
		r.Check(origin.Valid(site) || site == "*" && len(c.AllowOrigins) == 1, at, fmt.Sprintf("%q is not an origin", site), `such as https://example.org or http://localhost:8080, or "*" alone`)
		r.Check(site != "*" || c.tenants() > 0, at, `"*" goes with keys: any page could ask a gateway that asks for none`, "give API keys")
	}
	policy, err := c.policy()
	r.Error("allow_networks", err)
	c.Operators.check(r, policy, c.Admin)
	c.checkKeys(r)
	c.checkTokens(r, policy)
	c.checkModels(r, policy)
	c.checkPlugins(r, policy)
	_, err = mask.New(c.MaskRules)
	r.Error("mask_rules", err)
	least := resume.LeastBytes(c.ResumeStreamBytes)
	r.Check(c.ResumeAge == 0 || c.ResumeBytes >= least, "resume_bytes", fmt.Sprintf("%d is too little", c.ResumeBytes), fmt.Sprintf("at least %d: more than resume_stream_bytes", least))
	c.checkStores(r)
	r.Check(c.MaxBodiesBytes >= 2*c.MaxBodyBytes, "max_bodies_bytes", fmt.Sprintf("%d is too little", c.MaxBodiesBytes), fmt.Sprintf("at least twice max_body_bytes, %d", 2*c.MaxBodyBytes))
	r.Check(c.MaxUploadsBytes >= 2*c.MaxUploadBytes, "max_uploads_bytes", fmt.Sprintf("%d is too little", c.MaxUploadsBytes), fmt.Sprintf("at least twice max_upload_bytes, %d", 2*c.MaxUploadBytes))
	most := c.Upstream.MaxAnswerBytes
	r.Check(c.MaxAnswersBytes >= 2*most, "max_answers_bytes", fmt.Sprintf("%d is too little", c.MaxAnswersBytes), fmt.Sprintf("at least twice upstream.max_answer_bytes, %d", 2*most))
	if c.TraceEndpoint != "" {
		if err := trace.CheckEndpoint(c.TraceEndpoint); err != nil {
			r.Error("trace_endpoint", err)
		} else {
			r.Error("trace_endpoint", policy.CheckURL(c.TraceEndpoint))
		}
	}
}

// checkModels reports faults of upstreams, and models that no upstream has.
func (c Config) checkModels(r *fields.Report, policy outward.Policy) {
	c.Upstream.Policy, c.Upstream.Managed = policy, c.ManageKeys
	c.Upstream.Check(r)
	all := c.Upstream.All()
	has := func(model string) bool {
		return c.ManageKeys || slices.ContainsFunc(all, func(d upstream.Deployment) bool { return d.Serves(model) })
	}
	r.Check(c.Model == "" || has(c.Model), "model", fmt.Sprintf("no upstream has %q", c.Model), "a model of an upstream")
	for i, k := range c.Keys {
		for j, model := range k.Models {
			many := strings.HasSuffix(model, "*") && slices.ContainsFunc(all, func(d upstream.Deployment) bool { return len(Key{Models: []string{model}}.uses(d)) > 0 })
			r.Check(many || has(model), fmt.Sprintf("keys[%d].models[%d]", i, j), fmt.Sprintf("no upstream has %q", model), "a model of an upstream")
		}
		for j, l := range k.Limits {
			at := r.At("keys[%d].limits[%d]", i, j)
			at.Check(l.Resource != store.Money || k.pays(all) || c.ManageKeys, "resource", "money: no upstream that it may use has a price: it would bound nothing", "give an upstream a price")
			at.Check(c.Retention.Ledger == 0 || c.Redis != "" || l.Resource == store.Parallel || l.Window > 0 && l.Window <= 24*time.Hour*time.Duration(c.Retention.Ledger), "window",
				"is longer than retention.ledger: the limit would forget what was used", "a longer retention, or Redis, which remembers it")
			at.Check(l.Resource != store.Tokens || l.Amount == 0 || l.Amount > int64(c.ReplyTokens), "amount", fmt.Sprintf("%d is too little", l.Amount), fmt.Sprintf("more than reply_tokens, %d, which each answer without a bound of its own reserves", c.ReplyTokens))
		}
	}
}

// maxPluginName bounds a plugin's name, in bytes.
const maxPluginName = 64

// checkPlugins reports faults of plugins and of the rules for intents.
func (c Config) checkPlugins(r *fields.Report, policy outward.Policy) {
	intents := intent.Default().Intents()
	if c.Rules != "" {
		f, err := intent.Open(c.Rules, nil)
		if r.Error("rules", err); err != nil {
			intents = nil
		} else {
			intents = f.Intents()
		}
	}
	names := map[string]bool{}
	for i, p := range c.Plugins {
		at := r.At("plugins[%d]", i)
		at.Check(len(p.Name) <= maxPluginName && !names[p.Name], "name", fmt.Sprintf("%q is not possible", p.Name), fmt.Sprintf("1 to %d bytes, no two the same", maxPluginName))
		names[p.Name] = true
		for j, name := range p.Intents {
			at.Check(intents == nil || slices.Contains(intents, name), fmt.Sprintf("intents[%d]", j), fmt.Sprintf("the rules have no %q: it would never be asked for it", name), "one of "+strings.Join(intents, ", "))
		}
		at.Check((p.URL == "") != (p.Builtin == ""), "", "there must be one of url and builtin", "such as builtin: clock")
		if p.URL != "" {
			at.Error("url", policy.CheckURL(p.URL))
		}
	}
}

// checkStores reports faults of the stores of turns, sessions and limits.
func (c Config) checkStores(r *fields.Report) {
	r.Check((c.File != "") == (c.Archive == ArchiveSQLite), "file", "goes with archive sqlite, and only with that", "give both --archive sqlite and --file, or neither")
	r.Check((c.Postgres != "") == (c.Archive == ArchivePostgres), "postgres_file", "goes with archive postgres, and only with that", "give both --archive postgres and --postgres-file, or neither")
	if c.Postgres != "" {
		r.Error("postgres_file", postgres.CheckURL(c.Postgres))
	}
	r.Check(c.RedisFile == "" || c.Redis == string(c.RedisFile), "redis_file", "excludes redis", "an address with a password belongs into the file")
	if c.Redis != "" {
		r.Error("redis", redis.CheckAddress(c.Redis))
		r.Check(c.StoreTimeout < c.SessionWait, "store_timeout", fmt.Sprintf("%v is too much: while Redis does not answer, turns would be refused as if others were under way", c.StoreTimeout), fmt.Sprintf("less than session_wait, %v", c.SessionWait))
	}
}

// checkKeys reports faults of API keys.
func (c Config) checkKeys(r *fields.Report) {
	ids, sums := map[string]bool{}, map[string]bool{}
	for i, k := range c.Keys {
		at := r.At("keys[%d]", i)
		at.Check(k.ID != "" && len(k.ID) <= 64 && utf8.ValidString(k.ID) && !ids[k.ID], "id", fmt.Sprintf("%q is not possible", k.ID), "1 to 64 bytes of UTF-8, no two the same")
		b, err := hex.DecodeString(k.SHA256)
		at.Check(err == nil && len(b) == 32 && !sums[string(b)], "sha256", fmt.Sprintf("%q is not possible", k.SHA256), "64 hexadecimal digits, no two the same")
		ids[k.ID], sums[string(b)] = true, true
		counters := map[string]bool{}
		for j, l := range k.Limits {
			limit := l.limit()
			field := fmt.Sprintf("limits[%d]", j)
			at.Check(l.Window == 0 || l.Window >= time.Second && l.Window%time.Millisecond == 0, field+".window", fmt.Sprintf("%v is not possible", l.Window), "0, which never ends, or at least 1s, in whole milliseconds")
			at.Check(l.Window == 0 || l.Resource != store.Parallel, field+".window", "requests under way have none", "leave it out")
			name := limit.Counter(time.Time{})
			at.Check(!counters[name], field, "there are two of this resource and window", "keep one of them")
			counters[name] = true
		}
	}
}

// checkTokens reports faults of the gateway's own tokens and those of other issuers.
func (c Config) checkTokens(r *fields.Report, policy outward.Policy) {
	checkSecret(r, "token_secret_file", c.Token.Secret)
	checkSecret(r, "token_previous_file", c.Token.Previous)
	r.Check(len(c.Token.Previous) == 0 || len(c.Token.Secret) > 0, "token_previous_file", "goes with a token secret, which comes after it", "give --token-secret-file")
	r.Check(c.Token.Lifetime%time.Second == 0, "token.lifetime", fmt.Sprintf("%v has a part of a second", c.Token.Lifetime), "whole seconds")
	names, payers := map[string]bool{}, map[string]bool{}
	for i, s := range c.Issuers {
		at := r.At("issuers[%d]", i)
		at.Check(!names[s.Name], "name", fmt.Sprintf("%q is there twice", s.Name), "give each issuer its own")
		at.Check(s.Name != c.Token.Issuer, "name", fmt.Sprintf("%q is the gateway's own", s.Name), "another name")
		names[s.Name] = true
		at.Check((s.KeySet == "") == (s.Secret != ""), "key_set", "either this or secret_file verifies its tokens", "give one of the two")
		if s.Secret != "" {
			if !s.Short || len(s.Secret) > maxSecret {
				checkSecret(at, "secret_file", []byte(s.Secret))
			}
			at.Check(len(s.Algorithms) == 0, "algorithms", "secret_file goes without: its tokens are signed by HS256", "leave it out")
		} else {
			at.Check(s.Name != "", "name", "key_set goes with one", "the claim iss of its tokens")
			at.Check(s.Audience != "", "audience", "key_set goes with one", "the claim aud of its tokens")
			at.Check(len(s.Algorithms) > 0, "algorithms", "there is none", "some of RS256, ES256 and EdDSA")
			at.Error("key_set", policy.RequireTLSOrAllowlist(s.KeySet).CheckURL(s.KeySet))
		}
		payer := "" // everybody's
		if c.tenants() > 0 {
			payer = s.Key
			at.Check(slices.ContainsFunc(c.Keys, func(k Key) bool { return k.ID == s.Key }), "key", fmt.Sprintf("%q is not one of the API keys: one must pay", s.Key), "the id of an API key")
		}
		// Subjects are unique within an issuer only.
		at.Check(!payers[payer], "key", fmt.Sprintf("%q is another issuer's too: users of the same name would read one another's conversations", s.Key), "give each a key of its own")
		payers[payer] = true
	}
}

// Bounds of secrets of HS256, in bytes.
const minSecret, maxSecret = 32, 1024

// checkSecret reports a secret of HS256 that is too short or too long. None is no fault.
func checkSecret(r *fields.Report, field string, secret []byte) {
	r.Check(len(secret) == 0 || len(secret) >= minSecret && len(secret) <= maxSecret, field, fmt.Sprintf("a secret of %d bytes", len(secret)), fmt.Sprintf("%d to %d bytes", minSecret, maxSecret))
}

// plugins returns the Specs of plugins, without their implementations.
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

// recordsEach bounds the records of an answer: an entry, and a turn.
const recordsEach = 2

// batches returns the bounds for writing records.
func (c Config) batches() store.BatchConfig {
	b := c.Batch
	b.Pending += recordsEach * c.MaxConcurrent // for the running answers when the bound is reached
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
	t.Service = "dyno-bot"
	t.Endpoint, t.Ratio = c.TraceEndpoint, c.TraceRatio
	return t
}

func (c Config) policy() (outward.Policy, error) {
	networks, err := outward.ParseNetworks(c.AllowNetworks)
	return outward.Policy{Allow: networks}, err
}
