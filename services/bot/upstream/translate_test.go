package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dyno/services/bot/openai"
)

// A vendorServer answers as a vendor's server does, by its documentation. It says what it was asked.
type vendorServer struct {
	path, keyField string
	whole, stream  string // stream: events, or lines
	failing        string // the body of its 400
}

var vendorServers = map[Dialect]vendorServer{
	Anthropic: {
		path: "/v1/messages", keyField: "X-Api-Key",
		whole: `{"id":"msg_1","type":"message","role":"assistant","model":"own","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5}}`,
		stream: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"own","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`,
		failing: `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`,
	},
	Gemini: {
		path: "/v1/models/own:", keyField: "X-Goog-Api-Key",
		whole:   `{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"cachedContentTokenCount":4,"candidatesTokenCount":5,"totalTokenCount":12},"modelVersion":"own","responseId":"r1"}`,
		stream:  "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hel\"}]}}],\"responseId\":\"r1\"}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"lo\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":7,\"cachedContentTokenCount\":4,\"candidatesTokenCount\":5},\"responseId\":\"r1\"}\r\n\r\n",
		failing: `{"error":{"code":400,"message":"no such thing","status":"INVALID_ARGUMENT"}}`,
	},
	Ollama: {
		path: "/v1/api/chat", keyField: "Authorization",
		whole:   `{"model":"own","created_at":"2026-11-30T00:00:00Z","message":{"role":"assistant","content":"hello"},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":5}`,
		stream:  "{\"model\":\"own\",\"message\":{\"role\":\"assistant\",\"content\":\"hel\"},\"done\":false}\n\n{\"model\":\"own\",\"message\":{\"role\":\"assistant\",\"content\":\"lo\"},\"done\":false}\n{\"model\":\"own\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":7,\"eval_count\":5}\n",
		failing: `{"error":"no such thing"}`,
	},
	VLLM: {
		path: "/v1/chat/completions", keyField: "Authorization",
		whole:   `{"id":"c","object":"chat.completion","created":1,"model":"own","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}`,
		stream:  "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n",
		failing: `{"error":{"message":"no such thing"}}`,
	},
}

// requests of each endpoint, with a feature that no other dialect has.
var clientRequests = map[openai.Endpoint]string{
	openai.Chat:      `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}]%s}`,
	openai.Responses: `{"model":"m","instructions":"be brief","input":"hello"%s}`,
}

func of(t *testing.T, e openai.Endpoint, fields string) *openai.Request {
	t.Helper()
	r, err := openai.Standard().Parse(e, fmt.Appendf(nil, clientRequests[e], fields))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTranslated: a client of each endpoint gets the answers of each vendor in its own form, whole and as a stream, with
// the usage; and the vendor's refusals, and what its form does not have.
func TestTranslated(t *testing.T) {
	for d, v := range vendorServers {
		for e := range clientRequests {
			if d == VLLM && e == openai.Chat { // it passes as it is
				continue
			}
			t.Run(fmt.Sprint(d, " ", e), func(t *testing.T) {
				inBubble(t, []Upstream{{Server: Server{Dialect: d, Key: "secret"}, Models: map[string]string{"m": "own"}}}, nil, nil, func(t *testing.T, b *bed) {
					var asked *http.Request
					var body string
					status, response := http.StatusOK, ""
					b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
						text, _ := io.ReadAll(r.Body)
						asked, body = r, string(text)
						w.WriteHeader(status)
						_, _ = io.WriteString(w, response)
					}
					response = v.whole
					a, err := b.Ask(t.Context(), of(t, e, ""), nil)
					if err != nil || a.Reply.Text != "hello" || a.Usage.Prompt != 7 || a.Usage.Completion != 5 || a.Usage.Estimated || (a.Usage.Cached == 4) != (d != Ollama) {
						t.Fatalf("%+v, %v", a, err)
					}
					if strings.Contains(string(a.Body), `"created":0`) || strings.Contains(string(a.Body), `"created_at":0`) {
						t.Errorf("without its time: %s", a.Body)
					}
					if key := asked.Header.Get(v.keyField); !strings.HasPrefix(asked.URL.Path, v.path) || !strings.HasSuffix(key, "secret") || !strings.Contains(body, "be brief") || strings.Contains(body, `"m"`) {
						t.Errorf("asked %s, %q: %s", asked.URL, key, body)
					}
					if (d == Anthropic) != (asked.Header.Get("Anthropic-Version") != "") {
						t.Error("anthropic-version")
					}

					response = v.stream
					if a, err = b.Ask(t.Context(), of(t, e, `,"stream":true`), nil); err != nil {
						t.Fatal(err)
					}
					text, err := read(a.Stream)
					if u := a.Stream.Usage(); text != "hello" || !errors.Is(err, io.EOF) || u.Prompt != 7 || u.Completion != 5 || u.Estimated {
						t.Errorf("%q, %v, %+v", text, err, u)
					}
					a.Stream.Close()

					response = v.stream[:strings.Index(v.stream, `"lo"`)]
					if a, err = b.Ask(t.Context(), of(t, e, `,"stream":true`), nil); err != nil {
						t.Fatal(err)
					}
					var cut *Error
					if text, err = read(a.Stream); text != "hel" || !errors.As(err, &cut) || cut.Text != openai.ErrCut.Error() {
						t.Errorf("a cut stream: %q, %v", text, err)
					}
					a.Stream.Close()

					status, response = http.StatusBadRequest, v.failing
					var refused *Error
					if _, err = b.Ask(t.Context(), of(t, e, ""), nil); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || refused.Text != "status 400: no such thing" || refused.Body == nil || len(refused.Body) > 0 {
						t.Errorf("refused: %+v, %s", err, refused.Body)
					}
				})
			})
		}
	}
}

