package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// withBook returns a bed with a principal for every role in namespace n, and a context for each. A token equals the
// principal's name.
func withBook(t *testing.T, change func(*Config)) (b *bed, as func(who string) context.Context) {
	t.Helper()
	b = newBed(t, func(c *Config, _ *plane.Config) {
		if c.Gate = planetest.Gate(t, "n"); change != nil {
			change(c)
		}
	})
	return b, func(who string) context.Context {
		return metadata.AppendToOutgoingContext(b.ctx, "authorization", "Bearer "+who)
	}
}

// in is a reference in a namespace.
func in(namespace string, r *controlpb.Ref) *controlpb.Ref {
	r.Namespace = namespace
	return r
}

// TestHeartbeatsEachTheirOwn: an instance that may not be heard keeps no other one from being.
func TestHeartbeatsEachTheirOwn(t *testing.T) {
	b, as := withBook(t, nil)
	one := in("n", instance("s", "1"))
	if _, err := b.calls.Register(as("registrar"), &controlpb.RegisterRequest{Ref: one, Instance: &controlpb.Instance{Address: "::1", Port: 1}}); err != nil {
		t.Fatal(err)
	}
	beat := func(refs ...*controlpb.Ref) (*controlpb.HeartbeatResponse, error) {
		return b.calls.Heartbeat(as("registrar"), &controlpb.HeartbeatRequest{Instances: refs})
	}
	foreign := in("x", instance("s", "1"))
	got, err := beat(foreign, in("n", instance("s", "9")), one)
	if err != nil || len(got.GetUnknown()) != 1 || got.GetUnknown()[0].GetId() != "9" || len(got.GetUnheard()) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if u := got.GetUnheard()[0]; u.GetRef().GetNamespace() != "x" || u.GetKind() != "role" || u.GetDetail() == "" {
		t.Errorf("%v", u)
	}
	if _, err := beat(foreign, foreign); reason(t, err) != "PermissionDenied role" {
		t.Errorf("of which none may be: %v", err)
	}
	if _, err := beat(one, in("n", instance("s", "/"))); reason(t, err) != "InvalidArgument parameter" {
		t.Errorf("of what is no instance: %v", err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := beat(in("n", instance("s", "9")), one); err != nil || len(got.GetUnheard()) != 1 || got.GetUnheard()[0].GetRef().GetId() != "9" || len(got.GetUnknown()) != 0 {
		t.Errorf("without a store: %v, %v", got, err)
	}
}

// TestReleases: a gray release begins, changes and ends, and an earlier version comes back.
func TestReleases(t *testing.T) {
	b := newBed(t, nil)
	b.putConfig("c", "old")
	labels := map[string]*controlpb.Values{"zone": {Values: []string{"y", "z"}}}
	release := func(content string) (*controlpb.ChangeResponse, error) {
		return b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: config("c"), Content: []byte(content), Labels: labels})
	}
	for i, c := range []struct {
		what   string
		do     func() (*controlpb.ChangeResponse, error)
		chosen string // what a client in zone z has
		others string
	}{
		{"begin", func() (*controlpb.ChangeResponse, error) { return release("new") }, "new", "old"},
		{"change", func() (*controlpb.ChangeResponse, error) { return release("newer") }, "newer", "old"},
		{"withdraw", func() (*controlpb.ChangeResponse, error) {
			return b.calls.EndRelease(b.ctx, &controlpb.EndReleaseRequest{Ref: config("c")})
		}, "old", "old"},
		{"begin again", func() (*controlpb.ChangeResponse, error) { return release("newest") }, "newest", "old"},
		{"promote", func() (*controlpb.ChangeResponse, error) {
			return b.calls.EndRelease(b.ctx, &controlpb.EndReleaseRequest{Ref: config("c"), Promote: true})
		}, "newest", "newest"},
		{"roll back", func() (*controlpb.ChangeResponse, error) {
			return b.calls.Rollback(b.ctx, &controlpb.RollbackRequest{Ref: config("c"), Version: 1})
		}, "old", "old"},
	} {
		if got, err := c.do(); err != nil || got.GetResource().GetVersion() != int64(i+2) {
			t.Fatalf("%s: %v, %v", c.what, got, err)
		}
		item, _, err := b.plane.Get(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Configs, Namespace: "default", Name: "c"}, false)
		if err != nil {
			t.Fatal(err)
		}
		kept := item.Resource.(*resource.Config)
		chosen, _ := kept.For(resource.Client{Labels: map[string]string{"zone": "z"}})
		if others, _ := kept.For(resource.Client{}); chosen != c.chosen || others != c.others {
			t.Errorf("%s: %q for those who are chosen, %q for others; want %q, %q", c.what, chosen, others, c.chosen, c.others)
		}
	}

	_, nobody := b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: config("c"), Content: []byte("x")})
	_, ofPolicy := b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: policy("p"), Content: []byte("x"), Percent: 5})
	_, ofInstances := b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: instance("s", "1"), Content: []byte("x"), Percent: 5})
	if _, err := b.calls.Put(b.ctx, &controlpb.PutRequest{Ref: policy("p"), Document: &controlpb.PutRequest_Policy{Policy: &controlpb.Policy{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: policy("p"), Rules: []*controlpb.Rule{{Action: "deny"}}, Percent: 100}); err != nil {
		t.Fatal(err)
	}
	promoted, err := b.calls.EndRelease(b.ctx, &controlpb.EndReleaseRequest{Ref: policy("p"), Promote: true})
	if err != nil || promoted.GetResource().GetPolicy().GetRules()[0].GetAction() != "deny" {
		t.Errorf("%v, %v", promoted, err)
	}
	_, stale := b.calls.Release(b.ctx, &controlpb.ReleaseRequest{Ref: config("c"), Content: []byte("x"), Percent: 5, Conditions: &controlpb.Conditions{IfMatch: `"1-0"`}})
	_, ofInstance := b.calls.Rollback(b.ctx, &controlpb.RollbackRequest{Ref: instance("s", "1"), Version: 1})
	_, noVersion := b.calls.Rollback(b.ctx, &controlpb.RollbackRequest{Ref: config("c")})
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"a release for nobody": {nobody, "InvalidArgument invalid"}, "of no policy": {ofPolicy, "NotFound missing"},
		"of an instance": {ofInstances, "InvalidArgument parameter"}, "on a condition": {stale, "FailedPrecondition precondition"},
		"an instance rolled back": {ofInstance, "InvalidArgument parameter"}, "to no version": {noVersion, "InvalidArgument invalid"},
	} {
		if got := reason(t, c.err); got != c.want {
			t.Errorf("%s: %s (%v), want %s", what, got, c.err, c.want)
		}
	}
}

