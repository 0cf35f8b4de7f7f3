package bot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// What follows stands in for the servers of vendors. Each decodes requests strictly: what its documents do not have is
// refused, and fails the test. It answers in the vendor's form. What it says depends on the user's last text alone: see
// script.

// What vendors are asked, in a form of its own.
type vendorQuestion struct {
	stream bool
	most   int          // tokens of the answer; 0 is no bound
	text   string       // the user's last
	images []string     // types and numbers of bytes
	calls  []vendorCall // of the last message of the model, if their results have come
	tools  []string
	schema bool
	proven bool // the model's thinking has come back, with its signature
}

// A vendorCall is a call of a tool. Result is that which came for its ID.
type vendorCall struct{ id, name, args, result string }

// A vendorAnswer is what a vendor says.
type vendorAnswer struct {
	status         int // of an error; 0 is none
	thinking, text string
	calls          []vendorCall
	stop           string // stop, length, filter, or broken: the stream fails after the text
}

// Tokens of each answer. Of the prompt, vendorCached came from a cache; of the answer, vendorReasoning were thinking.
const vendorPrompt, vendorCached, vendorCompletion, vendorReasoning = 11, 4, 9, 3

const vendorThought, vendorSignature, vendorSecret = "let me see", "c2lnbmF0dXJl", "sk-abcdefghijklmnopqrstuvwxyz" //nolint:gosec // no real one

// script returns what is said to a question.
func script(q vendorQuestion) vendorAnswer {
	if len(q.calls) > 0 {
		var said []string
		for _, c := range q.calls {
			said = append(said, c.args+" "+c.result)
		}
		return vendorAnswer{text: fmt.Sprint(strings.Join(said, ", "), map[bool]string{true: " proven"}[q.proven])}
	}
	switch verb, rest, _ := strings.Cut(q.text, " "); verb {
	case "call":
		return vendorAnswer{thinking: vendorThought, text: "I ask.", calls: []vendorCall{
			{id: "call_1", name: "weather", args: `{"city":"Paris"}`}, {id: "call_2", name: "weather", args: `{"city":"Rome \"south\""}`},
		}}
	case "think":
		return vendorAnswer{thinking: vendorThought, text: "hello"}
	case "image":
		return vendorAnswer{text: strings.Join(q.images, ", ")}
	case "schema":
		const answer, tool = `{"city":"Paris","degrees":21}`, "json_tool_call" // of LiteLLM, in Anthropic's form
		switch {
		case slices.Contains(q.tools, tool):
			return vendorAnswer{calls: []vendorCall{{id: "call_1", name: tool, args: answer}}}
		case !q.schema:
			return vendorAnswer{text: "no schema"}
		}
		return vendorAnswer{text: answer}
	case "length", "filter", "broken":
		return vendorAnswer{text: "hel", stop: verb}
	case "400", "401", "429", "529":
		var status int
		_, _ = fmt.Sscan(verb, &status)
		return vendorAnswer{status: status}
	case "secret":
		return vendorAnswer{text: "it is " + vendorSecret + " now"}
	case "most":
		return vendorAnswer{text: fmt.Sprint("at most ", q.most)}
	case "echo":
		return vendorAnswer{text: rest}
	}
	return vendorAnswer{text: "hello"}
}

// strictly decodes JSON without unknown fields.
func strictly(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// partsOf decodes a list, or the string that stands for the text of its only element.
func partsOf[T any](text []byte, of func(string) T) (list []T, err error) {
	var s string
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	} else if json.Unmarshal(text, &s) == nil {
		return []T{of(s)}, nil
	}
	return list, strictly(text, &list)
}

// want returns an error unless it is true.
func want(is bool, text string, values ...any) error {
	if is {
		return nil
	}
	return fmt.Errorf(text, values...)
}

// imageOf describes an image, and checks its data.
func imageOf(kind, data string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	return fmt.Sprintf("%s of %d bytes", kind, len(raw)), err
}

// halves cuts a text, as streams do.
func halves(text string) []string {
	return slices.DeleteFunc([]string{text[:len(text)/2], text[len(text)/2:]}, func(s string) bool { return s == "" })
}

// A vendor reads and answers in its form.
type vendor struct {
	name string
	ask  func(r *http.Request, body []byte) (vendorQuestion, error)
	say  func(w io.Writer, q vendorQuestion, a vendorAnswer)
	err  func(status int, text string) (int, string)
	hold func(context.Context) // if there is one: before the second half of the text of a stream
}

