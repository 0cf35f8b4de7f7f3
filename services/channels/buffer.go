package channels

import (
	"context"
	"errors"
	"sync"
)

// An outcome is what happened to a record that was pushed.
type outcome uint8

const (
	admitted  outcome = iota
	dropped           // and counted
	abandoned         // the drain deadline came first; the record stays pending
)

// errDone is returned by buffer.take and buffer.await when no more records will come and
// all are settled. It is not io.EOF, because a sink's peer may cause io.EOF at any time.
var errDone = errors.New("all settled")

// errFinal is returned by buffer.take after the last record was handed out, while some are not settled.
var errFinal = errors.New("handed out, not settled")

// errNudged is returned by buffer.take after buffer.nudge.
var errNudged = errors.New("nudged")

// A buffer holds the records of a channel from their arrival until the sink has them for
// good. The channel's counts are kept here. Records are in the order of their numbers:
// first the sent ones, which were given to the sink at least once, then the queued ones.
// Only queued records may be dropped; otherwise the count of lost records would not be
// exact.
type buffer struct {
	limit Buffer

	mu   sync.Mutex
	room sync.Cond // uses mu; a producer waits for space
	work sync.Cond // uses mu; the sink waits for records, or until all are settled
	done sync.Cond // uses mu; framed peers wait until theirs are settled

	// mu guards all of these.
	sent, queue queue
	next        int    // how many of sent have been handed out since the last rewind
	handed      int    // the bytes of their payloads
	bytes       int    // of the payloads of both
	seq         uint64 // of the latest record
	floor       uint64 // the sink has every record up to this number
	through     uint64 // every record up to this number is settled or dropped
	pos         position
	closed      bool // no more will be pushed
	nudged      bool // take is to return
	waiting     int  // records that have arrived and wait for room

	received, delivered, droppedN, deliveredBytes uint64
}

// An entry is a record in the buffer. When it is settled, everything up to through and
// pos is settled too: records that were dropped right after it belong to its entry.
type entry struct {
	Record
	through uint64
	pos     position
}

// newBuffer returns a buffer whose records are numbered from seq+1 and come after pos.
// Its sink has every record up to floor.
func newBuffer(limit Buffer, seq, floor uint64, pos position) *buffer {
	b := &buffer{limit: limit, seq: seq, through: seq, floor: floor, pos: pos}
	b.room.L, b.work.L, b.done.L = &b.mu, &b.mu, &b.mu
	return b
}

// push adds a record and returns its number. If the buffer's outcome is to block, push waits for
// room until ctx is done. pos is the position at which the source continues after this record.
func (b *buffer) push(ctx context.Context, source uint64, payload []byte, pos position) (outcome, uint64) {
	sum := castagnoli(0, payload)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received++
	if b.full(len(payload)) && b.seq+1 > b.floor {
		switch b.limit.WhenFull {
		case Block:
			b.waiting++
			if !b.wait(ctx, &b.room, func() bool { return !b.full(len(payload)) }) {
				return abandoned, 0
			}
			b.waiting--
		case DropOldest:
			for b.full(len(payload)) && b.queue.len() > 0 {
				b.drop(b.queue.pop())
			}
		}
	}
	e := entry{Record: Record{Source: source, Payload: payload}, pos: pos}
	b.seq++
	e.seal(b.seq, sum)
	e.through = b.seq
	switch {
	case e.Seq <= b.floor: // and so is every earlier record
		b.settled(e)
		b.done.Broadcast()
	case b.full(len(payload)):
		b.bytes += len(payload) // drop subtracts it again
		b.drop(e)
		return dropped, e.Seq
	default:
		b.bytes += len(payload)
		b.queue.push(e)
		b.work.Broadcast()
	}
	return admitted, e.Seq
}

func (b *buffer) full(n int) bool {
	return b.sent.len()+b.queue.len() >= b.limit.Records || b.bytes+n > b.limit.Bytes
}

// drop counts an entry that has left both queues as dropped. The entry before it, if any,
// takes over its position.
func (b *buffer) drop(e entry) {
	b.bytes -= len(e.Payload)
	b.droppedN++
	before := b.sent.last()
	// There is a queued entry before e only if e is the newest.
	if last := b.queue.last(); last != nil && last.Seq < e.Seq {
		before = last
	}
	if before != nil {
		before.through, before.pos = e.through, e.pos
		return
	}
	b.reach(e)
	b.done.Broadcast()
}

// settled counts an entry as delivered.
func (b *buffer) settled(e entry) {
	b.delivered++
	b.deliveredBytes += uint64(len(e.Payload))
	b.reach(e)
}

// reach notes that everything up to an entry is settled or dropped.
func (b *buffer) reach(e entry) {
	b.through, b.pos = e.through, e.pos
}

// awaitSettled waits until every record up to a number is settled or dropped, or ctx is done. It
// returns the number up to which all are.
func (b *buffer) awaitSettled(ctx context.Context, number uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.wait(ctx, &b.done, func() bool { return b.through >= number }) {
		return 0, context.Cause(ctx)
	}
	return b.through, nil
}

