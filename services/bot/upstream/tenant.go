package upstream

import (
	"sync"
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
	models  sync.Map // of *breaker.Breaker, by the upstream's own names: of those that the tenant has asked for
}

// model is the breaker of one model.
func (s *standing) model(name string, init func(*breaker.Breaker)) *breaker.Breaker {
	if b, ok := s.models.Load(name); ok {
		return b.(*breaker.Breaker)
	}
	own := &breaker.Breaker{}
	init(own)
	b, _ := s.models.LoadOrStore(name, own)
	return b.(*breaker.Breaker)
}

// NewTenant returns a tenant. Answers is who holds what comes of its answers, as of Ask; nil is nobody whose part is
// bounded.
func (p *Pool) NewTenant(answers *budget.Tenant) *Tenant {
	t := &Tenant{answers: answers, retries: p.newRetryBudget(), alone: p.cfg.Tenants <= 1, standings: make([]standing, len(p.targets))}
	for i := range t.standings {
		p.initBreaker(&t.standings[i].breaker)
	}
	return t
}

func (p *Pool) initBreaker(b *breaker.Breaker) {
	b.Init(p.cfg.Failures, p.cfg.Cooldown, p.cfg.MaxCooldown)
}

// A gate decides whether an upstream is asked, or one of its models: for all tenants, and for one.
type gate struct {
	all, own        *breaker.Breaker // own is nil if the one for all is enough
	probe, ownProbe bool
}

// ready tells whether it is open, and if not, when it will be.
func (g *gate) ready(now time.Time) (bool, time.Time) {
	if g.own == nil || g.own.Closed() {
		return g.all.Ready(now)
	}
	if ready, when := g.own.Ready(now); !ready {
		return false, when
	}
	return g.all.Cooled(now)
}

// begin lets a request pass; false if others came first. Where it decides for its tenant it does not for all: others need
// not wait for a request that failed before.
func (g *gate) begin(now time.Time) (ok bool) {
	if g.own != nil {
		if g.ownProbe, ok = g.own.Begin(now); !ok {
			return false
		}
		if g.ownProbe {
			if ok, _ = g.all.Cooled(now); !ok {
				g.own.Cancel(true)
			}
			return ok
		}
	}
	g.probe, ok = g.all.Begin(now)
	return ok
}

// good counts an answer.
func (g *gate) good() {
	g.all.Succeed(g.probe || g.ownProbe)
	if g.own != nil {
		g.own.Succeed(g.ownProbe)
	}
	g.probe, g.ownProbe = false, false
}

// nothing takes back a request that says nothing.
func (g *gate) nothing() {
	g.all.Cancel(g.probe)
	if g.own != nil {
		g.own.Cancel(g.ownProbe)
	}
}

// failed counts a failure. It tells whether the gate closes from now on, for its tenant or for all. A tenant's failures
// count for all until the gate closes for it: they are too few to have it do so for others.
func (g *gate) failed(now time.Time, after time.Duration) (own, all bool) {
	switch {
	case g.own == nil:
		return false, g.all.Fail(g.probe, now, after)
	case g.own.Fail(g.ownProbe, now, after):
		return true, g.all.FailFor(g.own, g.probe, now, after)
	case !g.own.Closed():
		g.all.Cancel(g.probe)
		return false, false
	}
	return false, g.all.Fail(g.probe, now, 0)
}

// A slot is what a call takes of an upstream: a place, and perhaps the decision whether it is well again. Limits and names
// are of single models: what fails closes the gate of the model, and that of the server only if no model could be asked.
type slot struct {
	target        *target
	place         budget.Grant
	server, model gate
}

// slot is what a tenant's call for a model would take of an upstream; nothing is taken yet.
func (p *Pool) slot(t *target, of *Tenant, model string) slot {
	name := t.Models[model]
	s := slot{target: t, server: gate{all: &t.breaker}, model: gate{all: t.models[name]}}
	var holder *budget.Tenant
	if of != nil {
		standing := &of.standings[t.index]
		if holder = &standing.places; !of.alone {
			s.server.own, s.model.own = &standing.breaker, standing.model(name, p.initBreaker)
		}
	}
	s.place = t.places.Grant(holder)
	return s
}

// ready tells whether the upstream may be asked, and if not, when.
func (s *slot) ready(now time.Time) (bool, time.Time) {
	server, first := s.server.ready(now)
	model, second := s.model.ready(now)
	if first.Before(second) {
		first = second
	}
	return server && model, first
}

// begin takes the upstream for a request; false if others came first.
func (s *slot) begin(now time.Time) bool {
	if !s.server.begin(now) {
		return false
	}
	if !s.model.begin(now) {
		s.server.nothing()
		return false
	}
	return true
}

// decides tells whether others wait for the call.
func (s *slot) decides() bool {
	return s.server.probe || s.server.ownProbe || s.model.probe || s.model.ownProbe
}

// good counts an answer.
func (s *slot) good() {
	s.server.good()
	s.model.good()
}

// nothing takes back a request that says nothing about the upstream.
func (s *slot) nothing() {
	s.server.nothing()
	s.model.nothing()
}

// failed counts a failure, as a gate does.
func (s *slot) failed(now time.Time, e *Error) (own, all bool) {
	switch {
	case e.server:
		s.model.nothing()
		return s.server.failed(now, e.RetryAfter)
	case e.answered:
		s.server.good()
	default:
		s.server.nothing()
	}
	return s.model.failed(now, e.RetryAfter)
}
