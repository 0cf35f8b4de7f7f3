package rest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAccess: principals, roles and tokens by the API. A token is shown once, works at once, and no more when it is
// revoked.
func TestAccess(t *testing.T) {
	b := withBook(t, nil)
	b.token = "root"
	b.want(201, "", "PUT", "/v1/roles/team", `{"grants":[{"namespace":"shop","role":"writer"}],"groups":["staff"]}`)
	b.want(201, "", "POST", "/v1/roles", `{"name":"readers","grants":[{"namespace":"*","role":"reader"}]}`)
	if a := b.want(201, "", "POST", "/v1/principals", `{"name":"p","roles":["team"],"rate":100,"burst":10}`); a.header.Get("Location") != "/v1/principals/p" {
		t.Error(a.header)
	}
	tag := b.want(200, "", "GET", "/v1/principals/p", "").header.Get("Etag")
	b.want(412, "precondition", "PUT", "/v1/principals/p", `{"roles":["readers"]}`, "If-Match", `"1-0"`)
	b.want(200, "", "PUT", "/v1/principals/p?dry_run=true", `{"roles":["readers"]}`, "If-Match", tag)
	b.want(409, "exists", "PUT", "/v1/principals/reader", `{"roles":["readers"]}`) // the file has it
	b.want(409, "used", "DELETE", "/v1/roles/team", "")
	for body, pointer := range map[string]string{
		`{}`:                      "#/grants",
		`{"roles":["none"]}`:      "#/roles",
		`{"namespace":"shop"}`:    "#/namespace",
		`{"name":"q","roles":[]}`: "#/name",
		`{"grants":[{}]}`:         "#/grants/0/namespace",
		`{"grants":[{"namespace":"shop","role":"king"}]}`:               "#/grants/0/role",
		`{"roles":["a","b","c","d","e","f","g","h","i"]}`:               "#/roles",
		`{"grants":[{"namespace":"shop","role":"reader"}],"tokens":[]}`: "#/tokens",
		`{"grants":[{"namespace":"shop","role":"reader"}],"rate":-1}`:   "#/rate",
		`{"grants":[{"namespace":"a b","role":"reader"}]}`:              "#/grants/0/namespace",
	} {
		if a := b.want(422, "invalid", "PUT", "/v1/principals/p", body); a.field(t, "errors", 0, "pointer") != pointer {
			t.Errorf("%s: %s, want %s", body, a.body, pointer)
		}
	}
	for _, body := range []string{`{"sha256":"x"}`, `{"expires_at":"2020-01-01T00:00:00Z"}`, `{"expires_at":"2999-01-01T00:00:00Z"}`, `{"description":"a\u0000"}`, `{"expires_at":"soon"}`} {
		b.want(422, "invalid", "POST", "/v1/principals/p/tokens", body)
	}
	made := b.want(201, "", "POST", "/v1/principals/p/tokens", fmt.Sprintf(`{"description":"pipeline","expires_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	token, id := made.field(t, "token").(string), made.field(t, "id").(string)
	if made.header.Get("Cache-Control") != "no-store" {
		t.Error(made.header)
	}
	for _, path := range []string{"principals/p", "principals/p/tokens", "principals/p/history", "principals", "audit"} {
		a := b.want(200, "", "GET", "/v1/"+path, "")
		if strings.Contains(string(a.body), token) {
			t.Errorf("%s has the token", path)
		}
		if path == "principals/p/tokens" && a.field(t, "items", 0, "id") != id {
			t.Errorf("%s", a.body)
		}
	}
	as := func(who string, status int, problem, method, path, body string) {
		t.Helper()
		b.token = who
		b.want(status, problem, method, path, body)
		b.token = "root"
	}
	as(token, 201, "", "PUT", "/v1/configs/c?namespace=shop", `{"content":"x"}`)
	as(token, 403, "role", "GET", "/v1/configs/c?namespace=x", "")
	as(token, 403, "role", "GET", "/v1/principals", "")
	as("editor", 403, "role", "GET", "/v1/principals/p", "")
	as("admin", 403, "role", "PUT", "/v1/roles/team", `{"grants":[{"namespace":"x","role":"reader"}]}`)
	as("other", 403, "role", "POST", "/v1/principals/p/tokens", `{}`)
	b.want(200, "", "PUT", "/v1/roles/team", `{"grants":[{"namespace":"shop","role":"reader"}]}`)
	as(token, 403, "role", "PUT", "/v1/configs/c?namespace=shop", `{"content":"y"}`)
	as(token, 200, "", "GET", "/v1/configs/c?namespace=shop", "")
	b.want(204, "", "DELETE", "/v1/principals/p/tokens/"+id, "")
	b.want(404, "missing", "DELETE", "/v1/principals/p/tokens/"+id, "")
	as(token, 401, "token", "GET", "/v1/configs/c?namespace=shop", "")
	b.want(204, "", "DELETE", "/v1/principals/p", "")
	b.want(200, "", "GET", "/v1/principals/p/history/1", "")
	b.want(204, "", "DELETE", "/v1/roles/team", "")
	b.want(400, "parameter", "GET", "/v1/watch?kind=principal", "")
}
