package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/catalog"
	"dyno/services/control/format"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// Get answers as control.proto says.
func (a *API) Get(ctx context.Context, q *controlpb.GetRequest) (*controlpb.GetResponse, error) {
	c := who(ctx)
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	if err := c.may(access.Read, r.Namespace); err != nil {
		return nil, err
	}
	item, age, err := a.plane.Get(ctx, r, q.GetStale())
	if err != nil {
		return nil, err
	}
	m, err := write(item)
	if err != nil {
		return nil, err
	}
	return &controlpb.GetResponse{Resource: shown(m, false, c.May(access.Secrets, r.Namespace)), AgeSeconds: age.Seconds()}, nil
}

// Pages.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// limit reads how long a list may be.
func limit(n int32) (int, error) {
	if n == 0 {
		return defaultLimit, nil
	}
	if n < 0 || n > maxLimit {
		return 0, plane.Badf("limit: %d: must be from 1 to %d", n, maxLimit)
	}
	return int(n), nil
}

// List answers as control.proto says.
func (a *API) List(ctx context.Context, q *controlpb.ListRequest) (*controlpb.ListResponse, error) {
	c := who(ctx)
	most, err := limit(q.GetLimit())
	if err != nil {
		return nil, err
	}
	name := "x" // any, to check the namespace
	if q.GetKind() == controlpb.Kind_KIND_INSTANCE {
		name = q.GetService()
	}
	probe := &controlpb.Ref{Kind: q.GetKind(), Namespace: q.GetNamespace(), Name: name}
	if q.GetKind() == controlpb.Kind_KIND_INSTANCE {
		probe.Id = "x"
	} else if q.GetService() != "" {
		return nil, plane.Badf("service: is for instances only")
	}
	r, err := readRef(probe)
	if err != nil {
		return nil, err
	}
	if err := c.may(access.Read, r.Namespace); err != nil {
		return nil, err
	}
	age, err := a.plane.Sync(ctx, q.GetStale())
	if err != nil {
		return nil, err
	}
	prefix := string(r.Kind) + "/" + r.Namespace + "/"
	if r.Kind == resource.Instances {
		prefix += r.Name + "/"
	}
	after := q.GetAfter()
	if after != "" {
		after = prefix + after
	}
	items, more := a.plane.Catalog().Page(prefix, after, most, nil)
	revision, _ := a.plane.Catalog().Revision()
	out := &controlpb.ListResponse{Revision: revision, AgeSeconds: age.Seconds()}
	for _, i := range items {
		m, err := write(i)
		if err != nil {
			return nil, err
		}
		out.Resources = append(out.Resources, shown(m, true, c.May(access.Secrets, r.Namespace)))
	}
	if more {
		last := items[len(items)-1]
		if out.Next = last.Name; r.Kind == resource.Instances {
			out.Next = last.ID
		}
	}
	return out, nil
}

// options reads what goes with a change.
func options(c *controlpb.Conditions) (plane.Options, error) {
	o := plane.Options{IfMatch: c.GetIfMatch(), IfNoneMatch: c.GetIfNoneMatch(), DryRun: c.GetDryRun(), Key: c.GetIdempotencyKey()}
	if len(o.Key) > 128 || len(o.IfMatch) > 1024 || len(o.IfNoneMatch) > 1024 {
		return o, plane.Badf("conditions: the idempotency key must have 128 bytes at most, the others 1024")
	}
	return o, nil
}

// changed answers a change.
func changed(c caller, r plane.Result, err error) (*controlpb.ChangeResponse, error) {
	if err != nil {
		return nil, err
	}
	m, err := write(r.Item)
	if err != nil {
		return nil, err
	}
	m = shown(m, false, c.May(access.Secrets, r.Namespace))
	return &controlpb.ChangeResponse{Resource: m, Created: r.Created && !r.DryRun, Removed: r.Removed && !r.DryRun, RepeatedKey: r.Repeated}, nil
}

