// Package message makes messages of Protocol Buffers of resources, and resources of messages (rpc/control.proto).
package message

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// Kind returns the kind that a message names, if any: both have the same names.
func Kind(k controlpb.Kind) (kind resource.Kind, ok bool) {
	kind = resource.Kind(strings.ToLower(strings.TrimPrefix(k.String(), prefix)))
	return kind, kind.Traits().Kind == kind
}

const prefix = "KIND_"

// Ref makes a message of a reference.
func Ref(r resource.Ref) *controlpb.Ref {
	return &controlpb.Ref{Kind: controlpb.Kind(controlpb.Kind_value[prefix+strings.ToUpper(string(r.Kind))]), Namespace: r.Namespace, Name: r.Name, Id: r.ID}
}

// Of makes a message of a resource. It shares maps and lists with it.
func Of(r resource.Ref, version, revision int64, tag string, doc resource.Document) *controlpb.Resource {
	change := doc.Changed()
	m := &controlpb.Resource{Ref: Ref(r), Version: version, Revision: revision, Tag: tag, ChangedBy: change.By}
	if !change.At.IsZero() {
		m.ChangedAtUnixNano = change.At.UnixNano()
	}
	switch d := doc.(type) {
	case *resource.Policy:
		m.Document = &controlpb.Resource_Policy{Policy: OfPolicy(d)}
	case *resource.Config: // without its release
		m.Document = &controlpb.Resource_Config{Config: &controlpb.Config{Labels: d.Labels, Content: []byte(d.Data()), ContentType: d.ContentType, Secret: d.Secret}}
	case *resource.Instance:
		one := &controlpb.Instance{
			Address: d.Address, Port: int32(d.Port), Zone: d.Zone, Weight: proto.Int32(int32(d.Weight)), Metadata: d.Metadata, //nolint:gosec // bounded when it was put
			Status: string(d.Status), TtlSeconds: d.TTL, DeregisterAfterSeconds: d.DeregisterAfter, Maintenance: d.Maintenance, Health: string(d.Health), Holder: d.Holder,
		}
		for n := range d.Checks {
			one.Checks = append(one.Checks, new(controlpb.Check))
			Translate(&d.Checks[n], one.Checks[n])
		}
		for n := range d.Results {
			one.Results = append(one.Results, new(controlpb.CheckResult))
			Translate(&d.Results[n], one.Results[n])
		}
		m.Document = &controlpb.Resource_Instance{Instance: one}
	case *resource.Session:
		m.Document = &controlpb.Resource_Session{Session: &controlpb.Session{Name: d.Name, TtlSeconds: int32(d.TTL)}} //nolint:gosec // bounded when it was begun
	case *resource.Lock:
		m.Document = &controlpb.Resource_Lock{Lock: &controlpb.Lock{Session: d.Session, Holder: d.Holder, Value: d.Value, Token: d.Token, SinceUnixNano: d.Since.UnixNano()}}
	case *resource.Counter:
		m.Document = &controlpb.Resource_Counter{Counter: &controlpb.Counter{Value: d.Value}}
	case *resource.Principal:
		one := new(controlpb.Principal)
		Translate(d, one)
		m.Document = &controlpb.Resource_Principal{Principal: one}
	case *resource.Role:
		one := new(controlpb.Role)
		Translate(d, one)
		m.Document = &controlpb.Resource_Role{Role: one}
	}
	return m
}

// OfPolicy makes a message of a policy.
func OfPolicy(p *resource.Policy) *controlpb.Policy {
	m := new(controlpb.Policy)
	Translate(struct {
		Labels map[string]string `json:"labels,omitempty"`
		Rules  []resource.Rule   `json:"rules"`
	}{p.Labels, p.Rules}, m)
	return m
}

// Translate makes a message of what the control plane has. Fields of both have the same names, so JSON leads from one to
// the other.
func Translate(from any, to proto.Message) {
	text, err := json.Marshal(from)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("message: %T cannot be written: %v", from, err))
	}
}

// read is the other way.
func read(from proto.Message, to any) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return resource.Invalid{{Pointer: "#", Detail: err.Error()}}
	}
	return nil
}

// Document makes a resource of a message, with the names of its reference; nil if it is of no kind that clients put.
func Document(r resource.Ref, m proto.Message) (doc resource.Document, err error) {
	switch m := m.(type) {
	case *controlpb.Policy:
		p := &resource.Policy{Rules: []resource.Rule{}}
		doc, err = p, read(m, p)
	case *controlpb.Config:
		c := &resource.Config{Labels: m.GetLabels(), ContentType: m.GetContentType(), Secret: m.GetSecret()}
		c.SetData(string(m.GetContent()))
		doc = c
	case *controlpb.Counter:
		doc = &resource.Counter{Value: m.GetValue()}
	case *controlpb.Principal:
		p := new(resource.Principal)
		doc, err = p, read(m, p)
		p.Tokens = nil // they are made and revoked by themselves
	case *controlpb.Role:
		one := &resource.Role{Grants: []resource.Grant{}}
		doc, err = one, read(m, one)
	case *controlpb.Instance:
		i := &resource.Instance{
			Address: m.GetAddress(), Port: int(m.GetPort()), Zone: m.GetZone(), Weight: resource.DefaultWeight, Metadata: m.GetMetadata(),
			Status: resource.Status(m.GetStatus()), TTL: m.GetTtlSeconds(), DeregisterAfter: m.GetDeregisterAfterSeconds(),
		}
		if m != nil && m.Weight != nil {
			i.Weight = int(m.GetWeight())
		}
		for n, one := range m.GetChecks() {
			i.Checks = append(i.Checks, resource.Check{})
			err = cmp.Or(err, read(one, &i.Checks[n]))
		}
		doc = i
	}
	namespace, name, id := resource.NamesOf(doc)
	for _, one := range []struct {
		at   *string
		text string
	}{{namespace, r.Namespace}, {name, r.Name}, {id, r.ID}} {
		if one.at != nil {
			*one.at = one.text
		}
	}
	return doc, err
}
