package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/services/control/backup"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

const rules = `[{"match":{"services":["shop"],"methods":["GET"]},"action":"limit","limit":{"requests_per_second":100}}]`

func TestPolicies(t *testing.T) {
	b := newBed(t, func(_ *Config, p *plane.Config) { p.Limits.History = 3 })
	made := b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":`+rules+`}`)
	if made.field(t, "version") != 1.0 || made.field(t, "namespace") != "default" || made.field(t, "changed_by") != "anonymous" {
		t.Errorf("%s", made.body)
	}
	if location := made.header.Get("Location"); location != "/v1/policies/a?namespace=default" || b.do("GET", location, "").status != 200 {
		t.Errorf("location %q", location)
	}
	tag := made.header.Get("ETag")
	got := b.want(200, "", "GET", "/v1/policies/a", "")
	if !bytes.Equal(got.body, made.body) || got.header.Get("ETag") != tag || got.header.Get(revisionField) != made.header.Get(revisionField) {
		t.Errorf("%s %v, made as %s %v", got.body, got.header, made.body, made.header)
	}
	b.want(304, "", "GET", "/v1/policies/a", "", "If-None-Match", `"x", W/`+tag)
	b.want(409, "exists", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	b.want(412, "precondition", "PUT", "/v1/policies/a", `{"rules":[]}`, "If-None-Match", "*")
	b.want(412, "precondition", "PUT", "/v1/policies/a", `{"rules":[]}`, "If-Match", `"9-00000000"`)
	b.want(412, "precondition", "PUT", "/v1/policies/b", `{"rules":[]}`, "If-Match", "*")
	second := b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[],"labels":{"team":"x"}}`, "If-Match", tag)
	if second.field(t, "version") != 2.0 || second.header.Get("ETag") == tag {
		t.Errorf("%s %v", second.body, second.header)
	}
	b.want(201, "", "PUT", "/v1/policies/b", `{"rules":[]}`)

	dry := b.want(200, "", "PUT", "/v1/policies/a?dry_run=true", `{"rules":[{"action":"deny"}]}`)
	if dry.header.Get(dryRunField) != "true" || dry.field(t, "version") != 3.0 || b.do("GET", "/v1/policies/a", "").field(t, "version") != 2.0 {
		t.Errorf("%s", dry.body)
	}
	b.want(200, "", "POST", "/v1/policies?dry_run=true", `{"name":"new","rules":[]}`)
	b.want(404, "missing", "GET", "/v1/policies/new", "")

	back := b.want(200, "", "POST", "/v1/policies/a/rollback", `{"version":1}`)
	if back.field(t, "version") != 3.0 || back.field(t, "rules", 0, "action") != "limit" {
		t.Errorf("%s", back.body)
	}
	b.want(404, "missing", "POST", "/v1/policies/a/rollback", `{"version":7}`)
	if first := b.want(200, "", "GET", "/v1/policies/a/history/1", ""); !bytes.Equal(first.body, made.body) {
		t.Errorf("%s, made as %s", first.body, made.body)
	}
	for range 3 {
		b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`)
	}
	if h := b.want(200, "", "GET", "/v1/policies/a/history", ""); h.field(t, "items", 0, "version") != 3.0 || h.field(t, "items", 3, "version") != 6.0 {
		t.Errorf("history %s", h.body)
	}

	b.want(204, "", "DELETE", "/v1/policies/a", "")
	b.want(404, "missing", "GET", "/v1/policies/a", "")
	b.want(404, "missing", "DELETE", "/v1/policies/a", "")
	if again := b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`); again.field(t, "version") != 7.0 {
		t.Errorf("versions start again: %s", again.body)
	}
	if a := b.want(200, "", "GET", "/v1/audit?limit=1000", ""); a.field(t, "items", 0, "act") != "create" || a.field(t, "items", 0, "from") != "127.0.0.1" {
		t.Errorf("audit %s", a.body)
	}
}

// TestLimitations: a response says what connected data planes cannot do of a policy, or of its release.
func TestLimitations(t *testing.T) {
	b := newBed(t, nil)
	const limit = `"rules":[{"action":"limit","limit":{"requests_per_second":1}}]`
	if got := b.want(201, "", "PUT", "/v1/policies/a", "{"+limit+"}").header.Values(limitationField); len(got) > 0 {
		t.Errorf("without a data plane: %q", got)
	}
	left := b.plane.EnterDataPlane(traffic.GRPC)
	defer left()
	const want = "grpc #/rules/0/limit gRPC's clients limit nothing"
	for path, body := range map[string]string{
		"/v1/policies/a": "{" + limit + "}", "/v1/policies/a?dry_run=true": "{" + limit + "}",
		"/v1/policies/a/release": `{"percent":5,` + limit + "}", "/v1/policies/a/release?dry_run=true": `{"percent":6,` + limit + "}",
	} {
		if got := b.want(200, "", "PUT", path, body).header.Values(limitationField); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestInvalid(t *testing.T) {
	b := newBed(t, nil)
	a := b.want(422, "invalid", "POST", "/v1/policies", `{"name":"/","rules":[{"action":"deny"},{"action":"route"}]}`)
	if a.field(t, "errors", 0, "pointer") != "#/name" || a.field(t, "errors", 1, "pointer") != "#/rules/1/route" {
		t.Errorf("%s", a.body)
	}
	b.want(422, "invalid", "POST", "/v1/policies", `{`)
	b.want(422, "invalid", "POST", "/v1/policies", ``)
	b.want(422, "invalid", "POST", "/v1/policies?namespace=x", `{"namespace":"y","name":"a","rules":[]}`)
	b.want(422, "invalid", "PUT", "/v1/policies/a", `{"name":"b","rules":[]}`)
	b.want(415, "media", "POST", "/v1/policies", `name=a`, "Content-Type", "application/x-www-form-urlencoded")
	b.want(413, "large", "POST", "/v1/policies", strings.Repeat(" ", 2*b.plane.Limits().Document()+1))
	b.want(400, "parameter", "GET", "/v1/policies?limit=0", "")
	b.want(400, "parameter", "GET", "/v1/policies?stale=perhaps", "")
	b.want(400, "parameter", "GET", "/v1/policies/a%2Fb", "")
	b.want(400, "parameter", "GET", "/v1/policies/a?namespace=A", "")
	b.want(404, "path", "GET", "/v2/policies", "")
	if a := b.want(405, "method", "PATCH", "/v1/policies/a", ""); !strings.Contains(a.header.Get("Allow"), "PUT") {
		t.Errorf("%v", a.header)
	}
	b.want(421, "host", "GET", "/v1/policies", "", "Host", "evil.example")
	b.want(403, "origin", "POST", "/v1/policies", `{"name":"a","rules":[]}`, "Sec-Fetch-Site", "cross-site")
	b.want(422, "invalid", "PUT", "/v1/configs/c", `{"content":"x","release":{"content":"y","percent":1}}`)
}

func TestPages(t *testing.T) {
	b := newBed(t, nil)
	for i := range 7 {
		b.want(201, "", "POST", "/v1/policies", fmt.Sprintf(`{"name":"p%d","rules":[]}`, i))
	}
	b.want(201, "", "POST", "/v1/policies", `{"namespace":"other","name":"x","rules":[]}`)
	var names []string
	after := ""
	for {
		page := b.want(200, "", "GET", "/v1/policies?limit=3&after="+after, "")
		for _, item := range page.field(t, "items").([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		next, ok := page.field(t, "next").(string)
		if !ok {
			break
		}
		after = next
	}
	if got := strings.Join(names, " "); got != "p0 p1 p2 p3 p4 p5 p6" {
		t.Errorf("listed %s", got)
	}
	stale := b.want(200, "", "GET", "/v1/policies?stale=true", "")
	if stale.header.Get(ageField) == "" {
		t.Error("a stale read says nothing of its age")
	}
	if fresh := b.want(200, "", "GET", "/v1/policies", ""); fresh.field(t, "age_seconds") != 0.0 || fresh.header.Get(ageField) != "" {
		t.Errorf("%s", fresh.body)
	}
}

func TestConfigs(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "PUT", "/v1/configs/c", `{"content":"old","content_type":"application/x-test"}`)
	content := func(query string) string {
		t.Helper()
		a := b.want(200, "", "GET", "/v1/configs/c/content?"+query, "")
		if kind := a.header.Get("Content-Type"); kind != "application/x-test" {
			t.Errorf("content type %s", kind)
		}
		return string(a.body) + " " + a.header.Get(releasedField)
	}
	if got := content("client=1"); got != "old false" {
		t.Error(got)
	}
	b.want(412, "precondition", "POST", "/v1/configs/c/promote", "")
	b.want(422, "invalid", "PUT", "/v1/configs/c/release", `{"content":"new"}`)
	r := b.want(200, "", "PUT", "/v1/configs/c/release", `{"content":"new","labels":{"zone":["a"]}}`)
	if r.field(t, "release", "since") != 1.0 {
		t.Errorf("%s", r.body)
	}
	if got := content("client=1&label=zone%3Da"); got != "new true" {
		t.Error(got)
	}
	if got := content("client=1&label=zone%3Db"); got != "old false" {
		t.Error(got)
	}
	if r := b.want(200, "", "PUT", "/v1/configs/c/release", `{"content":"new","percent":100}`); r.field(t, "release", "since") != 1.0 {
		t.Errorf("another release: %s", r.body)
	}
	if got := content("client=1"); got != "new true" {
		t.Error(got)
	}
	b.want(200, "", "POST", "/v1/configs/c/promote", "")
	if got := content(""); got != "new false" {
		t.Error(got)
	}
	b.want(200, "", "PUT", "/v1/configs/c/release", `{"content":"newer","percent":100}`)
	b.want(200, "", "DELETE", "/v1/configs/c/release", "")
	if got := content("client=1"); got != "new false" {
		t.Error(got)
	}
	b.want(200, "", "POST", "/v1/configs/c/rollback", `{"version":1}`)
	if got := content(""); got != "old false" {
		t.Error(got)
	}
	b.want(200, "", "GET", "/v1/configs/c", "")
	b.want(200, "", "GET", "/v1/configs", "")
	b.want(200, "", "GET", "/v1/configs/c/history", "")
	b.want(200, "", "GET", "/v1/configs/c/history/2", "")
	b.want(201, "", "POST", "/v1/configs", `{"name":"d","content":""}`)
	b.want(204, "", "DELETE", "/v1/configs/d", "")
	b.want(200, "", "GET", "/v1/configs/c/rollout", "")
}

func TestIdempotency(t *testing.T) {
	b := newBed(t, nil)
	first := b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`, "Idempotency-Key", "k1")
	again := b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`, "Idempotency-Key", "k1")
	if !bytes.Equal(first.body, again.body) || again.header.Get(repeatedField) != "true" || first.header.Get(repeatedField) != "" {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	b.want(422, "key", "POST", "/v1/policies", `{"name":"b","rules":[]}`, "Idempotency-Key", "k1")
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`, "Idempotency-Key", "k2")
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`, "Idempotency-Key", "k2")
	if a := b.do("GET", "/v1/policies/a", ""); a.field(t, "version") != 2.0 {
		t.Errorf("made twice: %s", a.body)
	}
	b.want(204, "", "DELETE", "/v1/policies/a", "", "Idempotency-Key", "k3")
	b.want(204, "", "DELETE", "/v1/policies/a", "", "Idempotency-Key", "k3")
}

func TestInstances(t *testing.T) {
	b := newBed(t, func(_ *Config, p *plane.Config) { p.Limits.PerService = 3 })
	one := "/v1/services/shop/instances/1"
	b.want(404, "missing", "POST", one+"/heartbeat", "")
	made := b.want(201, "", "PUT", one, `{"address":"10.0.0.1","port":80,"zone":"a","ttl_seconds":5}`)
	if made.field(t, "weight") != 100.0 || made.field(t, "status") != "up" || made.field(t, "holder") != "control" {
		t.Errorf("%s", made.body)
	}
	same := b.want(200, "", "PUT", one, `{"address":"10.0.0.1","port":80,"zone":"a","ttl_seconds":5}`)
	if same.field(t, "version") != 1.0 {
		t.Errorf("registering again is a write: %s", same.body)
	}
	if other := b.want(200, "", "PUT", one, `{"address":"10.0.0.1","port":81,"zone":"a"}`); other.field(t, "version") != 2.0 {
		t.Errorf("%s", other.body)
	}
	b.want(204, "", "POST", one+"/heartbeat", "")
	b.want(201, "", "PUT", "/v1/services/shop/instances/2", `{"address":"10.0.0.2","port":80,"zone":"b","status":"draining"}`)
	b.want(201, "", "PUT", "/v1/services/cart/instances/1", `{"address":"::1","port":80}`)
	if l := b.want(200, "", "GET", "/v1/services", ""); l.field(t, "items", 0, "name") != "cart" || l.field(t, "items", 1, "instances") != 2.0 {
		t.Errorf("%s", l.body)
	}
	for query, n := range map[string]int{"": 2, "?zone=a": 1, "?status=draining": 1, "?zone=a&status=draining": 0, "?limit=1": 1} {
		if l := b.want(200, "", "GET", "/v1/services/shop/instances"+query, ""); len(l.field(t, "items").([]any)) != n {
			t.Errorf("%s: %s", query, l.body)
		}
	}
	h := b.want(200, "", "POST", "/v1/heartbeats", `{"instances":[{"service":"shop","id":"1"},{"service":"shop","id":"9"}]}`)
	if u := h.field(t, "unknown").([]any); len(u) != 1 || h.field(t, "unknown", 0, "id") != "9" {
		t.Errorf("%s", h.body)
	}
	b.want(201, "", "PUT", "/v1/services/shop/instances/3", `{"address":"a","port":1}`)
	b.want(403, "limit", "PUT", "/v1/services/shop/instances/4", `{"address":"a","port":1}`)
	b.want(200, "", "GET", one, "")
	b.want(204, "", "DELETE", one, "")
	b.want(404, "missing", "GET", one, "")
}

// TestSilenceOverHTTP2: a watcher to whom nothing is to be said for longer than a write may take stays.
func TestSilenceOverHTTP2(t *testing.T) {
	b := newBed(t, func(c *Config, _ *plane.Config) { c.WriteTimeout = 500 * time.Millisecond })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(b.api)
	server.Config.Protocols = protocols
	server.Start()
	server.Client().Transport.(*http.Transport).Protocols = protocols
	b.server.Close()
	b.server = server
	t.Cleanup(func() {
		b.api.Close()
		server.Close()
	})
	s := b.stream("kind=policy")
	s.want("resync", "synced")
	for _, name := range []string{"a", "b"} {
		<-time.After(1200 * time.Millisecond)
		b.want(201, "", "POST", "/v1/policies", `{"name":"`+name+`","rules":[]}`)
		s.want("put " + name + " 1")
	}
}

func TestStream(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	b.want(201, "", "POST", "/v1/configs", `{"name":"c","content":"old"}`)
	b.want(200, "", "GET", "/v1/configs/c", "") // the replica knows both
	s := b.stream("kind=policy&name=a&name=b")
	s.want("resync", "put a 1")
	synced := s.want("synced")
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`)
	b.want(201, "", "POST", "/v1/policies", `{"name":"other","rules":[]}`)
	b.want(201, "", "POST", "/v1/policies", `{"name":"b","rules":[]}`)
	first := s.want("put a 2")
	s.want("put b 1")
	b.want(204, "", "DELETE", "/v1/policies/a", "")
	s.want("remove a 2")

	// Who comes back is told what came after, and nothing else.
	b.stream("kind=policy&name=a&name=b", "Last-Event-ID", first).want("put b 1", "remove a 2")
	b.stream("kind=policy&name=a&name=b&since="+escaped(synced)).want("put b 1", "remove a 2") // the newer change of a in the place of the older
	// A token of another epoch, or none at all, starts again.
	b.stream("kind=policy&name=b", "Last-Event-ID", "0000000000000000-5").want("resync", "put b 1", "synced")
	b.stream("kind=policy&name=b", "Last-Event-ID", "nonsense").want("resync", "put b 1", "synced")

	// A client has the content that the release chooses for it.
	b.want(200, "", "PUT", "/v1/configs/c/release", `{"content":"new","percent":100}`)
	b.want(200, "", "GET", "/v1/configs/c", "")
	e := b.stream("kind=config&client=me")
	e.want("resync")
	if got := e.next(); !strings.Contains(got.data, `"content":"new"`) || !strings.Contains(got.data, `"released":true`) || strings.Contains(got.data, "old") {
		t.Errorf("%+v", got)
	}
}

