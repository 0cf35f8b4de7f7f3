package fanout

import (
	"syscall"

	"dyno/hub/journal"
	"dyno/internal/loop"
)

// deliverNew sends new entries of the journal to all clients that are up to date.
func (l *Loop) deliverNew() {
	// This comes before the journal is read: an entry that is added later asks for another round.
	l.grown.Store(false)
	l.noted.Store(false)
	entries, oldest := l.source.Since(l.seen, l.entries[:0], batchEntries)
	if len(entries) == 0 && oldest <= l.seen+1 {
		return
	}
	l.counts.rounds.Add(1)
	if oldest > l.seen+1 {
		// The loop itself came too late for some entries. Each client notices that by its
		// own cursor.
		l.allBehind()
		l.seen = oldest - 1
	}
	size, n := 0, 0
	for _, e := range entries {
		if size += len(e.Frame); n > 0 && size > batchBytes {
			break
		}
		n++
	}
	if n > 0 {
		before := l.seen
		l.seen = entries[n-1].Seq
		for i := len(l.order) - 1; i >= 0; i-- { // groups may vanish meanwhile
			l.deliver(l.order[i], entries[:n], before)
		}
	}
	clear(entries) // only the journal decides how long entries live
	if l.source.Head() != l.seen {
		l.grown.Store(true)
	}
}

func (l *Loop) allBehind() {
	for _, c := range l.clients.All() {
		if c.late == nil {
			l.fallBehind(c, &late{cursor: l.seen, counted: l.seen, writable: true})
			l.enqueue(c)
		}
	}
}

// deliver sends a group its new entries. It sends them to members that had everything up
// to before.
func (l *Loop) deliver(g *group, entries []*journal.Entry, before uint64) {
	l.parts = l.parts[:0]
	for _, e := range entries {
		if g.match(e) {
			l.parts = append(l.parts, part{entry, e.Frame, e.Seq, len(e.Frame)})
		}
	}
	if len(l.parts) == 0 {
		return
	}
	buf := l.join()
	events, bytes := int64(len(l.parts)), int64(len(buf))
	var whole int64
	for i := len(g.members) - 1; i >= 0; i-- { // members may vanish meanwhile
		c := g.members[i]
		if c.late == nil {
			n, errno := loop.Send(int(c.fd), buf)
			if n == len(buf) {
				c.wrote = l.ticks
				whole++
				continue
			}
			if errno != 0 && errno != syscall.EAGAIN {
				l.drop(c, Gone)
				continue
			}
			l.fallBehind(c, &late{cursor: before, counted: before, events: events, bytes: bytes})
			l.sent(c, n)
			l.took(c, n)
		} else {
			c.late.events += events
			c.late.bytes += bytes
		}
		if l.beyond(c.late) {
			l.bound(c)
		}
	}
	l.counts.deliveries.Add(whole * events)
	l.counts.writes.Add(whole)
	l.counts.bytes.Add(whole * bytes)
	clear(l.parts)
}

// join returns the bytes of all parts. They are valid until the next join.
func (l *Loop) join() []byte {
	if len(l.parts) == 1 {
		return l.parts[0].frame
	}
	l.buffer = l.buffer[:0]
	for _, p := range l.parts {
		l.buffer = append(l.buffer, p.frame...)
	}
	return l.buffer
}

