package resource

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"dyno/internal/fields"
)

// LivenessConfig says when silence is taken for an end. Start from DefaultLiveness.
type LivenessConfig struct {
	// Grace lets the end of many show as one before the first of them is taken for gone.
	Grace time.Duration `yaml:"grace" range:"0..24h" default:"5s" doc:"how long an instance that is overdue is kept"`
	// Threshold is the share of instances, overdue or taken for gone within Window, above
	// which the fault is looked for here: a cut network, an overloaded replica. Then nobody
	// is taken for gone for up to ProtectFor. Fewer than MinSilent are never such a share.
	Threshold  float64 `yaml:"self_preservation_threshold" range:"0..1" default:"0.15" doc:"if a larger share is silent, the fault is looked for here, and none is removed"`
	MinSilent  int
	Window     time.Duration
	ProtectFor time.Duration `yaml:"protect_for" range:"0..8760h" default:"10m" doc:"for how long none is removed then"`
	// StallThreshold is the longest time between two looks that is none: after more, as after a
	// stopped process or an outage of the store, everybody has RecoveryGrace to be heard
	// again.
	StallThreshold time.Duration
	RecoveryGrace  time.Duration `yaml:"recovery_grace" range:"0..24h" default:"30s" doc:"how long instances have to be heard again after an outage"`
}

// DefaultLiveness returns what holds unless something else is configured.
func DefaultLiveness() LivenessConfig {
	c := fields.Default[LivenessConfig]()
	c.MinSilent, c.Window, c.StallThreshold = 3, time.Minute, 5*time.Second
	return c
}

// Liveness knows since when instances are silent, and decides which are gone. Times are
// durations since any moment, by a clock that does not jump. It is for one goroutine at
// a time.
type Liveness struct {
	cfg     LivenessConfig
	members map[string]*member
	due     dueHeap
	overdue map[string]*member
	gone    []time.Duration // when instances were taken for gone, within Window

	last      time.Duration // look
	looked    bool
	protected bool
	since     time.Duration // of the protection
}

// A member is one instance. It is in the heap by a deadline that may have been moved on
// since, or else overdue.
type member struct {
	id       string
	ttl      time.Duration
	heard    time.Duration
	deadline time.Duration
	place    time.Duration // the deadline that it is in the heap by
	late     bool
	index    int // in the heap
}

// NewLiveness returns one that knows nobody.
func NewLiveness(cfg LivenessConfig) *Liveness {
	return &Liveness{cfg: cfg, members: map[string]*member{}, overdue: map[string]*member{}}
}

// Beat notes that an instance was heard, or is new. It does not allocate for one that
// is known.
func (l *Liveness) Beat(id string, ttl, now time.Duration) {
	m := l.members[id]
	if m == nil {
		m = &member{id: id, heard: now}
		l.members[id] = m
		m.ttl, m.deadline = ttl, now+ttl
		l.push(m)
		return
	}
	sooner := now+ttl < m.place
	m.ttl, m.heard, m.deadline = ttl, now, now+ttl
	switch {
	case m.late:
		m.late = false
		delete(l.overdue, id)
		l.push(m)
	case sooner: // its ttl has become shorter
		m.place = m.deadline
		heap.Fix(&l.due, m.index)
	}
}

func (l *Liveness) push(m *member) {
	m.place = m.deadline
	heap.Push(&l.due, m)
}

// Knows tells whether an instance is known here.
func (l *Liveness) Knows(id string) bool { return l.members[id] != nil }

// Silence is for how long an instance has not been heard; ok is false of one that is not
// known here.
func (l *Liveness) Silence(id string, now time.Duration) (silence time.Duration, ok bool) {
	m := l.members[id]
	if m == nil {
		return 0, false
	}
	return now - m.heard, true
}

// Forget takes an instance off, as when it said goodbye.
func (l *Liveness) Forget(id string) {
	m := l.members[id]
	if m == nil {
		return
	}
	delete(l.members, id)
	delete(l.overdue, id)
	if !m.late {
		heap.Remove(&l.due, m.index)
	}
}

// Return gives everybody time to be heard again: until now and RecoveryGrace, nobody is
// overdue.
func (l *Liveness) Return(now time.Duration) {
	until := now + l.cfg.RecoveryGrace
	for id, m := range l.overdue {
		m.late = false
		m.deadline = max(m.deadline, until)
		delete(l.overdue, id)
		l.push(m)
	}
	for _, m := range l.members {
		m.deadline = max(m.deadline, until) // the heap finds out when it comes to them
	}
	l.protected = false
}

// Look returns who is gone, and forgets them. It is to be called regularly, every second
// or so.
func (l *Liveness) Look(now time.Duration) (gone []string) {
	if l.looked && now-l.last > l.cfg.StallThreshold {
		l.Return(now)
	}
	l.last, l.looked = now, true
	for len(l.due) > 0 && l.due[0].place <= now {
		m := l.due[0]
		if m.deadline > now {
			m.place = m.deadline
			heap.Fix(&l.due, 0)
			continue
		}
		heap.Pop(&l.due)
		m.late = true
		l.overdue[m.id] = m
	}
	for len(l.gone) > 0 && l.gone[0] <= now-l.cfg.Window {
		l.gone = l.gone[1:]
	}
	if l.protect(now) {
		return nil
	}
	for id, m := range l.overdue {
		if now-m.deadline < l.cfg.Grace {
			continue
		}
		gone = append(gone, id)
		delete(l.overdue, id)
		delete(l.members, id)
		l.gone = append(l.gone, now)
	}
	return gone
}

// protect tells whether enough are silent to suspect a fault on this side.
func (l *Liveness) protect(now time.Duration) bool {
	silent := len(l.overdue) + len(l.gone)
	all := len(l.members) + len(l.gone)
	if silent < l.cfg.MinSilent || len(l.overdue) == 0 || float64(silent) <= l.cfg.Threshold*float64(all) {
		l.protected = false
		return false
	}
	if !l.protected {
		l.protected, l.since = true, now
	}
	return now-l.since < l.cfg.ProtectFor
}

// A Pulse is how things stand.
type Pulse struct {
	Known     int  `json:"known"`
	Overdue   int  `json:"overdue"`
	Protected bool `json:"protected"` // nobody is taken for gone at the moment
}

// Pulse says how things stand since the last Look.
func (l *Liveness) Pulse() Pulse { return Pulse{len(l.members), len(l.overdue), l.protected} }

// Overdue tells whether an instance is silent for longer than it said, and kept.
func (l *Liveness) Overdue(id string) bool { return l.overdue[id] != nil }

// Late returns those that are.
func (l *Liveness) Late() []string { return slices.Collect(maps.Keys(l.overdue)) }

// dueHeap has the earliest place first.
type dueHeap []*member

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].place < h[j].place }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *dueHeap) Push(x any)        { m := x.(*member); m.index = len(*h); *h = append(*h, m) }
func (h *dueHeap) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return m
}
