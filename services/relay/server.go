// Package relay is a TCP proxy whose concurrency model is a setting: goroutines, a pool of
// workers, readiness loops, or readiness loops pinned to CPUs. One conformance test checks
// that all models keep the same contract:
//
//   - Every byte arrives, in order, or both sides see a reset. An orderly end of the stream
//     is passed on in its direction only; a reset is passed on as a reset.
//   - What the relay holds for a slow reader is bounded.
//   - Connecting, idling and, with the PROXY protocol, waiting for the header are bounded in
//     time. The number of connections is bounded, with a stated outcome.
//   - When asked to stop it accepts no more, lets connections finish until a deadline, and
//     resets the rest.
//
// Urgent data is not passed on: the urgent byte is dropped, and the stream goes on.
//
// To read the source: config.go and server.go; upstream.go for where it connects to; then pair.go, which is one connection of the
// event-driven models; then the models in reactor.go, pool.go and goroutine.go.
package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
	"dyno/services/internal/sockets"
	"dyno/services/relay/conditions"
)

// A Server is one relay. Use New, then Listen and Serve, or Serve alone.
type Server struct {
	cfg      Config
	host     *serve.Host
	log      *slog.Logger
	stats    stats
	slots    slots
	limits   struct{ connect, header, idle uint32 } // in ticks
	buffers  *loop.Buffers
	upstream *upstream
	model    model
	network  *conditions.Profile // simulated between the two sides; nil is none

	warned [warnings]atomic.Int64 // when the log last had a warning; Unix time in ns
}

// A model serves connections until drained.
type model interface {
	// listen opens the model's listeners.
	listen() error
	addr() net.Addr
	// serve returns nil after drain, and an error if the model cannot go on.
	serve() error
	// drain stops accepting, waits for open connections until ctx ends, and resets the
	// others.
	drain(ctx context.Context)
	// close frees what listen opened. It is called if serve never is.
	close()
}

// New checks cfg and returns a relay that is not listening yet. The error lists
// every fault of cfg.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	network, err := cfg.conditions()
	if err != nil {
		return nil, err
	}
	host, err := serve.New(serve.Config{
		Name: "relay", AdminListener: cfg.AdminListener, AllowRemote: cfg.AllowRemote,
		DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, host: host, log: host.Logger(), buffers: loop.NewBuffers(cfg.BufferBytes), network: network}
	s.stats.model = cfg.Model
	s.slots.limit = int64(cfg.MaxConnections)
	s.limits.connect = cfg.ticks(cfg.ConnectTimeout)
	s.limits.header = cfg.ticks(cfg.HeaderTimeout)
	s.limits.idle = cfg.ticks(cfg.IdleTimeout)
	host.Registry().MustRegister(newCollector(&s.stats))
	to, err := serve.ParseAddress(cfg.To)
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	s.upstream = &upstream{address: to, lookup: sockets.Lookup, timeout: cfg.ConnectTimeout, log: s.log, changed: func() {}, asked: make(chan struct{}, 1)}
	return s, nil
}

// Listen looks up the upstream's addresses and opens the listeners. After it has returned
// nil, Addr is known and clients may connect; they are served once Serve runs.
func (s *Server) Listen() (err error) {
	if err := s.upstream.open(context.Background()); err != nil {
		return err
	}
	var m model
	switch s.cfg.Model {
	case Goroutine:
		m = newThreaded(s)
	case Pool:
		m = newPool(s)
	case Epoll, Pinned:
		m = newReactors(s)
	}
	if err := m.listen(); err != nil {
		m.close()
		return err
	}
	if err := s.host.Listen(); err != nil {
		m.close()
		return err
	}
	s.model = m
	return nil
}

// Addr is where clients connect; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.model == nil {
		return nil
	}
	return s.model.addr()
}

// AdminAddr is the address of the admin listener; nil without one or before Listen.
func (s *Server) AdminAddr() net.Addr { return s.host.AdminAddr() }

// Close frees the listeners of a relay whose Serve is never called.
func (s *Server) Close() error {
	if s.model != nil {
		s.model.close()
	}
	return s.host.Close()
}

// Serve relays until ctx ends, and then drains. It returns nil after that, even if
// connections had to be cut at the deadline, which it logs. Otherwise it returns the
// error. It calls Listen unless that has been done, and may be called once.
func (s *Server) Serve(ctx context.Context) error {
	if s.model == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	s.log.Info("listening", "address", s.Addr().String(), "to", s.cfg.To, "model", s.cfg.Model)
	lookups, stop := context.WithCancel(context.WithoutCancel(ctx)) // connections that are open at the end may need them
	var looking sync.WaitGroup
	looking.Go(func() { s.upstream.run(lookups) })
	defer func() { stop(); looking.Wait() }()
	return s.host.Run(ctx, serve.Part{Name: "relay", Serve: s.model.serve, Drain: s.drain})
}

func (s *Server) drain(ctx context.Context) (reset int) {
	s.model.drain(ctx)
	return int(s.stats.ends[cut].Load())
}

// enter counts an accepted connection that has a slot and returns its number.
func (s *Server) enter() uint64 {
	s.stats.open.Add(1)
	return s.stats.accepted.Add(1)
}

// leave counts the end of a connection and frees its slot.
func (s *Server) leave(why outcome) {
	s.stats.ends[why].Add(1)
	s.stats.open.Add(-1)
	s.slots.release()
}

// reject counts a connection that found no slot.
func (s *Server) reject() {
	s.stats.accepted.Add(1)
	s.stats.ends[rejected].Add(1)
}

// acceptPause is how long accepting pauses when descriptors have run out. Trying again at
// once would only use the CPU time that other work needs to free some.
const acceptPause = 50 * time.Millisecond
