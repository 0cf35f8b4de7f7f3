package hub

import (
	"context"
	"slices"

	"dyno/hub/journal"
)

// An allowance is a range in which a subscriber's queue cannot be full: the queue has
// been counted, and the journal has not grown enough since. So counting costs no more
// than appending.
type allowance struct {
	head, total uint64 // of the journal
}

// newAllowance is the allowance of a subscriber whose queue is empty.
func (c Config) newAllowance(head, total uint64) allowance {
	return allowance{head + uint64(c.QueueEvents), total + uint64(c.QueueBytes)}
}

// full reports whether more entries wait for s than its queue may hold.
func (h *Hub) full(s *subscriber, a *allowance) bool {
	if h.journal.Head() <= a.head && h.journal.Total() <= a.total {
		return false
	}
	head, total := h.journal.Head(), h.journal.Total()
	var events, bytes uint64
	h.pending(s, max(s.cursor.Load(), s.backlog), head, func(e *journal.Entry) {
		events++
		bytes += uint64(len(e.Frame))
	})
	if events > uint64(h.cfg.QueueEvents) || bytes > uint64(h.cfg.QueueBytes) {
		return true
	}
	*a = allowance{head + uint64(h.cfg.QueueEvents) - events, total + uint64(h.cfg.QueueBytes) - bytes}
	return false
}

// pending calls fn with each entry for s after cursor, up to head. It reports whether the
// journal still had all of them.
func (h *Hub) pending(s *subscriber, cursor, head uint64, fn func(*journal.Entry)) (whole bool) {
	whole = true
	var batch [64]*journal.Entry
	for cursor < head {
		entries, oldest := h.journal.Since(cursor, batch[:0], len(batch))
		if oldest > cursor+1 {
			whole = false
			cursor = oldest - 1
		}
		for _, e := range entries {
			if e.Seq > head {
				return whole
			}
			cursor = e.Seq
			if s.filter.match(e) {
				fn(e)
			}
		}
		if len(entries) == 0 {
			return whole
		}
	}
	return whole
}

// endStuck ends subscribers that are in the middle of a write with a full queue. All
// others check their queues themselves.
func (h *Hub) endStuck() {
	h.mu.Lock()
	var list []*subscriber
	for _, s := range h.active {
		if phase(s.phase.Load()) == writing {
			list = append(list, s)
		}
	}
	h.mu.Unlock()
	for _, s := range list {
		if h.full(s, &s.watched) {
			s.kick(endQueueFull)
		}
	}
}

// leaveOut shortens the queue of s as the outcome says, and announces what is left out. Half of the queue is free
// afterwards: otherwise a slow subscriber would get a gap event for every event.
func (h *Hub) leaveOut(s *subscriber) error {
	start, total, head := s.cursor.Load(), h.journal.Total(), h.journal.Head()
	var queue []*journal.Entry // bounded by the journal
	whole := h.pending(s, start, head, func(e *journal.Entry) { queue = append(queue, e) })
	kept := queue
	if h.cfg.Outcome == Coalesce {
		kept = latest(queue)
	}
	kept = newest(kept, (h.cfg.QueueEvents+1)/2, (h.cfg.QueueBytes+1)/2)
	gap := journal.Gap{From: start + 1, Missed: len(queue) - len(kept)}
	if whole {
		gap.From = firstLeftOut(queue, kept)
	} else {
		gap.Missed = -1
	}
	gap.To = max(lastLeftOut(queue, kept), gap.From)
	if err := h.sendGap(s, gap); err != nil {
		return err
	}
	var bytes uint64
	for _, e := range kept {
		if err := h.event(s, e); err != nil {
			return err
		}
		bytes += uint64(len(e.Frame))
		s.moveTo(e)
	}
	h.stats.deliveries.Add(uint64(len(kept)))
	h.stats.bytes.Add(bytes)
	s.total.Store(max(total, s.total.Load()))
	s.cursor.Store(head)
	return nil
}

// latest returns the last entry of each canonical topic, in order.
func latest(queue []*journal.Entry) []*journal.Entry {
	seen := map[string]bool{}
	var kept []*journal.Entry
	for _, e := range slices.Backward(queue) {
		if topic := e.Topics[0]; !seen[topic] {
			seen[topic] = true
			kept = append(kept, e)
		}
	}
	slices.Reverse(kept)
	return kept
}

// newest returns the end of queue that is within both bounds.
func newest(queue []*journal.Entry, events int, bytes int64) []*journal.Entry {
	from := len(queue)
	for from > 0 && len(queue)-from < events {
		if bytes -= int64(len(queue[from-1].Frame)); bytes < 0 {
			break
		}
		from--
	}
	return queue[from:]
}

// firstLeftOut and lastLeftOut return the first and last sequence number of queue that is not in its part kept; 0 if
// none.
func firstLeftOut(queue, kept []*journal.Entry) uint64 {
	for i, e := range queue {
		if i >= len(kept) || kept[i] != e {
			return e.Seq
		}
	}
	return 0
}

func lastLeftOut(queue, kept []*journal.Entry) uint64 {
	for i := 1; i <= len(queue); i++ {
		if e := queue[len(queue)-i]; i > len(kept) || kept[len(kept)-i] != e {
			return e.Seq
		}
	}
	return 0
}

// awaitSubscribers waits until no subscriber's queue is full, and ends those whose queue
// is still full after BlockTimeout. Publishers that wait at the same time continue at the
// same time, so queues may hold as many more events.
func (h *Hub) awaitSubscribers(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, h.cfg.BlockTimeout)
	defer cancel()
	if err := h.awaitRoom(ctx, wait); err != nil {
		return err
	}
	return h.awaitLoop(ctx, wait)
}

// awaitRoom is awaitSubscribers for subscribers with a goroutine. wait is the rest of
// BlockTimeout. ctx is the publisher's.
func (h *Hub) awaitRoom(ctx, wait context.Context) error {
	h.held.Add(1)
	defer h.held.Add(-1)
	for {
		advanced, departed := h.advanced.wait(), h.departed.wait()
		behind := h.behind()
		if len(behind) == 0 {
			return nil
		}
		select {
		case <-advanced:
			continue
		case <-departed:
			continue
		case <-wait.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, s := range behind {
			s.kick(endQueueFull)
		}
		return nil
	}
}

// behind returns the subscribers whose queue has no room for one more event.
func (h *Hub) behind() (list []*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, total := h.journal.Head(), h.journal.Total()
	for _, s := range h.active {
		// This is not exact, and need not be: it also counts events for other
		// subscribers.
		if head-min(head, max(s.cursor.Load(), s.backlog)) >= uint64(h.cfg.QueueEvents) ||
			total-min(total, max(s.total.Load(), s.backlogTotal)) >= uint64(h.cfg.QueueBytes) {
			list = append(list, s)
		}
	}
	return list
}
