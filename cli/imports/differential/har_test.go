package differential

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

var har = tool{
	format: "har", inOrder: true,
	general: func(i draft.Item) bool { return strings.HasPrefix(i.Why, "they began before others") },
}

func TestHAR(t *testing.T) { har.compareFiles(t) }

func TestHARGenerated(t *testing.T) {
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	har.compareKnown(t, "recording.har", func(r *rand.Rand) (content string, known []request) {
		var entries []any
		for range 1 + r.IntN(4) {
			sent := request{method: choose(r, "GET", "GET", "POST", "PUT", "DELETE", "OPTIONS"), target: "/" + choose(r, word(r), "a%20b", "a/../b", "{x}", "@f", "%7B%7Bx%7D%7D")}
			query := []pair{}
			if r.IntN(2) == 0 {
				sent.target += "?q=" + choose(r, "a%20b", "a+b", "@f", "%C3%BC", "[1]")
				query = append(query, pair{"q", "as the URL has it"})
			}
			protocol, headers := "HTTP/1.1", []pair{}
			if r.IntN(2) == 0 {
				protocol = "h2"
				headers = append(headers, pair{":method", sent.method}, pair{":authority", written}, pair{":path", sent.target}, pair{":scheme", "http"})
			}
			names := []string{"X-A", "x-b", "Accept", "User-Agent", "Cookie", "Authorization", "Referer", "x-api-key"}
			for _, n := range r.Perm(len(names))[:r.IntN(4)] {
				value := choose(r, word(r), "a, b", "@file", "{{ a }}", "<x>", "a:b", "a=b; c=d", "Bearer x", "")
				if names[n] == "Cookie" && value == "" { // which no browser sends
					value = "a=b"
				}
				headers = append(headers, pair{names[n], value})
				sent.header = append(sent.header, strings.ToLower(names[n])+": "+value)
			}
			of := map[string]any{"method": sent.method, "url": "http://" + written + sent.target, "httpVersion": protocol, "queryString": query, "cookies": []pair{}, "bodySize": -1}
			if sent.method == "POST" || sent.method == "PUT" {
				kind, text := "text/plain", choose(r, "", "@f", `{"a": "b"}`, "{{ x }}", "ü", "a\r\nb", "a=b&c=%40d")
				data := map[string]any{"mimeType": kind, "text": text}
				sent.body = []byte(text)
				switch r.IntN(4) {
				case 0:
					sent.body = []byte("\x00\xff" + text)
					data["text"], data["encoding"] = base64.StdEncoding.EncodeToString(sent.body), "base64"
				case 1:
					if text != "" {
						data["params"] = []pair{{"a", "as the text has it"}}
					}
				}
				headers = append(headers, pair{"Content-Type", kind})
				sent.header = append(sent.header, "content-type: "+kind)
				of["postData"] = data
			}
			of["headers"] = headers
			known = append(known, sent)
			entries = append(entries, map[string]any{
				"_resourceType": "fetch", "startedDateTime": "2026-03-29T03:00:00.000Z", "time": 1, "request": of,
				"response": map[string]any{"status": 200, "content": map[string]any{"encoding": "base64", "text": "AA=="}},
			})
		}
		text, err := json.MarshalIndent(map[string]any{"log": map[string]any{"version": "1.2", "entries": entries}}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return choose(r, "", "\ufeff") + string(text), known
	})
}
