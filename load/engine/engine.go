// Package engine drives load over a protocol and keeps the time. It starts requests when a
// schedule says so (open loop) or when their users are ready (closed loop). It never slows
// down silently, and it accounts for every request. It also carries subscribers, and accounts
// for every event that is due to each of them.
//
// # Components
//
// A worker is one locked operating-system thread with one epoll instance. It owns a share of the
// connections and of the schedule. There is no goroutine per connection, and no channel, lock or
// allocation per request. A worker consists of components, each of which owns its state:
//
//	who sends         arrivals (open loop) · pauses (closed loop) · users (scenarios) · subscribe
//	requests          exchanges · redirects · messages · traces        codecs: load/wire
//	connections       connections · socket (TLS, descriptors)
//	thread            poll (epoll, system calls) · clock (arrival stamps) · thread · queue
//	what is recorded  record: one Recorder a worker, one Collector an engine
//
// One request: loop finds it due (open.go, closed.go, users.go) and takes a free connection, or
// makes the request wait. dispatch composes and writes it (exchange.go). poll reports the answer,
// and read takes it with the time of its arrival (reading.go, mux.go). The codec says when it is
// complete. succeed or fail tells the recorder, and release frees the exchange. Then the
// sender continues: with a pause, or with the next request on the same connection.
//
// # Connections, exchanges, users
//
// An HTTP/1.1 connection carries one exchange at a time. An HTTP/2 connection carries as many
// as its mux allows: --streams, the peer's settings, none after GOAWAY. The exchanges of
// connection i begin at index i × streams. So HTTP/1.1 finds its exchange without a look-up.
//
// In a closed loop that repeats one request, an exchange is a user. All users connect before
// the warm-up, at most 128 at a time per worker. In an open loop, a request without a free
// connection waits, and its clock runs. Beyond MaxWaiting requests are dropped and counted.
// A scenario separates users from connections: see package users.
//
// # Accounting
//
// The counts obey scheduled = sent + dropped, and sent = ok + errors + generator + timeouts +
// unfinished. They hold for the requests of the window, for requests carried into it, and for
// all. A carried request was due before the window and unanswered when it began. A generator
// failure is due to dyno being out of descriptors, ports or memory. A timed-out or unfinished request
// is recorded with the time that it had taken so far; it is never left out. A request that the
// peer refused and dyno sent again counts once, and its clock runs from the intended start.
//
// # Times
//
// Three clocks run for each request: Response time runs from the intended start, and service time from
// the write. Send lag is between the two (Tene, "How NOT to Measure Latency"; Schroeder et al., "Open
// Versus Closed: A Cautionary Tale", NSDI 2006). Send lag includes the wait for a connection, which the
// target often causes. Generator lag starts when the request was due and a connection was available, so
// it judges the generator. A response ends by the kernel's stamp of its last segment: see package
// clock.
//
// A request belongs to the window if it was due in it, however late it ends. Throughput counts
// good responses that end inside the window, whenever they were due.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dyno/internal/descriptors"
	"dyno/internal/sums"
	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/queue"
	"dyno/load/engine/record"
	"dyno/load/engine/redirects"
	"dyno/load/engine/socket"
	"dyno/load/engine/subscribe"
	"dyno/load/engine/thread"
	"dyno/load/engine/traces"
	"dyno/load/engine/users"
	"dyno/load/pace"
	"dyno/load/wire"
)

// An Unreachable error says that no connection could be opened.
type Unreachable struct {
	Address string
	Err     error // the last refusal
	Proxied bool  // by the proxy at the address, not by the target beyond it
}

