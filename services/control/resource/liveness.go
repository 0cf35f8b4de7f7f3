package resource

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"dyno/internal/fields"
)

// LivenessConfig says after which silence an instance is gone. Start from DefaultLiveness.
type LivenessConfig struct {
	// Grace delays removals, so that the end of many instances is seen before the first of them is removed.
	Grace time.Duration `yaml:"grace" range:"0..24h" default:"5s" doc:"how long an instance that is overdue is kept"`
	// Threshold is a share of instances, overdue or removed within Window. Above it, the fault is assumed to be here:
	// a cut network, or an overloaded replica. Then no instance is gone for up to ProtectFor. Fewer than MinSilent
	// are never such a share.
	Threshold  float64 `yaml:"self_preservation_threshold" range:"0..1" default:"0.15" doc:"if a larger share is silent, the fault is looked for here, and none is removed"`
	MinSilent  int
	Window     time.Duration
	ProtectFor time.Duration `yaml:"protect_for" range:"0..8760h" default:"10m" doc:"for how long none is removed then"`
	// StallThreshold is the longest time between two looks without an outage. A longer one means that the process was
	// stopped or the store was away. Then no instance becomes overdue or is removed for RecoveryGrace.
	StallThreshold time.Duration
	RecoveryGrace  time.Duration `yaml:"recovery_grace" range:"0..24h" default:"30s" doc:"how long instances have to be heard again after an outage"`
}

// DefaultLiveness returns the default configuration.
func DefaultLiveness() LivenessConfig {
	c := fields.Default[LivenessConfig]()
	c.MinSilent, c.Window, c.StallThreshold = 3, time.Minute, 5*time.Second
	return c
}

// Liveness records since when instances are silent, and decides which are gone. An instance is healthy, then overdue,
// then gone. An overdue one stays overdue until it is heard or forgotten: only a heartbeat makes it healthy. Times
// are durations since any moment, by a monotonic clock. It is for one goroutine at a time.
type Liveness struct {
	cfg     LivenessConfig
	members map[string]*member
	due     dueHeap
	overdue map[string]*member
	gone    []time.Duration // when expired instances were forgotten, within Window

	kept      time.Duration // until then, nothing is gone that was not heard since
	since     time.Duration // the end of an outage
	last      time.Duration // look
	looked    bool
	suspected time.Duration // since when more than Threshold are silent; negative: not silent
	protected bool          // they are silent, but not yet for ProtectFor
}

// A member is one instance. It is either overdue, or in the heap by a deadline, which may have moved since.
type member struct {
	id       string
	ttl      time.Duration
	heard    time.Duration
	deadline time.Duration
	place    time.Duration // its deadline in the heap
	late     bool
	gone     bool // overdue, and to be removed
	index    int  // in the heap
}

// NewLiveness returns a Liveness without instances.
func NewLiveness(cfg LivenessConfig) *Liveness {
	return &Liveness{cfg: cfg, members: map[string]*member{}, overdue: map[string]*member{}, suspected: -1, since: -1}
}

// Beat notes that an instance was heard at a time, or is new. It does not allocate for a known instance. Heartbeats
// may arrive late: one before the latest has no effect.
func (l *Liveness) Beat(id string, ttl, at time.Duration) {
	m := l.members[id]
	if m == nil {
		m = &member{id: id, ttl: ttl, heard: at, deadline: at + ttl}
		l.members[id] = m
		l.push(m)
		return
	}
	if at < m.heard {
		return
	}
	sooner := at+ttl < m.place
	m.ttl, m.heard, m.deadline = ttl, at, at+ttl
	switch {
	case m.late && m.deadline <= l.last: // it became overdue by that deadline
		m.gone = false // for as long as Grace
	case m.late:
		m.late, m.gone = false, false
		delete(l.overdue, id)
		l.push(m)
	case sooner: // its ttl has become shorter
		m.place = m.deadline
		heap.Fix(&l.due, m.index)
	}
}

// Heard notes a heartbeat of an instance that is known.
func (l *Liveness) Heard(id string, at time.Duration) {
	if m := l.members[id]; m != nil {
		l.Beat(id, m.ttl, at)
	}
}

// Doubt begins to watch an instance that another replica has found to be overdue.
func (l *Liveness) Doubt(id string, ttl, now time.Duration) {
	if l.members[id] == nil {
		m := &member{id: id, ttl: ttl, heard: now - ttl, deadline: now, late: true}
		l.members[id], l.overdue[id] = m, m
	}
}

func (l *Liveness) push(m *member) {
	m.place = m.deadline
	heap.Push(&l.due, m)
}

// Knows reports whether an instance is known here.
func (l *Liveness) Knows(id string) bool { return l.members[id] != nil }

// Silence returns for how long an instance has not been heard; ok is false if it is unknown here.
func (l *Liveness) Silence(id string, now time.Duration) (silence time.Duration, ok bool) {
	m := l.members[id]
	if m == nil {
		return 0, false
	}
	return now - m.heard, true
}

// Forget removes an instance: it has deregistered, or it was gone and has been removed.
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
	if m.gone {
		l.gone = append(l.gone, l.last)
	}
}

// Return gives all instances time to be heard again. For RecoveryGrace from now, an instance must be heard before it
// can become overdue or gone.
func (l *Liveness) Return(now time.Duration) {
	l.Keep(now)
	for _, m := range l.members {
		if !m.late {
			m.deadline = max(m.deadline, l.kept) // the heap notices when it reaches them
		}
	}
	l.suspected = -1
}

// Keep prevents removals for RecoveryGrace from now, except of instances that are heard from now on: earlier
// heartbeats to other replicas may not have arrived here.
func (l *Liveness) Keep(now time.Duration) { l.since, l.kept = now, now+l.cfg.RecoveryGrace }

// Look returns the instances to remove. It returns them each time, until they are forgotten or heard: a removal may
// fail, or take long. Call it about once a second.
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
	l.protected = l.protect(now)
	for id, m := range l.overdue {
		kept := now < l.kept && m.heard <= l.since
		if m.gone = !l.protected && !kept && now-m.deadline >= l.cfg.Grace; m.gone {
			gone = append(gone, id)
		}
	}
	return gone
}

// protect reports whether enough instances are silent to suspect a fault on this side, and not yet for too long.
func (l *Liveness) protect(now time.Duration) bool {
	silent := len(l.overdue) + len(l.gone)
	all := len(l.members) + len(l.gone)
	if silent < l.cfg.MinSilent || len(l.overdue) == 0 || float64(silent) <= l.cfg.Threshold*float64(all) {
		l.suspected = -1
		return false
	}
	if l.suspected < 0 {
		l.suspected = now
	}
	return now-l.suspected < l.cfg.ProtectFor
}

// A Pulse is the state of the instances.
type Pulse struct {
	Known     int  `json:"known"`
	Overdue   int  `json:"overdue"`
	Protected bool `json:"protected"` // no instance counts as gone at the moment
}

// Pulse returns the state at the last Look.
func (l *Liveness) Pulse() Pulse { return Pulse{len(l.members), len(l.overdue), l.protected} }

// Overdue reports whether an instance is silent for longer than its TTL.
func (l *Liveness) Overdue(id string) bool { return l.overdue[id] != nil }

// Gone reports whether an instance is to be removed, by the last Look.
func (l *Liveness) Gone(id string) bool {
	m := l.overdue[id]
	return m != nil && m.gone
}

// Late returns the overdue instances.
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
