package plane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
	"dyno/services/internal/trace"
)

// Create makes a policy, a configuration, a counter, a principal or a role, which must not exist yet.
func (p *Plane) Create(ctx context.Context, by Caller, doc resource.Document, o Options) (Result, error) {
	return p.put(ctx, by, doc, o, change{act: resource.Created, mustBeNew: true})
}

// Put makes or replaces one of these, or registers an instance. A gray release and the tokens of a principal stay as
// they are.
func (p *Plane) Put(ctx context.Context, by Caller, doc resource.Document, o Options) (Result, error) {
	if i, ok := doc.(*resource.Instance); ok {
		return p.Register(ctx, by, i, o)
	}
	return p.put(ctx, by, doc, o, change{act: resource.Updated})
}

func (p *Plane) put(ctx context.Context, by Caller, doc resource.Document, o Options, c change) (Result, error) {
	if d, ok := doc.(interface{ Check(resource.Limits) error }); ok {
		_, span := trace.Start(ctx, "check")
		err := d.Check(p.Limits())
		span.End()
		if err != nil {
			return Result{}, err
		}
	}
	if o.Key != "" {
		var err error
		if c.asked, err = json.Marshal(doc); err != nil {
			return Result{}, err
		}
	}
	c.ref = doc.Ref()
	c.next = func(old *catalog.Item) (resource.Document, error) {
		switch d := doc.(type) {
		case *resource.Policy:
			if d.Release != nil {
				return nil, releaseApart
			}
			next := *d
			before, err := documentOf[resource.Policy](old)
			if before != nil {
				next.Release = before.Release
			}
			return &next, err
		case *resource.Config:
			if d.Release != nil {
				return nil, releaseApart
			}
			next := *d
			next.SetData(d.Data())
			if old == nil {
				return &next, nil
			}
			next.Release = old.Resource.(*resource.Config).Release
			return &next, next.Check(p.Limits())
		case *resource.Principal:
			next := *d
			if old != nil {
				next.Tokens = old.Resource.(*resource.Principal).Tokens
			}
			return &next, nil
		case *resource.Counter:
			next := *d
			return &next, nil
		case *resource.Role:
			next := *d
			return &next, nil
		}
		return nil, fmt.Errorf("%T is none of a caller's resources", doc)
	}
	return p.apply(ctx, by, c, o)
}

// A NewContent is what becomes the content of a configuration, and its type if one is given.
type NewContent struct{ Data, Type string }

// PutContent sets the content of a configuration. All else of it stays.
func (p *Plane) PutContent(ctx context.Context, by Caller, r resource.Ref, c NewContent, o Options) (Result, error) {
	return p.apply(ctx, by, change{
		ref: r, act: resource.Updated, asked: []byte("content " + c.Type + "\n" + c.Data),
		next: func(old *catalog.Item) (resource.Document, error) {
			next := resource.Config{Namespace: r.Namespace, Name: r.Name}
			if old != nil {
				next = *old.Resource.(*resource.Config)
			}
			next.SetData(c.Data)
			next.ContentType = cmp.Or(c.Type, next.ContentType)
			return &next, next.Check(p.Limits())
		},
	}, o)
}

// releaseApart refuses a document with a gray release.
var releaseApart = resource.Invalid{{Pointer: "#/release", Detail: "is begun and changed by itself, at /release"}}

// documentOf returns an item's document, which it may have as text only; nil without an item.
func documentOf[T any](i *catalog.Item) (*T, error) {
	if i == nil {
		return nil, nil
	}
	if one, ok := i.Resource.(*T); ok {
		return one, nil
	}
	doc, err := resource.Parse(i.Kind, i.Body)
	if err != nil {
		return nil, err
	}
	return any(doc).(*T), nil
}

// Remove removes a resource. A lock is released by its session only. With a session, its locks are removed.
func (p *Plane) Remove(ctx context.Context, by Caller, r resource.Ref, o Options) (Result, error) {
	result, err := p.apply(ctx, by, change{
		ref: r, act: resource.Removed,
		next: func(old *catalog.Item) (resource.Document, error) {
			if old == nil {
				return nil, &NotFound{r}
			}
			return nil, mayRemove(by, old, o)
		},
	}, o)
	if err == nil && r.Kind == resource.Sessions && !o.DryRun {
		if err = p.store.Revoke(context.WithoutCancel(ctx), leaseOf(r)); errors.Is(err, store.ErrLeaseEnded) {
			err = nil
		} else if err != nil {
			err = fmt.Errorf("%w: the session has ended, and its locks do so with its time: %w", store.ErrUncertain, err)
		}
	}
	return result, err
}

