package bot

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dyno/internal/jwt"
	"dyno/services/bot/upstream"
)

// TestForbiddenAddresses: upstreams, plugins and key sets cannot have addresses that only this machine or its network
// reaches, however written.
func TestForbiddenAddresses(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.1:6379/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://localhost/", "http://x.localhost./",
		"http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:a9fe:a9fe]/", "http://[fe80::1%25eth0]/", "http://[64:ff9b::7f00:1]/",
		"http://169.254.169.254/latest/meta-data/", "http://100.100.100.200/", "http://168.63.129.16/", "http://[fd00:ec2::254]/", "http://10.0.0.1/", "http://0.0.0.0/",
		"http://１２７.0.0.1/", "http://u:p@example.org/", "file:///etc/passwd", "gopher://example.org/", "unix:///var/run/docker.sock",
	} {
		c := Defaults()
		u := upstream.DefaultUpstream()
		u.Name, u.URL, u.Models = "up", url, map[string]string{"m": "m"}
		c.Upstream.Upstreams = []upstream.Upstream{u}
		c.Plugins = []Plugin{{Name: "p", URL: url}}
		c.Issuers = []Issuer{{Name: "i", Audience: "a", Algorithms: []jwt.Algorithm{jwt.ES256}, Lifetime: time.Hour, KeySet: url}}
		err := c.Validate()
		for _, want := range []string{"upstreams[0].url: ", "plugins[0].url: ", "issuers[0].key_set: "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: not reported: %s in %v", url, want, err)
			}
		}
	}
}

// TestRedirectsEndHere: redirects of upstreams, plugins and publishers of keys are not followed, even to permitted
// addresses.
func TestRedirectsEndHere(t *testing.T) {
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var asked atomic.Int64
		away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.Redirect(w, r, inside.URL+"/secret", status)
		}))
		b := serving(t, newLLM(t, nil), func(c *Config) {
			up := modelOf(away.Listener.Addr())
			c.Upstream.Upstreams, c.Upstream.Attempts = []upstream.Upstream{up}, 1
			c.Plugins = []Plugin{{Name: "p", URL: away.URL + "/plugin"}}
			c.Issuers = []Issuer{{Name: "i", Audience: "a", Algorithms: []jwt.Algorithm{jwt.ES256}, Lifetime: time.Hour, KeySet: away.URL + "/keys"}}
		})
		if _, got, text := b.say("", "", "hello"); got < 500 {
			t.Errorf("%d: %d %s", status, got, text)
		}
		b.verifier.Verify(t.Context(), "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJpIn0.AAAA") //nolint:errcheck // refused: there are no keys
		if n := asked.Load(); n != 3 {
			t.Errorf("%d: asked %d times, want the upstream, the plugin and the keys once each", status, n)
		}
		away.Close()
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("followed %d times", n)
	}
}

// TestForeignPages: a page of another site cannot have a browser use a gateway that asks
// for no key. With keys, who asks has to know one.
func TestForeignPages(t *testing.T) {
	m := newLLM(t, nil)
	open, closed := serving(t, m, nil), serving(t, m, func(c *Config) { c.Keys = []Key{keyOf("test")} })
	own := open.Addr().String()
	for name, c := range map[string]struct {
		host, origin, site string
		status             int
	}{
		"a program":      {own, "", "", 200},
		"its own page":   {own, "http://" + own, "same-origin", 200},
		"rebinding":      {"evil.example", "http://evil.example", "same-origin", 403},
		"another origin": {own, "https://evil.example", "", 403},
		"no origin":      {own, "", "cross-site", 403},
	} {
		for _, b := range []*bed{open, closed} {
			r, err := http.NewRequest(http.MethodPost, b.url+"/v1/bot/chat", strings.NewReader(`{"bot_id":"b","user_id":"u","query":"hi"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			for field, v := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site, "Content-Type": "text/plain"} {
				if v != "" {
					r.Header.Set(field, v)
				}
			}
			want := c.status
			if b == closed {
				want = 200
				r.Header.Set("Authorization", "Bearer "+secretOf("test"))
			}
			resp, err := b.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s, with keys %v: %s, want %d", name, b == closed, resp.Status, want)
			}
		}
	}
}

// TestLogins: logins with a wrong key are limited by user and by address; others are not affected. A right key is
// always answered.
func TestLogins(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("test")} })
	log := func(key, user string) (int, string) {
		status, text, header := b.ask("/v1/login", key, fmt.Sprintf(`{"user_id":%q}`, user))
		if limited := status == http.StatusTooManyRequests; limited != (header.Get("Retry-After") != "") {
			t.Errorf("%d %s, Retry-After %q", status, text, header.Get("Retry-After"))
		}
		return status, text
	}
	seen := map[int]bool{}
	for n := 0; !seen[http.StatusTooManyRequests]; n++ { // one a second is answered, too
		status, text := log("wrong", "ann")
		if n == 10_000 {
			t.Fatal("logins are not limited")
		}
		if seen[status] = true; status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", status, text)
		}
	}
	if !seen[http.StatusUnauthorized] {
		t.Error("the first was refused")
	}
	if status, text := log("wrong", "bob"); status != http.StatusUnauthorized {
		t.Errorf("another user: %d %s", status, text)
	}
	if status, text := log(secretOf("test"), "ann"); status != http.StatusOK {
		t.Errorf("with the right key: %d %s", status, text)
	}
}
