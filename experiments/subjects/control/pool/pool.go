package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of a Pool.
const (
	maxWaiting  = 4096 // requests that wait for a connection; one more fails with ErrBusy
	dialTimeout = 10 * time.Second
)

// ErrBusy says that as many requests wait for a connection as may. ErrClosed says that the
// Pool is closed.
var (
	ErrBusy   = errors.New("too many requests wait for a connection")
	ErrClosed = errors.New("the pool of connections is closed")
)

// Stats are a Pool's figures. Those that count do so from its beginning.
type Stats struct {
	Requests uint64 // that asked for a connection
	Hits     uint64 // of these, found an idle one at once
	Waited   uint64 // had to wait, as all were in use
	Refused  uint64 // found as many waiting as may

	Opened  uint64
	Failed  uint64 // could not be opened
	Evicted uint64 // were idle for longer than the threshold
	Lost    uint64 // were closed by the server, or broke

	Open, Idle, Waiting int // now
	Size                int // how many there may be
	Threshold           time.Duration
}

// connection is an *http.ClientConn, or a test's.
type connection interface {
	RoundTrip(*http.Request) (*http.Response, error)
	Err() error
	Close() error
}

// A Pool carries requests to one server over connections that it keeps. Its methods may be called
// from any goroutine. Idle connections are closed by a timer, and nothing else runs in the
// background.
type Pool struct {
	dial func(context.Context) (connection, error)

	mu      sync.Mutex // guards what follows
	rule    rule
	now     setting
	stats   Stats // counts; what is now is added when asked for
	closed  bool
	open    int       // idle, in use, or being opened
	idle    []*pooled // that used last is last, and used next: the first may grow old
	waiting []*waiter // first come, first served
	timer   *time.Timer

	since time.Time // when the window began
	seen  window
}

var _ http.RoundTripper = (*Pool)(nil)

// New returns a Pool without connections, to a server at host:port. Its error lists every fault.
func New(policy Policy, address string) (*Pool, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(true)
	p := &Pool{since: time.Now(), dial: func(ctx context.Context) (connection, error) {
		return t.NewClientConn(ctx, "http", address)
	}}
	p.now, p.rule = policy.start()
	return p, nil
}

// A pooled connection is one with the time since which it is idle.
type pooled struct {
	connection
	since time.Time
}

// A waiter is given a connection that it may use, or nil: that there is room to open one.
type waiter struct{ given chan *pooled }

// RoundTrip carries a request.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := p.get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as transports must; the request has failed already
		}
		return nil, err
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		p.put(c, false)
		return nil, err
	}
	answer.Body = &body{ReadCloser: answer.Body, done: func(whole bool) { p.put(c, whole && !answer.Close) }}
	if answer.Body.(*body).ReadCloser == http.NoBody {
		_ = answer.Body.Close() // there is nothing to read, so the caller need not close it
	}
	return answer, nil
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

// get returns a connection that is not in use.
func (p *Pool) get(ctx context.Context) (*pooled, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.look()
	p.stats.Requests++
	p.seen.requests++
	if c := p.take(); c != nil {
		p.stats.Hits++
		p.seen.hits++
		p.mu.Unlock()
		return c, nil
	}
	if p.open < p.now.size && len(p.waiting) == 0 {
		p.open++
		p.mu.Unlock()
		return p.openFor(ctx)
	}
	if len(p.waiting) >= maxWaiting {
		p.stats.Refused++
		p.mu.Unlock()
		return nil, ErrBusy
	}
	p.stats.Waited++
	p.seen.waited++
	w := &waiter{make(chan *pooled, 1)}
	p.waiting = append(p.waiting, w)
	p.serve() // the pool may have grown by the look at the load
	p.mu.Unlock()

	var given *pooled
	var err error
	select {
	case given = <-w.given:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	if err != nil {
		if i := slices.Index(p.waiting, w); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
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
		p.gone()
		return nil, err
	case given != nil:
		return given, nil
	}
	return p.openFor(ctx)
}

// look applies the rule when a window is over. The mutex is held.
func (p *Pool) look() {
	every := p.rule.every()
	if every == 0 {
		return
	}
	if p.seen.length = time.Since(p.since); p.seen.length < every {
		return
	}
	before := p.now.idle
	p.now = p.rule.next(p.seen)
	p.since, p.seen = time.Now(), window{}
	if p.now.idle < before {
		p.evict()
	}
	p.serve()
}

// take returns the connection that was used last and works still. The mutex is held.
func (p *Pool) take() *pooled {
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle[len(p.idle)-1] = nil
		p.idle = p.idle[:len(p.idle)-1]
		if c.Err() == nil {
			return c
		}
		p.stats.Lost++
		p.open--
	}
	return nil
}

// openFor opens a connection, for which there is room already.
func (p *Pool) openFor(ctx context.Context) (*pooled, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no connection within %v", dialTimeout))
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		p.mu.Lock()
		p.stats.Failed++
		p.mu.Unlock()
		p.gone()
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Opened++
	if p.closed {
		p.open--
		return nil, errors.Join(ErrClosed, c.Close())
	}
	return &pooled{connection: c}, nil
}

// gone says that one of a server's connections is no more.
func (p *Pool) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.serve()
}

// put gives a connection back; one that cannot carry another request is closed.
func (p *Pool) put(c *pooled, good bool) {
	p.mu.Lock()
	if p.closed || !good || c.Err() != nil {
		if !p.closed {
			p.stats.Lost++
		}
		p.open--
		p.serve()
		p.mu.Unlock()
		_ = c.Close() // it is of no use any more
		return
	}
	p.look()
	p.keep(c)
	p.mu.Unlock()
}

// keep hands a connection to the caller that has waited longest, or makes it idle. The mutex is
// held.
func (p *Pool) keep(c *pooled) {
	if len(p.waiting) > 0 {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		w.given <- c // it has room for one, and is given once
		return
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	if len(p.idle) == 1 {
		p.arm()
	}
}

// serve lets those who wait open connections, as far as there is room. The mutex is held.
func (p *Pool) serve() {
	for len(p.waiting) > 0 && p.open < p.now.size {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.open++
		w.given <- nil
	}
}

// arm has the oldest idle connection looked at when it may be too old. The mutex is held.
func (p *Pool) arm() {
	if len(p.idle) == 0 {
		return
	}
	after := time.Until(p.idle[0].since.Add(p.now.idle))
	if p.timer == nil {
		p.timer = time.AfterFunc(after, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.look() // a load that has ended tells it in no other way
			p.evict()
		})
		return
	}
	p.timer.Reset(after)
}

// evict closes what has been idle for too long. The mutex is held.
func (p *Pool) evict() {
	for len(p.idle) > 0 && time.Since(p.idle[0].since) >= p.now.idle {
		c := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		p.open--
		if c.Err() != nil {
			p.stats.Lost++
		} else {
			p.stats.Evicted++
			p.now = p.rule.evicted()
		}
		_ = c.Close() // it is of no use any more
	}
	p.arm()
}

// Close closes idle connections; those in use are closed when their answers have been
// read. Requests after it fail, and so do those that wait for a connection.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		p.open--
		_ = c.Close() // it is of no use any more
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, w := range p.waiting {
		p.open++
		w.given <- nil // it finds the pool closed
	}
	p.waiting = nil
}

// Stats returns the figures.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Idle, s.Waiting, s.Size, s.Threshold = p.open, len(p.idle), len(p.waiting), p.now.size, p.now.idle
	return s
}
