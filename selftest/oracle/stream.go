package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// A StreamConfig says what a Stream server sends. Each subscriber gets numbered events from 1, due at
// an even rate. The first comes one interval after its request. An event's ID is its number. Its data
// is
//
//	dyno1 SOURCE NUMBER TIME ␠xxx…
//
// with StreamSource in 10 digits and the number in 12. The Unix time in nanoseconds at which the event
// was due has 19.
//
// A fault strikes the events whose number is a multiple of its setting; 0 strikes none. One event may
// be struck by several: choose numbers without a small common multiple where that is not wanted.
type StreamConfig struct {
	Rate   float64       // events per second and subscriber; default 100
	Events int           // after which the server is silent; default without end
	Delay  time.Duration // from when an event is due to its sending; default none
	Size   int           // bytes of an event's data, at least 51; default 100

	Drop   int // is not sent
	Repeat int // is sent twice
	Swap   int // is sent right after its successor
	Gap    int // has an event of type "gap" before it
	End    int // is the last on its connection, which then ends in order

	// Retry is the pause before reconnecting that is asked for at the beginning of each
	// stream, in whole milliseconds; default none.
	Retry time.Duration

	// Forget has every stream begin with number 1. Default: a subscriber that names
	// its last event, by Last-Event-ID, gets what follows it.
	Forget bool

	// Take is how many subscriptions are taken in all; further ones are answered by
	// 204, which tells them not to come back. Default all.
	Take int

	Status    int    // of the response; default 200
	MediaType string // of the response; default text/event-stream
	Unframed  bool   // the connection's end ends the response; default chunks
}

// StreamSource is the source in the stamps of a Stream server's events.
const StreamSource = 7

// maxUnsent bounds what a subscriber leaves unread, in addition to what the kernel holds.
// Past it, its connection is reset.
const maxUnsent = 4 << 20

const (
	stampFormat = "dyno1 %010d %012d %019d "
	stampBytes  = 50
)

func (c StreamConfig) withDefaults() StreamConfig {
	if c.Rate == 0 {
		c.Rate = 100
	}
	if c.Events == 0 {
		c.Events = math.MaxInt
	}
	if c.Size == 0 {
		c.Size = 100
	}
	if c.Take == 0 {
		c.Take = math.MaxInt
	}
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	if c.MediaType == "" {
		c.MediaType = "text/event-stream"
	}
	return c
}

// Validate reports a rate or a size that cannot be.
func (c StreamConfig) Validate() error {
	c = c.withDefaults()
	var faults []error
	if !(c.Rate > 0) || c.Rate > 1e6 {
		faults = append(faults, fmt.Errorf("oracle: rate: %v: must be more than 0 and at most 1000000 events per second", c.Rate))
	}
	if c.Size <= stampBytes || c.Size > maxSize {
		faults = append(faults, fmt.Errorf("oracle: size: %d: must be between %d and %d bytes", c.Size, stampBytes+1, maxSize))
	}
	return errors.Join(faults...)
}

// StreamCounts is what a Stream server did.
type StreamCounts struct {
	Traffic
	Subscriptions int64 // taken
	Resumed       int64 // subscribers among them that named their last event
	Refused       int64 // asked not to come back
	Events        int64 // sent; repeated ones twice, gap events not counted
	Dropped       int64
	Repeated      int64
	Swapped       int64
	Gaps          int64 // gap events sent
	Ended         int64 // streams that the server ended
	Overrun       int64 // connections reset because too much was left unread
}

// A Stream server sends events without end to each subscriber, by the rules of
// server-sent events (HTML standard, section 9.2).
type Stream struct {
	*Server

	stream   StreamConfig
	interval float64 // ns

	// Guarded by Server.mu.
	counts StreamCounts
	event  []byte // scratch
}

// A feed is what a Stream server sends on one connection.
type feed struct {
	begin int64 // when the request arrived
	first int   // the number of its first event
	next  int   // of the event that is due
	held  int   // a swapped event that waits for its successor; 0: none
}

// StartStream starts a server of event streams.
func StartStream(ctx context.Context, config Config, stream StreamConfig) (*Stream, error) {
	if err := errors.Join(stream.Validate(), config.validateHTTP()); err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	t := &Stream{Server: s, stream: stream.withDefaults()}
	t.interval = float64(time.Second) / t.stream.Rate
	s.policy.request, s.policy.due = t.request, t.due
	s.run(ctx)
	return t, nil
}

