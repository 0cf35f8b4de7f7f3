package bot

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"dyno/services/bot/mask"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// What embeddings servers are asked, after the references "Create embeddings" of OpenAI and "Embeddings" of Google's v1beta, of
// 2026-11. Fields that these do not have are refused.
type (
	openaiEmbedding struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions int      `json:"dimensions"`
		Encoding   string   `json:"encoding_format"`
		User       string   `json:"user"`
	}
	geminiEmbedding struct {
		Model   string `json:"model"`
		Content struct {
			Role  string `json:"role"`
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"content"`
		Task       string `json:"taskType"`
		Title      string `json:"title"`
		Dimensions int    `json:"outputDimensionality"`
	}
)

// embedder stands in for a server of either form. A text's vector has its length, and as many more numbers as are asked for. A
// text may name what goes wrong.
func embedder(t *testing.T, key string) string {
	const used = 8
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ofOpenAI openaiEmbedding
		batch := struct {
			Requests []geminiEmbedding `json:"requests"`
		}{make([]geminiEmbedding, 1)}
		body, _ := io.ReadAll(r.Body)
		var err error
		texts, size, isOpenAI, isSingle := []string{}, 0, false, false
		switch r.URL.RequestURI() {
		case "/v1/embeddings":
			isOpenAI = true
			if err = strictly(body, &ofOpenAI); err == nil && ofOpenAI.Model != "own" {
				err = fmt.Errorf("model %s", ofOpenAI.Model)
			}
			texts, size = ofOpenAI.Input, ofOpenAI.Dimensions
		case "/v1/models/own:batchEmbedContents":
			err = strictly(body, &batch)
		case "/v1/models/own:embedContent":
			isSingle, err = true, strictly(body, &batch.Requests[0])
			batch.Requests[0].Model = "models/own" // the path has it
		default:
			err = fmt.Errorf("asked at %s", r.URL)
		}
		for _, q := range batch.Requests {
			if !isOpenAI && (q.Model != "models/own" || len(q.Content.Parts) != 1) {
				err = fmt.Errorf("%+v", q)
			} else if !isOpenAI {
				texts, size = append(texts, q.Content.Parts[0].Text), q.Dimensions
			}
		}
		if got := r.Header.Get("Authorization") + r.Header.Get("X-Goog-Api-Key"); err == nil && got != map[bool]string{true: "Bearer "}[isOpenAI]+key {
			err = fmt.Errorf("key %q", got)
		}
		if err != nil {
			t.Errorf("%v: %s", err, body)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		var list []any
		for _, text := range texts {
			vector := make([]float32, max(size, 1))
			vector[0] = float32(len(text)) + 0.1
			switch packed, _ := binary.Append(nil, binary.LittleEndian, vector); {
			case text == "refused" || text == "limited":
				status := map[string]int{"refused": 400, "limited": 429}[text]
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"error":{"code":%d,"message":"the vendor's reason","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]}}`, status)
				return
			case text == "few":
				continue
			case isOpenAI && ofOpenAI.Encoding == "base64":
				list = append(list, object{"object": "embedding", "index": len(list), "embedding": base64.StdEncoding.EncodeToString(packed)})
			case isOpenAI:
				list = append(list, object{"object": "embedding", "index": len(list), "embedding": vector})
			default:
				list = append(list, object{"values": vector})
			}
		}
		answer := object{"embeddings": list, "usageMetadata": object{"promptTokenCount": used}}
		switch {
		case isOpenAI:
			answer = object{"object": "list", "data": list, "model": "own", "usage": object{"prompt_tokens": used, "total_tokens": used}}
		case isSingle:
			answer = object{"embedding": list[0], "usageMetadata": object{"promptTokenCount": used}}
		}
		if slices.Contains(texts, "untold") {
			delete(answer, "usage")
			delete(answer, "usageMetadata")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// atEmbedders runs a gateway before such a server of each dialect that has embeddings, whose model has the dialect's name.
func atEmbedders(t *testing.T, change func(*Config)) *bed {
	url := embedder(t, "secret")
	return serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.Upstream.Upstreams, c.Upstream.Attempts, c.Upstream.Failures = []Key{keyOf("key")}, nil, 1, 1000
		for _, d := range []upstream.Dialect{upstream.OpenAI, upstream.Gemini} {
			u := upstream.DefaultUpstream()
			u.Name, u.Dialect, u.Key, u.URL, u.Models, u.Price = string(d), d, "secret", url, map[string]string{string(d): "own"}, upstream.Prices{{Prompt: 100}}
			c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
		}
		if change != nil {
			change(c)
		}
	})
}

