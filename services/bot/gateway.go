// Package bot is a gateway between users and language models. It authenticates users, finds their intents, and asks
// plugins for facts that a model cannot know. It asks an upstream for the answer, and keeps conversations and a
// ledger of usage.
//
// POST /v1/bot/chat is a turn of a conversation. /v1/chat/completions, /v1/responses and /v1/models are OpenAI's.
// Both kinds of request have common stages, in the order of chat and model:
//
//	authenticate  finds the key that pays, and the user; package jwt verifies tokens
//	limit         refuses a key that has nothing left, reads the request, bounds its memory
//	admit         waits for one of the gateway's places (503 without one)
//	enter         waits for the turns before this one (409 after some time)
//	gather        reads the conversation and asks plugins; locks the session and reserves what the answer may use
//	upstream      asks for the answer
//	deliver       passes a stream on as it comes
//	record        accounts for the answer, keeps the turn, and tells the client how it ended
//
// Every queue is bounded. Every answer is in the ledger, even if its client has left.
//
// # To read the source
//
//	gateway.go   the gateway's parts, and how they are joined
//	exchange.go  the state of a request and the stages that both kinds share
//	chat.go      a turn
//	models.go    OpenAI's endpoints; package openai is their codec
//	operations.go endpoints that are passed on, and objects.go those about what upstreams keep
//	settle.go    estimates that are replaced when an upstream has ended its work
//	auth.go      credentials, logins, and issuers of tokens
//	operators.go who may use the admin listener
//	logins.go    how often a wrong key may be tried
//	names.go     the names that clients give
//	limits.go    what keys divide, and what they have left
//	delivery.go  what the ledger has of answers under way
//	reload.go    what is read again at SIGHUP
//	follow.go    clients that come back to a stream, or stop it
//	directory.go keys, providers and deployments that are made at run time
//	usage.go     what keys have used, past turns, and what is deleted
//	routes.go    paths and the layers around them
//
// Each package below has one job: admission divides places among keys, and budget divides memory. Claim reserves and
// releases sessions and limits. Answer decides how long an answer goes on. Reply writes to clients, and relay masks
// streams; resume keeps their events. Recall remembers conversations. Intent finds what a user wants. Upstream
// chooses the server that answers. Outward decides which addresses may be called, and origin
// which pages of other sites may use the gateway. Requestlog writes a line for each request. One suite of tests checks
// all packages of store. Directory checks what is made at run time, and directory/rest is its API. Page serves the pages that web/src/bot builds. Program is the command line, dyno-bot.
//
// Parts is the seam for programs that measure other codecs, caches, layers or buffers in a whole gateway.
package bot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/jwt"
	"dyno/services/bot/answer"
	"dyno/services/bot/cache"
	"dyno/services/bot/claim"
	"dyno/services/bot/directory"
	"dyno/services/bot/directory/rest"
	"dyno/services/bot/intent"
	"dyno/services/bot/mask"
	"dyno/services/bot/metrics"
	"dyno/services/bot/origin"
	"dyno/services/bot/outward"
	"dyno/services/bot/page"
	"dyno/services/bot/plugin"
	"dyno/services/bot/recall"
	"dyno/services/bot/requestlog"
	"dyno/services/bot/resume"
	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
	"dyno/services/bot/store/postgres"
	"dyno/services/bot/store/redis"
	"dyno/services/bot/store/sqlite"
	"dyno/services/bot/upstream"
	"dyno/services/internal/flood"
	"dyno/services/internal/serve"
	"dyno/services/internal/trace"
	"dyno/services/internal/wait"
)