// writing flushes each event.
type writing struct {
	http.ResponseWriter
	hold func()
}

func (w writing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"llo"`)) {
		w.hold()
	}
	n, err := w.ResponseWriter.Write(p)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	return n, err
}

// serve runs the vendor's server until the test ends.
func (v vendor) serve(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		if strings.HasSuffix(r.URL.Path, "/models/own:countTokens") && v.name == "gemini" {
			_, _ = io.WriteString(w, `{"totalTokens":31}`)
			return
		}
		q, err := v.ask(r, body)
		if err == nil && r.Header.Get("Content-Type") != "application/json" {
			err = errors.New("no Content-Type")
		}
		a := script(q)
		switch {
		case err != nil:
			t.Errorf("%s: %v: %s", v.name, err, body)
			a.status = http.StatusBadRequest
			fallthrough
		case a.status != 0:
			w.Header().Set("Content-Type", "application/json")
			status, text := v.err(a.status, "the vendor's reason")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			return
		}
		v.say(writing{w, func() {
			if v.hold != nil {
				v.hold(r.Context())
			}
		}}, q, a)
	}))
	t.Cleanup(s.Close)
	return s
}

// vendors has one of each dialect that is translated, and of Azure.
func vendors() map[upstream.Dialect]vendor {
	return map[upstream.Dialect]vendor{
		upstream.Anthropic: {name: "anthropic", ask: askAnthropic, say: sayAnthropic, err: func(status int, text string) (int, string) {
			kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[status]
			return status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, text)
		}},
		upstream.Gemini: {name: "gemini", ask: askGemini, say: sayGemini, err: func(status int, text string) (int, string) {
			kind, details := cmp.Or(map[int]string{400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}[status], "UNAVAILABLE"), ""
			switch status {
			case http.StatusUnauthorized: // of a key
				status, kind, details = http.StatusBadRequest, "INVALID_ARGUMENT", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}`
			case 529: // which it does not have
				status = http.StatusServiceUnavailable
			}
			return status, fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, status, text, kind, details)
		}},
		upstream.Ollama: {name: "ollama", ask: askOllama, say: sayOllama, err: func(status int, text string) (int, string) {
			return status, fmt.Sprintf(`{"error":%q}`, text)
		}},
		upstream.VLLM: {name: "vllm", ask: askVLLM, say: completionWriter{}.say, err: func(status int, text string) (int, string) {
			return status, fmt.Sprintf(`{"error":{"message":%q,"type":"BadRequestError","param":null,"code":%d}}`, text, status)
		}},
		upstream.Azure: {name: "azure", ask: askAzure, say: completionWriter{azure: true}.say, err: func(status int, text string) (int, string) {
			return status, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":"%d"}}`, text, status)
		}},
	}
}

// sendEvent writes one of a stream.
func sendEvent(w io.Writer, name string, data any) {
	text, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
}

type object = map[string]any

// Anthropic: API reference "Create a Message", the guides "Extended thinking", "Tool use" and "Structured outputs", and
// the types of its SDK for Python 2.14.0, of 2026-11.

type anthropicBlock struct {
	Type         string  `json:"type"`
	Text         *string `json:"text"`
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Input        object  `json:"input"`
	Thinking     string  `json:"thinking"`
	Signature    string  `json:"signature"`
	Data         string  `json:"data"`
	ToolUseID    string  `json:"tool_use_id"`
	IsError      bool    `json:"is_error"`
	CacheControl object  `json:"cache_control"`
	Citations    []any   `json:"citations"`
	Caller       object  `json:"caller"`
	Source       struct {
		Type string `json:"type"`
		Kind string `json:"media_type"`
		Data string `json:"data"`
		URL  string `json:"url"`
	} `json:"source"`
	Content json.RawMessage `json:"content"`
}

type anthropicRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	System        json.RawMessage `json:"system"`
	StopSequences []string        `json:"stop_sequences"`
	Stream        bool            `json:"stream"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	Metadata      struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	ServiceTier string `json:"service_tier"`
	Thinking    struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string `json:"type"`
			Schema object `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	ToolChoice *struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Parallel *bool  `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Tools []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Schema      object `json:"input_schema"`
		Strict      bool   `json:"strict"`
		Type        string `json:"type"`
	} `json:"tools"`
}

var anthropicNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

func anthropicText(s string) anthropicBlock { return anthropicBlock{Type: "text", Text: &s} }

func askAnthropic(r *http.Request, body []byte) (q vendorQuestion, err error) {
	var a anthropicRequest
	if err := errors.Join(
		want(r.URL.Path == "/v1/messages" && r.URL.RawQuery == "", "asked at %s", r.URL),
		want(r.Header.Get("X-Api-Key") == "secret" && r.Header.Get("Authorization") == "" && r.Header.Get("Anthropic-Version") == "2023-06-01", "header: %v", r.Header),
		strictly(body, &a),
		want(a.MaxTokens > 0 && a.Model == "own" && len(a.Messages) > 0 && a.Messages[0].Role == "user", "max_tokens, model or messages"),
		want(a.Temperature == nil || *a.Temperature >= 0 && *a.Temperature <= 1, "temperature"),
		want(a.Thinking.Type != "enabled" || a.Thinking.Budget >= 1024 && a.Thinking.Budget < a.MaxTokens, "budget_tokens"),
		want(slices.Contains([]string{"", "low", "medium", "high", "xhigh", "max"}, a.OutputConfig.Effort), "effort"),
		want(a.ToolChoice == nil || len(a.Tools) > 0, "tool_choice without tools"),
	); err != nil {
		return q, err
	}
	if f := a.OutputConfig.Format; f != nil {
		q.schema = true
		if err := want(f.Type == "json_schema" && (f.Schema["type"] != "object" || f.Schema["additionalProperties"] == false), "the schema of an answer is closed"); err != nil {
			return q, err
		}
	}
	for _, tool := range a.Tools {
		q.tools = append(q.tools, tool.Name)
		if err := want(anthropicNames.MatchString(tool.Name) && tool.Schema["type"] == "object", "tool %q", tool.Name); err != nil {
			return q, err
		}
	}
	q.stream, q.most = a.Stream, a.MaxTokens
	system, err := partsOf(a.System, anthropicText)
	if err != nil {
		return q, err
	}
	for _, b := range system {
		if err := want(b.Type == "text" && *b.Text != "", "system"); err != nil {
			return q, err
		}
	}
	var open []vendorCall // that want a result at once
	for _, m := range a.Messages {
		blocks, err := partsOf(m.Content, anthropicText)
		if err != nil {
			return q, err
		}
		if err := want(len(blocks) > 0 && slices.Contains([]string{"user", "assistant", "system"}, m.Role), "a message of %q", m.Role); err != nil {
			return q, err
		}
		q.calls, q.proven = nil, q.proven && m.Role == "user"
		answered := 0
		for i, b := range blocks {
			switch b.Type {
			case "text":
				err = want(b.Text != nil && *b.Text != "", "an empty text")
				if m.Role == "user" && b.Text != nil {
					q.text = *b.Text
				}
			case "image":
				var image string
				image, err = imageOf(b.Source.Kind, b.Source.Data)
				err = errors.Join(err, want(m.Role == "user" && b.Source.Type == "base64" && slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, b.Source.Kind), "image"))
				q.images = append(q.images, image)
			case "tool_use":
				args, _ := json.Marshal(b.Input)
				open = append(open, vendorCall{id: b.ID, args: string(args)})
				err = want(m.Role == "assistant" && b.Input != nil && anthropicNames.MatchString(b.ID) && slices.Contains(q.tools, b.Name), "tool_use")
			case "tool_result":
				at := slices.IndexFunc(open, func(c vendorCall) bool { return c.id == b.ToolUseID })
				if err = want(m.Role == "user" && at >= 0 && i == answered, "tool_result"); err != nil {
					break
				}
				answered++
				var texts []anthropicBlock
				texts, err = partsOf(b.Content, anthropicText)
				for _, text := range texts {
					open[at].result += *text.Text
				}
			case "thinking":
				q.proven = b.Signature == vendorSignature && b.Thinking == vendorThought
				err = want(m.Role == "assistant" && q.proven && i == 0, "thinking")
			default:
				err = want(false, "a block of type %q", b.Type)
			}
			if err != nil {
				return q, err
			}
		}
		if m.Role == "user" {
			if err := want(answered == len(open), "%d results of %d calls", answered, len(open)); err != nil {
				return q, err
			}
			q.calls, open = open, nil
		}
	}
	return q, want(len(open) == 0, "calls without results")
}

func sayAnthropic(w io.Writer, q vendorQuestion, a vendorAnswer) {
	var blocks []object
	if a.thinking != "" {
		blocks = append(blocks, object{"type": "thinking", "thinking": a.thinking, "signature": vendorSignature})
	}
	if a.text != "" {
		blocks = append(blocks, object{"type": "text", "text": a.text, "citations": nil})
	}
	for _, c := range a.calls {
		blocks = append(blocks, object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": json.RawMessage(c.args), "caller": object{"type": "direct"}})
	}
	stop := map[string]string{"length": "max_tokens", "filter": "refusal"}[a.stop]
	if stop = cmp.Or(stop, "end_turn"); len(a.calls) > 0 {
		stop = "tool_use"
	}
	usage := object{
		"input_tokens": vendorPrompt - vendorCached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": vendorCached, "output_tokens": vendorCompletion,
		"cache_creation": object{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "service_tier": "standard",
		"output_tokens_details": object{"thinking_tokens": vendorReasoning},
	}
	message := object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "own", "content": blocks,
		"stop_reason": stop, "stop_sequence": nil, "stop_details": nil, "usage": usage,
	}
	if !q.stream {
		text, _ := json.Marshal(message)
		_, _ = w.Write(text)
		return
	}
	message["content"], message["stop_reason"] = []object{}, nil
	message["usage"] = object{"input_tokens": vendorPrompt - vendorCached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": vendorCached, "output_tokens": 1}
	sendEvent(w, "message_start", object{"type": "message_start", "message": message})
	sendEvent(w, "ping", object{"type": "ping"})
	for i, b := range blocks {
		delta := func(kind, field, text string) {
			sendEvent(w, "content_block_delta", object{"type": "content_block_delta", "index": i, "delta": object{"type": kind, field: text}})
		}
		start := map[string]object{
			"text":     {"type": "text", "text": ""},
			"thinking": {"type": "thinking", "thinking": "", "signature": ""},
			"tool_use": {"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}, "caller": b["caller"]},
		}[b["type"].(string)]
		sendEvent(w, "content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})
		switch b["type"] {
		case "text":
			for _, piece := range halves(a.text) {
				delta("text_delta", "text", piece)
			}
		case "thinking":
			for _, piece := range halves(a.thinking) {
				delta("thinking_delta", "thinking", piece)
			}
			delta("signature_delta", "signature", vendorSignature)
		case "tool_use":
			delta("input_json_delta", "partial_json", "")
			for _, piece := range halves(string(b["input"].(json.RawMessage))) {
				delta("input_json_delta", "partial_json", piece)
			}
		}
		if a.stop == "broken" {
			sendEvent(w, "error", object{"type": "error", "error": object{"type": "overloaded_error", "message": "Overloaded"}})
			return
		}
		sendEvent(w, "content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	sendEvent(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil, "stop_details": nil}, "usage": object{
		"output_tokens": vendorCompletion, "output_tokens_details": object{"thinking_tokens": vendorReasoning},
	}})
	sendEvent(w, "message_stop", object{"type": "message_stop"})
}

// Gemini: the reference "Generating content" of v1beta, the guides "Function calling", "Thought signatures" and
// "Structured output", and the types of google-genai 3.6.1 for Python, of 2026-11.

type geminiPart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Inline    *struct {
		Kind string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	Call *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Args object `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Response object `json:"response"`
	} `json:"functionResponse"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	System   *geminiContent  `json:"systemInstruction"`
	Tools    []struct {
		Functions []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      object `json:"parametersJsonSchema"`
			Own         object `json:"parameters"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode  string   `json:"mode"`
			Names []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		MaxOutputTokens  int      `json:"maxOutputTokens"`
		StopSequences    []string `json:"stopSequences"`
		Seed             *int     `json:"seed"`
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"topP"`
		TopK             *int     `json:"topK"`
		PresencePenalty  *float64 `json:"presencePenalty"`
		FrequencyPenalty *float64 `json:"frequencyPenalty"`
		MIME             string   `json:"responseMimeType"`
		Schema           object   `json:"responseJsonSchema"`
		Own              object   `json:"responseSchema"`
		Thinking         struct {
			Include bool   `json:"includeThoughts"`
			Budget  *int   `json:"thinkingBudget"`
			Level   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

var geminiSnake = regexp.MustCompile(`"[a-z]+_[a-z_]+":`)

func askGemini(r *http.Request, body []byte) (q vendorQuestion, err error) {
	var a geminiRequest
	body = geminiSnake.ReplaceAllFunc(body, func(name []byte) []byte { return []byte(openai.InCamel(string(name))) }) // it takes both
	q.stream = r.URL.RequestURI() == "/v1/models/own:streamGenerateContent?alt=sse"
	if err := errors.Join(
		want(q.stream || r.URL.RequestURI() == "/v1/models/own:generateContent", "asked at %s", r.URL),
		want(r.Header.Get("X-Goog-Api-Key") == "secret" && r.Header.Get("Authorization") == "", "header: %v", r.Header),
		strictly(body, &a),
		want(len(a.Contents) > 0 && a.Contents[0].Role == "user", "the first content is the user's"),
		want(a.System == nil || len(a.System.Parts) > 0, "systemInstruction"),
		want(a.Config.Schema == nil || a.Config.MIME == "application/json", "responseMimeType"),
		want(a.Config.Thinking.Budget == nil || a.Config.Thinking.Level == "", "a budget and a level"),
		want(slices.Contains([]string{"", "AUTO", "ANY", "NONE"}, a.ToolConfig.Calling.Mode), "mode"),
	); err != nil {
		return q, err
	}
	q.schema, q.most = a.Config.Schema != nil || a.Config.Own != nil, a.Config.MaxOutputTokens
	for _, tool := range a.Tools {
		for _, f := range tool.Functions {
			q.tools = append(q.tools, f.Name)
		}
	}
	var open []vendorCall
	for i, c := range a.Contents {
		if err := want(len(c.Parts) > 0 && (c.Role == "user" || c.Role == "model") && (i == 0 || a.Contents[i-1].Role != c.Role), "content %d of %q", i, c.Role); err != nil {
			return q, err
		}
		answered := 0
		q.calls = nil
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				args, _ := json.Marshal(p.Call.Args)
				// The first call of a turn must have its signature. Others have none.
				err = want(c.Role == "model" && slices.Contains(q.tools, p.Call.Name) && p.Call.Args != nil && (len(open) > 0 || p.Signature != ""), "functionCall")
				q.proven = len(open) == 0 && p.Signature == vendorSignature || q.proven && p.Signature == ""
				open = append(open, vendorCall{id: p.Call.ID, name: p.Call.Name, args: string(args)})
			case p.Response != nil:
				at := slices.IndexFunc(open, func(c vendorCall) bool { return c.id == p.Response.ID && c.name == p.Response.Name && c.result == "" })
				if err = want(c.Role == "user" && at >= 0 && p.Response.Response != nil, "functionResponse"); err != nil {
					return q, err
				}
				answered++
				open[at].result = fmt.Sprint(cmp.Or(p.Response.Response["output"], p.Response.Response["result"]))
			case p.Inline != nil:
				var image string
				image, err = imageOf(p.Inline.Kind, strings.NewReplacer("-", "+", "_", "/").Replace(p.Inline.Data)) // it takes both
				q.images = append(q.images, image)
			case p.Text == nil || *p.Text == "" && p.Signature == "":
				err = want(false, "a part must have one data field")
			case c.Role == "user":
				q.text = *p.Text
			}
			if err != nil {
				return q, err
			}
		}
		if c.Role == "user" {
			if err := want(answered == len(open), "%d results of %d calls", answered, len(open)); err != nil {
				return q, err
			}
			q.calls, open = open, nil
		}
	}
	return q, want(len(open) == 0, "calls without results")
}

func sayGemini(w io.Writer, q vendorQuestion, a vendorAnswer) {
	var parts []object
	pieces := func(text string) []string {
		if q.stream {
			return halves(text)
		}
		return slices.DeleteFunc([]string{text}, func(s string) bool { return s == "" })
	}
	for _, piece := range pieces(a.thinking) {
		parts = append(parts, object{"text": piece, "thought": true})
	}
	for _, piece := range pieces(a.text) {
		parts = append(parts, object{"text": piece})
	}
	for i, c := range a.calls {
		p := object{"functionCall": object{"name": c.name, "args": json.RawMessage(c.args)}} // without an ID
		if i == 0 {
			p["thoughtSignature"] = vendorSignature
		}
		parts = append(parts, p)
	}
	stop := cmp.Or(map[string]string{"length": "MAX_TOKENS", "filter": "SAFETY"}[a.stop], "STOP")
	usage := object{
		"promptTokenCount": vendorPrompt, "cachedContentTokenCount": vendorCached, "candidatesTokenCount": vendorCompletion - vendorReasoning, "thoughtsTokenCount": vendorReasoning,
		"totalTokenCount": vendorPrompt + vendorCompletion, "promptTokensDetails": []object{{"modality": "TEXT", "tokenCount": vendorPrompt}},
	}
	answer := func(parts []object, stop string) object {
		candidate := object{"content": object{"parts": parts, "role": "model"}, "index": 0}
		if stop != "" {
			candidate["finishReason"] = stop
		}
		return object{"candidates": []object{candidate}, "usageMetadata": usage, "modelVersion": "own", "responseId": "r1"}
	}
	if !q.stream {
		text, _ := json.Marshal(answer(parts, stop))
		_, _ = w.Write(text)
		return
	}
	for i, p := range parts {
		if last := i == len(parts)-1; last && a.stop == "broken" {
			sendEvent(w, "", object{"error": object{"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})
			return
		} else if last {
			sendEvent(w, "", answer([]object{p}, ""))
			sendEvent(w, "", answer([]object{{"text": ""}}, stop))
			return
		}
		sendEvent(w, "", answer([]object{p}, ""))
	}
}

// Ollama: docs/api.md, docs/api/errors.mdx and api/types.go of github.com/ollama/ollama, of 2026-08.

type ollamaRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role     string   `json:"role"`
		Content  string   `json:"content"`
		Thinking string   `json:"thinking"`
		Images   []string `json:"images"`
		Calls    []struct {
			ID       string `json:"id"`
			Function struct {
				Name string `json:"name"`
				Args object `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		Tool string `json:"tool_name"`
		ID   string `json:"tool_call_id"`
	} `json:"messages"`
	Stream *bool            `json:"stream"`
	Format json.RawMessage  `json:"format"`
	Think  any              `json:"think"`
	Tools  []completionTool `json:"tools"`
	Config struct {
		NumPredict       int      `json:"num_predict"`
		Stop             []string `json:"stop"`
		Seed             *int     `json:"seed"`
		Temperature      *float64 `json:"temperature"`
		TopP             *float64 `json:"top_p"`
		TopK             *int     `json:"top_k"`
		PresencePenalty  *float64 `json:"presence_penalty"`
		FrequencyPenalty *float64 `json:"frequency_penalty"`
	} `json:"options"`
}

