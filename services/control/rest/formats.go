package rest

import (
	"fmt"
	"net/http"
	"strings"

	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// accepted is the format that the client has chosen for the answer; nil is JSON.
func (q *request) accepted() format.Format {
	field := q.Header.Get("Accept")
	if field == "" || field == "*/*" || field == jsonBody || strings.Contains(field, "text/html") {
		return nil // as nearly all
	}
	return q.api.cfg.Formats.Accepted(field)
}

// formatted reads a resource in another format than JSON.
func (q *request) formatted(f format.Format, into any) error {
	text, err := q.bytes()
	if err != nil {
		return err
	}
	var kind resource.Kind
	switch into.(type) {
	case *resource.Policy:
		kind = resource.Policies
	case *resource.Config:
		kind = resource.Configs
	case *resource.Instance:
		kind = resource.Instances
	default:
		return &plane.Problem{Kind: wrongMedia, Detail: fmt.Sprintf("%s is for resources only: want application/json", f.MediaTypes()[0])}
	}
	d, err := format.Decode(f, text)
	if err != nil {
		return err
	}
	ok := d.Ref.Kind == "" || d.Ref.Kind == kind
	switch into := into.(type) {
	case *resource.Policy:
		if ok = ok && d.Policy != nil; ok {
			*into = *d.Policy
		}
	case *resource.Config:
		if ok = ok && d.Config != nil; ok {
			*into = *d.Config
		}
	case *resource.Instance:
		if ok = ok && d.Instance != nil; ok {
			*into = *d.Instance
		}
	}
	if !ok {
		return resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("must be a %s", kind)}}
	}
	return nil
}

// answer answers a long poll in another format than JSON: a snapshot begins with a resync, and
// the last event has the token for the next poll.
func (w *watcher) answer(f format.Format, changes []push.Change, resync bool, next plane.Token) error {
	var list []format.Event
	if resync {
		list = append(list, format.Event{Type: format.Resync})
	}
	for _, c := range changes {
		e := format.Event{Type: format.Put}
		if c.Removed {
			e.Type, e.Document = format.Remove, &format.Document{Ref: c.Ref, Version: c.Version, Revision: c.Changed}
			list = append(list, e)
			continue
		}
		var err error
		if e.Document, err = format.New(c.Ref, c.Version, c.Changed, nil, c.Body); err != nil {
			return err
		}
		e.Document.Tag = resource.Tag(c.Version, c.Body)
		if one, released := w.watch.Config(&c); one != nil {
			e.Document.Config, e.Document.Released = one, released != nil && *released
			e.Document.Tag = "" // it is of all there is, which could be guessed by it
		}
		list = append(list, e)
	}
	list = append(list, format.Event{Type: format.Synced, Token: next.String()})
	body, err := f.AppendEvents(nil, list)
	if err != nil {
		return err
	}
	w.watch.Sent(changes)
	if err := w.deadline(); err != nil {
		return err
	}
	return w.write(http.StatusOK, f.MediaTypes()[0], body)
}