// A Gateway is one gateway. Use its Handler and Close, or Listen and Serve, or Serve
// alone. All methods may be called from any goroutine, Listen, Serve and Close once each.
type Gateway struct {
	serve.Front
	cfg     Config
	host    *serve.Host
	log     *slog.Logger
	handler http.Handler
	server  *http.Server
	// The certificates of the server.
	certificates *serve.Certificates
	stats        *metrics.Stats

	live      atomic.Pointer[live] // what SIGHUP reads again
	swapping  sync.Mutex           // guards file, and is held while live or one of its keys is replaced
	file      Config               // as it was read last
	directory *directory.Directory // of what the file has, and of what is made at run time
	manage    http.Handler         // its API
	issuers   map[string]trusted   // by their names
	signer    jwt.Signer
	verifier  *jwt.Verifier
	logins    *loginLimiter

	transport *http.Transport // of plugins and spans
	rules     interface{ Find(string) intent.Match }
	plugins   *plugin.Scheduler
	in, out   *mask.Masker // nil masks nothing
	secrets   *mask.Masker // of what is logged
	parts     Parts
	events    *resume.Keeper  // of streams that clients may resume; nil keeps none
	tracer    *trace.Tracer   // nil traces nothing
	requests  *requestlog.Log // nil logs nothing
	cache     *cache.Cache[*CachedAnswer]

	archive store.Archive
	under   sync.Map // the keys are *delivery: of answers under way
	prices  sync.Map // names of prices that the archive has, or that wait for it
	batch   *store.Batcher
	redis   *redis.Store // nil without Redis
	running answer.Registry
	recall  *recall.Recall // nil remembers no conversation
	capacity
	claims  *claim.Claims
	began   time.Time
	process string              // tells it from others that count limits; "" is with Redis
	seeds   *memory.Coordinator // counts limits in this process; nil if a store does
	asking  upstream.Config     // of all pools, without what SIGHUP reads again

	alive     context.Context // ends with Close
	stop      context.CancelFunc
	answering context.Context // ends when answers are cut
	cut       context.CancelFunc
	closers   []func(context.Context) error // in the order of opening
}

// maxSettling bounds the releases that wait for a silent store, beyond the number of running answers.
const maxSettling = 256

// New checks cfg, opens its stores and returns a gateway that is not listening yet.
func New(ctx context.Context, cfg Config) (_ *Gateway, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, rules: intent.Default(), parts: cfg.Parts.orOwn(), issuers: map[string]trusted{}, logins: newLoginLimiter(), began: time.Now(), capacity: newCapacity(&cfg)}
	g.alive, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.answering, g.cut = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := g.openHost(); err != nil {
		return nil, err
	}
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	guard := origin.Guard{Allow: cfg.AllowOrigins, Timeout: cfg.WriteTimeout, Count: g.stats.Request}
	handler := guard.Share(g.routes())
	// Browsers cannot use sockets in the file system, and programs with only the Handler have their own guard.
	if g.live.Load().keyless != nil && cfg.Listen != "" && !strings.HasPrefix(cfg.Listen, "unix:") {
		handler = guard.RefuseForeign(handler)
	}
	g.handler = serve.Timely(atVersion(handler))
	g.server = g.newServer()
	return g, flood.Guard(g.server, g.log)
}

// keysPath is the operator's page, on the admin listener.
const keysPath = "/keys/"

func (g *Gateway) openHost() (err error) {
	c := serve.Config{
		Name: "bot", AdminListener: g.cfg.AdminListener, AllowRemote: g.cfg.AllowRemote, DrainTimeout: g.cfg.DrainTimeout, Logger: g.cfg.Logger, Health: g.health,
		Pages: []serve.Page{
			{Path: keysPath, About: "page for operators: keys, teams, users, limits, deployments, usage and audit", Handler: page.Keys(keysPath)},
			{Path: rest.Path, About: "API for teams, users, keys, limits, providers, deployments and usage; openapi.json describes it", Changes: true,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.manage.ServeHTTP(w, r) })},
		},
	}
	if g.cfg.Reread != nil || g.cfg.LogRequests != "" {
		c.Reload = g.reload
	}
	if c.Operators, err = g.openOperators(); err != nil {
		return err
	}
	if g.host, err = serve.New(c); err == nil {
		g.log, g.Front = g.host.Logger(), serve.NewFront(g.host, g.cfg.Listen)
		err = g.openCertificates()
	}
	return err
}

