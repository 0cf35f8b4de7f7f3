package control

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// A centre is a control plane of a test, which keeps its address when it is started again.
type centre struct {
	t    *testing.T
	cfg  Config
	http *http.Client
	base string
	// names is where DNS listens; "" is nowhere
	names string
	end   func()
}

func newCentre(t *testing.T, change func(*Config)) *centre {
	t.Helper()
	c := &centre{t: t, cfg: config(t), http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	if change != nil {
		change(&c.cfg)
	}
	c.start()
	return c
}

func (c *centre) start() {
	c.t.Helper()
	s, end := serving(c.t, c.cfg)
	c.cfg.Listen, c.base, c.end = s.Addr().String(), "http://"+s.Addr().String(), end
	if c.cfg.DNS != "" {
		c.names = s.DNSAddr().String()
	}
}

// ask sends a request with a token, and returns the response with its body. Header fields are name, value, name, value.
func (c *centre) ask(method, path, body string, header ...string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer root")
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	got, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return got, string(text)
}

func (c *centre) want(status int, method, path, body string) string {
	c.t.Helper()
	got, text := c.ask(method, path, body)
	if got.StatusCode != status {
		c.t.Fatalf("%s %s: %d %s, want %d", method, path, got.StatusCode, text, status)
	}
	return text
}

// resources returns all resources of a namespace, by their paths, with their entity tags.
func (c *centre) resources(namespace string) map[string]string {
	c.t.Helper()
	all := map[string]string{}
	var paths []string
	list := func(path string) (items []struct{ Name, ID string }) {
		var page struct{ Items []struct{ Name, ID string } }
		if err := json.Unmarshal([]byte(c.want(200, "GET", path+"?limit=1000&namespace="+namespace, "")), &page); err != nil {
			c.t.Fatal(err)
		}
		return page.Items
	}
	for _, folder := range []string{"/v1/policies", "/v1/configs", "/v1/counters", "/v1/sessions"} {
		for _, i := range list(folder) {
			paths = append(paths, folder+"/"+i.Name)
		}
	}
	for _, s := range list("/v1/services") {
		for _, i := range list("/v1/services/" + s.Name + "/instances") {
			paths = append(paths, "/v1/services/"+s.Name+"/instances/"+i.ID)
		}
	}
	for _, path := range paths {
		got, text := c.ask("GET", path+"?namespace="+namespace, "")
		all[path] = got.Header.Get("ETag") + " " + text
	}
	return all
}

// status returns what a follower says of itself.
func (c *centre) status() (s struct {
	Age       float64 `json:"age_seconds"`
	Following *struct {
		Primary  string
		Age      float64 `json:"age_seconds"`
		Withheld int
		Error    string
	}
}) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.want(200, "GET", "/v1/status", "")), &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal("it did not happen: " + what)
		}
	}
}

// equals waits until a follower has what its primary has.
func (c *centre) equals(primary *centre) {
	c.t.Helper()
	var want, got map[string]string
	defer func() {
		if c.t.Failed() {
			c.t.Logf("primary: %v\nfollower: %v", want, got)
		}
	}()
	eventually(c.t, "the follower equals its primary", func() bool {
		want, got = primary.resources("default"), c.resources("default")
		return maps.Equal(want, got)
	})
}

func following(primary *centre) func(*Config) {
	return func(c *Config) { c.Follow.Servers = []string{primary.base} }
}

