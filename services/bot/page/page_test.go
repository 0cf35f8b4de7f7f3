package page

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"dyno/internal/leak"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestFiles: both pages have their files and their policy, and nothing else is served.
func TestFiles(t *testing.T) {
	chat := http.NewServeMux()
	Chat(chat)
	for path, c := range map[string]struct {
		from http.Handler
		kind string
	}{
		"/":              {chat, "text/html; charset=utf-8"},
		"/page.js":       {chat, "text/javascript; charset=utf-8"},
		"/page.css":      {chat, "text/css; charset=utf-8"},
		"/keys/":         {Keys("/keys/"), "text/html; charset=utf-8"},
		"/keys/page.js":  {Keys("/keys/"), "text/javascript; charset=utf-8"},
		"/keys/page.css": {Keys("/keys/"), "text/css; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		c.from.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.Len() == 0 || h.Get("Content-Type") != c.kind || h.Get("Content-Security-Policy") != serve.PagePolicy ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %d bytes, %v", path, w.Code, w.Body.Len(), h)
		}
	}
	for path, from := range map[string]http.Handler{"/chat.html": chat, "/assets/page.js": chat, "/keys/": chat, "/keys/keys.html": Keys("/keys/")} {
		w := httptest.NewRecorder()
		if from.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// outside finds addresses that a browser would ask somebody else for. Names of XML
// vocabularies are not asked for.
var outside = regexp.MustCompile(`(?:https?:)?//[a-z0-9][a-z0-9.-]*\.[a-z]{2,}`)

// TestOnlyItsOwn: nothing in the files names another host, and nothing is in the HTML that
// the policy forbids.
func TestOnlyItsOwn(t *testing.T) {
	for _, part := range []string{"unsafe", "*", "http:", "https:"} {
		if strings.Contains(serve.PagePolicy, part) {
			t.Errorf("the policy has %s", part)
		}
	}
	list, err := assets.ReadDir("assets")
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, f := range list {
		text, err := assets.ReadFile("assets/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range outside.FindAllString(string(text), -1) {
			if found != "http://www.w3.org" {
				t.Errorf("%s names %s", f.Name(), found)
			}
		}
		if strings.HasSuffix(f.Name(), ".html") && regexp.MustCompile(`<style|\son\w+=|<script(?: defer)?>`).Match(text) {
			t.Errorf("%s has a script or a style of its own", f.Name())
		}
	}
}