// Put answers as control.proto says.
func (a *API) Put(ctx context.Context, q *controlpb.PutRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	if err := c.may(access.Write, r.Namespace); err != nil {
		return nil, err
	}
	o, err := options(q.GetConditions())
	if err != nil {
		return nil, err
	}
	var doc any
	switch d := q.GetDocument().(type) {
	case *controlpb.PutRequest_Policy:
		if r.Kind == resource.Policies {
			doc = readPolicy(r, d.Policy)
		}
	case *controlpb.PutRequest_Config:
		if r.Kind == resource.Configs {
			doc = readConfig(r, d.Config)
		}
	}
	if doc == nil {
		return nil, plane.Badf("document: must be given, of the reference's kind: a policy or a config")
	}
	result, err := a.plane.Put(ctx, c.Caller, doc, o)
	return changed(c, result, err)
}

// Remove answers as control.proto says.
func (a *API) Remove(ctx context.Context, q *controlpb.RemoveRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, err := readRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	what := access.Write
	if r.Kind == resource.Instances {
		what = access.Register
	}
	if err := c.may(what, r.Namespace); err != nil {
		return nil, err
	}
	o, err := options(q.GetConditions())
	if err != nil {
		return nil, err
	}
	result, err := a.plane.Remove(ctx, c.Caller, r, o)
	return changed(c, result, err)
}

// instanceRef reads a reference to an instance that the caller may register. Its kind need
// not be given.
func (c caller) instanceRef(m *controlpb.Ref) (resource.Ref, error) {
	if m.GetKind() == controlpb.Kind_KIND_UNSPECIFIED {
		m = proto.CloneOf(m)
		if m == nil {
			m = &controlpb.Ref{}
		}
		m.Kind = controlpb.Kind_KIND_INSTANCE
	}
	r, err := readRef(m)
	if err == nil && r.Kind != resource.Instances {
		err = plane.Badf("ref: names no instance")
	}
	if err != nil {
		return r, err
	}
	return r, c.may(access.Register, r.Namespace)
}

// Register answers as control.proto says.
func (a *API) Register(ctx context.Context, q *controlpb.RegisterRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, err := c.instanceRef(q.GetRef())
	if err != nil {
		return nil, err
	}
	o, err := options(q.GetConditions())
	if err != nil {
		return nil, err
	}
	result, err := a.plane.Register(ctx, c.Caller, readInstance(r, q.GetInstance()), o)
	return changed(c, result, err)
}

// maxTogether is how many heartbeats one call may have.
const maxTogether = 10_000

// Heartbeat answers as control.proto says.
func (a *API) Heartbeat(ctx context.Context, q *controlpb.HeartbeatRequest) (*controlpb.HeartbeatResponse, error) {
	c := who(ctx)
	if n := len(q.GetInstances()); n == 0 || n > maxTogether {
		return nil, plane.Badf("instances: %d of them: must be from 1 to %d", n, maxTogether)
	}
	// One that is refused is no reason to leave others unheard: they would expire.
	errs := make([]error, len(q.GetInstances()))
	var places []int
	var permitted []resource.Ref
	for i, m := range q.GetInstances() {
		r, err := c.instanceRef(m)
		if err != nil && plane.ProblemOf(err).Kind != plane.NotPermitted {
			return nil, err // it names no instance: the call is at fault
		}
		if errs[i] = err; err == nil {
			places, permitted = append(places, i), append(permitted, r)
		}
	}
	for n, err := range a.plane.Heartbeats(ctx, c.Caller, permitted) {
		errs[places[n]] = err
	}
	out := &controlpb.HeartbeatResponse{}
	var first, broken error // the first refusal, and the first that is this side's fault
	for i, err := range errs {
		if err == nil {
			continue
		}
		why, m := plane.ProblemOf(err), q.GetInstances()[i]
		if why.Kind == plane.Missing {
			out.Unknown = append(out.Unknown, m)
			continue
		}
		if first == nil {
			first = err
		}
		if broken == nil && why.Kind.ServerFault() {
			broken = err
		}
		out.Unheard = append(out.Unheard, &controlpb.Unheard{Ref: m, Kind: string(why.Kind), Detail: why.Detail})
	}
	if n := len(out.GetUnheard()); n > 0 && n == len(errs) {
		return nil, first // so that a caller tries another replica, as with one heartbeat
	}
	if broken != nil {
		a.log.Warn("heartbeats failed", "failed", len(out.GetUnheard()), "of", len(errs), "first", broken)
	}
	return out, nil
}

