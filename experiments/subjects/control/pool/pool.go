package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Config is what a Pool needs in addition to its Policy.
type Config struct {
	// TLS says how servers at https addresses are verified; nil is the system's
	// authorities.
	TLS *tls.Config
	// MaxWaiting is how many requests to one server may wait for a connection; one more
	// fails with ErrBusy. 0 is DefaultMaxWaiting.
	MaxWaiting int
	// DialTimeout bounds opening a connection, its handshake included. 0 is
	// DefaultDialTimeout.
	DialTimeout time.Duration
}

// What a Config has where nothing is said.
const (
	DefaultMaxWaiting  = 4096
	DefaultDialTimeout = 10 * time.Second
)

// ErrBusy says that as many requests wait for a connection as may. ErrClosed says that the
// Pool is closed.
var (
	ErrBusy   = errors.New("too many requests wait for a connection")
	ErrClosed = errors.New("the pool of connections is closed")
)

// Stats are a Pool's figures. Those that count do so from its beginning, over all servers.
type Stats struct {
	Requests uint64 // that asked for a connection
	Hits     uint64 // of these, found an idle one at once
	Waited   uint64 // had to wait, as all were in use
	Refused  uint64 // found as many waiting as may
	WaitTime time.Duration

	Opened  uint64
	Failed  uint64 // could not be opened
	Evicted uint64 // were idle for longer than the threshold
	Lost    uint64 // were closed by the server, or broke

	Open, Idle, Waiting int           // now
	Size                int           // how many there may be, of all servers that are known
	Threshold           time.Duration // the shortest of all servers
}

// HitShare is how many of the requests have had a hit; without requests it is 1.
func (s Stats) HitShare() float64 {
	if s.Requests == 0 {
		return 1
	}
	return float64(s.Hits) / float64(s.Requests)
}

// connection is an *http.ClientConn, or a test's.
type connection interface {
	RoundTrip(*http.Request) (*http.Response, error)
	Err() error
	Close() error
}

// A Pool carries requests over connections that it keeps. Its methods may be called from
// any goroutine. Idle connections are closed by a timer, and nothing else runs in the
// background.
type Pool struct {
	policy Policy
	cfg    Config
	dial   func(ctx context.Context, scheme, address string) (connection, error)

	mu      sync.Mutex // guards what follows, and all servers
	servers map[string]*server
	stats   Stats // counts; what is now is added up when asked for
	closed  bool
}

var _ http.RoundTripper = (*Pool)(nil)

// New returns a Pool without connections. Its error lists every fault.
func New(policy Policy, cfg Config) (*Pool, error) {
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = DefaultMaxWaiting
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = DefaultDialTimeout
	}
	if err := errors.Join(
		policy.Validate(),
		fault(cfg.MaxWaiting > 0, "max waiting", cfg.MaxWaiting, "must be more than 0"),
		fault(cfg.DialTimeout > 0, "dial timeout", cfg.DialTimeout, "must be more than 0"),
	); err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: cfg.TLS, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(true)
	return &Pool{policy: policy, cfg: cfg, servers: map[string]*server{}, dial: func(ctx context.Context, scheme, address string) (connection, error) {
		return t.NewClientConn(ctx, scheme, address)
	}}, nil
}

// A server is one that the Pool has connections to.
type server struct {
	scheme, address string
	rule            rule
	now             setting

	open    int       // idle, in use, or being opened
	idle    []*pooled // that used last is last, and used next: the first may grow old
	waiting []*waiter // first come, first served
	timer   *time.Timer

	since time.Time // when the window began
	seen  window
}

// A pooled connection belongs to a server.
type pooled struct {
	connection
	of    *server
	used  bool      // carried a request before
	since time.Time // idle
}

// A waiter is told a connection that it may use, or nil: that there is room to open one.
type waiter struct{ given chan *pooled }

