package rest

import (
	"strings"
	"testing"
)

// TestOtherText: text that is not UTF-8 is refused wherever it may come from, before it can be
// kept as something else.
func TestOtherText(t *testing.T) {
	b := newBed(t, nil)
	for _, c := range []struct {
		status       int
		method, path string
		body         string
		header       []string
	}{
		{422, "PUT", "/v1/configs/a", "{\"content\":\"a\xff\"}", nil},
		{422, "PUT", "/v1/policies/a", "{\"labels\":{\"\xfe\":\"x\"},\"rules\":[]}", nil},
		{422, "PUT", "/v1/services/s/instances/1", "{\"address\":\"10.0.0.1\",\"port\":80,\"metadata\":{\"a\":\"\xc3\"}}", nil},
		{422, "POST", "/v1/acks", "{\"client\":\"ann\xff\",\"acks\":[]}", nil},
		{400, "PUT", "/v1/configs/a", `{"content":"x"}`, []string{"Idempotency-Key", "\xff"}},
		{422, "PUT", "/v1/configs/%ff", `{"content":"x"}`, nil},
		{400, "GET", "/v1/watch?wait=0&client=ann%ff", "", nil},
		{400, "GET", "/v1/watch?wait=0&client=a&label=zone%3D%ff", "", nil},
		{400, "GET", "/v1/configs?search=%ff", "", nil},
		{400, "GET", "/v1/configs?namespace=%zz", "", nil},
		{400, "GET", "/v1/configs?namespace=a;b", "", nil},
		{400, "GET", "/v1/configs?%ff=a", "", nil},
	} {
		if got := b.do(c.method, c.path, c.body, c.header...); got.status != c.status {
			t.Errorf("%s %s %q: %d %s, want %d", c.method, c.path, c.body, got.status, got.body, c.status)
		}
	}
}

// TestOtherParameters: a parameter that no operation has is refused. Without it, an answer would be another.
func TestOtherParameters(t *testing.T) {
	b := newBed(t, nil)
	for _, query := range []string{"passing", "stale=true&tag=v2", "prefi%78=a&t%61g=v2", "Stale=true"} {
		b.want(400, "parameter", "GET", "/v1/services/s/instances?"+query, "")
	}
	b.want(200, "", "GET", "/v1/services/s/instances?stal%65=true&&", "")
	b.want(400, "parameter", "GET", "/v1/watch?kind=instance&service=s&wait=0", "")
	b.want(400, "parameter", "PUT", "/v1/configs/a?cas=1", `{"content":"x"}`)
	b.want(404, "missing", "GET", "/v1/configs/a", "")
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

// TestCutInResync: a browser that is cut off during a snapshot resumes with the snapshot's id. The old token in its
// address does not count.
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
