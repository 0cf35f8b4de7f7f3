package pods

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serve starts an API server that answers as one, and returns its client.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	folder := t.TempDir()
	for file, text := range map[string]string{
		"namespace": "dyno", "token": "secret\n",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Client{server: server.URL, account: folder}
}

// The answer is a real API server's: one pod runs, one ends, and one is static.
func TestFind(t *testing.T) {
	var asked *http.Request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		http.ServeFile(w, r, "testdata/pods.json")
	})
	found, err := c.Find(t.Context(), "", "app=web,tier!=db")
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{
		{Name: "web-a", Node: "node", UID: "98e1a984-a848-467e-b7d8-4a6a6dd65500"},
		{Name: "web-static-node", Node: "node", UID: "7675f63d8aa6110353cb2b3999a3e20c"},
	}
	if !slices.Equal(found, want) {
		t.Errorf("%+v", found)
	}
	q := asked.URL.Query()
	if asked.URL.Path != "/api/v1/namespaces/dyno/pods" || q.Get("labelSelector") != "app=web,tier!=db" || q.Get("fieldSelector") != "status.phase=Running" || asked.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("%v with %v", asked.URL, asked.Header)
	}
	if _, err := c.Find(t.Context(), "shop", "app=web"); err != nil || asked.URL.Path != "/api/v1/namespaces/shop/pods" {
		t.Errorf("%v, %v", asked.URL, err)
	}
}

// The error says why no pods were found.
func TestFindNone(t *testing.T) {
	file := func(name string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(status)
			_, _ = w.Write(text) // the client has gone, or reads it
		}
	}
	for want, answer := range map[string]http.HandlerFunc{
		`the API server answers 403 Forbidden: pods is forbidden: User "system:serviceaccount:dyno:dyno"`: file("testdata/forbidden.json", http.StatusForbidden),
		"no pod with app=web runs in namespace dyno":                                                      file("testdata/none.json", http.StatusOK),
		"more than 64 pods with app=web": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"items": [{}` + strings.Repeat(", {}", Most) + `]}`))
		},
		"the API server's answer: ": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"answers 502 Bad Gateway: ": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		if found, err := serve(t, answer).Find(t.Context(), "", "app=web"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want: %s", found, err, want)
		}
	}
	c := serve(t, http.NotFound)
	c.account = t.TempDir()
	if _, err := c.Find(t.Context(), "dyno", "app=web"); err == nil || !strings.Contains(err.Error(), "automountServiceAccountToken") {
		t.Error(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if c, err := InCluster(); err == nil {
		t.Errorf("%+v", c)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if c, err := InCluster(); err != nil || c.server != "https://[fd00::1]:443" {
		t.Errorf("%+v, %v", c, err)
	}
}
