package message

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// kinds maps the messages' kinds to those of resources.
var kinds = map[controlpb.Kind]resource.Kind{
	controlpb.Kind_KIND_POLICY: resource.Policies, controlpb.Kind_KIND_CONFIG: resource.Configs, controlpb.Kind_KIND_INSTANCE: resource.Instances,
	controlpb.Kind_KIND_SESSION: resource.Sessions, controlpb.Kind_KIND_LOCK: resource.Locks, controlpb.Kind_KIND_COUNTER: resource.Counters,
}

// Kind returns the kind that a message names, if any.
func Kind(k controlpb.Kind) (kind resource.Kind, ok bool) {
	kind, ok = kinds[k]
	return kind, ok
}

// Ref makes a message of a reference.
func Ref(r resource.Ref) *controlpb.Ref {
	m := &controlpb.Ref{Namespace: r.Namespace, Name: r.Name, Id: r.ID}
	for name, kind := range kinds {
		if kind == r.Kind {
			m.Kind = name
		}
	}
	return m
}

// Of makes a message of a document. It shares maps and lists with it.
func Of(d *Document) *controlpb.Resource {
	change := d.Change()
	m := &controlpb.Resource{
		Ref: Ref(d.Ref), Version: d.Version, Revision: d.Revision, Tag: d.Tag, ChangedBy: change.By,
	}
	if !change.At.IsZero() {
		m.ChangedAtUnixNano = change.At.UnixNano()
	}
	switch {
	case d.Policy != nil:
		m.Document = &controlpb.Resource_Policy{Policy: OfPolicy(d.Policy)}
	case d.Config != nil:
		c := d.Config
		m.Document = &controlpb.Resource_Config{Config: &controlpb.Config{Labels: c.Labels, Content: []byte(c.Data()), ContentType: c.ContentType, Secret: c.Secret}}
	case d.Instance != nil:
		i := d.Instance
		one := &controlpb.Instance{
			Address: i.Address, Port: int32(i.Port), Zone: i.Zone, Weight: proto.Int32(int32(i.Weight)), Metadata: i.Metadata, //nolint:gosec // bounded when it was put
			Status: string(i.Status), TtlSeconds: i.TTL, DeregisterAfterSeconds: i.DeregisterAfter, Maintenance: i.Maintenance, Health: string(i.Health), Holder: i.Holder,
		}
		for n := range i.Checks {
			check := new(controlpb.Check)
			translate(&i.Checks[n], check)
			one.Checks = append(one.Checks, check)
		}
		for n := range i.Results {
			result := new(controlpb.CheckResult)
			translate(&i.Results[n], result)
			one.Results = append(one.Results, result)
		}
		m.Document = &controlpb.Resource_Instance{Instance: one}
	}
	switch d := d.Other.(type) {
	case *resource.Session:
		m.Document = &controlpb.Resource_Session{Session: &controlpb.Session{Name: d.Name, TtlSeconds: int32(d.TTL)}} //nolint:gosec // bounded when it was begun
	case *resource.Lock:
		m.Document = &controlpb.Resource_Lock{Lock: &controlpb.Lock{Session: d.Session, Holder: d.Holder, Value: d.Value, Token: d.Token, SinceUnixNano: d.Since.UnixNano()}}
	case *resource.Counter:
		m.Document = &controlpb.Resource_Counter{Counter: &controlpb.Counter{Value: d.Value}}
	}
	return m
}

// OfPolicy makes a message of a policy.
func OfPolicy(p *resource.Policy) *controlpb.Policy {
	m := new(controlpb.Policy)
	translate(struct {
		Labels map[string]string `json:"labels,omitempty"`
		Rules  []resource.Rule   `json:"rules"`
	}{p.Labels, p.Rules}, m)
	return m
}

// translate makes a message of a part of a resource that was checked. Both have the same names, so JSON leads from one
// to the other.
func translate(from any, to proto.Message) {
	text, err := json.Marshal(from)
	if err == nil {
		err = protojson.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("message: %T cannot be written: %v", from, err))
	}
}

// read is the other way.
func read(from proto.Message, to any) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// Policy makes a policy of a message, without its name.
func Policy(m *controlpb.Policy) (*resource.Policy, error) {
	p := &resource.Policy{Rules: []resource.Rule{}}
	return p, read(m, p)
}

// Config makes a configuration of a message, without its name.
func Config(m *controlpb.Config) *resource.Config {
	c := &resource.Config{Labels: m.GetLabels(), ContentType: m.GetContentType(), Secret: m.GetSecret()}
	c.SetData(string(m.GetContent()))
	return c
}

// Instance makes an instance of a message, without its name.
func Instance(m *controlpb.Instance) (*resource.Instance, error) {
	i := &resource.Instance{
		Address: m.GetAddress(), Port: int(m.GetPort()), Zone: m.GetZone(), Weight: resource.DefaultWeight, Metadata: m.GetMetadata(),
		Status: resource.Status(m.GetStatus()), TTL: m.GetTtlSeconds(), DeregisterAfter: m.GetDeregisterAfterSeconds(),
	}
	if m != nil && m.Weight != nil {
		i.Weight = int(m.GetWeight())
	}
	for _, one := range m.GetChecks() {
		i.Checks = append(i.Checks, resource.Check{})
		if err := read(one, &i.Checks[len(i.Checks)-1]); err != nil {
			return nil, err
		}
	}
	return i, nil
}
