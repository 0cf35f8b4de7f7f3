package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// batchChanges is about how many changes are taken at once, and partBytes how many bytes are written at once. Each
// write has WriteTimeout, and many large documents may take a client's connection long.
const (
	batchChanges = 256
	partBytes    = 64 << 10
)

// maxWait bounds a long poll.
const maxWait = 5 * time.Minute

// A watcher is one stream or long poll.
type watcher struct {
	*request
	watch *plane.Watch
	began time.Time

	follower bool
	stated   time.Time      // when a follower was last sent a state
	overdue  *plane.Overdue // the last that it was sent; nil before
}

func watch(q *request) error {
	query, wait, err := q.watchQuery()
	if err != nil {
		return err
	}
	return q.watching(query, func(ctx context.Context, w *watcher) error {
		if wait >= 0 {
			return w.poll(ctx, wait)
		}
		if query.Since != "" {
			q.api.plane.Reconnected()
		}
		return w.stream(ctx)
	})
}

// watchQuery parses what is watched, and how long a poll may wait: a negative time asks for a stream. The frames of
// functions that a watch is in are kept as long as it lasts, so parsing has one of its own.
func (q *request) watchQuery() (*plane.Query, time.Duration, error) {
	who, err := q.client()
	if err != nil {
		return nil, 0, err
	}
	wait, err := q.wait()
	if err != nil {
		return nil, 0, err
	}
	follower, err := q.flag("follower")
	if err != nil {
		return nil, 0, err
	}
	values := q.query()
	selected := &plane.Query{
		Namespace: q.namespace(), Names: values["name"], Prefix: values.Get("prefix"), Client: who,
		Since: cmp.Or(q.Header.Get("Last-Event-ID"), values.Get("since")),
	}
	for _, k := range values["kind"] {
		selected.Kinds = append(selected.Kinds, resource.Kind(k))
	}
	if strings.Contains(q.Header.Get("Accept"), streamBody) {
		selected.Follower, wait = follower, -1
	}
	return selected, wait, nil
}

// watching carries out do with a watch, as one of a bounded number.
func (q *request) watching(query *plane.Query, do func(context.Context, *watcher) error) error {
	done, err := q.api.enter()
	if err != nil {
		return err
	}
	defer done()
	w, err := q.watcher(query)
	if err != nil {
		return err
	}
	defer w.watch.Close()
	return q.live(func(ctx context.Context) error { return do(ctx, w) })
}

// watcher begins a watch.
func (q *request) watcher(query *plane.Query) (w *watcher, err error) {
	w = &watcher{request: q, began: time.Now(), follower: query.Follower}
	w.watch, err = q.api.plane.Watch(q.Context(), q.caller, *query)
	return w, err
}

// live carries out do without the server's deadlines; afterwards the end of the response has one, which net/http writes
// after the handler. The context ends with the request, with the API, and when the caller's credentials or permissions
// change.
func (q *request) live(do func(context.Context) error) error {
	if err := q.clearDeadlines(); err != nil {
		return err
	}
	defer func() { _ = q.deadline() }() // a connection that is closed needs none
	ctx, cancel := context.WithCancelCause(q.Context())
	defer cancel(nil)
	defer context.AfterFunc(q.api.ctx, func() { cancel(push.ErrClosed) })()
	release, err := q.api.cfg.Gate.Hold(q.caller, cancel)
	defer release()
	if err != nil {
		return err
	}
	return do(ctx)
}

// enter counts a watcher until done is called, or refuses it if there are too many.
func (a *API) enter() (done func(), err error) {
	a.streams.Add(1)
	if a.watchers.Add(1) > int64(a.cfg.MaxWatchers) {
		a.watchers.Add(-1)
		a.streams.Done()
		return nil, &plane.Problem{Kind: plane.TooManyWatchers, Detail: fmt.Sprintf("%d watch already", a.cfg.MaxWatchers), After: 5 * time.Second}
	}
	return func() {
		a.watchers.Add(-1)
		a.streams.Done()
	}, nil
}

var waitRule = fmt.Sprint("a number of seconds from 0 to ", maxWait.Seconds())

// wait parses the duration of a long poll.
func (q *request) wait() (time.Duration, error) {
	seconds, err := parsed(q, "wait", 30, func(text string) (float64, error) {
		seconds, err := strconv.ParseFloat(text, 64)
		if !(seconds >= 0 && seconds <= maxWait.Seconds()) {
			err = strconv.ErrRange
		}
		return seconds, err
	}, waitRule)
	return time.Duration(seconds * float64(time.Second)), err
}

