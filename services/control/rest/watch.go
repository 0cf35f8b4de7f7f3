package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// turnChanges is how many changes are written at once, about.
const turnChanges = 256

// maxWait bounds a long poll.
const maxWait = 5 * time.Minute

// A watcher is one stream or long poll.
type watcher struct {
	*request
	watch  *plane.Watch
	who    resource.Client
	ledger string // "" where the client has no name
}

func watch(q *request) error {
	topics, err := q.topics()
	if err != nil {
		return err
	}
	who, err := q.client()
	if err != nil {
		return err
	}
	query := q.URL.Query()
	since := q.Header.Get("Last-Event-ID")
	if since == "" {
		since = query.Get("since")
	}
	wait, err := q.wait()
	if err != nil {
		return err
	}
	if q.api.watchers.Add(1) > int64(q.api.cfg.MaxWatchers) {
		q.api.watchers.Add(-1)
		return &refusal{http.StatusServiceUnavailable, "watchers", fmt.Sprintf("%d watch already", q.api.cfg.MaxWatchers), 5 * time.Second}
	}
	q.api.streams.Add(1)
	defer func() {
		q.api.watchers.Add(-1)
		q.api.streams.Done()
	}()
	w := &watcher{request: q, who: who}
	if w.watch, err = q.api.plane.Watch(topics, plane.ParseToken(since)); err != nil {
		return &refusal{http.StatusServiceUnavailable, "closed", err.Error(), time.Second}
	}
	defer w.watch.Close()
	if who.ID != "" {
		ledger, name := q.api.plane.Ledger(), q.ledgerName(who.ID)
		if ledger.Enter(name) {
			w.ledger = name
			defer func() { ledger.Leave(name, time.Now()) }()
		}
	}
	q.unhurried()
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	defer context.AfterFunc(q.api.ctx, cancel)()
	if strings.Contains(q.Header.Get("Accept"), streamBody) {
		return w.stream(ctx)
	}
	return w.poll(ctx, wait)
}

