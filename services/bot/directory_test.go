package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
	"dyno/services/llm"
)

// managed runs a gateway whose keys are made at run time.
func managed(t *testing.T, m *llm.Server, set func(*Config)) *bed {
	return serving(t, m, func(c *Config) {
		set(c)
		c.ManageKeys, c.Admin = true, "127.0.0.1:0"
	})
}

// manage sends a request to the API, and returns the answer's members.
func (b *bed) manage(method, path, body string, want int) map[string]any {
	b.t.Helper()
	r, err := http.NewRequest(method, "http://"+b.AdminAddr().String()+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.whole(resp)
	if status != want {
		b.t.Errorf("%s %s: %d %s", method, path, status, text)
	}
	var answer map[string]any
	if status != http.StatusNoContent {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			b.t.Fatalf("%v: %s", err, text)
		}
	}
	return answer
}

// newKey makes a key, and returns its secret.
func (b *bed) newKey(body string) string {
	b.t.Helper()
	secret, _ := b.manage("POST", "/api/v1/keys", body, http.StatusCreated)["secret"].(string)
	return secret
}

// models asks as a client of a key.
func (b *bed) models(secret string, want int) string {
	b.t.Helper()
	status, text := b.get("/v1/models", secret)
	if status != want {
		b.t.Errorf("%d %s, want %d", status, text, want)
	}
	return text
}

// question is answered at once, and whole.
const question = `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`

// asks sends a question as a client of a key.
func (b *bed) asks(secret string, want int) string {
	b.t.Helper()
	status, text, _ := b.ask("/v1/chat/completions", secret, question)
	if status != want {
		b.t.Errorf("%d %s, want %d", status, text, want)
	}
	return text
}

