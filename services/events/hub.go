// Package events is a hub for server-sent events: publishers POST updates about
// topics, subscribers GET a stream of them. It speaks the subset of the Mercure
// protocol (draft-dunglas-mercure) that its clients use, and can be a handler in
// somebody's server or a server of its own.
//
//	hub, err := events.New(config)
//	http.Handle("/", hub.Handler()) // and hub.Close() at the end
//	err = hub.Serve(ctx)            // or this, by itself
//
// What it promises:
//
//   - A subscriber is given every update that matches, once and in order, from its
//     Last-Event-ID on if it names one; what cannot be given any more is announced by
//     an event of type "gap". History and live events are one list (package journal),
//     so there is no step between them at which an update could be lost.
//   - What the hub holds for subscribers is bounded, and Config.Outcome says what
//     happens to one that falls behind. It costs the others nothing, unless Block is
//     chosen.
//   - When told to stop it refuses new subscribers, and disconnects those it has one
//     after the other, so that they do not all come back at once.
//
// The ways of delivering are switches, from the most wasteful on, so that what each
// is worth can be measured: PooledBuffers, EncodeOnce, SingleWrite, Hijack, the
// socket options, and EventLoop.
//
// To read the source: config.go, hub.go, http.go for requests, stream.go for the
// life of a subscriber, queue.go for those that fall behind; loop.go for those that
// the event loop of package fanout serves instead.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/events/fanout"
	"dyno/services/events/filelog"
	"dyno/services/events/journal"
	"dyno/services/events/redislog"
	"dyno/services/internal/serve"
)

// An Update is what a publisher sends.
type Update = journal.Update

// ErrUpdate is wrapped by errors that are the update's own fault.
var ErrUpdate = journal.ErrUpdate

// history is where updates go first, and from where they come to the journal.
type history interface {
	// Append keeps u and returns its ID. It is in the journal then or soon after.
	Append(ctx context.Context, u Update) (id string, err error)
	// CatchUp returns when the journal has all that anybody was told is kept.
	CatchUp(ctx context.Context) error
	Close() error
}

var (
	_ history = memory{}
	_ history = (*filelog.Log)(nil)
	_ history = (*redislog.Log)(nil)
)

// memory is the history that is nothing but the journal.
type memory struct{ journal *journal.Journal }

func (m memory) Append(_ context.Context, u Update) (string, error) {
	e, err := m.journal.Append(u)
	if err != nil {
		return "", err
	}
	return e.ID, nil
}

func (memory) CatchUp(context.Context) error { return nil }
func (memory) Close() error                  { return nil }

// A Hub is one hub. Its methods may be called from any goroutine, Listen and Serve
// once each.
type Hub struct {
	cfg     Config
	host    *serve.Host
	log     *slog.Logger
	journal *journal.Journal
	history history
	handler http.Handler
	stats   *stats
	buffers bufferPool

	loop     *fanout.Loop  // nil unless configured
	loopDone chan struct{} // closed when it has ended
	loopErr  error         // what it failed of; to be read after that

	publishers, subscribers *verifier // nil without a key
	crossOrigin             *http.CrossOriginProtection
	openPublish             bool // to whom has no token
	origins                 origins
	selectors               selectors

	appended *broadcast // when the journal grows
	advanced *broadcast // when a subscriber that publishers wait for has been given something
	departed *broadcast // when a subscriber has gone
	held     atomic.Int64

	mu        sync.Mutex // guards what follows
	active    map[uint64]*subscriber
	places    int            // taken: by subscribers, and by those about to be
	addresses map[string]int // of these, by IP address
	lastID    uint64
	draining  bool
	random    *rand.Rand
	options   []socketOption // as the first subscriber's connection has them; nil before

	listener net.Listener
	server   *http.Server
	conns    connections

	streams    sync.WaitGroup // of subscribers
	background sync.WaitGroup
	stop       context.CancelFunc
	closed     sync.Once
	closeErr   error
}

