package rpc

import (
	"cmp"
	"fmt"
	"slices"
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

// readRef parses a reference, which must be of one of some kinds, if any are given. If it is one kind, the reference needs
// none.
func readRef(m *controlpb.Ref, kinds ...resource.Kind) (resource.Ref, error) {
	r := resource.Ref{Name: m.GetName(), ID: m.GetId()}
	if len(kinds) == 1 && m.GetKind() == controlpb.Kind_KIND_UNSPECIFIED {
		r.Kind = kinds[0]
	} else {
		var err error
		if r.Kind, err = readKind(m.GetKind()); err != nil {
			return r, err
		}
	}
	r.Namespace = cmp.Or(m.GetNamespace(), defaultSpace(r.Kind))
	if len(kinds) > 0 && !slices.Contains(kinds, r.Kind) {
		return r, plane.BadParameterf("ref.kind: %s: must be of %v", r.Kind, kinds)
	}
	if r.Kind != resource.Instances && r.ID != "" {
		return r, plane.BadParameterf("ref.id: is of instances only")
	}
	if err := r.Check(); err != nil {
		return r, plane.BadParameterf("ref: %v", err)
	}
	return r, nil
}

// defaultSpace returns the namespace of resources that name none.
func defaultSpace(k resource.Kind) string {
	if k.OfAccess() {
		return resource.Everywhere
	}
	return resource.DefaultNamespace
}

// write makes a message of a complete resource. It is shared: copy it to hide a part.
func write(i *catalog.Item) (*controlpb.Resource, error) {
	doc, ok := i.Resource.(resource.Document)
	if !ok {
		var err error
		if doc, err = resource.Parse(i.Kind, i.Body); err != nil {
			return nil, fmt.Errorf("%s: %w", i.Ref, err)
		}
	}
	return message.Of(i.Ref, i.Version, i.Revision, i.Tag(), doc), nil
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