// Version returns an earlier or the present version of a resource, which may have been removed.
func (p *Plane) Version(ctx context.Context, by Caller, r resource.Ref, version int64) (*catalog.Item, error) {
	if err := by.mayFor(access.Read, r); err != nil {
		return nil, err
	}
	i, err := p.version(ctx, r, version)
	if err == nil {
		err = p.maySee(by, i)
	}
	if err != nil {
		return nil, err
	}
	secret, err := p.secret(ctx, r)
	if err != nil {
		return nil, err
	}
	return by.shown(i, false, secret)
}

// version returns a complete version.
func (p *Plane) version(ctx context.Context, r resource.Ref, version int64) (*catalog.Item, error) {
	current, oldest, newest, err := p.kept(ctx, r)
	if err != nil {
		return nil, err
	}
	if current != nil && current.Version == version {
		return current, nil
	}
	path := r.Path()
	if oldest <= version && version <= newest {
		kv, err := p.store.Get(ctx, historyKey(path, version, places(p.Limits().History)))
		if err != nil {
			return nil, err
		}
		if kv.Revision != 0 {
			if item, err := catalog.Parse(path, kv.Value, kv.Revision); err != nil || item.Version == version {
				return item, err
			}
		}
		// It may be in the place of another limit, or replaced under one.
		items, err := p.earlier(ctx, path)
		if i := slices.IndexFunc(items, func(item *catalog.Item) bool { return item.Version == version }); err != nil || i >= 0 {
			if err != nil {
				return nil, err
			}
			return items[i], nil
		}
	}
	return nil, fmt.Errorf("version %d: %w", version, &NotFound{r})
}

