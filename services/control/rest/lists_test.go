package rest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

func TestSearch(t *testing.T) {
	b := newBed(t, nil)
	for i := range 30 {
		b.want(201, "", "POST", "/v1/configs", fmt.Sprintf(`{"name":"Web-%d","content":"x"}`, i))
	}
	b.want(201, "", "PUT", "/v1/services/web/instances/a1?namespace=shop", `{"address":"10.0.0.1","port":80,"zone":"north"}`)
	b.want(201, "", "PUT", "/v1/services/web/instances/b2?namespace=shop", `{"address":"10.0.0.2","port":80,"zone":"south","metadata":{"version":"2","tag":""}}`)
	b.want(201, "", "PUT", "/v1/services/db/instances/a1?namespace=shop", `{"address":"10.0.0.3","port":80}`)
	for path, want := range map[string]int{
		"configs?search=wEB-1": 11, "configs?search=x": 0, "configs?search=web&limit=7": 7, "rollouts/configs?search=-29": 1, "policies?search=web": 0,
		"services?namespace=shop&search=W": 1, "services?namespace=shop&search=": 2,
		"services/web/instances?namespace=shop&label=version%3D2": 1, "services/web/instances?namespace=shop&label=version=2&label=tag=": 1, "services/web/instances?namespace=shop&label=version=2&label=other=": 0, "services/web/instances?namespace=shop&label=version=": 0,
		"services/web/instances?namespace=shop&search=south": 1, "services/web/instances?namespace=shop&search=0.0.1": 1, "services/web/instances?namespace=shop&search=A1": 1,
	} {
		if got := b.want(200, "", "GET", "/v1/"+path, ""); len(got.field(t, "items").([]any)) != want {
			t.Errorf("%s: %s, want %d", path, got.body, want)
		}
	}
	b.want(400, "parameter", "GET", "/v1/services/web/instances?label=version", "")
	b.want(400, "parameter", "GET", "/v1/configs?search="+strings.Repeat("x", plane.MaxSearch+1), "")
	if got := b.want(200, "", "GET", "/v1/namespaces", ""); fmt.Sprint(got.field(t, "items")) != "[default shop]" || got.field(t, "more") != false {
		t.Errorf("%s", got.body)
	}
	heard, ok := b.want(200, "", "GET", "/v1/services/db/instances?namespace=shop", "").field(t, "items", 0, "heard_seconds").(float64)
	if !ok || heard < 0 {
		t.Errorf("heard %v", heard)
	}
}

