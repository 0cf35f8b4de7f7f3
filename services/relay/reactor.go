package relay

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"dyno/internal/loop"
	"dyno/services/internal/sockets"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// reactors are the epoll and pinned models: loops that each own some connections for
// their whole life.
type reactors struct {
	server    *Server
	loops     []*reactor
	listening net.Addr
	orders    orders
	accepting atomic.Int32 // loops that have not stopped accepting
}

// These are drain's orders for the loops, which check them when they are woken.
type orders struct {
	stop    atomic.Bool   // accept no more; end when no connection is left
	kill    atomic.Bool   // reset the remaining connections
	stopped chan struct{} // closed just before serve returns

	mu   sync.Mutex // guards gone
	gone bool       // the pollers are closed: do not wake them
}

// drain gives the orders and waits until they are carried out. wake wakes all loops.
func (o *orders) drain(ctx context.Context, wake func()) {
	o.stop.Store(true)
	wake()
	select {
	case <-o.stopped:
	case <-ctx.Done():
		o.kill.Store(true)
		wake()
		<-o.stopped
	}
}

// A reactor is one loop.
type reactor struct {
	carrier
	acceptor
	group  *reactors
	cpu    int // to run on; -1 is any
	pairs  loop.Slab[pair]
	ticks  atomic.Uint32
	hungry []uint64 // pairs that used up their budget, each only once
	spare  []uint64
	next   int   // the loop that gets the next accepted connection
	seen   *view // the last of the upstream that waiting pairs were woken for

	mu    sync.Mutex // guards inbox and lost
	inbox []accepted // connections accepted for this loop; bounded by the slots
	lost  bool       // the loop has failed, and does not read the inbox any more
}

func newReactors(s *Server) *reactors {
	return &reactors{server: s, orders: orders{stopped: make(chan struct{})}}
}

func (m *reactors) listen() error {
	s := m.server
	cpus := make([]int, s.cfg.loops())
	for i := range cpus {
		cpus[i] = -1
	}
	if s.cfg.Model == Pinned {
		var err error
		if cpus, err = s.cfg.cpus(); err != nil {
			return err
		}
	}
	for i, cpu := range cpus {
		poll, err := loop.NewPoller()
		if err != nil {
			return err
		}
		r := &reactor{group: m, cpu: cpu}
		r.carrier = s.newCarrier(poll, &r.ticks)
		r.acceptor.server, r.acceptor.poll = s, poll
		m.loops = append(m.loops, r)
		if err := poll.Tick(s.cfg.tick()); err != nil {
			return err
		}
		if err := m.listenFor(r, i); err != nil {
			return err
		}
		if err := r.start(); err != nil {
			return err
		}
		if r.socket != nil {
			m.accepting.Add(1)
		}
	}
	s.slots.freed = m.wakePaused
	s.upstream.changed = m.wakeAll
	return nil
}

// listenFor gives the i-th loop its listener. One loop of the epoll model accepts for all and gives connections to
// the loops in turn: if all accepted from one listener, the kernel would favour the loop that went to sleep last.
// Pinned loops have a listener each. Unix sockets have no SO_REUSEPORT, so loops share one, by a descriptor each: no
// loop can close the listener of another.
func (m *reactors) listenFor(r *reactor, i int) (err error) {
	cfg := m.server.cfg
	switch {
	case i == 0:
		if r.socket, err = sockets.Listen(cfg.Listen, cfg.Model == Pinned); err == nil {
			m.listening = r.socket.Addr
		}
	case cfg.Model == Epoll:
	case m.loops[0].socket.TCP():
		r.socket, err = sockets.Listen(m.listening.String(), true)
	default:
		r.socket, err = m.loops[0].socket.Again()
	}
	return err
}

func (m *reactors) addr() net.Addr { return m.listening }

func (m *reactors) close() {
	m.orders.mu.Lock()
	defer m.orders.mu.Unlock()
	m.orders.gone = true
	for _, r := range m.loops {
		r.stop()
		r.carrier.poll.Close()
	}
}

func (m *reactors) serve() error {
	defer close(m.orders.stopped)
	defer m.close()
	var g errgroup.Group
	for _, r := range m.loops {
		g.Go(func() error {
			err := r.run()
			if err != nil {
				// A loop is lost. The others end with it, so that the relay does not
				// serve only some of the clients.
				r.abandon()
				m.orders.stop.Store(true)
				m.orders.kill.Store(true)
				m.wakeAll()
			}
			return err
		})
	}
	return g.Wait()
}

func (m *reactors) drain(ctx context.Context) { m.orders.drain(ctx, m.wakeAll) }

func (m *reactors) wakeAll() {
	m.wake(func(*reactor) bool { return true })
}

