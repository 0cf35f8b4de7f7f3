// Package format writes and reads resources in the formats that clients may choose instead of JSON. The
// control plane has Protocol Buffers: a resource is dyno.control.v1.Resource (rpc/control.proto). Programs
// that measure others give the server further implementations of Format.
package format

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/services/control/resource"
)

// A Format is how resources are written, other than in JSON. Its methods may be called from any goroutine.
type Format interface {
	// MediaTypes are the format's names, the one that answers have first.
	MediaTypes() []string
	// Append writes a document behind dst.
	Append(dst []byte, d *Document) ([]byte, error)
	// Decode reads a document from anybody. What it makes of the text must have a bounded size.
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

// Accepted chooses by an Accept field (RFC 9110, section 12.5.1): of the formats it names, the one of
// the highest weight, and of equals the first named; a range of all is JSON. Where no format is left it
// is JSON, which everybody reads. JSON is nil.
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

// weightOf reads the weight among parameters; without one that is understood it is 1.
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

// A Document is a resource with what is said of it. Of Policy, Config and Instance one is set; none where
// it was removed.
type Document struct {
	Ref      resource.Ref
	Revision int64 // of the store, when it was last changed
	Version  int64
	Tag      string

	Policy   *resource.Policy
	Config   *resource.Config // Protocol Buffers leave its Release out
	Instance *resource.Instance
}

// New makes a document of a resource as it is kept: of its JSON, or of what that was parsed to, if that is not nil. It
// has no tag yet.
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

// Change is what the resource itself says of its last change.
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

// Decode reads a document that somebody wants to be kept. What a client cannot say, such as
// when it was changed, is left out. The error is resource.Invalid.
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

// plain leaves only what a client may say. Whether that is right, text included, the Check of each
// resource finds out, whatever it came in.
func (d *Document) plain() error {
	switch {
	case d.Policy != nil:
		p := d.Policy
		p.Namespace, p.Name, p.Change = d.Ref.Namespace, d.Ref.Name, resource.Change{}
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
