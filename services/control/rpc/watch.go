package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"dyno/services/control/access"
	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// turnChanges is how many changes are taken from the queue at once, about.
const turnChanges = 256

// A watcher is one stream.
type watcher struct {
	api    *API
	stream grpc.BidiStreamingServer[controlpb.WatchRequest, controlpb.WatchResponse]
	caller plane.Caller
	watch  *plane.Watch
	client string // "" where it has no name
	stuck  *time.Timer
}

// Watch answers as control.proto says.
func (a *API) Watch(stream grpc.BidiStreamingServer[controlpb.WatchRequest, controlpb.WatchResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetQuery() == nil {
		return plane.BadParameterf("the first request must be a query")
	}
	w := &watcher{api: a, stream: stream, caller: Caller(stream.Context()), client: first.GetQuery().GetClient()}
	if a.watchers.Add(1) > int64(a.cfg.MaxWatchers) {
		a.watchers.Add(-1)
		return &plane.Problem{Kind: plane.TooManyWatchers, Detail: fmt.Sprintf("%d watch already", a.cfg.MaxWatchers), After: 5 * time.Second}
	}
	defer a.watchers.Add(-1)
	if w.watch, err = a.plane.Watch(stream.Context(), w.caller, query(first.GetQuery())); err != nil {
		return err
	}
	if first.GetQuery().GetToken() != "" {
		a.plane.Reconnected()
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(a.ctx, func() { cancel(push.ErrClosed) })()
	w.stuck = time.AfterFunc(a.cfg.WriteTimeout, func() {
		cancel(&plane.Problem{Kind: tooSlow, Detail: fmt.Sprintf("nothing was taken for %v", a.cfg.WriteTimeout), After: time.Second})
	})
	w.stuck.Stop()
	// The stream's end wakes who is in Send or Recv, and this function's return ends the
	// stream. So it waits for neither.
	told := make(chan error, 1)
	a.streams.Go(func() {
		defer w.watch.Close()
		told <- w.tell(ctx)
	})
	heard := make(chan error, 1)
	a.streams.Go(func() { heard <- w.hear(ctx) })
	for {
		select {
		case err := <-told:
			return err
		case err := <-heard:
			if err != nil {
				return err
			}
			heard = nil // the caller says no more, and listens
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// query is what is watched.
func query(q *controlpb.Query) plane.Query {
	var kinds []resource.Kind
	for _, k := range q.GetKinds() {
		kind, _ := format.Kind(k) // "" is refused
		kinds = append(kinds, kind)
	}
	return plane.Query{
		Namespace: cmp.Or(q.GetNamespace(), resource.DefaultNamespace), Kinds: kinds, Names: q.GetNames(),
		Client: resource.Client{ID: q.GetClient(), Labels: q.GetLabels()}, Since: q.GetToken(),
	}
}

// send sends one message, or ends the stream of a caller that takes none.
func (w *watcher) send(m *controlpb.WatchResponse) error {
	w.stuck.Reset(w.api.cfg.WriteTimeout)
	defer w.stuck.Stop()
	return w.stream.Send(m)
}

// tell sends what changes until ctx ends.
func (w *watcher) tell(ctx context.Context) error {
	if w.watch.Resumed() {
		// Whoever goes on where nothing has changed knows so at once.
		now, cancel := context.WithCancel(ctx)
		cancel()
		changes, revision, resync, err := w.watch.Next(now, turnChanges)
		if ctx.Err() == nil && errors.Is(err, context.Canceled) {
			err = w.send(&controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_SYNCED})
		} else if err == nil {
			err = w.turn(changes, revision, resync)
		}
		if err != nil {
			return err
		}
	}
	for {
		changes, revision, resync, err := w.watch.Next(ctx, turnChanges)
		if err != nil {
			return err
		}
		if err := w.turn(changes, revision, resync); err != nil {
			return err
		}
	}
}

// turn sends changes, or everything.
func (w *watcher) turn(changes []push.Change, revision int64, resync bool) error {
	if resync {
		if err := w.send(&controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_RESYNC}); err != nil {
			return err
		}
	}
	for i := range changes {
		c := &changes[i]
		m, err := w.message(c)
		if err != nil {
			return err
		}
		// Only the last change of a revision has a token: whoever comes back is told the
		// others again.
		if !resync && (i+1 == len(changes) || changes[i+1].Revision != c.Revision) {
			m.Token = w.watch.Token(c.Revision).String()
		}
		if err := w.send(m); err != nil {
			return err
		}
		w.watch.Sent(changes[i : i+1])
	}
	if resync {
		return w.send(&controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_SYNCED, Token: w.watch.Token(revision).String()})
	}
	return nil
}

// message makes of a change what the caller may know.
func (w *watcher) message(c *push.Change) (*controlpb.WatchResponse, error) {
	if c.Removed {
		return &controlpb.WatchResponse{
			Type:     controlpb.WatchResponse_TYPE_REMOVE,
			Resource: &controlpb.Resource{Ref: format.Ref(c.Ref), Version: c.Version, Revision: c.Changed},
		}, nil
	}
	m, err := w.api.written.write(itemOf(c.Ref, c.Changed, c.Version, c.Body, c.Resource))
	if err != nil {
		return nil, err
	}
	// Messages have no gray release: without its content, they are what everybody has.
	if one, released := w.watch.Config(c); one != nil && (one.Secret || *released) {
		m = proto.CloneOf(m)
		m.GetConfig().Content, m.GetConfig().Released = one.Content, released != nil && *released
		if one.Secret && !w.caller.May(access.Secrets, c.Namespace) {
			m.Tag = "" // it is of the content, which could be guessed by it
		}
	}
	return &controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_PUT, Resource: m}, nil
}

// hear notes what the caller has made of what it was told. nil is that it says no more.
func (w *watcher) hear(ctx context.Context) error {
	for {
		q, err := w.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m := q.GetAck()
		if m == nil || w.client == "" {
			return plane.BadParameterf("a request after the first must be an ack, of a client with a name")
		}
		r, err := readRef(m.GetRef())
		if err != nil {
			return err
		}
		a := push.Ack{Ref: r, Version: m.GetVersion(), State: push.Applied}
		if m.GetRefused() {
			a.State, a.Reason = push.Refused, m.GetReason()
		}
		if a.Version < 1 {
			return plane.BadParameterf("ack.version: must be a number from 1")
		}
		_, never, err := w.api.plane.Ack(ctx, w.caller, w.client, []push.Ack{a})
		if err != nil {
			return err
		}
		if never[0] != nil {
			return withCode(codes.OutOfRange, &plane.Problem{Kind: plane.NotValid, Detail: "ack.version: " + never[0].Error()})
		}
	}
}