// New checks cfg, opens the history, and returns a hub that is not listening. The
// error lists every fault of cfg, or says why the history cannot be used. Serve ends
// with Close; who uses the Handler only calls Close.
func New(cfg Config) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Hub{
		cfg: cfg, stats: newStats(), selectors: selectors{used: map[string]*selector{}},
		appended: newBroadcast(), advanced: newBroadcast(), departed: newBroadcast(),
		active: map[uint64]*subscriber{}, addresses: map[string]int{},
		openPublish: cfg.AnonymousPublish || cfg.PublisherKey == nil && cfg.Listen != "" && cfg.local(),
		origins:     newOrigins(cfg.AllowOrigins),
		crossOrigin: http.NewCrossOriginProtection(),
		conns:       connections{states: map[net.Conn]http.ConnState{}},
		loopDone:    make(chan struct{}),
	}
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	h.random = rand.New(rand.NewPCG(seed, 0))
	var err error
	if h.host, err = serve.New(serve.Config{
		Name: "events", Admin: cfg.Admin, AllowRemote: cfg.AllowRemote,
		DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
		Pages: []serve.Page{{Path: "/subscribers", About: "subscribers that are furthest behind, as JSON; ?slow=N of them", Handler: http.HandlerFunc(h.serveSubscribers)}},
	}); err != nil {
		return nil, err
	}
	h.log = h.host.Logger()
	if h.publishers, err = newVerifier(cfg.PublisherKey, cfg.Issuer, cfg.Audience); err != nil {
		return nil, fmt.Errorf("publisher key: %w", err)
	}
	if h.subscribers, err = newVerifier(cfg.SubscriberKey, cfg.Issuer, cfg.Audience); err != nil {
		return nil, fmt.Errorf("subscriber key: %w", err)
	}
	for _, origin := range cfg.PublishOrigins {
		if err := h.crossOrigin.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("publish origins: %w", err)
		}
	}
	if err := h.openHistory(); err != nil {
		return nil, err
	}
	if h.loop, err = h.newLoop(); err != nil {
		return nil, errors.Join(err, h.history.Close())
	}
	h.handler = h.routes()
	h.host.Registry().MustRegister(newCollector(h), h.stats.publish, h.stats.flush)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	unsubscribe := h.journal.Notify(h.appended.wake)
	h.background.Go(func() {
		defer unsubscribe()
		h.watch(ctx)
	})
	if h.loop != nil {
		h.background.Go(h.runLoop)
	}
	return h, nil
}

func (h *Hub) openHistory() error {
	switch h.cfg.History {
	case HistoryMemory:
		j, err := journal.New(h.cfg.journal())
		if err != nil {
			return err
		}
		h.journal, h.history = j, memory{j}
	case HistoryFile:
		l, err := filelog.Open(h.cfg.File, h.cfg.journal())
		if err != nil {
			return err
		}
		h.journal, h.history = l.Journal(), l
	case HistoryRedis:
		l, err := redislog.Open(redislog.Config{
			Address: h.cfg.Redis.Address, Stream: h.cfg.Redis.Stream, Events: h.cfg.Redis.Events,
			Journal: h.cfg.journal(), Logger: h.log,
		})
		if err != nil {
			return err
		}
		h.journal, h.history = l.Journal(), l
	}
	return nil
}

// Handler answers subscribers and publishers. It may be mounted at any place of
// somebody's server that leaves the paths as they are. Wrappers of the response must
// have Unwrap.
func (h *Hub) Handler() http.Handler { return h.handler }

// Publish gives u to all subscribers whom it is for, and returns its ID when it is
// kept as Config.History says. The error wraps ErrUpdate when the update is at
// fault; otherwise it says why the history could not keep it, and it may have been
// kept all the same. With Outcome Block it waits for subscribers.
func (h *Hub) Publish(ctx context.Context, u Update) (id string, err error) {
	start := time.Now()
	if len(u.Topics) > h.cfg.MaxTopics {
		return "", fmt.Errorf("%w: topic: %d of them: must be %d at most", ErrUpdate, len(u.Topics), h.cfg.MaxTopics)
	}
	if err := u.Check(); err != nil {
		return "", err
	}
	if h.cfg.Outcome == Block {
		if err := h.awaitSubscribers(ctx); err != nil {
			return "", err
		}
	}
	if id, err = h.history.Append(ctx, u); err != nil {
		return "", err
	}
	h.stats.published.Add(1)
	h.stats.publish.Observe(time.Since(start).Seconds())
	return id, nil
}

// Listen opens the listeners. When it has returned nil, Addr is known and clients
// may connect; they are served once Serve runs.
func (h *Hub) Listen() error {
	if h.cfg.Listen == "" {
		return errors.New("listen: no address is configured")
	}
	l, err := serve.Listen(context.Background(), h.cfg.Listen, nil)
	if err != nil {
		return err
	}
	if err := h.host.Listen(); err != nil {
		return errors.Join(err, l.Close())
	}
	h.attach(l)
	return nil
}

// attach makes the server that Serve runs on l.
func (h *Hub) attach(l net.Listener) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(h.cfg.HTTP2)
	h.server = &http.Server{
		Handler:           h.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         protocols,
		// One browser holds all its subscriptions on one connection.
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: min(h.cfg.MaxPerAddress, 1000)},
		ConnState: h.conns.changed,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	h.listener = serve.Patient(l)
}

// connKey finds a request's connection in its context.
type connKey struct{}

// Addr is where clients connect; nil before Listen.
func (h *Hub) Addr() net.Addr {
	if h.listener == nil {
		return nil
	}
	return h.listener.Addr()
}

