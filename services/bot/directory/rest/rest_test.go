package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
	"dyno/services/bot/upstream"
)

// A bed is the API of a directory in memory.
type bed struct {
	t       *testing.T
	handler http.Handler
}

func open(t *testing.T) bed {
	a := memory.NewArchive(memory.DefaultBounds())
	day := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	for i, team := range []string{"t", "t", ""} {
		e := &store.Entry{ID: fmt.Sprint(i), At: day.AddDate(0, 0, i), Key: "k", Team: team, Model: "m", Prompt: 2, Completion: 3, Money: 7}
		if _, err := a.Write(t.Context(), []store.Record{{Entry: e, Price: &store.Price{Name: "00c0ffee", Terms: `{"prompt":2}`}}}); err != nil {
			t.Fatal(err)
		}
	}
	d := directory.New(a, func(context.Context, string, *directory.Access) error { return nil })
	c := upstream.Defaults()
	c.Managed, c.Policy.Allow = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Upstreams = []upstream.Upstream{upstream.DefaultUpstream()}
	c.Upstreams[0].Name, c.Upstreams[0].URL, c.Upstreams[0].Models = "up", "http://127.0.0.1:1/v1", map[string]string{"a": "x", "b": "y"}
	c.Providers = []upstream.Provider{{Name: "file", Server: upstream.Server{URL: "http://127.0.0.1:1/v1", Key: "sk-of-the-file"}}}
	d.Declare(map[directory.Kind][]directory.Item{directory.Keys: {{ID: "file"}}, directory.Limits: {{ID: "file:0", Key: "file", Resource: store.Tokens, Amount: new(int64)}}}, c)
	states := func() []upstream.State {
		return []upstream.State{{ID: "up/a", Name: "up", Models: []string{"a"}, State: "closed", Active: 3}}
	}
	used := func(_ context.Context, limits []*directory.Item) {
		for _, l := range limits {
			l.Used = new(int64)
		}
	}
	return bed{t, Handler(Config{Directory: d, Managed: true, Usage: a.Usage, Prices: a.Prices, Erase: func(ctx context.Context, user string, by directory.If) error { return d.Erase(ctx, user, by) },
		States: states, Reset: func(id string) bool { return id == "up/a" }, Used: used, StoreTimeout: time.Minute, WriteTimeout: time.Minute})}
}

func (b bed) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, Path+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func (b bed) want(w *httptest.ResponseRecorder, status int, parts ...string) {
	b.t.Helper()
	if w.Code != status {
		b.t.Errorf("%d %s, want %d", w.Code, w.Body, status)
	}
	for _, part := range parts {
		if !strings.Contains(w.Body.String(), part) {
			b.t.Errorf("%s, want %s", w.Body, part)
		}
	}
}

// An item is made, read, changed and deleted. Its version guards it, a secret is shown once, and hashes never.
func TestItems(t *testing.T) {
	b := open(t)
	w := b.ask("POST", "keys", `{"id":"k","name":"n"}`)
	b.want(w, 201, `"id":"k"`, `"version":1`, `"secret":"sk-`)
	w = b.ask("GET", "keys/k", "")
	b.want(w, 200, `"name":"n"`)
	if strings.Contains(w.Body.String(), "s") && strings.Contains(w.Body.String(), "sha256") || strings.Contains(w.Body.String(), "secret") || w.Header().Get("ETag") != `"1"` || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	b.want(b.ask("PATCH", "keys/k", `{"name":"m"}`, "If-Match", `"1"`), 200, `"name":"m"`, `"version":2`)
	b.want(b.ask("PATCH", "keys/k", `{"name":"o"}`, "If-Match", `"1"`), 412, `"code":"changed"`)
	b.want(b.ask("DELETE", "keys/k", "", "If-Match", `x`), 400, `"param":"If-Match"`)
	b.want(b.ask("POST", "keys/k/rotate", `{"grace_seconds":60}`, "If-Match", "2"), 200, `"secret":"sk-`, `"old_until":`)
	b.want(b.ask("POST", "keys/k/rotate", `{"grace":60}`), 400, `unknown field \"grace\"`)
	b.want(b.ask("POST", "teams/k/rotate", ""), 404, `"code":"not_found"`)
	w = b.ask("DELETE", "keys/k", "", "Authorization", "Basic b3BlcmF0b3I6c2VjcmV0") // operator:secret
	b.want(w, 204)
	b.want(b.ask("GET", "keys/k", ""), 404, `there is no key`)
	b.want(b.ask("POST", "keys", strings.Repeat(" ", maxBody+1)), 413)
	b.want(b.ask("PUT", "keys", ""), 404, "/api/v1/openapi.json")
	w = b.ask("GET", "audit?limit=2", "")
	b.want(w, 200, `"version":4`, `"by":"operator","action":"delete","kind":"keys","id":"k","before":{`, `"by":"admin","action":"rotate"`)
	b.want(b.ask("GET", "audit?before=2", ""), 200, `{"changes":[{"version":1,`)
	for _, w := range []*httptest.ResponseRecorder{w, b.ask("GET", "audit", "")} {
		if strings.Contains(w.Body.String(), "sha256") || strings.Contains(w.Body.String(), "sk-") {
			t.Errorf("%s", w.Body)
		}
	}
	b.want(b.ask("GET", "audit?limit=x", ""), 400, `"param":"limit"`)
}