// waiting makes the handler of a read that first waits, with a token as since, for a change of what it reads.
func waiting(k resource.Kind, read func(*request) error) func(*request) error {
	return func(q *request) error {
		wait, err := q.wait()
		if err != nil {
			return err
		}
		if q.parameter("since") != "" {
			if err := q.await(k, wait); err != nil || q.Context().Err() != nil { // the client may have gone
				return err
			}
		}
		q.set(watchField, q.api.plane.Now().String())
		return read(q)
	}
}

// await waits until what the path and the prefix name has changed after since, or until wait is over.
func (q *request) await(k resource.Kind, wait time.Duration) error {
	scope := &plane.Query{Namespace: q.namespace(), Kinds: []resource.Kind{k}, Since: q.parameter("since")}
	if name := q.PathValue("name"); name != "" {
		scope.Names = []string{name}
	} else {
		scope.Prefix = q.parameter("prefix")
	}
	return q.watching(scope, func(ctx context.Context, w *watcher) error {
		bounded, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		err := w.watch.Wait(bounded, q.PathValue("id"))
		switch {
		case ctx.Err() != nil && q.Context().Err() == nil:
			return context.Cause(ctx)
		case err != nil && bounded.Err() == nil:
			return err
		}
		return nil
	})
}

// A changeEvent is a change in the form for watchers.
type changeEvent struct {
	Type string `json:"type"` // put or remove
	resource.Ref
	Version  int64           `json:"version"`
	Revision int64           `json:"revision"`
	Released *bool           `json:"released,omitempty"` // whether it has what a gray release has, if the client has a name
	Resource json.RawMessage `json:"resource,omitempty"`
}

// appendJSON appends the change as encoding/json would write it, in a fraction of the time: there is one for each
// watcher. It copies the document unchecked: the control plane stores documents on one line. A second line would end
// the event.
func (t *changeEvent) appendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, t.Type...)
	dst = append(dst, `","kind":"`...)
	dst = append(dst, t.Kind...)
	dst = resource.AppendText(append(dst, `","namespace":`...), t.Namespace)
	dst = resource.AppendText(append(dst, `,"name":`...), t.Name)
	if t.ID != "" {
		dst = resource.AppendText(append(dst, `,"id":`...), t.ID)
	}
	dst = strconv.AppendInt(append(dst, `,"version":`...), t.Version, 10)
	dst = strconv.AppendInt(append(dst, `,"revision":`...), t.Revision, 10)
	if t.Released != nil {
		dst = strconv.AppendBool(append(dst, `,"released":`...), *t.Released)
	}
	if len(t.Resource) > 0 {
		document := t.Resource
		if bytes.IndexByte(document, '\n') >= 0 || bytes.IndexByte(document, '\r') >= 0 {
			var err error
			if document, err = json.Marshal(document); err != nil {
				return dst, err
			}
		}
		dst = append(append(dst, `,"resource":`...), document...)
	}
	return append(dst, '}'), nil
}

// eventOf returns a change in the form that the watcher may read.
func (w *watcher) eventOf(c push.Change) (changeEvent, error) {
	t := changeEvent{Type: "put", Ref: c.Ref, Version: c.Version, Revision: c.Changed, Resource: c.Body}
	switch {
	case c.Removed:
		t.Type, t.Resource = "remove", nil
		return t, nil
	case w.watch.Withheld(&c):
		t.Type, t.Resource = "withhold", nil
		return t, nil
	}
	var err error
	if one, released := w.watch.Config(&c); one != nil {
		t.Released = released
		t.Resource, err = json.Marshal(one)
	}
	if one, released := w.watch.Policy(&c); one != nil {
		t.Released = &released
		t.Resource, err = json.Marshal(one)
	}
	return t, err
}

// clearDeadlines removes the server's deadlines from a connection: they are for requests that are answered at once.
// Reading the next request and each write have deadlines of their own. It reads a body first, although these requests
// need none: the server would later wait for it without end.
func (q *request) clearDeadlines() error {
	if q.ContentLength != 0 {
		if _, err := q.bytes(); err != nil {
			return err
		}
	}
	control := http.NewResponseController(q.w)
	_ = control.SetReadDeadline(time.Time{})  // a connection without support has no deadlines
	_ = control.SetWriteDeadline(time.Time{}) // a connection without support has no deadlines
	return nil
}

// deadline bounds the next write.
func (q *request) deadline() error {
	err := http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(q.api.cfg.WriteTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // without support, only the connection's end ends a write
	}
	return err
}

