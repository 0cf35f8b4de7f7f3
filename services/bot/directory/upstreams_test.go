package directory

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"dyno/services/bot/store/memory"
)

// FuzzSettings: whatever a client sends as a provider or a deployment, what is made of it is read again as the same, is valid
// with the others, and does not show a key.
func FuzzSettings(f *testing.F) {
	for _, body := range []string{
		`{"id":"p","url":"https://example.com/v1","key":"hidden-key","headers":{"A":"b: c"},"query":{"x":"y"},"stream_options":false}`,
		`{"id":"d","provider":"q","model":"m*","names":["a*"],"price":{"prompt":1,"cached":0},"weight":2,"idle_timeout":"1m30s","drop":["all"]}`,
		`{"provider":"q","model":"\u2028#'\"","max_tokens":1e3,"first_byte_timeout":5}`, `{"id":"<<","url":"x"}`, `{"id":"p","key":null,"url":"&a"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		d := New(memory.NewArchive(memory.DefaultBounds()), func(context.Context, string, *Access) error { return nil })
		d.Declare(nil, managed())
		if _, _, err := d.Create(t.Context(), Providers, []byte(`{"id":"q","url":"https://example.com/v1"}`), If{}); err != nil {
			t.Fatal(err)
		}
		for _, k := range []Kind{Providers, Deployments} {
			made, _, err := d.Create(t.Context(), k, []byte(body), If{})
			if err != nil {
				continue
			}
			if _, err := d.Upstreams("", "", nil); err != nil {
				t.Errorf("%s is not valid: %v", body, err)
			}
			again, err := d.Patch(t.Context(), k, made.ID, []byte(text(made.Settings)), If{})
			if err != nil || text(again.Settings) != text(made.Settings) {
				t.Errorf("%s is read again as %s: %v", text(made), text(again), err)
			}
			var sent map[string]any
			_ = json.Unmarshal([]byte(body), &sent)
			audits, _ := d.Audits(t.Context(), 1<<60, 10)
			if key, _ := sent["key"].(string); len(key) > 8 && !strings.Contains(strings.Replace(body, key, "", 1), key) {
				for _, shown := range []string{text(made), text(again), audits[0].After, audits[0].Before, audits[1].After} {
					if strings.Contains(shown, key) {
						t.Errorf("the key is shown: %s", shown)
					}
				}
			}
		}
	})
}
