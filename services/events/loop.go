package events

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/services/events/fanout"
	"dyno/services/events/journal"
)

// newLoop makes the event loop that takes over connections, if that is configured.
func (h *Hub) newLoop() (*fanout.Loop, error) {
	if !h.cfg.EventLoop {
		return nil, nil
	}
	c := fanout.Defaults()
	c.QueueEvents, c.QueueBytes = h.cfg.QueueEvents, h.cfg.QueueBytes
	c.Outcome = fanout.Outcome(h.cfg.Outcome)
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

// arrivalTimeout bounds how long a connection waits until the loop takes it over.
const arrivalTimeout = 10 * time.Second

// handOver gives a connection to the event loop, and closes what Go's runtime and
// net/http hold of it.
func (h *Hub) handOver(ctx context.Context, c net.Conn, socket syscall.Conn, s *subscriber, preamble []byte) {
	fd, err := duplicate(socket)
	c.Close()     // the duplicate lives on
	own := s.seat // the rest is not needed any more
	if err == nil {
		h.stats.entered.Add(1)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), arrivalTimeout)
		err = h.loop.Add(wait, fd, fanout.Subscriber{
			Owner: &own, Until: own.until, Address: own.address,
			Group: own.filter.key(), Topics: texts(own.filter.wanted), Match: own.filter.match,
			Cursor: s.cursor.Load(), Preamble: preamble,
		})
		cancel()
		if err == nil {
			return
		}
		unix.Close(fd)
		h.stats.ends[endCut].Add(1)
	}
	if !errors.Is(err, fanout.ErrClosed) {
		h.log.Warn("subscriber not taken over", "error", err)
	}
	h.stats.hijacked.Add(1)
	h.forget(&own)
}

// loopEnded is told of a subscriber of the event loop that has ended.
func (h *Hub) loopEnded(owner any, why fanout.End) {
	s := owner.(*seat)
	reason := map[fanout.End]end{
		fanout.Slow: endQueueFull, fanout.Stalled: endWriteTimeout, fanout.Drained: endDrained, fanout.Cut: endCut, fanout.Expired: endExpired,
	}[why]
	if reason == endNone {
		reason = endClient
	}
	h.stats.ends[reason].Add(1)
	h.stats.hijacked.Add(1)
	h.log.Debug("subscriber ended", "id", s.id, "address", s.address, "reason", why.String(), "topics", strings.Join(texts(s.filter.wanted), " "))
	h.forget(s)
}

// duplicate returns another descriptor of a socket. It does not block, since Go's
// sockets do not.
func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	cerr := raw.Control(func(own uintptr) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, cerr); err != nil {
		return -1, fmt.Errorf("duplicate the socket: %w", err)
	}
	return fd, nil
}

// key is equal for filters that say the same of every entry.
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

// awaitLoop waits until no subscriber of the event loop has a full queue, and ends those
// whose queue still is after BlockTimeout.
func (h *Hub) awaitLoop(ctx context.Context) error {
	if h.loop == nil {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, h.cfg.BlockTimeout)
	defer cancel()
	err := h.loop.Admit(wait)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		h.loop.Shed()
		return nil
	}
	return err
}
