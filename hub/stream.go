package hub

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"dyno/hub/journal"
)

// An end is the reason why a subscriber's stream ended.
type end int32

const (
	endNone         end = iota
	endClient           // it went away
	endQueueFull        // by Config.Outcome, or after BlockTimeout
	endWriteTimeout     // its connection took nothing for WriteTimeout
	endExpired          // its token expired
	endDrained          // the hub stops, and the client was notified
	endCut              // the hub stopped before the client could be notified
	ends
)

var endNames = [ends]string{"", "client", "queue_full", "write_timeout", "token_expired", "drained", "cut"}

func (e end) String() string { return endNames[e] }

// A phase is what a subscriber's stream is doing.
type phase int32

const (
	waiting phase = iota // for an event
	writing
)

// A registration is the hub's record of a subscriber, whichever way it is served.
type registration struct {
	id      uint64
	address string
	since   time.Time
	until   time.Time // when its token expires; zero: never
	filter  filter
	retry   time.Duration
}

// A subscriber is one stream: a cursor into the journal, and where to write the entries after it. One goroutine
// writes to it. If the event loop has taken it over, only its registration is used.
type subscriber struct {
	registration

	// Entries from before the subscriber came are history that it asked for. They do not count as its queue.
	backlog, backlogTotal uint64

	cursor atomic.Uint64 // it was given everything up to here
	total  atomic.Uint64 // journal.Entry.Total of that entry
	phase  atomic.Int32  // a phase
	why    atomic.Int32  // an end, if it was decided by another goroutine

	ended  chan struct{} // closed by finish and kick
	gone   chan struct{} // closed when the stream has ended
	ending sync.Once

	mu  sync.Mutex // guards out, which must not be used after the stream has ended
	out sink       // nil after the stream has ended

	own, watched allowance // the first is the stream's, the second the watcher's
	lastWrite    time.Time // only the stream's goroutine uses it
}

// finish makes the stream end after sending what is in the journal now.
func (s *subscriber) finish() { s.ending.Do(func() { close(s.ended) }) }

// kick ends the stream at once, even in the middle of a write.
func (s *subscriber) kick(why end) {
	s.why.CompareAndSwap(int32(endNone), int32(why))
	s.finish()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil {
		s.out.deadline(time.Unix(1, 0)) // in the past, so that a write in progress fails
	}
}

// A sink is where a stream's bytes go.
type sink interface {
	// write writes p, leaving nothing in a buffer of the hub's.
	write(p []byte) error
	// deadline bounds this and later writes. It may be called during write.
	deadline(t time.Time)
}

// response is a sink that writes through net/http: in chunks with HTTP/1.1, in frames
// with HTTP/2.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	flushed func(time.Duration) // nil: times are not measured
}

func (r *response) write(p []byte) error {
	if _, err := r.w.Write(p); err != nil {
		return err
	}
	start := time.Now()
	err := r.control.Flush()
	if r.flushed != nil {
		r.flushed(time.Since(start))
	}
	// Over HTTP/2 a deadline ends the stream, whether something is being written or not.
	r.deadline(time.Time{})
	return err
}

// deadline has no effect if the server does not support it. Then only the end of the
// connection ends a write.
func (r *response) deadline(t time.Time) { _ = r.control.SetWriteDeadline(t) }

// connection is a sink that writes to a connection itself.
type connection struct {
	net.Conn
	flushed func(time.Duration)
}

func (c *connection) write(p []byte) error {
	if c.flushed == nil {
		_, err := c.Write(p)
		return err
	}
	start := time.Now()
	_, err := c.Write(p)
	c.flushed(time.Since(start))
	return err
}

func (c *connection) deadline(t time.Time) { c.SetWriteDeadline(t) }

// batchEntries is how many entries a stream reads from the journal at once.
const batchEntries = 16

