package plane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// facts is all that the decision about a change depends on, besides the change.
type facts struct {
	by      Caller
	old     *catalog.Item // the resource; nil if there is none
	gone    store.KV      // the last version of a removed one; empty if unknown
	current bool          // the resource is at least as new as the call
	rooms   []room        // a new resource needs a place in each
	limits  resource.Limits
	now     time.Time
	// delegate refuses what the caller may not give, and returns conditions for what it has permitted; nil permits all.
	delegate func(by Caller, r resource.Ref, old *catalog.Item, doc any) ([]store.Condition, error)
}

// A room is a limit on a number of resources, with the number that the replica knows.
type room struct {
	what         string
	limit, count int
}

// full refuses a new resource if a limit is reached.
func (f *facts) full() error {
	for _, r := range f.rooms {
		if f.old == nil && r.count >= r.limit {
			return &resource.TooMany{What: r.what, Limit: r.limit}
		}
	}
	return nil
}

// nearlyFull reports whether a limit might be exceeded, counting acknowledged changes that the replica does not know
// yet.
func (f *facts) nearlyFull() bool {
	return f.old == nil && slices.ContainsFunc(f.rooms, func(r room) bool { return r.limit-r.count <= max(100, r.limit/10) })
}

// A decision is what a change does to the store, with its result. Its conditions are the facts that it depends on;
// that of its key is the last one.
type decision struct {
	Result
	request store.Request
}

// committed returns the result of a decision that was carried out at a revision.
func (d decision) committed(revision int64) Result {
	item := *d.Item
	item.Revision = revision
	d.Item = &item
	return d.Result
}

// decide returns what a change does, or why it is refused. It reads the facts and nothing else, as far as change.next
// does so.
func decide(c change, o Options, f facts) (decision, error) {
	if err := precondition(c, o, f.old); err != nil {
		return decision{}, err
	}
	doc, err := c.next(f.old)
	if err == nil {
		err = f.full()
	}
	var granted []store.Condition
	if err == nil && f.delegate != nil {
		granted, err = f.delegate(f.by, c.ref, f.old, doc)
	}
	if err != nil {
		return decision{}, err
	}
	d := decision{Result: Result{Created: f.old == nil, Removed: doc == nil, DryRun: o.DryRun}}
	path, history := c.ref.Path(), c.ref.Kind.Traits().History
	key := store.Condition{Key: store.State + path}
	gone := store.Condition{Key: goneKey(path), Revision: f.gone.Revision}
	put := func(key string, version int64, body []byte) {
		d.request.Then = append(d.request.Then, store.Op{Key: key, Value: resource.EncodeVersioned(version, body), Lease: c.lease})
	}
	audit := resource.Audit{At: f.now, Who: f.by.Name, From: f.by.From, Act: c.act, Ref: c.ref}
	audit.ID = cmp.Or(audit.ID, c.part)
	var version int64
	switch {
	case f.old != nil:
		version, audit.Old, key.Revision = f.old.Version, f.old.Version, f.old.Revision
		if history {
			put(historyKey(path, version, places(f.limits.History)), version, f.old.Body)
		}
	case gone.Revision != 0:
		// Version numbers continue from those of the removed resource.
		if version, _, err = resource.DecodeVersioned(f.gone.Value); err != nil {
			return decision{}, fmt.Errorf("%s: %w", gone.Key, err)
		}
		d.request.Then = append(d.request.Then, store.Op{Key: gone.Key, Delete: true})
	}
	if doc == nil {
		d.Item = f.old
		d.request.Then = append(d.request.Then, store.Op{Key: key.Key, Delete: true})
		if history {
			put(gone.Key, version, f.now.AppendFormat(nil, time.RFC3339))
		}
	} else {
		version++
		audit.New = version
		body, value, err := finish(doc, resource.Change{Version: version, At: f.now, By: f.by.Name}, f.limits)
		if err != nil {
			return decision{}, err
		}
		d.Item = &catalog.Item{Ref: c.ref, Path: path, Version: version, Body: body, Resource: value}
		put(key.Key, version, body)
	}
	if c.ref.Kind == resource.Sessions {
		d.request.Then = append(d.request.Then, store.Op{Key: startedKey(path), Delete: doc == nil})
	}
	for _, w := range c.while {
		d.request.If = append(d.request.If, w.Condition)
	}
	d.request.If = append(d.request.If, key)
	if f.old == nil && history {
		d.request.If = append(d.request.If, gone)
	}
	d.request.If = append(d.request.If, granted...)
	if o.Key != "" {
		record, err := json.Marshal(keyRecord{Asked: fingerprint(c), Version: d.Version, Created: d.Created, Removed: d.Removed, Document: d.Body})
		if err != nil {
			return decision{}, err
		}
		key := keyKey(f.by, o.Key)
		d.request.If = append(d.request.If, store.Condition{Key: key})
		d.request.Then = append(d.request.Then, store.Op{Key: key, Value: record, Expires: true})
	}
	if !c.noAudit {
		d.request.Note = audit.AppendJSON(make([]byte, 0, 256))
	}
	return d, nil
}

