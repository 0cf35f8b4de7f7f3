package bot

import (
	"net/http"
	"strings"
	"testing"
)

// TestPagesOfOtherSites: pages of origins that are allowed can use the API, errors and streams included. Others cannot.
func TestPagesOfOtherSites(t *testing.T) {
	const page = "https://app.example"
	m := newLLM(t, nil)
	keys := []Key{keyOf("test")}
	ask := `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`
	for name, c := range map[string]struct {
		allow  []string
		keys   []Key
		origin string
		shared bool
		status int // of an answer
	}{
		"nobody is allowed":   {nil, keys, page, false, 200},
		"allowed":             {[]string{"app://other", page}, keys, page, true, 200},
		"of another scheme":   {[]string{"app://other", page}, keys, "app://other", true, 200},
		"not allowed":         {[]string{page}, keys, "https://app.example.evil", false, 200},
		"no origin":           {[]string{page}, keys, "", false, 200},
		"all are allowed":     {[]string{"*"}, keys, page, true, 200},
		"no keys":             {[]string{page}, nil, page, true, 200},
		"no keys, not listed": {[]string{page}, nil, "https://evil.example", false, 403},
	} {
		b := serving(t, m, func(config *Config) { config.AllowOrigins, config.Keys = c.allow, c.keys })
		do := func(method, path, body, who string, fields ...string) *http.Response {
			t.Helper()
			r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
				r.Header.Set("Sec-Fetch-Site", "cross-site")
			}
			if who != "" {
				r.Header.Set("Authorization", "Bearer "+who)
			}
			for i := 0; i < len(fields); i += 2 {
				r.Header.Set(fields[i], fields[i+1])
			}
			resp, err := b.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			b.whole(resp)
			origin, exposes := resp.Header.Get("Access-Control-Allow-Origin"), resp.Header.Get("Access-Control-Expose-Headers")
			if want := map[bool]string{true: c.origin}[c.shared && strings.HasPrefix(path, "/v1/")]; origin != want || resp.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: %s %s: allowed is %q, want %q", name, method, path, origin, want)
			} else if (exposes == "") != (want == "" || len(fields) > 0) || exposes != "" && exposes != "*" {
				t.Errorf("%s: %s %s: exposes %q", name, method, path, exposes)
			}
			if varies := strings.Join(resp.Header.Values("Vary"), " "); len(c.allow) > 0 && resp.StatusCode != http.StatusForbidden && !strings.Contains(varies, "Origin") {
				t.Errorf("%s: %s %s: Vary: %s", name, method, path, varies)
			}
			return resp
		}
		preflight := do(http.MethodOptions, "/v1/chat/completions", "", "", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-stainless-os")
		h := preflight.Header
		if (preflight.StatusCode == http.StatusNoContent) != c.shared || c.shared && (h.Get("Access-Control-Allow-Headers") != "authorization,x-stainless-os" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST")) {
			t.Errorf("%s: %s %v", name, preflight.Status, h)
		}
		for _, stream := range []bool{true, false} {
			if resp := do(http.MethodPost, "/v1/chat/completions", strings.Replace(ask, "true", map[bool]string{true: "true", false: "false"}[stream], 1), secretOf("test")); resp.StatusCode != c.status {
				t.Errorf("%s: %s, want %d", name, resp.Status, c.status)
			}
		}
		do(http.MethodPost, "/v1/chat/completions", "{", "unknown")
		do(http.MethodOptions, "/v1/nothing", "", "")
		do(http.MethodGet, "/", "", "")
	}
}
