package relay

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"dyno/internal/loop"
	"dyno/services/internal/serve"
	"dyno/services/internal/sockets"
)

// acceptBatch bounds the connections accepted per wake-up: a flood of new ones must not starve the open ones.
const acceptBatch = 64

// accepted is a connection that has been accepted and is not yet served.
type accepted struct {
	fd int
	id uint64
}

// An acceptor accepts connections from a listening socket, up to the bound on
// connections. It belongs to the goroutine of its poller.
type acceptor struct {
	server *Server
	poll   *loop.Poller
	socket *sockets.Listener // nil if another acceptor accepts for this loop
	paused atomic.Bool       // because no slot or no descriptor is free
}

// start begins to accept.
func (a *acceptor) start() error {
	if a.socket == nil {
		return nil
	}
	return a.poll.Add(a.socket.FD, loop.KeyListener, loop.Listener)
}

// accept accepts the waiting connections and passes them to serve.
func (a *acceptor) accept(serve func(accepted)) error {
	s := a.server
	for range acceptBatch {
		if a.socket == nil || a.paused.Load() {
			return nil
		}
		hasSlot := s.slots.take()
		if !hasSlot && s.cfg.Full == Wait {
			if err := a.pause(); err != nil {
				return err
			}
			if s.slots.any() {
				a.poll.Wake() // a slot was freed before wanted was set; waking the poller resumes
			}
			return nil
		}
		fd, err := sockets.Accept(a.socket.FD, a.socket.TCP())
		switch {
		case err != nil:
			if hasSlot {
				s.slots.release()
			}
			return a.failed(err)
		case hasSlot:
			serve(accepted{fd: fd, id: s.enter()})
		default:
			loop.Reset(fd)
			s.reject()
		}
	}
	return nil
}

// failed distinguishes errors that will pass from a listener that is lost.
func (a *acceptor) failed(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if serve.Passing(err) {
		a.server.log.Warn("accepting pauses", "error", err)
		return a.pause()
	}
	return fmt.Errorf("accept: %w", err)
}

// pause stops watching the listener; connections wait in its queue. From now on, every
// slot that is freed wakes the poller.
func (a *acceptor) pause() error {
	if err := a.poll.Remove(a.socket.FD); err != nil {
		return err
	}
	a.paused.Store(true)
	a.server.slots.wanted.Add(1)
	return nil
}

// resume watches the listener again if there is a slot. It is called when the poller was
// woken and on every tick.
func (a *acceptor) resume() error {
	if !a.paused.Load() || !a.server.slots.any() {
		return nil
	}
	a.paused.Store(false)
	a.server.slots.wanted.Add(-1)
	return a.start()
}

// stop ends accepting for good. It reports whether this call ended it.
func (a *acceptor) stop() bool {
	if a.socket == nil {
		return false
	}
	if a.paused.Swap(false) {
		a.server.slots.wanted.Add(-1)
	} else {
		_ = a.poll.Remove(a.socket.FD)
	}
	a.socket.Close()
	a.socket = nil
	return true
}

// slots bound the number of open connections.
type slots struct {
	limit  int64
	taken  atomic.Int64
	wanted atomic.Int32 // how many acceptors have paused
	freed  func()       // wakes them; may be called from any goroutine
}

func (s *slots) any() bool { return s.taken.Load() < s.limit }

// take takes a slot if there is one.
func (s *slots) take() bool {
	for {
		n := s.taken.Load()
		if n >= s.limit {
			return false
		}
		if s.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a slot back.
func (s *slots) release() {
	s.taken.Add(-1)
	if s.wanted.Load() > 0 {
		s.freed()
	}
}
