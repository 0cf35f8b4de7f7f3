package bot

import (
	"encoding/json"

	"maps"
	"net/http"

	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/upstream"
)

// atVendors runs a gateway before a server of each dialect, whose model has the dialect's name.
func atVendors(t *testing.T, list map[upstream.Dialect]vendor, change func(*Config)) *bed {
	return serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys = []Key{keyOf("key")}
		c.Upstream.Upstreams, c.Upstream.Attempts, c.Upstream.Failures = nil, 1, 1000
		for _, d := range slices.Sorted(maps.Keys(list)) {
			u := modelOf(list[d].serve(t).Listener.Addr())
			u.Name, u.Dialect, u.Key, u.Models, u.Price.Cached = string(d), d, "secret", map[string]string{string(d): "own"}, new(int64)
			*u.Price.Cached = 10
			switch d {
			case upstream.Azure:
				u.URL, u.Query = u.URL+"/openai", map[string]string{"api-version": "2024-10-21"}
			case upstream.Gemini, upstream.Ollama:
				u.Drop = []string{"strict_tools"}
			}
			c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
		}
		if change != nil {
			change(c)
		}
	})
}

// usageAt has what a vendor reports: tokens of the prompt, cached, of the answer, and of reasoning. Ollama reports two.
func usageAt(d upstream.Dialect) []int {
	if d == upstream.Ollama {
		return []int{vendorPrompt, 0, vendorCompletion, 0}
	}
	return []int{vendorPrompt, vendorCached, vendorCompletion, vendorReasoning}
}

// wantAt has what a package's program gets from a vendor. What differs is what a vendor does not have, and what a
// package drops.
func wantAt(d upstream.Dialect, p clientPackage) object {
	node, isLangchain := p.command == "node", p.name == langchain.name
	weather := object{"city": "Paris", "degrees": 21}
	calls := []any{"I ask.", []any{"weather", object{"city": "Paris"}}, []any{"weather", object{"city": `Rome "south"`}}}
	after := `{"city":"Paris"} rain 0, {"city":"Rome \"south\""} rain 1`
	image := map[bool]string{true: "image of 70 bytes", false: "image/png of 70 bytes"}[d == upstream.Ollama]
	stops := []any{"length", "content_filter"}
	if d == upstream.Ollama { // which has no filter
		stops[1] = "stop"
	}

	part := func() object {
		return object{"text": "hello", "usage": usageAt(d), "calls": calls, "after": after + " proven", "image": image}
	}
	chat := func(streamed bool) object {
		o := part()
		o["finish"] = "stop"
		native := d == upstream.VLLM || d == upstream.Azure // whose requests and answers pass as they are
		if isLangchain {
			o["after"] = after // it drops all of the thinking
			if native {
				o["after"] = strings.ReplaceAll(after, ":", ": ")
			}
			return o
		}
		o["calls"] = append([]any{"tool_calls"}, calls...)
		o["schema"] = `{"city":"Paris","degrees":21}`
		o["thinking"] = []any{vendorThought, "hello"}
		switch {
		case d == upstream.Azure: // which shows none
			o["thinking"], o["after"] = []any{nil, "hello"}, after
		case node && streamed: // it keeps the last piece of a text that it does not know, but all of thinking_blocks
			o["thinking"] = []any{halves(vendorThought)[1], "hello"}
			if d == upstream.VLLM || d == upstream.Ollama { // without signatures, and so without thinking_blocks
				o["after"] = after
			}
		}
		return o
	}
	response := func() object {
		o := part()
		if isLangchain {
			o["finish"] = nil
			return o
		}
		o["status"], o["thinking"], o["length"] = "completed", []any{[]any{vendorThought}, "hello"}, []any{"incomplete", "max_output_tokens", "hel"}
		return o
	}
	status := func(status int, name string) []any {
		if isLangchain { // whose errors have names of their own
			return []any{status == http.StatusBadRequest, status, true}
		}
		return []any{name, status, true}
	}

	want := object{
		"whole": chat(false), "streamed": chat(true), "stops": stops, "broken": []any{"APIError", true},
		// The vendor's 401 is of the gateway's key. 529 is no status of OpenAI's.
		"errors": []any{status(400, "BadRequestError"), status(502, "InternalServerError"), status(429, "RateLimitError"), status(503, "InternalServerError")},
	}
	if !node {
		want["parsed"] = weather
	}
	if !node && !isLangchain {
		want["after_parsed"] = "hello"
	}
	if d == upstream.Azure {
		return want
	}
	if want["response"], want["response_streamed"] = response(), response(); isLangchain {
		return want
	}
	want["response_broken"], want["response_filtered"] = "response.failed", []any{"incomplete", "content_filter", "hel"}
	if d == upstream.Ollama {
		want["response_filtered"] = []any{"completed", nil, "hel"}
	}
	if !node {
		want["response_parsed"] = weather
	}
	return want
}

// TestClientsOfVendors: programs that others wrote for OpenAI get the answers of servers of all dialects: whole and
// streamed, with parallel calls of tools and their results, images, schemas, reasoning, usage, ends and errors.
func TestClientsOfVendors(t *testing.T) {
	list := vendors()
	b := atVendors(t, list, nil)
	dialects := slices.Sorted(maps.Keys(list))
	for _, p := range append(slices.Clone(packages), langchain) {
		t.Run(p.name, func(t *testing.T) {
			program := map[bool]string{false: "dialects", true: "dialects_langchain"}[p.name == langchain.name]
			args, want := []string{b.url + "/v1", secretOf("key")}, object{}
			for _, d := range dialects {
				args, want[string(d)] = append(args, string(d)), wantAt(d, p)
			}
			var got, wanted any
			if err := json.Unmarshal(p.run(t, program, args...), &got); err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(want)
			_ = json.Unmarshal(text, &wanted)
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
