// Package hub is a hub for server-sent events: publishers POST updates about topics,
// subscribers GET a stream of them. It supports the part of the Mercure protocol
// (draft-dunglas-mercure) that its clients use. It is a library: it listens nowhere, and is
// a handler for any server. Package services/events is a server that has nothing else.
//
//	h, err := hub.New(config)
//	server := &http.Server{Handler: h.Handler(), ConnState: h.ConnState, ConnContext: h.ConnContext}
//	…
//	go server.Shutdown(ctx)
//	h.Drain(ctx, 8*time.Second) // optional
//	err = h.Close()
//
// The handler works without the two hooks, and may be mounted next to others. ConnContext
// lets the hub set the socket options of connections that it does not hijack, including
// those of HTTP/2. ConnState counts connections for the metrics. With HTTP/2 a browser
// holds all its subscriptions on one connection, so the server's MaxConcurrentStreams
// bounds them.
//
// What it promises:
//
//   - A subscriber gets every update that matches, once and in order. If it names a
//     Last-Event-ID, it gets those after that. An event of type "gap" announces updates
//     that the hub cannot give it any more. History and live events are one list (package
//     journal), so no update can be lost between them.
//   - What the hub holds for subscribers is bounded, and Config.Outcome says what happens
//     to a subscriber that falls behind. It costs the others nothing, except with Block.
//   - When the hub must stop, it refuses new subscribers, and disconnects the
//     existing ones one after the other, so that they do not all come back at once.
//
// To read the source: package journal, the one list of events; config.go and hub.go; server.go for
// the methods that servers use; http.go for requests; stream.go for the life of a subscriber;
// queue.go for subscribers that fall behind; and loop.go for subscribers that the event loop of
// package fanout serves. Packages filelog and redislog keep the list in a file, or in Redis for
// several hubs.
package hub

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

	"dyno/hub/fanout"
	"dyno/hub/filelog"
	"dyno/hub/journal"
	"dyno/hub/redislog"
	"dyno/internal/jwt"

	"golang.org/x/sync/semaphore"
)

// An Update is what a publisher sends.
type Update = journal.Update

// ErrUpdate is wrapped by errors that are caused by the update itself.
var ErrUpdate = journal.ErrUpdate

// A history takes updates first, and passes them to the journal.
type history interface {
	// Append keeps u and returns its ID. The journal has it then or soon after.
	Append(ctx context.Context, u Update) (id string, err error)
	// CatchUp returns when the journal has every update that was acknowledged.
	CatchUp(ctx context.Context) error
	Close() error
}

var (
	_ history = memory{}
	_ history = (*filelog.Log)(nil)
	_ history = (*redislog.Log)(nil)
)

// memory is a history without storage of its own: only the journal.
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

// A Hub is one hub. Its methods may be called from any goroutine; Drain only once.
type Hub struct {
	cfg     Config
	log     *slog.Logger
	journal *journal.Journal
	history history
	handler http.Handler
	stats   *stats

	loop     *fanout.Loop  // nil unless configured
	loopDone chan struct{} // closed when the loop has ended
	loopErr  error         // the loop's error; to be read after that

	publishers, subscribers *jwt.Verifier // nil without a key
	crossOrigin             *http.CrossOriginProtection
	origins                 origins
	selectors               selectors
	bodies                  *semaphore.Weighted // bytes of the bodies of requests

	appended *broadcast // when the journal grows
	advanced *broadcast // when a subscriber that publishers wait for has been given an entry
	departed *broadcast // when a subscriber has left
	held     atomic.Int64

	mu        sync.Mutex // guards the following fields
	active    map[uint64]*subscriber
	places    int            // taken by subscribers, and by requests that are about to become one
	addresses map[string]int // taken places, by IP address
	lastID    uint64
	draining  bool
	random    *rand.Rand
	options   []socketOption // those of the first subscriber's connection; nil before

	conns       connections
	unconnected sync.Once // warns of a server whose connections the hub cannot reach
	unregister  func()    // unregisters the metrics

	streams    sync.WaitGroup // of subscribers
	background sync.WaitGroup
	stop       context.CancelFunc
	closed     sync.Once
	closeErr   error
}