// AdminAddr is where the admin listener listens; nil without one or before Listen.
func (h *Hub) AdminAddr() net.Addr { return h.host.AdminAddr() }

// Serve answers clients until ctx ends and drains then. It returns nil after that,
// also when subscribers had to be cut at the deadline, which is logged; otherwise
// what failed. It calls Listen unless that has been done, and Close at the end.
func (h *Hub) Serve(ctx context.Context) error {
	if h.listener == nil {
		if err := h.Listen(); err != nil {
			return errors.Join(err, h.Close())
		}
	}
	h.log.Info("listening", "address", h.Addr().String(), "history", h.cfg.History, "outcome", h.cfg.Outcome)
	parts := []serve.Part{{
		Name: "hub",
		Serve: func() error {
			if err := h.server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		Drain: h.Drain,
	}}
	if h.loop != nil {
		parts = append(parts, serve.Part{Name: "event loop", Serve: h.serveLoop, Drain: func(context.Context) int { return 0 }}) // the hub drains it
	}
	err := h.host.Run(ctx, parts...)
	return errors.Join(err, h.Close())
}

// drainShare is how much of the drain's time subscribers are spread over; the rest
// is for the last of them to take what is on its way.
const drainShare = 0.8

// Drain refuses new subscribers and ends those there are, in random order and spread
// over Config.DrainTimeout, after each has been given what there is. It returns when
// all have ended, or ctx has: then it cuts the rest, and returns how many these were.
// It is for those who use the Handler, before Close; Serve does it by itself.
func (h *Hub) Drain(ctx context.Context) (cut int) {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		if h.server != nil {
			_ = h.server.Shutdown(ctx) // its only error is ctx's, which cut tells
		}
	}()
	list := h.startDrain()
	looped := make(chan int, 1)
	go func() {
		n := 0
		if h.loop != nil {
			n = h.loop.Drain(ctx, time.Duration(drainShare*float64(h.cfg.DrainTimeout)))
		}
		looped <- n
	}()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, s := range list {
		timer.Reset(time.Until(start.Add(time.Duration(drainShare * float64(h.cfg.DrainTimeout) * float64(i) / float64(len(list))))))
		select {
		case <-timer.C:
			s.finish()
		case <-s.gone:
		case <-ctx.Done():
		}
	}
	for {
		departed := h.departed.wait()
		if h.count() == 0 {
			break
		}
		select {
		case <-departed:
			continue
		case <-ctx.Done():
		}
		break
	}
	cut = h.cutAll() + <-looped
	h.streams.Wait()
	if h.server != nil {
		_ = h.server.Close() // a response that is still being written is cut
	}
	<-finished
	return cut
}

// startDrain marks the hub as draining and returns the subscribers it has, shuffled.
func (h *Hub) startDrain() []*subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
	list := make([]*subscriber, 0, len(h.active))
	for _, s := range h.active {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *subscriber) int { return cmp.Compare(a.id, b.id) }) // a map has no order to repeat
	h.random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

func (h *Hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.active)
}

// cutAll ends every subscriber at once and returns how many there were.
func (h *Hub) cutAll() int {
	list := h.startDrain()
	for _, s := range list {
		s.kick(endCut)
	}
	return len(list)
}

// Close ends all subscribers at once, refuses new ones, waits until their handlers
// have returned, and frees what New and Listen opened.
func (h *Hub) Close() error {
	h.closed.Do(func() {
		h.cutAll()
		if h.loop != nil {
			h.loop.Close()
		}
		var errs []error
		if h.listener != nil {
			_ = h.server.Close() // of connections that nobody needs any more
			h.listener.Close()   // which the server does not know unless it was served
		}
		// The admin listener has been closed when Serve ran: closing it again fails.
		_ = h.host.Close()
		h.streams.Wait()
		h.stop()
		h.background.Wait()
		errs = append(errs, h.history.Close())
		h.closeErr = errors.Join(errs...)
	})
	return h.closeErr
}

// watchPeriod is how often subscribers are looked at whose connections take
// nothing.
const watchPeriod = 100 * time.Millisecond

// watch does what no request does: it ends subscribers that are stuck with a full
// queue, and removes updates that have become too old.
func (h *Hub) watch(ctx context.Context) {
	ticker := time.NewTicker(watchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.journal.Expire(now)
			if h.cfg.Outcome == Disconnect {
				h.endStuck()
			}
		}
	}
}

// A broadcast wakes everybody who waits.
type broadcast struct{ ch atomic.Pointer[chan struct{}] }

func newBroadcast() *broadcast {
	b := new(broadcast)
	ch := make(chan struct{})
	b.ch.Store(&ch)
	return b
}

// wait returns what the next wake closes.
func (b *broadcast) wait() <-chan struct{} { return *b.ch.Load() }

func (b *broadcast) wake() {
	ch := make(chan struct{})
	close(*b.ch.Swap(&ch))
}
