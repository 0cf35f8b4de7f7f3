package plane

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"dyno/internal/rate"
	"dyno/services/control/access"
	"dyno/services/control/resource"
	"dyno/services/internal/oidc"
)

// A Caller is the principal of a request, and its address.
type Caller struct {
	*access.Principal
	From string // address
	// ClientPrefix begins the names of its clients in the ledger: so a client cannot answer for one of another
	// principal. It is empty where there are no principals.
	ClientPrefix string
}

// may returns an error if the caller lacks a permission.
func (c Caller) may(what access.Permission, namespace string) error {
	if c.May(what, namespace) {
		return nil
	}
	return &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s may not %s in namespace %q", c.Name, what, namespace)}
}

// mayFor is may for a resource. Those that say who may do what need the permission to delegate, somewhere.
func (c Caller) mayFor(what access.Permission, r resource.Ref) error {
	if !r.Kind.OfAccess() {
		return c.may(what, r.Namespace)
	}
	if c.MayAnywhere(access.Delegate) {
		return nil
	}
	return c.may(access.Delegate, access.AllNamespaces)
}

// clients bounds the remembered rates of clients, and of addresses of unauthenticated ones.
const clients = 100_000

// unauthenticatedRate and unauthenticatedBurst limit how often an address may send unknown tokens or certificates: per second, and
// at once. They suffice for a program with an old token, and for the clients of one proxy.
const (
	unauthenticatedRate  = 10
	unauthenticatedBurst = 100
)

// A Gate admits callers, for all protocols together. Its methods may be called from any goroutine.
type Gate struct {
	// Book has the principals. Without one, there is no access control: that is for loopback addresses.
	Book *access.Book
	// People verifies tokens of people by their issuer; nil is without one.
	People *oidc.Verifier

	anybody         *access.Principal // the caller where there is no Book
	rate            atomic.Pointer[clientRate]
	started         time.Time
	limiter         *rate.Limiter
	unauthenticated *rate.Limiter // limits refusals of unauthenticated callers, by address
}

// A clientRate is the limit on each client without its own.
type clientRate struct {
	perSecond float64
	burst     int
}

// SetRate changes the limit on each client, as NewGate has it.
func (g *Gate) SetRate(perSecond float64, burst int) { g.rate.Store(&clientRate{perSecond, burst}) }

// NewGate returns a Gate with a limit on each client's requests per second, and at once; a rate of 0 is no limit. A
// client is a principal, or an address where there is no book.
func NewGate(book *access.Book, perSecond float64, burst int) *Gate {
	g := &Gate{
		Book: book, anybody: access.Anonymous(), started: time.Now(),
		limiter: rate.NewLimiter(0, 0, clients), unauthenticated: rate.NewLimiter(unauthenticatedRate, unauthenticatedBurst, clients),
	}
	g.SetRate(perSecond, burst)
	return g
}

// Credentials are those of one request.
type Credentials struct {
	Address       string               // the connection's remote address
	Authorization string               // the request's header field; "" is none
	TLS           *tls.ConnectionState // nil without it
}

// Admit identifies the caller, and checks its rate. Its error is a *Problem.
func (g *Gate) Admit(shown Credentials) (Caller, error) {
	c := Caller{Principal: g.anybody, From: "unix"} // all clients of a Unix socket are one
	if host, _, err := net.SplitHostPort(shown.Address); err == nil {
		c.From = host
	}
	client := c.From
	if g.Book != nil {
		var refused *Problem
		if c.Principal, refused = g.identify(shown); refused != nil {
			// Authenticated clients behind the same address are not limited by this: many come through one
			// proxy, and their heartbeats must go on. Tokens are too long to be guessed at any rate.
			if ok, after := g.unauthenticated.Allow(client, 0, 0, time.Since(g.started)); !ok {
				refused = &Problem{Kind: RateExceeded, Detail: "too many requests with invalid credentials: " + refused.Detail, After: after}
			}
			return Caller{}, refused
		}
		client, c.ClientPrefix = "principal "+c.Name, c.Name+"/"
	}
	all := g.rate.Load()
	if ok, after := g.limiter.Allow(client, cmp.Or(c.Rate, all.perSecond), cmp.Or(c.Burst, all.burst), time.Since(g.started)); !ok {
		return Caller{}, &Problem{Kind: RateExceeded, Detail: "too many requests of this client", After: after}
	}
	return c, nil
}

// identify finds the principal by token, else by certificate.
func (g *Gate) identify(shown Credentials) (*access.Principal, *Problem) {
	if shown.Authorization != "" {
		scheme, token, _ := strings.Cut(shown.Authorization, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, &Problem{Kind: BadToken, Detail: "authorization: want Bearer and a token"}
		}
		token = strings.TrimSpace(token)
		if p := g.Book.ByToken(token); p != nil {
			if !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
				return nil, &Problem{Kind: BadToken, Detail: "the token expired at " + p.Expires.UTC().Format(time.RFC3339)}
			}
			return p, nil
		}
		if g.People != nil && strings.Count(token, ".") == 2 {
			return g.member(token)
		}
		return nil, &Problem{Kind: BadToken, Detail: "unknown token"}
	}
	if shown.TLS != nil && len(shown.TLS.VerifiedChains) > 0 {
		if p := g.Book.ByCertificate(access.CertificateNames(shown.TLS.VerifiedChains[0][0])); p != nil {
			return p, nil
		}
		return nil, &Problem{Kind: BadCertificate, Detail: "unknown certificate"}
	}
	return nil, &Problem{Kind: BadToken, Detail: "a token or a client certificate is needed"}
}

// member returns the principal of a person, by the issuer's token.
func (g *Gate) member(token string) (*access.Principal, *Problem) {
	who, err := g.People.Verify(token)
	name := resource.OIDCPrefix + who.Name
	switch {
	case errors.Is(err, oidc.ErrUnavailable):
		return nil, &Problem{Kind: Unavailable, Detail: err.Error(), After: time.Second}
	case err != nil:
		return nil, &Problem{Kind: BadToken, Detail: err.Error()}
	case who.Name == "" || !access.IsName(name):
		return nil, &Problem{Kind: BadToken, Detail: "the token has no name of 1 to 123 bytes without spaces"}
	}
	return g.Book.Member(name, who.Groups, who.Expires), nil
}

// Hold calls end with a problem when the caller's credentials are revoked or expire, or its permissions change. The
// error is that problem if this has happened already. Release ends the hold.
func (g *Gate) Hold(c Caller, end func(error)) (release func(), err error) {
	over := &Problem{Kind: BadToken, Detail: "credentials were revoked or have expired, or permissions have changed"}
	held, ok := g.Book.Hold(c.Principal, func() { end(over) })
	if !ok {
		return held, over
	}
	if c.Expires.IsZero() {
		return held, nil
	}
	timer := time.AfterFunc(time.Until(c.Expires), func() { end(over) })
	return func() { timer.Stop(); held() }, nil
}
