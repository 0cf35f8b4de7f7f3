package plane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A change makes the next version of a resource. apply reads the facts about it, decides by them alone, and commits;
// again if the facts have changed meanwhile.
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
	noAudit   bool   // notes nothing in the audit
	part      string // the identifier of a part that the change is about, for the audit
	// lease is that of the resource's session; 0 is none. while are conditions of other keys.
	lease int64
	while []requirement
}

// A requirement is a condition, with the error if it does not hold.
type requirement struct {
	store.Condition
	otherwise error
}

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

// apply makes a change. It applies only to the version of the resource that it was made for; if that has changed,
// apply repeats the change.
func (p *Plane) apply(ctx context.Context, by Caller, c change, o Options) (Result, error) {
	if err := cmp.Or(c.check(by, o), p.readOnly(), p.isCopied(c.ref)); err != nil {
		return Result{}, err
	}
	f := p.facts(by, c)
	f.old = p.catalog.Get(c.ref)
	// The store cannot refuse a stale dry run, a stale count, or what others have: they have no condition.
	stale := o.DryRun || c.ref.Kind.Traits().Leased || c.ref.Kind.OfAccess() || f.nearlyFull()
	for range maxAttempts {
		if stale {
			old, err := p.latest(ctx, c.ref)
			if err != nil {
				return Result{}, err
			}
			gone := f.gone
			f = p.facts(by, c)
			f.old, f.gone, f.current = old, gone, true
		}
		d, err := decide(c, o, f)
		switch {
		case err != nil && !f.current:
			stale = true // the reason of the refusal may be gone
			continue
		case err != nil:
			return p.refused(ctx, by, c, o, err)
		case o.DryRun:
			return d.Result, nil
		}
		outcome, err := p.commit(ctx, c, d)
		if err != nil {
			return Result{}, err
		}
		if outcome.Done {
			return d.committed(outcome.Revision), nil
		}
		if n := len(outcome.Found); o.Key != "" && n > 0 && outcome.Found[n-1].Revision != 0 {
			return repeated(c, outcome.Found[n-1])
		}
		f = p.facts(by, c)
		if err := f.find(c, outcome.Found); err != nil {
			return Result{}, err
		}
		// If a resource was removed, the replica may still count it.
		stale = !f.current || c.ref.Kind.OfAccess() || f.nearlyFull()
	}
	return Result{}, ErrContended
}

// facts reads what the decision about a change depends on, but the resource itself.
func (p *Plane) facts(by Caller, c change) facts {
	r, limits := c.ref, p.Limits()
	f := facts{
		by: by, limits: limits, now: time.Now().UTC(),
		rooms: []room{{r.Kind.Traits().Plural, limits.Most(r.Kind), p.catalog.Count(r.Kind)}},
	}
	if r.Kind == resource.Instances {
		f.rooms = append(f.rooms, room{"instances of this service", limits.PerService, p.catalog.CountService(r.Namespace, r.Name)})
	}
	if r.Kind.OfAccess() {
		f.delegate = p.checkDelegation
	}
	return f
}

// commit carries a decision out, if the facts still hold.
func (p *Plane) commit(ctx context.Context, c change, d decision) (store.Outcome, error) {
	pushed := p.traced.add(ctx, c.ref, d.Version)
	call, span := trace.StartCall(ctx, "etcd")
	outcome, err := p.store.Apply(call, d.request)
	span.End()
	p.traced.acknowledge(pushed, err == nil && outcome.Done)
	switch {
	case err != nil:
	case !outcome.Done:
		p.metrics.conflicts.Inc()
	case c.ref.Kind.OfAccess() && p.await(ctx, outcome.Revision) == nil:
		p.updateBook() // so that the next request to this replica finds it changed
	}
	return outcome, err
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

// find takes the facts from the keys of an outcome. The resource is not current without any.
func (f *facts) find(c change, list []store.KV) (err error) {
	path := c.ref.Path()
	for _, kv := range list {
		for _, w := range c.while {
			if w.Key == kv.Key && w.Revision != kv.Revision {
				return w.otherwise
			}
		}
		switch kv.Key {
		case goneKey(path):
			f.gone = kv
		case store.State + path:
			f.current = true
			if kv.Revision == 0 {
				continue
			}
			if f.old, err = catalog.Parse(path, kv.Value, kv.Revision); err != nil {
				return err
			}
		}
	}
	return nil
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