// Counts returns what was done so far.
func (t *Stream) Counts() StreamCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Traffic = t.traffic
	return c
}

// request begins a stream, or refuses it.
func (t *Stream) request(c *conn) {
	if t.counts.Subscriptions == int64(t.stream.Take) {
		t.counts.Refused++
		t.send(c, []byte("HTTP/1.1 204 No Content\r\n\r\n"))
		t.finish(c)
		return
	}
	t.counts.Subscriptions++
	f := &feed{begin: t.now(), first: 1}
	if c.head.lastEvent > 0 && !t.stream.Forget {
		f.first = c.head.lastEvent + 1
		t.counts.Resumed++
	}
	f.next = f.first
	c.feed = f
	coding := "Transfer-Encoding: chunked\r\n"
	if t.stream.Unframed {
		coding = closeField
	}
	t.scratch = fmt.Appendf(t.scratch[:0], "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-cache\r\n%s\r\n",
		t.stream.Status, http.StatusText(t.stream.Status), t.stream.MediaType, coding)
	if ms := t.stream.Retry.Milliseconds(); ms > 0 && !c.head.noAns {
		t.event = fmt.Appendf(t.event[:0], "retry: %d\n\n", ms)
		t.scratch = t.chunk(t.scratch)
	}
	t.send(c, t.scratch)
	if c.head.noAns {
		t.finish(c)
		return
	}
	t.plan(c)
}

// dueAt returns when event n of a stream is due.
func (t *Stream) dueAt(f *feed, n int) int64 {
	return f.begin + int64(float64(n-f.first+1)*t.interval)
}

// plan sets when the next event is sent.
func (t *Stream) plan(c *conn) {
	if !c.closed && c.feed.next <= t.stream.Events {
		t.after(t.dueAt(c.feed, c.feed.next)+int64(t.stream.Delay), c)
	}
}

// due sends the event whose time has come, and does to it what is planned.
func (t *Stream) due(c *conn) {
	f, plan := c.feed, &t.stream
	n := f.next
	f.next++
	strikes := func(every int) bool { return every > 0 && n%every == 0 }
	t.scratch = t.scratch[:0]
	if strikes(plan.Gap) {
		t.event = append(t.event[:0], "event: gap\ndata: {}\n\n"...)
		t.scratch = t.chunk(t.scratch)
		t.counts.Gaps++
	}
	switch {
	case strikes(plan.Drop):
		t.counts.Dropped++
	case strikes(plan.Swap) && n < plan.Events:
		t.counts.Swapped++
		f.held = n
	default:
		t.write(f, n)
		if strikes(plan.Repeat) {
			t.write(f, n)
			t.counts.Repeated++
		}
	}
	if f.held > 0 && f.held < n {
		t.write(f, f.held)
		f.held = 0
	}
	ends := strikes(plan.End)
	if ends && !plan.Unframed {
		t.scratch = append(t.scratch, "0\r\n\r\n"...)
	}
	t.send(c, t.scratch)
	switch {
	case ends:
		t.counts.Ended++
		t.finish(c)
		t.hang(c)
	case len(c.out) > maxUnsent:
		// By a reset: an orderly end would wait for what is not being read.
		t.counts.Overrun++
		t.traffic.Abandoned++
		t.reset(c)
	default:
		t.plan(c)
	}
}

// write adds event n to what is to be sent.
func (t *Stream) write(f *feed, n int) {
	t.counts.Events++
	at := t.start.UnixNano() + t.dueAt(f, n)
	e := append(t.event[:0], "id: "...)
	e = strconv.AppendInt(e, int64(n), 10)
	e = append(e, "\ndata: "...)
	e = fmt.Appendf(e, stampFormat, StreamSource, n, at)
	for range t.stream.Size - stampBytes {
		e = append(e, 'x')
	}
	t.event = append(e, "\n\n"...)
	t.scratch = t.chunk(t.scratch)
}

// chunk appends the event to dst as the response's framing has it.
func (t *Stream) chunk(dst []byte) []byte {
	if t.stream.Unframed {
		return append(dst, t.event...)
	}
	dst = strconv.AppendInt(dst, int64(len(t.event)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, t.event...)
	return append(dst, "\r\n"...)
}
