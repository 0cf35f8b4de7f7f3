package plane

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// MaxTopics bounds the topics of one watch.
const MaxTopics = 1000

// A Token names the revision and epoch up to which its owner knows everything that it watches. It is valid for all
// protocols and replicas.
type Token struct {
	Epoch    string
	Revision int64
	grants   string // of a follower; "" for others
}

func (t Token) String() string {
	return t.Epoch + "-" + strconv.FormatInt(t.Revision, 10) + t.grants
}

// Now returns the token of what this replica knows.
func (p *Plane) Now() Token {
	epoch := *p.epoch.Load() // first: an earlier epoch has its owner read everything, and a later one might hide changes
	return Token{Epoch: epoch, Revision: p.Revision()}
}

// ParseToken parses a token of a caller with grants. An invalid one has no epoch, so its owner gets everything.
func ParseToken(text, grants string) Token {
	text, ok := strings.CutSuffix(text, grants)
	if !ok {
		return Token{}
	}
	epoch, number, ok := strings.Cut(text, "-")
	revision, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || revision < 1 {
		return Token{}
	}
	return Token{epoch, revision, grants}
}

// Token returns the token of a revision of this store.
func (p *Plane) Token(revision int64) Token { return Token{Epoch: *p.epoch.Load(), Revision: revision} }

