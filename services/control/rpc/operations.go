package rpc

import (
	"cmp"
	"context"
	"slices"
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
	namespace := cmp.Or(q.GetNamespace(), resource.DefaultNamespace)
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

// Put answers as control.proto says.
func (a *API) Put(ctx context.Context, q *controlpb.PutRequest) (*controlpb.ChangeResponse, error) {
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	var doc any
	switch d := q.GetDocument().(type) {
	case *controlpb.PutRequest_Policy:
		if r.Kind == resource.Policies {
			if doc, err = readPolicy(r, d.Policy); err != nil {
				return nil, err
			}
		}
	case *controlpb.PutRequest_Config:
		if r.Kind == resource.Configs {
			doc = readConfig(r, d.Config)
		}
	case *controlpb.PutRequest_Counter:
		if r.Kind == resource.Counters {
			doc = &resource.Counter{Namespace: r.Namespace, Name: r.Name, Value: d.Counter.GetValue()}
		}
	}
	if doc == nil {
		return nil, plane.BadParameterf("document: must be given, of the reference's kind: a policy, a config or a counter")
	}
	return changed(a.plane.Put(ctx, Caller(ctx), doc, options(q.GetConditions())))
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

// refOf parses a reference of one kind, which need not be given.
func refOf(m *controlpb.Ref, kind resource.Kind) (resource.Ref, error) {
	if m.GetKind() == controlpb.Kind_KIND_UNSPECIFIED {
		m = proto.CloneOf(m)
		if m == nil {
			m = &controlpb.Ref{}
		}
		m.Kind = message.Ref(resource.Ref{Kind: kind}).GetKind()
	}
	r, err := readRef(m)
	if err == nil && r.Kind != kind {
		err = plane.BadParameterf("ref: names no %s", kind)
	}
	return r, err
}

// BeginSession answers as control.proto says.
func (a *API) BeginSession(ctx context.Context, q *controlpb.BeginSessionRequest) (*controlpb.ChangeResponse, error) {
	s := &resource.Session{Namespace: cmp.Or(q.GetNamespace(), resource.DefaultNamespace)}
	s.Name, s.TTL = q.GetSession().GetName(), cmp.Or(int(q.GetSession().GetTtlSeconds()), resource.DefaultSessionTTL)
	return changed(a.plane.Begin(ctx, Caller(ctx), s))
}

// RenewSession answers as control.proto says.
func (a *API) RenewSession(ctx context.Context, q *controlpb.RenewSessionRequest) (*controlpb.RenewSessionResponse, error) {
	r, err := refOf(q.GetRef(), resource.Sessions)
	if err != nil {
		return nil, err
	}
	return &controlpb.RenewSessionResponse{}, a.plane.Renew(ctx, Caller(ctx), r)
}

// Acquire answers as control.proto says.
func (a *API) Acquire(ctx context.Context, q *controlpb.AcquireRequest) (*controlpb.ChangeResponse, error) {
	r, err := refOf(q.GetRef(), resource.Locks)
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
	r, err := refOf(q.GetRef(), resource.Counters)
	if err != nil {
		return nil, err
	}
	return changed(a.plane.Add(ctx, Caller(ctx), r, q.GetAdd(), options(q.GetConditions())))
}

// Register answers as control.proto says.
func (a *API) Register(ctx context.Context, q *controlpb.RegisterRequest) (*controlpb.ChangeResponse, error) {
	r, err := refOf(q.GetRef(), resource.Instances)
	if err != nil {
		return nil, err
	}
	i, err := readInstance(r, q.GetInstance())
	if err != nil {
		return nil, err
	}
	return changed(a.plane.Register(ctx, Caller(ctx), i, options(q.GetConditions())))
}

// Maintain answers as control.proto says.
func (a *API) Maintain(ctx context.Context, q *controlpb.MaintainRequest) (*controlpb.ChangeResponse, error) {
	r, err := refOf(q.GetRef(), resource.Instances)
	if err != nil {
		return nil, err
	}
	return changed(a.plane.Maintain(ctx, Caller(ctx), r, q.GetReason(), options(q.GetConditions())))
}

// Heartbeat answers as control.proto says.
func (a *API) Heartbeat(ctx context.Context, q *controlpb.HeartbeatRequest) (*controlpb.HeartbeatResponse, error) {
	if n := len(q.GetInstances()); n == 0 || n > plane.MaxTogether {
		return nil, plane.BadParameterf("instances: %d of them: must be from 1 to %d", n, plane.MaxTogether)
	}
	refs := make([]resource.Ref, len(q.GetInstances()))
	for i, m := range q.GetInstances() {
		var err error
		if refs[i], err = refOf(m, resource.Instances); err != nil {
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

// changeRef parses a reference of one of the given kinds.
func changeRef(m *controlpb.Ref, kinds ...resource.Kind) (resource.Ref, error) {
	r, err := readRef(m)
	if err == nil && !slices.Contains(kinds, r.Kind) {
		err = plane.BadParameterf("ref.kind: %s: must be of %v", r.Kind, kinds)
	}
	return r, err
}

// Release answers as control.proto says.
func (a *API) Release(ctx context.Context, q *controlpb.ReleaseRequest) (*controlpb.ChangeResponse, error) {
	r, err := changeRef(q.GetRef(), resource.Configs, resource.Policies)
	if err != nil {
		return nil, err
	}
	choice := resource.Choice{Percent: q.GetPercent()}
	for name, values := range q.GetLabels() {
		if choice.Labels == nil {
			choice.Labels = map[string][]string{}
		}
		choice.Labels[name] = values.GetValues()
	}
	if r.Kind == resource.Policies {
		p, err := readPolicy(r, &controlpb.Policy{Rules: q.GetRules()})
		if err != nil {
			return nil, err
		}
		return changed(a.plane.ReleasePolicy(ctx, Caller(ctx), r, resource.PolicyRelease{Rules: p.Rules, Choice: choice}, options(q.GetConditions())))
	}
	release := resource.Release{Choice: choice}
	release.SetData(string(q.GetContent()))
	return changed(a.plane.Release(ctx, Caller(ctx), r, release, options(q.GetConditions())))
}

// EndRelease answers as control.proto says.
func (a *API) EndRelease(ctx context.Context, q *controlpb.EndReleaseRequest) (*controlpb.ChangeResponse, error) {
	r, err := changeRef(q.GetRef(), resource.Configs, resource.Policies)
	if err != nil {
		return nil, err
	}
	return changed(a.plane.EndRelease(ctx, Caller(ctx), r, q.GetPromote(), options(q.GetConditions())))
}

// Rollback answers as control.proto says.
func (a *API) Rollback(ctx context.Context, q *controlpb.RollbackRequest) (*controlpb.ChangeResponse, error) {
	r, err := changeRef(q.GetRef(), resource.Policies, resource.Configs)
	if err != nil {
		return nil, err
	}
	if q.GetVersion() < 1 {
		return nil, plane.BadParameterf("version: must be a number from 1")
	}
	return changed(a.plane.Rollback(ctx, Caller(ctx), r, q.GetVersion(), options(q.GetConditions())))
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
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	if !r.Kind.Traits().History {
		return nil, plane.BadParameterf("ref.kind: must be a policy or a configuration")
	}
	got, err := a.plane.Rollout(ctx, Caller(ctx), r, limit(q.GetLimit()))
	if err != nil {
		return nil, err
	}
	count := func(n int) int32 { return int32(min(n, 1<<30)) } //nolint:gosec // bounded
	out := &controlpb.RolloutResponse{
		Version: got.Version, Clients: count(got.Clients), Applied: count(got.Applied), Refused: count(got.Refused), Pending: count(got.Pending), Versions: map[int64]int32{},
	}
	for version, n := range got.Versions {
		out.Versions[version] = count(n)
	}
	for _, h := range got.Holdings {
		out.Holdings = append(out.Holdings, &controlpb.Holding{
			Client: h.Client, Connected: h.Connected, State: string(h.State), Version: h.Version, RunningVersion: h.Running, Reason: h.Reason, AtUnixNano: h.At.UnixNano(),
		})
	}
	return out, nil
}

var _ controlpb.ControlServer = (*API)(nil)

// itemOf makes a catalog item of a change.
func itemOf(r resource.Ref, revision, version int64, body []byte, doc any) *catalog.Item {
	return &catalog.Item{Ref: r, Path: r.Path(), Revision: revision, Version: version, Body: body, Resource: doc}
}
