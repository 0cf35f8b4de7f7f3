package upstream

import (
	"time"

	"dyno/services/bot/breaker"
	"dyno/services/bot/budget"
)

// A Tenant is one of those who ask, such as an API key, with its part of what all share: half of an upstream's places at
// most, if there are other tenants, and retries of its own. What fails of its requests has an upstream cool down for it
// alone, until the same happens to another. nil is nobody whose part is bounded. It may be used by any goroutine.
type Tenant struct {
	answers   *budget.Tenant
	retries   *retryBudget
	alone     bool // there is no other: it has all that there is
	standings []standing
}

// A standing is what one upstream is to a tenant.
type standing struct {
	places  budget.Tenant
	breaker breaker.Breaker
}

// NewTenant returns a tenant. Answers is who holds what comes of its answers, as of Ask; nil is nobody whose part is
// bounded.
func (p *Pool) NewTenant(answers *budget.Tenant) *Tenant {
	t := &Tenant{answers: answers, retries: p.newRetryBudget(), alone: p.cfg.Tenants <= 1, standings: make([]standing, len(p.targets))}
	for i := range t.standings {
		t.standings[i].breaker.Init(p.cfg.Failures, p.cfg.Cooldown, p.cfg.MaxCooldown)
	}
	return t
}

// at is what an upstream is to a tenant: whose place it takes, and the tenant's breaker, nil if the one for all is enough.
func (t *Tenant) at(index int) (*budget.Tenant, *breaker.Breaker) {
	switch {
	case t == nil:
		return nil, nil
	case t.alone:
		return &t.standings[index].places, nil
	}
	return &t.standings[index].places, &t.standings[index].breaker
}

// A slot is what a call takes of an upstream: a place, and perhaps the decision whether it is well again.
type slot struct {
	target          *target
	place           budget.Grant
	own             *breaker.Breaker // the tenant's; nil if the one for all is enough
	probe, ownProbe bool
}

// ready tells whether the upstream may be asked, and if not, when.
func (s *slot) ready(now time.Time) (bool, time.Time) {
	if s.own == nil || s.own.Closed() {
		return s.target.breaker.Ready(now)
	}
	if ready, when := s.own.Ready(now); !ready {
		return false, when
	}
	return s.target.breaker.Cooled(now)
}

// begin takes the upstream for a request; false if others came first. Where it decides for its tenant it does not for all:
// others need not wait for a request that failed before.
func (s *slot) begin(now time.Time) (ok bool) {
	if s.own != nil {
		if s.ownProbe, ok = s.own.Begin(now); !ok {
			return false
		}
		if s.ownProbe {
			if ok, _ = s.target.breaker.Cooled(now); !ok {
				s.own.Cancel(true)
			}
			return ok
		}
	}
	s.probe, ok = s.target.breaker.Begin(now)
	return ok
}

// good counts an answer.
func (s *slot) good() {
	s.target.breaker.Succeed(s.probe || s.ownProbe)
	if s.own != nil {
		s.own.Succeed(s.ownProbe)
	}
}

// nothing takes back a request that says nothing about the upstream.
func (s *slot) nothing() {
	s.target.breaker.Cancel(s.probe)
	if s.own != nil {
		s.own.Cancel(s.ownProbe)
	}
}

// failed counts a failure. It tells whether the upstream cools down from now on, for its tenant or for all. A tenant's
// failures count for all until the upstream cools down for it: they are too few to have it do so for others.
func (s *slot) failed(now time.Time, after time.Duration) (own, all bool) {
	everybody := &s.target.breaker
	switch {
	case s.own == nil:
		return false, everybody.Fail(s.probe, now, after)
	case s.own.Fail(s.ownProbe, now, after):
		return true, everybody.FailFor(s.own, s.probe, now, after)
	case !s.own.Closed():
		everybody.Cancel(s.probe)
		return false, false
	}
	return false, everybody.Fail(s.probe, now, 0)
}
