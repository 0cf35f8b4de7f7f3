// Package format writes and reads resources in the formats that clients may choose instead of JSON. The control plane
// has Protocol Buffers: a resource is dyno.control.v1.Resource (rpc/control.proto). Programs that measure formats add
// implementations of Format.
package format

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/services/control/resource"
)

// A Format encodes resources, other than in JSON. Its methods may be called from any goroutine.
type Format interface {
	// MediaTypes are the format's names; responses have the first.
	MediaTypes() []string
	// Append appends a document to dst.
	Append(dst []byte, d *Document) ([]byte, error)
	// Decode parses a document from an untrusted client. The size of the result must be bounded.
	Decode(text []byte) (*Document, error)
}

// Formats are those that clients may choose instead of JSON.
type Formats []Format

// Of returns the format that a media type names; nil is JSON.
func (l Formats) Of(mediaType string) (f Format, ok bool) {
	for _, f := range l {
		if slices.ContainsFunc(f.MediaTypes(), func(name string) bool { return strings.EqualFold(name, mediaType) }) {
			return f, true
		}
	}
	return nil, strings.EqualFold(mediaType, "application/json")
}

// Accepted chooses a format by an Accept field (RFC 9110, section 12.5.1). It takes the named format of the highest
// weight, the first among equals; a range of all types means JSON. If none is left, it takes JSON, which every client
// reads. JSON is nil.
func (l Formats) Accepted(field string) Format {
	var best Format
	weight := 0.0
	for one := range strings.SplitSeq(field, ",") {
		name, parameters, _ := strings.Cut(one, ";")
		name = strings.TrimSpace(name)
		f, ok := l.Of(name)
		if name == "*/*" || strings.EqualFold(name, "application/*") {
			f, ok = nil, true
		}
		if !ok {
			continue
		}
		if q := weightOf(parameters); q > weight {
			best, weight = f, q
		}
	}
	return best
}

// weightOf parses the weight among parameters; it is 1 without a valid one.
func weightOf(parameters string) float64 {
	for one := range strings.SplitSeq(parameters, ";") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(one), "q="); ok {
			if q, err := strconv.ParseFloat(text, 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
		}
	}
	return 1
}

// A Document is a resource with its metadata. One of Policy, Config and Instance is set; none if it was removed.
type Document struct {
	Ref      resource.Ref
	Revision int64 // of the store, when it was last changed
	Version  int64
	Tag      string

	Policy   *resource.Policy
	Config   *resource.Config // without Release in Protocol Buffers
	Instance *resource.Instance
}

// New makes a document of a stored resource, from its JSON, or from parsed, if that is not nil. It has no tag yet.
func New(r resource.Ref, version, revision int64, parsed any, body []byte) (*Document, error) {
	d := &Document{Ref: r, Version: version, Revision: revision}
	if parsed == nil {
		var err error
		if parsed, err = resource.Parse(r.Kind, body); err != nil {
			return nil, fmt.Errorf("%s: %w", r, err)
		}
	}
	switch one := parsed.(type) {
	case *resource.Policy:
		d.Policy = one
	case *resource.Config:
		d.Config = one
	case *resource.Instance:
		d.Instance = one
	}
	return d, nil
}

// Change returns the resource's own record of its last change.
func (d *Document) Change() (c resource.Change) {
	switch {
	case d.Policy != nil:
		return d.Policy.Change
	case d.Config != nil:
		return d.Config.Change
	case d.Instance != nil:
		return d.Instance.Change
	}
	return c
}

// Decode parses a document of a client. It ignores fields that a client cannot set, such as the time of the change.
// The error is resource.Invalid.
func Decode(f Format, text []byte) (*Document, error) {
	d, err := f.Decode(text)
	if err == nil {
		err = d.plain()
	}
	if err != nil {
		return nil, resource.Invalid{{Pointer: "#", Detail: f.MediaTypes()[0] + ": " + err.Error()}}
	}
	return d, nil
}

// plain removes all fields that a client cannot set. The resource's Check validates the rest, text included, for all
// formats.
func (d *Document) plain() error {
	switch {
	case d.Policy != nil:
		p := d.Policy
		p.Namespace, p.Name, p.Change, p.Release = d.Ref.Namespace, d.Ref.Name, resource.Change{}, nil
		if p.Rules == nil {
			p.Rules = []resource.Rule{}
		}
	case d.Config != nil:
		c := d.Config
		c.Namespace, c.Name, c.Change, c.Release = d.Ref.Namespace, d.Ref.Name, resource.Change{}, nil
	case d.Instance != nil:
		i := d.Instance
		i.Namespace, i.Service, i.ID, i.Change, i.Holder = d.Ref.Namespace, d.Ref.Name, d.Ref.ID, resource.Change{}, ""
	default:
		return errors.New("document: must be given")
	}
	return nil
}
