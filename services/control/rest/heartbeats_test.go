package rest

import (
	"strings"
	"testing"
)

// TestHeartbeatsEachTheirOwn: an instance that may not be heard keeps no other one from being.
func TestHeartbeatsEachTheirOwn(t *testing.T) {
	b := withBook(t, nil)
	b.token = "registrar"
	b.want(201, "", "PUT", "/v1/services/s/instances/1?namespace=shop", `{"address":"a","port":1}`)
	h := b.want(200, "", "POST", "/v1/heartbeats", `{"instances":[{"namespace":"x","service":"s","id":"1"},{"namespace":"shop","service":"s","id":"9"},{"namespace":"shop","service":"s","id":"1"}]}`)
	if f := h.field(t, "failed").([]any); len(f) != 1 || h.field(t, "failed", 0, "namespace") != "x" || h.field(t, "failed", 0, "type") != typePrefix+"role" || !strings.Contains(h.field(t, "failed", 0, "detail").(string), "register") {
		t.Errorf("%s", h.body)
	}
	if u := h.field(t, "unknown").([]any); len(u) != 1 || h.field(t, "unknown", 0, "id") != "9" {
		t.Errorf("%s", h.body)
	}
	if good := b.want(200, "", "POST", "/v1/heartbeats", `{"instances":[{"namespace":"shop","service":"s","id":"1"}]}`); len(good.field(t, "failed").([]any)) != 0 {
		t.Errorf("%s", good.body)
	}
	// Where none may be, the request is refused; and one that names no instance is wrong as a
	// whole.
	b.want(403, "role", "POST", "/v1/heartbeats", `{"instances":[{"namespace":"x","service":"s","id":"1"},{"namespace":"y","service":"s","id":"1"}]}`)
	b.want(422, "invalid", "POST", "/v1/heartbeats", `{"instances":[{"namespace":"shop","service":"s","id":"1"},{"namespace":"shop","service":"/","id":"1"}]}`)
	b.want(200, "", "POST", "/v1/heartbeats", `{"instances":[]}`)
}

// TestHeartbeatsWithoutStore: while the store is away, those that this replica holds are heard,
// and each of the others is told by itself.
func TestHeartbeatsWithoutStore(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "PUT", "/v1/services/s/instances/1", `{"address":"a","port":1}`)
	b.want(200, "", "GET", "/v1/services/s/instances/1", "")
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	const one, none = `{"service":"s","id":"1"}`, `{"service":"s","id":"9"}`
	h := b.want(200, "", "POST", "/v1/heartbeats", `{"instances":[`+none+`,`+one+`]}`)
	if f := h.field(t, "failed").([]any); len(f) != 1 || h.field(t, "failed", 0, "id") != "9" || len(h.field(t, "unknown").([]any)) != 0 {
		t.Errorf("%s", h.body)
	}
	if a := b.do("POST", "/v1/heartbeats", `{"instances":[`+none+`]}`); a.status != 503 {
		t.Errorf("of which none can be heard: %d %s", a.status, a.body)
	}
}
