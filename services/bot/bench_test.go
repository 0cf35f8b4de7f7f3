package bot

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/store"
)

// BenchmarkAsk asks a model server that answers at once: directly, and through the
// gateway with authentication, limits and ledger. The difference is the gateway's.
func BenchmarkAsk(b *testing.B) {
	const (
		whole  = `{"model":"dyno-1","messages":[{"role":"user","content":"hello"}]}`
		stream = `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hello"}]}`
		turn   = `{"bot_id":"b","user_id":"u1","query":"hello"}`
	)
	for _, c := range []struct {
		name, path, body string
		direct           bool
		set              func(*Config)
	}{
		{"direct/whole", "/v1/chat/completions", whole, true, nil},
		{"direct/stream", "/v1/chat/completions", stream, true, nil},
		{"memory/whole", "/v1/chat/completions", whole, false, func(*Config) {}},
		{"memory/stream", "/v1/chat/completions", stream, false, func(*Config) {}},
		{"memory/bot", "/v1/bot/chat", turn, false, func(*Config) {}},
		{"sqlite/bot", "/v1/bot/chat", turn, false, func(c *Config) { c.Archive, c.File = ArchiveSQLite, filepath.Join(b.TempDir(), "db") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := newLLM(b, nil)
			url, who, client := "http://"+m.Addr().String(), "", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			if !c.direct {
				g := serving(b, m, func(config *Config) {
					c.set(config)
					config.Keys = []Key{keyOf("key", Limit{store.Tokens, 1 << 50, time.Hour}, Limit{store.Money, 1 << 52, 0})}
				})
				url, who, client = g.url, g.login("key", "u1"), g.client
			}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+c.path, strings.NewReader(c.body))
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+who)
				resp, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				resp.Body.Close()
			}
		})
	}
}
