package bot

import (
	"context"
	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"encoding/json"
	"fmt"
	"io"

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
			u.Name, u.Dialect, u.Key, u.Models, u.Price[0].Cached = string(d), d, "secret", map[string]string{string(d): "own"}, new(int64)
			*u.Price[0].Cached = 10
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
			compareJSON(t, p.run(t, program, args...), want)
		})
	}
}

// wantLiteLLM has what LiteLLM's SDK gets from a vendor, in OpenAI's form or in Anthropic's.
func wantLiteLLM(d upstream.Dialect, form string) object {
	isAnthropic, isOllama := form == "anthropic", d == upstream.Ollama
	chat := func(streamed bool) object {
		after := `{"city":"Paris"} rain 0, {"city":"Rome \"south\""} rain 1`
		switch {
		case isAnthropic && (d == upstream.VLLM || d == upstream.Azure): // which get the text of arguments, and not an object
			after = strings.ReplaceAll(after, ":", ": ")
		// It sends signatures of Anthropic's thinking back, and those of Gemini's calls unless they were streamed.
		case d == upstream.Anthropic, !isAnthropic && d != upstream.Azure && (d != upstream.Gemini || !streamed):
			after += " proven"
		}
		return object{
			"text": "hello", "finish": "stop", "usage": usageAt(d)[:3], "after": after,
			"calls": []any{"tool_calls", "I ask.", []any{"weather", object{"city": "Paris"}}, []any{"weather", object{"city": `Rome "south"`}}},
			"image": map[bool]string{true: "image of 70 bytes", false: "image/png of 70 bytes"}[isOllama],
		}
	}
	want := object{
		"whole": chat(false), "streamed": chat(true), "schema": object{"city": "Paris", "degrees": 21},
		"stops":  []any{"length", map[bool]string{true: "stop", false: "content_filter"}[isOllama]},
		"errors": []any{[]any{"BadRequestError", 400, true}, []any{"BadGatewayError", 502, true}, []any{"RateLimitError", 429, true}},
	}
	if isAnthropic && isOllama { // it asks for a schema by requiring a tool
		want["schema"] = []any{"BadRequestError", 400, false}
	}
	return want
}

// TestLiteLLM: LiteLLM's SDK gets the answers of servers of all dialects, in two forms, and embeddings.
func TestLiteLLM(t *testing.T) {
	list := vendors()
	b := atVendors(t, list, nil)
	passed, _ := atDocumented(t, nil)
	args, want := []string{b.url, secretOf("key"), passed.url}, object{"embedding": []any{[]any{0.0023064255, -0.009327292}, 8}}
	for _, d := range slices.Sorted(maps.Keys(list)) {
		args = append(args, string(d))
		for _, form := range []string{"openai", "anthropic"} {
			want[form+"/"+string(d)] = wantLiteLLM(d, form)
		}
	}
	compareJSON(t, litellm.run(t, "dialects_litellm", args...), want)
}

// TestGenAI: Google's client gets the answers of servers of all dialects, and those of its own pass as they are.
func TestGenAI(t *testing.T) {
	list := vendors()
	b := atVendors(t, list, nil)
	args, want := []string{b.url, secretOf("key")}, object{}
	for _, d := range slices.Sorted(maps.Keys(list)) {
		args = append(args, string(d))
		used, after, thought := usageAt(d), `{"city":"Paris"} rain 0, {"city":"Rome \"south\""} rain 1 proven`, vendorThought
		switch d {
		case upstream.Azure: // which shows no thinking
			thought, after = "", strings.TrimSuffix(after, " proven")
			fallthrough
		case upstream.VLLM: // which get the text of arguments
			after = strings.ReplaceAll(after, ":", ": ")
		}
		chat := object{
			"text": "hello", "finish": "STOP", "usage": []int{used[0], used[1], used[2] - used[3], used[3], used[0] + used[2]}, "thinking": []string{thought, "hello"},
			"calls": []any{"STOP", "I ask.", []any{"weather", object{"city": "Paris"}}, []any{"weather", object{"city": `Rome "south"`}}}, "after": after,
			"image":  map[bool]string{true: "image of 70 bytes", false: "image/png of 70 bytes"}[d == upstream.Ollama],
			"schema": object{"city": "Paris", "degrees": 21},
		}
		want[string(d)] = object{
			"whole": chat, "streamed": chat, "parsed": object{"city": "Paris", "degrees": 21}, "broken": []any{"ServerError", 502, "UNAVAILABLE", true},
			"stops":   []string{"MAX_TOKENS", map[bool]string{true: "STOP", false: "SAFETY"}[d == upstream.Ollama]},
			"counted": map[bool]int{true: 31, false: 12}[d == upstream.Gemini], // others' are estimated
			"errors": []any{
				[]any{"ClientError", 400, "INVALID_ARGUMENT", true}, []any{"ServerError", 502, "UNAVAILABLE", true},
				[]any{"ClientError", 429, "RESOURCE_EXHAUSTED", true}, []any{"ServerError", 503, "UNAVAILABLE", true},
			},
		}
	}
	compareJSON(t, genai.run(t, "dialects_genai", args...), want)
}

