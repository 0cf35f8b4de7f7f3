package plane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
	"dyno/services/internal/trace"
)

// Options go with a change.
type Options struct {
	// IfMatch is the entity tag that the resource must have; "*" means that it must exist. IfNoneMatch "*" means that
	// it must not exist.
	IfMatch     string
	IfNoneMatch string
	// DryRun checks everything and changes nothing.
	DryRun bool
	// Key makes repeating a change safe. A change with the key of an earlier one by the same caller is not made
	// again: it gets the earlier answer. Keys are kept for an hour to a day.
	Key string
	// Session is the one that releases a lock.
	Session string
}

// Bounds of what goes with a change, in bytes.
const (
	MaxKey       = 128
	MaxCondition = 1024
)

func (o Options) check() error {
	if !utf8.ValidString(o.Key) {
		return BadParameterf("idempotency-key: must be UTF-8")
	}
	if len(o.Key) > MaxKey || len(o.IfMatch) > MaxCondition || len(o.IfNoneMatch) > MaxCondition {
		return BadParameterf("idempotency-key: must have %d bytes at most, conditions %d", MaxKey, MaxCondition)
	}
	return nil
}

// A Result is the outcome of a change.
type Result struct {
	*catalog.Item      // the new state; after a removal, the last one
	Created       bool // it did not exist before
	Removed       bool
	Repeated      bool // the change with this key had been made before
	DryRun        bool // nothing was changed
}

// Errors that callers distinguish, in addition to those of the store and resource.Invalid.
var (
	// ErrPrecondition: the resource does not meet the conditions in Options.
	ErrPrecondition = errors.New("the resource is another than the condition says")
	// ErrExists: a resource of this name exists.
	ErrExists = errors.New("there is a resource of this name already")
	// ErrKeyReused: another change was made with this key.
	ErrKeyReused = errors.New("another change was made with this key")
	// ErrContended: other clients changed the resource at every attempt.
	ErrContended = errors.New("others change the resource at the same time, again and again: try later")
)

// maxAttempts bounds the attempts of a change.
const maxAttempts = 16

// A change makes the next version of a resource.
type change struct {
	ref resource.Ref
	act resource.Act
	// next returns the document that replaces old. old is nil if there is none. next's caller fills in Change. A nil
	// document removes the resource.
	next func(old *catalog.Item) (resource.Document, error)
	// asked identifies the request, to distinguish a repeated change from another; it is needed only with
	// Options.Key.
	asked []byte
	// mustBeNew refuses the change if the resource exists.
	mustBeNew bool
	// bounds are the limits that a new resource must keep.
	bounds  []bound
	noAudit bool   // notes nothing in the audit
	part    string // the identifier of a part that the change is about, for the audit
	// lease is that of the resource's session; 0 is none. while are conditions of other keys.
	lease int64
	while []requirement
}

// A requirement is a condition, with the error if it does not hold.
type requirement struct {
	store.Condition
	otherwise error
}

// A bound is a limit on a number of resources, with the number that the replica knows.
type bound struct {
	what  string
	limit int
	count func() int
}

// full refuses a new resource if a bound is reached.
func (c change) full(old *catalog.Item) error {
	if old != nil {
		return nil
	}
	for _, b := range c.bounds {
		if b.count() >= b.limit {
			return &resource.TooMany{What: b.what, Limit: b.limit}
		}
	}
	return nil
}

