package plane

import (
	"io"
	"testing"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/resource"
)

// TestPermissions: each operation refuses a caller without the permission, over every protocol. A caller with only
// that permission gets another result.
func TestPermissions(t *testing.T) {
	p := opened(t, newStore(t), nil)
	one := policy("a").Ref()
	config := &resource.Config{Namespace: "default", Name: "c", Content: "x"}
	page := Page{Limit: 1}
	for name, c := range map[string]struct {
		role access.Role // the least that may
		do   func(by Caller) error
	}{
		"get":      {access.Reader, func(by Caller) error { _, _, err := p.Get(t.Context(), by, one, false); return err }},
		"list":     {access.Reader, func(by Caller) error { _, err := p.List(t.Context(), by, one.Kind, "default", page); return err }},
		"services": {access.Reader, func(by Caller) error { _, err := p.Services(t.Context(), by, "default", page); return err }},
		"instances": {access.Reader, func(by Caller) error {
			_, err := p.Instances(t.Context(), by, "default", "s", InstanceFilter{}, page)
			return err
		}},
		"version": {access.Reader, func(by Caller) error { _, err := p.Version(t.Context(), by, one, 1); return err }},
		"history": {access.Reader, func(by Caller) error { _, err := p.History(t.Context(), by, one); return err }},
		"content": {access.Reader, func(by Caller) error {
			_, err := p.Content(t.Context(), by, config.Ref(), resource.Client{}, false)
			return err
		}},
		"rollout":  {access.Reader, func(by Caller) error { _, err := p.Rollout(t.Context(), by, one, 1); return err }},
		"rollouts": {access.Reader, func(by Caller) error { _, err := p.Rollouts(t.Context(), by, one.Kind, "default", page); return err }},
		"ack": {access.Reader, func(by Caller) error {
			_, _, err := p.Ack(t.Context(), by, "c", []resource.Ack{{Ref: one, Version: 1, State: resource.Applied}})
			return err
		}},
		"watch": {access.Reader, func(by Caller) error {
			w, err := p.Watch(t.Context(), by, Query{Namespace: "default"})
			if err == nil {
				w.Close()
			}
			return err
		}},
		"register":  {access.Registrar, func(by Caller) error { _, err := p.Register(t.Context(), by, instance("1", 60), Options{}); return err }},
		"heartbeat": {access.Registrar, func(by Caller) error { return p.Heartbeat(t.Context(), by, instance("1", 60).Ref()) }},
		"heartbeats": {access.Registrar, func(by Caller) error {
			_, _, err := p.Heartbeats(t.Context(), by, []resource.Ref{instance("1", 60).Ref()})
			return err
		}},
		"deregister": {access.Registrar, func(by Caller) error {
			_, err := p.Remove(t.Context(), by, instance("1", 60).Ref(), Options{})
			return err
		}},
		"create":    {access.Editor, func(by Caller) error { _, err := p.Create(t.Context(), by, policy("a"), Options{}); return err }},
		"put":       {access.Editor, func(by Caller) error { _, err := p.Put(t.Context(), by, config, Options{}); return err }},
		"remove":    {access.Editor, func(by Caller) error { _, err := p.Remove(t.Context(), by, one, Options{}); return err }},
		"roll back": {access.Editor, func(by Caller) error { _, err := p.Rollback(t.Context(), by, one, 1, Options{}); return err }},
		"release": {access.Editor, func(by Caller) error {
			_, err := p.Release(t.Context(), by, config.Ref(), resource.Release{Content: "y", Choice: resource.Choice{Percent: 1}}, Options{})
			return err
		}},
		"end release": {access.Editor, func(by Caller) error {
			_, err := p.EndRelease(t.Context(), by, config.Ref(), true, Options{})
			return err
		}},
		"audit":           {access.Admin, func(by Caller) error { _, err := p.Audit(t.Context(), by, audit.Query{Limit: 1}); return err }},
		"backup":          {access.Admin, func(by Caller) error { return p.Backup(t.Context(), by, io.Discard) }},
		"reclaim":         {access.Admin, func(by Caller) error { return p.Reclaim(t.Context(), by) }},
		"members":         {access.Admin, func(by Caller) error { _, err := p.Members(t.Context(), by); return err }},
		"add a member":    {access.Admin, func(by Caller) error { _, err := p.AddMember(t.Context(), by, "127.0.0.1:1"); return err }},
		"remove a member": {access.Admin, func(by Caller) error { return p.RemoveMember(t.Context(), by, "a") }},
	} {
		less := map[access.Role]access.Role{access.Registrar: access.Reader, access.Editor: access.Registrar, access.Admin: access.Editor}
		for role, want := range map[access.Role]bool{less[c.role]: false, c.role: true} {
			err := c.do(Caller{Principal: &access.Principal{Name: "p", Grants: []access.Grant{{Namespace: access.AllNamespaces, Role: role}}}})
			if refused := err != nil && ProblemOf(err).Kind == NotPermitted; refused == want {
				t.Errorf("%s by a %q: %v", name, role, err)
			}
		}
	}
}
