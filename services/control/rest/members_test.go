package rest

import (
	"fmt"
	"testing"

	"dyno/internal/freeport"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/store"
)

// TestMembers: replicas are permitted to join, and removed. A replica that never starts does no harm.
func TestMembers(t *testing.T) {
	own, other := freeport.Address(t), freeport.Address(t)
	b := newBed(t, func(c *Config, pc *plane.Config) {
		c.Plane, _ = planetest.Open(t, *pc, func(c *store.Config) { c.Name, c.Peers = "a", map[string]string{"a": own} })
	})
	members := func() (list []string) {
		for _, m := range b.want(200, "", "GET", "/v1/members", "").field(t, "items").([]any) {
			one := m.(map[string]any)
			list = append(list, fmt.Sprint(one["name"], one["address"], one["learner"]))
		}
		return list
	}
	want := func(list ...string) {
		t.Helper()
		if got := members(); fmt.Sprint(got) != fmt.Sprint(list) {
			t.Errorf("%q, want %q", got, list)
		}
	}
	want("a" + own + "false")
	b.want(201, "", "POST", "/v1/members", fmt.Sprintf(`{"address":%q}`, other))
	want("<nil>"+other+"true", "a"+own+"false")
	b.want(409, "peers", "POST", "/v1/members", fmt.Sprintf(`{"address":%q}`, other))
	b.want(409, "peers", "POST", "/v1/members", fmt.Sprintf(`{"address":%q}`, freeport.Address(t))) // one after the other
	b.want(409, "peers", "POST", "/v1/members", `{"address":"192.0.2.1:7380"}`)                     // without TLS
	b.want(422, "invalid", "POST", "/v1/members", `{"address":"a"}`)
	b.want(422, "invalid", "POST", "/v1/members", `{}`)
	b.want(201, "", "PUT", "/v1/configs/c", `{"content":"x"}`)
	b.want(409, "peers", "DELETE", "/v1/members/a", "")
	b.want(404, "missing", "DELETE", "/v1/members/b", "")
	b.want(204, "", "DELETE", "/v1/members/"+other, "")
	want("a" + own + "false")

	lone := newBed(t, nil)
	lone.want(409, "peers", "GET", "/v1/members", "")
}
