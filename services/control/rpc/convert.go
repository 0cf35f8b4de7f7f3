package rpc

import (
	"sync"

	"dyno/services/control/catalog"
	"dyno/services/control/message"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// readKind parses a kind.
func readKind(k controlpb.Kind) (resource.Kind, error) {
	kind, ok := message.Kind(k)
	if !ok {
		return "", plane.BadParameterf("kind: must be given, such as KIND_POLICY")
	}
	return kind, nil
}

// readRef parses a reference.
func readRef(r *controlpb.Ref) (resource.Ref, error) {
	kind, err := readKind(r.GetKind())
	if err != nil {
		return resource.Ref{}, err
	}
	ref := resource.Ref{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName(), ID: r.GetId()}
	if ref.Namespace == "" {
		ref.Namespace = resource.DefaultNamespace
	}
	if kind != resource.Instances && ref.ID != "" {
		return ref, plane.BadParameterf("ref.id: is of instances only")
	}
	if err := ref.Check(); err != nil {
		return ref, plane.BadParameterf("ref: %v", err)
	}
	return ref, nil
}

// readPolicy makes a policy of a message.
func readPolicy(r resource.Ref, m *controlpb.Policy) (*resource.Policy, error) {
	p, err := message.Policy(m)
	if err != nil {
		return nil, resource.Invalid{{Pointer: "#", Detail: err.Error()}}
	}
	p.Namespace, p.Name = r.Namespace, r.Name
	return p, nil
}

func readConfig(r resource.Ref, m *controlpb.Config) *resource.Config {
	c := message.Config(m)
	c.Namespace, c.Name = r.Namespace, r.Name
	return c
}

func readInstance(r resource.Ref, m *controlpb.Instance) (*resource.Instance, error) {
	i, err := message.Instance(m)
	if err != nil {
		return nil, resource.Invalid{{Pointer: "#", Detail: err.Error()}}
	}
	i.Namespace, i.Service, i.ID = r.Namespace, r.Name, r.ID
	return i, nil
}

// write makes a message of a complete resource. It is shared: copy it to hide a part.
func write(i *catalog.Item) (*controlpb.Resource, error) {
	d, err := message.New(i.Ref, i.Version, i.Revision, i.Resource, i.Body)
	if err != nil {
		return nil, err
	}
	d.Tag = i.Tag()
	return message.Of(d), nil
}

// A memo caches messages, because many watchers get the same change. Once it is full, it forgets all of them.
type memo struct {
	max int

	mu       sync.Mutex // guards what follows
	messages map[memoKey]*controlpb.Resource
	bytes    int // of their documents
}

// A memoKey identifies a change. After a restore of etcd, a revision may name another change. So the key also has the
// document's address, which all watchers of a change share.
type memoKey struct {
	resource.Ref
	revision int64
	body     *byte
}

// maxMemo is the size of documents from which all messages are forgotten.
const maxMemo = 32 << 20

func newMemo() memo { return memo{max: 1024, messages: map[memoKey]*controlpb.Resource{}} }

// write returns the message of a change, from the cache if it is there.
func (m *memo) write(i *catalog.Item) (*controlpb.Resource, error) {
	key := memoKey{Ref: i.Ref, revision: i.Revision}
	if len(i.Body) > 0 {
		key.body = &i.Body[0]
	}
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
	if len(m.messages) >= m.max || m.bytes > maxMemo {
		clear(m.messages)
		m.bytes = 0
	}
	m.messages[key] = message
	m.bytes += len(i.Body)
	return message, nil
}
