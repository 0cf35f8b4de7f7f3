package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/ssetest"
)

func parse(t testing.TB, e Endpoint, body string) *Request {
	t.Helper()
	r, err := Standard().Parse(e, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := parse(t, Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":5,"n":2,"stream_options":{"include_usage":true}}`)
	if r.Model != "m" || !r.Stream || !r.IncludeUsage || r.MaxTokens != 5 || r.Choices != 2 || r.PromptTokens != 8 {
		t.Errorf("%+v", r)
	}
	r = parse(t, Responses, `{"model":"m","input":"hi","max_output_tokens":7,"instructions":"be kind","stream":null}`)
	if r.Stream || !r.IncludeUsage || r.MaxTokens != 7 || r.PromptTokens != 4 {
		t.Errorf("%+v", r)
	}
	for body, want := range map[string]string{
		`[]`:                                  "body: want a JSON object",
		`null`:                                "body: want a JSON object",
		`{`:                                   "body: want a JSON object",
		`{"model":1}`:                         "model: want a string",
		`{"stream":1}`:                        "stream: want a boolean",
		`{"messages":[{}]}`:                   "model: must have",
		`{"model":"m"}`:                       "messages: must be there",
		`{"model":"m","messages":[]}`:         "messages: must be there",
		`{"model":"m","messages":"hello"}`:    "messages: must be there",
		`{"model":"m","messages":[{}],"n":0}`: "n: must be from 1",
		`{"model":"m","messages":[{}],"max_tokens":-1}`:                 "max_tokens: must be",
		`{"model":"m","messages":[{}],"max_tokens":999999999999999999}`: "max_tokens: must be",
		`{"model":"m","messages":[{}],"max_tokens":"x"}`:                "max_tokens: want a number",
	} {
		var fault *RequestError
		if _, err := Standard().Parse(Chat, []byte(body)); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestAllIsCounted: whatever a model reads is counted, wherever it stands.
func TestAllIsCounted(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for _, field := range []string{`"tools":["` + long + `"]`, `"response_format":{"schema":"` + long + `"}`, `"prediction":{"content":"` + long + `"}`} {
		if r := parse(t, Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],`+field+`}`); r.PromptTokens < 1000 || r.PromptTokens > 1050 {
			t.Errorf("%.20s: %d tokens", field, r.PromptTokens)
		}
	}
	for _, field := range []string{`"instructions":"` + long + `"`, `"text":{"format":"` + long + `"}`, `"prompt":{"variables":"` + long + `"}`} {
		if r := parse(t, Responses, `{"model":"m","input":"hi",`+field+`}`); r.PromptTokens < 1000 || r.PromptTokens > 1050 {
			t.Errorf("%.20s: %d tokens", field, r.PromptTokens)
		}
	}
}

// TestMedia: images, recordings and files are not counted as text; text that looks like them is.
func TestMedia(t *testing.T) {
	long := strings.Repeat("A", 64_000)
	for _, c := range []struct {
		endpoint Endpoint
		text     string
		around   int // bytes around what is no text
		tokens   int // of that
	}{
		{Chat, `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + long + `"}}]}]`, 0, 1500},
		{Responses, `[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + long + `"},{"type":"input_text","text":"\"what?"}]}]`, 0, 1500},
		{Chat, `[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + long + `","format":"wav"}}]}]`, 0, 1000},
		{Chat, `[{"role":"user","content":[{"type":"file","file":{"file_data":"` + long + `"}}]}]`, 0, 1000},
		{Chat, `[{"role":"user","content":"data:image/png;base64,` + long + `"}]`, 64_022, 0},
		{Chat, `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/;base64,"}}]}]`, 0, imageTokens},
		{Chat, `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/"}}]}]`, 0, imageTokens},
		{Responses, `[{"role":"user","content":[{"type":"input_image","image_url":"https://example.org/"}]}]`, 0, imageTokens},
		{Responses, `[{"role":"user","content":[{"type":"url","url":"https://example.org/;base64,"}]}]`, 28, 0},
	} {
		name := "messages"
		if c.endpoint == Responses {
			name = "input"
		}
		least := c.tokens + c.around/4
		if r := parse(t, c.endpoint, `{"model":"m","`+name+`":`+c.text+`}`); r.PromptTokens < least || r.PromptTokens > least+50 {
			t.Errorf("%.80s: %d tokens, want about %d", c.text, r.PromptTokens, least)
		}
	}
}

// TestBody: what is passed on is what was asked, but for what must change.
func TestBody(t *testing.T) {
	for _, c := range []struct{ body, model, want string }{
		{`{"model":"m","messages":[{}],"seed":9007199254740993,"new":{"b":1.0,"a":2}}`, "m", `{"messages":[{}],"model":"m","new":{"b":1.0,"a":2},"seed":9007199254740993}`},
		{`{"model":"m","messages":[{}]}`, "up/m", `{"messages":[{}],"model":"up/m"}`},
		{`{"model":"m","messages":[{}],"stream":true}`, "m", `{"messages":[{}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m","messages":[{}],"stream":true,"stream_options":{"other":1,"include_usage":false}}`, "x", `{"messages":[{}],"model":"x","stream":true,"stream_options":{"include_usage":true,"other":1}}`},
	} {
		r := parse(t, Chat, c.body)
		if got := string(r.Body(c.model, Bound{Field: MaxTokens}, true)); got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.body, got, c.want)
		}
		if again := string(r.Body(c.model, Bound{Field: MaxTokens}, true)); again != c.want {
			t.Errorf("a second time: %s", again)
		}
	}
	for body, want := range map[string]string{
		`{"model":"m","messages":[{}],"stream":true}`:                                         `{"messages":[{}],"model":"m","stream":true}`,
		`{"model":"m","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}`: `{"messages":[{}],"model":"m","stream":true}`,
		`{"model":"m","messages":[{}],"stream":true,"stream_options":null,"max_tokens":1}`:    `{"max_tokens":1,"messages":[{}],"model":"m","stream":true}`,
		`{"model":"m","messages":[{}],"stream_options":{"include_usage":true}}`:               `{"messages":[{}],"model":"m","stream_options":{"include_usage":true}}`,
	} {
		r := parse(t, Chat, body)
		if got := string(r.Body("m", Bound{Field: MaxTokens}, false)); got != want {
			t.Errorf("without options %s became %s", body, got)
		}
		if with := string(r.Body("m", Bound{Field: MaxTokens}, true)); !strings.Contains(with, "include_usage") {
			t.Errorf("the request has changed: %s", with)
		}
	}
	if got := string(parse(t, Responses, `{"model":"m","input":"x","stream":true}`).Body("m", Bound{Field: MaxTokens}, true)); got != `{"input":"x","model":"m","stream":true}` {
		t.Errorf("responses: %s", got)
	}
}

