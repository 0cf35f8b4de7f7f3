package plane

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"dyno/internal/rate"
	"dyno/services/control/access"
)

// A Caller is who asks, and from where.
type Caller struct {
	*access.Principal
	From string // address
	// ClientPrefix begins the names of its clients in the ledger: nobody can answer for the clients of
	// another principal. It is empty where there are no principals.
	ClientPrefix string
}

// may returns why the caller may not do something.
func (c Caller) may(what access.Permission, namespace string) error {
	if c.May(what, namespace) {
		return nil
	}
	return &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s may not %s in namespace %q", c.Name, what, namespace)}
}

// clients is how many clients' rates are remembered, and how many addresses of strangers.
const clients = 100_000

// strangerRate and strangerBurst are how often an address is refused for a token or a certificate that
// nobody has, a second and at once: more than a program with an old token asks, and as many as are
// behind a proxy.
const (
	strangerRate  = 10
	strangerBurst = 100
)

// A Gate admits callers, for all protocols together. Its methods may be called from any goroutine.
type Gate struct {
	// Book has those who may ask. Without one, everybody may do everything: that is for loopback
	// addresses.
	Book *access.Book

	anybody   *access.Principal // who asks where there is no Book
	started   time.Time
	limiter   *rate.Limiter
	strangers *rate.Limiter // of refusals of unknown callers, by address
}

// NewGate returns a Gate by which each client may make a number of requests a second, and burst at once; a
// rate of 0 is without a limit. A client is a principal, or an address where there is no book.
func NewGate(book *access.Book, perSecond float64, burst int) *Gate {
	return &Gate{
		Book: book, anybody: access.Anonymous(), started: time.Now(),
		limiter: rate.NewLimiter(perSecond, burst, clients), strangers: rate.NewLimiter(strangerRate, strangerBurst, clients),
	}
}

// Credentials are what a request shows.
type Credentials struct {
	Address       string               // of the connection's other end
	Authorization string               // the field of the request's head; "" is none
	TLS           *tls.ConnectionState // nil without it
}

// Admit finds out who asks, and whether at all and this often. Its error is a *Problem.
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
			if ok, after := g.strangers.Allow(client, 0, 0, time.Since(g.started)); !ok {
				refused = &Problem{Kind: RateExceeded, Detail: "nobody is known by what was shown, again and again: " + refused.Detail, After: after}
			}
			return Caller{}, refused
		}
		client, c.ClientPrefix = "principal "+c.Name, c.Name+"/"
	}
	if ok, after := g.limiter.Allow(client, c.Rate, c.Burst, time.Since(g.started)); !ok {
		return Caller{}, &Problem{Kind: RateExceeded, Detail: "more requests than this client may make", After: after}
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
		if p := g.Book.ByToken(strings.TrimSpace(token)); p != nil {
			return p, nil
		}
		return nil, &Problem{Kind: BadToken, Detail: "nobody has this token"}
	}
	if shown.TLS != nil && len(shown.TLS.VerifiedChains) > 0 {
		if p := g.Book.ByCertificate(access.CertificateNames(shown.TLS.VerifiedChains[0][0])); p != nil {
			return p, nil
		}
		return nil, &Problem{Kind: BadCertificate, Detail: "nobody is known by this certificate"}
	}
	return nil, &Problem{Kind: BadToken, Detail: "a token or a client certificate is needed"}
}

// Hold calls end with a problem when what the caller has begun may not go on: by what it has shown, it is
// not known any more, or it may do other things now. The error is that problem if this has happened
// already. Release ends the hold.
func (g *Gate) Hold(c Caller, end func(error)) (release func(), err error) {
	over := &Problem{Kind: BadToken, Detail: "who asks is not known any more by what was shown, or may do other things now"}
	release, ok := g.Book.Hold(c.Principal, func() { end(over) })
	if !ok {
		return release, over
	}
	return release, nil
}