// TestListThenWatch: a watch from where a list was made tells what came after it, and
// nothing else.
func TestListThenWatch(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	b.want(201, "", "PUT", "/v1/services/s/instances/1", `{"address":"a","port":1}`)
	for path, query := range map[string]string{
		"/v1/policies": "kind=policy", "/v1/policies/a/history": "kind=policy&name=a", "/v1/services": "kind=policy", "/v1/services/s/instances": "kind=policy", "/v1/rollouts/policies": "kind=policy",
	} {
		since := b.want(200, "", "GET", path, "").field(t, "watch").(string)
		version := b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`).field(t, "version")
		b.stream(query + "&since=" + since).want(fmt.Sprintf("put a %v", version))
	}
}

// TestPrefix: lists and watches of names with a prefix have these only, and a separator folds them.
func TestPrefix(t *testing.T) {
	b := newBed(t, nil)
	for _, name := range []string{"app", "app/db/url", "app/db/user", "app/ü", "app-x", "b"} {
		b.want(201, "", "POST", "/v1/configs", `{"content":"x","name":"`+name+`"}`)
	}
	b.want(201, "", "PUT", "/v1/configs/app%2Fsecret", `{"content":"x","secret":true}`)
	b.want(201, "", "PUT", "/v1/services/web/instances/a1", `{"address":"10.0.0.1","port":80}`)
	b.want(201, "", "PUT", "/v1/services/web/instances/b1", `{"address":"10.0.0.1","port":80}`)
	for query, want := range map[string]string{
		"configs?prefix=": "app app/db/url app/db/user app/secret app/ü app-x b", "configs?prefix=app/": "app/db/url app/db/user app/secret app/ü",
		"configs?prefix=app%2Fd": "app/db/url app/db/user", "configs?prefix=app/&search=u": "app/db/url app/db/user", "configs?prefix=x": "",
		"configs?separator=": "app app/db/url app/db/user app/secret app/ü app-x b", "configs?separator=/": "app app/ app-x b",
		"configs?prefix=app/&separator=/": "app/db/ app/secret app/ü", "configs?prefix=app&separator=/": "app app/ app-x", "policies?separator=/": "",
		"services?prefix=w": "web", "services?prefix=x": "", "services/web/instances?prefix=a": "a1", "rollouts/configs?prefix=b": "b",
	} {
		var got []string
		for after := ""; ; {
			l := b.want(200, "", "GET", "/v1/"+query+"&limit=1&after="+escaped(after), "")
			for _, one := range l.field(t, "items").([]any) {
				document, ok := one.(map[string]any)
				for _, name := range []string{"name", "id"} {
					if document[name] != nil {
						one = document[name]
					}
				}
				if strings.Contains(query, "separator") == ok {
					t.Errorf("%s: %s", query, l.body)
				}
				got = append(got, fmt.Sprint(one))
			}
			next, more := l.field(t, "next").(string)
			if after = next; !more {
				break
			}
		}
		if list := strings.Join(got, " "); list != want {
			t.Errorf("%s: %q, want %q", query, list, want)
		}
	}
	s := b.stream("kind=config&prefix=app/db/")
	token := s.want("resync", "put app/db/url 1", "put app/db/user 1", "synced")
	for _, name := range []string{"app", "app%2Fdb", "app%2Fdb%2Fnew", "app-x"} {
		b.do("PUT", "/v1/configs/"+name, `{"content":"y"}`)
	}
	s.want("put app/db/new 1")
	b.stream("kind=config&prefix=app/d&since="+token).want("put app/db 1", "put app/db/new 1")
	if got := b.want(200, "", "GET", "/v1/watch?kind=config&prefix=app/db/n", ""); len(got.field(t, "changes").([]any)) != 1 {
		t.Errorf("%s", got.body)
	}
	for _, query := range []string{"watch?namespace=*&prefix=a", "watch?name=a&prefix=a", "configs?prefix=" + strings.Repeat("x", plane.MaxPrefix+1), "configs?separator=" + strings.Repeat("x", plane.MaxPrefix+1)} {
		b.want(400, "parameter", "GET", "/v1/"+query, "")
	}
}

func TestAuditFrom(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	for from, want := range map[time.Time]int{time.Now().Add(-time.Hour): 1, time.Now().Add(time.Hour): 0, time.Unix(0, 0): 1} {
		if got := b.want(200, "", "GET", "/v1/audit?from="+escaped(from.UTC().Format(time.RFC3339)), ""); len(got.field(t, "items").([]any)) != want {
			t.Errorf("%v: %s", from, got.body)
		}
	}
	b.want(400, "parameter", "GET", "/v1/audit?from=yesterday", "")
}

// TestWatchRollout: who watches a rollout is told of every answer in the end, and nothing
// that is known already.
func TestWatchRollout(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	const path = "/v1/policies/a/rollout/watch"
	s := b.follow(path)
	id := ""
	until := func(s *stream, ok func(resource.Rollout) bool) (r resource.Rollout) {
		t.Helper()
		for {
			e := s.next()
			if e.comment {
				continue
			}
			if e.kind != "rollout" {
				t.Fatalf("%+v", e)
			}
			r, id = resource.Rollout{}, e.id
			if err := json.Unmarshal([]byte(e.data), &r); err != nil {
				t.Fatal(err)
			}
			b.schema.validate(t, "event", ref("Rollout"), []byte(e.data))
			if ok(r) {
				return r
			}
		}
	}
	until(s, func(r resource.Rollout) bool { return r.Clients == 0 && r.Version == 1 })
	b.stream("kind=policy&client=1").want("resync", "put a 1", "synced")
	until(s, func(r resource.Rollout) bool { return r.Pending == 1 })
	b.want(200, "", "POST", "/v1/acks", `{"client":"1","acks":[{"kind":"policy","name":"a","version":1,"state":"refused","reason":"<b>no"}]}`)
	if r := until(s, func(r resource.Rollout) bool { return r.Refused == 1 }); r.Holdings[0].Reason != "<b>no" || !r.Holdings[0].Connected {
		t.Errorf("%+v", r)
	}
	// Who comes back with the newest is told nothing, until that changes.
	back := b.follow(path, "Last-Event-ID", id)
	if e := back.next(); !e.comment {
		t.Errorf("%+v", e)
	}
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`)
	for _, s := range []*stream{s, back} {
		until(s, func(r resource.Rollout) bool { return r.Version == 2 && r.Pending == 1 })
	}
	b.want(204, "", "DELETE", "/v1/policies/a", "")
	for _, s := range []*stream{s, back} {
		e := s.next()
		for e.kind == "rollout" {
			e = s.next()
		}
		if e.kind != "removed" {
			t.Errorf("%+v", e)
		}
	}
	b.want(404, "missing", "GET", path, "")
	b.want(404, "missing", "GET", "/v1/configs/c/rollout/watch", "")
}
