package rest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/control/resource"
)

// TestToldAsJSON holds what is written by hand to encoding/json.
func TestToldAsJSON(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("aZ0-.:\"\\<é\n")))
	rapid.Check(t, func(t *rapid.T) {
		c := told{
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
	if got, err := (&told{Resource: json.RawMessage("{\n")}).appendJSON(nil); err == nil {
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
