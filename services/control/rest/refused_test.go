package rest

import (
	"strings"
	"testing"

	"dyno/services/control/access"
)

// TestStrangers: an address whose tokens nobody has is told so so often; who is known at the same
// one is answered.
func TestStrangers(t *testing.T) {
	b := withBook(t, nil)
	b.api.strangers = access.NewLimiter(0.001, 2, clients)
	const path = "/v1/policies?namespace=shop"
	b.token = "nobody"
	b.want(401, "token", "GET", path, "")
	b.token = ""
	b.want(401, "token", "GET", path, "")
	if a := b.want(429, "rate", "GET", path, ""); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	b.token = "reader"
	b.want(200, "", "GET", path, "")
}

// TestConditionFields: a field that has no tag is no condition that somebody could have meant;
// one that is given twice is one list.
func TestConditionFields(t *testing.T) {
	b := newBed(t, nil)
	tag := b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`).header.Get("Etag")
	for _, field := range []string{"If-Match", "If-None-Match"} {
		for _, value := range []string{"", " ", ",", " , ,"} {
			b.want(400, "parameter", "PUT", "/v1/policies/a", `{"rules":[]}`, field, value)
			b.want(400, "parameter", "DELETE", "/v1/policies/a", "", field, value)
		}
	}
	b.want(412, "precondition", "PUT", "/v1/policies/a", `{"rules":[]}`, "If-None-Match", "W/"+tag)
	b.want(200, "", "PUT", "/v1/policies/a?dry_run=true", `{"rules":[]}`, "If-Match", `"x", `+tag)
}

// TestRolledBackPlace: what a rollback makes again is where the resource is.
func TestRolledBackPlace(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "PUT", "/v1/configs/a:b?namespace=shop", `{"content":"x"}`)
	b.want(204, "", "DELETE", "/v1/configs/a:b?namespace=shop", "")
	a := b.want(201, "", "POST", "/v1/configs/a:b/rollback?namespace=shop", `{"version":1}`)
	if got := b.want(200, "", "GET", a.header.Get("Location"), ""); got.field(t, "version") != 2.0 || !strings.HasPrefix(a.header.Get("Location"), "/v1/configs/a:b?") {
		t.Errorf("it is said to be at %s", a.header.Get("Location"))
	}
}

// TestCutInResync: a browser that is cut off before it is told everything says so when it comes
// back, and not the token that its address still has.
func TestCutInResync(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	s := b.stream("kind=policy")
	token := s.want("resync", "put a 1", "synced")
	s = b.stream("kind=policy&since=none")
	first := s.next()
	for first.comment {
		first = s.next()
	}
	if first.kind != "resync" || first.id == "" {
		t.Fatalf("%+v: with an empty id, a browser sends none", first)
	}
	b.stream("kind=policy&since="+escaped(token), "Last-Event-ID", first.id).want("resync", "put a 1", "synced")
}
