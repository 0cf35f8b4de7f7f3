package rpc

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// kindNames are the kinds as both sides have them.
var kindNames = map[controlpb.Kind]resource.Kind{
	controlpb.Kind_KIND_POLICY: resource.Policies, controlpb.Kind_KIND_CONFIG: resource.Configs, controlpb.Kind_KIND_INSTANCE: resource.Instances,
}

func kindOf(k resource.Kind) controlpb.Kind {
	for name, kind := range kindNames {
		if kind == k {
			return name
		}
	}
	return controlpb.Kind_KIND_UNSPECIFIED
}

// readRef checks a reference.
func readRef(r *controlpb.Ref) (resource.Ref, error) {
	kind, ok := kindNames[r.GetKind()]
	if !ok {
		return resource.Ref{}, invalid("parameter", "ref.kind: must be given: KIND_POLICY, KIND_CONFIG or KIND_INSTANCE")
	}
	ref := resource.Ref{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName(), ID: r.GetId()}
	if ref.Namespace == "" {
		ref.Namespace = resource.DefaultNamespace
	}
	if kind != resource.Instances && ref.ID != "" {
		return ref, invalid("parameter", "ref.id: is of instances only")
	}
	if err := ref.Check(); err != nil {
		return ref, invalid("parameter", "ref: "+err.Error())
	}
	return ref, nil
}

func writeRef(r resource.Ref) *controlpb.Ref {
	return &controlpb.Ref{Kind: kindOf(r.Kind), Namespace: r.Namespace, Name: r.Name, Id: r.ID}
}

// readPolicy makes a policy of a message. The documents have the same form in JSON, so
// faults are located as there.
func readPolicy(r resource.Ref, m *controlpb.Policy) (*resource.Policy, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, resource.Invalid{{Pointer: "#", Detail: err.Error()}}
	}
	p := &resource.Policy{Rules: []resource.Rule{}}
	if err := resource.Decode(text, p); err != nil {
		return nil, err
	}
	p.Namespace, p.Name = r.Namespace, r.Name
	return p, nil
}

func readConfig(r resource.Ref, m *controlpb.Config) *resource.Config {
	return &resource.Config{Namespace: r.Namespace, Name: r.Name, Labels: m.GetLabels(), Content: m.GetContent(), ContentType: m.GetContentType(), Secret: m.GetSecret()}
}

func readInstance(r resource.Ref, m *controlpb.Instance) *resource.Instance {
	i := &resource.Instance{
		Namespace: r.Namespace, Service: r.Name, ID: r.ID, Address: m.GetAddress(), Port: int(m.GetPort()), Zone: m.GetZone(),
		Weight: resource.DefaultWeight, Metadata: m.GetMetadata(), Status: resource.Status(m.GetStatus()), TTL: m.GetTtlSeconds(),
	}
	if m != nil && m.Weight != nil {
		i.Weight = int(m.GetWeight())
	}
	return i
}

// writePolicy makes a message of a policy's document.
func writePolicy(body []byte) (*controlpb.Policy, error) {
	m := new(controlpb.Policy)
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m) // the name and who changed it are beside it
	return m, err
}

func writeConfig(c *resource.Config) *controlpb.Config {
	return &controlpb.Config{Labels: c.Labels, Content: c.Content, ContentType: c.ContentType, Secret: c.Secret}
}

func writeInstance(i *resource.Instance) *controlpb.Instance {
	return &controlpb.Instance{
		Address: i.Address, Port: int32(i.Port), Zone: i.Zone, Weight: proto.Int32(int32(i.Weight)), Metadata: i.Metadata, //nolint:gosec // bounded when it was put
		Status: string(i.Status), TtlSeconds: i.TTL, Holder: i.Holder,
	}
}

// write makes a message of a resource, with everything that it has. It is shared: whoever
// shows less copies it.
func write(i *catalog.Item) (*controlpb.Resource, error) {
	m := &controlpb.Resource{Ref: writeRef(i.Ref), Version: i.Version, Revision: i.Revision, Tag: i.Tag()}
	var change resource.Change
	switch d := i.Resource.(type) {
	case *resource.Config:
		m.Document, change = &controlpb.Resource_Config{Config: writeConfig(d)}, d.Change
	case *resource.Instance:
		m.Document, change = &controlpb.Resource_Instance{Instance: writeInstance(d)}, d.Change
	default:
		p, err := writePolicy(i.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Ref, err)
		}
		if err := json.Unmarshal(i.Body, &change); err != nil {
			return nil, fmt.Errorf("%s: %w", i.Ref, err)
		}
		m.Document = &controlpb.Resource_Policy{Policy: p}
	}
	m.ChangedAtUnixNano, m.ChangedBy = change.At.UnixNano(), change.By
	return m, nil
}

// A memo remembers messages, because many watchers are told of the same change. It holds
// so many at most, and forgets all of them then.
type memo struct {
	max int

	mu       sync.Mutex // guards messages
	messages map[memoKey]*controlpb.Resource
}

type memoKey struct {
	resource.Ref
	revision int64
}

func newMemo() memo { return memo{max: 1024, messages: map[memoKey]*controlpb.Resource{}} }

// write is write, of a change that may have been written before.
func (m *memo) write(i *catalog.Item) (*controlpb.Resource, error) {
	key := memoKey{i.Ref, i.Revision}
	m.mu.Lock()
	message := m.messages[key]
	m.mu.Unlock()
	if message != nil {
		return message, nil
	}
	message, err := write(i)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.messages) >= m.max {
		clear(m.messages)
	}
	m.messages[key] = message
	return message, nil
}

// shown is a resource's message as somebody may see it: a secret configuration has its
// content only where secrets is set.
func shown(m *controlpb.Resource, secrets bool) *controlpb.Resource {
	c := m.GetConfig()
	if c == nil || !c.GetSecret() || secrets {
		return m
	}
	one := &controlpb.Resource{
		Ref: m.GetRef(), Version: m.GetVersion(), Revision: m.GetRevision(), Tag: m.GetTag(), ChangedAtUnixNano: m.GetChangedAtUnixNano(), ChangedBy: m.GetChangedBy(),
		Document: &controlpb.Resource_Config{Config: &controlpb.Config{Labels: c.GetLabels(), ContentType: c.GetContentType(), Secret: true, Released: c.GetReleased()}},
	}
	return one
}