// compareJSON compares what a program has printed.
func compareJSON(t *testing.T, printed []byte, want object) {
	t.Helper()
	var got, wanted any
	if err := json.Unmarshal(printed, &got); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(want)
	_ = json.Unmarshal(text, &wanted)
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// eachVendor runs a test with a gateway before each vendor alone, which also answers its own chat.
func eachVendor(t *testing.T, hold func(context.Context), change func(*Config), test func(t *testing.T, d upstream.Dialect, b *bed)) {
	for d, v := range vendors() {
		t.Run(string(d), func(t *testing.T) {
			v.hold = hold
			test(t, d, atVendors(t, map[upstream.Dialect]vendor{d: v}, func(c *Config) {
				if c.Model = string(d); change != nil {
					change(c)
				}
			}))
		})
	}
}

// endpointsOf are requests of a text, by their paths. Azure's responses pass as they are, and are not here.
func endpointsOf(d upstream.Dialect, text, more string) map[string]string {
	list := map[string]string{"/v1/chat/completions": fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, d, text, more)}
	if d != upstream.Azure {
		list["/v1/responses"] = fmt.Sprintf(`{"model":%q,"input":%q%s}`, d, text, more)
	}
	return list
}

// TestVendorsAccounted: the ledger has the tokens that vendors report, whole and streamed, at their prices. Translated
// answers have a time and an ID.
func TestVendorsAccounted(t *testing.T) {
	eachVendor(t, nil, nil, func(t *testing.T, d upstream.Dialect, b *bed) {
		used, n := usageAt(d), 0
		money := int64(10*used[1] + 100*(used[0]-used[1]) + 1000*used[2])
		for _, more := range []string{"", `,"stream":true`} {
			for path, body := range endpointsOf(d, "think", more) {
				status, text, _ := b.ask(path, secretOf("key"), body)
				if n++; status != http.StatusOK || d != upstream.Azure && (strings.Contains(text, `"created":0`) || strings.Contains(text, `"created_at":0`) || strings.Contains(text, `"id":""`)) {
					t.Errorf("%s: %d %s", path, status, text)
				}
				e := b.ledger("key", n)[0]
				if e.Outcome != outcomeOK || e.Prompt != int64(used[0]) || e.Completion != int64(used[2]) || e.Estimated || e.Money != money || e.Stream != (more != "") {
					t.Errorf("%s: %+v, want %v, %d", path, e, used, money)
				}
			}
		}
	})
}

// TestVendorsLimited: a limit holds for answers of every vendor, which gets the bound that the gateway adds. Each answer
// uses 20 tokens; the third request has too few left.
func TestVendorsLimited(t *testing.T) {
	const bound = 15
	limit := func(c *Config) {
		c.Keys, c.ReplyTokens = []Key{keyOf(unique("key"), Limit{store.Tokens, 3*(vendorPrompt+vendorCompletion) - 10, 0})}, bound
	}
	eachVendor(t, nil, limit, func(t *testing.T, d upstream.Dialect, b *bed) {
		key := b.cfg.Keys[0].ID
		for i, want := range []int{200, 200, 429, 429} {
			status, text, _ := b.ask("/v1/chat/completions", secretOf(key), endpointsOf(d, "most", map[bool]string{true: `,"stream":true`}[i > 0])["/v1/chat/completions"])
			if b.settled(); status != want || i == 0 && !strings.Contains(text, fmt.Sprint("at most ", bound)) {
				t.Errorf("%d: %d %s", i, status, text)
			}
		}
	})
}

