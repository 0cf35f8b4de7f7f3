package upstream

import (
	"time"

	"dyno/services/bot/ration"
)

// A Tenant is one of those who ask, such as an API key, with its part of what all share: half of an upstream's places at
// most, if there are other tenants, and retries of its own. What fails of its requests has an upstream cool down for it
// alone, until the same happens to another. nil is nobody whose part is bounded. It may be used by any goroutine.
type Tenant struct {
	answers   *ration.Holder
	budget    *budget
	alone     bool // there is no other: it is not told apart from all
	standings []standing
}

// A standing is what one upstream is to a tenant.
type standing struct {
	places ration.Holder
	health health
}

// NewTenant returns a tenant. Answers is who holds what comes of its answers, as of Ask; nil is nobody whose part is
// bounded.
func (p *Pool) NewTenant(answers *ration.Holder) *Tenant {
	t := &Tenant{answers: answers, budget: p.newBudget(), alone: p.cfg.Tenants <= 1, standings: make([]standing, len(p.targets))}
	for i := range t.standings {
		t.standings[i].health.set(p.cfg)
	}
	return t
}

// at is what an upstream is to a tenant: whose place it takes, and its health, nil if that is not told apart from that
// for all.
func (t *Tenant) at(index int) (*ration.Holder, *health) {
	switch {
	case t == nil:
		return nil, nil
	case t.alone:
		return &t.standings[index].places, nil
	}
	return &t.standings[index].places, &t.standings[index].health
}

// A slot is what a call takes of an upstream: a place, and perhaps the decision whether it is well again.
type slot struct {
	target          *target
	place           ration.Share
	own             *health // the upstream's for the tenant; nil if it is not told apart
	probe, ownProbe bool
}

// ready tells whether the upstream may be asked, and if not, when.
func (s *slot) ready(now time.Time) (bool, time.Time) {
	if s.own == nil || s.own.well() {
		return s.target.health.ready(now)
	}
	if ready, when := s.own.ready(now); !ready {
		return false, when
	}
	return s.target.health.over(now)
}

// begin takes the upstream for a request; false if others came first. Where it decides for its tenant it does not for all:
// others need not wait for a request that failed before.
func (s *slot) begin(now time.Time) (ok bool) {
	if s.own != nil {
		if s.ownProbe, ok = s.own.begin(now); !ok {
			return false
		}
		if s.ownProbe {
			if ok, _ = s.target.health.over(now); !ok {
				s.own.nothing(true)
			}
			return ok
		}
	}
	s.probe, ok = s.target.health.begin(now)
	return ok
}

// good counts an answer.
func (s *slot) good() {
	s.target.health.good(s.probe || s.ownProbe)
	if s.own != nil {
		s.own.good(s.ownProbe)
	}
}

// nothing takes back a request that says nothing about the upstream.
func (s *slot) nothing() {
	s.target.health.nothing(s.probe)
	if s.own != nil {
		s.own.nothing(s.ownProbe)
	}
}

// failed counts a failure. It tells whether the upstream cools down from now on, for its tenant or for all. A tenant's
// failures count for all until the upstream cools down for it: they are too few to have it do so for others.
func (s *slot) failed(now time.Time, after time.Duration) (own, all bool) {
	h := &s.target.health
	switch {
	case s.own == nil:
		return false, h.failed(s.probe, now, after)
	case s.own.failed(s.ownProbe, now, after):
		return true, h.failedFor(s.own, s.probe, now, after)
	case !s.own.well():
		h.nothing(s.probe)
		return false, false
	}
	return false, h.failed(s.probe, now, 0)
}