// TestFollower: a follower has its primary's resources, with their versions and tags, also after a restart without the primary,
// and after the primary was away or restored. It changes nothing.
func TestFollower(t *testing.T) {
	p := newCentre(t, nil)
	p.want(201, "PUT", "/v1/policies/a", `{"rules":[{"action":"deny"}]}`)
	p.want(201, "PUT", "/v1/configs/open", `{"content":"<&>\u2028\u0001","labels":{"b":"1","a":"2"}}`)
	p.want(201, "PUT", "/v1/configs/secret", `{"content":"password","secret":true}`)
	p.want(200, "PUT", "/v1/configs/open/release", `{"content":"new","percent":20}`)
	p.want(201, "PUT", "/v1/services/s/instances/1", `{"address":"10.0.0.1","port":1,"ttl_seconds":3600}`)
	p.want(201, "POST", "/v1/counters/visits", `{"add":3}`)
	f := newCentre(t, following(p))
	if got, want := f.resources("default"), p.resources("default"); !maps.Equal(got, want) { // it answers only once it has a copy
		t.Errorf("%v, want %v", got, want)
	}
	if text := f.want(200, "GET", "/v1/configs/secret/content", ""); text != "password" {
		t.Errorf("%q", text)
	}

	// Changes arrive while the two are connected, as a watch of the follower shows.
	w, err := newClient(t, quick("", f.base)).Watch(client.Query{Kinds: []resource.Kind{resource.Configs}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		p.want(200, "PUT", "/v1/configs/open", fmt.Sprintf(`{"content":"%d"}`, n))
	}
	p.want(204, "DELETE", "/v1/policies/a", "")
	until(t, w, "the last change", func(s client.Snapshot) bool {
		return slices.ContainsFunc(s.Items, func(i client.Item) bool { return i.Name == "open" && i.Version == 7 })
	})
	f.equals(p)
	item, _ := p.ask("GET", "/v1/configs/open", "")
	if got, text := f.ask("GET", "/v1/configs/open", "", "If-None-Match", item.Header.Get("ETag")); got.StatusCode != http.StatusNotModified {
		t.Errorf("the primary's tag: %d %s", got.StatusCode, text)
	}
	// A removed resource that is made again goes on with its versions, here as there.
	p.want(201, "PUT", "/v1/policies/a", `{"rules":[]}`)
	f.equals(p)

	// It refuses all changes, and says who takes them.
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/policies/b", `{"rules":[]}`}, {"PUT", "/v1/policies/b?dry_run=true", `{"rules":[]}`}, {"DELETE", "/v1/configs/open", ""},
		{"POST", "/v1/configs/open/rollback", `{"version":1}`}, {"POST", "/v1/configs/open/promote", ""},
		{"PUT", "/v1/services/s/instances/1", `{"address":"10.0.0.1","port":1,"ttl_seconds":3600}`}, {"DELETE", "/v1/services/s/instances/1", ""},
		{"POST", "/v1/counters/visits", `{"add":1}`}, {"POST", "/v1/sessions", `{"ttl_seconds":10}`}, {"POST", "/v1/sessions/a/renew", ""}, {"PUT", "/v1/locks/l", `{"session":"a"}`},
		{"POST", "/v1/services/s/instances/1/heartbeat", ""}, {"POST", "/v1/heartbeats", `{"instances":[{"service":"s","id":"1"}]}`},
	} {
		got, text := f.ask(c.method, c.path, c.body)
		if got.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(text, `"urn:dyno:control:follower"`) || !strings.Contains(text, `"primary":"`+p.base+`"`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.StatusCode, text)
		}
	}
	// A program that knows both registers at the primary.
	r, err := newClient(t, quick("", f.base, p.base)).Register(resource.Instance{Service: "s", ID: "2", Address: "10.0.0.2", Port: 1})
	if err == nil {
		err = r.Ready(t.Context())
	}
	if err == nil {
		err = r.Close(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	f.equals(p)
	backup := filepath.Join(t.TempDir(), "backup.jsonl")
	if err := os.WriteFile(backup, []byte(p.want(200, "GET", "/v1/backup", "")), 0o600); err != nil {
		t.Fatal(err)
	}

	// The primary is killed. Answers stay, and get older; a restart does not make them younger.
	before := f.resources("default")
	p.end()
	eventually(t, "the follower notices", func() bool { return f.status().Following.Error != "" })
	age := f.status().Age
	eventually(t, "answers get older", func() bool { return f.status().Age > age })
	age = f.status().Age
	f.end()
	f.start()
	if s := f.status(); s.Age < age || s.Following.Age <= 0 || s.Following.Primary != p.base {
		t.Errorf("%+v, with an age of %v before", s, age)
	}
	for _, path := range []string{"/v1/configs/open", "/v1/configs/open?stale=true"} {
		if got, _ := f.ask("GET", path, ""); got.Header.Get("Dyno-Age-Seconds") == "" {
			t.Errorf("%s: its age is not said", path)
		}
	}
	if got := f.resources("default"); !maps.Equal(got, before) {
		t.Errorf("%v, want %v", got, before)
	}

	// It comes back, with changes that the follower did not see.
	p.start()
	p.want(200, "PUT", "/v1/configs/open", `{"content":"back"}`)
	p.want(204, "DELETE", "/v1/services/s/instances/1", "")
	p.want(204, "DELETE", "/v1/counters/visits", "")
	f.equals(p)
	eventually(t, "the follower hears it", func() bool { return f.status().Following.Error == "" })

	// It is restored to an earlier state, and goes on from there. Clients of the follower read everything again.
	var now struct{ Store struct{ Epoch string } }
	if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/status", "")), &now); err != nil {
		t.Fatal(err)
	}
	epoch := now.Store.Epoch
	p.end()
	p.cfg.Store.Dir = t.TempDir()
	file, err := os.Open(backup)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := Restore(t.Context(), p.cfg.Store, file); err != nil {
		t.Fatal(err)
	}
	p.start()
	p.want(200, "PUT", "/v1/configs/open", `{"content":"other"}`)
	f.equals(p)
	var restored struct{ Version int64 }
	if err := json.Unmarshal([]byte(p.want(200, "GET", "/v1/configs/open", "")), &restored); err != nil {
		t.Fatal(err)
	}
	until(t, w, "the restored state", func(s client.Snapshot) bool {
		return slices.ContainsFunc(s.Items, func(i client.Item) bool {
			return i.Name == "open" && i.Version == restored.Version && strings.Contains(string(i.Body), "other")
		})
	})
	eventually(t, "versions begin again", func() bool {
		return !strings.Contains(f.want(200, "GET", "/v1/status", ""), epoch)
	})
	w.Close()
}