// Keys are made, limited, rotated and revoked while the gateway runs. A stream that has begun goes on to its end. What the
// file has works as before, and stays.
func TestKeysAtRunTime(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		proceed := make(chan struct{})
		b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"stream":true`) {
				_, _ = io.WriteString(w, aWhole)
				return
			}
			_, _ = io.WriteString(w, aWord)
			_ = http.NewResponseController(w).Flush()
			<-proceed
			_, _ = io.WriteString(w, aStop+aUsage+aDone)
		}, func(c *Config) {
			set(c)
			c.Keys, c.ManageKeys, c.Admin = []Key{keyOf("file", Limit{store.Requests, 2, 0})}, true, "127.0.0.1:0"
		})
		b.models("", http.StatusUnauthorized)
		b.manage("POST", "/api/v1/teams", `{"id":"t"}`, 201)
		b.manage("POST", "/api/v1/users", `{"id":"u"}`, 201)
		one, two := b.newKey(`{"id":"one","team":"t","user":"u"}`), b.newKey(`{"id":"two","team":"t","models":["other/*"]}`)
		if text := b.models(one, 200); !strings.Contains(text, "dyno-1") {
			t.Error(text)
		}
		b.asks(two, http.StatusNotFound)
		b.manage("PATCH", "/api/v1/keys/two", `{"models":["dyno-*"]}`, 200)
		stream, err := b.post(t.Context(), "/v1/chat/completions", one, streams["/v1/chat/completions"])
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()

		// A team's limit is for all of its keys together, and only for the model that it names.
		b.manage("POST", "/api/v1/limits", `{"id":"l","team":"t","resource":"requests","amount":3,"model":"dyno-1","window":"24h"}`, 201)
		b.manage("POST", "/api/v1/limits", `{"team":"t","resource":"requests","amount":0,"model":"other"}`, 201)
		b.asks(two, 200)
		b.asks(two, 200)
		if _, used := b.get("/v1/usage", one); !strings.Contains(used, `"team":"t","model":"dyno-1","amount":3,"window_seconds":86400,"used":2`) {
			t.Error(used)
		}
		b.manage("POST", "/api/v1/limits", `{"id":"m","key":"one","resource":"parallel","amount":3}`, 201)
		for path, want := range map[string]string{
			"limits?used=true&team=t": "id:l model:dyno-1 resource:requests team:t used:2 ", "limits?used=true&key=one": "id:m key:one resource:parallel used:0 ",
			"keys?used=true&search=FIL": "declared:true id:file limits:[map[amount:2 ", "keys?used=true&search=ONE": "id:m key:one resource:parallel used:0 ", "teams?used=true": "id:l model:dyno-1 resource:requests team:t used:2 ",
		} {
			if list := fmt.Sprint(b.manage("GET", "/api/v1/"+path, "", 200)["items"]); !strings.Contains(list, want) {
				t.Errorf("%s: %s", path, list)
			}
		}
		b.manage("DELETE", "/api/v1/limits/m", "", 204)
		b.manage("PATCH", "/api/v1/limits/l", `{"amount":2}`, 200)
		if text := b.asks(one, http.StatusTooManyRequests); !strings.Contains(text, "limit reached: 2 requests per 24h0m0s of the team t for dyno-1") {
			t.Error(text)
		}
		b.manage("DELETE", "/api/v1/limits/l", "", 204)
		b.asks(one, 200)

		// Of two secrets the old one works while it may.
		token := func() string {
			_, text, _ := b.ask("/v1/login", one, `{"user_id":"someone"}`)
			var login struct {
				Token string `json:"access_token"`
			}
			if err := json.Unmarshal([]byte(text), &login); err != nil {
				t.Fatal(err)
			}
			return login.Token
		}()
		next, _ := b.manage("POST", "/api/v1/keys/one/rotate", `{"grace_seconds":3600}`, 200)["secret"].(string)
		b.models(one, 200)
		b.models(next, 200)
		last, _ := b.manage("POST", "/api/v1/keys/one/rotate", "", 200)["secret"].(string)
		b.models(one, 401)
		b.models(next, 401)
		b.models(last, 200)
		b.models(token, 200)

		b.manage("PATCH", "/api/v1/users/u", `{"disabled":true}`, 200)
		if text := b.models(last, 401); !strings.Contains(text, "api_key_disabled") || !strings.Contains(text, "the user of the API key is disabled") {
			t.Error(text)
		}
		b.models(token, 401)
		b.manage("PATCH", "/api/v1/users/u", `{"disabled":null}`, 200)
		b.models(last, 200)
		b.manage("PATCH", "/api/v1/keys/one", `{"expires":"2020-01-02T03:04:05Z"}`, 200)
		if text := b.models(last, 401); !strings.Contains(text, "api_key_expired") {
			t.Error(text)
		}
		b.manage("DELETE", "/api/v1/keys/one", "", 204)
		b.models(last, 401)
		b.models(token, 401)
		b.models(two, 200)

		close(proceed)
		if text, err := io.ReadAll(stream.Body); err != nil || !slices.Equal(datas(t, string(text)), datas(t, aWord+aStop+aDone)) {
			t.Errorf("the stream of a deleted key: %q, %v", text, err)
		}
		for _, e := range b.ledger("one", 2) {
			if e.Team != "t" || e.Owner != "u" || e.Outcome != "ok" {
				t.Errorf("%+v", e)
			}
		}
		if used := fmt.Sprint(b.manage("GET", "/api/v1/usage?group=team,model", "", 200)["groups"]); !strings.Contains(used, "requests:4 team:t") {
			t.Error(used)
		}

		// What the file has.
		b.manage("PATCH", "/api/v1/keys/file", `{"disabled":true}`, http.StatusConflict)
		b.manage("POST", "/api/v1/keys", `{"id":"file"}`, http.StatusConflict)
		if k := b.manage("GET", "/api/v1/keys/file", "", 200); k["declared"] != true || k["sha256"] != nil {
			t.Error(k)
		}
		b.asks(secretOf("file"), 200)
		b.asks(secretOf("file"), 200)
		b.asks(secretOf("file"), http.StatusTooManyRequests)
	})
}

// A file that is read again keeps the keys that were made at run time, and has precedence over them.
func TestReloadKeepsKeys(t *testing.T) {
	var change func(*Config)
	b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aWhole) }, func(c *Config) {
		c.ManageKeys, c.Admin = true, "127.0.0.1:0"
		was := *c
		c.Reread = func() (Config, error) {
			is := was
			change(&is)
			return is, is.Validate()
		}
	})
	secret := b.newKey(`{"id":"k"}`)
	b.manage("POST", "/api/v1/limits", `{"key":"k","resource":"requests","amount":2}`, 201)
	b.asks(secret, 200)
	change = func(c *Config) { c.Keys = []Key{keyOf("k"), keyOf("other")} }
	if err := b.reload(); err != nil {
		t.Fatal(err)
	}
	b.models(secret, 401)
	b.models(secretOf("k"), 200)
	b.manage("DELETE", "/api/v1/keys/k", "", http.StatusConflict)
	change = func(c *Config) { c.Upstream.Upstreams = []upstream.Upstream{{}} }
	if err := b.reload(); err == nil {
		t.Error("a file with a fault was taken")
	}
	b.manage("GET", "/api/v1/keys/other", "", 200)
	change = func(*Config) {}
	if err := b.reload(); err != nil {
		t.Fatal(err)
	}
	b.models(secretOf("k"), 401)
	b.asks(secret, 200)
	b.asks(secret, http.StatusTooManyRequests)
}

// After a restart, the keys are there, and their limits count what the ledger has.
func TestKeysOutlive(t *testing.T) {
	m, set := newLLM(t, nil), embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))
	var secret string
	t.Run("before", func(t *testing.T) {
		b := managed(t, m, set)
		b.manage("POST", "/api/v1/teams", `{"id":"t"}`, 201)
		secret = b.newKey(`{"id":"k","team":"t"}`)
		b.manage("POST", "/api/v1/limits", `{"team":"t","resource":"requests","amount":2}`, 201)
		b.asks(secret, 200)
	})
	t.Run("after", func(t *testing.T) {
		b := managed(t, m, set)
		b.asks(secret, 200)
		b.asks(secret, http.StatusTooManyRequests)
		b.manage("PATCH", "/api/v1/keys/k", `{"team":null}`, 200)
		b.asks(secret, 200)
	})
	// A limit that has no key has what the ledger has, too.
	b := managed(t, m, set)
	if list := fmt.Sprint(b.manage("GET", "/api/v1/limits?used=true", "", 200)["items"]); !strings.Contains(list, "used:2") {
		t.Error(list)
	}
	b.manage("PATCH", "/api/v1/keys/k", `{"team":"t"}`, 200)
	b.asks(secret, http.StatusTooManyRequests)
}

// Two gateways serve while keys are made, limited, rotated and revoked at both. No request is cut, limits are exact, a
// change is followed everywhere, and the ledger has what the model server has answered.
func TestReplicas(t *testing.T) {
	var answered atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answered.Add(1)
		_, _ = io.WriteString(w, aWhole)
	}))
	t.Cleanup(model.Close)
	m, set := newLLM(t, nil), onServers(t)
	var beds [2]*bed
	for i := range beds {
		beds[i] = managed(t, m, func(c *Config) {
			set(c)
			c.Upstream.Upstreams[0].URL = model.URL + "/v1"
		})
	}
	a, b := beds[0], beds[1]
	follows := func(secret string, want int) {
		t.Helper()
		for _, d := range beds {
			until(t, "a change is followed", func() bool { status, _ := d.get("/v1/models", secret); return status == want })
		}
	}
	steady := a.newKey(`{"id":"steady"}`)
	follows(steady, 200)
	ctx, stop := context.WithCancel(t.Context())
	var load, changes sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				beds[i%2].asks(steady, 200)
			}
		})
	}
	a.manage("POST", "/api/v1/teams", `{"id":"t"}`, 201)
	a.manage("POST", "/api/v1/limits", `{"team":"t","resource":"requests","amount":60}`, 201)
	for i, d := range beds {
		changes.Go(func() {
			for n := range 20 {
				id := fmt.Sprintf("k-%d-%d", i, n)
				first := d.newKey(`{"id":"` + id + `"}`)
				d.manage("POST", "/api/v1/limits", `{"key":"`+id+`","resource":"requests","amount":1}`, 201)
				d.asks(first, 200)
				d.asks(first, http.StatusTooManyRequests)
				second, _ := d.manage("POST", "/api/v1/keys/"+id+"/rotate", "", 200)["secret"].(string)
				follows(first, 401)
				follows(second, 200)
				d.manage("DELETE", "/api/v1/keys/"+id, "", 204)
				follows(second, 401)
			}
		})
	}
	changes.Wait()
	// 60 of 60, with two keys of a team at two gateways.
	secrets := [2]string{a.newKey(`{"id":"one","team":"t"}`), b.newKey(`{"id":"two","team":"t"}`)}
	follows(secrets[0], 200)
	follows(secrets[1], 200)
	var good, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 120 {
		all.Go(func() {
			switch status, text, _ := beds[i%2].ask("/v1/chat/completions", secrets[i/2%2], question); status {
			case http.StatusOK:
				good.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("%d %s", status, text)
			}
		})
	}
	all.Wait()
	stop()
	load.Wait()
	if good.Load() != 60 || refused.Load() != 60 {
		t.Errorf("%d answers and %d refusals of 60 and 60", good.Load(), refused.Load())
	}
	a.settled()
	b.settled()
	until(t, "the ledger has what the model server has answered", func() bool {
		groups := fmt.Sprint(a.manage("GET", "/api/v1/usage", "", 200)["groups"])
		return strings.Contains(groups, fmt.Sprintf(" requests:%v]", float64(answered.Load())))
	})
}

// deployment returns what the API says of a deployment.
func (b *bed) deployment(id string) map[string]any {
	b.t.Helper()
	return b.manage("GET", "/api/v1/deployments/"+id, "", 200)
}

// Two gateways serve while deployments are made, changed and removed at both. No request is cut, a stream goes on at its
// deployment, every gateway follows, and those that stay keep their counts.
func TestDeploymentsOfReplicas(t *testing.T) {
	proceed := make(chan struct{})
	var answered atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, aWhole)
			return
		}
		_, _ = io.WriteString(w, aWord)
		_ = http.NewResponseController(w).Flush()
		<-proceed
		_, _ = io.WriteString(w, aStop+aUsage+aDone)
	}))
	t.Cleanup(model.Close)
	m, set := newLLM(t, nil), onServers(t)
	var beds [2]*bed
	for i := range beds {
		beds[i] = managed(t, m, func(c *Config) {
			set(c)
			c.Upstream.Upstreams = nil // all are made at run time
		})
	}
	a, b := beds[0], beds[1]
	key := a.newKey(`{"id":"k"}`)
	a.asks(key, http.StatusNotFound)
	a.manage("POST", "/api/v1/providers", `{"id":"p","url":"`+model.URL+`/v1","key":"the-secret"}`, 201)
	a.manage("POST", "/api/v1/deployments", `{"id":"steady","provider":"p","model":"own","names":["dyno-1"],"requests_per_minute":100000}`, 201)
	serves := func(d *bed, name string, want bool) bool {
		_, text := d.get("/v1/models", key)
		return strings.Contains(text, `"`+name+`"`) == want
	}
	follows := func(name string, want bool) {
		t.Helper()
		for _, d := range beds {
			until(t, "a change is followed", func() bool { return serves(d, name, want) })
		}
	}
	follows("dyno-1", true)
	stream, err := b.post(t.Context(), "/v1/chat/completions", key, streams["/v1/chat/completions"])
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	ctx, stop := context.WithCancel(t.Context())
	var load, changes sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				beds[i%2].asks(key, 200)
			}
		})
	}
	for i, d := range beds {
		changes.Go(func() {
			for n := range 8 {
				id := fmt.Sprintf("d-%d-%d", i, n)
				// It takes a part of the load at once.
				d.manage("POST", "/api/v1/deployments", `{"id":"`+id+`","provider":"p","model":"own","names":["dyno-1","`+id+`"]}`, 201)
				follows(id, true)
				d.manage("PATCH", "/api/v1/deployments/"+id, `{"weight":5,"names":["dyno-1","new-`+id+`"]}`, 200)
				follows("new-"+id, true)
				d.manage("PATCH", "/api/v1/deployments/"+id, `{"weight":0}`, 400)
				d.manage("DELETE", "/api/v1/deployments/"+id, "", 204)
				follows("new-"+id, false)
			}
		})
	}
	changes.Wait()
	stop()
	load.Wait()
	if s := b.deployment("steady"); s["calls"].(float64) < 2 || s["failures"] != 0.0 || s["in_flight"] != 1.0 || s["key"] != nil {
		t.Errorf("a deployment that stayed: %v", s)
	}
	// Also that of the stream goes.
	a.manage("DELETE", "/api/v1/deployments/steady", "", 204)
	follows("dyno-1", false)
	a.manage("DELETE", "/api/v1/providers/p", "", 204)
	close(proceed)
	if text, err := io.ReadAll(stream.Body); err != nil || !slices.Equal(datas(t, string(text)), datas(t, aWord+aStop+aDone)) {
		t.Errorf("the stream of a deleted deployment: %q, %v", text, err)
	}
	a.settled()
	b.settled()
	until(t, "the ledger has what the model server has answered", func() bool {
		groups := fmt.Sprint(a.manage("GET", "/api/v1/usage", "", 200)["groups"])
		return strings.Contains(groups, fmt.Sprintf(" requests:%v]", float64(answered.Load())))
	})
}

// A cool-down stays when other deployments change, for all keys and for each, and ends by a reset. A change of the provider
// ends it, too. What was made is there after a restart.
func TestResetOfDeployment(t *testing.T) {
	var bad atomic.Bool
	var asked atomic.Value
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Authorization"))
		if bad.Load() {
			w.Header().Set("Retry-After", "3000")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, aWhole)
	}))
	t.Cleanup(model.Close)
	set := embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))
	m := newLLM(t, nil)
	var one string
	t.Run("before", func(t *testing.T) {
		b := managed(t, m, set)
		one = b.newKey(`{"id":"one"}`)
		two := b.newKey(`{"id":"two"}`)
		b.manage("POST", "/api/v1/providers", `{"id":"p","url":"`+model.URL+`/v1","key":"first"}`, 201)
		b.manage("POST", "/api/v1/deployments", `{"id":"d","provider":"p","model":"own"}`, 201)
		own := strings.Replace(question, "dyno-1", "own", 1)
		asks := func(secret string, want int) {
			t.Helper()
			if status, text, _ := b.ask("/v1/chat/completions", secret, own); status != want {
				t.Errorf("%d %s, want %d", status, text, want)
			}
		}
		state := func(want string) {
			t.Helper()
			if s := b.deployment("d"); s["state"] != want || (s["until"] != nil) != (want == "open") {
				t.Errorf("%v, want %s", s, want)
			}
		}
		cool := func() {
			t.Helper()
			bad.Store(true)
			for _, key := range []string{one, two} {
				asks(key, http.StatusTooManyRequests)
				asks(key, http.StatusServiceUnavailable)
			}
			bad.Store(false)
			state("open")
		}
		asks(one, 200)
		state("closed")
		cool()
		b.manage("POST", "/api/v1/deployments", `{"id":"other","provider":"p","model":"x"}`, 201)
		state("open")
		asks(one, http.StatusServiceUnavailable)
		b.manage("POST", "/api/v1/deployments/d/reset", "", 204)
		state("closed")
		asks(one, 200)
		asks(two, 200)
		cool()
		b.manage("PATCH", "/api/v1/providers/p", `{"key":"second"}`, 200)
		state("closed")
		asks(one, 200)
		asks(two, 200)
		if got := asked.Load(); got != "Bearer second" {
			t.Errorf("the provider's key: %v", got)
		}
		if s := b.deployment("d"); s["calls"] != 9.0 || s["failures"] != 4.0 {
			t.Errorf("%v", s)
		}
	})
	b := managed(t, m, set)
	if status, text, _ := b.ask("/v1/chat/completions", one, strings.Replace(question, "dyno-1", "own", 1)); status != 200 {
		t.Errorf("after a restart: %d %s", status, text)
	}
}

// A file that is read again must go with what was made at run time, and so must one at the start.
func TestReloadKeepsDeployments(t *testing.T) {
	var change func(*Config)
	file := filepath.Join(t.TempDir(), "db")
	provide := func(c *Config) {
		embedded(ArchiveSQLite, file)(c)
		c.ManageKeys, c.Admin = true, "127.0.0.1:0"
		c.Upstream.Providers = []upstream.Provider{{Name: "p", Server: upstream.Server{URL: "http://127.0.0.1:1/v1"}}}
	}
	t.Run("reload", func(t *testing.T) {
		b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aWhole) }, func(c *Config) {
			provide(c)
			was := *c
			c.Reread = func() (Config, error) {
				is := was
				change(&is)
				return is, is.Validate()
			}
		})
		b.manage("POST", "/api/v1/deployments", `{"provider":"p","model":"m"}`, 201)
		change = func(c *Config) { c.Upstream.Providers = nil }
		if err := b.reload(); err == nil || !strings.Contains(err.Error(), `made at run time: the deployment "p/m" would not work: provider: "p" is no provider`) {
			t.Error(err)
		}
		b.manage("GET", "/api/v1/providers/p", "", 200)
		change = func(*Config) {}
		if err := b.reload(); err != nil {
			t.Error(err)
		}
		b.deployment("p%2Fm")
	})
	c := Defaults()
	provide(&c)
	c.Upstream.Providers, c.AllowNetworks = nil, []string{"127.0.0.0/8"}
	if g, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), `the deployment "p/m" would not work`) {
		t.Error(g, err)
	}
}
