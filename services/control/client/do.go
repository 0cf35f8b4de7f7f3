package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// A Request is one operation of the control plane, as GET /v1/openapi.json describes them.
type Request struct {
	Method string
	Path   string // such as /v1/policies/a
	Query  url.Values
	Body   any // a JSON document; nil is none
	Header http.Header
	// Stream bounds the response by the context alone, and not by RequestTimeout, such as for a backup.
	Stream bool
}

// An Answer is a server's response. Body must be closed.
type Answer struct {
	Server string // the server's address
	Status int
	Header http.Header
	Body   io.ReadCloser
}

// Unreachable says that no server has answered, with the errors of all.
type Unreachable struct {
	Servers []string
	Err     error // of each server, joined
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("no server answers: %v", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
}

// Unwrap returns the errors of all servers.
func (e *Unreachable) Unwrap() error { return e.Err }

// Do sends a request to one server. It tries the next one if that cannot be reached or does not answer for the
// control plane. The error is a *Problem if the request is refused, and *Unreachable if no server answers. A change
// without an Idempotency-Key gets one, so that it is made once, however many servers get it.
func (c *Client) Do(ctx context.Context, r Request) (*Answer, error) {
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if r.Method != http.MethodGet && header.Get(idempotencyKey) == "" {
		header.Set(idempotencyKey, rand.Text())
	}
	route := c.route()
	var failed []error
	for range c.cfg.Servers {
		server := route.server()
		answer, err := c.askOnce(ctx, server, r, header) //nolint:bodyclose // the caller closes it
		if err == nil {
			return &Answer{Server: server, Status: answer.StatusCode, Header: answer.Header, Body: answer.Body}, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !elsewhere(err) {
			return nil, err
		}
		failed = append(failed, fmt.Errorf("%s: %w", server, innermost(err)))
		route.failed(err)
	}
	var p *Problem
	if last := failed[len(failed)-1]; len(failed) == 1 && errors.As(last, &p) {
		return nil, p
	}
	return nil, &Unreachable{c.cfg.Servers, errors.Join(failed...)}
}

const idempotencyKey = "Idempotency-Key"

// askOnce asks one server, within the time that the request has.
func (c *Client) askOnce(ctx context.Context, server string, r Request, header http.Header) (*http.Response, error) {
	if r.Stream {
		return c.ask(ctx, server, r.Method, r.Path, r.Query, r.Body, header)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, fmt.Errorf("no answer within %v", c.cfg.RequestTimeout))
	answer, err := c.ask(ctx, server, r.Method, r.Path, r.Query, r.Body, header)
	if err != nil {
		err = because(ctx, err)
		cancel()
		return nil, err
	}
	answer.Body = &bounded{answer.Body, cancel}
	return answer, nil
}

// A bounded body cancels its request's context when it is closed.
type bounded struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *bounded) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// elsewhere reports whether another server may succeed after this error.
func elsewhere(err error) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return !errors.Is(err, ErrText)
	}
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusMisdirectedRequest:
		return true
	}
	return false
}

// innermost returns why a connection failed, without the request's method and address.
func innermost(err error) error {
	var (
		number syscall.Errno
		lookup *net.DNSError
		asked  *url.Error
	)
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &lookup):
		return lookup
	case errors.As(err, &asked):
		return asked.Err
	}
	return err
}