// TestBound: an upstream is told a bound that the client has not set in the field that it knows. What the client has set
// stays.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		endpoint Endpoint
		body     string
		bound    Bound
		want     string
	}{
		{Chat, `{"model":"m","messages":[{}]}`, Bound{MaxTokens, false}, `{"max_tokens":9,"messages":[{}],"model":"m"}`},
		{Chat, `{"model":"m","messages":[{}]}`, Bound{MaxCompletionTokens, true}, `{"max_completion_tokens":9,"messages":[{}],"model":"m"}`},
		{Chat, `{"model":"m","messages":[{}],"max_tokens":7}`, Bound{MaxCompletionTokens, false}, `{"max_tokens":7,"messages":[{}],"model":"m"}`},
		{Chat, `{"model":"m","messages":[{}],"max_completion_tokens":7}`, Bound{MaxTokens, false}, `{"max_completion_tokens":7,"messages":[{}],"model":"m"}`},
		{Chat, `{"model":"m","messages":[{}],"max_completion_tokens":7}`, Bound{MaxTokens, true}, `{"max_completion_tokens":7,"max_tokens":7,"messages":[{}],"model":"m"}`},
		{Chat, `{"model":"m","messages":[{}],"max_completion_tokens":7,"max_tokens":8}`, Bound{MaxTokens, true}, `{"max_completion_tokens":7,"max_tokens":8,"messages":[{}],"model":"m"}`},
		{Responses, `{"model":"m","input":"x"}`, Bound{}, `{"input":"x","max_output_tokens":9,"model":"m"}`},
		{Responses, `{"model":"m","input":"x","max_output_tokens":7}`, Bound{}, `{"input":"x","max_output_tokens":7,"model":"m"}`},
	} {
		r := parse(t, c.endpoint, c.body)
		unbound := string(r.Body("m", c.bound, true))
		r.Bound(9)
		for range 2 {
			if got := string(r.Body("m", c.bound, true)); got != c.want {
				t.Errorf("%s\nbecame %s\nwant   %s", c.body, got, c.want)
			}
		}
		if again := string(parse(t, c.endpoint, c.body).Body("m", c.bound, true)); unbound != again || strings.Count(unbound, "tokens") != strings.Count(c.body, "tokens") {
			t.Errorf("without a limit %s became %s", c.body, unbound)
		}
	}
}

// codecs are the gateway's, and one that leaves everything to the library.
func codecs() []Codec { return []Codec{Standard(), {JSON: &standard{}}} }

// TestOtherForms: fields that some servers have as JSON where most have a text do not make an answer bad.
func TestOtherForms(t *testing.T) {
	const content = `[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"},"odd",{"text":7}]`
	least := len("yes") + len(`[{"type":"text","text":"hm"}]`) + len(`"odd"`)
	for _, codec := range codecs() {
		r, err := codec.ParseReply(Chat, []byte(`{"choices":[{"message":{"content":`+content+`}}]}`))
		if err != nil || r.Text != "yes" || r.Bytes != least {
			t.Errorf("%+v, %v, want %d bytes", r, err, least)
		}
		r, err = codec.ParseReply(Chat, []byte(`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}`))
		if err != nil || r.Bytes != len(`f{"a":1}`) {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = codec.ParseReply(Responses, []byte(`{"status":"completed","output":[{"type":"tool_search_call","arguments":{"q":"x"}},{"content":[{"type":"output_text","text":"ok"}]}]}`))
		if err != nil || r.Text != "ok" || r.Bytes != len(`{"q":"x"}ok`) {
			t.Errorf("%+v, %v", r, err)
		}
		var e Event
		if err := codec.ParseEvent(Chat, data(`{"choices":[{"index":0,"delta":{"content":`+content+`}}]}`), &e); err != nil || len(e.Deltas) != 1 || e.Deltas[0].Text != "yes" || e.Bytes != least {
			t.Errorf("%+v, %v", e, err)
		}
		if err := codec.ParseEvent(Responses, data(`{"type":"response.completed","response":{"output":[{"arguments":{}}],"usage":{"input_tokens":1,"output_tokens":2}}}`), &e); err != nil || !e.Done || e.Usage == nil {
			t.Errorf("%+v, %v", e, err)
		}
		for _, none := range []string{`{"choices":[]}`, `{"error":{"message":"no"}}`} {
			if _, err := codec.ParseReply(Chat, []byte(none)); !errors.Is(err, ErrNone) {
				t.Errorf("%s: %v", none, err)
			}
		}
		if _, err := codec.ParseReply(Chat, []byte(`{"choices":7}`)); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%v", err)
		}
	}
}

