package message

import (
	"reflect"
	"testing"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// fill sets each field that JSON has to another value than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"größe": "x"}))
	case reflect.String:
		v.SetString("a")
	case reflect.Int:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Kind())
	}
}

// TestPolicies: a message has all that a policy has, apart from its name.
func TestPolicies(t *testing.T) {
	full := &resource.Policy{Labels: map[string]string{"team": "x"}, Rules: make([]resource.Rule, 2)}
	fill(reflect.ValueOf(&full.Rules[0]).Elem())
	for _, p := range []*resource.Policy{full, {Rules: []resource.Rule{}}} {
		got, err := Document(resource.Ref{}, OfPolicy(p))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v: got %+v, want %+v", err, got, p)
		}
	}
}

// TestOthers: and so have configurations and instances.
func TestOthers(t *testing.T) {
	c := &resource.Config{Labels: map[string]string{"a": "b"}, Content: "größe", ContentType: "text/plain", Secret: true}
	m := Of(resource.Ref{Kind: resource.Configs, Namespace: "n", Name: "c"}, 3, 4, "", c)
	if got, err := Document(resource.Ref{}, m.GetConfig()); err != nil || !reflect.DeepEqual(got, c) || m.GetRef().GetName() != "c" || m.GetVersion() != 3 || m.GetRevision() != 4 {
		t.Errorf("%+v of %v", got, m)
	}
	i := &resource.Instance{Address: "10.0.0.1", Port: 65535, Zone: "z", Weight: 7, Metadata: map[string]string{"a": "b"}, Status: resource.Up, TTL: 2.5, DeregisterAfter: 60, Checks: make([]resource.Check, 2)}
	fill(reflect.ValueOf(&i.Checks[0]).Elem())
	r := resource.Ref{Kind: resource.Instances, Namespace: "n", Name: "s", ID: "1"}
	if got, err := Document(resource.Ref{}, Of(r, 1, 1, "", i).GetInstance()); err != nil || !reflect.DeepEqual(got, i) {
		t.Errorf("%v: %+v", err, got)
	}
	if got, err := Document(r, (*controlpb.Instance)(nil)); err != nil || got.Ref() != r || got.(*resource.Instance).Weight != resource.DefaultWeight {
		t.Errorf("%v: without a weight: %+v", err, got)
	}
	i.Maintenance, i.Health = "a disk", resource.Warning
	i.Results = []resource.CheckResult{{Name: "a", Health: resource.Critical, Output: "x", Since: time.Unix(1, 2).UTC()}}
	m = Of(r, 1, 1, "", i)
	if got := m.GetInstance(); got.GetMaintenance() != "a disk" || got.GetHealth() != "warning" || len(got.GetResults()) != 1 || got.GetResults()[0].GetSince() != "1970-01-01T00:00:01.000000002Z" {
		t.Errorf("%v", got)
	}
}

// TestAccess: and so have principals and roles, apart from a principal's tokens, which are only shown.
func TestAccess(t *testing.T) {
	grants := []resource.Grant{{Namespace: "*", Role: "reader"}, {Namespace: "n", Role: "admin"}}
	r := &resource.Role{Name: "r", Grants: grants, Groups: []string{"staff"}}
	if got, err := Document(r.Ref(), Of(r.Ref(), 1, 1, "", r).GetRole()); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%v: %+v, want %+v", err, got, r)
	}
	p := &resource.Principal{Name: "p", Roles: []string{"r"}, Grants: grants, Rate: 2.5, Burst: 7}
	with := *p
	with.Tokens = []resource.Token{{ID: "a", Description: "größe", SHA256: "00", At: time.Unix(1, 0).UTC(), By: "b"}}
	m := Of(p.Ref(), 1, 1, "", &with)
	if got, err := Document(p.Ref(), m.GetPrincipal()); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v: %+v, want %+v", err, got, p)
	}
	if got := m.GetPrincipal().GetTokens(); len(got) != 1 || got[0].GetId() != "a" || got[0].GetDescription() != "größe" || got[0].GetCreatedAt() != "1970-01-01T00:00:01Z" || got[0].GetExpiresAt() != "" {
		t.Errorf("%v", got)
	}
}