// RoundTrip carries a request. A request that may be repeated (RFC 9110, section 9.2.2, or
// with an Idempotency-Key) is, once, if an idle connection turns out to be broken.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	address, err := addressOf(r.URL)
	if err != nil {
		return nil, discard(r, err)
	}
	for again := false; ; again = true {
		c, err := p.get(r.Context(), r.URL.Scheme, address)
		if err != nil {
			return nil, discard(r, err)
		}
		reused := c.used
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Reused: reused})
		}
		c.used = true
		answer, err := c.RoundTrip(r)
		if err == nil {
			answer.Body = &body{ReadCloser: answer.Body, done: func(whole bool) { p.put(c, whole && !answer.Close) }}
			if answer.Body.(*body).ReadCloser == http.NoBody {
				_ = answer.Body.Close() // there is nothing to read, and nobody need close it
			}
			return answer, nil
		}
		p.put(c, false)
		if again || !reused || r.Context().Err() != nil || !repeatable(r) {
			return nil, err
		}
		if r.GetBody != nil {
			content, bodyErr := r.GetBody()
			if bodyErr != nil {
				return nil, err
			}
			r = r.Clone(r.Context())
			r.Body = content
		}
	}
}

// discard closes the body of a request that is not sent, as transports must.
func discard(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close() // the request has failed already
	}
	return err
}

// addressOf is where a URL's server is, as host:port.
func addressOf(u *url.URL) (string, error) {
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q: the scheme must be http or https", u.Redacted())
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// repeatable tells whether a request does no more if it is carried out twice, and can be
// sent again.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, "":
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// A body gives its connection back when it has been read to the end; one that is closed
// before leaves the connection in the middle of an answer.
type body struct {
	io.ReadCloser
	once sync.Once
	done func(whole bool)
}

func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err != nil {
		b.once.Do(func() { b.done(errors.Is(err, io.EOF)) })
	}
	return n, err
}

func (b *body) Close() error {
	b.once.Do(func() { b.done(b.ReadCloser == http.NoBody) })
	return b.ReadCloser.Close()
}