// nearlyFull reports whether a limit might be exceeded, counting acknowledged changes that the replica does not know
// yet.
func (c change) nearlyFull(old *catalog.Item) bool {
	return old == nil && slices.ContainsFunc(c.bounds, func(b bound) bool {
		return b.limit-b.count() <= max(100, b.limit/10)
	})
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

// check returns why the caller may not make the change, or the fault of its options or name.
func (c change) check(by Caller, o Options) error {
	what := access.Register
	if c.ref.Kind.Traits().Written {
		what = access.Write
	}
	if err := by.mayFor(what, c.ref); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return c.ref.Check()
}

// A base is the state of the resource that a change starts from.
type base struct {
	old     *catalog.Item // nil if there is none
	gone    store.KV      // the last version of a removed resource; empty if unknown
	current bool          // at least as new as the call
}

// apply makes a change. It applies only to the version of the resource that it was made for; if that has changed,
// apply repeats the change.
func (p *Plane) apply(ctx context.Context, by Caller, c change, o Options) (Result, error) {
	if err := cmp.Or(c.check(by, o), p.readOnly()); err != nil {
		return Result{}, err
	}
	from := base{old: p.catalog.Get(c.ref)}
	// The store cannot refuse a stale dry run, a stale count, or what others have: they have no condition.
	stale := o.DryRun || c.ref.Kind.Traits().Leased || c.ref.Kind.OfAccess() || c.nearlyFull(from.old)
	for range maxAttempts {
		if stale {
			var err error
			if from.old, err = p.latest(ctx, c.ref); err != nil {
				return Result{}, err
			}
			from.current = true
		}
		result, request, err := p.prepare(by, c, o, from)
		switch {
		case err != nil && !from.current:
			stale = true // the reason of the refusal may be gone
			continue
		case err != nil:
			return p.refused(ctx, by, c, o, err)
		case o.DryRun:
			return result, nil
		}
		pushed := p.traced.add(ctx, c.ref, result.Version)
		_, span := trace.StartCall(ctx, "etcd")
		outcome, err := p.store.Apply(ctx, request)
		span.End()
		p.traced.acknowledge(pushed, err == nil && outcome.Done)
		if err != nil {
			return Result{}, err
		}
		if outcome.Done {
			item := *result.Item
			item.Revision = outcome.Revision
			result.Item = &item
			if c.ref.Kind.OfAccess() && p.await(ctx, outcome.Revision) == nil {
				p.updateBook() // so that the next request to this replica finds it changed
			}
			return result, nil
		}
		p.metrics.conflicts.Inc()
		if n := len(outcome.Found); o.Key != "" && n > 0 && outcome.Found[n-1].Revision != 0 {
			return repeated(c, outcome.Found[n-1])
		}
		if from, err = c.found(outcome.Found); err != nil {
			return Result{}, err
		}
		// If a resource was removed, the replica may still count it.
		stale = !from.current || c.ref.Kind.OfAccess() || c.nearlyFull(from.old)
	}
	return Result{}, ErrContended
}

// refused returns the outcome of a change that err refuses: perhaps because it was made before.
func (p *Plane) refused(ctx context.Context, by Caller, c change, o Options, err error) (Result, error) {
	if o.Key != "" {
		if kv, getErr := p.store.Get(ctx, keyKey(by, o.Key)); getErr == nil && kv.Revision != 0 {
			return repeated(c, kv)
		}
	}
	return Result{}, err
}

// found returns the base of the next attempt, from the keys of an outcome. It is not current without any.
func (c change) found(list []store.KV) (b base, err error) {
	path := c.ref.Path()
	for _, kv := range list {
		for _, w := range c.while {
			if w.Key == kv.Key && w.Revision != kv.Revision {
				return base{}, w.otherwise
			}
		}
		switch kv.Key {
		case goneKey(path):
			b.gone = kv
		case store.State + path:
			b.current = true
			if kv.Revision == 0 {
				continue
			}
			if b.old, err = catalog.Parse(path, kv.Value, kv.Revision); err != nil {
				return base{}, err
			}
		}
	}
	return b, nil
}

// prepare makes the store's request for the change to the next document.
func (p *Plane) prepare(by Caller, c change, o Options, from base) (Result, store.Request, error) {
	old, path, history := from.old, c.ref.Path(), c.ref.Kind.Traits().History
	if err := precondition(c, o, old); err != nil {
		return Result{}, store.Request{}, err
	}
	doc, err := c.next(old)
	if err == nil {
		err = c.full(old)
	}
	var roles []store.Condition
	if err == nil && c.ref.Kind.OfAccess() {
		roles, err = p.checkDelegation(by, c.ref, old, doc)
	}
	if err != nil {
		return Result{}, store.Request{}, err
	}
	now := time.Now().UTC()
	result := Result{Created: old == nil, Removed: doc == nil, DryRun: o.DryRun}
	audit := resource.Audit{At: now, Who: by.Name, From: by.From, Act: c.act, Ref: c.ref}
	audit.ID = cmp.Or(audit.ID, c.part)
	key := store.Condition{Key: store.State + path}
	gone := store.Condition{Key: goneKey(path), Revision: from.gone.Revision}
	var request store.Request
	put := func(key string, version int64, body []byte) {
		request.Then = append(request.Then, store.Op{Key: key, Value: resource.EncodeVersioned(version, body), Lease: c.lease})
	}
	for _, w := range c.while {
		request.If = append(request.If, w.Condition)
	}
	var version int64
	switch {
	case old != nil:
		version, audit.Old, key.Revision = old.Version, old.Version, old.Revision
		if history {
			put(historyKey(path, version, places(p.Limits().History)), version, old.Body)
		}
	case gone.Revision != 0:
		// Version numbers continue from those of the removed resource.
		if version, _, err = resource.DecodeVersioned(from.gone.Value); err != nil {
			return Result{}, store.Request{}, fmt.Errorf("%s: %w", gone.Key, err)
		}
		request.Then = append(request.Then, store.Op{Key: gone.Key, Delete: true})
	}
	request.If = append(request.If, key)
	if old == nil && history {
		request.If = append(request.If, gone)
	}
	request.If = append(request.If, roles...)
	if doc == nil {
		result.Item = old
		request.Then = append(request.Then, store.Op{Key: key.Key, Delete: true})
		if history {
			put(gone.Key, version, now.AppendFormat(nil, time.RFC3339))
		}
	} else {
		version++
		audit.New = version
		body, value, err := p.finish(doc, resource.Change{Version: version, At: now, By: by.Name})
		if err != nil {
			return Result{}, store.Request{}, err
		}
		result.Item = &catalog.Item{Ref: c.ref, Path: path, Version: version, Body: body, Resource: value}
		put(key.Key, version, body)
	}
	if o.Key != "" {
		record, err := json.Marshal(keyRecord{Asked: fingerprint(c), Version: result.Version, Created: result.Created, Removed: result.Removed, Document: result.Body})
		if err != nil {
			return Result{}, store.Request{}, err
		}
		key := keyKey(by, o.Key)
		request.If = append(request.If, store.Condition{Key: key})
		request.Then = append(request.Then, store.Op{Key: key, Value: record, Expires: true})
	}
	if !c.noAudit {
		request.Note = audit.AppendJSON(make([]byte, 0, 256))
	}
	return result, request, nil
}

// finish fills in a document's Change, and encodes it.
func (p *Plane) finish(doc resource.Document, change resource.Change) (body []byte, kept any, err error) {
	limit := p.Limits().Document()
	doc.Stamp(change)
	kept = doc
	if _, ok := doc.(*resource.Policy); ok {
		limit, kept = min(limit, p.Limits().PolicyBytes), nil
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

// MatchesTag compares a strong tag with those of a header field. It uses the strong comparison, for If-Match, or the
// weak one, for If-None-Match (RFC 9110, sections 13.1.1 and 13.1.2).
func MatchesTag(field, tag string, weak bool) bool {
	for one := range strings.SplitSeq(field, ",") {
		one = strings.TrimSpace(one)
		if weak {
			one = strings.TrimPrefix(one, "W/")
		}
		if one == "*" || one == tag {
			return true
		}
	}
	return false
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

// repeated returns the first result of a change with its key.
func repeated(c change, kv store.KV) (Result, error) {
	var record keyRecord
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		return Result{}, fmt.Errorf("%s: %w", kv.Key, err)
	}
	if record.Asked != fingerprint(c) {
		return Result{}, ErrKeyReused
	}
	item := &catalog.Item{Ref: c.ref, Path: c.ref.Path(), Revision: kv.Revision, Version: record.Version, Body: record.Document}
	if c.ref.Kind != resource.Policies {
		var err error
		if item.Resource, err = resource.Parse(c.ref.Kind, item.Body); err != nil {
			return Result{}, err
		}
	}
	return Result{Item: item, Created: record.Created, Removed: record.Removed, Repeated: true}, nil
}
