package rpc

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"dyno/services/control/audit"
	"dyno/services/control/catalog"
	"dyno/services/control/message"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// Get answers as control.proto says.
func (a *API) Get(ctx context.Context, q *controlpb.GetRequest) (*controlpb.GetResponse, error) {
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	item, age, err := a.plane.Get(ctx, Caller(ctx), r, q.GetStale())
	if err != nil {
		return nil, err
	}
	m, err := write(item)
	if err != nil {
		return nil, err
	}
	return &controlpb.GetResponse{Resource: m, AgeSeconds: age.Seconds()}, nil
}

// limit returns the length of a list.
func limit(n int32) int {
	if n == 0 {
		return plane.DefaultLimit
	}
	return int(n)
}

// List answers as control.proto says.
func (a *API) List(ctx context.Context, q *controlpb.ListRequest) (*controlpb.ListResponse, error) {
	kind, err := readKind(q.GetKind())
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(q.GetNamespace(), defaultSpace(kind))
	page := plane.Page{Limit: limit(q.GetLimit()), After: q.GetAfter(), Stale: q.GetStale(), Prefix: q.GetPrefix()}
	if kind == resource.Instances {
		l, err := a.plane.Instances(ctx, Caller(ctx), namespace, q.GetService(), plane.InstanceFilter{Metadata: q.GetMetadata()}, page)
		return listed(l, err, func(i plane.Instance) *catalog.Item { return i.Item })
	}
	if q.GetService() != "" {
		return nil, plane.BadParameterf("service: is for instances only")
	}
	if q.Separator != nil {
		l, err := a.plane.Names(ctx, Caller(ctx), kind, namespace, q.GetSeparator(), page)
		return &controlpb.ListResponse{Names: l.Items, Next: l.Next, Revision: l.Revision, AgeSeconds: l.Age.Seconds()}, err
	}
	l, err := a.plane.List(ctx, Caller(ctx), kind, namespace, page)
	return listed(l, err, func(i *catalog.Item) *catalog.Item { return i })
}

// listed makes the response with a list.
func listed[T any](l plane.List[T], err error, item func(T) *catalog.Item) (*controlpb.ListResponse, error) {
	if err != nil {
		return nil, err
	}
	out := &controlpb.ListResponse{Next: l.Next, Revision: l.Revision, AgeSeconds: l.Age.Seconds()}
	for _, i := range l.Items {
		m, err := write(item(i))
		if err != nil {
			return nil, err
		}
		out.Resources = append(out.Resources, m)
	}
	return out, nil
}

// options returns the options of a change.
func options(c *controlpb.Conditions) plane.Options {
	return plane.Options{IfMatch: c.GetIfMatch(), IfNoneMatch: c.GetIfNoneMatch(), DryRun: c.GetDryRun(), Key: c.GetIdempotencyKey()}
}

// changed makes the response of a change.
func changed(r plane.Result, err error) (*controlpb.ChangeResponse, error) {
	if err != nil {
		return nil, err
	}
	m, err := write(r.Item)
	if err != nil {
		return nil, err
	}
	return &controlpb.ChangeResponse{Resource: m, Created: r.Created && !r.DryRun, Removed: r.Removed && !r.DryRun, RepeatedKey: r.Repeated}, nil
}

// A changeRequest names a resource to change.
type changeRequest interface {
	GetRef() *controlpb.Ref
	GetConditions() *controlpb.Conditions
}

// change makes a change of a resource of one of some kinds, with an argument.
func change[T any](ctx context.Context, a *API, q changeRequest, do func(*plane.Plane, context.Context, plane.Caller, resource.Ref, T, plane.Options) (plane.Result, error), argument T, kinds ...resource.Kind) (*controlpb.ChangeResponse, error) {
	r, err := readRef(q.GetRef(), kinds...)
	if err != nil {
		return nil, err
	}
	return changed(do(a.plane, ctx, Caller(ctx), r, argument, options(q.GetConditions())))
}

