package format

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// kinds maps the messages' kinds to those of resources.
var kinds = map[controlpb.Kind]resource.Kind{
	controlpb.Kind_KIND_POLICY: resource.Policies, controlpb.Kind_KIND_CONFIG: resource.Configs, controlpb.Kind_KIND_INSTANCE: resource.Instances,
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

// Message makes a message of a document. It shares maps and lists with it.
func Message(d *Document) *controlpb.Resource {
	change := d.Change()
	m := &controlpb.Resource{
		Ref: Ref(d.Ref), Version: d.Version, Revision: d.Revision, Tag: d.Tag, ChangedBy: change.By,
	}
	if !change.At.IsZero() {
		m.ChangedAtUnixNano = change.At.UnixNano()
	}
	switch {
	case d.Policy != nil:
		m.Document = &controlpb.Resource_Policy{Policy: policyMessage(d.Policy)}
	case d.Config != nil:
		c := d.Config
		m.Document = &controlpb.Resource_Config{Config: &controlpb.Config{Labels: c.Labels, Content: c.Content, ContentType: c.ContentType, Secret: c.Secret}}
	case d.Instance != nil:
		i := d.Instance
		m.Document = &controlpb.Resource_Instance{Instance: &controlpb.Instance{
			Address: i.Address, Port: int32(i.Port), Zone: i.Zone, Weight: proto.Int32(int32(i.Weight)), Metadata: i.Metadata, //nolint:gosec // bounded when it was put
			Status: string(i.Status), TtlSeconds: i.TTL, Holder: i.Holder,
		}}
	}
	return m
}

func policyMessage(p *resource.Policy) *controlpb.Policy {
	m := &controlpb.Policy{Labels: p.Labels, Rules: make([]*controlpb.Rule, len(p.Rules))}
	for i := range p.Rules {
		r := &p.Rules[i]
		one := &controlpb.Rule{Action: string(r.Action), TimeoutSeconds: r.Timeout}
		if a := r.Match; len(a.Services)+len(a.Sources)+len(a.Methods)+len(a.PathPrefix)+len(a.Headers) > 0 {
			one.Match = &controlpb.Match{Services: a.Services, Sources: a.Sources, Methods: a.Methods, PathPrefix: a.PathPrefix, Headers: a.Headers}
		}
		if r.Limit != nil {
			one.Limit = &controlpb.RateLimit{RequestsPerSecond: r.Limit.PerSecond, Burst: small(r.Limit.Burst)}
		}
		for _, b := range r.Route {
			one.Route = append(one.Route, &controlpb.Backend{Service: b.Service, Weight: small(b.Weight)})
		}
		if r.Retry != nil {
			one.Retry = &controlpb.Retries{Attempts: small(r.Retry.Attempts), BackoffSeconds: r.Retry.Backoff}
		}
		m.Rules[i] = one
	}
	return m
}

// small converts a number that was checked when it was stored.
func small(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) } //nolint:gosec // so it is

// Policy makes a policy of a message, without its name. It shares maps and lists with it.
func Policy(m *controlpb.Policy) *resource.Policy {
	p := &resource.Policy{Labels: m.GetLabels(), Rules: make([]resource.Rule, len(m.GetRules()))}
	for i, r := range m.GetRules() {
		a := r.GetMatch()
		one := resource.Rule{
			Match: resource.Match{
				Services: a.GetServices(), Sources: a.GetSources(), Methods: a.GetMethods(), PathPrefix: a.GetPathPrefix(), Headers: a.GetHeaders(),
			},
			Action: resource.Action(r.GetAction()), Timeout: r.GetTimeoutSeconds(),
		}
		if l := r.GetLimit(); l != nil {
			one.Limit = &resource.RateLimit{PerSecond: l.GetRequestsPerSecond(), Burst: int(l.GetBurst())}
		}
		for _, b := range r.GetRoute() {
			one.Route = append(one.Route, resource.Backend{Service: b.GetService(), Weight: int(b.GetWeight())})
		}
		if t := r.GetRetry(); t != nil {
			one.Retry = &resource.Retries{Attempts: int(t.GetAttempts()), Backoff: t.GetBackoffSeconds()}
		}
		p.Rules[i] = one
	}
	return p
}

// Config makes a configuration of a message, without its name.
func Config(m *controlpb.Config) *resource.Config {
	return &resource.Config{Labels: m.GetLabels(), Content: m.GetContent(), ContentType: m.GetContentType(), Secret: m.GetSecret()}
}

// Instance makes an instance of a message, without its name.
func Instance(m *controlpb.Instance) *resource.Instance {
	i := &resource.Instance{
		Address: m.GetAddress(), Port: int(m.GetPort()), Zone: m.GetZone(),
		Weight: resource.DefaultWeight, Metadata: m.GetMetadata(), Status: resource.Status(m.GetStatus()), TTL: m.GetTtlSeconds(),
	}
	if m != nil && m.Weight != nil {
		i.Weight = int(m.GetWeight())
	}
	return i
}

// Protobuf is Protocol Buffers.
var Protobuf Format = protobuf{}

type protobuf struct{}

func (protobuf) MediaTypes() []string {
	return []string{"application/x-protobuf", "application/protobuf"}
}

var messages = proto.MarshalOptions{Deterministic: true} // equal documents have equal bytes

func (protobuf) Append(dst []byte, d *Document) ([]byte, error) {
	return messages.MarshalAppend(dst, Message(d))
}

func (protobuf) Decode(text []byte) (*Document, error) {
	m := new(controlpb.Resource)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the message is damaged: %w", err)
	}
	r := m.GetRef()
	kind, ok := Kind(r.GetKind())
	if !ok && r.GetKind() != controlpb.Kind_KIND_UNSPECIFIED {
		return nil, errors.New("ref.kind: is not a kind")
	}
	d := &Document{Ref: resource.Ref{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName(), ID: r.GetId()}}
	switch one := m.GetDocument().(type) {
	case *controlpb.Resource_Policy:
		d.Policy = Policy(one.Policy)
	case *controlpb.Resource_Config:
		d.Config = Config(one.Config)
	case *controlpb.Resource_Instance:
		d.Instance = Instance(one.Instance)
	}
	return d, nil
}
