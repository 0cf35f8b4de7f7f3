package rest

import (
	"fmt"
	"strings"
	"testing"
)

// TestLocks: a session acquires and releases a lock, and everybody can watch that.
func TestLocks(t *testing.T) {
	b := newBed(t, nil)
	begin := func(body string) string { return b.want(201, "", "POST", "/v1/sessions", body).field(t, "id").(string) }
	x, y := begin(`{"name":"x","ttl_seconds":3600}`), begin(`{}`)
	s := b.stream("kind=lock")
	s.want("resync", "synced")
	put := func(session, more string) string { return fmt.Sprintf(`{"session":%q%s}`, session, more) }
	first := b.want(201, "", "PUT", "/v1/locks/l", put(x, `,"value":"a"`))
	s.want("put l 1")
	again := b.want(200, "", "PUT", "/v1/locks/l", put(x, `,"value":"a","wait_seconds":1`))
	if string(first.body) != string(again.body) || first.field(t, "holder") != "x" || first.header.Get("Location") != "/v1/locks/l?namespace=default" {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	if got := b.want(200, "", "GET", "/v1/locks/l", ""); string(got.body) != string(first.body) || got.header.Get("Etag") != first.header.Get("Etag") {
		t.Errorf("%s, read as %s", first.body, got.body)
	}
	if got := b.want(409, "held", "PUT", "/v1/locks/l", put(y, "")).field(t, "detail").(string); !strings.Contains(got, x+` ("x", of anonymous), since 20`) {
		t.Errorf("detail %s", got)
	}
	b.want(409, "held", "PUT", "/v1/locks/l", put(y, `,"wait_seconds":0.01`))
	b.want(400, "parameter", "DELETE", "/v1/locks/l", "")
	b.want(409, "held", "DELETE", "/v1/locks/l?session="+y, "")
	b.want(200, "", "DELETE", "/v1/locks/l?dry_run=true&session="+x, "")
	b.want(204, "", "DELETE", "/v1/locks/l?session="+x, "")
	s.want("remove l 1")
	b.want(404, "missing", "DELETE", "/v1/locks/l?session="+x, "")
	second := b.want(201, "", "PUT", "/v1/locks/l", put(y, ""))
	s.want("put l 1")
	if second.field(t, "token").(float64) <= first.field(t, "token").(float64) {
		t.Errorf("%s, then %s", first.body, second.body)
	}
	b.want(204, "", "POST", "/v1/sessions/"+y+"/renew", "")
	b.want(200, "", "GET", "/v1/sessions", "")
	b.want(200, "", "GET", "/v1/locks", "")
	b.want(204, "", "DELETE", "/v1/sessions/"+y, "")
	b.want(404, "missing", "GET", "/v1/locks/l", "")
	b.want(404, "missing", "POST", "/v1/sessions/"+y+"/renew", "")
	s.want("remove l 1")
	for path, body := range map[string]string{
		"POST /v1/sessions": `{"ttl_seconds":1}`, "POST  /v1/sessions": `{"ttl_seconds":3601}`, "POST   /v1/sessions": `{"name":"a\u0001"}`,
		"PUT /v1/locks/l": `{}`, "PUT  /v1/locks/l": put(x, `,"wait_seconds":61`), "PUT   /v1/locks/l": put(x, `,"value":"`+strings.Repeat("v", 1025)+`"`),
	} {
		method, path, _ := strings.Cut(path, " ")
		b.want(422, "invalid", method, strings.TrimSpace(path), body)
	}
}

// TestCounters: a counter is added to, read, set on condition, and removed.
func TestCounters(t *testing.T) {
	b := newBed(t, nil)
	b.want(404, "missing", "GET", "/v1/counters/c", "")
	b.want(201, "", "POST", "/v1/counters/c", `{"add":2}`, "Idempotency-Key", "k")
	got := b.want(201, "", "POST", "/v1/counters/c", `{"add":2}`, "Idempotency-Key", "k")
	if got.field(t, "value") != 2.0 || got.header.Get(repeatedField) != "true" {
		t.Errorf("repeated: %s", got.body)
	}
	got = b.want(200, "", "POST", "/v1/counters/c", `{"add":-5}`)
	if got.field(t, "value") != -3.0 || got.field(t, "version") != 2.0 {
		t.Errorf("%s", got.body)
	}
	b.want(200, "", "PUT", "/v1/counters/c", `{"value":9223372036854775807}`, "If-Match", got.header.Get("Etag"))
	b.want(412, "precondition", "PUT", "/v1/counters/c", `{"value":1}`, "If-Match", got.header.Get("Etag"))
	if got := b.want(422, "invalid", "POST", "/v1/counters/c", `{"add":1}`); got.field(t, "errors", 0, "pointer") != "#/add" {
		t.Errorf("too much: %s", got.body)
	}
	if got := b.want(200, "", "GET", "/v1/counters/c", ""); !strings.Contains(string(got.body), `"value":9223372036854775807,`) {
		t.Errorf("%s", got.body)
	}
	b.want(200, "", "GET", "/v1/counters", "")
	b.want(422, "invalid", "POST", "/v1/counters/c", `{}`)
	b.want(422, "invalid", "PUT", "/v1/counters/c", `{}`)
	b.want(422, "invalid", "PUT", "/v1/counters/c", `{"value":1,"name":"d"}`)
	b.want(404, "path", "GET", "/v1/counters/c/history", "")
	b.want(204, "", "DELETE", "/v1/counters/c", "")
	b.want(201, "", "PUT", "/v1/counters/c", `{"value":7}`)
}
