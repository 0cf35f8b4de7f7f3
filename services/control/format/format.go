// Package format writes and reads resources in the formats that clients may choose beside JSON:
// Protocol Buffers, FlatBuffers and gob. Each has the form that is usual for it:
//
//   - Protocol Buffers: dyno.control.v1.Resource (rpc/control.proto). Events are WatchResponse, each
//     behind its length as a varint.
//   - FlatBuffers: controlfb.Resource (control.fbs). Events are controlfb.Event, each behind its length
//     in four bytes, little endian.
//   - gob: Document; events are a stream of Event. Package encoding/gob is not made for input that
//     means harm: whoever calls Decode decides whom to trust.
//
// What is read has a bounded size, and so has what it becomes: no text is taken that is not within
// the message, and none is taken so often that it would become more than MaxDecoded.
package format

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/services/control/resource"
)

// A Format is how resources are written.
type Format int

// The formats.
const (
	JSON Format = iota
	Protobuf
	FlatBuffers
	Gob
)

// mediaTypes are the formats' names, the one that answers have first.
var mediaTypes = [...][]string{
	JSON:        {"application/json"},
	Protobuf:    {"application/x-protobuf", "application/protobuf"},
	FlatBuffers: {"application/x-flatbuffers"},
	Gob:         {"application/x-gob"},
}

// MediaType is the format's name in an answer.
func (f Format) MediaType() string { return mediaTypes[f][0] }

func (f Format) String() string {
	return [...]string{"JSON", "Protocol Buffers", "FlatBuffers", "gob"}[f]
}

// Of returns the format that a media type names.
func Of(mediaType string) (f Format, ok bool) {
	for f, names := range mediaTypes {
		for _, n := range names {
			if strings.EqualFold(n, mediaType) {
				return Format(f), true
			}
		}
	}
	return JSON, false
}

// Accepted chooses by an Accept field (RFC 9110, section 12.5.1): of the formats it names, the one of
// the highest weight, and of equals the first named; a range of all is JSON. Gob is chosen only for those who are trusted. Where no
// format is left it is JSON, which everybody reads.
func Accepted(field string, trusted bool) Format {
	best, weight := JSON, 0.0
	for one := range strings.SplitSeq(field, ",") {
		name, parameters, _ := strings.Cut(one, ";")
		name = strings.TrimSpace(name)
		f, ok := Of(name)
		if name == "*/*" || strings.EqualFold(name, "application/*") {
			f, ok = JSON, true
		}
		if !ok || f == Gob && !trusted {
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
	Config   *resource.Config // without its Release but in gob
	Instance *resource.Instance
	Released bool // the content is a gray release's; it is said in watches only
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

// change is what the resource itself says of its last change.
func (d *Document) change() (c resource.Change) {
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

// A Type is what an event says.
type Type string

// The types, as in rpc/control.proto.
const (
	Resync Type = "resync"
	Synced Type = "synced"
	Put    Type = "put"
	Remove Type = "remove"
)

// An Event is what a watch is told.
type Event struct {
	Type     Type
	Document *Document // of Put and Remove
	Token    string    // "" keeps the one before
}

// MaxDecoded bounds the bytes of what one message becomes: as much as JSON may make of a document.
const MaxDecoded = 2 * resource.MaxDocument

var (
	errFormat  = errors.New("format: there is no encoder for it")
	errDamaged = errors.New("the message is damaged")
	errTwice   = errors.New("a map has a key twice")
	errLarge   = fmt.Errorf("the message becomes more than %d bytes", MaxDecoded)
)

// Append writes a document behind dst.
func (f Format) Append(dst []byte, d *Document) ([]byte, error) {
	switch f {
	case Protobuf:
		return appendMessage(dst, d)
	case FlatBuffers:
		return append(dst, buildDocument(d)...), nil
	case Gob:
		return appendGob(dst, d)
	}
	return dst, errFormat
}

// AppendEvents writes events behind dst, in order.
func (f Format) AppendEvents(dst []byte, events []Event) ([]byte, error) {
	switch f {
	case Protobuf:
		return appendMessages(dst, events)
	case FlatBuffers:
		return appendTables(dst, events), nil
	case Gob:
		return appendGobs(dst, events)
	}
	return dst, errFormat
}

// Decode reads a document that somebody wants to be kept. What a client cannot say, such as
// when it was changed, is left out. The error is resource.Invalid.
func (f Format) Decode(text []byte) (*Document, error) {
	var d *Document
	err := errFormat
	switch f {
	case Protobuf:
		d, err = readMessage(text)
	case FlatBuffers:
		d, err = readDocument(text)
	case Gob:
		d, err = readGob(text)
	}
	if err == nil {
		err = d.plain()
	}
	if err != nil {
		return nil, resource.Invalid{{Pointer: "#", Detail: f.String() + ": " + err.Error()}}
	}
	return d, nil
}

// plain leaves only what a client may say, and checks that all is text as in JSON.
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
	if !d.valid() {
		return errors.New("all text must be UTF-8")
	}
	return nil
}

// valid tells whether all text that is kept is UTF-8: JSON would replace what is not.
func (d *Document) valid() bool {
	ok := true
	texts := func(list ...string) {
		for _, s := range list {
			ok = ok && utf8.ValidString(s)
		}
	}
	pairs := func(m map[string]string) {
		for k, v := range m {
			texts(k, v)
		}
	}
	texts(d.Ref.Namespace, d.Ref.Name, d.Ref.ID)
	switch {
	case d.Policy != nil:
		pairs(d.Policy.Labels)
		for _, r := range d.Policy.Rules {
			texts(string(r.Action), r.Match.PathPrefix)
			texts(r.Match.Services...)
			texts(r.Match.Methods...)
			pairs(r.Match.Sources)
			pairs(r.Match.Headers)
			for _, b := range r.Route {
				texts(b.Service)
			}
		}
	case d.Config != nil:
		pairs(d.Config.Labels)
		texts(d.Config.Content, d.Config.ContentType)
	case d.Instance != nil:
		pairs(d.Instance.Metadata)
		texts(d.Instance.Address, d.Instance.Zone, string(d.Instance.Status))
	}
	return ok
}