// change reads what a change of a configuration, or of a policy, too, is of.
func (c caller) change(m *controlpb.Ref, conditions *controlpb.Conditions, kinds ...resource.Kind) (resource.Ref, plane.Options, error) {
	r, err := readRef(m)
	if err == nil && !slices.Contains(kinds, r.Kind) {
		err = plane.Badf("ref.kind: %s: must be of %v", r.Kind, kinds)
	}
	if err != nil {
		return r, plane.Options{}, err
	}
	if err := c.may(access.Write, r.Namespace); err != nil {
		return r, plane.Options{}, err
	}
	o, err := options(conditions)
	return r, o, err
}

// Release answers as control.proto says.
func (a *API) Release(ctx context.Context, q *controlpb.ReleaseRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, o, err := c.change(q.GetRef(), q.GetConditions(), resource.Configs)
	if err != nil {
		return nil, err
	}
	release := resource.Release{Content: q.GetContent(), Percent: q.GetPercent()}
	for name, values := range q.GetLabels() {
		if release.Labels == nil {
			release.Labels = map[string][]string{}
		}
		release.Labels[name] = values.GetValues()
	}
	result, err := a.plane.Release(ctx, c.Caller, r, release, o)
	return changed(c, result, err)
}

// EndRelease answers as control.proto says.
func (a *API) EndRelease(ctx context.Context, q *controlpb.EndReleaseRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, o, err := c.change(q.GetRef(), q.GetConditions(), resource.Configs)
	if err != nil {
		return nil, err
	}
	result, err := a.plane.EndRelease(ctx, c.Caller, r, q.GetPromote(), o)
	return changed(c, result, err)
}

// Rollback answers as control.proto says.
func (a *API) Rollback(ctx context.Context, q *controlpb.RollbackRequest) (*controlpb.ChangeResponse, error) {
	c := who(ctx)
	r, o, err := c.change(q.GetRef(), q.GetConditions(), resource.Policies, resource.Configs)
	if err != nil {
		return nil, err
	}
	if q.GetVersion() < 1 {
		return nil, plane.Badf("version: must be a number from 1")
	}
	result, err := a.plane.Rollback(ctx, c.Caller, r, q.GetVersion(), o)
	return changed(c, result, err)
}

// maxAfter bounds where a page of the audit goes on, in bytes.
const maxAfter = 1024

// Audit answers as control.proto says.
func (a *API) Audit(ctx context.Context, q *controlpb.AuditRequest) (*controlpb.AuditResponse, error) {
	c := who(ctx)
	most, err := limit(q.GetLimit())
	if err != nil {
		return nil, err
	}
	// Whoever may read none of it is told so, as anywhere else.
	if !c.MayAnywhere(access.Audit) {
		return nil, c.may(access.Audit, access.AllNamespaces)
	}
	after := q.GetAfter()
	if len(after) > maxAfter {
		return nil, plane.Badf("after: must be what the page before has as next")
	}
	var from time.Time
	if at := q.GetFromUnixNano(); at > 0 {
		from = time.Unix(0, at)
	}
	page, err := a.plane.Audit(ctx, audit.Query{After: after, From: from, Limit: most, May: func(namespace string) bool { return c.May(access.Audit, namespace) }})
	if err != nil {
		return nil, err
	}
	out := &controlpb.AuditResponse{Next: page.Next}
	for _, e := range page.Items {
		out.Entries = append(out.Entries, &controlpb.AuditEntry{
			AtUnixNano: e.At.UnixNano(), Who: e.Who, From: e.From, Act: string(e.Act), Ref: format.Ref(e.Ref), OldVersion: e.Old, NewVersion: e.New,
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
	if r.Kind == resource.Instances {
		return nil, plane.Badf("ref.kind: must be a policy or a configuration")
	}
	if err := who(ctx).may(access.Read, r.Namespace); err != nil {
		return nil, err
	}
	most, err := limit(q.GetLimit())
	if err != nil {
		return nil, err
	}
	got, err := a.plane.Rollout(ctx, r, most)
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

// itemOf is a change as the catalog has it.
func itemOf(r resource.Ref, revision, version int64, body []byte, doc any) *catalog.Item {
	return &catalog.Item{Ref: r, Path: r.Path(), Revision: revision, Version: version, Body: body, Resource: doc}
}