func (e *Unreachable) Error() string {
	if errors.Is(e.Err, syscall.ECONNREFUSED) {
		if e.Proxied {
			return "the proxy " + e.Address + " refused the connection"
		}
		return e.Address + " refused the connection"
	}
	if refusal := (*wire.Error)(nil); e.Proxied && errors.As(e.Err, &refusal) {
		return refusal.Text
	}
	return fmt.Sprintf("no connection to %s could be opened: %v", e.Address, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// An Exhausted error says that no connection could be opened because this machine is out of
// descriptors, ports or memory. The target was not even asked.
type Exhausted struct {
	Address string
	Err     error
}

func (e *Exhausted) Error() string {
	return fmt.Sprintf("no connection to %s could be opened from here: %v", e.Address, e.Err)
}

func (e *Exhausted) Unwrap() error { return e.Err }

// An engine is one Run's state. Its fields are set before the workers start,
// except for the atomic one and the publications.
type engine struct {
	config       config.Config
	parts        []config.Config // the load's paces; without any, the load
	base         time.Time       // zero of the engine's clock, on the monotonic clock
	epoch        int64           // the same as Unix time in nanoseconds, as it was at the start
	to           socket.Endpoints
	collector    *record.Collector
	workers      []*worker
	pools        []*subscribe.Pool // of the workers
	publications *subscribe.Publications
	stop         atomic.Bool
	silent       *wire.Error // of exchanges whose connection is given up
	unpinged     *wire.Error // of those whose connection has not answered a ping
}

// unreachable is what to say when no worker could connect. The workers must be
// waiting, or have ended.
func (e *engine) unreachable() error {
	u := &Unreachable{Address: e.config.Address}
	for _, w := range e.workers {
		u.Err = cmp.Or(u.Err, w.conns.refusal, w.subscribers.Refusal())
		for _, e := range w.conns.tunnelErrors {
			u.Proxied = u.Proxied || errors.Is(u.Err, e)
		}
	}
	opening := func(w *worker) bool { return w.conns.opening > 0 }
	if u.Err == nil && slices.ContainsFunc(e.workers, opening) { // none was refused, and the end came first
		u.Err = syscall.ETIMEDOUT
	}
	if wire.KindOf(u.Err) == wire.Generator {
		return &Exhausted{Address: u.Address, Err: u.Err}
	}
	return u
}

// spareDescriptors are the descriptors that the process needs in addition to its connections, with
// room: observers, files, and connections that are closed while others are opened.
const spareDescriptors = 1024

// Run carries out one measurement: it connects, warms up, measures and drains.
// It returns a result whenever load was sent, even together with an error. When ctx
// ends, the window ends with it and the result says that it was interrupted. Run
// blocks; several may run at once.
func Run(ctx context.Context, c config.Config) (*record.Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	to, err := socket.Resolve(ctx, c.Network, c.Address, c.OneAddress)
	if err != nil {
		return nil, &Unreachable{Address: c.Address, Err: err}
	}
	if err := descriptors.Enlarge(c.Carried() + spareDescriptors); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := newEngine(c)
	e.to = to
	e.collector = record.NewCollector(c.Workers, c.Intervals)
	for i := range e.parts {
		for place := range e.parts[i].Workers {
			w, err := e.newWorker(&e.parts[i], place)
			if err != nil {
				for _, w := range e.workers {
					w.sockets.Poller.Close()
				}
				return nil, fmt.Errorf("engine: worker %d: %w", len(e.workers), err)
			}
			e.workers, e.pools = append(e.workers, w), append(e.pools, w.subscribers)
			if c.Subscribers != nil {
				e.publications.Expect(w.sources(true))
			}
		}
	}
	return e.run(ctx)
}

func newEngine(c config.Config) *engine {
	base := time.Now().Add(-time.Second)
	return &engine{
		config: c, parts: c.Parts(), base: base, epoch: base.UnixNano(), unpinged: unpinged(c.Keepalive),
		silent:       &wire.Error{Kind: wire.Timeout, Text: c.TimedOut.Text + ", and nothing else on the connection"},
		publications: subscribe.NewPublications(c.Workers, c.Barrier != nil),
	}
}

// newWorker returns the next worker, which has a place among those of a part of the load.
func (e *engine) newWorker(c *config.Config, place int) (*worker, error) {
	n := len(e.workers)
	sockets, err := socket.NewThread(e.to.Used, e.config.FirstPlace(n), c.TLS, e.base)
	if err != nil {
		return nil, err
	}
	w := &worker{
		engine: e, config: c, number: n, place: place, sockets: sockets,
		rec:      record.NewRecorder(e.collector, n, c.Window),
		rng:      rand.New(rand.NewPCG(c.Seed, c.Shard.At(uint64(n)))), //nolint:gosec // jitter, not a secret
		phases:   phases{remaining: never},
		arrivals: arrivals{due: never},
	}
	w.subscribers = subscribe.New(c.Subscribers, &subscribe.Worker{
		Number: n, Count: e.config.Workers, Window: c.Window, Timeout: c.Timeout, ConnectTimeout: c.ConnectTimeout, Epoch: e.epoch,
		Sockets: sockets, Recorder: w.rec, Random: w.rng, Publications: e.publications,
	})
	if c.Requests > 0 {
		w.phases.remaining = uint64(c.Part(place).Share(int(c.Requests))) //nolint:gosec // bounded by an int
	}
	if c.Schedule != nil && place < min(c.Workers, c.Connections) {
		s := c.ShardOf(place)
		w.arrivals.cursor = c.Schedule.Split(s.Index, s.Count)
	}
	if c.Users != nil && place < min(c.Workers, c.Connections) {
		own := *c.Users
		own.Count, own.Iterations = c.Part(place).Share(own.Count), uint64(c.Part(place).Share(int(own.Iterations))) //nolint:gosec // bounded by an int
		w.users = users.New(&users.Share{
			Config: own, IsBounded: c.Users.Iterations > 0, Shard: e.config.ShardOf(n), Seed: c.Seed, Open: c.Schedule != nil,
			Epoch: e.epoch, Clock: &sockets.Clock, Recorder: w.rec,
		})
	}
	if c.Traces != nil {
		w.tracer = traces.New(c.Traces, c.Seed, c.Shard.At(uint64(n)), e.epoch)
		w.rec.Traces(w.tracer.Beginning())
	}
	w.pooled = (w.arrivals.cursor != nil || w.users != nil) && !c.Owned
	if err := w.equip(c); err != nil {
		sockets.Poller.Close()
		return nil, err
	}
	return w, nil
}

// equip gives a worker its places for connections and exchanges, if it has any.
func (w *worker) equip(c *config.Config) error {
	own := c.Part(w.place)
	count := own.Share(c.Connections)
	n := count * c.Streams
	w.conns = connections{
		all: make([]connection, count), connecting: queue.NewList(count), goAways: record.Texts{},
		streams:   int32(c.Streams), //nolint:gosec // bounded by MaxStreams
		addresses: make([]record.Address, len(w.engine.to.Used)),
		lifetime:  cmp.Or(c.ExchangesPerConnection, math.MaxUint64),
	}
	for i, to := range w.engine.to.Used {
		w.conns.addresses[i].Name = to.Name
	}
	w.conns.connectQueue.Limit = count
	w.exchanges = exchanges{all: make([]exchange, n), inFlight: queue.NewList(n)}
	w.exchanges.waiting.Limit = max(1, own.Share(c.MaxWaiting))
	if c.Population != nil && w.users != nil {
		w.presence = newPresence(w.users.Count())
	} else if c.Population != nil {
		w.presence = newPresence(n)
	}
	if w.users != nil {
		w.exchanges.timeouts = queue.NewTimeouts(w.users.Timeouts(), c.Timeout, n)
		if w.arrivals.cursor == nil {
			w.exchanges.waiting.Limit = max(1, w.users.Count()) // each user has one request at a time
		}
	}
	if c.Messages != nil {
		w.messages = messages.New(c.Messages, n, w.rec)
	}
	if count == 0 {
		return nil // with subscribers only
	}
	if w.pooled {
		w.conns.idles = make([]int32, 0, count)
		w.conns.vacant = make([]int32, 0, count)
		if w.arrivals.cursor != nil {
			w.conns.shortSince = never
		}
	} else {
		w.pauses = queue.NewTimers(n)
	}
	if c.Keepalive != nil {
		w.conns.pings = queue.NewTimers(count)
	}
	if c.NewFollower != nil {
		w.redirects = redirects.New(c.NewFollower(w.number), n, w.rec)
	}
	if err := w.chooseCodecs(c); err != nil {
		return err
	}
	w.placeConnections(c)
	w.placeExchanges(c)
	return nil
}

// chooseCodecs makes what makes the codecs of a worker's connections.
func (w *worker) chooseCodecs(c *config.Config) error {
	if c.NewClients != nil {
		w.conns.newClient = c.NewClients(w.number)
	}
	if c.NewClients != nil && (c.Users != nil || c.NewFollower != nil || c.Traces != nil) {
		client := w.conns.newClient()
		if _, ok := client.(wire.Composer); !ok {
			return errors.New("the clients send one request only, and users, redirects and traces take different ones")
		}
		if _, ok := client.(wire.Collector); ok && w.users != nil {
			w.users.HaveCollected()
		}
	}
	if c.NewMuxes != nil {
		w.conns.newMux = c.NewMuxes(w.number)
	}
	if c.Keepalive != nil {
		if _, ok := w.conns.newMux().(wire.Pinger); !ok {
			return errors.New("the muxes have no pings, and keepalive wants some")
		}
	}
	return nil
}

func (w *worker) placeConnections(c *config.Config) {
	newTunnel := func() wire.Client { return nil }
	if c.NewTunnels != nil {
		newTunnel, w.conns.tunnelErrors = c.NewTunnels(w.number), map[error]*wire.Error{}
	}
	count := len(w.conns.all)
	for i := range w.conns.all {
		conn := &w.conns.all[i]
		*conn = connection{
			Socket: w.sockets.New(), firstAwaiting: none, idleAt: none, firstUnwritten: none, spare: none,
			current: int32(i * c.Streams), //nolint:gosec // bounded by MaxExchanges
			tunnel:  newTunnel(),
		}
		// With both, the server chooses.
		if w.conns.newMux == nil {
			conn.client = w.conns.newClient()
		} else if w.conns.newClient == nil {
			conn.mux = w.conns.newMux()
		}
		w.conns.stamps = w.conns.stamps || conn.stamper() != nil
		if w.opensOnDemand() {
			w.conns.vacant = append(w.conns.vacant, int32(count-1-i)) //nolint:gosec // bounded by MaxConnections
		}
	}
}

func (w *worker) placeExchanges(c *config.Config) {
	for k := range w.exchanges.all {
		x := &w.exchanges.all[k]
		x.number = int32(k)           //nolint:gosec // bounded by MaxExchanges
		x.conn = int32(k / c.Streams) //nolint:gosec // bounded by MaxConnections
		switch {
		case w.pooled:
			conn := &w.conns.all[x.conn]
			x.next = conn.spare
			conn.spare = int32(k) //nolint:gosec // bounded by MaxExchanges
		case c.Think != (pace.Think{}):
			rng := pace.NewRNG(c.Seed, c.Shard.At(uint64(k*c.Workers+w.number))) //nolint:gosec // not negative
			x.thinks = &rng
		}
	}
}

// lead is how long before the warm-up the start is announced, so that observers
// are in place when it begins. They need one on an idle machine.
const lead = 5 * time.Millisecond

// threads are the workers' threads. They outlive the work until the last phase was announced: the
// observer reads their CPU time, which ends with them.
type threads struct {
	running, loading sync.WaitGroup // threads; workers that are not done
	ready            chan error     // of each worker that has tried its connections
	begin            chan struct{}  // closed when origin is known
	origin           int64          // when the load begins; 0: it does not take place
	released         chan struct{}  // closed when the threads may end
}

// carry runs a worker on a thread of its own.
func (t *threads) carry(w *worker) {
	defer func() { <-t.released }()
	defer t.loading.Done()
	// Never unlocked: the thread ends with its placement and timer slack.
	runtime.LockOSThread()
	cpu := -1
	if cpus := w.config.CPUs; len(cpus) > 0 {
		cpu = cpus[w.number%len(cpus)]
	}
	w.thread = thread.ID()
	err := thread.Place(cpu)
	if err == nil {
		w.chooseClock()
		w.connectAll()
	}
	t.ready <- err
	<-t.begin
	defer w.closeAll()
	if t.origin == 0 {
		return
	}
	w.start(t.origin)
	w.loop()
	w.abandonWaiting()
}

func (e *engine) run(ctx context.Context) (*record.Result, error) {
	t := &threads{ready: make(chan error, len(e.workers)), begin: make(chan struct{}), released: make(chan struct{})}
	defer t.running.Wait()
	defer close(t.released)
	woken := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(woken)
		e.interrupt()
	})
	defer func() {
		// Interruption writes to the pollers, so they are closed afterwards.
		if !cancel() {
			<-woken
		}
		for _, w := range e.workers {
			w.sockets.Poller.Close()
		}
	}()
	t.loading.Add(len(e.workers))
	for _, w := range e.workers {
		t.running.Go(func() { t.carry(w) })
	}
	var start time.Time
	var ids []int
	err := e.ready(ctx, t)
	if err == nil {
		start, ids, err = e.join(ctx)
	}
	if err != nil {
		close(t.begin)
		t.loading.Wait()
		return nil, err
	}
	t.origin = int64(start.Sub(e.base))
	return e.measure(ctx, t, start, ids)
}