// wait reads how long a long poll may take.
func (q *request) wait() (time.Duration, error) {
	text := q.URL.Query().Get("wait")
	if text == "" {
		return 30 * time.Second, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds <= maxWait.Seconds()) {
		return 0, badParameter("wait: must be a number of seconds from 0 to %v", maxWait.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// topics reads what is watched: kinds, each in one namespace or in all, and perhaps by
// name.
func (q *request) topics() ([]push.Topic, error) {
	query := q.URL.Query()
	kinds := query["kind"]
	if len(kinds) == 0 {
		kinds = []string{string(resource.Policies), string(resource.Configs), string(resource.Instances)}
	}
	namespace := q.namespace()
	if err := q.may(access.Read, namespace); err != nil {
		return nil, err
	}
	if namespace == access.AllNamespaces {
		namespace = ""
	}
	list := make([]resource.Kind, len(kinds))
	for i, k := range kinds {
		list[i] = resource.Kind(k)
	}
	topics, err := plane.Topics(list, namespace, query["name"])
	if err != nil {
		return nil, badParameter("%v", err)
	}
	return topics, nil
}

// A told change is as watchers have it.
type told struct {
	Type string `json:"type"` // put or remove
	resource.Ref
	Version  int64           `json:"version"`
	Revision int64           `json:"revision"`
	Released *bool           `json:"released,omitempty"` // of a configuration, to a client with a name
	Resource json.RawMessage `json:"resource,omitempty"`
}

// tell makes of a change what the watcher may know.
func (w *watcher) tell(c push.Change) (told, error) {
	t := told{Type: "put", Ref: c.Ref, Version: c.Version, Revision: c.Revision, Resource: c.Body}
	if c.Removed {
		t.Type, t.Resource = "remove", nil
		return t, nil
	}
	config, ok := c.Resource.(*resource.Config)
	if !ok {
		return t, nil
	}
	secret := config.Secret && !w.principal.May(access.Secrets, c.Namespace)
	if !secret && (w.who.ID == "" && len(w.who.Labels) == 0) {
		return t, nil
	}
	one := *config
	if w.who.ID != "" || len(w.who.Labels) > 0 {
		content, released := config.For(w.who)
		one.Content, one.Release, t.Released = content, nil, &released
	}
	if secret {
		one = one.Masked()
	}
	var err error
	t.Resource, err = json.Marshal(one)
	return t, err
}

// sent notes in the ledger what a client was sent.
func (w *watcher) sent(changes []push.Change) {
	if w.ledger == "" {
		return
	}
	now := time.Now()
	for i := range changes {
		w.api.plane.Ledger().Sent(w.ledger, &changes[i], now)
	}
}

// unhurried takes the server's deadlines off a connection: they are for requests that
// are answered at once. Reading the next request and each write have their own.
func (q *request) unhurried() {
	control := http.NewResponseController(q.w)
	_ = control.SetReadDeadline(time.Time{})  // a connection that knows none has none
	_ = control.SetWriteDeadline(time.Time{}) // the same
}

// deadline bounds the next write.
func (q *request) deadline() error {
	err := http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(q.api.cfg.WriteTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // only the end of the connection ends a write then
	}
	return err
}

// stream writes server-sent events (HTML standard, section 9.2) until the client goes or
// takes nothing for WriteTimeout.
//
// The first event, and any after which the client has to begin anew, is "resync": it
// forgets what it knows, its token too (its id is empty), and is told everything, which
// ends with "synced": whoever is cut off in between begins anew. An event's id is a token;
// only the last of a revision has one, so that whoever comes back is told the others again.
func (w *watcher) stream(ctx context.Context) error {
	h := w.w.Header()
	h.Set("Content-Type", streamBody)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.begun = true
	w.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w.w)
	// flush returns false when the client has gone, or takes nothing.
	flush := func(b *bytes.Buffer) bool {
		if w.deadline() != nil {
			return false
		}
		if _, err := w.w.Write(b.Bytes()); err != nil {
			return false
		}
		b.Reset()
		return control.Flush() == nil
	}
	var b bytes.Buffer
	if !flush(&b) {
		return nil
	}
	// Whoever goes on where nothing has changed has a comment at once, and knows so.
	heartbeat := time.Duration(0)
	for {
		turn, cancel := context.WithTimeout(ctx, heartbeat)
		heartbeat = w.api.cfg.Heartbeat
		changes, revision, resync, err := w.watch.Next(turn, turnChanges)
		idle := turn.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case resync:
			b.WriteString("id: \nevent: resync\ndata: {}\n\n")
			for len(changes) > 0 {
				some := changes[:min(turnChanges, len(changes))]
				changes = changes[len(some):]
				if err := w.events(&b, some, false); err != nil {
					return err
				}
				if !flush(&b) {
					return nil
				}
				w.sent(some)
			}
			fmt.Fprintf(&b, "id: %s\nevent: synced\ndata: {\"revision\":%d}\n\n", w.watch.Token(revision), revision)
		case err != nil && idle:
			b.WriteString(":\n")
		case err != nil:
			return nil //nolint:nilerr // the client or the API ends
		default:
			if err := w.events(&b, changes, true); err != nil {
				return err
			}
		}
		if !flush(&b) {
			return nil
		}
		w.sent(changes)
	}
}

// events appends changes.
func (w *watcher) events(b *bytes.Buffer, changes []push.Change, ids bool) error {
	for i, c := range changes {
		t, err := w.tell(c)
		if err != nil {
			return err
		}
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if ids && (i+1 == len(changes) || changes[i+1].Revision != c.Revision) {
			fmt.Fprintf(b, "id: %s\n", w.watch.Token(c.Revision))
		}
		fmt.Fprintf(b, "event: %s\ndata: %s\n\n", t.Type, data)
	}
	return nil
}

// poll answers when there is something to tell, or wait is over.
func (w *watcher) poll(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changes, revision, resync, err := w.watch.Next(ctx, turnChanges)
	next := w.watch.Known()
	switch {
	case resync:
		next.Revision = revision
	case errors.Is(err, push.ErrClosed) || w.api.ctx.Err() != nil:
		return &refusal{http.StatusServiceUnavailable, "closed", "the server ends", time.Second}
	case err == nil:
		next.Revision = changes[len(changes)-1].Revision
	}
	out := struct {
		Resync  bool   `json:"resync"`
		Changes []told `json:"changes"`
		Next    string `json:"next"`
	}{resync, make([]told, len(changes)), next.String()}
	for i, c := range changes {
		if out.Changes[i], err = w.tell(c); err != nil {
			return err
		}
	}
	w.sent(changes)
	if err := w.deadline(); err != nil {
		return err
	}
	return w.json(http.StatusOK, out)
}