// finish fills in a document's Change, and encodes it.
func finish(doc resource.Document, change resource.Change, limits resource.Limits) (body []byte, kept any, err error) {
	limit := limits.Document()
	doc.Stamp(change)
	kept = doc
	if _, ok := doc.(*resource.Policy); ok {
		limit, kept = min(limit, limits.PolicyBytes), nil
	}
	body, err = json.Marshal(doc)
	if len(body) > limit {
		return nil, nil, resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("has %d bytes as it is kept: must have %d at most", len(body), limit)}}
	}
	return body, kept, err
}

// precondition returns which condition of a change does not hold for old.
func precondition(c change, o Options, old *catalog.Item) error {
	switch {
	case o.IfMatch != "" && old == nil:
		return fmt.Errorf("%w: there is none", ErrPrecondition)
	case o.IfMatch != "" && !MatchesTag(o.IfMatch, old.Tag(), false):
		return fmt.Errorf("%w: it is %s", ErrPrecondition, old.Tag())
	case o.IfNoneMatch != "" && old != nil && MatchesTag(o.IfNoneMatch, old.Tag(), true):
		return fmt.Errorf("%w: it is %s", ErrPrecondition, old.Tag())
	case c.mustBeNew && old != nil:
		return fmt.Errorf("%w: %s has version %d", ErrExists, c.ref, old.Version)
	}
	return nil
}

// A keyRecord remembers a change with a key. It has the document in plain form. With the old and the new resource,
// the store takes three of the largest documents (see resource.Limits.Document); base64 would add a third to one.
type keyRecord struct {
	Asked    string          `json:"asked"`
	Version  int64           `json:"version"`
	Created  bool            `json:"created,omitempty"`
	Removed  bool            `json:"removed,omitempty"`
	Document json.RawMessage `json:"document,omitempty"`
}

// keyKey returns the store's key of a keyRecord: each client has its own keys.
func keyKey(by Caller, key string) string {
	sum := sha256.Sum256([]byte(by.Name + "\x00" + key))
	return store.Log + "key/" + hex.EncodeToString(sum[:16])
}

func fingerprint(c change) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %d ", c.act, c.ref.Path(), len(c.asked))
	h.Write(c.asked)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// historyKey returns the key of a version. A resource has a fixed number of places; a version replaces the one that
// is that many versions older. Keys that were made and removed with every change would cost etcd far more: each
// compaction goes through all that ever existed.
//
// places is a power of two, so that nothing newer is lost when it changes: with twice as many, or half, a version
// still replaces one that is older by at least the smaller number.
func historyKey(path string, version int64, places int64) string {
	return fmt.Sprintf("%s%03x", historyFolder(path), version&(places-1))
}

func historyFolder(path string) string { return store.Log + "history/" + path + "/" }

// places returns the number of places for a resource's earlier versions.
func places(history int) int64 {
	return int64(1) << bits.Len(uint(max(0, history-1))) //nolint:gosec // 0 at least
}

// goneKey returns the key of a removed resource's last version.
func goneKey(path string) string { return store.Log + "gone/" + path }
