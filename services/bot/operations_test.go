package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// documented answers as OpenAI's reference of its API shows it (platform.openai.com/docs/api-reference, November 2026), and
// rerank as vLLM's (docs.vllm.ai, "Online serving", the same month). It keeps what it was asked last.
type documented struct {
	t     testing.TB
	asked chan asked
}

type asked struct {
	request string // method and URL
	kind    string // Content-Type
	body    []byte
}

// What it answers, by the path below /v1.
var documentedAnswers = map[string]string{
	"/embeddings":         `{"object":"list","data":[{"object":"embedding","embedding":[0.0023064255,-0.009327292],"index":0}],"model":"own-1","usage":{"prompt_tokens":8,"total_tokens":8}}`,
	"/moderations":        `{"id":"modr-1","model":"own-1","results":[{"flagged":false,"categories":{"harassment":false},"category_scores":{"harassment":0.1}}]}`,
	"/completions":        `{"id":"cmpl-1","object":"text_completion","created":1589478378,"model":"own-1","choices":[{"text":"This is a test","index":0,"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`,
	"/rerank":             `{"id":"rerank-1","model":"own-1","usage":{"total_tokens":56},"results":[{"index":1,"document":{"text":"b"},"relevance_score":0.99},{"index":0,"document":{"text":"a"},"relevance_score":0.03}]}`,
	"/images/generations": `{"created":1713833628,"data":[{"b64_json":"aaaa"},{"b64_json":"bbbb"}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}`,
}

func (d *documented) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway has left
	}
	d.asked <- asked{r.Method + " " + r.URL.String(), r.Header.Get("Content-Type"), body}
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	switch answer, known := documentedAnswers[path]; {
	case strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data"):
		d.form(w, r, path, body)
	case path == "/audio/speech":
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = w.Write(bytes.Repeat([]byte("\xff\xfb"), 100_000))
	case bytes.Contains(body, []byte(`"stream":true`)):
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"This", " is", " a"} {
			fmt.Fprintf(w, "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{\"text\":%q,\"index\":0}]}\n\n", word)
		}
		if bytes.Contains(body, []byte("include_usage")) {
			_, _ = io.WriteString(w, "data: {\"id\":\"cmpl-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}\n\n")
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	case known:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	default:
		http.NotFound(w, r)
	}
}

// atDocumented runs a gateway in front of such a server.
func atDocumented(t *testing.T, change func(*Config)) (*bed, *documented) {
	d := &documented{t, make(chan asked, 16)}
	return atHandler(t, d.ServeHTTP, func(c *Config) {
		c.Keys = []Key{keyOf("key")}
		u := &c.Upstream.Upstreams[0]
		u.Models = map[string]string{"dyno-1": "own-1"}
		u.Price[0].Unit, u.Price[0].Request = 1_000_000, 7
		if change != nil {
			change(c)
		}
	}), d
}