// stream gives s the entries after its cursor until the stream ends, and returns the
// reason. ctx ends with the client. begin is written first.
func (h *Hub) stream(ctx context.Context, s *subscriber, begin []byte) end {
	var expired <-chan time.Time
	if !s.until.IsZero() {
		timer := time.NewTimer(time.Until(s.until))
		defer timer.Stop()
		expired = timer.C
	}
	var pulse *time.Timer
	var beat <-chan time.Time
	if period := h.cfg.heartbeat(); period > 0 {
		pulse = time.NewTimer(period)
		defer pulse.Stop()
		beat = pulse.C
	}
	if err := h.send(s, begin); err != nil {
		return s.reason(err)
	}
	var batch [batchEntries]*journal.Entry
	for {
		appended := h.appended.wait() // taken before the check, so that a later append closes it
		finishing := s.finishing()
		if h.full(s, &s.own) {
			switch h.cfg.Outcome {
			case Disconnect:
				return endQueueFull
			case DropOldest, Coalesce:
				if err := h.leaveOut(s); err != nil {
					return s.reason(err)
				}
			case Block: // publishers wait
			}
		}
		n, err := h.deliver(s, batch[:0])
		if err != nil {
			return s.reason(err)
		}
		if h.held.Load() > 0 {
			h.advanced.wake()
		}
		if n > 0 {
			continue
		}
		if finishing {
			if s.retry > 0 {
				_ = h.send(s, journal.AppendRetry(nil, s.retry)) // an attempt is enough: the client also got it at the start
			}
			return s.reason(nil)
		}
		select {
		case <-appended:
		case <-s.ended:
		case <-ctx.Done():
			return endClient
		case <-expired:
			return endExpired
		case now := <-beat:
			if err := h.beat(s, pulse, now); err != nil {
				return s.reason(err)
			}
		}
	}
}

// finishing reports whether the stream is to end when it has caught up.
func (s *subscriber) finishing() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// reason turns the error of a write into an end, unless an end is already decided.
func (s *subscriber) reason(err error) end {
	if why := end(s.why.Load()); why != endNone {
		return why
	}
	switch {
	case err == nil:
		return endDrained
	case errors.Is(err, os.ErrDeadlineExceeded):
		return endWriteTimeout
	}
	return endClient
}

// beat sends a comment after a silent heartbeat period, and sets the timer for the next possible time.
func (h *Hub) beat(s *subscriber, pulse *time.Timer, now time.Time) error {
	period := h.cfg.heartbeat()
	if quiet := now.Sub(s.lastWrite); quiet < period {
		pulse.Reset(period - quiet)
		return nil
	}
	pulse.Reset(period)
	h.stats.heartbeats.Add(1)
	return h.send(s, []byte(journal.Heartbeat))
}

// deliver writes the next entries after its cursor that are for s, and returns how many
// entries it looked at.
func (h *Hub) deliver(s *subscriber, batch []*journal.Entry) (n int, err error) {
	cursor := s.cursor.Load()
	entries, oldest := h.journal.Since(cursor, batch, batchEntries)
	if oldest > cursor+1 {
		if err := h.sendGap(s, journal.Gap{From: cursor + 1, To: oldest - 1, Missed: -1}); err != nil {
			return 0, err
		}
		s.cursor.Store(oldest - 1)
	}
	var delivered, bytes uint64
	for _, e := range entries {
		if s.filter.match(e) {
			if err = h.event(s, e); err != nil {
				break
			}
			delivered++
			bytes += uint64(len(e.Frame))
		}
		s.moveTo(e)
	}
	h.stats.deliveries.Add(delivered)
	h.stats.bytes.Add(bytes)
	return len(entries), err
}

// moveTo moves the cursor to e.
func (s *subscriber) moveTo(e *journal.Entry) {
	s.total.Store(e.Total)
	s.cursor.Store(e.Seq)
}

// event writes an entry's event.
func (h *Hub) event(s *subscriber, e *journal.Entry) error {
	if h.cfg.Send != nil {
		return h.cfg.Send(e, func(p []byte) error { return h.send(s, p) })
	}
	return h.send(s, e.Frame)
}

// send writes p within WriteTimeout.
func (h *Hub) send(s *subscriber, p []byte) error {
	s.lastWrite = time.Now()
	s.out.deadline(s.lastWrite.Add(h.cfg.WriteTimeout))
	// kick sets why before it sets its deadline. If its deadline came before the one set
	// above, why is visible here.
	if s.why.Load() != int32(endNone) {
		return os.ErrDeadlineExceeded
	}
	s.phase.Store(int32(writing))
	err := s.out.write(p)
	s.phase.Store(int32(waiting))
	return err
}

func (h *Hub) sendGap(s *subscriber, g journal.Gap) error {
	h.stats.gaps.Add(1)
	if g.Missed > 0 {
		h.stats.missed.Add(uint64(g.Missed))
	}
	return h.send(s, journal.AppendGap(nil, g))
}