func (m *reactors) wakePaused() {
	m.wake(func(r *reactor) bool { return r.paused.Load() })
}

// wake wakes the loops that want it.
func (m *reactors) wake(want func(*reactor) bool) {
	m.orders.mu.Lock()
	defer m.orders.mu.Unlock()
	if m.orders.gone {
		return
	}
	for _, r := range m.loops {
		if want(r) {
			r.carrier.poll.Wake()
		}
	}
}

// run is the main function of the loop.
func (r *reactor) run() error {
	poll := r.carrier.poll
	if r.cpu >= 0 {
		// The thread is not unlocked again: it ends with the loop, and so does its
		// affinity.
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(r.cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("pin a loop to cpu %d: %w", r.cpu, err)
		}
	}
	for !r.done() {
		n, err := poll.Wait(len(r.hungry) == 0)
		if err != nil {
			return err
		}
		for i := range n {
			switch key, bits := poll.Event(i); key {
			case loop.KeyWake:
				err = r.obey()
			case loop.KeyTick:
				err = r.onTick()
			case loop.KeyListener:
				err = r.accept(r.deal)
			default:
				if p := r.pairs.Get(key); p != nil {
					r.advance(p, ready(key&1, bits))
				}
			}
			if err != nil {
				return err
			}
		}
		r.feed()
	}
	return nil
}

// done reports whether the loop was asked to stop, has no connection left, and will get
// none.
func (r *reactor) done() bool {
	if !r.group.orders.stop.Load() || r.group.accepting.Load() > 0 || r.pairs.Len() > 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.inbox) == 0
}

// advance steps a pair and handles the result.
func (r *reactor) advance(p *pair, s signals) {
	switch r.step(p, s) {
	case over:
		r.pairs.Free(p.key)
	case hungry:
		// Several events of one wake-up may find the pair hungry.
		if !p.queued {
			p.queued = true
			r.hungry = append(r.hungry, p.key)
		}
	case waiting:
	}
}

// feed gives each hungry pair another turn. Those that stay hungry wait until after the
// next call of the poller.
func (r *reactor) feed() {
	turn := r.hungry
	r.hungry = r.spare[:0]
	for _, key := range turn {
		if p := r.pairs.Get(key); p != nil {
			p.queued = false
			r.advance(p, 0)
		}
	}
	r.spare = turn
}

// obey carries out the orders of other goroutines.
func (r *reactor) obey() error {
	r.mu.Lock()
	inbox := r.inbox
	r.inbox = nil
	r.mu.Unlock()
	for _, a := range inbox {
		r.adopt(a)
	}
	if r.group.orders.stop.Load() {
		r.stopAccepting()
	}
	if r.group.orders.kill.Load() {
		r.killAll()
	}
	if v := r.group.server.upstream.current.Load(); v != r.seen {
		r.seen = v
		for _, p := range r.pairs.All() {
			if p.retry.Load() {
				r.advance(p, tick)
			}
		}
	}
	return r.resume()
}

func (r *reactor) stopAccepting() {
	if r.stop() && r.group.accepting.Add(-1) == 0 {
		// The others may have waited for connections from this loop.
		r.group.wakeAll()
	}
}

func (r *reactor) killAll() {
	for _, p := range r.pairs.All() {
		r.advance(p, kill)
	}
}

// abandon gives up a loop that failed.
func (r *reactor) abandon() {
	r.stopAccepting()
	r.killAll()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.inbox {
		r.rejectLate(a)
	}
	r.inbox, r.lost = nil, true
}

// rejectLate resets an accepted connection that no loop will carry.
func (r *reactor) rejectLate(a accepted) {
	loop.Reset(a.fd)
	r.group.server.leave(cut)
}

func (r *reactor) onTick() error {
	now := r.ticks.Add(1)
	for _, p := range r.pairs.All() {
		if p.due(now) {
			r.advance(p, tick)
		}
	}
	return r.resume()
}

// deal passes an accepted connection to the loop whose turn it is.
func (r *reactor) deal(a accepted) {
	to := r
	if r.group.server.cfg.Model == Epoll {
		to = r.group.loops[r.next]
		r.next = (r.next + 1) % len(r.group.loops)
	}
	if to == r {
		r.adopt(a)
		return
	}
	to.mu.Lock()
	lost := to.lost
	if !lost {
		to.inbox = append(to.inbox, a)
	}
	to.mu.Unlock()
	if lost {
		r.rejectLate(a)
		return
	}
	to.carrier.poll.Wake()
}

// adopt makes this loop the owner of an accepted connection.
func (r *reactor) adopt(a accepted) {
	key, p := r.pairs.Alloc()
	p.init(a, key, r.group.listening)
	r.advance(p, begin)
}
