package rest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dyno/services/control/access"
	"dyno/services/control/console"
	"dyno/services/control/plane"
)

// TestPage: the console is there for everybody who may reach the API, needs no
// credentials, and is framed by nobody.
func TestPage(t *testing.T) {
	b := newBed(t, nil)
	get := func(path, host string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		got, err := b.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, got.Header, string(text)
	}
	for path, kind := range map[string]string{"/": "text/html", "/console": "text/html", "/console/": "text/html", "/console/console.js": "text/javascript", "/console/console.css": "text/css"} {
		status, header, text := get(path, "")
		if status != 200 || text == "" || !strings.HasPrefix(header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", path, status, header)
		}
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, header)
		}
		if path == "/console/" && (strings.Contains(text, "<style") || strings.Contains(text, "<script>") || strings.Contains(text, "://")) {
			t.Errorf("the page has something inline, or asks somebody else: %s", text)
		}
	}
	if status, _, _ := get(console.Path, "evil.example"); status != http.StatusMisdirectedRequest {
		t.Errorf("another name of this machine: %d", status)
	}
	b.want(404, "path", "GET", "/console/page.html", "")
	b.want(405, "method", "POST", "/v1/namespaces", "")

	book, err := access.ParseBook([]byte("principals: [{name: a, token_sha256: \"" + strings.Repeat("0", 64) + "\", grants: [{namespace: x, role: reader}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	b = newBed(t, func(c *Config, _ *plane.Config) { c.Gate = plane.NewGate(book, 0, 0) })
	if status, _, _ := get(console.Path, "control.example"); status != 200 {
		t.Errorf("the page needs credentials: %d", status)
	}
	b.want(401, "token", "GET", "/v1/namespaces", "")
}
