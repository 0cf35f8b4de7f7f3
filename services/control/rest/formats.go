package rest

import (
	"fmt"
	"strings"

	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// accepted returns the response's format by the Accept field; nil is JSON.
func (q *request) accepted() format.Format {
	field := q.Header.Get("Accept")
	if field == "" || field == "*/*" || field == jsonBody || strings.Contains(field, "text/html") {
		return nil // as nearly all requests
	}
	return q.api.cfg.Formats.Accepted(field)
}

// formatted decodes a resource in a format other than JSON.
func (q *request) formatted(f format.Format, into any) error {
	switch into.(type) {
	case *resource.Policy, *resource.Config, *resource.Instance:
	default:
		return &plane.Problem{Kind: wrongMedia, Detail: fmt.Sprintf("%s is for resources only: want application/json", f.MediaTypes()[0])}
	}
	text, err := q.bytes()
	if err != nil {
		return err
	}
	d, err := format.Decode(f, text)
	if err != nil {
		return err
	}
	var kind resource.Kind
	ok := false
	switch into := into.(type) {
	case *resource.Policy:
		kind, ok = resource.Policies, taken(into, d.Policy)
	case *resource.Config:
		kind, ok = resource.Configs, taken(into, d.Config)
	case *resource.Instance:
		kind, ok = resource.Instances, taken(into, d.Instance)
	}
	if !ok || d.Ref.Kind != "" && d.Ref.Kind != kind {
		return resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("must be a %s", kind)}}
	}
	return nil
}

// taken copies a resource, if the message has one of that kind.
func taken[T any](into, from *T) bool {
	if from == nil {
		return false
	}
	*into = *from
	return true
}