// TestFollowerPromoted: a follower that is started without its primary is one of its own: it takes changes, and what was overdue
// stays overdue. It does not follow again, unless it may lose its resources.
func TestFollowerPromoted(t *testing.T) {
	p := newCentre(t, func(c *Config) {
		c.Plane.Liveness.ProtectFor, c.Plane.Liveness.MinSilent, c.Plane.Liveness.Threshold = time.Hour, 1, 0
	})
	p.want(201, "PUT", "/v1/services/s/instances/dead", `{"address":"10.0.0.1","port":1,"ttl_seconds":1}`)
	p.want(201, "PUT", "/v1/services/s/instances/alive", `{"address":"10.0.0.2","port":1,"ttl_seconds":3600}`)
	p.want(201, "PUT", "/v1/policies/a", `{"rules":[]}`)
	f := newCentre(t, following(p))
	overdue := func() (ids []string) {
		var page struct {
			Items []struct {
				ID      string
				Overdue bool
			}
		}
		if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/services/s/instances", "")), &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			if i.Overdue {
				ids = append(ids, i.ID)
			}
		}
		return ids
	}
	eventually(t, "the dead instance is overdue", func() bool { return slices.Equal(overdue(), []string{"dead"}) })
	p.end()
	f.end()
	f.start() // without its primary
	if got := overdue(); !slices.Equal(got, []string{"dead"}) {
		t.Errorf("after a restart: %q", got)
	}
	f.end()
	follow := f.cfg.Follow
	f.cfg.Follow.Servers = nil
	f.start()
	if got := overdue(); !slices.Equal(got, []string{"dead"}) {
		t.Errorf("promoted: %q", got)
	}
	f.want(204, "POST", "/v1/services/s/instances/alive/heartbeat", "")
	f.want(200, "PUT", "/v1/policies/a", `{"rules":[{"action":"deny"}]}`)
	if text := f.want(200, "GET", "/v1/policies/a", ""); !strings.Contains(text, `"version":2`) {
		t.Error(text)
	}
	f.end()
	f.cfg.Follow = follow
	s, err := New(f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "give an empty --data") {
		t.Errorf("following again: %v", err)
	}
	p.start()
	f.cfg.Store.Dir = t.TempDir()
	f.start()
	f.equals(p)
}

// TestFollowerScope: a follower has what its token may read, and says what is missing. More permissions bring more.
func TestFollowerScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "principals.yaml")
	grants := func(grants string) {
		text := "principals:\n"
		for name, grants := range map[string]string{"root": `{namespace: "*", role: admin}`, "follower": grants} {
			text += fmt.Sprintf("  - {name: %s, token_sha256: %x, grants: [%s]}\n", name, sha256.Sum256([]byte(name)), grants)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	grants("{namespace: default, role: reader}")
	p := newCentre(t, func(c *Config) { c.Principals = file })
	p.want(201, "PUT", "/v1/configs/secret", `{"content":"password","secret":true}`)
	p.want(201, "PUT", "/v1/configs/open", `{"content":"x"}`)
	p.want(201, "PUT", "/v1/configs/far?namespace=far", `{"content":"x"}`)
	f := newCentre(t, func(c *Config) { c.Follow.Servers, c.Follow.Token = []string{p.base}, "follower" })
	names := func(namespace string) []string { return slices.Sorted(maps.Keys(f.resources(namespace))) }
	if got, s := names("default"), f.status(); !slices.Equal(got, []string{"/v1/configs/open"}) || s.Following.Withheld != 1 {
		t.Errorf("%q, %+v", got, s.Following)
	}
	if got := names("far"); len(got) > 0 {
		t.Errorf("%q", got)
	}
	// What becomes secret goes away, with its earlier versions.
	p.want(200, "PUT", "/v1/configs/open", `{"content":"y","secret":true}`)
	eventually(t, "it is withheld", func() bool { return f.status().Following.Withheld == 2 })
	f.want(404, "GET", "/v1/configs/open", "")
	if backup := f.want(200, "GET", "/v1/backup", ""); strings.Contains(backup, "/open") {
		t.Errorf("its store still has %s", backup)
	}
	p.end()
	grants("{namespace: default, role: editor}, {namespace: far, role: reader}")
	p.start()
	f.equals(p)
	eventually(t, "the other namespace", func() bool { return len(names("far")) == 1 && f.status().Following.Withheld == 0 })
}

// TestFollowerWithoutPrimary: a follower without a copy does not answer, and says why.
func TestFollowerWithoutPrimary(t *testing.T) {
	c := config(t)
	c.Follow.Servers, c.OpenTimeout = []string{"http://127.0.0.1:1"}, 3*time.Second
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "no complete copy of http://127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
