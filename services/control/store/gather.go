package store

import (
	"fmt"
	"slices"
	"time"
)

// Each group costs etcd an entry of its log, a write to the disk and a key: as much as some four changes. So a group
// waits for more changes while many are made, and not otherwise. PostgreSQL delays commits by the same rule
// (commit_delay, commit_siblings).
const (
	// minBatch is the least number of expected changes for which a group waits.
	minBatch = 4
	// maxDelay bounds the wait of a group's first change for others. idleGap is the time without a change or an
	// answer after which no more changes are expected.
	maxDelay = 3 * time.Millisecond
	idleGap  = 500 * time.Microsecond
	// pipelineThreshold is the least number of changes that go to etcd while another group is in flight. A full group
	// goes too. Fewer changes go once the other group has taken stallAfter: it may hang.
	pipelineThreshold = 64
	stallAfter        = 50 * time.Millisecond
)

// A gathering decides when waiting requests become a group.
type gathering struct {
	maxInflight int // bound on groups in flight
	most        capacity

	underway []time.Duration // start times of groups in flight
	before   int             // changes of the previous group
	// When a group last ended, and how many requests waited then.
	back   time.Duration
	queued int
}

// due reports whether the waiting requests, in the order of arrival, become a group now. If not, ask again after
// wait, or at the next event; 0 is only at the next event. now and pending.at have one clock.
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
	// Clients that wait for each answer have all sent their next change then; more come from clients that do not
	// wait.
	expected := g.before + g.queued
	if len(waiting) >= expected || expected < minBatch || first > g.back+maxDelay {
		return true, 0
	}
	wait = min(first+maxDelay, max(last, g.back)+idleGap) - now
	return wait <= 0, max(0, wait)
}

// began notes the start of a group and the number of its changes. ended notes the end of a group with that start. The
// caller sets queued after that.
func (g *gathering) began(now time.Duration, changes int) {
	g.underway = append(g.underway, now)
	g.before = changes
}

func (g *gathering) ended(began, now time.Duration) {
	i := slices.Index(g.underway, began)
	g.underway = slices.Delete(g.underway, i, i+1)
	g.back = now
}

// gather makes groups of requests and carries them out, until the queue is closed and nothing waits. At most one
// group's requests wait here; the rest stays in the queue, which is bounded.
func (s *Store) gather() {
	var (
		g       = gathering{maxInflight: s.cfg.MaxInflightTxns, most: s.cfg.capacity()}
		queue   = s.queue // nil once it is closed
		waiting []*pending
		ended   = make(chan time.Duration, s.cfg.MaxInflightTxns) // the start of each
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

// expire fails requests that have waited for Timeout, while a group in flight is retried: etcd is away. They are in
// the order of arrival.
func (s *Store) expire(waiting []*pending, now time.Duration) []*pending {
	for len(waiting) > 0 && now-waiting[0].at > s.cfg.Timeout {
		waiting[0].done <- result{err: fmt.Errorf("%w: the change waited for %v in the queue", ErrUnavailable, s.cfg.Timeout)}
		waiting = waiting[1:]
	}
	return waiting
}