// ready waits until all workers have tried their connections. It returns why there is no load.
func (e *engine) ready(ctx context.Context, t *threads) error {
	var failed error
	for range e.workers {
		failed = errors.Join(failed, <-t.ready)
	}
	switch {
	case failed != nil:
		return fmt.Errorf("engine: placing a worker: %w", failed)
	case ctx.Err() != nil:
		return ctx.Err()
	case slices.ContainsFunc(e.parts, config.Config.IsClosed) && e.config.Connections > 0 && !slices.ContainsFunc(e.workers, func(w *worker) bool { return w.conns.tally.Opened > 0 }),
		e.config.Subscribers != nil && !subscribe.AnyConnected(e.pools):
		return e.unreachable()
	}
	return nil
}

// measure begins the load, which threads with these ids carry, and awaits its end.
func (e *engine) measure(ctx context.Context, t *threads, start time.Time, ids []int) (*record.Result, error) {
	var collecting sync.WaitGroup
	collecting.Go(e.collector.Run)
	learned := make(chan error, 1) // nil once it is known what the others have published
	if e.config.Barrier != nil && e.config.Subscribers != nil {
		go func() { learned <- e.learnPublished(ctx) }()
	} else {
		learned <- nil
	}
	e.collector.Start(t.origin)
	result := record.NewResult(start, e.config.Warmup)
	close(t.begin)
	done := make(chan struct{})
	go func() {
		t.loading.Wait()
		close(done)
	}()
	if e.config.OnStart != nil {
		e.config.OnStart(config.Start{Time: result.Start, Threads: ids})
	}
	e.config.AnnouncePhases(result.Start, done)
	<-done
	e.collector.Stop()
	collecting.Wait()
	unlearned := <-learned
	e.conclude(result, t.origin)
	result.Interrupted = ctx.Err() != nil
	if e.config.Connections > 0 && result.Connections.Opened == 0 && !result.Interrupted {
		return result, e.unreachable()
	}
	for _, w := range e.workers {
		if w.users != nil && w.users.Err() != nil {
			return result, errors.Join(unlearned, fmt.Errorf("engine: data of users: %w", w.users.Err()))
		}
	}
	return result, unlearned
}