// catchUp serves late clients whose sockets can take something.
func (l *Loop) catchUp() {
	n := min(len(l.waiting), batchLate)
	batch := append(l.spare[:0], l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	for _, key := range batch {
		if c := l.clients.Get(key); c != nil && c.late != nil {
			c.late.queued = false
			if c.late.writable {
				l.advance(c)
			}
		}
	}
	l.spare = batch
}

// advance sends a late client some of its pending entries.
func (l *Loop) advance(c *client) {
	w := c.late
	entries, oldest := l.source.Since(w.cursor, l.entries[:0], batchEntries)
	if w.cursor < l.seen && oldest > w.cursor+1 {
		l.lose(w, oldest)
	}
	if w.until > w.cursor && w.latest == nil {
		l.coalesce(c, entries)
	}
	l.parts = l.parts[:0]
	size := 0
	put := func(p part) {
		l.parts = append(l.parts, p)
		size += len(p.frame)
	}
	if len(w.rest) > 0 {
		put(part{kind: remains, frame: w.rest})
	}
	if w.gap.From != 0 {
		put(part{kind: gapEvent, frame: journal.AppendGap(nil, w.gap)})
	}
	end := w.cursor
	for _, e := range entries {
		if e.Seq > l.seen || size > 0 && size+len(e.Frame) > batchBytes {
			break
		}
		end = e.Seq
		switch {
		case !c.group.match(e):
		case e.Seq <= w.until && w.latest[e.Topics[0]] > e.Seq: // only where a later one comes
			put(part{leftOut, nil, e.Seq, len(e.Frame)})
		default:
			put(part{entry, e.Frame, e.Seq, len(e.Frame)})
		}
	}
	clear(entries)
	n := 0
	if size > 0 {
		var errno syscall.Errno
		if n, errno = loop.Send(int(c.fd), l.join()); errno != 0 && errno != syscall.EAGAIN {
			l.drop(c, Gone)
			return
		}
		l.sent(c, n)
	}
	all := l.took(c, n)
	clear(l.parts)
	if !all {
		return
	}
	w.cursor = end
	if w.cursor >= w.until {
		w.until, w.latest, w.announced = 0, nil, 0
	}
	if w.cursor == l.seen {
		l.settle(c)
		return
	}
	l.enqueue(c)
}

// sent counts a send call.
func (l *Loop) sent(c *client, n int) {
	if n == 0 {
		return
	}
	c.wrote = l.ticks
	l.counts.writes.Add(1)
	l.counts.bytes.Add(int64(n))
}

// took updates a late client after its socket took the first n bytes of the parts. It
// reports whether that is all of them.
func (l *Loop) took(c *client, n int) bool {
	w := c.late
	for _, p := range l.parts {
		if n >= len(p.frame) {
			n -= len(p.frame)
			l.taken(c, p)
			w.rest = nil
			l.finished(c, p.kind == entry || p.kind == remains && w.half)
			continue
		}
		w.writable = false
		l.counts.short.Add(1)
		if n > 0 {
			l.taken(c, p)
			w.half = p.kind == entry || p.kind == remains && w.half
			w.rest = p.frame[n:]
		}
		return false
	}
	return true
}

// finished counts entries that have been sent whole.
func (l *Loop) finished(c *client, entry bool) {
	c.late.half = false
	if entry {
		l.counts.deliveries.Add(1)
	}
}

// taken updates the accounts for a part that the socket took completely or in part.
func (l *Loop) taken(c *client, p part) {
	w := c.late
	switch p.kind {
	case gapEvent:
		w.gap = journal.Gap{}
		l.counts.gaps.Add(1)
	case leftOut:
		w.announced--
		l.counts.coalesced.Add(1)
		fallthrough
	case entry:
		w.cursor = p.seq
		l.pay(w, p.seq, p.size)
	}
}

// pay subtracts an entry from the pending ones.
func (l *Loop) pay(w *late, seq uint64, size int) {
	if seq > w.counted {
		w.events--
		w.bytes -= int64(size)
		l.relieve(w)
	}
}

// relieve stops Admit from waiting for a client that is within the bounds again.
func (l *Loop) relieve(w *late) {
	if w.crowds && !l.beyond(w) {
		w.crowds = false
		l.over--
	}
}

// beyond reports whether pending entries exceed the bounds.
func (l *Loop) beyond(w *late) bool {
	return w.events > int64(l.cfg.QueueEvents) || w.bytes > l.cfg.QueueBytes
}

// bound applies the configured outcome to a client beyond the bounds.
func (l *Loop) bound(c *client) {
	w := c.late
	switch l.cfg.Outcome {
	case Disconnect:
		l.drop(c, Slow)
	case DropOldest:
		l.dropOldest(c)
	case Coalesce:
		w.until, w.latest = l.seen, nil
	case Block:
		if !w.crowds {
			w.crowds = true
			l.over++
		}
	}
}

// dropOldest moves a client's cursor forward until the client is within the bounds.
func (l *Loop) dropOldest(c *client) {
	w := c.late
	for l.beyond(w) && w.cursor < l.seen {
		entries, oldest := l.source.Since(w.cursor, l.passing[:0], batchEntries)
		if oldest > w.cursor+1 {
			l.lose(w, oldest)
		}
		for _, e := range entries {
			if e.Seq > l.seen || !l.beyond(w) {
				break
			}
			w.cursor = e.Seq
			if c.group.match(e) {
				l.pay(w, e.Seq, len(e.Frame))
				w.gap = widen(w.gap, journal.Gap{From: e.Seq, To: e.Seq, Missed: 1})
				l.counts.dropped.Add(1)
			}
		}
		clear(entries)
	}
}

// lose moves a client's cursor past entries that the journal does not have any more. It
// is unknown how many of these were for this client.
func (l *Loop) lose(w *late, oldest uint64) {
	end := min(oldest-1, l.seen)
	w.gap = widen(w.gap, journal.Gap{From: w.cursor + 1, To: end, Missed: -1})
	w.cursor = end
	w.counted, w.events, w.bytes = l.seen, 0, 0
	w.latest, w.announced = nil, 0
	l.relieve(w)
}

// coalesce finds out which entries up to w.until are sent. It begins with those that have been read
// after w.cursor: the journal may have dropped some of them meanwhile.
func (l *Loop) coalesce(c *client, entries []*journal.Entry) {
	w := c.late
	w.latest = map[string]uint64{}
	matched := int64(0)
	from := w.cursor
	look := func(entries []*journal.Entry) {
		for _, e := range entries {
			from = e.Seq
			if from <= w.until && c.group.match(e) {
				w.latest[e.Topics[0]] = e.Seq
				matched++
			}
		}
	}
	look(entries)
	for from < w.until {
		more, _ := l.source.Since(from, l.passing[:0], batchEntries)
		if len(more) == 0 {
			break
		}
		look(more)
		clear(more)
	}
	// Do not announce again what an earlier gap event has announced.
	if missed := matched - int64(len(w.latest)) - w.announced; missed > 0 {
		w.gap = widen(w.gap, journal.Gap{From: w.cursor + 1, To: w.until, Missed: int(missed)})
		w.announced += missed
	}
}

// widen joins two gaps. The first may be empty.
func widen(a, b journal.Gap) journal.Gap {
	if a.From == 0 {
		return b
	}
	a.To = max(a.To, b.To)
	if a.Missed < 0 || b.Missed < 0 {
		a.Missed = -1
	} else {
		a.Missed += b.Missed
	}
	return a
}
