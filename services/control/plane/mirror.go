package plane

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"dyno/services/control/access"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// copied are the kinds that followers copy. Copies of others would have no lease.
func copied() []resource.Kind {
	return slices.DeleteFunc(resource.Kinds(), func(k resource.Kind) bool { return k.Traits().Leased })
}

// mirror begins to watch everything of some kinds that a follower may read, with secrets if it may read them; without
// kinds, of all that are copied. Its tokens are for callers with equal permissions: after a change of these, it gets
// everything again.
func (p *Plane) mirror(ctx context.Context, by Caller, kinds []resource.Kind, since string) (*Watch, error) {
	if len(kinds) == 0 {
		kinds = copied()
	}
	var topics []push.Topic
	for _, g := range by.Grants {
		some, err := Query{Namespace: g.Namespace, Kinds: kinds}.topics()
		if err == nil && !slices.Contains(topics, some[0]) { // other names have no resources
			topics = append(topics, some...)
		}
	}
	sum := sha256.Sum256(fmt.Append(nil, by.Grants))
	grants := fmt.Sprintf(".%x", sum[:8])
	w, err := p.watch(ctx, topics, ParseToken(since, grants))
	if err != nil {
		return nil, err
	}
	w.follower, w.grants = &by, grants
	return w, nil
}

// Withheld reports whether a follower may not know a change: it is a secret that it may not read.
func (w *Watch) Withheld(c *push.Change) bool {
	config, ok := c.Resource.(*resource.Config)
	return ok && config.Secret && w.follower != nil && !w.follower.May(access.Secrets, c.Namespace)
}

// A State says how complete a follower's copy is. It follows the changes that it covers.
type State struct {
	// Whole says that the copy has everything, as of Seconds after the follower's request, less Age.
	Whole    bool           `json:"whole"`
	Seconds  float64        `json:"seconds"`
	Age      float64        `json:"age_seconds"`
	Liveness resource.Pulse `json:"liveness"`
	Overdue  *Overdue       `json:"overdue,omitempty"` // nil: as before
}

// Overdue has marks of instances in base64, by the parts of a markSet.
type Overdue [shards]string

// Overdue returns the overdue instances that a follower may read.
func (w *Watch) Overdue() (parts Overdue) {
	var paths []string
	for _, r := range w.plane.Late() {
		if w.follower.May(access.Read, r.Namespace) {
			paths = append(paths, r.Path())
		}
	}
	for n, marks := range marksOf(paths) {
		parts[n] = base64.StdEncoding.EncodeToString([]byte(marks))
	}
	return parts
}
