package rpc

import (
	"context"
	"testing"

	"dyno/services/control/rpc/controlpb"
)

// TestPrincipals: principals and roles are put, read, listed and removed by those who may.
func TestPrincipals(t *testing.T) {
	b, as := withBook(t, nil)
	root := as("root")
	role, principal := &controlpb.Ref{Kind: controlpb.Kind_KIND_ROLE, Name: "deploy"}, &controlpb.Ref{Kind: controlpb.Kind_KIND_PRINCIPAL, Name: "bob"}
	grants := []*controlpb.Grant{{Namespace: "n", Role: "editor"}}
	put := func(ctx context.Context, p *controlpb.Principal) (*controlpb.ChangeResponse, error) {
		return b.calls.Put(ctx, &controlpb.PutRequest{Ref: principal, Document: &controlpb.PutRequest_Principal{Principal: p}})
	}
	if _, err := put(root, &controlpb.Principal{Roles: []string{"deploy"}}); reason(t, err) != "InvalidArgument invalid" {
		t.Errorf("a role that is not there: %v", err)
	}
	if _, err := b.calls.Put(root, &controlpb.PutRequest{Ref: role, Document: &controlpb.PutRequest_Role{Role: &controlpb.Role{Grants: grants, Groups: []string{"staff"}}}}); err != nil {
		t.Fatal(err)
	}
	full := &controlpb.Principal{Roles: []string{"deploy"}, Grants: []*controlpb.Grant{{Namespace: "n", Role: "reader"}}, Rate: 5, Burst: 9, Tokens: []*controlpb.Token{{Id: "a"}}}
	if _, err := put(as("editor"), full); reason(t, err) != "PermissionDenied role" {
		t.Errorf("by an editor: %v", err)
	}
	made, err := put(root, full)
	if got := made.GetResource().GetPrincipal(); err != nil || !made.GetCreated() || made.GetResource().GetRef().GetNamespace() != "*" || got.GetRate() != 5 || len(got.GetTokens()) > 0 {
		t.Errorf("%v, %v", made, err)
	}
	got, err := b.calls.Get(root, &controlpb.GetRequest{Ref: principal})
	if p := got.GetResource().GetPrincipal(); err != nil || p.GetRoles()[0] != "deploy" || p.GetGrants()[0].GetRole() != "reader" || p.GetBurst() != 9 {
		t.Errorf("%v, %v", got, err)
	}
	list, err := b.calls.List(root, &controlpb.ListRequest{Kind: controlpb.Kind_KIND_ROLE})
	if err != nil || len(list.GetResources()) != 1 || list.GetResources()[0].GetRole().GetGroups()[0] != "staff" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.calls.Rollout(root, &controlpb.RolloutRequest{Ref: role}); reason(t, err) != "InvalidArgument parameter" {
		t.Errorf("a rollout: %v", err)
	}
	if _, err := b.calls.Remove(root, &controlpb.RemoveRequest{Ref: role}); reason(t, err) != "FailedPrecondition used" {
		t.Errorf("a role that bob has: %v", err)
	}
	for _, ref := range []*controlpb.Ref{principal, role} {
		if _, err := b.calls.Remove(root, &controlpb.RemoveRequest{Ref: ref}); err != nil {
			t.Error(err)
		}
	}
	_, err = b.calls.Put(root, &controlpb.PutRequest{Ref: principal, Document: &controlpb.PutRequest_Role{Role: &controlpb.Role{}}})
	if reason(t, err) != "InvalidArgument parameter" {
		t.Errorf("another kind's document: %v", err)
	}
	s, err := b.calls.Watch(root)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&controlpb.WatchRequest{Message: &controlpb.WatchRequest_Query{Query: &controlpb.Query{Kinds: []controlpb.Kind{controlpb.Kind_KIND_ROLE}}}}) // Recv says why it has ended
	if _, err := s.Recv(); reason(t, err) != "InvalidArgument parameter" {
		t.Errorf("a watch: %v", err)
	}
}
