package hub

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dyno/hub/fanout"
	"dyno/hub/journal"
	"dyno/internal/loop"
)

// newLoop makes the event loop that takes over connections, if it is configured.
func (h *Hub) newLoop() (*fanout.Loop, error) {
	if !h.cfg.EventLoop {
		return nil, nil
	}
	c := fanout.Defaults()
	c.QueueEvents, c.QueueBytes = h.cfg.QueueEvents, h.cfg.QueueBytes
	c.Outcome = h.cfg.Outcome
	c.Heartbeat, c.WriteTimeout, c.BatchDelay = h.cfg.heartbeat(), h.cfg.WriteTimeout, h.cfg.BatchDelay
	c.ReadBytes = inputBytes
	c.Ended = h.loopEnded
	if h.cfg.Retry > 0 {
		c.Farewell = func() []byte {
			h.mu.Lock()
			defer h.mu.Unlock()
			return journal.AppendRetry(nil, h.jittered())
		}
	}
	return fanout.New(c, h.journal)
}

// runLoop runs the event loop, and refuses subscribers if the loop has ended by itself.
func (h *Hub) runLoop() {
	defer close(h.loopDone)
	if err := h.loop.Run(); err != nil && !errors.Is(err, fanout.ErrClosed) {
		h.log.Error("subscribers were cut", "error", err)
		h.loopErr = err
	}
	h.startDrain()
}

// arrivalTimeout bounds how long a connection waits until the loop takes it over.
const arrivalTimeout = 10 * time.Second

// A socket is a connection that the event loop can take over.
type socket interface {
	net.Conn
	syscall.Conn
}

// looped returns c as a socket, if there is an event loop and c is a plain socket. A
// wrapper around a socket that does more, such as TLS, is not.
func (h *Hub) looped(c net.Conn) (s socket, ok bool) {
	if h.loop == nil {
		return nil, false
	}
	switch c := c.(type) {
	case *net.TCPConn:
		return c, true
	case *net.UnixConn:
		return c, true
	}
	return nil, false
}

// handOver gives a connection to the event loop, and frees what Go's runtime and net/http
// hold for it.
func (h *Hub) handOver(ctx context.Context, c socket, s *subscriber, preamble []byte) {
	own := s.registration // the rest is not needed any more
	err := h.adopt(ctx, c, &own, s.cursor.Load(), preamble)
	if err != nil {
		h.stats.hijacked.Add(1)
		h.forget(&own)
		if !errors.Is(err, fanout.ErrClosed) {
			h.log.Warn("subscriber not taken over", "error", err)
		}
		h.answerHijacked(c, h.stopping())
	}
	c.Close() // the loop has a descriptor of its own
}

// adopt lets the event loop take over another descriptor of a connection.
func (h *Hub) adopt(ctx context.Context, c socket, own *registration, cursor uint64, preamble []byte) error {
	fd, err := duplicate(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), arrivalTimeout)
	defer cancel()
	// Counted first, because the stream may end at once: no more may have ended than entered.
	h.stats.looped.Add(1)
	h.stats.entered.Add(1)
	if err := h.loop.Add(ctx, fd, fanout.Subscriber{
		Owner: own, Until: own.until, Group: own.filter.key(), Match: own.filter.match,
		Cursor: cursor, Preamble: preamble,
	}); err != nil {
		h.stats.looped.Add(-1)
		h.stats.entered.Add(^uint64(0)) // one less: it never was a subscriber
		loop.Close(fd)
		return err
	}
	return nil
}

// loopEnded is called when a stream of the event loop has ended.
func (h *Hub) loopEnded(owner any, why fanout.End) {
	reason := endClient
	switch why {
	case fanout.Slow:
		reason = endQueueFull
	case fanout.Stalled:
		reason = endWriteTimeout
	case fanout.Drained:
		reason = endDrained
	case fanout.Cut, fanout.Refused:
		reason = endCut
	case fanout.Expired:
		reason = endExpired
	}
	h.stats.hijacked.Add(1)
	h.farewell(owner.(*registration), reason)
	h.stats.looped.Add(-1)
	h.departed.wake()
}

// key is equal for filters that give the same answer for every entry.
func (f *filter) key() string {
	var b strings.Builder
	for _, list := range [][]*selector{f.wanted, f.rights} {
		b.WriteString(strconv.Itoa(len(list)))
		for _, s := range list {
			b.WriteByte(' ')
			b.WriteString(strconv.Quote(s.text))
		}
		b.WriteByte(';')
	}
	return b.String()
}

// awaitLoop is awaitRoom for the subscribers of the event loop.
func (h *Hub) awaitLoop(ctx, wait context.Context) error {
	if h.loop == nil {
		return nil
	}
	err := h.loop.Admit(wait)
	if err == nil || ctx.Err() != nil || wait.Err() == nil {
		return err
	}
	h.loop.Shed() // BlockTimeout is over, but not the publisher's own time
	return nil
}
