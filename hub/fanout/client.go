package fanout

import (
	"syscall"

	"dyno/hub/journal"
	"dyno/internal/loop"
)

// A client is a subscriber in the slab. It is up to date and has everything up to
// Loop.seen, unless it has a late part.
type client struct {
	key   uint64
	group *group
	late  *late
	owner any
	until int64 // Unix time in nanoseconds; 0 means no end
	fd    int32
	place uint32 // in group.members
	wrote uint32 // tick at which its socket last took something
	read  uint32 // bytes that it sent
}

// late is the additional state of a client that is not up to date.
type late struct {
	cursor uint64 // last entry that was sent, passed over, or begun with the remaining bytes in rest
	// rest goes out before anything else, because a frame that is half sent must be
	// completed. It is a part of the preamble, a heartbeat, a gap event or an entry's
	// frame. It keeps at most one frame alive, even if the journal has dropped it.
	rest []byte
	half bool        // rest is the end of an entry's frame
	gap  journal.Gap // goes out after rest; From is 0 if there is none

	// events and bytes count its pending entries: those after counted and up to Loop.seen, without rest.
	counted uint64
	events  int64
	bytes   int64

	until     uint64            // entries up to this one are coalesced; 0 means none
	latest    map[string]uint64 // for each first topic, the one of these entries that is sent; nil if not known yet
	announced int64             // entries after cursor that a gap event has already announced as left out

	writable bool // the socket took everything that it was given, as far as is known
	queued   bool // in Loop.waiting
	crowds   bool // beyond the bounds, counted in Loop.over
}

// A group is the set of clients that get the same entries.
type group struct {
	name    string
	match   func(*journal.Entry) bool
	members []*client
	place   int // in Loop.order
}

// A part is a piece of the bytes of one send call.
type part struct {
	kind  kind
	frame []byte
	seq   uint64 // of an entry
	size  int    // of the entry's frame
}

type kind uint8

const (
	remains kind = iota // remaining bytes of what was begun before
	gapEvent
	entry
	leftOut // an entry that is not sent
)

// adopt hands a connection over to the loop.
func (l *Loop) adopt(a arrival) {
	// A cursor may be ahead of the loop, but not of the journal.
	for end := min(a.s.Cursor, l.source.Head()); l.seen < end; {
		l.deliverNew()
	}
	key, c := l.clients.Alloc()
	g := l.groups[a.s.Group]
	if g == nil {
		g = &group{name: a.s.Group, match: a.s.Match, place: len(l.order)}
		l.groups[g.name] = g
		l.order = append(l.order, g)
	}
	*c = client{
		key: key, group: g, owner: a.s.Owner, fd: int32(a.fd), place: uint32(len(g.members)), wrote: l.ticks,
	}
	if !a.s.Until.IsZero() {
		c.until = a.s.Until.UnixNano()
	}
	g.members = append(g.members, c)
	l.counts.subscribers.Add(1)
	l.fallBehind(c, &late{cursor: min(a.s.Cursor, l.seen), rest: a.s.Preamble, counted: l.seen, writable: true})
	if err := l.poll.Add(a.fd, key, loop.Stream); err != nil {
		l.drop(c, Refused)
		return
	}
	l.enqueue(c)
}

// drop ends a client's connection. A drained client's connection ends in order. Any other
// is reset, which also frees what the kernel still holds for it.
func (l *Loop) drop(c *client, why End) {
	l.settle(c)
	g := c.group
	last := len(g.members) - 1
	g.members[c.place] = g.members[last]
	g.members[c.place].place = c.place
	g.members[last] = nil
	g.members = g.members[:last]
	if last == 0 {
		end := len(l.order) - 1
		l.order[g.place] = l.order[end]
		l.order[g.place].place = g.place
		l.order[end] = nil
		l.order = l.order[:end]
		delete(l.groups, g.name)
	}
	if why == Drained {
		loop.Close(int(c.fd))
	} else {
		loop.Reset(int(c.fd))
	}
	owner := c.owner
	l.clients.Free(c.key)
	l.counts.subscribers.Add(-1)
	l.ended(owner, why)
}

// ended counts a subscriber whose connection has ended, and tells its owner.
func (l *Loop) ended(owner any, why End) {
	l.counts.ended[why].Add(1)
	if l.cfg.Ended != nil {
		l.cfg.Ended(owner, why)
	}
}

func (l *Loop) fallBehind(c *client, w *late) {
	c.late = w
	l.counts.late.Add(1)
}

// settle ends the late state of a client that is up to date, or whose connection ends.
func (l *Loop) settle(c *client) {
	if c.late == nil {
		return
	}
	if c.late.crowds {
		l.over--
	}
	c.late = nil
	l.counts.late.Add(-1)
}

// enqueue asks catchUp to serve a late client.
func (l *Loop) enqueue(c *client) {
	if !c.late.queued {
		c.late.queued = true
		l.waiting = append(l.waiting, c.key)
	}
}

// ready handles the poller's events of a client's socket.
func (l *Loop) ready(key uint64, bits uint32) {
	c := l.clients.Get(key)
	if c == nil {
		return
	}
	// A subscriber that shuts down its sending direction counts as gone, as in net/http.
	if bits&(loop.End|loop.Hangup|loop.Error) != 0 {
		l.drop(c, Gone)
		return
	}
	if bits&loop.In != 0 && !l.discard(c) {
		return
	}
	if bits&loop.Out != 0 && c.late != nil && !c.late.writable {
		c.late.writable = true
		l.enqueue(c)
	}
}

// discard reads what a client sent, which has no meaning here, and reports whether the
// client is still there.
func (l *Loop) discard(c *client) bool {
	for {
		n, errno := loop.Recv(int(c.fd), l.scratch)
		switch {
		case errno == syscall.EAGAIN:
			return true
		case errno != 0, n == 0:
			l.drop(c, Gone)
			return false
		}
		c.read += uint32(n)
		if int(c.read) > l.cfg.ReadBytes {
			l.drop(c, Talkative)
			return false
		}
	}
}
