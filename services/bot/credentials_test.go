package bot

import (
	"net/http"
	"strings"
	"testing"
)

// TestCredentials: endpoints accept keys and tokens in the fields that libraries use, and those of models are served with
// and without /v1.
func TestCredentials(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("key")} })
	const body = `{"model":"dyno-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	for name, value := range map[string]string{
		"Authorization": "Bearer " + secretOf("key"), "X-Api-Key": secretOf("key"), "Api-Key": secretOf("key"), "X-Goog-Api-Key": b.login("key", "u"),
	} {
		for _, path := range []string{"/v1/messages", "/messages", "/v1/chat/completions", "/chat/completions"} {
			if status, text, _ := b.headed(path, body, map[string]string{name: value}); status != http.StatusOK {
				t.Errorf("%s, %s: %d %s", path, name, status, text)
			}
		}
	}
	for _, header := range []map[string]string{{}, {"X-Api-Key": "wrong"}, {"Authorization": "Basic x", "X-Api-Key": secretOf("key")}} {
		if status, text, _ := b.headed("/chat/completions", body, header); status != http.StatusUnauthorized || !strings.Contains(text, `"type":"authentication_error"`) {
			t.Errorf("%v: %d %s", header, status, text)
		}
	}
	for path, want := range map[string]int{"/models": http.StatusOK, "/models/dyno-1": http.StatusOK, "/usage": http.StatusNotFound, "/v1/v1/models": http.StatusNotFound} {
		if status, text := b.get(path, secretOf("key")); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
