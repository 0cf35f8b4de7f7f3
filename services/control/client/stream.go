package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// A reader reads the streams of a watch, one after the other, in one goroutine.
type reader struct {
	begin func(server string) (token string) // a stream begins; it returns what is known, "" for nothing
	heard func()                             // a heartbeat
	take  func(event) error
	lost  func(error) // the stream has ended
}

// Follow copies all of some kinds that the client may read, until ctx ends; no kinds are all. It reads streams, from one
// server after the other. begin returns the id of the last event that was stored, or "". take gets the events, and lost
// the reason why a stream has ended.
func (c *Client) Follow(ctx context.Context, begin func() (id string), take func(kind, id string, data []byte) error, lost func(error), kinds ...resource.Kind) {
	query := url.Values{"follower": {"true"}}
	for _, k := range kinds {
		query.Add("kind", string(k))
	}
	c.watch(ctx, query, reader{
		begin: func(string) string { return begin() },
		heard: func() {},
		take:  func(e event) error { return take(e.kind, e.id, e.data) },
		lost:  lost,
	})
}

// watch reads streams until ctx ends, from one server after the other.
func (c *Client) watch(ctx context.Context, query url.Values, r reader) {
	route := c.route()
	for ctx.Err() == nil {
		err := c.watchOnce(ctx, query, r, &route)
		r.lost(err)
		if ctx.Err() != nil {
			return
		}
		pause := route.failed(err)
		c.log.Warn("not watching", "error", err, "again_after", pause)
		wait.For(ctx, pause)
	}
}

// watchOnce reads one stream until it ends. It always returns an error.
func (c *Client) watchOnce(ctx context.Context, query url.Values, r reader, route *route) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.cfg.Silence, func() { cancel(fmt.Errorf("nothing was heard for %v", c.cfg.Silence)) })
	defer silence.Stop()
	header := http.Header{"Accept": {eventStream}}
	if token := r.begin(route.server()); token != "" {
		header["Last-Event-Id"] = []string{token}
	}
	answer, err := c.ask(ctx, route.server(), http.MethodGet, "/v1/watch", query, nil, header)
	if err != nil {
		return because(ctx, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	err = events(answer.Body, func(comment bool) {
		silence.Reset(c.cfg.Silence)
		route.good()
		if comment {
			r.heard()
		}
	}, func(e event) error {
		silence.Stop() // the reader's own time is no silence
		defer silence.Reset(c.cfg.Silence)
		return r.take(e)
	})
	return because(ctx, err)
}

// because returns the cause of ctx if it has ended, rather than an error that follows from it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
