package store

import "time"

// Each group costs etcd an entry of its log, a write to the disk and a key, whatever is in it:
// as much as some four changes. So groups wait for more changes while many are made, as
// PostgreSQL's commit_delay and commit_siblings have its commits wait, and do not otherwise.
const (
	// siblings is how many changes are expected if many are made.
	siblings = 4
	// linger is how long the first change of a group waits for others at most, and lull
	// after how long without another one, or an answer, nobody is expected.
	linger = 3 * time.Millisecond
	lull   = 500 * time.Microsecond
	// crowd is how many changes go to etcd beside a group that is on its way, or as many as a
	// group may have; fewer go if they have waited for patience, as that group may hang.
	crowd    = 64
	patience = 50 * time.Millisecond
)

// A gathering decides when what waits becomes a group.
type gathering struct {
	lanes  int // groups that may be on their way at a time
	full   int // so many changes do not wait for others
	before int // changes of the group before
	// When a group last came back, and how many waited then.
	back   time.Duration
	beside int
}

// due returns whether a group begins now of those who wait, in the order in which they came; if it
// does not, but will without another change or answer, wait is how long until then, and 0
// otherwise. now is since when pending.at is.
func (g *gathering) due(now time.Duration, waiting []*pending, underway int) (begin bool, wait time.Duration) {
	if len(waiting) == 0 || underway == g.lanes {
		return false, 0
	}
	first, last := waiting[0].at, waiting[len(waiting)-1].at
	// Those who wait for answers before they make the next change are all there then: more
	// come where changes are made without waiting.
	expected := g.before + g.beside
	switch {
	case len(waiting) >= g.full:
		return true, 0
	case underway > 0:
		wait = first + patience - now
	case len(waiting) >= expected || expected < siblings:
		return true, 0
	default:
		wait = min(first+linger, max(last, g.back)+lull) - now
	}
	return wait <= 0, max(0, wait)
}

// gather makes groups of what comes and has them carried out, until the queue is closed and
// nothing waits. What waits is a group's at most: the rest stays in the queue, which is bounded.
func (s *Store) gather() {
	var (
		requests = min(s.cfg.GroupRequests, s.cfg.maxOps()/2)
		g        = gathering{lanes: s.cfg.Lanes, full: min(crowd, requests)}
		queue    = s.queue // nil once it is closed
		waiting  []*pending
		underway int
		ended    = make(chan struct{}, s.cfg.Lanes)
		timer    = time.NewTimer(0)
	)
	defer timer.Stop()
	take := func(p *pending, ok bool) {
		if !ok {
			queue = nil
			return
		}
		waiting = append(waiting, p)
	}
	room := func() bool { return queue != nil && underway < g.lanes && len(waiting) < requests }
	for queue != nil || len(waiting) > 0 || underway > 0 {
		source := queue
		if !room() {
			source = nil
		}
		back := false
		select {
		case p, ok := <-source:
			take(p, ok)
		case <-ended:
			underway--
			back = true
		case <-timer.C:
		}
		for more := true; more && room(); {
			select {
			case p, ok := <-queue:
				take(p, ok)
			default:
				more = false
			}
		}
		if back {
			g.back, g.beside = time.Since(s.started), len(waiting)
		}
		for {
			begin, wait := g.due(time.Since(s.started), waiting, underway)
			if wait > 0 {
				timer.Reset(wait)
			}
			if !begin {
				break
			}
			var group []*pending
			group, waiting = pick(waiting, requests, s.cfg.GroupBytes)
			g.before = len(group)
			underway++
			s.lanes.Go(func() {
				s.commit(group)
				ended <- struct{}{}
			})
		}
	}
}