// events begins a stream of events. The returned function writes events; it returns false when the client has gone,
// or accepts nothing for WriteTimeout.
func (q *request) events() (flush func(*bytes.Buffer) bool) {
	h := q.w.Header()
	h.Set("Content-Type", streamBody)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	h.Set(heartbeatField, strconv.FormatFloat(q.api.cfg.Heartbeat.Seconds(), 'f', -1, 64))
	q.headerWritten = true
	q.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(q.w)
	return func(b *bytes.Buffer) bool {
		if q.deadline() != nil {
			return false
		}
		if _, err := q.w.Write(b.Bytes()); err != nil {
			return false
		}
		if b.Reset(); b.Cap() > 2*partBytes {
			*b = bytes.Buffer{} // do not keep a large buffer: the stream may be idle for long
		}
		err := control.Flush()
		_ = control.SetWriteDeadline(time.Time{}) // over HTTP/2 a deadline ends the stream, even without a write
		return err == nil
	}
}

// nothing is the token of a client without any state.
const nothing = "0"

// stream writes server-sent events (HTML standard, section 9.2) until the client goes or accepts nothing for
// WriteTimeout.
//
// The event "resync" is the first one, and begins every new snapshot. The client then forgets its state and its
// token; the snapshot follows, and ends with "synced". The id of "resync", which a browser sends as Last-Event-ID, is
// the token of a client without state. So a client that is cut off during a snapshot starts again. An empty id would
// not be sent, and the unchanged address may have an old token as since. An event's id is a token. Only the last
// event of a revision has one, so that a client that resumes gets the others again.
func (w *watcher) stream(ctx context.Context) error {
	flush := w.events()
	var b bytes.Buffer
	quiet := w.api.cfg.Heartbeat
	if w.follower {
		quiet = min(quiet, statePeriod)
		w.appendState(&b, false) // overdue instances come first, so that none is shown as healthy
	}
	if !flush(&b) {
		return nil
	}
	// A client that resumes without changes gets a comment at once, and so knows that it is up to date.
	t := newIdleContext(ctx, quiet)
	t.end()
	defer func() { t.end() }()
	for {
		changes, revision, resync, err := w.watch.Next(t, batchChanges)
		ended := t.Err() != nil
		idle := err != nil && ended && ctx.Err() == nil
		if ended {
			t.end()
			t = newIdleContext(ctx, quiet)
		} else {
			t.longer(quiet)
		}
		whole := !resync && len(changes) < batchChanges // nothing waits after these
		switch {
		case resync:
			b.WriteString("id: " + nothing + "\nevent: resync\ndata: {}\n\n")
		case err != nil && idle && !w.follower:
			b.WriteString(":\n")
		case err != nil && idle:
		case err != nil:
			return nil //nolint:nilerr // the client or the API ends
		}
		for len(changes) > 0 {
			n, err := w.append(&b, changes, !resync)
			if err != nil {
				return err
			}
			if n == len(changes) {
				break
			}
			if !flush(&b) {
				return nil
			}
			w.watch.Sent(changes[:n])
			changes = changes[n:]
		}
		if resync {
			fmt.Fprintf(&b, "id: %s\nevent: synced\ndata: {\"revision\":%d}\n\n", w.watch.Token(revision), revision)
		}
		if w.follower && whole && time.Since(w.stated) >= statePeriod {
			w.appendState(&b, true)
		}
		if !flush(&b) {
			return nil
		}
		w.watch.Sent(changes)
	}
}

// statePeriod is the pause between two states that a follower is sent.
const statePeriod = 500 * time.Millisecond

// appendState writes a plane.State for a follower.
func (w *watcher) appendState(b *bytes.Buffer, whole bool) {
	state := plane.State{Whole: whole, Seconds: time.Since(w.began).Seconds(), Age: w.api.plane.Age().Seconds(), Liveness: w.api.plane.Pulse()}
	if overdue := w.watch.Overdue(); w.overdue == nil || overdue != *w.overdue {
		state.Overdue, w.overdue = &overdue, &overdue
	}
	if whole {
		w.stated = time.Now()
	}
	text, _ := json.Marshal(state) // it cannot fail
	fmt.Fprintf(b, "event: state\ndata: %s\n\n", text)
}

// An idleContext ends with its stream, or after a quiet time. It is extended while there are changes: a context with
// a deadline for each change would cost as much as the write.
type idleContext struct {
	context.Context
	cancel context.CancelFunc
	alarm  *time.Timer
}

