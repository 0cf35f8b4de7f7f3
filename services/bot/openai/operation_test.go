package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func operation(name string) *Operation {
	for _, o := range Operations {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// A call's estimate bounds what it reserves.
func TestCallEstimate(t *testing.T) {
	for _, c := range []struct {
		operation, body string
		want            Usage
	}{
		{"completions", `{"model":"m","prompt":"12345678"}`, Usage{Prompt: 3, Completion: 16}},
		{"completions", `{"model":"m","prompt":["1234","5678"],"max_tokens":10,"n":2,"best_of":3}`, Usage{Prompt: 4, Completion: 60}},
		{"completions", `{"model":"m","prompt":[1,2,3],"max_tokens":10}`, Usage{Prompt: 2, Completion: 10}},
		{"completions", `{"model":"m","prompt":[[1,2],[3]],"max_tokens":10}`, Usage{Prompt: 3, Completion: 20}},
		{"completions", `{"model":"m","max_tokens":0,"n":null}`, Usage{}},
		{"embeddings", `{"model":"m","input":["1234567890"],"max_tokens":10}`, Usage{Prompt: 4}},
		{"embed_content", `{"content":{"role":"user","parts":[{"text":"12345678"}]}}`, Usage{Prompt: 3}},
		{"batch_embed_contents", `{"requests":[{"model":"models/m","content":{"parts":[{"text":"12345678"}]},"taskType":"CLUSTERING"},{"content":{"parts":[{"text":"1234"},{"text":"1234"}]}}]}`, Usage{Prompt: 7}},
		{"rerank", `{"model":"m","query":"1234","documents":["12","34",{"text":"5"}]}`, Usage{Prompt: 8, Units: 3}},
		{"images", `{"model":"m","prompt":"1234"}`, Usage{Prompt: 2, Units: 1}},
		{"images", `{"model":"m","prompt":"1234","n":4}`, Usage{Prompt: 2, Units: 4}},
		{"speech", `{"model":"m","input":"天é\u00e9\n"}`, Usage{Units: 4}},
	} {
		q, err := Standard().ParseCall(operation(c.operation), "m", []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if diff := cmp.Diff(c.want, q.Estimate); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.body, diff)
		}
	}
}

// A meter finds the usage wherever servers write it, however the answer is cut into pieces.
func TestMeter(t *testing.T) {
	long := strings.Repeat("0.123456789,", 4000)
	for _, c := range []struct {
		operation, body, answer string
		want                    Usage
	}{
		{"embeddings", `{"input":"12345678"}`, `{"data":[` + long + `0],"usage":{"prompt_tokens":8,"total_tokens":8}}`, Usage{Prompt: 8}},
		{"embeddings", `{"input":"12345678"}`, `{"usage":{"total_tokens":9},"data":[` + long + `0]}`, Usage{Prompt: 9}},
		{"embeddings", `{"input":"12345678"}`, `{"data":[` + long + `0]}`, Usage{Prompt: 3, Estimated: true}},
		{"embeddings", `{"input":"12345678"}`, `{"embeddings":[{"values":[` + long + `0]}],"usageMetadata":{"promptTokenCount":5,"promptTokenDetails":[{"modality":"TEXT","tokenCount":5}]}}`, Usage{Prompt: 5}},
		{"embed_content", `{"content":{"parts":[{"text":"12345678"}]}}`, `{"embedding":{"values":[` + long + `0]}}`, Usage{Prompt: 3, Estimated: true}},
		{"completions", `{"prompt":"1234","max_tokens":9}`, `{"choices":[{"text":"\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, Usage{Prompt: 5, Completion: 7}},
		{"completions", `{"prompt":"1234","max_tokens":9}`, strings.Repeat("a", 12), Usage{Prompt: 2, Completion: 3, Estimated: true}},
		{"completions", `{"prompt":"1234","max_tokens":9}`, strings.Repeat("a", 120), Usage{Prompt: 2, Completion: 9, Estimated: true}},
		{"completions", `{"prompt":"1234","stream":true}`, "data: {\"text\":\"a\",\"usage\":null}\n\ndata: {}\n\n", Usage{Prompt: 2, Completion: 2, Estimated: true}},
		{"completions", `{"prompt":"1234","stream":true}`, "data: {\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":6,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\ndata: {\"usage\":null}\n\ndata: [DONE]\n\n", Usage{Prompt: 4, Completion: 6, Cached: 3}},
		{"rerank", `{"query":"q","documents":["a","b","c"]}`, `{"results":[],"meta":{"billed_units":{"search_units":1}}}`, Usage{Prompt: 5, Units: 1, Estimated: true}},
		{"rerank", `{"query":"q","documents":["a","b","c"]}`, `{"results":[],"usage":{"total_tokens":-1}}`, Usage{Prompt: 5, Units: 3, Estimated: true}},
		{"images", `{"prompt":"1234","n":2}`, `{"data":[{"b64_json":"` + long + `"}],"usage":{"input_tokens":50,"output_tokens":60,"total_tokens":110}}`, Usage{Prompt: 50, Completion: 60, Units: 2}},
		{"speech", `{"input":"1234"}`, strings.Repeat("\x00\xff\n\n", 9000), Usage{Units: 4, Estimated: true}},
	} {
		q, err := Standard().ParseCall(operation(c.operation), "m", []byte(`{"model":"m",`+c.body[1:]))
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range []int{1, 7, 4096, 1 << 20} {
			var m Meter
			for rest := []byte(c.answer); len(rest) > 0; {
				n, _ := m.Write(rest[:min(piece, len(rest))])
				rest = rest[n:]
			}
			if diff := cmp.Diff(c.want, m.Usage(q)); diff != "" {
				t.Errorf("%.60s in pieces of %d: -want +got:\n%s", c.answer, piece, diff)
			}
			if len(m.head) > metered || len(m.tail) > metered {
				t.Errorf("%d and %d bytes are kept", len(m.head), len(m.tail))
			}
		}
	}
}

// A call that is accepted is JSON for the upstream, with the same members, and reserves no impossible amount.
func FuzzParseCall(f *testing.F) {
	f.Add(`{"model":"m","prompt":["a"],"n":2,"max_tokens":9}`, `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	f.Add(`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},null]}`, `{"usageMetadata":{"promptTokenCount":1}}`)
	f.Add(`{"model":"m","input":"天","documents":[{}],"stream":true}`, "data: {\"usage\":{\"total_tokens\":1e3}}\n\n")
	f.Fuzz(func(t *testing.T, body, answer string) {
		for _, o := range Operations {
			q, err := Standard().ParseCall(o, map[bool]string{true: "m"}[o.HasModel()], []byte(body))
			if err != nil {
				continue
			}
			var sent, came map[string]json.RawMessage
			if err := json.Unmarshal(q.Body("own"), &sent); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(body), &came); err != nil || len(sent) != len(came) || string(sent["model"]) != `"own"` && !o.HasModel() {
				t.Fatalf("%s of %s", sent, body)
			}
			var m Meter
			_, _ = m.Write([]byte(answer))
			for _, u := range []Usage{q.Estimate, m.Usage(q)} {
				if u.Prompt < 0 || u.Completion < 0 || u.Units < 0 || u.Total() > 2*maxCount {
					t.Fatalf("%+v", u)
				}
			}
		}
	})
}

// The model of the Gemini API is in the path. The body says it again, or nothing: an upstream's name is put in its places, and
// all else keeps its bytes.
func TestModelInPath(t *testing.T) {
	for _, c := range []struct{ operation, body, want string }{
		{"embed_content", `{ "model":"models/m","content":{"parts":[{"text":"\"model\":<1>"}],"role":"model"}}`, `{ "model":"models/own","content":{"parts":[{"text":"\"model\":<1>"}],"role":"model"}}`},
		{"embed_content", `{"content":{}}`, `{"content":{}}`},
		{"batch_embed_contents", `{"requests":[{"model": "models/m"},{"model":"m"},{}]}`, `{"requests":[{"model": "models/own"},{"model":"models/own"},{}]}`},
		{"batch_embed_contents", `{"requests":[{"model":"models/m"},{"model":"models/other"}]}`, "model: want that of the path, models/m"},
		{"batch_embed_contents", `{"requests":[{"model":["m"]}]}`, "model: want that of the path, models/m"},
		{"embed_content", `{"content":{},"content":{}}`, `body: "content": is there twice`},
		{"embed_content", `[]`, "body: want a JSON object"},
	} {
		got := ""
		if q, err := Standard().ParseCall(operation(c.operation), "m", []byte(c.body)); err != nil {
			got = err.Error()
		} else {
			got = string(q.Body("own"))
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	if _, err := Standard().ParseCall(operation("embed_content"), "", []byte(`{"content":{}}`)); err == nil {
		t.Error("a call of no model")
	}
}