// Deployments and providers have the fields of the file, are checked together, and never show a key. What the file declares
// stays.
func TestDeployments(t *testing.T) {
	b := open(t)
	b.want(b.ask("POST", "providers", `{"id":"p","url":"http://127.0.0.1:2/v1","key":"sk-secret","headers":{"X-A":"b<c"}}`), 201, `"url":"http://127.0.0.1:2/v1"`, `"version":1`)
	b.want(b.ask("POST", "deployments", `{"provider":"p","model":"m/1","weight":3,"price":{"prompt":5},"idle_timeout":"5s"}`), 201, `"id":"p/m/1"`, `"weight":3`, `"price":{"prompt":5}`, `"idle_timeout":"5s"`, `"max_concurrent":4096`)
	b.want(b.ask("PATCH", "deployments/p%2Fm%2F1", `{"weight":null,"names":["n"],"metadata":{"a":"b"}}`, "If-Match", "2"), 200, `"weight":1`, `"names":["n"]`, `"metadata":{"a":"b"}`, `"version":3`)
	b.want(b.ask("PATCH", "providers/p", `{"headers":null,"stream_options":false}`), 200, `"stream_options":false`)
	b.want(b.ask("GET", "providers/p", ""), 200, `"id":"p"`)
	for body, want := range map[string][]string{
		`{"id":"d","provider":"p","model":"m","weight":0}`:                       {`"param":"weight"`, "0 is too little; from 1"},
		`{"id":"d","provider":"p","model":"m","wieght":1}`:                       {`"param":"wieght"`, "did you mean"},
		`{"id":"d","provider":"p","model":"m","drop":["tools"]}`:                 {`"param":"drop[0]"`},
		`{"id":"d","provider":"q","model":"m"}`:                                  {`"param":"provider"`, "is no provider"},
		`{"id":"d","provider":"p","model":"m","name":"e"}`:                       {`"param":"name"`},
		`{"id":"d","provider":"p","model":"m","key":"k"}`:                        {`"param":"key"`},
		`{"id":"d","provider":"p","model":"m","state":"open"}`:                   {`"param":"state"`},
		`{"id":"d","provider":"p","model":"m","created":"2020-01-02T03:04:05Z"}`: {`"param":"created"`},
		`{"id":"d","provider":"p","model":"m","settings":{}}`:                    {`"param":"settings"`},
		`{"id":"d\u0000","provider":"p","model":"m"}`:                            {`"param":"id"`},
		`{"id":"d","provider":"p"}`:                                              {`"param":"model"`, "is missing"},
		`{"provider":"p","provider":"p","model":"m"}`:                            {`is there twice`},
	} {
		b.want(b.ask("POST", "deployments", body), 400, want...)
	}
	for body, want := range map[string]string{
		`{"id":"q","dialect":"ollama"}`:                                                      `"param":"url"`,
		`{"url":"http://127.0.0.1:2/v1"}`:                                                    `"param":"id"`,
		`{"id":"q","url":"http://10.0.0.1/v1"}`:                                              `"param":"url"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","key":""}`:                                  `"param":"key"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","key":7}`:                                   `"param":"key"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","key":"a\nb"}`:                              `"param":"key"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","key_file":"/etc/passwd"}`:                  `"param":"key_file"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","headers":{"A B":"c"}}`:                     `"param":"headers.A B"`,
		`{"id":"q","url":"http://127.0.0.1:2/v1","key":"` + strings.Repeat("k", 9000) + `"}`: `"param":"key"`,
	} {
		b.want(b.ask("POST", "providers", body), 400, want)
	}
	b.want(b.ask("DELETE", "providers/p", ""), 409, `"code":"in_use"`, `the deployment \"p/m/1\" would not work`)
	b.want(b.ask("POST", "deployments", `{"id":"p/m/1","provider":"p","model":"m"}`), 409, `"code":"exists"`)

	b.want(b.ask("GET", "deployments", ""), 200, `{"items":[{`, `"id":"up/a"`, `"id":"up/b"`, `"declared":true`, `"model":"x"`, `"in_flight":3`, `"state":"closed"`, `"models":["a"]`)
	b.want(b.ask("GET", "deployments/up%2Fa", ""), 200, `"name":"up"`, `"provider":"up"`)
	b.want(b.ask("PATCH", "deployments/up%2Fa", `{"weight":2}`), 409, `"code":"declared"`)
	b.want(b.ask("POST", "providers", `{"id":"up","url":"http://127.0.0.1:2/v1"}`), 400, `\"up\" is there twice`)
	b.want(b.ask("DELETE", "providers/file", ""), 409, `"code":"declared"`)
	b.want(b.ask("POST", "deployments", `{"id":"d","provider":"file","model":"z"}`), 201)
	b.want(b.ask("POST", "deployments/up%2Fa/reset", "", "Authorization", "Basic b3BlcmF0b3I6c2VjcmV0"), 204)
	b.want(b.ask("POST", "deployments/none/reset", ""), 404)
	b.want(b.ask("DELETE", "deployments/p%2Fm%2F1", ""), 204)
	b.want(b.ask("DELETE", "providers/p", ""), 204)
	w := b.ask("GET", "audit", "")
	b.want(w, 200, `"by":"operator","action":"reset","kind":"deployments","id":"up/a"}`, `"kind":"providers","id":"p","before":{`)
	for _, w := range []*httptest.ResponseRecorder{w, b.ask("GET", "providers", "")} {
		if text := w.Body.String(); strings.Contains(text, "sk-") {
			t.Error(text)
		}
	}
}