func TestKey(t *testing.T) {
	one := parse(t, Chat, `{"model":"m","messages":[{}],"temperature":0,"user":"a"}`)
	same := parse(t, Chat, `{"temperature":0,"messages":[{}],"model":"m","user":"b"}`)
	if !bytes.Equal(one.Key(), same.Key()) {
		t.Errorf("%s\n%s", one.Key(), same.Key())
	}
	for _, body := range []string{`{"model":"n","messages":[{}],"temperature":0}`, `{"model":"m","messages":[{"a":1}],"temperature":0}`, `{"model":"m","messages":[{}],"temperature":1}`} {
		if bytes.Equal(parse(t, Chat, body).Key(), one.Key()) {
			t.Errorf("%s has the same key", body)
		}
	}
	for body, want := range map[string]bool{`,"temperature":0`: true, `,"temperature":0.0`: true, `,"temperature":1`: false, ``: false, `,"temperature":"0"`: true, `,"temperature":null`: false, `,"temperature":0,"n":2`: false} {
		if got := parse(t, Chat, `{"model":"m","messages":[{}]`+body+`}`).Deterministic(); got != want && body != `,"temperature":"0"` {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// TestKeyOfResponses: an answer that repeats who asks is for nobody else, and one that the upstream
// keeps is like no other.
func TestKeyOfResponses(t *testing.T) {
	const asked = `{"model":"m","input":"x","temperature":0,"store":false`
	one := parse(t, Responses, asked+`,"user":"a"}`)
	for _, other := range []string{`,"user":"b"}`, `,"user":"a","metadata":{"x":"y"}}`, `,"user":"a","safety_identifier":"s"}`, `}`} {
		if bytes.Equal(one.Key(), parse(t, Responses, asked+other).Key()) {
			t.Errorf("%s has the same key", other)
		}
	}
	for fields, want := range map[string]bool{
		`"store":false`: true, `"n":1`: false, `"store":true`: false, `"store":null`: false, `"store":false,"conversation":"c"`: false, `"store":false,"previous_response_id":"r"`: false,
		`"store":false,"background":true`: false, `"store":false,"background":false,"conversation":null`: true,
	} {
		if got := parse(t, Responses, `{"model":"m","input":"x","temperature":0,`+fields+`}`).Deterministic(); got != want {
			t.Errorf("%s: %v", fields, got)
		}
	}
}

func TestNewChat(t *testing.T) {
	messages := []Message{{"system", "be \"kind\""}, {"user", "天气?"}}
	r, err := Standard().NewChat("m", messages, true, 9)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"max_tokens":9,"messages":[{"role":"system","content":"be \"kind\""},{"role":"user","content":"天气?"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	if got := string(r.Body("m", Bound{Field: MaxTokens}, true)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	again := parse(t, Chat, want)
	if again.PromptTokens != r.PromptTokens || again.MaxTokens != r.MaxTokens {
		t.Errorf("%+v\n%+v", again, r)
	}
	if _, err := Standard().NewChat("m", nil, false, 0); err == nil {
		t.Error("without messages")
	}
}

func TestParseReply(t *testing.T) {
	for _, c := range []struct {
		e    Endpoint
		body string
		want Reply
	}{
		{Chat, `{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, Reply{Text: "hello", Bytes: 5, Usage: &Usage{Prompt: 3, Completion: 2}}},
		{Chat, `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`, Reply{Bytes: 3}},
		{Chat, `{"choices":[{"message":{"content":"a"}},{"message":{"content":"bc"}}],"usage":null}`, Reply{Text: "a", Bytes: 3}},
		{Chat, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":-3,"completion_tokens":2}}`, Reply{Text: "a", Bytes: 1}},
		{Chat, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3}}`, Reply{Text: "a", Bytes: 1}},
		{Chat, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3.0,"completion_tokens":2.0}}`, Reply{Text: "a", Bytes: 1, Usage: &Usage{Prompt: 3, Completion: 2}}},
		{Chat, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":3.2,"completion_tokens":null}}`, Reply{Text: "a", Bytes: 1}},
		{Chat, `{"choices":[{"message":{"content":"a"}}],"usage":[3,2]}`, Reply{Text: "a", Bytes: 1}},
		{Responses, `{"output":[],"usage":{"input_tokens":"3","output_tokens":2.5}}`, Reply{}},
		{Responses, `{"output":[{"type":"message","content":[{"text":"a"},{"text":"b"}]},{"arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":2}}`, Reply{Text: "ab", Bytes: 4, Usage: &Usage{Prompt: 3, Completion: 2}}},
		{Chat, `{"choices":[{"message":{"content":null,"reasoning_content":"why","reasoning":"why","refusal":"no"}}]}`, Reply{Bytes: 5}},
		{Chat, `{"choices":[{"message":{"content":"a","reasoning":{"text":"why"},"reasoning_content":null}}]}`, Reply{Text: "a", Bytes: 1}},
		{Chat, `{"choices":[{"message":{"tool_calls":[{"type":"custom","custom":{"name":"f","input":"abc"}}]}}]}`, Reply{Bytes: 4}},
		{Responses, `{"output":[{"type":"reasoning","summary":[{"text":"why"}]},{"content":[{"type":"refusal","refusal":"no"}]},{"input":"abc"},{"code":"x","summary":7}]}`, Reply{Bytes: 9}},
		{Responses, `{"status":"incomplete","error":null,"output":[]}`, Reply{}},
		{Responses, `{"status":"queued","output":[]}`, Reply{Pending: true}},
	} {
		for _, codec := range codecs() {
			got, err := codec.ParseReply(c.e, []byte(c.body))
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", c.body, err, diff)
			}
		}
	}
	for e, bodies := range map[Endpoint][]string{Chat: {``, `{`, `{}`, `{"choices":[]}`, `<html>`, `{"choices":1}`}, Responses: {`{`, `{}`, `[]`, `{"status":"failed","error":{"message":"x"},"output":[]}`, `{"status":"cancelled","output":[]}`}} {
		for _, body := range bodies {
			if r, err := Standard().ParseReply(e, []byte(body)); err == nil {
				t.Errorf("%s: %q accepted: %+v", e, body, r)
			}
		}
	}
}

// data is an event that has no name.
func data(text string) Frame { return Frame{Data: []byte(text)} }

func TestParseEvent(t *testing.T) {
	for _, c := range []struct {
		e    Endpoint
		data string
		want Event
	}{
		{Chat, `[DONE]`, Event{Done: true}},
		{Chat, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}`, Event{}},
		{Chat, `{"choices":[{"index":1,"delta":{"content":"hi"}},{"index":0,"delta":{"content":"x"}}]}`, Event{Deltas: []Delta{{1, "hi"}, {0, "x"}}, Bytes: 3}},
		{Chat, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}`, Event{Bytes: 3}},
		{Chat, `{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":"abc"}}]}}]}`, Event{Bytes: 3}},
		{Chat, `{"choices":[{"delta":{"reasoning_content":"why"}},{"delta":{"reasoning":"how","content":null}},{"delta":{"refusal":"no"}}]}`, Event{Bytes: 8}},
		{Chat, `{"choices":[{"delta":{"reasoning":["why"],"reasoning_content":1,"refusal":null}}]}`, Event{}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, Event{Usage: &Usage{Prompt: 1, Completion: 2}, UsageOnly: true}},
		{Chat, `{"choices":[{"index":2,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":null}]}`, Event{Ended: []int{2}}},
		{Responses, `{"type":"response.output_text.done","text":"hi"}`, Event{}},
		{Chat, `{"error":{"message":"overloaded"}}`, Event{Failed: Fault{Message: "overloaded"}}},
		{Chat, `{"error":{"message":"busy","type":"server_error","code":529}}`, Event{Failed: Fault{Message: "busy", Type: "server_error"}}},
		{Chat, `{"error":"busy (33/32)"}`, Event{Failed: Fault{Message: "busy (33/32)"}}},
		{Chat, `{"object":"error","message":"busy","code":"full"}`, Event{Failed: Fault{Message: "busy", Code: "full"}}},
		{Chat, `{"detail":"busy"}`, Event{Failed: Fault{Message: "busy"}}},
		{Chat, `{"choices":[{"delta":{"content":"a"}}],"error":"","message":"x"}`, Event{Deltas: []Delta{{0, "a"}}, Bytes: 1}},
		{Responses, `{"type":"error","code":"full","message":"busy","param":null}`, Event{Done: true, Typed: true, Failed: Fault{Message: "busy", Code: "full"}}},
		{Responses, `{"type":"response.failed","response":{"error":{"code":"full","message":"busy"}}}`, Event{Done: true, Typed: true, Failed: Fault{Message: "busy", Code: "full"}}},
		{Responses, `{"error":"busy"}`, Event{Done: true, Failed: Fault{Message: "busy"}}},
		// Odd numbers and reasons are no reason to fail.
		{Chat, `{"choices":[{"index":1.0,"delta":{"content":"a"},"finish_reason":{"x":1}}]}`, Event{Deltas: []Delta{{1, "a"}}, Bytes: 1}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":1e1}}`, Event{Usage: &Usage{Prompt: 7, Completion: 10}, UsageOnly: true}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":1}}`, Event{Usage: &Usage{Prompt: 7, Completion: 1}, UsageOnly: true}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":7.5,"completion_tokens":1}}`, Event{}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":"many","completion_tokens":1}}`, Event{}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":[7],"completion_tokens":{}}}`, Event{}},
		{Chat, `{"choices":[],"usage":{"prompt_tokens":1e99,"completion_tokens":1}}`, Event{}},
		{Chat, `{"choices":[],"usage":"none"}`, Event{}},
		{Responses, `{"type":"response.completed","response":{"usage":{"input_tokens":1.0,"output_tokens":"x"}}}`, Event{Done: true}},
		{Responses, `{"type":"response.completed","response":{"usage":{"input_tokens":1.0,"output_tokens":2.0}}}`, Event{Usage: &Usage{Prompt: 1, Completion: 2}, Done: true}},
		{Chat, `{"error":{}}`, Event{Failed: Fault{Message: "without a reason"}}},
		{Responses, `{"type":"response.created","response":{"output":[]}}`, Event{}},
		{Responses, `{"type":"response.created","sequence_number":0,"response":{"id":"r","created_at":5.0,"model":"m"}}`, Event{Start: &Start{"r", 5, "m"}, Next: 1}},
		{Responses, `{"type":"response.in_progress","sequence_number":"x","response":{"id":7,"model":[]}}`, Event{}},
		{Responses, `{"type":"response.incomplete","sequence_number":9,"response":{"usage":{"input_tokens":1,"output_tokens":2}}}`, Event{Usage: &Usage{Prompt: 1, Completion: 2}, Done: true, Next: 10}},
		{Responses, `{"type":"response.output_text.delta","delta":"hi"}`, Event{Deltas: []Delta{{0, "hi"}}, Bytes: 2}},
		{Responses, `{"type":"response.function_call_arguments.delta","delta":"{}"}`, Event{Bytes: 2}},
		{Responses, `{"type":"response.reasoning_summary_text.delta","delta":"why"}`, Event{Bytes: 3}},
		{Responses, `{"type":"response.custom_tool_call_input.delta","delta":"abc"}`, Event{Bytes: 3}},
		{Responses, `{"type":"response.unheard_of.delta","delta":{"x":1}}`, Event{}},
		{Responses, `{"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2}}}`, Event{Usage: &Usage{Prompt: 1, Completion: 2}, Done: true}},
		{Responses, `{"type":"error","message":"overloaded"}`, Event{Done: true, Typed: true, Failed: Fault{Message: "overloaded"}}},
		{Responses, `{"type":"response.failed"}`, Event{Done: true, Typed: true, Failed: Fault{Message: "the model failed"}}},
		{Chat, " [DONE]\t", Event{Done: true}},
	} {
		for _, codec := range codecs() {
			var got Event
			err := codec.ParseEvent(c.e, data(c.data), &got)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", c.data, err, diff)
			}
		}
	}
	for e, text := range map[Endpoint]string{Chat: `{"choices":[{"delta":{"content":`, Responses: `{}`} {
		if err := Standard().ParseEvent(e, data(text), new(Event)); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %s: %v", e, text, err)
		}
	}
}

