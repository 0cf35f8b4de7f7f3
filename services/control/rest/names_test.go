package rest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestNames: a name with slashes or letters of any script is escaped in the address, and is a name like all others.
func TestNames(t *testing.T) {
	b := newBed(t, nil)
	for _, name := range []string{"app", "app/db", "app/db/größe", "app-x", "設定 %2F"} {
		path := "/v1/configs/" + url.PathEscape(name)
		for n := 1; n <= 3; n++ {
			b.want(map[bool]int{true: 201, false: 200}[n == 1], "", "PUT", path, fmt.Sprintf(`{"content":"%d"}`, n))
		}
		if got := b.want(200, "", "GET", path, ""); got.field(t, "name") != name || got.field(t, "version") != 3.0 {
			t.Errorf("%s: %s", name, got.body)
		}
		if got := b.want(200, "", "GET", path+"/history", ""); got.field(t, "items", 2, "content") != "3" || strings.Count(string(got.body), "changed_by") != 3 {
			t.Errorf("%s: %s", name, got.body)
		}
		if got := b.want(200, "", "GET", path+"/history/2", ""); got.field(t, "content") != "2" {
			t.Errorf("%s: %s", name, got.body)
		}
		if got := b.want(200, "", "GET", path+"/content", ""); string(got.body) != "3" {
			t.Errorf("%s: %s", name, got.body)
		}
		b.want(200, "", "POST", path+"/rollback", `{"version":1}`)
		b.want(200, "", "GET", path+"/rollout", "")
	}
	var names []any
	for after := ""; ; {
		l := b.want(200, "", "GET", "/v1/configs?limit=2&after="+escaped(after), "")
		for i := range strings.Count(string(l.body), "changed_by") {
			names = append(names, l.field(t, "items", i, "name"))
		}
		next, more := l.field(t, "next").(string)
		if after = next; !more {
			break
		}
	}
	if got := fmt.Sprint(names); got != "[app app/db app/db/größe app-x 設定 %2F]" {
		t.Errorf("listed: %s", got)
	}
	// The versions of a removed one go on, also while one with a longer name exists.
	b.want(204, "", "DELETE", "/v1/configs/app%2Fdb", "")
	b.want(404, "missing", "GET", "/v1/configs/app%2Fdb", "")
	if got := b.want(201, "", "PUT", "/v1/configs/app%2Fdb", `{"content":"x"}`); got.field(t, "version") != 5.0 {
		t.Errorf("%s", got.body)
	}
	made := b.want(201, "", "POST", "/v1/configs", `{"name":"new/é","content":"x"}`)
	if got := b.want(200, "", "GET", made.header.Get("Location"), ""); got.field(t, "name") != "new/é" {
		t.Errorf("%s", got.body)
	}
	if got := b.stream("kind=config&name=app%2Fdb").want("resync", "put app/db 5", "synced"); got == "" {
		t.Error("no token")
	}
	for _, path := range []string{"configs/app%2F", "configs/%2Fapp", "configs/app%2F%2Fdb", "configs/app%2F..", "configs/e%CC%81", "policies/a%2Fb", "services/a%2Fb/instances/x", "configs/%FF"} {
		b.want(400, "parameter", "GET", "/v1/"+path, "")
	}
	b.want(404, "path", "GET", "/v1/configs/app/db", "")
}

// TestNamesOfServices: services and instances have letters of any script, and a page goes on after any of them.
func TestNamesOfServices(t *testing.T) {
	b := newBed(t, nil)
	for _, name := range []string{"läden", "100%", "a", "a b"} {
		made := b.want(201, "", "PUT", "/v1/services/"+url.PathEscape(name)+"/instances/%C3%A9%25", `{"address":"10.0.0.1","port":80}`)
		got := b.want(200, "", "GET", made.header.Get("Location"), "")
		if got.field(t, "service") != name || got.field(t, "id") != "é%" {
			t.Errorf("%s", got.body)
		}
		b.want(204, "", "POST", "/v1/services/"+url.PathEscape(name)+"/instances/%C3%A9%25/heartbeat", "")
		if l := b.want(200, "", "GET", "/v1/services/"+url.PathEscape(name)+"/instances", ""); l.field(t, "items", 0, "service") != name {
			t.Errorf("%s", l.body)
		}
	}
	got := ""
	for after := ""; ; {
		l := b.want(200, "", "GET", "/v1/services?limit=1&after="+escaped(after), "")
		got += fmt.Sprint(l.field(t, "items", 0, "name"), ";")
		next, more := l.field(t, "next").(string)
		if after = next; !more {
			break
		}
	}
	if got != "100%;a b;a;läden;" {
		t.Errorf("listed: %s", got)
	}
	b.want(201, "", "PUT", "/v1/policies/r%C3%A8gle", `{"rules":[{"action":"deny","match":{"services":["läden"]}}]}`)
}