// topics returns the topics of a query. Each is for one namespace or for all, and perhaps for one name or a prefix.
func (q Query) topics() ([]push.Topic, error) {
	kinds, namespace, names := q.Kinds, q.Namespace, q.Names
	if len(kinds) == 0 {
		kinds = resource.Kinds()
	}
	if namespace == access.AllNamespaces {
		namespace = ""
	}
	switch {
	case namespace == "" && (len(names) > 0 || q.Prefix != ""):
		return nil, fmt.Errorf("name, prefix: are of names in a namespace, not in all")
	case len(names) > 0 && q.Prefix != "":
		return nil, fmt.Errorf("name, prefix: want one of them")
	case len(names) == 0:
		names = []string{""}
	}
	if err := checkPrefix(q.Prefix); err != nil {
		return nil, err
	}
	var topics []push.Topic
	seen := map[push.Topic]bool{}
	for _, kind := range kinds {
		if !kind.Known() {
			return nil, fmt.Errorf("kind: %.40q: must be %s", kind, resource.KindNames())
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
			t := push.Topic{Kind: kind, Namespace: namespace, Name: n, Prefix: q.Prefix}
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

// A Query selects the resources of a watch.
type Query struct {
	Namespace string          // or access.AllNamespaces
	Kinds     []resource.Kind // none is all
	Names     []string        // none is all
	Prefix    string          // of names, instead of Names; "" is all
	Client    resource.Client // the client, for gray releases, and by its name for the ledger
	Since     string          // a Token; anything else means that the client knows nothing
	Follower  bool            // everything that the caller may read, for a follower; of the other fields, only Kinds and Since count
}

// A Watch returns the changes of some topics. Next is for one goroutine.
type Watch struct {
	client   resource.Client
	reader   *Reader
	plane    *Plane
	sub      *push.Subscriber
	scope    catalog.Scope
	epoch    string
	from     int64
	follower *Caller // nil for others
	grants   string  // of a follower, for its tokens
}

// beginTime bounds the wait of a new watch for changes that were acknowledged before it.
const beginTime = time.Second

// Watch begins to watch what the caller may read. Close must be called.
func (p *Plane) Watch(ctx context.Context, by Caller, q Query) (*Watch, error) {
	if q.Follower {
		return p.mirror(ctx, by, q.Kinds, q.Since)
	}
	if err := by.may(access.Read, q.Namespace); err != nil {
		return nil, err
	}
	topics, err := q.topics()
	if err != nil {
		return nil, BadParameterf("%v", err)
	}
	if err := p.checkClient(q.Client); err != nil {
		return nil, err
	}
	w, err := p.watch(ctx, topics, ParseToken(q.Since, ""))
	if err != nil {
		return nil, err
	}
	w.client, w.reader = q.Client, p.Enter(by, q.Client.ID)
	return w, nil
}

// watch begins to watch, after a token if that is of this store and all changes since are remembered. Like a read, it
// first waits for all acknowledged changes. If the store does not answer in time, it begins with the replica's
// present state: watchers need that most when the store is away. The error is push.ErrClosed.
func (p *Plane) watch(ctx context.Context, topics []push.Topic, since Token) (*Watch, error) {
	asking, cancel := context.WithTimeout(ctx, p.beginTime)
	_ = p.catchUp(asking)
	cancel()
	w := &Watch{plane: p}
	for _, t := range topics {
		if path := prefix(t); t.Name != "" && t.Kind != resource.Instances {
			w.scope.Paths = append(w.scope.Paths, path)
		} else {
			w.scope.Prefixes = append(w.scope.Prefixes, path)
		}
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
			return w, nil // a change of the epoch from here on finds the subscriber
		}
		w.sub.Close()
	}
}

// prefix is the catalog's prefix of a topic's resources; of a name other than a service's, its path.
func prefix(t push.Topic) string {
	switch {
	case t.Namespace == "":
		return string(t.Kind) + "/"
	case t.Name == "":
		return resource.Folder(t.Kind, t.Namespace) + resource.EscapeName(t.Prefix)
	case t.Kind == resource.Instances:
		return resource.Folder(t.Kind, t.Namespace) + resource.EscapeName(t.Name) + "/"
	}
	return resource.Folder(t.Kind, t.Namespace) + resource.EscapeName(t.Name)
}

// Next waits for changes as long as ctx allows, and returns up to about limit of them, like push.Subscriber. resync
// says that the changes are the whole state at revision: earlier ones no longer count.
func (w *Watch) Next(ctx context.Context, limit int) (changes []push.Change, revision int64, resync bool, err error) {
	changes, resync, err = w.sub.Next(ctx, limit)
	if !resync {
		return changes, 0, false, err
	}
	// Changes queue up from here on, and those contained in the snapshot are dropped: there is no gap.
	w.sub.Restart()
	w.epoch = *w.plane.epoch.Load() // before the snapshot, whose epoch is this or a later one
	items, revision := w.plane.catalog.Snapshot(w.scope)
	w.sub.Begin(revision)
	changes = make([]push.Change, len(items))
	for i, item := range items {
		changes[i] = Change(item)
	}
	return changes, revision, true, nil
}

// Wait waits for a change, as long as ctx allows; id is that of an instance, "" is any resource. It also returns if
// changes may have been missed.
func (w *Watch) Wait(ctx context.Context, id string) error {
	for {
		changes, resync, err := w.sub.Next(ctx, 1)
		if err != nil || resync || id == "" || slices.ContainsFunc(changes, func(c push.Change) bool { return c.ID == id }) {
			return err
		}
	}
}

// Handled reports whether all changes up to a revision were handled: Next was called again since.
func (w *Watch) Handled(revision int64) bool { return w.sub.Handled(revision) }

// Token returns the token of a revision.
func (w *Watch) Token(revision int64) Token { return Token{w.epoch, revision, w.grants} }

// Known returns the token at which the watch began. It is right until the first change.
func (w *Watch) Known() Token { return w.Token(max(w.from, w.sub.Began())) }

// Resumed reports whether the watch began after a token of this store.
func (w *Watch) Resumed() bool { return w.from > 0 }

// Config returns the configuration of a change in the form that the client may read; nil if that is the change
// itself. released reports whether its content is that of a gray release, if the client has a name. Secrets are never
// shown but to followers: a watch lasts as long as a program, and its events may be passed on and stored anywhere.
func (w *Watch) Config(c *push.Change) (one *resource.Config, released *bool) {
	config, ok := c.Resource.(*resource.Config)
	if !ok || w.follower != nil {
		return nil, nil
	}
	named := w.client.ID != "" || len(w.client.Labels) > 0
	if !config.Secret && !named {
		return nil, nil
	}
	shown := *config
	if named {
		content, chosen := config.For(w.client)
		shown.Release, released = nil, &chosen
		shown.SetData(content)
	}
	shown = shown.Masked()
	return &shown, released
}

// Policy returns the policy of a change with the client's rules, and whether they are those of a gray release; nil if
// the policy has none, or the client has no name.
func (w *Watch) Policy(c *push.Change) (one *resource.Policy, released bool) {
	named := w.client.ID != "" || len(w.client.Labels) > 0
	if c.Kind != resource.Policies || c.Removed || !named || !bytes.Contains(c.Body, []byte(`"release":{`)) {
		return nil, false
	}
	doc, err := resource.Parse(resource.Policies, c.Body)
	if err != nil {
		return nil, false // it was checked when it was put
	}
	one = doc.(*resource.Policy)
	if one.Release == nil {
		return nil, false // a label looks like one
	}
	one.Rules, released = one.For(w.client)
	one.Release = nil
	return one, released
}

// Sent notes in the ledger which changes the client was sent.
func (w *Watch) Sent(changes []push.Change) {
	w.plane.traced.sent(changes)
	w.reader.Sent(changes)
}

// Close ends the watch.
func (w *Watch) Close() {
	w.reader.Leave()
	w.sub.Close()
}

// A Reader is a connected client in the ledger. Calls of a nil one do nothing.
type Reader struct {
	plane *Plane
	name  string
}

// Enter notes that a client is connected; Leave must be called. It returns nil if the client has no name, or the
// ledger is full.
func (p *Plane) Enter(by Caller, client string) *Reader {
	r := &Reader{p, by.ClientPrefix + client}
	if client == "" || !p.ledger.Enter(r.name) {
		return nil
	}
	return r
}

// Name returns the client's name in the ledger.
func (r *Reader) Name() string {
	if r == nil {
		return ""
	}
	return r.name
}

// Sent notes which changes the client was sent.
func (r *Reader) Sent(changes []push.Change) {
	if r == nil {
		return
	}
	now := timeNow()
	for i := range changes {
		r.plane.ledger.Sent(r.name, &changes[i], now)
	}
}

// Ack notes acknowledgements. They concern published versions, unless the store was restored since: then the client
// gets everything again.
func (r *Reader) Ack(ctx context.Context, acks []resource.Ack) {
	if r != nil {
		_, _ = r.plane.ack(ctx, r.name, acks)
	}
}

// Leave notes that the connection has ended.
func (r *Reader) Leave() {
	if r != nil {
		r.plane.ledger.Leave(r.name, timeNow())
	}
}