func newIdleContext(ctx context.Context, quiet time.Duration) *idleContext {
	t := &idleContext{}
	t.Context, t.cancel = context.WithCancel(ctx)
	t.alarm = time.AfterFunc(quiet, t.cancel)
	return t
}

// longer extends a context that has not ended by the quiet time.
func (t *idleContext) longer(quiet time.Duration) { t.alarm.Reset(quiet) }

func (t *idleContext) end() {
	t.alarm.Stop()
	t.cancel()
}

// append writes changes as events, up to partBytes, and returns their number.
func (w *watcher) append(b *bytes.Buffer, changes []push.Change, ids bool) (n int, err error) {
	for i, c := range changes {
		if b.Len() >= partBytes {
			return i, nil
		}
		t, err := w.eventOf(c)
		if err != nil {
			return i, err
		}
		if ids && (i+1 == len(changes) || changes[i+1].Revision != c.Revision) {
			b.WriteString("id: " + w.watch.Token(c.Revision).String() + "\n")
		}
		b.WriteString("event: " + t.Type + "\ndata: ")
		data, err := t.appendJSON(b.AvailableBuffer())
		if err != nil {
			return i, err
		}
		b.Write(data)
		b.WriteString("\n\n")
	}
	return len(changes), nil
}

// poll answers when there are changes, or wait is over.
func (w *watcher) poll(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changes, revision, resync, err := w.watch.Next(ctx, batchChanges)
	next := w.watch.Known()
	switch {
	case resync:
		next.Revision = revision
	case errors.Is(err, push.ErrClosed) || w.api.ctx.Err() != nil:
		return &plane.Problem{Kind: plane.Closed, Detail: "the server ends", After: time.Second}
	case err == nil:
		next.Revision = changes[len(changes)-1].Revision
	}
	out := struct {
		Resync  bool          `json:"resync"`
		Changes []changeEvent `json:"changes"`
		Next    string        `json:"next"`
	}{resync, make([]changeEvent, len(changes)), next.String()}
	for i, c := range changes {
		if out.Changes[i], err = w.eventOf(c); err != nil {
			return err
		}
	}
	w.watch.Sent(changes)
	if err := w.deadline(); err != nil {
		return err
	}
	return w.json(http.StatusOK, out)
}

// rolloutPeriod is the pause between two looks at a watched rollout: one event combines many acknowledgements.
const rolloutPeriod = 500 * time.Millisecond

// watchRollout writes a rollout as events, each with the whole rollout. The id is made from its contents: a client
// that resumes at an unchanged rollout gets nothing, from any replica.
func watchRollout(q *request, r resource.Ref, page plane.Page) error {
	done, err := q.api.enter()
	if err != nil {
		return err
	}
	defer done()
	seen := q.api.plane.RolloutMark()
	out, err := q.api.plane.Rollout(q.Context(), q.caller, r, page.Limit)
	if err != nil {
		return err
	}
	return q.live(func(ctx context.Context) error { return q.rolloutEvents(ctx, r, page.Limit, seen, out) })
}

// rolloutEvents writes a rollout each time that it has changed since it was seen.
func (q *request) rolloutEvents(ctx context.Context, r resource.Ref, limit int, seen plane.RolloutMark, out resource.Rollout) error {
	flush := q.events()
	ticker := time.NewTicker(rolloutPeriod)
	defer ticker.Stop()
	var b bytes.Buffer
	b.WriteString(":\n")
	last, written := q.Header.Get("Last-Event-ID"), time.Now()
	for {
		data, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if id := resource.Tag(out.Version, data); id != last {
			fmt.Fprintf(&b, "id: %s\nevent: rollout\ndata: %s\n\n", id, data)
			last = id
		}
		for fresh := false; !fresh; {
			if b.Len() == 0 && time.Since(written) >= q.api.cfg.Heartbeat {
				b.WriteString(":\n")
			}
			if b.Len() > 0 {
				if !flush(&b) {
					return nil
				}
				written = time.Now()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			now := q.api.plane.RolloutMark()
			fresh, seen = now != seen, now
		}
		out, err = q.api.plane.Rollout(ctx, q.caller, r, limit)
		if missing := (*plane.NotFound)(nil); errors.As(err, &missing) {
			b.WriteString("event: removed\ndata: {}\n\n")
			flush(&b)
			return nil
		}
		if err != nil {
			return nil //nolint:nilerr // the client comes back, and is told why if it still is so
		}
	}
}
