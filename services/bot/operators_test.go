package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"dyno/internal/fields"
	"dyno/services/internal/serve"
)

// A provider is Zitadel's OpenID Connect provider, with users in memory. Its tokens say the groups of their owners.
type provider struct {
	*storage.Storage
	t       *testing.T
	url     string
	handler atomic.Pointer[http.Handler] // nil while it is away
	groups  map[string][]string
}

// the provider's client.
const clientID, clientSecret, redirect = "dyno", "a secret of the client", "http://localhost:9/signed-in"

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, groups: map[string][]string{"id1": {"staff", "platform"}, "id2": {"staff"}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := p.handler.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(server.Close)
	storage.RegisterClients(storage.WebClient(clientID, clientSecret, redirect))
	p.url, p.Storage = server.URL, storage.NewStorage(storage.NewUserStore(server.URL))
	return p
}

// start lets the provider answer.
func (p *provider) start() {
	var h http.Handler = exampleop.SetupServer(p.url, p, slog.New(slog.DiscardHandler), false)
	p.handler.Store(&h)
}

// SetUserinfoFromRequest adds the groups to tokens.
func (p *provider) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	info.Subject = r.GetSubject()
	info.AppendClaims("groups", p.groups[info.Subject])
	return nil
}

// signIn returns the token of a person who signs in as a browser does: by the authorization code (OpenID Connect Core
// 1.0, section 3.1).
func (p *provider) signIn(name string) string {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	defer browser.CloseIdleConnections()
	do := func(path string, form url.Values, user string) *http.Response {
		p.t.Helper()
		method, body := http.MethodGet, ""
		if form != nil {
			method, body = http.MethodPost, form.Encode()
		}
		r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if user != "" {
			r.SetBasicAuth(user, url.QueryEscape(clientSecret))
		}
		resp, err := browser.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	login := do("/auth?"+url.Values{"client_id": {clientID}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}}.Encode(), nil, "")
	id := login.Request.URL.Query().Get("authRequestID")
	back, err := do("/login/username", url.Values{"id": {id}, "username": {name}, "password": {"verysecure"}}, "").Location()
	if err != nil {
		p.t.Fatal(err)
	}
	answer := do("/oauth/token", url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {redirect}}, clientID)
	var got struct {
		Token string `json:"id_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Token == "" {
		p.t.Fatal(err, answer.Status)
	}
	return got.Token
}

// TestOperators: people of a real provider use the admin listener by what their groups give them, and the audit names
// them. The listener's own token goes on. While the provider is away, nobody of it can sign in.
func TestOperators(t *testing.T) {
	p := newProvider(t)
	static := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(static, []byte("the-listeners-own-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(editors, readers []string) *bed {
		return serving(t, newLLM(t, nil), func(c *Config) {
			c.Admin, c.AdminTokenFile, c.ManageKeys = "127.0.0.1:0", static, true
			c.Operators.OIDC.Issuer, c.Operators.OIDC.ClientID, c.Operators.Editors, c.Operators.Readers = p.url, clientID, editors, readers
		})
	}
	b := open([]string{"platform"}, []string{"staff"})
	ask := func(b *bed, user, token, method, path, body string, want int, says string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.AdminAddr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, token)
		} else if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want || !strings.Contains(string(text), says) || (want == http.StatusUnauthorized) != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: %v %s %s, want %d with %q", method, path, err, resp.Status, text, want, says)
		}
	}
	const me, keys = "/api/v1/me", "/api/v1/keys"
	ask(b, "", "a.b.c", "GET", me, "", 401, "token: malformed")
	ask(b, "", "unknown", "GET", me, "", 401, "the admin listener's token is needed")
	ask(b, "", "", "GET", me, "", 401, "the admin listener's token is needed")
	ask(b, "", "", "GET", "/healthz", "", 200, "ok")
	p.start()
	host := strings.Split(strings.TrimPrefix(p.url, "http://"), ":")[0]
	editor, reader := p.signIn("test-user@"+host), p.signIn("test-user2")
	p.handler.Store(nil)
	ask(b, "", editor, "GET", me, "", 503, "cannot be identified")
	p.start()
	b = open([]string{"platform"}, []string{"staff"})
	ask(b, "", editor, "GET", me, "", 200, `{"name":"oidc:id1","role":"editor"}`)
	ask(b, "anybody", reader, "GET", me, "", 200, `{"name":"oidc:id2","role":"reader"}`)
	ask(b, "ann", "the-listeners-own-token", "GET", me, "", 200, `{"name":"ann","role":"editor"}`)
	ask(b, "", "the-listeners-own-token", "GET", me, "", 200, `{"name":"admin","role":"editor"}`)
	ask(b, "", editor, "POST", keys, `{"id":"a"}`, 201, `"secret":`)
	ask(b, "", reader, "GET", keys, "", 200, `"id":"a"`)
	ask(b, "", reader, "GET", "/metrics", "", 200, "bot_")
	for method, path := range map[string]string{"POST": keys, "PATCH": keys + "/a", "DELETE": keys + "/a"} {
		ask(b, "", reader, method, path, "{}", 403, "oidc:id2 may only read")
	}
	ask(b, "", editor, "DELETE", keys+"/a", "", 204, "")
	ask(b, "", editor, "GET", "/api/v1/audit?limit=1", "", 200, `"by":"oidc:id1","action":"delete"`)
	ask(b, "", editor[:len(editor)-4]+"AAAA", "GET", me, "", 401, "wrong signature")
	ask(open([]string{"platform"}, nil), "", reader, "GET", me, "", 403, "oidc:id2 has no role here")
}

// TestOperatorsConfig: what goes together is given together.
func TestOperatorsConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                               func(*Config) {},
		"oidc_client_id: an issuer":      func(c *Config) { c.Operators.OIDC.ClientID = "" },
		"oidc_issuer: is missing":        func(c *Config) { c.Operators.OIDC.Issuer, c.Operators.OIDC.ClientID = "", "" },
		"oidc_issuer: goes with":         func(c *Config) { c.Admin = "" },
		"oidc_editors: is missing":       func(c *Config) { c.Operators.Editors, c.Operators.Readers = nil, nil },
		"oidc_issuer: \"http://10.0.0.1": func(c *Config) { c.Operators.OIDC.Issuer = "http://10.0.0.1" },
		"oidc_issuer: address not":       func(c *Config) { c.AllowNetworks = nil },
		"tls_cert: a certificate":        func(c *Config) { c.TLS = serve.TLS{Key: "x"} },
		"tls_client_ca: needs":           func(c *Config) { c.ClientCA = "x" },
		"admin_client_ca: needs":         func(c *Config) { c.AdminClientCA = "x" },
	} {
		c := fields.Default[Config]()
		c.Admin, c.AllowNetworks = "127.0.0.1:0", []string{"127.0.0.1"}
		c.Operators.OIDC.Issuer, c.Operators.OIDC.ClientID, c.Operators.Editors, c.Operators.Readers = "http://127.0.0.1:1", "x", []string{"a"}, []string{"b"}
		change(&c)
		err := fields.Validate(c, func(r *fields.Report) {
			policy, err := c.policy()
			r.Error("allow_networks", err)
			c.Operators.check(r, policy, c.Admin)
			c.TLS.Check(r)
			c.CheckClientCA(r, "tls_client_ca", c.ClientCA)
			c.CheckClientCA(r, "admin_client_ca", c.AdminClientCA)
		})
		if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && !strings.Contains(got, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