// TestBadKey: Google's 400 for a key that is not valid is no fault of the client's: another deployment is asked.
func TestBadKey(t *testing.T) {
	inBubble(t, []Upstream{{Server: Server{Dialect: Gemini, Key: "old"}, Terms: Terms{Priority: -1}}, {Server: Server{Dialect: Gemini, Key: "new"}}}, nil, nil, func(t *testing.T, b *bed) {
		b.servers["a"].handler = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`)
		}
		b.servers["b"].handler = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, vendorServers[Gemini].whole) }
		if a, err := b.Ask(t.Context(), of(t, openai.Chat, ""), nil); err != nil || a.Upstream != "b" {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestFeatures: what a dialect cannot express goes to a deployment that can; otherwise it is refused with the field's
// name, unless the deployment drops it.
func TestFeatures(t *testing.T) {
	inBubble(t, []Upstream{{Server: Server{Dialect: Anthropic}}, {}, {Server: Server{Dialect: Anthropic}, Models: map[string]string{"alone": "own"}}, {Server: Server{Dialect: Anthropic}, Models: map[string]string{"drops": "own"}, Terms: Terms{Drop: []string{"all"}}}}, func(c *Config) { c.RetryBurst, c.RetryRatio = 0, 0 }, nil, func(t *testing.T, b *bed) {
		var bodies []string
		for name, s := range b.servers {
			s.handler = func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(text))
				response := vendorServers[Anthropic].whole
				if name == "b" {
					response = vendorServers[VLLM].whole
				}
				_, _ = io.WriteString(w, response)
			}
		}
		ask := func(model, fields string) (*Answer, *Error) {
			r := of(t, openai.Chat, fields)
			r.Model = model
			a, err := b.Ask(t.Context(), r, nil)
			var e *Error
			errors.As(err, &e)
			return a, e
		}
		for range 8 {
			if a, err := ask("m", `,"seed":7`); err != nil || a.Upstream != "b" {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if _, err := ask("alone", `,"seed":7`); err == nil || err.Status != http.StatusBadRequest || err.Param != "seed" {
			t.Errorf("%+v", err)
		}
		bodies = nil
		a, err := ask("drops", `,"seed":7,"logprobs":true,"temperature":0.5`)
		if err != nil || !slices.Equal(a.Dropped, []string{"seed", "logprobs"}) || strings.Contains(bodies[0], "seed") || !strings.Contains(bodies[0], "0.5") {
			t.Errorf("%+v, %v: %q", a, err, bodies)
		}
		if _, err := ask("drops", `,"seed":7,"n":2`); err == nil || err.Param != "n" {
			t.Errorf("%+v", err)
		}
	})
	c := Defaults()
	c.Policy = loopback
	c.Upstreams = []Upstream{{Name: "u", Server: Server{URL: "http://127.0.0.1/v1", Dialect: "xml"}, Models: map[string]string{"m": "m"}, Terms: Terms{Weight: 1, MaxConcurrent: 1, Drop: []string{"seed", "tools"}}}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `upstreams[0].drop[1]: "tools" cannot be dropped`) || !strings.Contains(err.Error(), "upstreams[0].dialect: ") {
		t.Errorf("%v", err)
	}
}

// Who leaves a stream of Anthropic's pays for the prompt what its first event has said, in whatever form it was asked.
func TestLeftAfterThePromptIsKnown(t *testing.T) {
	v := vendorServers[Anthropic]
	begin, _, _ := strings.Cut(v.stream, "event: content_block_stop")
	for e := range clientRequests {
		inBubble(t, []Upstream{{Server: Server{Dialect: Anthropic}}}, nil, nil, func(t *testing.T, b *bed) {
			b.servers["a"].handler = func(w http.ResponseWriter, r *http.Request) {
				says(w, begin)
				<-r.Context().Done()
			}
			a, err := b.Ask(t.Context(), of(t, e, `,"stream":true`), nil)
			if err != nil {
				t.Fatal(err)
			}
			for a.Stream.Progress().Completion < 2 {
				if _, err := a.Stream.Next(); err != nil {
					t.Fatal(err)
				}
			}
			a.Stream.Close()
			if u := a.Stream.Usage(); u != (openai.Usage{Prompt: 7, Cached: 4, Completion: 2, Estimated: true}) {
				t.Errorf("%s: %+v", e, u)
			}
		})
	}
}
