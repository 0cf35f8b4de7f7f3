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