func askOllama(r *http.Request, body []byte) (q vendorQuestion, err error) {
	var a ollamaRequest
	if err := errors.Join(
		want(r.URL.RequestURI() == "/v1/api/chat", "asked at %s", r.URL),
		strictly(body, &a),
		want(a.Model == "own" && len(a.Messages) > 0, "model or messages"),
	); err != nil {
		return q, err
	}
	q.most = a.Config.NumPredict
	q.stream, q.schema = a.Stream == nil || *a.Stream, len(a.Format) > 0 && a.Format[0] == '{'
	q.tools = completionTools(a.Tools)
	for _, m := range a.Messages {
		if m.Role == "tool" {
			at := slices.IndexFunc(q.calls, func(c vendorCall) bool { return c.id == m.ID && c.name == m.Tool })
			if err := want(at >= 0, "a result for nothing"); err != nil {
				return q, err
			}
			q.calls[at].result = m.Content
			continue
		}
		q.calls = nil
		switch m.Role {
		case "user":
			q.text = m.Content
		case "assistant":
			q.proven = m.Thinking == vendorThought
		case "system":
		default:
			return q, fmt.Errorf("role %q", m.Role)
		}
		for _, image := range m.Images { // without their types
			text, err := imageOf("image", image)
			if err != nil {
				return q, err
			}
			q.images = append(q.images, text)
		}
		for _, c := range m.Calls {
			args, _ := json.Marshal(c.Function.Args)
			q.calls = append(q.calls, vendorCall{id: c.ID, name: c.Function.Name, args: string(args)})
		}
	}
	return q, nil
}

