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
	"dyno/services/control/message"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// batchChanges is about how many changes are taken from the queue at once.
const batchChanges = 256

// A watcher is one stream.
type watcher struct {
	api    *API
	stream grpc.BidiStreamingServer[controlpb.WatchRequest, controlpb.WatchResponse]
	caller plane.Caller
	watch  *plane.Watch
	client string // "" if it has no name
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
	// The return of this function ends the stream, which wakes goroutines in Send and Recv. So it waits for neither.
	sent := make(chan error, 1)
	a.streams.Go(func() {
		defer w.watch.Close()
		sent <- w.sendChanges(ctx)
	})
	heard := make(chan error, 1)
	a.streams.Go(func() { heard <- w.hear(ctx) })
	for {
		select {
		case err := <-sent:
			return err
		case err := <-heard:
			if err != nil {
				return err
			}
			heard = nil // the caller has closed its side, and still listens
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// query converts the message's query.
func query(q *controlpb.Query) plane.Query {
	var kinds []resource.Kind
	for _, k := range q.GetKinds() {
		kind, _ := message.Kind(k) // "" is refused
		kinds = append(kinds, kind)
	}
	return plane.Query{
		Namespace: cmp.Or(q.GetNamespace(), resource.DefaultNamespace), Kinds: kinds, Names: q.GetNames(), Prefix: q.GetPrefix(),
		Client: resource.Client{ID: q.GetClient(), Labels: q.GetLabels()}, Since: q.GetToken(),
	}
}

// send sends one message. It ends the stream of a caller that does not accept it in time.
func (w *watcher) send(m *controlpb.WatchResponse) error {
	w.stuck.Reset(w.api.cfg.WriteTimeout)
	defer w.stuck.Stop()
	return w.stream.Send(m)
}

// sendChanges sends changes until ctx ends.
func (w *watcher) sendChanges(ctx context.Context) error {
	if w.watch.Resumed() {
		// A caller that resumes without changes gets a message at once, and so knows that it is up to date.
		now, cancel := context.WithCancel(ctx)
		cancel()
		changes, revision, resync, err := w.watch.Next(now, batchChanges)
		if ctx.Err() == nil && errors.Is(err, context.Canceled) {
			err = w.send(&controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_SYNCED})
		} else if err == nil {
			err = w.sendBatch(changes, revision, resync)
		}
		if err != nil {
			return err
		}
	}
	for {
		changes, revision, resync, err := w.watch.Next(ctx, batchChanges)
		if err != nil {
			return err
		}
		if err := w.sendBatch(changes, revision, resync); err != nil {
			return err
		}
	}
}

// sendBatch sends a batch of changes, or a whole snapshot.
func (w *watcher) sendBatch(changes []push.Change, revision int64, resync bool) error {
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
		// Only the last change of a revision has a token: a caller that resumes gets the others again.
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

// message returns a change in the form that the caller may read.
func (w *watcher) message(c *push.Change) (*controlpb.WatchResponse, error) {
	if c.Removed {
		return &controlpb.WatchResponse{
			Type:     controlpb.WatchResponse_TYPE_REMOVE,
			Resource: &controlpb.Resource{Ref: message.Ref(c.Ref), Version: c.Version, Revision: c.Changed},
		}, nil
	}
	m, err := w.api.written.write(itemOf(c.Ref, c.Changed, c.Version, c.Body, c.Resource))
	if err != nil {
		return nil, err
	}
	// Messages have no gray release: without its content, they have the configuration of all clients.
	if one, released := w.watch.Config(c); one != nil && (one.Secret || *released) {
		m = proto.CloneOf(m)
		m.GetConfig().Content, m.GetConfig().Released = []byte(one.Data()), released != nil && *released
		if one.Secret && !w.caller.May(access.Secrets, c.Namespace) {
			m.Tag = "" // it covers the content: it would confirm a guess
		}
	}
	if one, _ := w.watch.Policy(c); one != nil {
		m = proto.CloneOf(m)
		m.Document = &controlpb.Resource_Policy{Policy: message.OfPolicy(one)}
	}
	return &controlpb.WatchResponse{Type: controlpb.WatchResponse_TYPE_PUT, Resource: m}, nil
}

// hear notes the caller's acknowledgements. It returns nil when the caller has closed its side.
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
		a := resource.Ack{Ref: r, Version: m.GetVersion(), State: resource.Applied}
		if m.GetRefused() {
			a.State, a.Reason = resource.Refused, m.GetReason()
		}
		if a.Version < 1 {
			return plane.BadParameterf("ack.version: must be a number from 1")
		}
		_, never, err := w.api.plane.Ack(ctx, w.caller, w.client, []resource.Ack{a})
		if err != nil {
			return err
		}
		if never[0] != nil {
			return withCode(codes.OutOfRange, &plane.Problem{Kind: plane.NotValid, Detail: "ack.version: " + never[0].Error()})
		}
	}
}
