package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// ErrLost says that a session has ended, and its locks with it.
var ErrLost = errors.New("the session is lost")

// A Session has locks. It is renewed until it is closed or lost. Its methods may be called from any goroutine.
type Session struct {
	client *Client
	id     string
	ttl    time.Duration
	ctx    context.Context // ends with the session, and says why
	end    context.CancelCauseFunc
	ended  chan struct{}
}

// Begin begins a session in the Client's namespace. Its name is for people. It is lost after ttl without an answer to a
// renewal, or if the control plane has ended it; ttl is a number of seconds from 2 to 3600.
func (c *Client) Begin(ctx context.Context, name string, ttl time.Duration) (*Session, error) {
	s := &Session{client: c, ended: make(chan struct{})}
	asked := time.Now()
	answer, err := c.Do(ctx, Request{Method: http.MethodPost, Path: resource.Sessions.Traits().Folder, Query: s.query(), Body: resource.SessionInput{Name: name, TTL: int(ttl / time.Second)}})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	var doc resource.Session
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil || doc.ID == "" {
		return nil, fmt.Errorf("%s: the answer is no session: %w", answer.Server, err)
	}
	s.id, s.ttl = doc.ID, time.Duration(doc.TTL)*time.Second
	s.ctx, s.end = context.WithCancelCause(c.ctx)
	if err := c.begin(func() {
		defer close(s.ended)
		s.keep(asked.Add(s.ttl))
	}); err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// Context returns a context that ends with the session. Its cause is ErrLost if the session was not closed.
func (s *Session) Context() context.Context { return s.ctx }

// Close ends the session, and releases its locks. After an error they are released after the session's time.
func (s *Session) Close(ctx context.Context) error {
	s.end(ErrClosed)
	<-s.ended
	return s.remove(ctx, s.path(), s.query())
}

// remove removes a resource, which may have been removed already.
func (s *Session) remove(ctx context.Context, path string, query url.Values) error {
	answer, err := s.client.Do(ctx, Request{Method: http.MethodDelete, Path: path, Query: query})
	if err == nil {
		return answer.Body.Close()
	}
	if missing(err) {
		return nil
	}
	return err
}

func (s *Session) path() string { return resource.Ref{Kind: resource.Sessions, Name: s.id}.Address() }

func (s *Session) query() url.Values { return url.Values{"namespace": {s.client.cfg.Namespace}} }

// keep renews the session. Its end is counted from before the request whose answer renewed it, so this side ends first.
func (s *Session) keep(until time.Time) {
	lost := time.AfterFunc(time.Until(until), func() { s.end(fmt.Errorf("%w: no answer for %v", ErrLost, s.ttl)) })
	defer lost.Stop()
	route := s.client.route()
	for pause := spread(s.ttl / beatsPerLease); wait.For(s.ctx, pause); {
		asked := time.Now()
		within, cancel := context.WithTimeout(s.ctx, s.ttl/beatsPerLease)
		_, err := s.client.call(within, route.server(), http.MethodPost, s.path()+"/renew", s.query(), nil)
		cancel()
		switch {
		case err == nil:
			lost.Reset(time.Until(asked.Add(s.ttl)))
			route.good()
			pause = spread(s.ttl / beatsPerLease)
		case missing(err):
			s.end(ErrLost)
		default:
			pause = min(route.failed(err), s.ttl/beatsPerLease)
		}
	}
}

// A Lock is one that a session has.
type Lock struct {
	// Token is larger than those of all who had the lock before. Resources can refuse requests with smaller ones.
	Token   int64
	session *Session
	name    string
	ctx     context.Context
	end     context.CancelCauseFunc
}

// Lock waits until the session has a lock, as long as ctx allows. The value is for who watches the lock: that of an
// elected leader is its address. After an error, the session may have the lock or get it: repeat the call, or close the
// session.
func (s *Session) Lock(ctx context.Context, name, value string) (*Lock, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	l := &Lock{session: s, name: name}
	route := s.client.route()
	// A part of the time of a request, so that the server answers before that is over.
	ask := resource.LockInput{Session: s.id, Value: value, Wait: min(60, s.client.cfg.RequestTimeout.Seconds()/2)}
	for {
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		body, err := s.client.call(ctx, route.server(), http.MethodPut, l.path(), s.query(), ask)
		var p *Problem
		switch {
		case err == nil:
			if err := json.Unmarshal(body, l); err != nil || l.Token == 0 {
				return nil, fmt.Errorf("%s: the answer is no lock: %w", route.server(), err)
			}
			l.ctx, l.end = context.WithCancelCause(s.ctx)
			return l, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &p) && p.Status == http.StatusConflict:
			route.good() // another session has it
		case missing(err):
			s.end(ErrLost)
		case lasting(err):
			return nil, err
		default:
			wait.For(ctx, route.failed(err))
		}
	}
}

// Context returns a context that ends when the lock is released, or lost with its session.
func (l *Lock) Context() context.Context { return l.ctx }

// Unlock releases the lock.
func (l *Lock) Unlock(ctx context.Context) error {
	l.end(ErrClosed)
	query := l.session.query()
	query.Set("session", l.session.id)
	return l.session.remove(ctx, l.path(), query)
}

func (l *Lock) path() string { return resource.Ref{Kind: resource.Locks, Name: l.name}.Address() }