func sayOllama(w io.Writer, q vendorQuestion, a vendorAnswer) {
	line := func(message object, done bool) {
		message["role"] = "assistant"
		if message["content"] == nil {
			message["content"] = ""
		}
		l := object{"model": "own", "created_at": "2026-11-30T12:00:00.123456789Z", "message": message, "done": done}
		if done {
			l["done_reason"] = map[bool]string{true: "length", false: "stop"}[a.stop == "length"]
			l["total_duration"], l["load_duration"], l["prompt_eval_duration"], l["eval_duration"] = 4, 1, 1, 2
			l["prompt_eval_count"], l["eval_count"] = vendorPrompt, vendorCompletion
		}
		text, _ := json.Marshal(l)
		_, _ = w.Write(append(text, '\n'))
	}
	var calls []object
	for i, c := range a.calls {
		calls = append(calls, object{"id": "call_" + c.id, "function": object{"index": i, "name": c.name, "arguments": json.RawMessage(c.args)}})
	}
	if !q.stream {
		message := object{"content": a.text}
		if a.thinking != "" {
			message["thinking"] = a.thinking
		}
		if calls != nil {
			message["tool_calls"] = calls
		}
		line(message, true)
		return
	}
	for _, piece := range halves(a.thinking) {
		line(object{"thinking": piece}, false)
	}
	for _, piece := range halves(a.text) {
		line(object{"content": piece}, false)
	}
	if a.stop == "broken" {
		fmt.Fprintln(w, `{"error":"Overloaded"}`)
		return
	}
	for _, c := range calls {
		line(object{"tool_calls": []object{c}}, false)
	}
	line(object{}, true)
}

