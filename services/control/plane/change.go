package plane

import (
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
)

// Options go with a change.
type Options struct {
	// IfMatch is the entity tag that the resource must have, or "*": that there is one.
	// IfNoneMatch "*" is that there must be none.
	IfMatch     string
	IfNoneMatch string
	// DryRun checks everything and changes nothing.
	DryRun bool
	// Key makes repeating a change safe: a change with the key of an earlier one by the
	// same caller is not made again, and answered as that was. Keys are kept for an hour
	// to a day.
	Key string
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

// A Result is what became of a change.
type Result struct {
	*catalog.Item      // as it is now; of a removal, as it was
	Created       bool // there was none before
	Removed       bool
	Repeated      bool // the change with this key had been made before
	DryRun        bool // nothing was changed
}

// Errors that callers distinguish, in addition to those of the store and resource.Invalid.
var (
	// ErrPrecondition: the resource is not what Options says it must be.
	ErrPrecondition = errors.New("the resource is another than the condition says")
	// ErrExists: there is one by this name.
	ErrExists = errors.New("there is a resource of this name already")
	// ErrKeyReused: another change was made with this key.
	ErrKeyReused = errors.New("another change was made with this key")
	// ErrContended: others changed the resource again and again.
	ErrContended = errors.New("others change the resource at the same time, again and again: try later")
)

// maxAttempts is how often a change is attempted.
const maxAttempts = 16

// A change is how a resource becomes another.
type change struct {
	ref resource.Ref
	act resource.Act
	// next returns the document that follows on old, which is nil where there is none: a
	// *Policy, *Config or *Instance, whose Change is filled in by the caller of next. nil
	// removes.
	next func(old *catalog.Item) (any, error)
	// asked is what was asked for, to tell a repeated change from another; it is needed
	// with Options.Key only.
	asked []byte
	// mustBeNew refuses where there is one.
	mustBeNew bool
	// bounds are the limits that a new resource must keep.
	bounds []bound
	// noHistory keeps no earlier versions.
	noHistory bool
}

// A bound is how many resources there may be, and how many the replica knows of.
type bound struct {
	what  string
	limit int
	count func() int
}

// full refuses a new resource where there are too many.
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

// nearlyFull tells whether a limit might be exceeded by changes that have been
// acknowledged, and that the replica has yet to hear of.
func (c change) nearlyFull(old *catalog.Item) bool {
	return old == nil && slices.ContainsFunc(c.bounds, func(b bound) bool {
		return b.limit-b.count() <= max(100, b.limit/10)
	})
}

// historyKey is where a version is kept: in one of the places of its resource, where it
// replaces the one that is as many versions older. Keys that are made and removed with every
// change would cost etcd far more: each compaction goes through all that there were.
//
// places is a power of two, so that nothing newer is lost when it changes: with twice as many,
// or half, a version still replaces one that is older by the lesser number at least.
func historyKey(path string, version int64, places int64) string {
	return fmt.Sprintf("%s%03x", historyFolder(path), version&(places-1))
}

func historyFolder(path string) string { return store.Log + "history/" + path + "/" }

// places returns the number of places for the earlier versions of a resource.
func places(history int) int64 {
	return int64(1) << bits.Len(uint(max(0, history-1))) //nolint:gosec // 0 at least
}

// goneKey is where the last version is kept of what was removed.
func goneKey(path string) string { return store.Log + "gone/" + path }

// apply makes a change that the caller may make, on condition that the resource is still what the change was made
// for, and repeats it if it is not.
func (p *Plane) apply(ctx context.Context, by Caller, c change, o Options) (Result, error) {
	what := access.Write
	if c.ref.Kind == resource.Instances {
		what = access.Register
	}
	if err := by.may(what, c.ref.Namespace); err != nil {
		return Result{}, err
	}
	if err := o.check(); err != nil {
		return Result{}, err
	}
	if err := c.ref.Check(); err != nil {
		return Result{}, err
	}
	path := c.ref.Path()
	old := p.catalog.Get(c.ref)
	// A dry run and a count have no condition by which the store could refuse what is stale.
	current := o.DryRun || c.nearlyFull(old) // whether old is known to be no staler than the call
	if current {
		if err := p.catchUp(ctx); err != nil {
			return Result{}, err
		}
		old = p.catalog.Get(c.ref)
	}
	var gone store.KV
	idempotency := ""
	if o.Key != "" {
		idempotency = keyKey(by, o.Key)
	}
	for range maxAttempts {
		result, request, err := p.prepare(by, c, o, path, old, gone)
		if err != nil && !current {
			// The refusal may be of something that has changed since.
			if err := p.catchUp(ctx); err != nil {
				return Result{}, err
			}
			old, current = p.catalog.Get(c.ref), true
			continue
		}
		if err != nil && idempotency != "" {
			// It may be refused because it was made before.
			if kv, getErr := p.store.Get(ctx, idempotency); getErr == nil && kv.Revision != 0 {
				return p.repeated(c, kv)
			}
		}
		if err != nil {
			return Result{}, err
		}
		if o.DryRun {
			result.DryRun = true
			return result, nil
		}
		if idempotency != "" {
			record, err := json.Marshal(keyRecord{Asked: fingerprint(c), Version: result.Version, Created: result.Created, Removed: result.Removed, Document: result.Body})
			if err != nil {
				return Result{}, err
			}
			request.If = append(request.If, store.Condition{Key: idempotency})
			request.Then = append(request.Then, store.Op{Key: idempotency, Value: record, Expires: true})
		}
		outcome, err := p.store.Apply(ctx, request)
		if err != nil {
			return Result{}, err
		}
		if outcome.Done {
			item := *result.Item
			item.Revision = outcome.Revision
			result.Item = &item
			return result, nil
		}
		p.metrics.conflicts.Inc()
		if idempotency != "" {
			kv := store.KV{}
			if n := len(outcome.Found); n > 0 {
				kv = outcome.Found[n-1]
			}
			if kv.Revision != 0 {
				return p.repeated(c, kv)
			}
		}
		if old, gone, current, err = p.found(ctx, c.ref, path, outcome.Found); err != nil {
			return Result{}, err
		}
		if c.nearlyFull(old) {
			// It was removed, and perhaps the replica counts it still.
			if err := p.catchUp(ctx); err != nil {
				return Result{}, err
			}
			old = p.catalog.Get(c.ref)
		}
	}
	return Result{}, ErrContended
}

// found reads what the resource is from an outcome, or asks where the outcome does not
// say.
func (p *Plane) found(ctx context.Context, r resource.Ref, path string, found []store.KV) (old *catalog.Item, gone store.KV, current bool, err error) {
	for _, kv := range found {
		switch kv.Key {
		case store.State + path:
			current = true
			if kv.Revision == 0 {
				continue
			}
			if old, err = catalog.Parse(path, kv.Value, kv.Revision); err != nil {
				return nil, gone, false, err
			}
		case goneKey(path):
			gone = kv
		}
	}
	if current {
		return old, gone, true, nil
	}
	if err := p.catchUp(ctx); err != nil {
		return nil, gone, false, err
	}
	gone, err = p.store.Get(ctx, goneKey(path))
	return p.catalog.Get(r), gone, true, err
}

// prepare makes the request that leads from old to what follows.
func (p *Plane) prepare(by Caller, c change, o Options, path string, old *catalog.Item, gone store.KV) (Result, store.Request, error) {
	if err := precondition(c, o, old); err != nil {
		return Result{}, store.Request{}, err
	}
	doc, err := c.next(old)
	if err == nil {
		err = c.full(old)
	}
	if err != nil {
		return Result{}, store.Request{}, err
	}
	var revision, version int64
	var goneRevision int64
	switch {
	case old != nil:
		revision, version = old.Revision, old.Version
	case gone.Revision != 0:
		goneRevision = gone.Revision
		if version, _, err = resource.DecodeVersioned(gone.Value); err != nil {
			return Result{}, store.Request{}, fmt.Errorf("%s: %w", gone.Key, err)
		}
	}
	now := time.Now().UTC()
	key := store.State + path
	request := store.Request{If: []store.Condition{{Key: key, Revision: revision}}}
	result := Result{Created: old == nil}
	if old != nil && !c.noHistory {
		request.Then = append(request.Then, store.Op{Key: historyKey(path, version, places(p.cfg.Limits.History)), Value: resource.EncodeVersioned(version, old.Body)})
	}
	audit := resource.Audit{At: now, Who: by.Name, From: by.From, Act: c.act, Ref: c.ref}
	if old != nil {
		audit.Old = old.Version
	}
	if doc == nil {
		result.Item, result.Removed = old, true
		request.Then = append(request.Then, store.Op{Key: key, Delete: true})
		if !c.noHistory {
			request.Then = append(request.Then, store.Op{Key: goneKey(path), Value: resource.EncodeVersioned(version, now.AppendFormat(nil, time.RFC3339))})
		}
	} else {
		version++
		limit := resource.MaxDocument
		if c.ref.Kind == resource.Policies {
			limit = min(limit, p.cfg.Limits.PolicyBytes)
		}
		body, resourceValue, err := finish(doc, resource.Change{Version: version, At: now, By: by.Name}, limit)
		if err != nil {
			return Result{}, store.Request{}, err
		}
		audit.New = version
		result.Item = &catalog.Item{Ref: c.ref, Path: path, Version: version, Body: body, Resource: resourceValue}
		request.Then = append(request.Then, store.Op{Key: key, Value: resource.EncodeVersioned(version, body)})
	}
	if old == nil && !c.noHistory {
		// Versions go on where they were when the resource was removed.
		request.If = append(request.If, store.Condition{Key: goneKey(path), Revision: goneRevision})
		if goneRevision != 0 && doc != nil {
			request.Then = append(request.Then, store.Op{Key: goneKey(path), Delete: true})
		}
	}
	request.Note = audit.AppendJSON(make([]byte, 0, 256))
	return result, request, nil
}

// finish fills in who changed a document, and writes it.
func finish(doc any, change resource.Change, limit int) (body []byte, kept any, err error) {
	switch d := doc.(type) {
	case *resource.Policy:
		d.Change = change
	case *resource.Config:
		d.Change = change
		kept = d
	case *resource.Instance:
		d.Change = change
		kept = d
	default:
		return nil, nil, fmt.Errorf("%T is no resource", doc)
	}
	body, err = json.Marshal(doc)
	if len(body) > limit {
		return nil, nil, resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("has %d bytes as it is kept: must have %d at most", len(body), limit)}}
	}
	return body, kept, err
}

// precondition returns why a change may not be made to old.
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

// MatchesTag compares a tag, which is a strong one, with those of a header field: by the strong
// comparison, as If-Match has it, or by the weak one, as If-None-Match has it (RFC 9110,
// sections 13.1.1 and 13.1.2).
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

// A keyRecord is what is remembered of a change with a key. The document is in it as it is:
// with what the resource was and is, the store takes three of the largest (see
// resource.MaxDocument), and base64 would make a third more of one.
type keyRecord struct {
	Asked    string          `json:"asked"`
	Version  int64           `json:"version"`
	Created  bool            `json:"created,omitempty"`
	Removed  bool            `json:"removed,omitempty"`
	Document json.RawMessage `json:"document,omitempty"`
}

// keyKey is where it is remembered: a client's keys are its own.
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

// repeated answers a change as the first one with its key was.
func (p *Plane) repeated(c change, kv store.KV) (Result, error) {
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