// take appends records for the sink to out: at most max of them, with about maxBytes of payload, and so that at most
// window are unsettled. It waits for the first. It returns errDone when everything is done, and errFinal when only
// settling is left. It returns errNudged after nudge, and the cause of ctx when ctx is done.
func (b *buffer) take(ctx context.Context, out []Record, max, maxBytes, window int) ([]Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	available := func() bool { return b.next < b.sent.len() || b.queue.len() > 0 && b.sent.len() < window }
	if !b.wait(ctx, &b.work, func() bool { return b.nudged || available() || b.closed && b.queue.len() == 0 }) {
		return out, context.Cause(ctx)
	}
	if b.nudged {
		b.nudged = false
		return out, errNudged
	}
	if !available() {
		if b.sent.len() > 0 {
			return out, errFinal
		}
		return out, errDone
	}
	for bytes := 0; len(out) < max && bytes < maxBytes && available(); b.next++ {
		if b.next == b.sent.len() {
			b.sent.push(b.queue.pop())
		}
		r := b.sent.at(b.next).Record
		bytes += len(r.Payload)
		b.handed += len(r.Payload)
		out = append(out, r)
	}
	return out, nil
}

// hasQueued reports whether take returns without waiting, if the sink's window is the whole buffer.
func (b *buffer) hasQueued() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next < b.sent.len() || b.queue.len() > 0
}

// await waits until there is something to hand out. It returns errDone if there never
// will be, and the cause of ctx when ctx is done.
func (b *buffer) await(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	empty := func() bool { return b.sent.len()+b.queue.len() == 0 }
	if !b.wait(ctx, &b.work, func() bool { return b.closed || !empty() }) {
		return context.Cause(ctx)
	}
	if empty() {
		return errDone
	}
	return nil
}

// flushed waits until everything handed out has been settled.
func (b *buffer) flushed(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.wait(ctx, &b.work, func() bool { return b.sent.len() == 0 }) {
		return context.Cause(ctx)
	}
	return nil
}

// settle records that the sink has every record up to seq for good.
func (b *buffer) settle(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = max(b.floor, seq)
	for b.sent.len() > 0 && b.sent.at(0).Seq <= seq {
		e := b.sent.pop()
		b.remove(e)
		if b.next > 0 {
			b.next--
			b.handed -= len(e.Payload)
		}
	}
	// The sink has records of an earlier run that were read again.
	for b.sent.len() == 0 && b.queue.len() > 0 && b.queue.at(0).Seq <= seq {
		b.remove(b.queue.pop())
	}
	b.room.Broadcast()
	b.work.Broadcast()
	b.done.Broadcast()
}

func (b *buffer) remove(e entry) {
	b.bytes -= len(e.Payload)
	b.settled(e)
}

// rewind makes take hand out all unsettled records again.
func (b *buffer) rewind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next, b.handed = 0, 0
	b.work.Broadcast()
}

// nudge makes take return, now or the next time.
func (b *buffer) nudge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nudged = true
	b.work.Broadcast()
}

// close records that nothing more will be pushed.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.work.Broadcast()
}

// unsettled returns the number of records handed out since the last rewind and not settled, and the highest record
// number.
func (b *buffer) unsettled() (n int, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next, b.seq
}

// manyUnsettled reports whether the handed-out and unsettled records take half of the
// buffer, or are as many as most.
func (b *buffer) manyUnsettled(most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return 2*b.next >= b.limit.Records || 2*b.handed >= b.limit.Bytes || b.next >= most
}

// settledThrough returns the number up to which all records are delivered or dropped, and the source's next position.
func (b *buffer) settledThrough() (uint64, position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.through, b.pos
}

// resumeAt sets the position at which the source continues, if it is not the one after its
// latest record. This position is reached when all records are settled.
func (b *buffer) resumeAt(pos position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.queue.last(); last != nil {
		last.pos = pos
	} else if last := b.sent.last(); last != nil {
		last.pos = pos
	} else {
		b.pos = pos
	}
}

// wait waits on cond, with mu held, until the condition is true or ctx is done. It
// reports whether the condition is true.
func (b *buffer) wait(ctx context.Context, cond *sync.Cond, holds func() bool) bool {
	if holds() {
		return true
	}
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		cond.Broadcast()
	})
	defer stop()
	for !holds() {
		if ctx.Err() != nil {
			return false
		}
		cond.Wait()
	}
	return true
}

// A queue is a first-in-first-out list of entries.
type queue struct {
	entries []entry
	first   int
}

func (q *queue) len() int        { return len(q.entries) - q.first }
func (q *queue) at(i int) *entry { return &q.entries[q.first+i] }
func (q *queue) push(e entry)    { q.entries = append(q.entries, e) }

func (q *queue) last() *entry {
	if q.len() == 0 {
		return nil
	}
	return &q.entries[len(q.entries)-1]
}

func (q *queue) pop() entry {
	e := q.entries[q.first]
	q.entries[q.first] = entry{} // frees the payload
	q.first++
	if q.first*2 >= len(q.entries) { // rarely enough that the cost per entry is constant
		n := copy(q.entries, q.entries[q.first:])
		clear(q.entries[n:])
		q.entries, q.first = q.entries[:n], 0
	}
	return e
}

// handedOut reports whether seq is settled or has been handed out since the last rewind.
// A sink cannot have any other record.
func (b *buffer) handedOut(seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return seq <= max(b.floor, b.through) || b.next > 0 && seq <= b.sent.at(b.next-1).Seq
}
