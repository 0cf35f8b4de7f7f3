package hub

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// A Client is a subscriber as an entry of the list of slow clients.
type Client struct {
	ID      uint64    `json:"id"`
	Address string    `json:"address"`
	Topics  []string  `json:"topics"`
	Since   time.Time `json:"since"`
	// LagEvents and LagBytes (of frames) count published events that the subscriber has not got yet. Without the
	// event loop they include updates that are not for this subscriber.
	LagEvents uint64 `json:"lag_events"`
	LagBytes  uint64 `json:"lag_bytes"`
	Writing   bool   `json:"writing"` // an event is being written to its connection
}

// Clients returns up to limit subscribers, those furthest behind first, and the number of
// all subscribers.
func (h *Hub) Clients(limit int) (list []Client, all int) {
	h.mu.Lock()
	active := make([]*subscriber, 0, len(h.active))
	for _, s := range h.active {
		active = append(active, s)
	}
	h.mu.Unlock()
	head, total := h.journal.Head(), h.journal.Total()
	type lagging struct {
		*subscriber
		events, bytes uint64
	}
	rows := make([]lagging, len(active))
	for i, s := range active {
		rows[i] = lagging{s, head - min(head, s.cursor.Load()), total - min(total, s.total.Load())}
	}
	slices.SortFunc(rows, func(a, b lagging) int {
		return cmp.Or(cmp.Compare(b.events, a.events), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.id, b.id))
	})
	rows = rows[:min(limit, len(rows))]
	list = make([]Client, len(rows))
	for i, r := range rows {
		list[i] = Client{
			ID: r.id, Address: r.address, Topics: texts(r.filter.wanted), Since: r.since,
			LagEvents: r.events, LagBytes: r.bytes, Writing: phase(r.phase.Load()) == writing,
		}
	}
	if h.loop == nil {
		return list, len(active)
	}
	looped, err := h.loop.Clients(context.Background(), limit)
	if err != nil {
		return list, len(active) // the hub is closed and has no subscribers any more
	}
	for _, c := range looped {
		s := c.Owner.(*registration)
		list = append(list, Client{
			ID: s.id, Address: s.address, Topics: texts(s.filter.wanted), Since: s.since,
			LagEvents: uint64(c.LagEvents), LagBytes: uint64(c.LagBytes), Writing: c.Late,
		})
	}
	slices.SortStableFunc(list, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.LagEvents, a.LagEvents), cmp.Compare(b.LagBytes, a.LagBytes))
	})
	return list[:min(limit, len(list))], len(active) + int(h.stats.looped.Load())
}
