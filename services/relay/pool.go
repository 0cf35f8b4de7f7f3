package relay

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/loop"
	"dyno/services/internal/sockets"
)

// pool is the model with a bounded number of workers. A worker does not own a connection for its whole life: if each
// worker had a few long-lived connections, all others would starve. Instead a dispatcher waits for readiness and
// queues the connections that have something to forward. A worker takes one, forwards the bytes that are there, and
// turns to the next.
//
// Order is kept because only one worker at a time has a connection. Its ownership is a bit
// next to the signals that no worker has seen yet (pair.work). The dispatcher adds signals,
// and queues the connection only if the bit was clear. The worker clears the bit only if no
// signal is left.
type pool struct {
	acceptor
	listening net.Addr
	pairs     loop.Slab[pair] // the dispatcher's
	ticks     atomic.Uint32
	workers   []*carrier
	orders    orders
	seen      *view // the dispatcher's: the last of the upstream that waiting pairs were woken for

	// ready holds connections that wait for a worker. When it is full, the dispatcher
	// waits, and further readiness stays in the kernel.
	ready chan *pair

	mu   sync.Mutex // guards dead
	dead []uint64   // pairs that have ended; the dispatcher frees them
}

func newPool(s *Server) *pool {
	return &pool{
		acceptor: acceptor{server: s},
		ready:    make(chan *pair, s.cfg.Queue),
		orders:   orders{stopped: make(chan struct{})},
	}
}

func (m *pool) listen() error {
	s := m.server
	poll, err := loop.NewPoller()
	if err != nil {
		return err
	}
	m.poll = poll
	if m.socket, err = sockets.Listen(s.cfg.Listen, false); err != nil {
		return err
	}
	m.listening = m.socket.Addr
	for range s.cfg.Workers {
		c := s.newCarrier(poll, &m.ticks)
		m.workers = append(m.workers, &c)
	}
	s.slots.freed = m.wake
	s.upstream.changed = m.wake
	if err := poll.Tick(s.cfg.tick()); err != nil {
		return err
	}
	return m.start()
}

func (m *pool) addr() net.Addr { return m.listening }

func (m *pool) close() {
	m.orders.mu.Lock()
	defer m.orders.mu.Unlock()
	m.orders.gone = true
	m.stop()
	if m.poll != nil {
		m.poll.Close()
	}
}

func (m *pool) serve() error {
	defer close(m.orders.stopped)
	defer m.close()
	var workers sync.WaitGroup
	for _, c := range m.workers {
		workers.Go(func() { m.work(c) })
	}
	err := m.dispatch()
	if err != nil {
		m.orders.stop.Store(true)
		m.stop()
		m.killAll()
		for m.bury(); m.pairs.Len() > 0; m.bury() {
			time.Sleep(time.Millisecond) // the poller is lost, and with it the wake-up
		}
	}
	// No pair is left, so no worker adds to the queue.
	close(m.ready)
	workers.Wait()
	return err
}

func (m *pool) drain(ctx context.Context) { m.orders.drain(ctx, m.wake) }

func (m *pool) wake() {
	m.orders.mu.Lock()
	defer m.orders.mu.Unlock()
	if !m.orders.gone {
		m.poll.Wake()
	}
}

// dispatch waits for readiness and queues connections.
func (m *pool) dispatch() error {
	for m.socket != nil || m.pairs.Len() > 0 {
		n, err := m.poll.Park()
		if err != nil {
			return err
		}
		for i := range n {
			switch key, bits := m.poll.Event(i); key {
			case loop.KeyWake:
				err = m.obey()
			case loop.KeyTick:
				err = m.onTick()
			case loop.KeyListener:
				err = m.accept(m.adopt)
			default:
				if p := m.pairs.Get(key); p != nil {
					m.signal(p, ready(key&1, bits))
				}
			}
			if err != nil {
				return err
			}
		}
		m.bury()
	}
	return nil
}

// signal adds signals to a pair and queues it unless a worker already has it. The queue
// holds a pair at most once.
func (m *pool) signal(p *pair, s signals) {
	if signals(p.work.Or(uint32(s|owned)))&owned == 0 {
		m.ready <- p
	}
}

// work is the main function of a worker.
func (m *pool) work(c *carrier) {
	for p := range m.ready {
		m.serveReady(c, p)
	}
}

// serveReady forwards what a pair has, until no signal is left.
func (m *pool) serveReady(c *carrier, p *pair) {
	for {
		s := signals(p.work.Swap(uint32(owned)))
		switch c.step(p, s&^owned) {
		case over:
			// It stays owned, so later signals do not queue it again.
			m.mu.Lock()
			m.dead = append(m.dead, p.key)
			m.mu.Unlock()
			if m.orders.stop.Load() {
				m.wake() // it may have been the last
			}
			return
		case hungry:
			// The pair goes to the end of the queue and stays owned. If the queue is
			// full, the worker goes on with it, which is the only way that cannot
			// deadlock.
			select {
			case m.ready <- p:
				return
			default:
			}
		case waiting:
			if p.work.CompareAndSwap(uint32(owned), 0) {
				return
			}
		}
	}
}

// bury frees ended pairs. Until then their keys are valid and their signals are ignored.
func (m *pool) bury() {
	m.mu.Lock()
	dead := m.dead
	m.dead = nil
	m.mu.Unlock()
	for _, key := range dead {
		m.pairs.Free(key)
	}
}

func (m *pool) obey() error {
	if m.orders.stop.Load() {
		m.stop()
	}
	if m.orders.kill.Load() {
		m.killAll()
	}
	if v := m.server.upstream.current.Load(); v != m.seen {
		m.seen = v
		for _, p := range m.pairs.All() {
			if p.retry.Load() {
				m.signal(p, tick)
			}
		}
	}
	return m.resume()
}

func (m *pool) killAll() {
	m.bury()
	for _, p := range m.pairs.All() {
		m.signal(p, kill)
	}
}

func (m *pool) onTick() error {
	now := m.ticks.Add(1)
	for _, p := range m.pairs.All() {
		if p.due(now) {
			m.signal(p, tick)
		}
	}
	return m.resume()
}

func (m *pool) adopt(a accepted) {
	key, p := m.pairs.Alloc()
	p.init(a, key, m.listening)
	m.signal(p, begin)
}