func TestPoll(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	first := b.want(200, "", "GET", "/v1/watch?kind=policy", "")
	if first.field(t, "resync") != true || first.field(t, "changes", 0, "name") != "a" {
		t.Errorf("%s", first.body)
	}
	next := first.field(t, "next").(string)
	idle := b.want(200, "", "GET", "/v1/watch?kind=policy&wait=0.01&since="+next, "")
	if idle.field(t, "resync") != false || len(idle.field(t, "changes").([]any)) != 0 {
		t.Errorf("%s", idle.body)
	}
	next = idle.field(t, "next").(string)
	var wg sync.WaitGroup
	wg.Go(func() {
		got := b.want(200, "", "GET", "/v1/watch?kind=policy&wait=300&since="+next, "")
		if got.field(t, "resync") != false || got.field(t, "changes", 0, "version") != 2.0 {
			t.Errorf("%s", got.body)
		}
	})
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`)
	wg.Wait()
	b.want(400, "parameter", "GET", "/v1/watch?wait=-1", "")
	b.want(400, "parameter", "GET", "/v1/watch?kind=x", "")
	b.want(400, "parameter", "GET", "/v1/watch?namespace=*&name=a", "")
	b.want(200, "", "GET", "/v1/watch?namespace=*", "")
}

func TestRollout(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/policies", `{"name":"a","rules":[]}`)
	streams := map[string]*stream{}
	for _, client := range []string{"1", "2", "3"} {
		streams[client] = b.stream("kind=policy&client=" + client)
		streams[client].want("resync", "put a 1", "synced")
	}
	ack := func(client string, version int, state string) answer {
		t.Helper()
		return b.want(200, "", "POST", "/v1/acks", fmt.Sprintf(`{"client":%q,"acks":[{"kind":"policy","name":"a","version":%d,"state":%q,"reason":"no"}]}`, client, version, state))
	}
	b.want(200, "", "PUT", "/v1/policies/a", `{"rules":[]}`)
	for client, s := range streams {
		if news := ack(client, 1, "applied").field(t, "news"); news == nil {
			t.Error("no news")
		}
		s.want("put a 2")
	}
	ack("1", 2, "applied")
	ack("2", 2, "refused")
	if news := ack("stranger", 2, "applied").field(t, "news"); news != 0.0 {
		t.Errorf("who watches nothing is in the ledger: %v", news)
	}
	out := b.want(200, "", "GET", "/v1/policies/a/rollout", "")
	if out.field(t, "version") != 2.0 || out.field(t, "clients") != 3.0 || out.field(t, "applied") != 1.0 || out.field(t, "refused") != 1.0 || out.field(t, "holdings", 0, "reason") != "no" {
		t.Errorf("%s", out.body)
	}
	b.want(422, "invalid", "POST", "/v1/acks", `{"client":"1","acks":[{"kind":"policy","name":"a","version":1,"state":"perhaps"}]}`)
	for _, version := range []string{"3", "9000000000000000000"} {
		one := `{"kind":"policy","name":"a","state":"applied","version":` + version + `}`
		if a := b.want(422, "invalid", "POST", "/v1/acks", `{"client":"3","acks":[`+one+`]}`); a.field(t, "errors", 0, "pointer") != "#/acks/0/version" {
			t.Errorf("%s", a.body)
		}
		if a := b.want(422, "invalid", "POST", "/v1/acks", `{"client":"3","acks":[`+strings.Repeat(one+",", maxFaults)+one+`]}`); len(a.field(t, "errors").([]any)) != maxFaults {
			t.Errorf("not every fault is told: %s", a.body)
		}
		// One that is refused does not keep another from the ledger.
		some := b.want(200, "", "POST", "/v1/acks", `{"client":"3","acks":[`+one+`,{"kind":"policy","name":"a","version":2,"state":"applied"}]}`)
		if some.field(t, "refused", 0, "name") != "a" || some.field(t, "refused", 0, "detail") == "" {
			t.Errorf("%s", some.body)
		}
	}
	if out := b.want(200, "", "GET", "/v1/policies/a/rollout", ""); out.field(t, "applied") != 2.0 || out.field(t, "pending") != 0.0 {
		t.Errorf("%s", out.body)
	}
	b.want(404, "missing", "GET", "/v1/policies/x/rollout", "")
}

// TestServiceRollout: the versions of a service are those of its instances that clients of
// xDS have.
func TestServiceRollout(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "PUT", "/v1/services/s/instances/1", `{"address":"192.0.2.1","port":1}`)
	ref := resource.Ref{Kind: resource.Instances, Namespace: "default", Name: "s"}
	one, two := b.plane.Enter(planetest.Anybody, "1"), b.plane.Enter(planetest.Anybody, "2")
	b.want(200, "", "GET", "/v1/services/s/instances/1", "") // the replica has learnt of it
	second := b.plane.Revision()
	first := second - 1
	one.Sent([]push.Change{{Ref: ref, Version: first}})
	two.Sent([]push.Change{{Ref: ref, Version: second}})
	one.Ack(t.Context(), []resource.Ack{{Ref: ref, Version: first, State: resource.Applied}})
	two.Ack(t.Context(), []resource.Ack{{Ref: ref, Version: second, State: resource.Refused, Reason: "eds: no"}})
	out := b.want(200, "", "GET", "/v1/services/s/rollout", "")
	if out.field(t, "version") != float64(second) || out.field(t, "pending") != 1.0 || out.field(t, "refused") != 1.0 || out.field(t, "holdings", 0, "reason") != "eds: no" {
		t.Errorf("%s", out.body)
	}
	b.want(404, "missing", "GET", "/v1/services/x/rollout", "")
	b.want(400, "parameter", "GET", "/v1/services/%2A/rollout", "")
}

func TestOperations(t *testing.T) {
	b := newBed(t, nil)
	b.want(201, "", "POST", "/v1/configs", `{"name":"c","content":"x"}`)
	b.want(200, "", "GET", "/v1/configs/c", "") // the replica has learnt of it: the status waits for nothing
	st := b.want(200, "", "GET", "/v1/status", "")
	if st.field(t, "resources", "config") != 1.0 || st.field(t, "store", "embedded") != true {
		t.Errorf("%s", st.body)
	}
	whole := b.want(200, "", "GET", "/v1/backup", "")
	found := false
	if _, err := backup.Read(bytes.NewReader(whole.body), func(key string, _ []byte) error {
		found = found || strings.HasSuffix(key, "/c")
		return nil
	}); err != nil || !found {
		t.Errorf("found %v: %v", found, err)
	}
	b.want(204, "", "POST", "/v1/reclaim", "")
	b.want(200, "", "GET", "/v1/openapi.json", "")
}

// withBook is a bed with a principal for every role in namespace shop, whose token is
// its name.
func withBook(t *testing.T, change func(*Config, *plane.Config)) *bed {
	t.Helper()
	return newBed(t, func(c *Config, p *plane.Config) {
		c.Gate = planetest.Gate(t, "shop")
		if change != nil {
			change(c, p)
		}
	})
}

// TestRefused: requests without a known token, or without the permission, are refused, even if there is nothing to
// read. Who may do what is plane's.
func TestRefused(t *testing.T) {
	b := withBook(t, nil)
	for _, token := range []string{"", "nobody"} {
		b.token = token
		if a := b.want(401, "token", "GET", "/v1/policies/p?namespace=shop", ""); a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("token %q: %v", token, a.header)
		}
	}
	for _, c := range []struct{ who, method, path, body string }{
		{"reader", "PUT", "/v1/policies/p", `{"namespace":"shop","rules":[]}`},
		{"reader", "GET", "/v1/watch?namespace=*", ""},
		{"reader", "GET", "/v1/audit?from=2100-01-01T00:00:00Z", ""},
		{"admin", "GET", "/v1/backup", ""},
		{"admin", "POST", "/v1/reclaim", ""},
	} {
		b.token = c.who
		b.want(403, "role", c.method, c.path, c.body)
	}
	b.token = "editor"
	b.want(201, "", "PUT", "/v1/policies/p", `{"namespace":"shop","rules":[]}`)
	b.token = "other"
	if a := b.want(200, "", "GET", "/v1/audit", ""); len(a.field(t, "items").([]any)) != 0 {
		t.Errorf("an admin of another namespace sees %s", a.body)
	}
}

func TestRate(t *testing.T) {
	b := withBook(t, func(c *Config, _ *plane.Config) { c.Gate = plane.NewGate(c.Gate.Book, 0.001, 2) })
	b.token = "reader"
	b.want(200, "", "GET", "/v1/policies?namespace=shop", "")
	b.want(200, "", "GET", "/v1/policies?namespace=shop", "")
	if a := b.want(429, "rate", "GET", "/v1/policies?namespace=shop", ""); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	b.token = "editor"
	b.want(200, "", "GET", "/v1/policies?namespace=shop", "")
}

func TestWatchersAreBounded(t *testing.T) {
	b := newBed(t, func(c *Config, _ *plane.Config) { c.MaxWatchers, c.Heartbeat = 1, 10*time.Millisecond })
	s := b.stream("kind=policy")
	s.want("resync", "synced")
	if e := s.next(); !e.comment {
		t.Errorf("no heartbeat but %+v", e)
	}
	b.want(503, "watchers", "GET", "/v1/watch", "")
}