// put makes or replaces a resource of one of some kinds, by a message of its document.
func (a *API) put(ctx context.Context, q changeRequest, m proto.Message, kinds ...resource.Kind) (*controlpb.ChangeResponse, error) {
	r, err := readRef(q.GetRef(), kinds...)
	if err != nil {
		return nil, err
	}
	doc, err := message.Document(r, m)
	if err != nil {
		return nil, err
	}
	if doc == nil || doc.Ref() != r {
		return nil, plane.BadParameterf("document: must be given, of the reference's kind: no instance, session or lock")
	}
	return changed(a.plane.Put(ctx, Caller(ctx), doc, options(q.GetConditions())))
}

// Put answers as control.proto says.
func (a *API) Put(ctx context.Context, q *controlpb.PutRequest) (*controlpb.ChangeResponse, error) {
	switch d := q.GetDocument().(type) {
	case *controlpb.PutRequest_Policy:
		return a.put(ctx, q, d.Policy)
	case *controlpb.PutRequest_Config:
		return a.put(ctx, q, d.Config)
	case *controlpb.PutRequest_Counter:
		return a.put(ctx, q, d.Counter)
	case *controlpb.PutRequest_Principal:
		return a.put(ctx, q, d.Principal)
	case *controlpb.PutRequest_Role:
		return a.put(ctx, q, d.Role)
	}
	return a.put(ctx, q, nil)
}

// Remove answers as control.proto says.
func (a *API) Remove(ctx context.Context, q *controlpb.RemoveRequest) (*controlpb.ChangeResponse, error) {
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	o := options(q.GetConditions())
	o.Session = q.GetSession()
	return changed(a.plane.Remove(ctx, Caller(ctx), r, o))
}

// BeginSession answers as control.proto says.
func (a *API) BeginSession(ctx context.Context, q *controlpb.BeginSessionRequest) (*controlpb.ChangeResponse, error) {
	s := &resource.Session{Namespace: cmp.Or(q.GetNamespace(), resource.DefaultNamespace)}
	s.Name, s.TTL = q.GetSession().GetName(), cmp.Or(int(q.GetSession().GetTtlSeconds()), resource.DefaultSessionTTL)
	return changed(a.plane.Begin(ctx, Caller(ctx), s))
}

// RenewSession answers as control.proto says.
func (a *API) RenewSession(ctx context.Context, q *controlpb.RenewSessionRequest) (*controlpb.RenewSessionResponse, error) {
	r, err := readRef(q.GetRef(), resource.Sessions)
	if err != nil {
		return nil, err
	}
	return &controlpb.RenewSessionResponse{}, a.plane.Renew(ctx, Caller(ctx), r)
}

// Acquire answers as control.proto says.
func (a *API) Acquire(ctx context.Context, q *controlpb.AcquireRequest) (*controlpb.ChangeResponse, error) {
	r, err := readRef(q.GetRef(), resource.Locks)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	return changed(a.plane.Acquire(ctx, Caller(ctx), r, resource.LockInput{Session: q.GetSession(), Value: q.GetValue(), Wait: q.GetWaitSeconds()}))
}

// Add answers as control.proto says.
func (a *API) Add(ctx context.Context, q *controlpb.AddRequest) (*controlpb.ChangeResponse, error) {
	return change(ctx, a, q, (*plane.Plane).Add, q.GetAdd(), resource.Counters)
}

// Register answers as control.proto says.
func (a *API) Register(ctx context.Context, q *controlpb.RegisterRequest) (*controlpb.ChangeResponse, error) {
	return a.put(ctx, q, q.GetInstance(), resource.Instances)
}

// Maintain answers as control.proto says.
func (a *API) Maintain(ctx context.Context, q *controlpb.MaintainRequest) (*controlpb.ChangeResponse, error) {
	return change(ctx, a, q, (*plane.Plane).Maintain, q.GetReason(), resource.Instances)
}