// earlier returns the versions of a resource that are in its history, oldest first.
func (p *Plane) earlier(ctx context.Context, path string) ([]*catalog.Item, error) {
	kvs, _, err := p.store.List(ctx, historyFolder(path), "", int(places(maxHistory)))
	if err != nil {
		return nil, err
	}
	items := make([]*catalog.Item, len(kvs))
	for i, kv := range kvs {
		if items[i], err = catalog.Parse(path, kv.Value, kv.Revision); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(items, func(a, b *catalog.Item) int { return cmp.Compare(a.Version, b.Version) })
	return items, nil
}

// kept returns the present resource, nil if it was removed, and the range of its versions. The newest is the present
// one, or the last before the removal. Older versions may exist, and do not count. newest is 0 if there never was
// one, or it is forgotten.
func (p *Plane) kept(ctx context.Context, r resource.Ref) (current *catalog.Item, oldest, newest int64, err error) {
	if err := r.Check(); err != nil {
		return nil, 0, 0, err
	}
	if err := p.catchUp(ctx); err != nil {
		return nil, 0, 0, err
	}
	current, newest, err = p.newest(ctx, r)
	oldest = newest - int64(p.Limits().History)
	if current == nil {
		oldest++ // the newest is in the history
	}
	return current, max(1, oldest), newest, err
}

// newest returns a resource and its version. If it was removed, that is nil and its last version; 0 is none.
func (p *Plane) newest(ctx context.Context, r resource.Ref) (current *catalog.Item, version int64, err error) {
	path := r.Path()
	for {
		if current = p.catalog.Get(r); current != nil {
			return current, current.Version, nil
		}
		kvs, err := p.store.GetAll(ctx, store.State+path, goneKey(path))
		if err != nil {
			return nil, 0, err
		}
		state, gone := kvs[0], kvs[1]
		switch {
		case gone.Revision != 0:
			if version, _, err = resource.DecodeVersioned(gone.Value); err != nil {
				return nil, 0, fmt.Errorf("%s: %w", gone.Key, err)
			}
			return nil, version, nil
		case state.Revision == 0:
			return nil, 0, nil
		}
		// It was made again meanwhile.
		if err := p.catchUp(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// secret reports whether a configuration is secret, or was when it was removed. That covers its earlier versions:
// they may hold the secret from before it was marked. The error is a *NotFound if nothing is known of it.
func (p *Plane) secret(ctx context.Context, r resource.Ref) (bool, error) {
	if r.Kind != resource.Configs {
		return false, nil
	}
	item, newest, err := p.newest(ctx, r)
	if err != nil {
		return false, err
	}
	if item == nil {
		if item, err = p.version(ctx, r, newest); err != nil {
			return false, err
		}
	}
	return item.Resource.(*resource.Config).Secret, nil
}

// History returns the kept versions of a resource, oldest first, with the present one. If the newest is secret, all
// are.
func (p *Plane) History(ctx context.Context, by Caller, r resource.Ref) (out List[*catalog.Item], err error) {
	if err := by.mayFor(access.Read, r); err != nil {
		return out, err
	}
	out.Revision = p.Revision()
	if out.Items, err = p.history(ctx, r); err != nil {
		return out, err
	}
	for _, i := range out.Items {
		if err := p.maySee(by, i); err != nil {
			return List[*catalog.Item]{}, err
		}
	}
	newest, ok := out.Items[len(out.Items)-1].Resource.(*resource.Config)
	return out, by.mask(out.Items, ok && newest.Secret)
}

// history returns the complete versions; there is at least one. If all that it read about is replaced meanwhile, it
// reads again.
func (p *Plane) history(ctx context.Context, r resource.Ref) ([]*catalog.Item, error) {
	for range maxAttempts {
		current, oldest, newest, err := p.kept(ctx, r)
		if err != nil {
			return nil, err
		}
		if newest == 0 {
			break
		}
		items, err := p.earlier(ctx, r.Path())
		if err != nil {
			return nil, err
		}
		items = slices.DeleteFunc(items, func(item *catalog.Item) bool {
			return item.Version < oldest || item.Version > newest || current != nil && item.Version == newest
		})
		if current != nil {
			items = append(items, current)
		}
		if len(items) > 0 {
			return items, nil
		}
	}
	return nil, &NotFound{r}
}

// Rollback makes an earlier version's document the resource's next version. It ends a gray release.
func (p *Plane) Rollback(ctx context.Context, by Caller, r resource.Ref, version int64, o Options) (Result, error) {
	if version < 1 {
		return Result{}, resource.Invalid{{Pointer: "#/version", Detail: "must be a number from 1"}}
	}
	var earlier *catalog.Item
	return p.apply(ctx, by, change{
		ref: r, act: resource.RolledBack, asked: fmt.Appendf(nil, "%d", version),
		next: func(old *catalog.Item) (resource.Document, error) {
			// Checked only here: a repeated change with a key must succeed, although the change may have removed this
			// version.
			if earlier == nil {
				var err error
				if earlier, err = p.version(ctx, r, version); err != nil {
					return nil, err
				}
			}
			doc, err := resource.Parse(r.Kind, earlier.Body)
			if p, ok := doc.(*resource.Policy); ok {
				p.Release = nil
			}
			c, ok := doc.(*resource.Config)
			if !ok {
				return doc, err
			}
			c.Release = nil
			// A configuration that became secret later stays secret, also if it was removed: only an explicit change
			// reveals it.
			was := old != nil && old.Resource.(*resource.Config).Secret
			if old == nil {
				if was, err = p.secret(ctx, r); err != nil {
					return nil, err
				}
			}
			c.Secret = c.Secret || was
			return c, nil
		},
	}, o)
}

// Release begins a configuration's gray release, or changes it. Clients chosen by percent stay chosen while the
// percentage does not shrink.
func (p *Plane) Release(ctx context.Context, by Caller, r resource.Ref, release resource.Release, o Options) (Result, error) {
	if err := release.Check(p.Limits()); err != nil {
		return Result{}, err
	}
	return edit(ctx, p, by, r, resource.Released, release, o, func(c *resource.Config) error {
		one := release
		one.SetData(release.Data())
		if one.Since = c.Version; c.Release != nil {
			one.Since = c.Release.Since
		}
		c.Release = &one
		return c.Check(p.Limits())
	})
}

// ReleasePolicy is Release for a policy.
func (p *Plane) ReleasePolicy(ctx context.Context, by Caller, r resource.Ref, release resource.PolicyRelease, o Options) (Result, error) {
	if err := release.Check(p.Limits()); err != nil {
		return Result{}, err
	}
	return edit(ctx, p, by, r, resource.Released, release, o, func(c *resource.Policy) error {
		one := release
		if one.Since = c.Version; c.Release != nil {
			one.Since = c.Release.Since
		}
		c.Release = &one
		return c.Check(p.Limits())
	})
}

// ErrNoRelease says that there is no gray release to end.
var ErrNoRelease = fmt.Errorf("%w: it has no gray release", ErrPrecondition)

// EndRelease ends a gray release: promote gives its content or rules to all clients, otherwise it is withdrawn.
func (p *Plane) EndRelease(ctx context.Context, by Caller, r resource.Ref, promote bool, o Options) (Result, error) {
	act := resource.Withdrawn
	if promote {
		act = resource.Promoted
	}
	if r.Kind == resource.Policies {
		return edit(ctx, p, by, r, act, nil, o, func(c *resource.Policy) error {
			if c.Release == nil {
				return ErrNoRelease
			}
			if promote {
				c.Rules = c.Release.Rules
			}
			c.Release = nil
			return nil
		})
	}
	return edit(ctx, p, by, r, act, nil, o, func(c *resource.Config) error {
		if c.Release == nil {
			return ErrNoRelease
		}
		if promote {
			c.SetData(c.Release.Data())
		}
		c.Release = nil
		return nil
	})
}

// edit changes a policy or a configuration that exists. asked is what the caller gave; nil is nothing.
func edit[T any](ctx context.Context, p *Plane, by Caller, r resource.Ref, act resource.Act, asked any, o Options, alter func(*T) error) (Result, error) {
	c := change{ref: r, act: act}
	if asked != nil {
		text, err := json.Marshal(asked)
		if err != nil {
			return Result{}, err
		}
		c.asked = text
	}
	c.next = func(old *catalog.Item) (resource.Document, error) {
		if old == nil {
			return nil, &NotFound{r}
		}
		before, err := documentOf[T](old)
		if err != nil {
			return nil, err
		}
		next := *before
		return any(&next).(resource.Document), alter(&next)
	}
	return p.apply(ctx, by, c, o)
}

// An Unpublished says that a client has acknowledged a version that never existed.
type Unpublished struct {
	resource.Ref
	Version, Newest int64
}

func (e *Unpublished) Error() string {
	return fmt.Sprintf("%s: version %d was never published: the newest is %d", e.Ref, e.Version, e.Newest)
}

// Ack notes a client's acknowledgements. It returns how many of them were new, and the error of each, in their order.
// An acknowledgement with an error is not noted.
func (p *Plane) Ack(ctx context.Context, by Caller, client string, acks []resource.Ack) (news int, never []*Unpublished, err error) {
	if client == "" || CheckClientName("client", client) != nil || len(acks) > MaxTogether {
		return 0, nil, resource.Invalid{{Pointer: "#", Detail: fmt.Sprintf("client must have 1 to %d characters, and there may be %d acks at most", MaxClient, MaxTogether)}}
	}
	for i, a := range acks {
		if a.Check() != nil || a.Kind.OfAccess() || a.ID != "" && a.Kind != resource.Instances || a.Version < 1 || a.State != resource.Applied && a.State != resource.Refused {
			return 0, nil, resource.Invalid{{Pointer: fmt.Sprintf("#/acks/%d", i), Detail: "must name a resource, a version from 1 and the state applied or refused"}}
		}
		if err := by.may(access.Read, a.Namespace); err != nil {
			return 0, nil, err
		}
	}
	news, errs := p.ack(ctx, by.ClientPrefix+client, acks)
	never = make([]*Unpublished, len(errs))
	for i, err := range errs {
		if err != nil && !errors.As(err, &never[i]) {
			return news, nil, err
		}
	}
	return news, never, nil
}

// ack notes the acknowledgements of a client by its name in the ledger. It returns how many were new, and the error
// of each: nil, an *Unpublished, or why the version cannot be checked. One with an error is not noted. Its version
// would count as the client's newest, and a rollout of the real ones would never end.
func (p *Plane) ack(ctx context.Context, client string, acks []resource.Ack) (news int, errs []error) {
	now := timeNow()
	errs = make([]error, len(acks))
	var caughtUp bool
	for i := range acks {
		a := &acks[i]
		newest, there := p.published(a.Ref)
		if there && a.Version > newest && !caughtUp {
			// Another replica may have sent a version that this one does not know yet.
			if errs[i] = p.catchUp(ctx); errs[i] != nil {
				continue
			}
			caughtUp = true
			newest, there = p.published(a.Ref)
		}
		if there && a.Version > newest {
			errs[i] = &Unpublished{a.Ref, a.Version, newest}
			continue
		}
		if !there || !p.ledger.Ack(client, a, now) {
			continue
		}
		news++
		p.metrics.acks.WithLabelValues(string(a.Kind), string(a.State)).Inc()
		item := p.catalog.Get(a.Ref)
		if a.State == resource.Applied && item != nil && item.Version == a.Version {
			if at, ok := changedAt(item); ok {
				p.metrics.applied.WithLabelValues(string(a.Kind)).Observe(max(0, now.Sub(at).Seconds()))
			}
		}
	}
	return news, errs
}

// published returns the newest version of a resource, or of a service, whose versions are revisions of the store.
// there is false if no such resource or service exists: clients must not add made-up names to the ledger.
func (p *Plane) published(r resource.Ref) (newest int64, there bool) {
	if r.Kind == resource.Instances && r.ID == "" {
		newest, _ = p.catalog.Revision()
		return newest, p.catalog.CountService(r.Namespace, r.Name) > 0
	}
	item := p.catalog.Get(r)
	if item == nil {
		return 0, false
	}
	return item.Version, true
}
