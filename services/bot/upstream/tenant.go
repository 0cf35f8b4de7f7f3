package upstream

import (
	"cmp"
	"time"

	"dyno/services/bot/breaker"
	"dyno/services/bot/budget"
)

// A Tenant is a client of a Pool, such as an API key, with its part of shared resources. With other tenants, it has
// at most half of an upstream's places. It has a retry budget of its own. Its failures make an upstream cool down
// only for it, until another tenant fails as well. A nil tenant has no bounds. It may be used by any goroutine.
type Tenant struct {
	answers   *budget.Tenant
	retries   *retryBudget
	alone     bool                    // it is the only one, and may use all places
	may       func(model string) bool // whether it may use a model in another one's place; nil is any
	standings map[*health]*standing   // by deployment
	providers map[*provider]*breaker.Breaker
}

// A standing is the state of one deployment for a tenant.
type standing struct {
	places  budget.Tenant
	breaker breaker.Breaker
}

// NewTenant returns a tenant. answers holds the bytes of its whole answers during Ask; nil is without a bound. may tells
// which models it may use in place of others; nil is all. before is the tenant in the pool that this one replaces, whose
// state it has where deployments stay; nil is none.
func (p *Pool) NewTenant(answers *budget.Tenant, may func(model string) bool, before *Tenant) *Tenant {
	was := cmp.Or(before, &Tenant{retries: p.newRetryBudget()})
	t := &Tenant{answers: answers, may: may, retries: was.retries, alone: p.cfg.Tenants <= 1, standings: map[*health]*standing{}, providers: map[*provider]*breaker.Breaker{}}
	for _, of := range p.targets {
		s := was.standings[of.health]
		if s == nil {
			s = &standing{}
			p.initBreaker(&s.breaker)
		}
		t.standings[of.health] = s
	}
	for _, of := range p.providers {
		b := was.providers[of]
		if b == nil {
			b = &breaker.Breaker{}
			p.initBreaker(b)
		}
		t.providers[of] = b
	}
	return t
}

// Allowing returns the tenant with its resources, and with other models that it may use in place of others.
func (t *Tenant) Allowing(may func(model string) bool) *Tenant {
	other := *t
	other.may = may
	return &other
}

func (p *Pool) initBreaker(b *breaker.Breaker) {
	b.Init(p.cfg.Failures, p.cfg.Cooldown, p.cfg.MaxCooldown)
}

// A gate decides whether a provider, or one of its deployments, is asked: for all tenants, and for one.
type gate struct {
	all, own        *breaker.Breaker // own is nil without a tenant
	probe, ownProbe bool
}

// ready reports whether it is open, and if not, when it will be.
func (g *gate) ready(now time.Time) (bool, time.Time) {
	if g.own == nil || g.own.Closed() {
		return g.all.Ready(now)
	}
	if ready, when := g.own.Ready(now); !ready {
		return false, when
	}
	return g.all.Cooled(now)
}

// begin lets a request pass; false if others came first. A request that decides for its tenant does not decide for
// all: others must not wait for one that failed before.
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

// discard takes back a request without a result for the upstream.
func (g *gate) discard() {
	g.all.Cancel(g.probe)
	if g.own != nil {
		g.own.Cancel(g.ownProbe)
	}
}

// failed counts a failure. It reports whether the gate closes now, for its tenant or for all. A tenant's failures
// count for all until the gate closes for it: they are too few to close it for others.
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

// A slot is a call's part of an upstream: a place, and perhaps the decision whether it has recovered. Limits and
// names concern single models. So a failure closes the gate of the model, and that of the server only if it concerns
// all models.
type slot struct {
	target        *target
	place         budget.Grant
	server, model gate
	reserved      int64 // tokens of the deployment's quota
}

// slot returns the slot of a tenant's call that may use a number of tokens, without taking it.
func (p *Pool) slot(t *target, of *Tenant, tokens int64) slot {
	s := slot{target: t, reserved: tokens, server: gate{all: &t.provider.breaker}, model: gate{all: &t.breaker}}
	var holder *budget.Tenant
	if of != nil {
		standing := of.standings[t.health]
		if holder = &standing.places; !of.alone {
			s.server.own, s.model.own = of.providers[t.provider], &standing.breaker
		}
	}
	s.place = t.places.Grant(holder)
	return s
}

// ready reports whether the upstream may be asked, and if not, when.
func (s *slot) ready(now time.Time) (bool, time.Time) {
	server, first := s.server.ready(now)
	model, second := s.model.ready(now)
	if first.Before(second) {
		first = second
	}
	return server && model, first
}

// within reports whether the deployment's quotas have room, and if not, when.
func (s *slot) within(now time.Time) (bool, time.Time) {
	requests, first := s.target.requests.ready(1, now)
	tokens, second := s.target.tokens.ready(s.reserved, now)
	if first.Before(second) {
		first = second
	}
	return requests && tokens, first
}

// settle replaces the reserved tokens by those that were used.
func (s *slot) settle(used int) {
	s.target.tokens.use(int64(used)-s.reserved, time.Now())
	s.reserved = int64(used)
}

// begin takes the upstream for a request; false if others came first.
func (s *slot) begin(now time.Time) bool {
	if !s.server.begin(now) {
		return false
	}
	if !s.model.begin(now) {
		s.server.discard()
		return false
	}
	s.target.requests.use(1, now)
	s.target.tokens.use(s.reserved, now)
	return true
}

// decides reports whether others wait for the call.
func (s *slot) decides() bool {
	return s.server.probe || s.server.ownProbe || s.model.probe || s.model.ownProbe
}

// good counts an answer.
func (s *slot) good() {
	s.server.good()
	s.model.good()
}

// discard takes back a request without a result for the upstream.
func (s *slot) discard() {
	s.server.discard()
	s.model.discard()
}

// failed counts a failure at its gates.
func (s *slot) failed(now time.Time, e *Error) (own, all bool) {
	switch {
	case e.server:
		s.model.discard()
		return s.server.failed(now, e.RetryAfter)
	case e.answered:
		s.server.good()
	default:
		s.server.discard()
	}
	return s.model.failed(now, e.RetryAfter)
}