// Heartbeat answers as control.proto says.
func (a *API) Heartbeat(ctx context.Context, q *controlpb.HeartbeatRequest) (*controlpb.HeartbeatResponse, error) {
	if n := len(q.GetInstances()); n == 0 || n > plane.MaxTogether {
		return nil, plane.BadParameterf("instances: %d of them: must be from 1 to %d", n, plane.MaxTogether)
	}
	refs := make([]resource.Ref, len(q.GetInstances()))
	for i, m := range q.GetInstances() {
		var err error
		if refs[i], err = readRef(m, resource.Instances); err != nil {
			return nil, err // it names no instance: the call is at fault
		}
	}
	unknown, refused, err := a.plane.Heartbeats(ctx, Caller(ctx), refs)
	if err != nil {
		return nil, err
	}
	out := &controlpb.HeartbeatResponse{}
	for _, i := range unknown {
		out.Unknown = append(out.Unknown, q.GetInstances()[i])
	}
	for _, u := range refused {
		out.Unheard = append(out.Unheard, &controlpb.Unheard{Ref: q.GetInstances()[u.Index], Kind: string(u.Kind), Detail: u.Detail})
	}
	return out, nil
}

// Release answers as control.proto says.
func (a *API) Release(ctx context.Context, q *controlpb.ReleaseRequest) (*controlpb.ChangeResponse, error) {
	choice := resource.Choice{Percent: q.GetPercent()}
	for name, values := range q.GetLabels() {
		if choice.Labels == nil {
			choice.Labels = map[string][]string{}
		}
		choice.Labels[name] = values.GetValues()
	}
	if q.GetRef().GetKind() == controlpb.Kind_KIND_POLICY {
		doc, err := message.Document(resource.Ref{}, &controlpb.Policy{Rules: q.GetRules()})
		if err != nil {
			return nil, err
		}
		return change(ctx, a, q, (*plane.Plane).ReleasePolicy, resource.PolicyRelease{Rules: doc.(*resource.Policy).Rules, Choice: choice})
	}
	release := resource.Release{Choice: choice}
	release.SetData(string(q.GetContent()))
	return change(ctx, a, q, (*plane.Plane).Release, release, resource.Configs, resource.Policies)
}

// EndRelease answers as control.proto says.
func (a *API) EndRelease(ctx context.Context, q *controlpb.EndReleaseRequest) (*controlpb.ChangeResponse, error) {
	return change(ctx, a, q, (*plane.Plane).EndRelease, q.GetPromote(), resource.Configs, resource.Policies)
}

// Rollback answers as control.proto says.
func (a *API) Rollback(ctx context.Context, q *controlpb.RollbackRequest) (*controlpb.ChangeResponse, error) {
	return change(ctx, a, q, (*plane.Plane).Rollback, q.GetVersion(), resource.Policies, resource.Configs)
}

// Audit answers as control.proto says.
func (a *API) Audit(ctx context.Context, q *controlpb.AuditRequest) (*controlpb.AuditResponse, error) {
	var from time.Time
	if at := q.GetFromUnixNano(); at > 0 {
		from = time.Unix(0, at)
	}
	page, err := a.plane.Audit(ctx, Caller(ctx), audit.Query{After: q.GetAfter(), From: from, Limit: limit(q.GetLimit())})
	if err != nil {
		return nil, err
	}
	out := &controlpb.AuditResponse{Next: page.Next}
	for _, e := range page.Items {
		out.Entries = append(out.Entries, &controlpb.AuditEntry{
			AtUnixNano: e.At.UnixNano(), Who: e.Who, From: e.From, Act: string(e.Act), Ref: message.Ref(e.Ref), OldVersion: e.Old, NewVersion: e.New,
		})
	}
	return out, nil
}

// Rollout answers as control.proto says.
func (a *API) Rollout(ctx context.Context, q *controlpb.RolloutRequest) (*controlpb.RolloutResponse, error) {
	r, err := readRef(q.GetRef(), resource.Policies, resource.Configs)
	if err != nil {
		return nil, err
	}
	got, err := a.plane.Rollout(ctx, Caller(ctx), r, limit(q.GetLimit()))
	if err != nil {
		return nil, err
	}
	out := &controlpb.RolloutResponse{}
	message.Translate(got, out)
	for i, h := range got.Holdings {
		out.Holdings[i].AtUnixNano = h.At.UnixNano()
	}
	return out, nil
}

var _ controlpb.ControlServer = (*API)(nil)

// itemOf makes a catalog item of a change.
func itemOf(r resource.Ref, revision, version int64, body []byte, doc any) *catalog.Item {
	return &catalog.Item{Ref: r, Path: r.Path(), Revision: revision, Version: version, Body: body, Resource: doc}
}