// TestAudit: pages of who changed what, of the namespaces whose audit the caller may read.
func TestAudit(t *testing.T) {
	b, as := withBook(t, nil)
	began := time.Now()
	for _, r := range []*controlpb.Ref{in("n", policy("a")), in("x", policy("b")), in("n", policy("c"))} {
		if _, err := b.calls.Put(as("root"), &controlpb.PutRequest{Ref: r, Document: &controlpb.PutRequest_Policy{Policy: &controlpb.Policy{}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.calls.Remove(as("root"), &controlpb.RemoveRequest{Ref: in("n", policy("a"))}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string][]string{
		"root":  {"update n/a 0 1", "update x/b 0 1", "update n/c 0 1", "remove n/a 1 0"},
		"admin": {"update n/a 0 1", "update n/c 0 1", "remove n/a 1 0"},
		"other": {"update x/b 0 1"},
	} {
		var got []string
		for after := ""; ; {
			page, err := b.calls.Audit(as(who), &controlpb.AuditRequest{Limit: 1, After: after, FromUnixNano: began.Add(-time.Hour).UnixNano()})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.GetEntries() {
				got = append(got, fmt.Sprintf("%s %s/%s %d %d", e.GetAct(), e.GetRef().GetNamespace(), e.GetRef().GetName(), e.GetOldVersion(), e.GetNewVersion()))
				if e.GetWho() != "root" || e.GetFrom() != "127.0.0.1" || e.GetRef().GetKind() != controlpb.Kind_KIND_POLICY || time.Unix(0, e.GetAtUnixNano()).Before(began) {
					t.Errorf("%v", e)
				}
			}
			if after = page.GetNext(); after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %q, want %q", who, got, want)
		}
	}
	if page, err := b.calls.Audit(as("root"), &controlpb.AuditRequest{FromUnixNano: time.Now().Add(time.Hour).UnixNano()}); err != nil || len(page.GetEntries()) != 0 {
		t.Errorf("from later on: %v, %v", page, err)
	}
	for who, want := range map[string]string{"editor": "PermissionDenied role", "reader": "PermissionDenied role", "nobody": "Unauthenticated token"} {
		if _, err := b.calls.Audit(as(who), &controlpb.AuditRequest{}); reason(t, err) != want {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// TestContexts: calls are counted by the business that they are of, as requests over HTTP are.
func TestContexts(t *testing.T) {
	b := newBed(t, nil)
	for _, err := range []error{
		second(b.calls.Get(b.ctx, &controlpb.GetRequest{Ref: policy("p")})),
		second(b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_CONFIG})),
		second(b.calls.Heartbeat(b.ctx, &controlpb.HeartbeatRequest{Instances: []*controlpb.Ref{{Name: "s", Id: "1"}}})),
		second(b.calls.Audit(b.ctx, &controlpb.AuditRequest{})),
	} {
		if err != nil && reason(t, err) != "NotFound missing" {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.api)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() != "grpc_request_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			got = append(got, fmt.Sprintf("%s %s %s %d", labels["business_context"], labels["operation"], labels["category"], m.GetHistogram().GetSampleCount()))
		}
	}
	slices.Sort(got)
	if want := []string{"administration Audit ok 1", "configuration List ok 1", "discovery Heartbeat ok 1", "policy Get missing 1"}; !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// second is a call's error.
func second[T any](_ T, err error) error { return err }

// TestLargePages: a page of large documents is a message that clients take, and the next one goes on behind it.
func TestLargePages(t *testing.T) {
	b := newBed(t, nil)
	const n = 10
	for i := range n {
		b.putConfig(fmt.Sprintf("c%02d", i), strings.Repeat("x", 1_000_000))
	}
	var names []string
	pages := 0
	for after := ""; ; pages++ {
		got, err := b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_CONFIG, After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.GetResources() {
			names = append(names, r.GetRef().GetName())
		}
		if after = got.GetNext(); after == "" {
			break
		}
	}
	if len(names) != n || !slices.IsSorted(names) || pages < 2 {
		t.Errorf("%d pages have %q", pages+1, names)
	}
}

// TestFollower: a follower refuses changes and heartbeats, and answers reads.
func TestFollower(t *testing.T) {
	b := newBed(t, func(_ *Config, c *plane.Config) { c.Primary = "http://primary:1" })
	_, err := b.calls.Remove(b.ctx, &controlpb.RemoveRequest{Ref: config("c")})
	if got := reason(t, err); got != "FailedPrecondition follower" {
		t.Errorf("a change: %s", got)
	}
	_, err = b.calls.Heartbeat(b.ctx, &controlpb.HeartbeatRequest{Instances: []*controlpb.Ref{instance("s", "1")}})
	if got := reason(t, err); got != "FailedPrecondition follower" {
		t.Errorf("a heartbeat: %s", got)
	}
	if got, err := b.calls.List(b.ctx, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_CONFIG, Limit: 1}); err != nil || got.GetAgeSeconds() <= 0 {
		t.Errorf("a list: %v, %v", got, err)
	}
}
