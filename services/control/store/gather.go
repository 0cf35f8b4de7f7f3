package store

import (
	"fmt"
	"slices"
	"time"
)

// Each group costs etcd an entry of its log, a write to the disk and a key, whatever is in it:
// as much as some four changes. So groups wait for more changes while many are made, as
// PostgreSQL's commit_delay and commit_siblings have its commits wait, and do not otherwise.
const (
	// minBatch is how many changes are expected if many are made.
	minBatch = 4
	// maxDelay is how long the first change of a group waits for others at most, and idleGap
	// after how long without another one, or an answer, nobody is expected.
	maxDelay = 3 * time.Millisecond
	idleGap  = 500 * time.Microsecond
	// pipelineThreshold is how many changes go to etcd while another group is in flight. A full group
	// goes too, and so do fewer changes once the other has taken stallAfter: it may hang.
	pipelineThreshold = 64
	stallAfter        = 50 * time.Millisecond
)

// A gathering decides when what waits becomes a group.
type gathering struct {
	maxInflight int // groups that may be in flight at a time
	most        capacity

	underway []time.Duration // when groups that are on their way began
	before   int             // changes of the group before
	// When a group last came back, and how many waited then.
	back   time.Duration
	queued int
}

// due returns whether a group begins now of those who wait, in the order in which they came.
// If it does not, wait is after how long it has to be asked again if nothing else happens; 0 is
// never. now is by the clock of pending.at.
func (g *gathering) due(now time.Duration, waiting []*pending) (begin bool, wait time.Duration) {
	if len(waiting) == 0 || len(g.underway) == g.maxInflight {
		return false, 0
	}
	if len(waiting) >= pipelineThreshold || loadOf(waiting).fills(g.most) {
		return true, 0
	}
	if len(g.underway) > 0 {
		if wait = slices.Max(g.underway) + stallAfter - now; wait > 0 {
			return false, wait
		}
	}
	first, last := waiting[0].at, waiting[len(waiting)-1].at
	// Those who wait for answers before they make the next change are all there then: more
	// come where changes are made without waiting.
	expected := g.before + g.queued
	if len(waiting) >= expected || expected < minBatch || first > g.back+maxDelay {
		return true, 0
	}
	wait = min(first+maxDelay, max(last, g.back)+idleGap) - now
	return wait <= 0, max(0, wait)
}

// began notes a group and the number of its changes. ended notes that a group came back which began
// then. The caller sets queued after that.
func (g *gathering) began(now time.Duration, changes int) {
	g.underway = append(g.underway, now)
	g.before = changes
}

func (g *gathering) ended(began, now time.Duration) {
	i := slices.Index(g.underway, began)
	g.underway = slices.Delete(g.underway, i, i+1)
	g.back = now
}

// gather makes groups of what comes and has them carried out, until the queue is closed and
// nothing waits. What waits here is a group's at most: the rest stays in the queue, which is bounded.
func (s *Store) gather() {
	var (
		g       = gathering{maxInflight: s.cfg.MaxInflightTxns, most: s.cfg.capacity()}
		queue   = s.queue // nil once it is closed
		waiting []*pending
		ended   = make(chan time.Duration, s.cfg.MaxInflightTxns) // when each began
		timer   = time.NewTimer(0)
	)
	defer timer.Stop()
	take := func(p *pending, ok bool) {
		if !ok {
			queue = nil
			return
		}
		waiting = append(waiting, p)
	}
	room := func() bool {
		return queue != nil && len(g.underway) < g.maxInflight && len(waiting) < g.most.requests
	}
	takeAll := func() {
		for room() {
			select {
			case p, ok := <-queue:
				take(p, ok)
			default:
				return
			}
		}
	}
	for queue != nil || len(waiting) > 0 || len(g.underway) > 0 {
		source := queue
		if !room() {
			source = nil
		}
		select {
		case p, ok := <-source:
			take(p, ok)
			takeAll()
		case began := <-ended:
			g.ended(began, time.Since(s.started))
			takeAll()
			g.queued = len(waiting)
		case <-timer.C:
		}
		for {
			now := time.Since(s.started)
			waiting = s.expire(waiting, now)
			begin, wait := g.due(now, waiting)
			if wait > 0 {
				timer.Reset(wait)
			}
			if !begin {
				break
			}
			var group []*pending
			group, waiting = pick(waiting, g.most)
			g.began(now, len(group))
			s.inflight.Go(func() {
				s.commit(group)
				ended <- now
			})
		}
	}
}

// expire answers those that have waited for Timeout already, as long as a group in flight is
// retried: etcd is away. They are in the order in which they came.
func (s *Store) expire(waiting []*pending, now time.Duration) []*pending {
	for len(waiting) > 0 && now-waiting[0].at > s.cfg.Timeout {
		waiting[0].done <- result{err: fmt.Errorf("%w: the change waited for %v behind others", ErrUnavailable, s.cfg.Timeout)}
		waiting = waiting[1:]
	}
	return waiting
}