// An answer passes as it came, and the ledger has what it used.
func TestOperations(t *testing.T) {
	b, d := atDocumented(t, nil)
	for i, c := range []struct {
		path, body, want string // of the answer; "" is the documented one
		entry            store.Entry
	}{
		{"/embeddings", `{"input":"The food was delicious","model":"dyno-1","unknown":{"a":1e400}}`, "", store.Entry{Endpoint: "embeddings", Prompt: 8, Money: 807}},
		{"/moderations", `{"input":"abcdefgh","model":"dyno-1"}`, "", store.Entry{Endpoint: "moderations", Prompt: 3, Estimated: true, Money: 307}},
		{"/completions", `{"prompt":"Say this","model":"dyno-1","max_tokens":7}`, "", store.Entry{Endpoint: "completions", Prompt: 5, Completion: 7, Money: 7507}},
		{"/rerank", `{"query":"q","documents":["a","b"],"model":"dyno-1"}`, "", store.Entry{Endpoint: "rerank", Prompt: 56, Unit: "documents", Units: 2, Money: 2005607}},
		{"/images/generations", `{"prompt":"an otter","n":2,"model":"dyno-1"}`, "", store.Entry{Endpoint: "images", Prompt: 50, Completion: 50, Kinds: `{"prompt_image":40}`, Unit: "images", Units: 2, Money: 2055007}},
		{"/audio/speech", `{"input":"héllo","voice":"alloy","model":"dyno-1"}`, strings.Repeat("\xff\xfb", 100_000), store.Entry{Endpoint: "speech", Unit: "characters", Units: 5, Estimated: true, Money: 5000007}},
	} {
		t.Run(c.path, func(t *testing.T) {
			status, text, head := b.ask("/v1"+c.path+"?a=b", secretOf("key"), c.body)
			if c.want == "" {
				c.want = documentedAnswers[c.path]
			}
			if status != http.StatusOK || text != c.want || head.Get("X-Dyno-Upstream") != "up" {
				t.Errorf("%d %.500q %v", status, text, head)
			}
			got := <-d.asked
			if got.request != "POST /v1"+c.path+"?a=b" || got.kind != "application/json" {
				t.Errorf("asked: %v", got)
			}
			var sent, want map[string]json.RawMessage
			if err := json.Unmarshal(got.body, &sent); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(strings.Replace(c.body, "dyno-1", "own-1", 1)), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Errorf("-want +sent:\n%s", diff)
			}
			e := b.ledger("key", i+1)[0]
			c.entry.Key, c.entry.Model, c.entry.Upstream, c.entry.Outcome, c.entry.Attempts = "key", "dyno-1", "up", outcomeOK, 1
			b.recompute(e)
			e.ID, e.At, e.Queue, e.FirstByte, e.Took, e.Price = "", time.Time{}, 0, 0, 0, ""
			if diff := cmp.Diff(c.entry, e); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Streams pass event by event. Without a usage, the events are counted.
func TestOperationStreams(t *testing.T) {
	b, d := atDocumented(t, nil)
	for i, c := range []struct {
		body       string
		prompt     int64
		completion int64
		estimated  bool
	}{
		{`{"prompt":"Say this","model":"dyno-1","stream":true,"stream_options":{"include_usage":true}}`, 5, 3, false},
		{`{"prompt":"Say this","model":"dyno-1","stream":true}`, 3, 4, true},
	} {
		resp, err := b.post(t.Context(), "/v1/completions", secretOf("key"), c.body)
		if err != nil {
			t.Fatal(err)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Error(kind)
		}
		list := frames(t, resp.Body)
		_, _ = io.Copy(io.Discard, resp.Body) // its end comes after the entry
		_ = resp.Body.Close()
		<-d.asked
		if list[len(list)-1].data != "[DONE]" {
			t.Error(list)
		}
		if e := b.ledger("key", i+1)[0]; e.Prompt != c.prompt || e.Completion != c.completion || e.Estimated != c.estimated || !e.Stream || e.Outcome != outcomeOK {
			t.Errorf("%+v", e)
		}
	}
}

// What is at fault is refused before an upstream is asked.
func TestOperationRefusals(t *testing.T) {
	b, d := atDocumented(t, func(c *Config) {
		c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 2000, Window: time.Hour}), keyOf("other")}
		c.Keys[1].Models = []string{"dyno-2"}
		c.Upstream.Upstreams[0].Models["dyno-2"] = "own-2"
		other := upstream.DefaultUpstream()
		other.Name, other.URL, other.Dialect, other.Models = "ollama", c.Upstream.Upstreams[0].URL, upstream.Ollama, map[string]string{"dyno-3": "g"}
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, other)
	})
	for _, c := range []struct {
		key, path, body string
		status          int
		text            string
	}{
		{"wrong", "/embeddings", `{"model":"dyno-1","input":"a"}`, 401, ""},
		{"key", "/embeddings", `{"input":"a"}`, 400, `"param":"model"`},
		{"key", "/embeddings", `{"model":"dyno-1","model":"dyno-1"}`, 400, "twice"},
		{"key", "/embeddings", `{"model":"dyno-9","input":"a"}`, 404, "model_not_found"},
		{"other", "/embeddings", `{"model":"dyno-1","input":"a"}`, 404, "model_not_found"},
		{"key", "/embeddings", `{"model":"dyno-3","input":"a"}`, 404, "no upstream of"},
		{"key", "/completions", `{"model":"dyno-1","prompt":"a","max_tokens":-1}`, 400, `"param":"max_tokens"`},
		{"key", "/completions", `{"model":"dyno-1","prompt":["a","b"],"max_tokens":1000}`, 400, "request_exceeds_limit"},
		{"key", "/completions", `{"model":"dyno-1","prompt":"a","stream":1}`, 400, "stream of type bool"},
		{"key", "/images/generations", `{"model":"dyno-1","prompt":"a","n":1000}`, 400, `"param":"n"`},
		{"key", "/images/generations", `{"model":"dyno-1","prompt":"a","n":2}`, 400, "request_exceeds_limit"},
		{"key", "/rerank", `{"model":"dyno-1","query":"` + strings.Repeat("a", 9000) + `"}`, 400, "request_exceeds_limit"},
	} {
		if status, text, _ := b.ask("/v1"+c.path, secretOf(c.key), c.body); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %.100s: %d %s", c.path, c.body, status, text)
		}
	}
	if len(d.asked) > 0 {
		t.Errorf("asked: %v", <-d.asked)
	}
	if status, text, _ := b.ask("/embeddings", secretOf("key"), `{"model":"dyno-1","input":"a"}`); status != http.StatusOK { // as with /v1
		t.Errorf("%d %s", status, text)
	}
}

