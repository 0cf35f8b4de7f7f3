package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/control/resource"
)

// TestEventsAsJSON holds what is written by hand to encoding/json.
func TestEventsAsJSON(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("aZ0-.:\"\\<é\n")))
	rapid.Check(t, func(t *rapid.T) {
		c := changeEvent{
			Type: rapid.SampledFrom([]string{"put", "remove"}).Draw(t, "type"),
			Ref: resource.Ref{
				Kind:      rapid.SampledFrom([]resource.Kind{resource.Policies, resource.Configs, resource.Instances}).Draw(t, "kind"),
				Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"), ID: text.Draw(t, "id"),
			},
			Version: rapid.Int64().Draw(t, "version"), Revision: rapid.Int64().Draw(t, "revision"),
			Released: rapid.SampledFrom([]*bool{nil, new(bool), new(true)}).Draw(t, "released"),
			Resource: json.RawMessage(rapid.SampledFrom([]string{"", "{}", `{"a":"b c"}`, "{\n\"a\":\r\n[1]}"}).Draw(t, "resource")),
		}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.appendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Errorf("%s, %v: want %s", got, err, want)
		}
	})
	if got, err := (&changeEvent{Resource: json.RawMessage("{\n")}).appendJSON(nil); err == nil {
		t.Errorf("%s is no JSON", got)
	}
}

// TestParameter holds the parameters that are read without a map to net/url.
func TestParameter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &request{Request: &http.Request{URL: &url.URL{RawQuery: rapid.StringMatching(`([ab]{0,2}(=[ab=%+;2]{0,3})?&{0,2}){0,4}`).Draw(t, "query")}}}
		name := rapid.SampledFrom([]string{"a", "b", "ab", "aa"}).Draw(t, "name")
		if got, want := q.parameter(name), q.URL.Query().Get(name); got != want {
			t.Errorf("%q of %q is %q, want %q", name, q.URL.RawQuery, got, want)
		}
	})
}

// A gauge is an answer whose writes are measured.
type gauge struct {
	header       http.Header
	largest, all int
	wrote        func(last []byte)
}

func (g *gauge) Header() http.Header { return g.header }
func (g *gauge) WriteHeader(int)     {}
func (g *gauge) Flush()              {}

func (g *gauge) Write(p []byte) (int, error) {
	g.largest, g.all = max(g.largest, len(p)), g.all+len(p)
	g.wrote(p)
	return len(p), nil
}

// TestParts: many large documents are written in parts, each of which has its time.
func TestParts(t *testing.T) {
	b := newBed(t, nil)
	const n, size = 8, 200 << 10
	content := strings.Repeat("x", size)
	for i := range n {
		b.want(201, "", "POST", "/v1/configs", fmt.Sprintf(`{"name":"c%d","content":%q}`, i, content))
	}
	b.want(200, "", "GET", "/v1/configs/c0", "") // the replica knows all
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := &gauge{header: http.Header{}}
	g.wrote = func(last []byte) {
		if bytes.Contains(last, []byte("event: synced")) {
			cancel()
		}
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/v1/watch?kind=config", nil)
	r.Header.Set("Accept", "text/event-stream")
	b.api.ServeHTTP(g, r)
	if g.all < n*size || g.largest > partBytes+size+1000 {
		t.Errorf("%d bytes, and %d of them at once: want %d, and a document more than %d at most", g.all, g.largest, n*size, partBytes)
	}
}