// openCertificates reads the certificates of the listeners.
func (g *Gateway) openCertificates() error {
	admin, err := g.host.Files().Certificates(&g.cfg.TLS, &g.cfg.AdminClientCA)
	if err == nil {
		g.host.UseTLS(admin.Web(tls.RequireAndVerifyClientCert, true))
		g.certificates, err = g.host.Files().Certificates(&g.cfg.TLS, &g.cfg.ClientCA)
	}
	return err
}

// open opens all that the gateway uses.
func (g *Gateway) open(ctx context.Context) error {
	cfg := &g.cfg
	policy, err := cfg.policy()
	if err != nil {
		return err
	}
	masker, err := mask.New(cfg.MaskRules)
	if err != nil {
		return err
	}
	g.secrets = masker
	if cfg.MaskIn {
		g.in = masker
	}
	if cfg.MaskOut {
		g.out = masker
	}
	if cfg.CacheAge > 0 {
		g.cache = cache.New(g.parts.Table(cfg.CacheBytes), cfg.CacheAge)
	}
	if cfg.ResumeAge > 0 {
		g.events = resume.New(cfg.resume())
		g.waitAtClose(g.events.Close)
	}
	g.transport = outward.NewTransport(outward.Config{Policy: policy, MaxIdle: 64, IdleTimeout: time.Minute})
	g.waitAtClose(g.transport.CloseIdleConnections)
	if cfg.TraceEndpoint != "" {
		c := cfg.trace()
		c.Client, c.Logger = outward.NewClient(g.transport), g.log
		if g.tracer, err = trace.New(ctx, c); err != nil {
			return err
		}
		g.atClose(func(ctx context.Context) error {
			if err := g.tracer.Close(ctx); err != nil {
				g.log.Warn("spans were not sent", "error", err)
			}
			return nil
		})
	}
	if cfg.LogRequests != "" {
		if g.requests, err = requestlog.New(cfg.LogRequests, cfg.Stdout, g.log); err != nil {
			return fmt.Errorf("log_requests: %w", err)
		}
		g.atClose(g.requests.Close)
	}
	for _, open := range []func() error{
		func() error { return g.authentication(policy) },
		func() error { return g.openPlugins(policy) },
		func() error { return g.openKeys(policy, masker) },
		g.openRules,
		func() error { return g.openStores(ctx) },
		g.openMetrics,
		func() error { return g.openDirectory(ctx) },
		g.openBackground,
	} {
		if err := open(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) openKeys(policy outward.Policy, masker *mask.Masker) error {
	g.asking = g.cfg.Upstream
	g.asking.Policy, g.asking.Logger, g.asking.Managed = policy, g.log, g.cfg.ManageKeys
	g.asking.Codec, g.asking.Readers = g.parts.Codec, g.parts.Readers
	g.asking.Answers, g.asking.Ended = g.answers, func(c *upstream.Called) { g.stats.Called(c) }
	g.asking.Mask = func(text string) string {
		text, _ = masker.Text(text)
		return text
	}
	l, err := g.newLive(g.cfg, nil)
	if err != nil {
		return err
	}
	g.file = g.cfg
	g.live.Store(l)
	g.waitAtClose(func() { g.live.Load().pool.Close(nil) })
	return nil
}

func (g *Gateway) openRules() error {
	if g.cfg.Rules == "" {
		return nil
	}
	f, err := intent.Open(g.cfg.Rules, g.log)
	if err != nil {
		return err
	}
	g.rules = f
	g.untilClose(func() { f.Watch(g.alive, g.cfg.RulesInterval) })
	return nil
}

func (g *Gateway) openMetrics() error {
	var upstreams, plugins []string
	for _, d := range g.cfg.Upstream.All() {
		upstreams = append(upstreams, d.Name)
	}
	for _, p := range g.cfg.Plugins {
		plugins = append(plugins, p.Name)
	}
	g.stats = metrics.New(upstreams, plugins)
	for _, c := range g.collectors() {
		if err := g.host.Registry().Register(c); err != nil {
			return err
		}
	}
	return nil
}

// openBackground starts what goes on without requests.
func (g *Gateway) openBackground() error {
	g.untilClose(func() { wait.Every(g.alive, settleEvery, func() { g.settleDue(time.Now()) }) })
	if g.cfg.Archive != ArchiveMemory {
		g.untilClose(func() { wait.Every(g.alive, noteEvery, g.noteDeliveries) })
		g.untilClose(func() { wait.Every(g.alive, expireEvery, g.expire) })
	}
	return nil
}

// newServer returns the HTTP server.
func (g *Gateway) newServer() *http.Server {
	cfg := &g.cfg
	return &http.Server{
		Handler:   g.handler,
		TLSConfig: g.certificates.Web(tls.RequireAndVerifyClientCert, cfg.HTTP2),
		Protocols: serve.Protocols(cfg.HTTP2),
		HTTP2: &http.HTTP2Config{
			// No memory bound covers bytes that clients send ahead.
			MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10,
			// All streams of a proxy may be on one connection, with those that go on without a client.
			MaxConcurrentStreams: min(cfg.MaxConcurrent+cfg.MaxWaiting, maxStreams),
			// A deadline ends a stream, but its handler waits while the connection accepts nothing.
			WriteByteTimeout: cfg.WriteTimeout,
		},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          serve.ErrorLog(g.log),
	}
}

// maxStreams bounds the streams of one HTTP/2 connection.
const maxStreams = 4096

func (g *Gateway) openPlugins(policy outward.Policy) error {
	specs := g.cfg.plugins()
	for i, p := range g.cfg.Plugins {
		var err error
		if p.Builtin != "" {
			specs[i].Plugin, err = plugin.Builtin(p.Builtin)
		} else {
			specs[i].Plugin, err = plugin.NewHTTP(p.URL, policy, g.transport)
		}
		if err != nil {
			return err
		}
	}
	g.plugins = plugin.New(g.cfg.PluginBudget, specs, g.cfg.tenants())
	g.waitAtClose(g.plugins.Wait)
	return nil
}

// openTimeout is the least bound on opening the stores. That makes tables, possibly next to other gateways, and sums
// up the ledger; StoreTimeout is for single operations.
const openTimeout = 30 * time.Second

func (g *Gateway) openStores(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, max(openTimeout, 10*g.cfg.StoreTimeout))
	defer cancel()
	switch g.cfg.Archive {
	case ArchiveSQLite:
		// Without Redis, sessions and limits are known to this process only.
		g.archive, err = sqlite.Open(ctx, sqlite.Config{Path: g.cfg.File, Sync: g.cfg.SyncWrites, Exclusive: g.cfg.Redis == ""})
	case ArchivePostgres:
		g.archive, err = postgres.Open(ctx, g.cfg.Postgres)
	default:
		g.archive = memory.NewArchive(memory.DefaultBounds())
	}
	if err != nil {
		return err
	}
	g.atClose(func(context.Context) error { return g.archive.Close() })
	// Other archives may have turns of other gateways. They are not remembered even with Redis: its outage must not
	// stop conversations.
	if g.cfg.Archive == ArchiveSQLite && g.cfg.Redis == "" {
		g.recall = recall.New(g.cfg.HistoryTurns, g.cfg.HistoryTokens, g.cfg.HistoryBytes)
	}
	var coordinator store.Coordinator
	if g.cfg.Redis != "" {
		c := redis.Defaults()
		c.Address, c.Timeout = g.cfg.Redis, g.cfg.StoreTimeout
		if g.redis, err = redis.Open(c); err != nil {
			return err
		}
		g.atClose(func(context.Context) error { return g.redis.Close() })
		coordinator = g.redis
	} else {
		g.seeds, g.process = memory.NewCoordinator(rememberedSessions), store.NewID()
		coordinator = g.seeds
	}
	g.claims = claim.New(g.alive, claim.Config{
		Coordinator: coordinator, Remote: g.redis != nil, Local: memory.NewCoordinator(0),
		Timeout: g.cfg.StoreTimeout, Waiters: g.cfg.SessionWaiters, SessionTimeout: g.cfg.SessionWait, Lease: g.cfg.SessionLease,
		Settling: maxSettling + g.cfg.MaxConcurrent, Logger: g.log, Missed: func() { g.stats.Degraded("sessions") }, Unsettled: func() { g.stats.Unsettled.Inc() },
	})
	g.waitAtClose(g.claims.Wait)
	b := g.cfg.batches()
	b.Logger = g.log
	g.batch = store.NewBatcher(g.archive, b)
	g.atClose(func(ctx context.Context) error {
		if lost := g.batch.Close(ctx); lost > 0 {
			return fmt.Errorf("archive: %d records could not be kept", lost)
		}
		return nil
	})
	if g.seeds != nil && g.cfg.Archive == ArchiveMemory {
		g.warnForgotten()
	}
	return g.seed(ctx, g.live.Load().limits()) // here a long ledger may take its time, and not at the first request
}

// rememberedSessions is how many sessions' numbers of turns the process remembers.
const rememberedSessions = 100_000

// warnForgotten names the keys whose long limits end with the process.
func (g *Gateway) warnForgotten() {
	var forgotten []string
	for _, k := range g.cfg.Keys {
		if slices.ContainsFunc(k.Limits, func(l Limit) bool { return l.Window == 0 || l.Window > time.Hour }) {
			forgotten = append(forgotten, k.ID)
		}
	}
	if len(forgotten) > 0 {
		g.log.Warn("the usage of these keys is in memory: all their limits start at zero with each start; archive sqlite or postgres, or Redis, keeps it", "keys", forgotten)
	}
}

// Handler returns the handler, for other programs' servers.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Serve answers until ctx ends. Then it drains, writes waiting records, and closes the stores. It returns nil after
// that, even if it had to cut answers at the deadline, which is logged; otherwise the error that ended it. It calls
// Listen unless that has been done.
func (g *Gateway) Serve(ctx context.Context) error {
	if err := g.Listen(); err != nil {
		return errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	}
	g.log.Info("listening", "address", g.Addr().String(), "model", g.live.Load().model, "archive", string(g.cfg.Archive), "redis", g.cfg.Redis != "", "keys", len(g.cfg.Keys))
	err := g.host.Run(ctx, serve.Part{Name: "http", Serve: func() error { return serve.HTTP(g.server, g.Listener) }, Drain: g.drain})
	return errors.Join(err, g.Close(context.WithoutCancel(ctx)))
}

func (g *Gateway) drain(ctx context.Context) int {
	if err := g.server.Shutdown(ctx); err != nil {
		answers := g.places.Taken()
		_ = g.server.Close()
		g.cut() // their parts so far are accounted, and nobody waits for more
		return answers
	}
	return 0
}

// closeTimeout bounds the writing of waiting records at the end, and the sending of spans.
const closeTimeout = 10 * time.Second

// Close ends a gateway after the last use of its Handler. It waits for running answers, which DrainTime bounds,
// writes waiting records, and closes the stores. Serve does this itself.
func (g *Gateway) Close(ctx context.Context) error {
	g.stop()
	g.places.Wait()
	g.cut()
	var errs []error
	for _, end := range slices.Backward(g.closers) {
		within, cancel := context.WithTimeout(ctx, closeTimeout)
		errs = append(errs, end(within))
		cancel()
	}
	return errors.Join(errs...)
}

// atClose registers end for Close. Close ends what was opened last first.
func (g *Gateway) atClose(end func(context.Context) error) { g.closers = append(g.closers, end) }

// waitAtClose has Close call a function that cannot fail.
func (g *Gateway) waitAtClose(end func()) {
	g.atClose(func(context.Context) error { end(); return nil })
}

// untilClose runs a function that ends with alive.
func (g *Gateway) untilClose(run func()) {
	var running sync.WaitGroup
	running.Go(run)
	g.waitAtClose(running.Wait)
}