// get returns a connection that nobody else uses.
func (p *Pool) get(ctx context.Context, scheme, address string) (*pooled, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	s := p.server(scheme, address)
	p.look(s)
	p.stats.Requests++
	s.seen.requests++
	if c := p.take(s); c != nil {
		p.stats.Hits++
		s.seen.hits++
		p.mu.Unlock()
		return c, nil
	}
	if s.open < s.now.size && len(s.waiting) == 0 {
		s.open++
		p.mu.Unlock()
		return p.openFor(ctx, s)
	}
	if len(s.waiting) >= p.cfg.MaxWaiting {
		p.stats.Refused++
		p.mu.Unlock()
		return nil, ErrBusy
	}
	p.stats.Waited++
	s.seen.waited++
	w := &waiter{make(chan *pooled, 1)}
	s.waiting = append(s.waiting, w)
	p.serve(s) // the pool may have grown by the look at the load
	p.mu.Unlock()

	began := time.Now()
	var given *pooled
	var err error
	select {
	case given = <-w.given:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	p.stats.WaitTime += time.Since(began)
	if err != nil {
		if i := slices.Index(s.waiting, w); i >= 0 {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			p.mu.Unlock()
			return nil, err
		}
		given = <-w.given // meanwhile: it is handed on
	} else if p.closed {
		err = ErrClosed
	}
	p.mu.Unlock()
	switch {
	case err != nil && given != nil:
		p.put(given, true)
		return nil, err
	case err != nil:
		p.gone(s)
		return nil, err
	case given != nil:
		return given, nil
	}
	return p.openFor(ctx, s)
}

// server returns what is known of a server. The mutex is held.
func (p *Pool) server(scheme, address string) *server {
	key := scheme + "://" + address
	s := p.servers[key]
	if s == nil {
		s = &server{scheme: scheme, address: address, since: time.Now()}
		s.now, s.rule = p.policy.start()
		p.servers[key] = s
	}
	return s
}

// look applies the rule when a window is over. The mutex is held.
func (p *Pool) look(s *server) {
	every := s.rule.every()
	if every == 0 {
		return
	}
	if s.seen.length = time.Since(s.since); s.seen.length < every {
		return
	}
	before := s.now.idle
	s.now = s.rule.next(s.seen)
	s.since, s.seen = time.Now(), window{}
	if s.now.idle < before {
		p.evict(s)
	}
	p.serve(s)
}

// take returns the connection that was used last and works still. The mutex is held.
func (p *Pool) take(s *server) *pooled {
	for len(s.idle) > 0 {
		c := s.idle[len(s.idle)-1]
		s.idle[len(s.idle)-1] = nil
		s.idle = s.idle[:len(s.idle)-1]
		if c.Err() == nil {
			return c
		}
		p.stats.Lost++
		s.open--
	}
	return nil
}

// openFor opens a connection, for which there is room already.
func (p *Pool) openFor(ctx context.Context, s *server) (*pooled, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.DialTimeout, fmt.Errorf("no connection to %s within %v", s.address, p.cfg.DialTimeout))
	defer cancel()
	c, err := p.dial(ctx, s.scheme, s.address)
	if err != nil {
		p.mu.Lock()
		p.stats.Failed++
		p.mu.Unlock()
		p.gone(s)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Opened++
	if p.closed {
		s.open--
		return nil, errors.Join(ErrClosed, c.Close())
	}
	return &pooled{connection: c, of: s}, nil
}

// gone says that one of a server's connections is no more.
func (p *Pool) gone(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.open--
	p.serve(s)
}

// put gives a connection back; one that cannot carry another request is closed.
func (p *Pool) put(c *pooled, good bool) {
	p.mu.Lock()
	if p.closed || !good || c.Err() != nil {
		if !p.closed {
			p.stats.Lost++
		}
		c.of.open--
		p.serve(c.of)
		p.mu.Unlock()
		_ = c.Close() // it is of no use any more
		return
	}
	p.look(c.of)
	p.keep(c)
	p.mu.Unlock()
}

// keep hands a connection to whoever has waited longest, or makes it idle. The mutex is
// held.
func (p *Pool) keep(c *pooled) {
	s := c.of
	if len(s.waiting) > 0 {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		w.given <- c // it has room for one, and is given once
		return
	}
	c.since = time.Now()
	s.idle = append(s.idle, c)
	if len(s.idle) == 1 {
		p.arm(s)
	}
}

// serve lets those who wait open connections, as far as there is room. The mutex is held.
func (p *Pool) serve(s *server) {
	for len(s.waiting) > 0 && s.open < s.now.size {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.open++
		w.given <- nil
	}
}

// arm has the oldest idle connection looked at when it may be too old. The mutex is held.
func (p *Pool) arm(s *server) {
	if len(s.idle) == 0 {
		return
	}
	after := time.Until(s.idle[0].since.Add(s.now.idle))
	if s.timer == nil {
		s.timer = time.AfterFunc(after, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.look(s) // a load that has ended tells it in no other way
			p.evict(s)
		})
		return
	}
	s.timer.Reset(after)
}

// evict closes what has been idle for too long. The mutex is held.
func (p *Pool) evict(s *server) {
	for len(s.idle) > 0 && time.Since(s.idle[0].since) >= s.now.idle {
		c := s.idle[0]
		s.idle = slices.Delete(s.idle, 0, 1)
		s.open--
		if c.Err() != nil {
			p.stats.Lost++
		} else {
			p.stats.Evicted++
			s.now = s.rule.evicted()
		}
		_ = c.Close() // it is of no use any more
	}
	p.arm(s)
}

// CloseIdleConnections closes those that carry nothing at present, as http.Client's method
// asks for.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeIdle()
}

func (p *Pool) closeIdle() {
	for _, s := range p.servers {
		for _, c := range s.idle {
			s.open--
			_ = c.Close() // it is of no use any more
		}
		s.idle = nil
		if s.timer != nil {
			s.timer.Stop()
		}
	}
}

// Close closes idle connections; those in use are closed when their answers have been
// read. Requests after it fail, and so do those that wait for a connection.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeIdle()
	for _, s := range p.servers {
		for _, w := range s.waiting {
			s.open++
			w.given <- nil // it finds the pool closed
		}
		s.waiting = nil
	}
}

// Stats returns the figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	for _, s := range p.servers {
		stats.Open += s.open
		stats.Idle += len(s.idle)
		stats.Waiting += len(s.waiting)
		stats.Size += s.now.size
		if stats.Threshold == 0 || s.now.idle < stats.Threshold {
			stats.Threshold = s.now.idle
		}
	}
	return stats
}