// interrupt ends the measurement early.
func (e *engine) interrupt() {
	e.stop.Store(true)
	for _, w := range e.workers {
		w.sockets.Poller.Wake()
	}
}

// conclude sums the workers up.
func (e *engine) conclude(r *record.Result, origin int64) {
	r.Connections.Requested, r.Connections.Streams = e.config.Connections, e.config.Streams
	var end, concluded int64
	var requests, events []*record.Silences
	for n, w := range e.workers {
		r.AddWorker(w.rec, &w.sockets.Clock)
		if len(w.conns.all) > 0 {
			requests = append(requests, w.rec.Silences())
		}
		for i, o := range w.subscribers.Addresses() {
			w.conns.addresses[i].Opened += o.Opened
			w.conns.addresses[i].Failed += o.Failed
		}
		r.AddAddresses(w.conns.addresses)
		if w.subscribers.Len() > 0 {
			events = append(events, w.subscribers.Silences())
		}
		concluded = max(concluded, w.phases.concluded)
		own := record.Result{Connections: w.conns.tally, Began: time.Duration(w.phases.began - origin)}
		if w.conns.newClient != nil {
			if _, ok := w.conns.newClient().(wire.TokenCounter); ok { // the clients ask language models
				own.Tokens = w.rec.Tokens()
			}
		}
		if w.messages != nil {
			own.Messages = w.rec.Messages()
		}
		if w.redirects != nil {
			own.Redirects = w.rec.Redirects()
		}
		if w.users != nil {
			r.Users.Add(w.users.Result())
		}
		if w.sockets.Secure() {
			w.conns.handshakes.Failed = w.sockets.FailedHandshakes()
			r.Handshakes.Add(&w.conns.handshakes)
			r.Handshakes.Add(w.subscribers.Handshakes())
		}
		w.conns.goAways.AddTo(r.GoAways)
		end = max(end, w.rec.Window.End)
		first, last := &w.phases.marks[0], &w.phases.marks[1]
		own.Workers, own.Spun = last.thread.Sub(first.thread), time.Duration(last.spun-first.spun)
		if n == 0 {
			own.Process = last.process.Sub(first.process)
		}
		sums.Add(r, &own)
	}
	for _, o := range e.to.Others {
		a := record.Address{Name: o.Name}
		if o.Why != nil {
			a.Why = o.Why.Error()
		}
		r.AddAddresses([]record.Address{a})
	}
	r.Window = max(0, time.Duration(end-origin)-r.WindowStart)
	r.Silence = record.SilenceOf(requests, origin, concluded)
	if !slices.ContainsFunc(e.parts, func(c config.Config) bool { return !c.IsClosed() }) {
		waiting := e.config.Connections * e.config.Streams
		if e.config.Users != nil {
			waiting = e.config.Users.Count
		}
		r.Omit(waiting)
	}
	if e.config.Subscribers != nil {
		r.Streams = *subscribe.Sum(e.config.Subscribers, e.pools, e.publications, e.stop.Load())
		r.Streams.Silence = record.SilenceOf(events, origin, min(concluded, end))
	}
	r.AddIntervals(e.collector)
}