// Limits count what an answer used, and not what was reserved.
func TestOperationLimits(t *testing.T) {
	b, d := atDocumented(t, func(c *Config) {
		c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 1100, Window: 24 * time.Hour})}
	})
	statuses := []int{}
	for range 3 { // each reserves 1,026 tokens and uses 100
		status, _, _ := b.ask("/v1/images/generations", secretOf("key"), `{"model":"dyno-1","prompt":"a"}`)
		if statuses = append(statuses, status); status == http.StatusOK {
			<-d.asked
		}
		b.settled()
	}
	if !slices.Equal(statuses, []int{200, 429, 429}) {
		t.Error(statuses)
	}
	if status, text, _ := b.ask("/v1/embeddings", secretOf("key"), `{"model":"dyno-1","input":"a"}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// Before the first byte, another upstream is asked. After it, the client sees that a part is missing.
func TestOperationFailures(t *testing.T) {
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case bytes.Contains(body, []byte("refused")):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"too long","type":"invalid_request_error"}}`)
			return
		case bytes.Contains(body, []byte("later")):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"list","data":`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case bytes.Contains(body, []byte("stream")):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case bytes.Contains(body, []byte("early")):
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(first.Close)
	b, d := atDocumented(t, func(c *Config) {
		u := modelOf(first.Listener.Addr())
		u.Name, u.Priority = "first", -1
		u.Models = map[string]string{"dyno-1": "own-1"}
		c.Upstream.Failures = 100
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
	})
	for i, c := range []struct {
		name, path, body string
		status           int
		cut              bool
		entry            store.Entry
	}{
		{"fails", "/embeddings", `{"model":"dyno-1","input":"hi"}`, 200, false, store.Entry{Upstream: "up", Outcome: outcomeOK, Attempts: 2, Prompt: 8}},
		{"cut before the first byte", "/embeddings", `{"model":"dyno-1","input":"early"}`, 200, false, store.Entry{Upstream: "up", Outcome: outcomeOK, Attempts: 2, Prompt: 8}},
		{"refused", "/embeddings", `{"model":"dyno-1","input":"refused"}`, 400, false, store.Entry{Upstream: "first", Outcome: outcomeRefused, Attempts: 1}},
		{"cut", "/embeddings", `{"model":"dyno-1","input":"later"}`, 200, true, store.Entry{Upstream: "first", Outcome: outcomeFailed, Attempts: 1, Prompt: 2, Estimated: true}},
		{"cut stream", "/completions", `{"model":"dyno-1","prompt":"abcd","stream":true}`, 200, false, store.Entry{Upstream: "first", Outcome: outcomeFailed, Attempts: 1, Prompt: 2, Completion: 1, Estimated: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := b.post(t.Context(), "/v1"+c.path, secretOf("key"), c.body)
			var text []byte
			if err == nil {
				text, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if (err != nil) != c.cut || err == nil && resp.StatusCode != c.status {
				t.Errorf("%v %s %v", resp, text, err)
			}
			if c.name == "cut stream" && !bytes.Contains(text, []byte(`data: {"error"`)) {
				t.Errorf("%s", text)
			}
			for len(d.asked) > 0 {
				<-d.asked
			}
			e := b.ledger("key", i+1)[0]
			got := store.Entry{Upstream: e.Upstream, Outcome: e.Outcome, Attempts: e.Attempts, Prompt: e.Prompt, Completion: e.Completion, Estimated: e.Estimated}
			if diff := cmp.Diff(c.entry, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A client that leaves ends the answer, which is still paid.
func TestOperationLeft(t *testing.T) {
	came, left := make(chan struct{}), make(chan struct{})
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(came)
		<-r.Context().Done()
		close(left)
	}, func(c *Config) { c.Keys = []Key{keyOf("key")} })
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-came; leave() }()
	if resp, err := b.post(ctx, "/v1/images/generations", secretOf("key"), `{"model":"dyno-1","prompt":"an otter","n":3}`); err == nil {
		_ = resp.Body.Close()
		t.Error("an answer")
	}
	<-left
	until(t, "the answer has ended", func() bool { return b.places.Taken() == 0 })
	if e := b.ledger("key", 1)[0]; e.Outcome != outcomeAborted || e.Units != 3 || !e.Estimated {
		t.Errorf("%+v", e)
	}
}

// With mask_out, whole answers are masked, and streams are refused.
func TestOperationsMasked(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("sk-")) {
			t.Errorf("the upstream got a secret: %s", body)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"sk-abcdefghijklmnopqrstuvwxyz0123456789"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	}, func(c *Config) { c.MaskIn, c.MaskOut, c.Keys = true, true, []Key{keyOf("key")} })
	const body = `{"model":"dyno-1","prompt":"sk-abcdefghijklmnopqrstuvwxyz0123456789"`
	status, text, _ := b.ask("/v1/completions", secretOf("key"), body+"}")
	if status != http.StatusOK || strings.Contains(text, "sk-abc") || !strings.Contains(text, `"usage"`) {
		t.Errorf("%d %s", status, text)
	}
	if e := b.ledger("key", 1)[0]; e.Completion != 2 {
		t.Errorf("%+v", e)
	}
	if status, text, _ := b.ask("/v1/completions", secretOf("key"), body+`,"stream":true}`); status != http.StatusBadRequest || !strings.Contains(text, "mask_out") {
		t.Errorf("%d %s", status, text)
	}
}