// TestRewrite: texts that go on are distinguished by where they stand; all else is as it was, byte for
// byte.
func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		e          Endpoint
		data, want string
		places     []string
	}{
		{
			Chat, `{"id":"x", "n":9007199254740993,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null},{"delta":{},"index":1},{"delta":{"refusal":"b"},"index":2}]}`,
			`{"id":"x", "n":9007199254740993,"choices":[{"index":0,"delta":{"role":"assistant","content":"<a>"},"finish_reason":null},{"delta":{},"index":1},{"delta":{"refusal":"<b>"},"index":2}]}`,
			[]string{`0,"delta":{"content":`, `2,"delta":{"refusal":`},
		},
		{
			Chat, `{"choices":[{"delta":{"d\u0065ep":{"x":"a"},"tool_calls":[{"id":"i","function":{"name":"f","arguments":"b"},"index":3}],"list":["s",{"text":"c"}],"content":null}}]}`,
			`{"choices":[{"delta":{"d\u0065ep":{"x":"<a>"},"tool_calls":[{"id":"i","function":{"name":"f","arguments":"<b>"},"index":3}],"list":["s",{"text":"<c>"}],"content":null}}]}`,
			[]string{`0,"delta":{"deep":{"x":`, `0,"delta":{"tool_calls":[{"index":3,"function":{"arguments":`, `0,"delta":{"list":[{"index":1,"text":`},
		},
		{Chat, `{"choices":"x","delta":"y"}`, `{"choices":"x","delta":"y"}`, nil},
		{Chat, `{"choices":["x",{"delta":"y"}]}`, `{"choices":["x",{"delta":"y"}]}`, nil},
		{Responses, `{"type":"response.output_text.delta","delta":"a","output_index":1}`, `{"type":"response.output_text.delta","delta":"<a>","output_index":1}`, []string{"response.output_text  1  "}},
		{Responses, `{"type":"response.audio.delta","delta":{"x":"a"}}`, `{"type":"response.audio.delta","delta":{"x":"a"}}`, nil},
		{Responses, `{"type":"response.output_text.done","delta":"a","text":"b"}`, `{"type":"response.output_text.done","delta":"a","text":"b"}`, nil},
		{
			Messages, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"},"index":2}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"<a>"},"index":2}`,
			[]string{`2,"delta":{"type":"text_delta","text":`},
		},
		{
			Messages, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"<{\"a>"}}`,
			[]string{`0,"delta":{"type":"input_json_delta","partial_json":`},
		},
		{
			Messages, `{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"a"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"<a>"}}`,
			[]string{`1,"delta":{"type":"thinking_delta","thinking":`},
		},
		{Messages, `{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"a"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"a"}}`, nil},
		{Messages, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, nil},
	} {
		var places []string
		got, err := Standard().Rewrite(c.e, []byte(c.data), Rewriter{
			Whole: func(_ string, value []byte) ([]byte, int) { return value, 0 },
			Piece: func(p Place, piece string) string {
				places = append(places, string(p.Key))
				if c.e != Responses { // an event that goes on there has its piece there
					again := ""
					_, more := Standard().Continue(c.e, p.Clone(), "x\"y")
					_, err := Standard().Rewrite(c.e, more, Rewriter{
						Whole: func(_ string, value []byte) ([]byte, int) { return value, 0 },
						Piece: func(q Place, piece string) string { again = string(q.Key) + piece; return piece },
					})
					if want := string(p.Key) + "x\"y"; err != nil || again != want && !strings.Contains(want, "list") {
						t.Errorf("%s goes on at %s, %v", want, again, err)
					}
				}
				return "<" + piece + ">"
			},
		})
		// encoding/json writes angle brackets as escapes.
		if diff := cmp.Diff(c.places, places); err != nil || strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(got)) != c.want || diff != "" {
			t.Errorf("%s, %v\nwant %s\n%s", got, err, c.want, diff)
		}
	}
	if got, err := Standard().Rewrite(Chat, []byte(`{"choices":[`), Rewriter{}); err == nil {
		t.Errorf("%s", got)
	}
}

func TestWithoutLogprobs(t *testing.T) {
	for _, c := range []struct {
		e          Endpoint
		data, want string
	}{
		{Chat, `{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]}`, `{"choices":[{"delta":{"content":"a"},"logprobs":null}]}`},
		{Chat, `{"choices":[{"logprobs":null}]}`, `{"choices":[{"logprobs":null}]}`},
		{Responses, `{"delta":"a","logprobs":[{"token":"a"}],"part":{"logprobs":[1]}}`, `{"delta":"a","logprobs":[],"part":{"logprobs":[]}}`},
		{Responses, `{"tools":[{"parameters":{"properties":{"logprobs":{"type":"x"}}}}]}`, `{"tools":[{"parameters":{"properties":{"logprobs":{"type":"x"}}}}]}`},
		{Messages, `{"content":[{"type":"tool_use","input":{"logprobs":[1]}}]}`, `{"content":[{"type":"tool_use","input":{"logprobs":[1]}}]}`},
	} {
		if got := Standard().WithoutLogprobs(c.e, []byte(c.data)); string(got) != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

func TestAppendFault(t *testing.T) {
	for status, kind := range map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 502: "server_error"} {
		var e struct{ Error Error }
		if err := json.Unmarshal(AppendFault(nil, Chat, status, "p", Fault{Message: `a "b"`, Code: "c", ID: "r"}), &e); err != nil || e.Error != (Error{`a "b"`, kind, "p", "c", "r"}) {
			t.Errorf("%d: %+v, %v", status, e, err)
		}
	}
}

// TestReader reads streams whole, and byte by byte.
func TestReader(t *testing.T) {
	for text, want := range map[string]struct {
		frames []string
		err    error
	}{
		"":                                      {nil, io.EOF},
		"data: a\n\ndata: b\n\n":                {[]string{"a", "b"}, io.EOF},
		"data:a\r\n\r\ndata: b\r\n\r\n":         {[]string{"a", "b"}, io.EOF},
		": comment\n\ndata: a\n\n":              {[]string{"a"}, io.EOF},
		"event: x\ndata: a\ndata: b\n\n":        {[]string{"x|a\nb"}, io.EOF},
		"event: x\n\ndata: a\n\n":               {[]string{"a"}, io.EOF},
		"id: 1\nretry: 5\ndata\n\n":             {nil, io.EOF},
		"data:\n\ndata: a\n\ndata: \ndata:\n\n": {[]string{"a"}, io.EOF},
		"data: a\n\ndata: b\n":                  {[]string{"a"}, ErrCut},
		"data: a\n\ndata: b":                    {[]string{"a"}, ErrCut},
		"data: a\n\ndata: {\"b\":":              {[]string{"a"}, ErrCut},
		"data: a\n\ndata: [DONE]\n":             {[]string{"a", "[DONE]"}, io.EOF},
		"data: a\n\ndata: [DONE]":               {[]string{"a", "[DONE]"}, io.EOF},
		"event: x\r\ndata: {}\r\n":              {[]string{"x|{}"}, io.EOF},
		"data: [DONE]\n: comment\n":             {[]string{"[DONE]"}, io.EOF},
		// The examples of the HTML standard, section 9.2.6, and its ends of lines.
		"\ufeffdata: a\n\n\ufeffdata: b\n\n":                     {[]string{"a"}, io.EOF},
		"\ufeff":                                                 {nil, io.EOF},
		"\ufeff\ufeffdata: a\n\ndata: b\n\n":                     {[]string{"b"}, io.EOF},
		"data: a\r\rdata: b\r\r":                                 {[]string{"a", "b"}, io.EOF},
		"data: a\rdata: b\n\rdata: c\r\n\r":                      {[]string{"a\nb", "c"}, io.EOF},
		"\rdata: a\n\n\r\ndata: b\r\n\n":                         {[]string{"a", "b"}, io.EOF},
		"data: {}\r":                                             {[]string{"{}"}, io.EOF},
		"data:YHOO\ndata:+2\ndata:10\n\n":                        {[]string{"YHOO\n+2\n10"}, io.EOF},
		": test\n\ndata: a\nid: 1\n\ndata:b\nid\n\ndata:  c\n\n": {[]string{"a", "b", " c"}, io.EOF},
		"data\n\ndata\ndata\n\ndata:":                            {nil, ErrCut},
		"data:a\n\ndata: a\n\n":                                  {[]string{"a", "a"}, io.EOF},
		"data: " + strings.Repeat("x", 9000) + "\n\n":            {[]string{strings.Repeat("x", 9000)}, io.EOF},
	} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			r := NewReader(in)
			var got []string
			var err error
			raw := ""
			for {
				var f Frame
				if f, err = r.Next(); err != nil {
					break
				}
				name := ""
				if len(f.Name) > 0 {
					name = string(f.Name) + "|"
				}
				got = append(got, name+string(f.Data))
				raw += string(f.Raw)
			}
			if diff := cmp.Diff(want.frames, got); diff != "" || !errors.Is(err, want.err) {
				t.Errorf("%.40q: %v\n%s", text, err, diff)
			}
			if n := len(got); n > 0 && !strings.HasSuffix(strings.ReplaceAll(raw, "\r", ""), "\n\n") {
				t.Errorf("%.40q: raw %q", text, raw)
			}
			if rest := strings.ReplaceAll(raw, "\r\n", "\n"); strings.Contains(rest, "\r") {
				t.Errorf("%.40q: raw %q", text, raw)
			}
			// What is passed on is read the same.
			again := NewReader(strings.NewReader(raw))
			for _, want := range got {
				if f, err := again.Next(); err != nil || string(f.Data) != want[strings.Index(want, "|")+1:] {
					t.Errorf("%.40q: raw %q is read as %q, %v", text, raw, f.Data, err)
				}
			}
		}
	}
	large := NewReader(strings.NewReader("data: " + strings.Repeat("x", 1000)))
	large.Most = 1000
	if _, err := large.Next(); !errors.Is(err, ErrLarge) || err.Error() != "an event has more than 1000 bytes" {
		t.Errorf("without end: %v", err)
	}
	broken := errors.New("broken")
	if _, err := NewReader(io.MultiReader(strings.NewReader("data: a\n"), iotest.ErrReader(broken))).Next(); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
}

// TestReaderAgreesWithTheStandard: any stream, cut anywhere, has the events that the HTML standard says, but for those with
// blank data. What is passed on of it means the same.
func TestReaderAgreesWithTheStandard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := ssetest.Draw(t)
		all := ssetest.Read(string(stream), time.Hour)
		var want []ssetest.Event
		for _, e := range all.Events {
			if strings.TrimSpace(e.Data) != "" {
				want = append(want, ssetest.Event{Type: e.Type, Data: e.Data})
			}
		}
		pieces := iotest.OneByteReader(bytes.NewReader(stream))
		if rapid.Bool().Draw(t, "whole") {
			pieces = bytes.NewReader(stream)
		}
		r := NewReader(pieces)
		var raw []byte
		for n := 0; ; n++ {
			f, err := r.Next()
			if err != nil || n == len(want) { // a last event that lacks only its end counts
				if n != len(want) || err == nil && all.Rest == len(stream) {
					t.Fatalf("%q: %d events, %v, want %+v", stream, n, err, want)
				}
				break
			}
			if string(f.Name) != want[n].Type || string(f.Data) != want[n].Data {
				t.Fatalf("%q: event %d is %q %q, want %+v", stream, n, f.Name, f.Data, want[n])
			}
			raw = append(raw, f.Raw...)
		}
		again := ssetest.Read(string(raw), time.Hour).Events
		if len(again) != len(want) {
			t.Fatalf("%q is passed on as %q", stream, raw)
		}
	})
}

// TestAlive: who reads is told of all that comes and is no event, before more is waited for.
func TestAlive(t *testing.T) {
	r := NewReader(&bursts{pieces: []string{"data: a\n\n", ": ping\n\n", ":\n", ":\n", "data: b\n", "\ndata: c\n\n", "data:\n\n"}})
	alive := 0
	r.Alive = func() { alive++ }
	for _, want := range []struct {
		data  string
		alive int
	}{{"a", 0}, {"b", 4}, {"c", 0}, {"", 1}} {
		alive = 0
		if f, err := r.Next(); string(f.Data) != want.data || alive != want.alive || (err != nil) != (want.data == "") {
			t.Errorf("%q, %v, alive %d times, want %+v", f.Data, err, alive, want)
		}
	}
}

// bursts is a stream of which some comes at once. It notes how much room it is read into.
type bursts struct {
	pieces []string
	rooms  []int
}

func (b *bursts) Read(p []byte) (int, error) {
	b.rooms = append(b.rooms, len(p))
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.pieces[0])
	if b.pieces[0] = b.pieces[0][n:]; b.pieces[0] == "" {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

// newReaders uses no reader twice.
type newReaders struct{}

func (newReaders) Get(from io.Reader) *Reader { return NewReader(from) }
func (newReaders) Put(*Reader)                {}

// TestReaders: pieces of any size, and a reader used before, do not change what is read of a stream.
// While it waits it holds the small buffer only; long answers are read in large pieces.
func TestReaders(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		var p Readers = &ReaderPool{}
		if !pooled {
			p = newReaders{}
		}
		rapid.Check(t, func(t *rapid.T) {
			in := &bursts{}
			var want []string
			for range rapid.IntRange(0, 8).Draw(t, "bursts") {
				burst := ""
				for range rapid.IntRange(1, 30).Draw(t, "events") {
					data := strings.Repeat("x", rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 40_000)).Draw(t, "bytes"))
					want = append(want, data)
					burst += "data: " + data + "\n\n"
				}
				in.pieces = append(in.pieces, burst)
			}
			r := p.Get(in)
			for _, w := range want {
				if f, err := r.Next(); err != nil || string(f.Data) != w {
					t.Fatalf("%d bytes, %v, want %d", len(f.Data), err, len(w))
				}
			}
			if f, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%q, %v", f.Raw, err)
			}
			p.Put(r)
		})
		in := &bursts{pieces: []string{strings.Repeat("data: x\n\n", 20_000), "data: y\n\n", "data: z\n\n"}}
		r := p.Get(in)
		for f, err := r.Next(); err == nil; f, err = r.Next() {
			if string(f.Data) == "z" && r.More() {
				t.Error("something behind the end")
			}
		}
		if n := len(in.rooms); in.rooms[n-1] != smallRead || in.rooms[n-2] != smallRead || n > 20 {
			t.Errorf("pooled %v: read into %v", pooled, in.rooms)
		}
	}
}

// TestMore: what comes next is an event with data, and all of it.
func TestMore(t *testing.T) {
	for behind, want := range map[string]bool{
		"": false, ": ping\n\n": false, ": ping\n\ndata: b\n\n": true, "data: b\n": false, "data: b\n\n": true, "event: x\n\n": false, "data\r\n\r\n": false, "data: \n\n": false, "data\ndata: b\n\n": true, "data: \n\ndata: b\r\n\r\n": true, "database: b\n\n": false,
	} {
		r := NewReader(strings.NewReader("data: a\n\n" + behind))
		if _, err := r.Next(); err != nil || r.More() != want {
			t.Errorf("%q: %v, %v", behind, r.More(), err)
		}
	}
}

func TestAppendFrame(t *testing.T) {
	f, err := NewReader(bytes.NewReader(AppendFrame(nil, "x", []byte(`{"a":1}`)))).Next()
	if err != nil || string(f.Name) != "x" || string(f.Data) != `{"a":1}` {
		t.Errorf("%q %q, %v", f.Name, f.Data, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{}],"stream":true,"stream_options":{"a":1}}`), uint8(Chat))
	f.Add([]byte(`{"model":"m","input":"x","n":1,"max_output_tokens":3}`), uint8(Responses))
	f.Add([]byte(`{"model":"m","max_tokens":3,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]}`), uint8(Messages))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`), uint8(Tokens))
	f.Fuzz(func(t *testing.T, body []byte, at uint8) {
		e := Endpoint(at % Endpoints)
		r, err := Standard().Parse(e, body)
		if err != nil {
			return
		}
		out := r.Body("other", Bound{Field: MaxTokens}, true)
		again, err := Standard().Parse(e, out)
		if err != nil {
			t.Fatalf("%s became %s: %v", body, out, err)
		}
		if again.Model != "other" || again.Stream != r.Stream || again.Stream && !again.IncludeUsage || again.MaxTokens != r.MaxTokens {
			t.Errorf("%s became %s", body, out)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("event: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: c\n\ndata: [DONE]\n\n"))
	f.Add([]byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(bytes.NewReader(text))
		total := 0
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			if total += len(frame.Raw); total > len(text)+len("\n\n") { // which the last one may lack
				t.Fatalf("%d bytes of %d", total, len(text))
			}
			for _, e := range []Endpoint{Chat, Responses, Messages} {
				var v Event
				if Standard().ParseEvent(e, frame, &v) != nil || len(v.Deltas) == 0 {
					continue
				}
				out, err := Standard().Rewrite(e, frame.Data, Rewriter{
					Whole: func(_ string, value []byte) ([]byte, int) { return value, 0 },
					Piece: func(Place, string) string { return "x" },
				})
				if err == nil && !json.Valid(out) {
					t.Errorf("%s became %s, %v", frame.Data, out, err)
				}
			}
		}
	})
}

// FuzzHasHiddenContext: whatever a request has, it is gone through, and a text names nothing.
func FuzzHasHiddenContext(f *testing.F) {
	for _, seed := range []string{`[{"id":"i"}]`, `[{"role":"user","content":[{"file":{"file_id":"f"}}]}]`, `"item_reference"`, `[[{"id":1}]]`, strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		f.Add(seed)
	}
	f.Add(`[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"u"}}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Standard().Parse(Messages, []byte(`{"model":"m","messages":`+text+`}`)); err == nil {
			r.HasHiddenContext()
		}
		r, err := Standard().Parse(Responses, []byte(`{"model":"m","input":`+text+`}`))
		if err != nil {
			return
		}
		if r.HasHiddenContext() && !strings.HasPrefix(strings.TrimSpace(text), "[") && !strings.Contains(text, ",") {
			t.Errorf("%s names something", text)
		}
	})
}