// TestVendorsLeft: a client leaves in the middle. The vendor's work is ended, and what it did is accounted.
func TestVendorsLeft(t *testing.T) {
	ended := make(chan struct{}, 1)
	hold := func(ctx context.Context) {
		<-ctx.Done()
		ended <- struct{}{}
	}
	eachVendor(t, hold, nil, func(t *testing.T, d upstream.Dialect, b *bed) {
		for path, body := range endpointsOf(d, "hello", `,"stream":true`) {
			ctx, leave := context.WithCancel(t.Context())
			resp, err := b.post(ctx, path, secretOf("key"), body)
			if err != nil {
				t.Fatal(err)
			}
			for in, said := openai.NewReader(resp.Body), ""; !strings.Contains(said, `"he"`); {
				f, err := in.Next()
				if err != nil {
					t.Fatal(err)
				}
				said += string(f.Data)
			}
			leave()
			resp.Body.Close()
			<-ended
		}
		n := len(endpointsOf(d, "", ""))
		until(t, "entries", func() bool {
			err := b.batch.Flush(t.Context())
			list, _ := b.archive.Entries(t.Context(), "key", 3)
			return err == nil && len(list) == n
		})
		for _, e := range b.ledger("key", n) {
			if e.Outcome != outcomeAborted || e.Prompt == 0 || e.Completion == 0 || e.Completion >= vendorCompletion || !e.Estimated || e.Money < 1000 {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestVendorsMasked: secrets reach no vendor, and no client of one, in the gateway's own chat, in completions and in
// responses, whole and streamed, however the vendor cuts them. Conversations go on in its form.
func TestVendorsMasked(t *testing.T) {
	mask := func(c *Config) { c.MaskIn, c.MaskOut = true, true }
	eachVendor(t, nil, mask, func(t *testing.T, d upstream.Dialect, b *bed) {
		token := b.login("key", "u1")
		for i, c := range [][2]string{{"think", "hello"}, {"echo mine is " + vendorSecret, "mine is [api-key]"}, {"secret", "it is [api-key] now"}} {
			r, _, text := b.say(token, "h", c[0])
			if r.Reply == nil || *r.Reply != c[1] || r.Turn.Turn != int64(i+1) || r.Turn.ContextTurns != i {
				t.Errorf("%s: %s", c[0], text)
			}
		}
		paths := endpointsOf(d, "secret", "")
		maps.Copy(paths, map[string]string{"/v1/bot/chat": `{"bot_id":"b","user_id":"u1","query":"secret"}`})
		for path, body := range paths {
			for _, more := range []string{"", `,"stream":true`} {
				_, text, _ := b.ask(path, secretOf("key"), strings.TrimSuffix(body, "}")+more+"}")
				said := text
				if more != "" {
					said = pieces(t, text)
				}
				if !strings.Contains(said, "it is [api-key] now") || strings.Contains(text, vendorSecret[:20]) {
					t.Errorf("%s: %s", path, text)
				}
			}
		}
	})
}

// pieces are the texts of a stream's events.
func pieces(t *testing.T, stream string) (text string) {
	for _, f := range frames(t, strings.NewReader(stream)) {
		var e struct {
			Text    string
			Delta   json.RawMessage
			Choices []struct{ Delta struct{ Content string } }
		}
		if f.data != "[DONE]" {
			if err := json.Unmarshal([]byte(f.data), &e); err != nil {
				t.Error(err)
			}
		}
		var delta string
		_ = json.Unmarshal(e.Delta, &delta) // of responses
		text += e.Text + delta
		for _, c := range e.Choices {
			text += c.Delta.Content
		}
	}
	return text
}

// TestVendorsResumed: a client of the gateway's own chat loses its connection in the middle of a vendor's stream, and
// reads on.
func TestVendorsResumed(t *testing.T) {
	held, proceed := make(chan struct{}), make(chan struct{})
	hold := func(context.Context) {
		held <- struct{}{}
		<-proceed
	}
	eachVendor(t, hold, nil, func(t *testing.T, _ upstream.Dialect, b *bed) {
		token := b.login("key", "u1")
		ctx, leave := context.WithCancel(t.Context())
		resp, err := b.post(ctx, "/v1/bot/chat", token, `{"bot_id":"b","history_id":"h","query":"hello","stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		answer, first := resp.Header.Get("X-Dyno-Id"), openai.NewReader(resp.Body)
		next(t, first) // start
		e, _ := next(t, first)
		<-held
		leave()
		resp.Body.Close()
		resp = b.resume(t.Context(), answer, token, e.id)
		proceed <- struct{}{}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := pieces(t, string(said)); !strings.Contains(e.data, `"he"`) || got != "llo" || !strings.Contains(string(said), `"state":"kept","turn":1`) || !strings.Contains(string(said), `"total_tokens":20`) {
			t.Errorf("%+v, then %s", e, said)
		}
		if e := b.ledger("key", 1)[0]; e.Completion != vendorCompletion || e.Estimated {
			t.Errorf("%+v", e)
		}
	})
}