// vLLM and Azure: chat completions. vLLM's "OpenAI-Compatible Server" and "Reasoning Outputs", and Azure's reference
// 2024-10-21 and "Content filtering", of 2026-11.

type completionTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  object `json:"parameters"`
		Strict      *bool  `json:"strict"`
	} `json:"function"`
}

func completionTools(list []completionTool) (names []string) {
	for _, tool := range list {
		names = append(names, tool.Function.Name)
	}
	return names
}

type completionPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image *struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
}

type completionRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		Name      string          `json:"name"`
		Refusal   *string         `json:"refusal"`
		Audio     any             `json:"audio"`
		Reasoning string          `json:"reasoning"`
		Old       string          `json:"reasoning_content"`
		CallID    string          `json:"tool_call_id"`
		Calls     []struct {
			Index    int    `json:"index"` // of streams, which the package sends back
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
				Args string `json:"arguments"`
				// OpenAI's SDK for Python sends what it has parsed, with its text: so that servers ignore it.
				Parsed any `json:"parsed_arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		Annotations any `json:"annotations"`
		Function    any `json:"function_call"`
		Parsed      any `json:"parsed"`
		Specific    any `json:"provider_specific_fields"` // of LiteLLM's SDK
		Thoughts    any `json:"thinking_blocks"`
	} `json:"messages"`
	Tools           []completionTool `json:"tools"`
	ToolChoice      any              `json:"tool_choice"`
	Parallel        *bool            `json:"parallel_tool_calls"`
	ResponseFormat  object           `json:"response_format"`
	MaxTokens       int              `json:"max_tokens"`
	MaxCompletion   int              `json:"max_completion_tokens"`
	Temperature     *float64         `json:"temperature"`
	TopP            *float64         `json:"top_p"`
	Stop            any              `json:"stop"`
	Stream          bool             `json:"stream"`
	StreamOptions   object           `json:"stream_options"`
	Seed            *int             `json:"seed"`
	ReasoningEffort string           `json:"reasoning_effort"`
	User            string           `json:"user"`
}

func askVLLM(r *http.Request, body []byte) (vendorQuestion, error) {
	q, err := askCompletion(body)
	return q, errors.Join(err, want(r.URL.RequestURI() == "/v1/chat/completions" && r.Header.Get("Authorization") == "Bearer secret", "asked at %s, %v", r.URL, r.Header))
}

func askAzure(r *http.Request, body []byte) (vendorQuestion, error) {
	q, err := askCompletion(body)
	return q, errors.Join(err, want(r.URL.RequestURI() == "/v1/openai/deployments/own/chat/completions?api-version=2024-10-21" && r.Header.Get("Api-Key") == "secret" && r.Header.Get("Authorization") == "", "asked at %s, %v", r.URL, r.Header))
}

func askCompletion(body []byte) (q vendorQuestion, err error) {
	var a completionRequest
	if err := errors.Join(
		strictly(body, &a),
		want(a.Model == "own" && len(a.Messages) > 0, "model or messages"),
		want(a.StreamOptions == nil || a.Stream, "stream_options without stream"),
		want(a.MaxTokens == 0 || a.MaxCompletion == 0, "two bounds"),
	); err != nil {
		return q, err
	}
	q.most = max(a.MaxTokens, a.MaxCompletion)
	q.stream, q.schema, q.tools = a.Stream, a.ResponseFormat["type"] == "json_schema", completionTools(a.Tools)
	for _, m := range a.Messages {
		parts, err := partsOf(m.Content, func(s string) completionPart { return completionPart{Type: "text", Text: s} })
		if err != nil {
			return q, err
		}
		var text string
		for _, p := range parts {
			text += p.Text
			if p.Image != nil {
				kind, data, _ := strings.Cut(strings.TrimPrefix(p.Image.URL, "data:"), ";base64,")
				image, err := imageOf(kind, data)
				if err != nil {
					return q, err
				}
				q.images = append(q.images, image)
			}
		}
		if m.Role == "tool" {
			at := slices.IndexFunc(q.calls, func(c vendorCall) bool { return c.id == m.CallID })
			if err := want(at >= 0, "a result for nothing"); err != nil {
				return q, err
			}
			q.calls[at].result = text
			continue
		}
		q.calls = nil
		switch m.Role {
		case "user":
			q.text = text
		case "assistant":
			q.proven = cmp.Or(m.Reasoning, m.Old) == vendorThought
		}
		for _, c := range m.Calls {
			if err := want(c.Type == "function" && json.Valid([]byte(c.Function.Args)), "a call"); err != nil {
				return q, err
			}
			q.calls = append(q.calls, vendorCall{id: c.ID, args: c.Function.Args})
		}
	}
	return q, nil
}

// A completionWriter answers as vLLM does, or as Azure: with results of its filters, and without reasoning.
type completionWriter struct{ azure bool }

func (c completionWriter) say(w io.Writer, q vendorQuestion, a vendorAnswer) {
	stop := map[string]string{"length": "length", "filter": "content_filter"}[a.stop]
	if stop = cmp.Or(stop, "stop"); len(a.calls) > 0 {
		stop = "tool_calls"
	}
	usage := object{
		"prompt_tokens": vendorPrompt, "completion_tokens": vendorCompletion, "total_tokens": vendorPrompt + vendorCompletion,
		"prompt_tokens_details": object{"cached_tokens": vendorCached}, "completion_tokens_details": object{"reasoning_tokens": vendorReasoning},
	}
	filters := object{"hate": object{"filtered": false, "severity": "safe"}}
	var calls []object
	for i, call := range a.calls {
		calls = append(calls, object{"index": i, "id": "chatcmpl-tool-" + call.id, "type": "function", "function": object{"name": call.name, "arguments": call.args}})
	}
	if !q.stream {
		message := object{"role": "assistant", "content": a.text, "refusal": nil}
		if calls != nil {
			for _, call := range calls {
				delete(call, "index")
			}
			message["tool_calls"] = calls
		}
		choice := object{"index": 0, "message": message, "finish_reason": stop, "logprobs": nil}
		answer := object{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "own", "choices": []object{choice}, "usage": usage}
		if c.azure {
			choice["content_filter_results"], answer["prompt_filter_results"] = filters, []object{{"prompt_index": 0, "content_filter_results": filters}}
		} else {
			message["reasoning"], choice["stop_reason"] = a.thinking, nil
		}
		text, _ := json.Marshal(answer)
		_, _ = w.Write(text)
		return
	}
	chunk := func(delta object, stop any) {
		choice := object{"index": 0, "delta": delta, "finish_reason": stop, "logprobs": nil}
		if c.azure {
			choice["content_filter_results"] = filters
		}
		sendEvent(w, "", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "own", "choices": []object{choice}})
	}
	if c.azure { // its first event has no choices
		sendEvent(w, "", object{"id": "", "object": "", "created": 0, "model": "", "choices": []object{}, "prompt_filter_results": []object{{"prompt_index": 0, "content_filter_results": filters}}})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	if !c.azure {
		for _, piece := range halves(a.thinking) {
			chunk(object{"reasoning": piece}, nil)
		}
	}
	for _, piece := range halves(a.text) {
		chunk(object{"content": piece}, nil)
	}
	if a.stop == "broken" {
		sendEvent(w, "", object{"error": object{"message": "Overloaded", "type": "InternalServerError", "param": nil, "code": 500}})
		_, _ = io.WriteString(w, aDone)
		return
	}
	for i, call := range calls {
		for j, piece := range halves(a.calls[i].args) {
			delta := object{"index": i, "function": object{"arguments": piece}}
			if j == 0 {
				delta["id"], delta["type"], delta["function"] = call["id"], "function", object{"name": a.calls[i].name, "arguments": piece}
			}
			chunk(object{"tool_calls": []object{delta}}, nil)
		}
	}
	chunk(object{}, stop)
	sendEvent(w, "", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "own", "choices": []object{}, "usage": usage})
	_, _ = io.WriteString(w, aDone)
}