// New checks cfg, opens the history, registers the metrics, and returns a hub that can
// serve until Close. The error lists every fault of cfg, or says why the history cannot
// be used or the metrics are refused.
func New(cfg Config) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Hub{
		cfg: cfg, stats: newStats(), selectors: newSelectors(), bodies: semaphore.NewWeighted(cfg.MaxBodiesBytes),
		appended: newBroadcast(), advanced: newBroadcast(), departed: newBroadcast(),
		active: map[uint64]*subscriber{}, addresses: map[string]int{},
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
	if h.log = cfg.Logger; h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	var err error
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
	if h.unregister, err = h.register(cfg.Registerer); err != nil {
		if h.loop != nil {
			h.loop.Close()
		}
		return nil, errors.Join(err, h.history.Close())
	}
	h.handler = h.routes()
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

// Handler answers subscribers and publishers. It may be mounted anywhere in a server that
// does not change the paths. Wrappers of the response must have Unwrap.
func (h *Hub) Handler() http.Handler { return h.handler }

// Publish gives u to all subscribers that it is for. It returns the update's ID when the
// update is kept as Config.History says. The error wraps ErrUpdate if the update is at
// fault. Otherwise it says why the history could not keep the update, which may still
// have been kept. With Outcome Block, Publish waits for subscribers.
func (h *Hub) Publish(ctx context.Context, u Update) (id string, err error) {
	start := time.Now()
	if err := h.checkTopics(u.Topics); err != nil {
		return "", err
	}
	if u.Type == journal.GapType {
		return "", fmt.Errorf("%w: type: %q: is reserved: with it the hub announces missing events", ErrUpdate, u.Type)
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

// checkTopics returns why an update cannot have these topics.
func (h *Hub) checkTopics(topics []string) error {
	if len(topics) > h.cfg.MaxTopics {
		return fmt.Errorf("%w: topic: %d of them: must be %d at most", ErrUpdate, len(topics), h.cfg.MaxTopics)
	}
	for _, topic := range topics {
		if len(topic) > maxTopic {
			return fmt.Errorf("%w: topic: %d bytes: must be %d at most", ErrUpdate, len(topic), maxTopic)
		}
	}
	return nil
}

// Drain refuses new subscribers and ends the existing ones, in random order and spread over the given time (0: all at
// once). Each gets all present entries first. Drain returns when all have ended. If ctx ends before that, Drain cuts
// the rest and returns their number. The last subscribers need time for events on their way: ctx should end some time
// after over. It is called once, before Close, and may run at the same time as http.Server.Shutdown.
func (h *Hub) Drain(ctx context.Context, over time.Duration) (cut int) {
	list := h.startDrain()
	looped := make(chan int, 1)
	go func() {
		n := 0
		if h.loop != nil {
			n = h.loop.Drain(ctx, over)
		}
		looped <- n
	}()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, s := range list {
		timer.Reset(time.Until(start.Add(time.Duration(float64(over) * float64(i) / float64(len(list))))))
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
	slices.SortFunc(list, func(a, b *subscriber) int { return cmp.Compare(a.id, b.id) }) // a repeatable order, which a map does not have
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

// Close ends all subscribers at once, refuses new ones, waits until their handlers have
// returned, and frees what New opened. The server closes its other connections itself,
// after this. A client that subscribes meanwhile is asked to come back.
func (h *Hub) Close() error {
	h.closed.Do(func() {
		h.cutAll()
		if h.loop != nil {
			h.loop.Close()
		}
		h.streams.Wait()
		h.stop()
		h.background.Wait()
		h.unregister()
		h.closeErr = h.history.Close()
	})
	return h.closeErr
}

// watchPeriod is how often the hub checks subscribers whose connections take nothing.
const watchPeriod = 100 * time.Millisecond

// watch does the work that no request does: it ends subscribers that are stuck with a
// full queue, and removes updates that have become too old.
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

// A broadcast wakes all waiting goroutines.
type broadcast struct{ ch atomic.Pointer[chan struct{}] }

func newBroadcast() *broadcast {
	b := new(broadcast)
	ch := make(chan struct{})
	b.ch.Store(&ch)
	return b
}

// wait returns a channel that the next wake closes.
func (b *broadcast) wait() <-chan struct{} { return *b.ch.Load() }

func (b *broadcast) wake() {
	ch := make(chan struct{})
	close(*b.ch.Swap(&ch))
}