// Lists come by pages, with what the file declares.
func TestPages(t *testing.T) {
	b := open(t)
	b.want(b.ask("POST", "teams", `{"id":"t"}`), 201)
	for _, id := range []string{"c", "a", "b"} {
		b.want(b.ask("POST", "keys", `{"id":"`+id+`","team":"t"}`), 201)
	}
	var got []string
	for after := ""; ; {
		var l list
		w := b.ask("GET", "keys?limit=2&after="+after, "")
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 200 {
			t.Fatal(err, w)
		}
		for _, i := range l.Items {
			got = append(got, fmt.Sprint(i.ID, i.Declared))
		}
		if after = l.Next; after == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[afalse bfalse cfalse filetrue]" {
		t.Error(got)
	}
	if w := b.ask("GET", "keys?team=t&limit=1000", ""); strings.Count(w.Body.String(), `"id"`) != 3 {
		t.Error(w.Body)
	}
	b.want(b.ask("GET", "keys?team=x", ""), 200, `{"items":[]}`)
	b.want(b.ask("GET", "keys?limit=1001", ""), 400, `"param":"limit"`)
}

// Lists are searched, and have what was used of limits where that is asked for: for a key, of its team and its user, too.
func TestLists(t *testing.T) {
	b := open(t)
	for _, made := range [][2]string{
		{"teams", `{"id":"t","name":"The Shop"}`}, {"users", `{"id":"u","team":"t"}`}, {"keys", `{"id":"k","user":"u"}`}, {"keys", `{"id":"other"}`},
		{"limits", `{"id":"l1","key":"k","resource":"requests","amount":1}`}, {"limits", `{"id":"l2","team":"t","resource":"requests","amount":1,"model":"gpt"}`}, {"limits", `{"id":"l3","user":"u","resource":"requests","amount":1}`},
	} {
		b.want(b.ask("POST", made[0], made[1]), 201)
	}
	ids := regexp.MustCompile(`"id":"([^"]+)"`)
	for path, want := range map[string]string{
		"teams?search=shop": "t", "teams?search=SHOPS": "", "keys?search=K": "k", "limits?search=gpt": "l2", "keys?search=file": "file",
		"keys?search=k&used=true": "k l1 l2 l3", "keys?search=other&used=true": "other", "keys?search=file&used=true": "file file:0", "teams?used=true": "t l2", "users?used=true": "u l3",
		"limits?used=true": "file:0 l1 l2 l3",
	} {
		w := b.ask("GET", path, "")
		var got []string
		for _, m := range ids.FindAllStringSubmatch(w.Body.String(), -1) {
			got = append(got, m[1])
		}
		used := 0
		if strings.Contains(path, "used") {
			used = strings.Count(w.Body.String(), `"resource"`)
		}
		if strings.Join(got, " ") != want || strings.Count(w.Body.String(), `"used":0`) != used {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	b.want(b.ask("GET", "keys?used=true&limit=101", ""), 400, `"param":"limit"`)
	b.want(b.ask("PATCH", "limits/l1", `{"used":1}`), 400, `"param":"used"`)
}

func TestUsage(t *testing.T) {
	b := open(t)
	b.want(b.ask("GET", "usage?group=team,day&from=2030-01-02&to=2030-01-05", ""), 200,
		`"groups":[{"day":"2030-01-04","requests":1,`, `{"team":"t","day":"2030-01-02","requests":1,"prompt_tokens":2,"completion_tokens":3,"money":7},{"team":"t","day":"2030-01-03",`, `"truncated":false`)
	b.want(b.ask("GET", "usage?group=key,model&from=2030-01-02T03:00:00Z&to=2030-01-03T03:00:00Z", ""), 200, `"groups":[{"key":"k","model":"m","requests":1,`)
	b.want(b.ask("GET", "usage", ""), 200, `"groups":[]`)
	b.want(b.ask("DELETE", "users/someone%20else%2F1/data", ""), 204)
	b.want(b.ask("GET", "audit?limit=1", ""), 200, `"action":"erase","kind":"users","id":"someone else/1"`)
	b.want(b.ask("GET", "prices", ""), 200, `{"prices":{"00c0ffee":{"prompt":2}}}`)
	b.want(b.ask("GET", "usage?group=planet", ""), 400, `"param":"group"`)
	b.want(b.ask("GET", "usage?from=yesterday", ""), 400, `"param":"from"`)
	b.want(b.ask("GET", "usage?from=2030-01-02&to=2030-01-01", ""), 400, `"param":"from"`)
}

// A store that is away is no fault of the request.
func TestAway(t *testing.T) {
	b := open(t)
	b.handler = Handler(Config{StoreTimeout: time.Minute, WriteTimeout: time.Minute, Usage: func(context.Context, store.Grouping, time.Time, time.Time, int) ([]store.Usage, error) {
		return nil, errors.New("away")
	}})
	w := b.ask("GET", "usage", "")
	b.want(w, 503, `"code":"directory_unavailable"`)
	if w.Header().Get("Retry-After") != "1" {
		t.Error(w.Header())
	}
}

// The description has each operation with its parameters, and each schema that it refers to.
func TestDescription(t *testing.T) {
	w := open(t).ask("GET", "openapi.json", "")
	var d struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name, In, Description string }
			Responses  map[string]any
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 {
		t.Fatal(err, w)
	}
	ids := map[string]bool{}
	for _, r := range routes() {
		o, ok := d.Paths[r.path][strings.ToLower(r.method)]
		if !ok || ids[o.ID] || len(o.Responses) != 2 {
			t.Errorf("%s %s: %+v", r.method, r.path, o)
		}
		ids[o.ID] = true
		for _, p := range o.Parameters {
			if p.In != "path" && p.Description == "" {
				t.Errorf("%s: nothing says what %s is", o.ID, p.Name)
			}
		}
		for _, name := range []string{r.body, r.answer} {
			if name != "" && d.Components.Schemas[name] == nil {
				t.Errorf("%s: no schema %s", o.ID, name)
			}
		}
	}
	if text := w.Body.String(); strings.Contains(text, "old_sha256") || strings.Count(text, `"readOnly":true`) < 3*len(directory.Kinds()) {
		t.Error(text)
	}
}
