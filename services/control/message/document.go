// Package message makes messages of Protocol Buffers of resources, and resources of messages (rpc/control.proto).
package message

import (
	"fmt"

	"dyno/services/control/resource"
)

// A Document is a resource with its metadata. One of the documents is set; none if it was removed.
type Document struct {
	Ref      resource.Ref
	Revision int64 // of the store, when it was last changed
	Version  int64
	Tag      string

	Policy   *resource.Policy
	Config   *resource.Config // without Release in Protocol Buffers
	Instance *resource.Instance
	Other    resource.Document // of other kinds
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
	case resource.Document:
		d.Other = one
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
	case d.Other != nil:
		return d.Other.Changed()
	}
	return c
}