// embeddingPaths are the ways to ask for the embedding of a text, by the endpoint's name in the ledger.
func embeddingPaths(model, text, more string) map[string][2]string {
	content := fmt.Sprintf(`"content":{"parts":[{"text":%q}]}%s`, text, more)
	return map[string][2]string{
		"embeddings":           {"/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":[%q]%s}`, model, text, more)},
		"embed_content":        {"/v1beta/models/" + model + ":embedContent", "{" + content + "}"},
		"batch_embed_contents": {"/v1beta/models/" + model + ":batchEmbedContents", fmt.Sprintf(`{"requests":[{"model":"models/%s",%s}]}`, model, content)},
	}
}

// TestEmbeddings: requests of either form get the vectors of servers of either form, are accounted by what the server says of
// its tokens or else by an estimate, and fail in the client's form.
func TestEmbeddings(t *testing.T) {
	b := atEmbedders(t, nil)
	answers := map[string]string{
		"embeddings":           `{"data":[{"embedding":[6.1],"index":0,"object":"embedding"}],"model":"MODEL","object":"list","usage":{"prompt_tokens":8,"total_tokens":8}}`,
		"embed_content":        `{"embedding":{"values":[6.1]},"usageMetadata":{"promptTokenCount":8}}`,
		"batch_embed_contents": `{"embeddings":[{"values":[6.1]}],"usageMetadata":{"promptTokenCount":8}}`,
	}
	n := 0
	for _, model := range []string{"openai", "gemini"} {
		for name, answer := range answers {
			isOpenAI := name == "embeddings"
			isNative := isOpenAI == (model == "openai")
			answer = strings.Replace(answer, "MODEL", map[bool]string{true: "own", false: model}[isNative], 1)
			for text, want := range map[string]struct {
				status int
				says   string
				entry  store.Entry
			}{
				"told:)":  {200, answer, store.Entry{Outcome: outcomeOK, Prompt: 8, Money: 800}},
				"untold":  {200, "6.1", store.Entry{Outcome: outcomeOK, Prompt: 2, Estimated: true, Money: 200}},
				"refused": {400, "the vendor's reason", store.Entry{Outcome: outcomeRefused}},
				"limited": {429, "the vendor's reason", store.Entry{Outcome: outcomeFailed}},
			} {
				path := embeddingPaths(model, text, "")[name]
				status, said, head := b.ask(path[0], secretOf("key"), path[1])
				if status != want.status || !strings.Contains(said, want.says) || status == 429 && head.Get("Retry-After") != "12" {
					t.Errorf("%s of %s, %s: %d %s %v", name, model, text, status, said, head)
				}
				if isGoogles := strings.Contains(said, `"code":`+fmt.Sprint(status)); status != 200 && !isNative && isGoogles == isOpenAI {
					t.Errorf("%s of %s, %s: %s", name, model, text, said)
				}
				if head.Get("Content-Type") != "application/json" || status == 200 && head.Get("X-Dyno-Upstream") != model {
					t.Errorf("%v", head)
				}
				n++
				e := b.ledger("key", n)[0]
				got := store.Entry{Outcome: e.Outcome, Prompt: e.Prompt, Estimated: e.Estimated, Money: e.Money}
				if isOpenAI && want.entry.Estimated { // with the brackets of its list
					want.entry.Prompt, want.entry.Money = 3, 300
				}
				if got != want.entry || e.Endpoint != name {
					t.Errorf("%s of %s, %s: %+v", name, model, text, e)
				}
				if text == "limited" {
					b.live.Load().payers["key"].pool.Reset("", []*upstream.Tenant{b.live.Load().payers["key"].tenant})
				}
			}
		}
	}
}

// TestEmbeddingsTranslated: what a server's form does not have is refused, or dropped where the deployment says so. An answer
// without all vectors is none, and its tokens are paid. The query of Google's calls goes nowhere.
func TestEmbeddingsTranslated(t *testing.T) {
	b := atEmbedders(t, func(c *Config) {
		for _, u := range slices.Clone(c.Upstream.Upstreams) {
			u.Name += "-drops"
			u.Models, u.Drop = map[string]string{u.Name: "own"}, []string{"all"}
			c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
		}
	})
	for _, c := range []struct {
		name, model, more string
		status            int
		says, dropped     string
	}{
		{"embeddings", "gemini", `,"user":"u"`, 400, `"param":"user"`, ""},
		{"embeddings", "gemini-drops", `,"user":"u","dimensions":2,"encoding_format":"base64"`, 200, `"MzOjQAAAAAA="`, "user"},
		{"embeddings", "gemini", `,"encoding_format":"int8"`, 400, `"param":"encoding_format"`, ""},
		{"embeddings", "openai", `,"user":"u"`, 200, "5.1", ""},
		{"embed_content", "openai", `,"taskType":"CLUSTERING"`, 400, `taskType: openai cannot be asked for a field that only this form has`, ""},
		{"embed_content", "openai-drops", `,"taskType":"CLUSTERING","outputDimensionality":2`, 200, `{"embedding":{"values":[5.1,0]}`, "taskType"},
		{"batch_embed_contents", "openai-drops", `,"taskType":"CLUSTERING"`, 200, `{"embeddings":[{"values":[5.1]}]`, "requests[0].taskType"},
		{"embed_content", "gemini", `,"taskType":"CLUSTERING","title":"t"`, 200, "5.1", ""},
		{"batch_embed_contents", "openai", `,"model":"models/other"`, 400, "is there twice", ""},
	} {
		path := embeddingPaths(c.model, "hello", c.more)[c.name]
		query := map[bool]string{true: "?key=x"}[c.name != "embeddings"]
		status, said, head := b.ask(path[0]+query, secretOf("key"), path[1])
		if status != c.status || !strings.Contains(said, c.says) || head.Get("X-Dyno-Dropped") != c.dropped {
			t.Errorf("%+v: %d %s %v", c, status, said, head)
		}
	}
	n := len(b.ledger("key", 8)) // the last of these asked no server
	for i, model := range []string{"openai", "gemini"} {
		for name, path := range embeddingPaths(model, "few", "") {
			if name == "embed_content" || (name == "embeddings") == (model == "openai") {
				continue
			}
			if status, said, _ := b.ask(path[0], secretOf("key"), path[1]); status != 502 || !strings.Contains(said, "its answer is not in a known form") {
				t.Errorf("%s of %s: %d %s", name, model, status, said)
			}
			if e := b.ledger("key", n+i+1)[0]; e.Outcome != outcomeFailed || e.Prompt != 8 || e.Estimated {
				t.Errorf("%+v", e)
			}
		}
	}
}

// TestEmbeddingsGuarded: limits hold, and secrets do not reach a server, in either form.
func TestEmbeddingsGuarded(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	b := atEmbedders(t, func(c *Config) {
		c.MaskIn, c.MaskOut, c.MaskRules = true, true, mask.Defaults()
		c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 1100}), keyOf("other")}
		c.Keys[1].Models = []string{"openai"}
	})
	for _, model := range []string{"openai", "gemini"} {
		for name, path := range embeddingPaths(model, secret, "") {
			status, said, _ := b.ask(path[0], secretOf("key"), path[1])
			if masked := fmt.Sprint(len("[api-key]"), ".1"); status != 200 || !strings.Contains(said, masked) {
				t.Errorf("%s of %s: %d %s, want %s", name, model, status, said, masked)
			}
			b.settled()
		}
		for name, path := range embeddingPaths(model, strings.Repeat("long ", 1000), "") {
			if status, said, _ := b.ask(path[0], secretOf("key"), path[1]); status != 400 || !strings.Contains(said, "this request may use 12") {
				t.Errorf("%s of %s: %d %s", name, model, status, said)
			}
		}
	}
	for name, path := range embeddingPaths("gemini", "hello", "") {
		if status, said, _ := b.ask(path[0], secretOf("other"), path[1]); status != 404 {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
}

// TestEmbeddingsClients: clients of OpenAI and of Google get the vectors of servers of both forms, and understand errors.
func TestEmbeddingsClients(t *testing.T) {
	vectors := object{"several": [][]float64{{1.1, 0}, {4.1, 0}}, "tokens": 8, "one": []float64{5.1}}
	with := func(more object) object { maps.Copy(more, vectors); return more }
	for _, p := range packages {
		t.Run(p.name, func(t *testing.T) {
			of := func(user any) object {
				return with(object{"refused": []any{"BadRequestError", 400}, "limited": []any{"RateLimitError", 429}, "user": user})
			}
			b := atEmbedders(t, nil)
			compareJSON(t, p.run(t, "embeddings", b.url+"/v1", secretOf("key"), "openai", "gemini"), object{"openai": of(nil), "gemini": of([]any{"BadRequestError", 400})})
		})
	}
	t.Run(genai.name, func(t *testing.T) {
		of := func(task any) object {
			return with(object{"refused": []any{"ClientError", 400, "INVALID_ARGUMENT"}, "limited": []any{"ClientError", 429, "RESOURCE_EXHAUSTED"}, "task": task})
		}
		refusal := []any{"ClientError", 400, "INVALID_ARGUMENT", "requests[0].taskType: upstream openai: requests[0].taskType: openai cannot be asked for a field that only this form has"}
		b := atEmbedders(t, nil)
		compareJSON(t, genai.run(t, "embeddings_genai", b.url, secretOf("key"), "openai", "gemini"), object{"openai": of(refusal), "gemini": of(nil)})
	})
}
