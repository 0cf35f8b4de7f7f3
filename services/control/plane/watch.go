package plane

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// MaxTopics bounds what one watch is of.
const MaxTopics = 1000

// A Token says up to which revision of which epoch its owner knows everything that it
// watches. Clients take it as it is, from whichever protocol, to whichever replica.
type Token struct {
	Epoch    string
	Revision int64
}

func (t Token) String() string { return t.Epoch + "-" + strconv.FormatInt(t.Revision, 10) }

// ParseToken reads a token; what is none is one of no epoch, whose owner is told
// everything.
func ParseToken(text string) Token {
	epoch, number, ok := strings.Cut(text, "-")
	revision, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || revision < 1 {
		return Token{}
	}
	return Token{epoch, revision}
}

// Token is of a revision of this store.
func (p *Plane) Token(revision int64) Token { return Token{*p.epoch.Load(), revision} }

// Topics are those of kinds, each in one namespace or in all (""), and perhaps by name.
// The error says what is wrong with one.
func Topics(kinds []resource.Kind, namespace string, names []string) ([]push.Topic, error) {
	if len(names) == 0 {
		names = []string{""}
	} else if namespace == "" {
		return nil, fmt.Errorf("name: is one in a namespace, not in all")
	}
	var topics []push.Topic
	seen := map[push.Topic]bool{}
	for _, kind := range kinds {
		if kind != resource.Policies && kind != resource.Configs && kind != resource.Instances {
			return nil, fmt.Errorf("kind: %.40q: must be policy, config or instance", kind)
		}
		for _, n := range names {
			r := resource.Ref{Kind: kind, Namespace: namespace, Name: n, ID: "x"}
			if n == "" {
				r.Name = "x"
			}
			if namespace == "" {
				r.Namespace = resource.DefaultNamespace
			}
			if err := r.Check(); err != nil {
				return nil, err
			}
			t := push.Topic{Kind: kind, Namespace: namespace, Name: n}
			if !seen[t] {
				seen[t] = true
				topics = append(topics, t)
			}
			if len(topics) > MaxTopics {
				return nil, fmt.Errorf("kind, name: %d topics at most", MaxTopics)
			}
		}
	}
	return topics, nil
}

// A Watch tells what changes in some topics. Next is for one goroutine.
type Watch struct {
	plane    *Plane
	sub      *push.Subscriber
	prefixes []string
	epoch    string
	from     int64
}

// beginTime is how long a watch waits to know what was acknowledged before it.
const beginTime = time.Second

// Watch begins to watch, after a token if that is of this store and all changes since are
// remembered. Like a read, it begins with all that was acknowledged before. Where the store does
// not say in time what that is, it begins with what this replica knows, and the rest
// follows: watchers need what there is most when the store is away. The error is
// push.ErrClosed.
func (p *Plane) Watch(ctx context.Context, topics []push.Topic, since Token) (*Watch, error) {
	asking, cancel := context.WithTimeout(ctx, p.beginTime)
	_ = p.catchUp(asking)
	cancel()
	w := &Watch{plane: p}
	for _, t := range topics {
		w.prefixes = append(w.prefixes, prefix(t))
	}
	for {
		w.epoch, w.from = *p.epoch.Load(), 0
		if since.Epoch == w.epoch {
			w.from = since.Revision
		}
		var err error
		if w.sub, err = p.hub.Subscribe(topics, w.from); err != nil {
			return w, err
		}
		if *p.epoch.Load() == w.epoch {
			return w, nil // a later epoch finds the subscriber there
		}
		w.sub.Close()
	}
}

// prefix is where a topic's resources are in the catalog.
func prefix(t push.Topic) string {
	switch {
	case t.Namespace == "":
		return string(t.Kind) + "/"
	case t.Name == "":
		return string(t.Kind) + "/" + t.Namespace + "/"
	case t.Kind == resource.Instances:
		return string(t.Kind) + "/" + t.Namespace + "/" + t.Name + "/"
	}
	return string(t.Kind) + "/" + t.Namespace + "/" + t.Name
}

// Next returns up to about limit changes, as push.Subscriber has them, and waits for the
// first as long as ctx allows. resync says that the changes are everything there is, as
// of revision, instead: what was told before no longer counts.
func (w *Watch) Next(ctx context.Context, limit int) (changes []push.Change, revision int64, resync bool, err error) {
	changes, resync, err = w.sub.Next(ctx, limit)
	if !resync {
		return changes, 0, false, err
	}
	// Changes queue up from here on, and those that the snapshot has are dropped: there is
	// no gap.
	w.sub.Restart()
	w.epoch = *w.plane.epoch.Load() // before the snapshot, which is of no earlier one
	items, revision := w.plane.catalog.Snapshot(w.prefixes)
	w.sub.Begin(revision)
	changes = make([]push.Change, len(items))
	for i, item := range items {
		changes[i] = Change(item)
	}
	return changes, revision, true, nil
}

// Token is of a revision.
func (w *Watch) Token(revision int64) Token { return Token{w.epoch, revision} }

// Known is up to where everything was known when the watch began, if nothing was told
// since.
func (w *Watch) Known() Token { return Token{w.epoch, max(w.from, w.sub.Began())} }

// Resumed tells whether the watch began after a token of this store.
func (w *Watch) Resumed() bool { return w.from > 0 }

// Close ends the watch.
func (w *Watch) Close() { w.sub.Close() }