// What was used is read in the forms of several servers. Kinds that say nothing count as none.
func TestUsage(t *testing.T) {
	for text, want := range map[string]*Usage{
		`{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":900,"audio_tokens":10},"completion_tokens_details":{"reasoning_tokens":60,"audio_tokens":5,"accepted_prediction_tokens":1}}`: {Prompt: 1000, Completion: 100, Cached: 900, PromptAudio: 10, Reasoning: 60, CompletionAudio: 5},
		`{"input_tokens":50,"input_tokens_details":{"cached_tokens":7,"image_tokens":20},"output_tokens":1290,"output_tokens_details":{"reasoning_tokens":0,"image_tokens":1280},"total_tokens":1340}`:                       {Prompt: 50, Completion: 1290, Cached: 7, PromptImage: 20, CompletionImage: 1280},
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":3}`:                                                                                                                 {Prompt: 9, Completion: 1, Cached: 6},
		`{"prompt_tokens":9,"completion_tokens":1,"cache_read_input_tokens":6,"cache_creation_input_tokens":2,"prompt_tokens_details":{"cached_tokens":6}}`:                                                                  {Prompt: 9, Completion: 1, Cached: 6, CacheWrite: 2},
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":[],"cached_tokens":"many"}`:                                                                                       {Prompt: 9, Completion: 1},
		`{"prompt_tokens":9.0,"completion_tokens":"1","prompt_tokens_details":{"cached_tokens":-6,"audio_tokens":1.5}}`:                                                                                                      {Prompt: 9, Completion: 1},
		`{"prompt_tokens":null,"completion_tokens":null,"input_tokens":2,"output_tokens":3}`:                                                                                                                                 {Prompt: 2, Completion: 3},
		`{"prompt_tokens":9}`: nil, `{}`: nil, `[]`: nil, `null`: nil, `"none"`: nil, ``: nil, `{"prompt_tokens":9,"completion_tokens":1`: nil,
	} {
		if diff := cmp.Diff(want, usageOf([]byte(text))); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
	for end, want := range map[string]*Usage{
		`AAA"},"x":1}],"usage":{"prompt_tokens":9,"completion_tokens":1},"id":"x"}`:                                 {Prompt: 9, Completion: 1},
		`AAA","usage" : {"input_tokens":9,"output_tokens":1}}`:                                                      {Prompt: 9, Completion: 1},
		`{"usage":{"prompt_tokens":9,"completion_tokens":1},"said":"\"usage\":{\"prompt_tokens\":7}","usage":null}`: {Prompt: 9, Completion: 1},
		`"usage"`: nil, `"usage":`: nil, "": nil, `"said":"usage"`: nil,
	} {
		if diff := cmp.Diff(want, LastUsage(Chat, []byte(end))); diff != "" {
			t.Errorf("%s\n%s", end, diff)
		}
	}
}

// Base64 in an answer is not counted as text.
func TestTextBytes(t *testing.T) {
	image := strings.Repeat("Aa0+/", 100_000)
	for text, want := range map[string]int{
		"": 0, "hello there": 11, strings.Repeat("word ", 1000): 5000, strings.Repeat("天", 1000): 3000,
		image: len(image) / 16, "![x](data:image/png;base64," + image + ") and": 32 + len(image)/16, strings.Repeat("a", 255): 255,
	} {
		if got := textBytes(text); got < want-1 || got > want+10 {
			t.Errorf("%.30s: %d, want %d", text, got, want)
		}
	}
	var v Event
	if err := Standard().ParseEvent(Responses, data(`{"type":"response.output_audio.delta","delta":"`+strings.Repeat("A", 1600)+`"}`), &v); err != nil || v.Bytes != 100 {
		t.Errorf("%+v, %v", v, err)
	}
}
