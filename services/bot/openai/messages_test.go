package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMessages(t *testing.T) {
	const body = `{"model":"m","max_tokens":9,"stream":true,"n":3,"system":"be kind!","messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"u"}}`
	r := parse(t, Messages, body)
	if r.Model != "m" || !r.Stream || !r.IncludeUsage || r.Choices != 1 || r.MaxCompletion() != 9 || r.PromptTokens != 3+8 || r.Background {
		t.Errorf("%+v", r)
	}
	if r := parse(t, Tokens, body); r.Stream || r.MaxCompletion() != 0 || r.PromptTokens != 3+8 {
		t.Errorf("%+v", r)
	}
	for body, want := range map[string]string{
		`{"model":"m"}`:                                 "messages: must be there",
		`{"model":"m","messages":"hi"}`:                 "messages: must be there",
		`{"model":"m","System":"x"}`:                    "System: ",
		`{"messages":[{}],"model":"m","max_tokens":-1}`: "max_tokens: must be",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"Data":"x"}}]}]}`: "messages.0.content.0.source.Data: ",
	} {
		var fault *RequestError
		if _, err := Standard().Parse(Messages, []byte(body)); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestMessagesBody: the name of the model and a bound that is missing are all that changes.
func TestMessagesBody(t *testing.T) {
	const rest = `"messages":[ {"role":"user","content":[{"type":"thinking","thinking":"é","signature":"AA+/=="}]} ],"model":"%s"%s,"top_k":9007199254740993}`
	for _, c := range []struct{ before, after string }{
		{"{" + fmt.Sprintf(rest, "m", ""), "{" + fmt.Sprintf(rest, "own", "")},
		{`{"max_tokens":5,` + fmt.Sprintf(rest, "m", `,"stream":true`), `{"max_tokens":5,` + fmt.Sprintf(rest, "own", `,"stream":true`)},
	} {
		r := parse(t, Messages, c.before)
		if got := string(r.Body("own", Bound{Field: MaxCompletionTokens, Only: true}, true)); got != c.after {
			t.Errorf("%s\nwant %s", got, c.after)
		}
		if added := r.Bound(7); added != !strings.Contains(c.before, "max_tokens") {
			t.Errorf("%s: %t", c.before, added)
		}
		want := c.after
		if r.MaxTokens == 7 {
			want = `{"max_tokens":7,` + c.after[1:]
		}
		if got := string(r.Body("own", Bound{Field: MaxTokens}, true)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestMessagesMedia: images count as such, whatever their bytes; documents by their bytes; texts as texts.
func TestMessagesMedia(t *testing.T) {
	long := strings.Repeat("A", 64*100)
	for name, c := range map[string]struct {
		source string
		tokens int // beyond those of the JSON around it
	}{
		"image":      {`{"data":"` + long + `","type":"base64","media_type":"image/png"}`, imageTokens},
		"image link": {`{"type":"url","url":"` + long + `"}`, imageTokens},
		"document":   {`{"type":"base64","media_type":"application/pdf","data":"` + long + `"}`, 100},
		"text":       {`{"type":"text","media_type":"text/plain","data":"` + long + `"}`, len(long) / 4},
	} {
		said := `[{"role":"user","content":[{"type":"tool_result","content":[{"type":"x","source":` + c.source + `}]}]}]`
		around := EstimateTokens(len(said) - len(long))
		if got := parse(t, Messages, `{"model":"m","messages":`+said+`}`).PromptTokens; got-around-c.tokens > 1 || around+c.tokens-got > 1 {
			t.Errorf("%s: %d, want %d", name, got, around+c.tokens)
		}
	}
}

func TestMessagesHiddenContext(t *testing.T) {
	said := func(content string) string { return `"messages":[{"role":"user","content":` + content + `}]` }
	for more, want := range map[string]struct{ hidden, continues bool }{
		said(`"hi"`):                                                                             {},
		said(`"hi"`) + `,"container":"c"`:                                                        {true, true},
		said(`"hi"`) + `,"thread":{"id":"t"}`:                                                    {true, true},
		said(`"hi"`) + `,"mcp_servers":[{"url":"u"}]`:                                            {true, false},
		said(`"hi"`) + `,"tools":[{"type":"web_search_20250305"}]`:                               {true, false},
		said(`"hi"`) + `,"tools":[{"type":"code_execution_20260521"}]`:                           {true, false},
		said(`"hi"`) + `,"tools":[{"name":"f","input_schema":{}},{"type":"custom"}]`:             {},
		said(`[{"type":"document","source":{"url":"u","type":"url"}}]`):                          {true, false},
		said(`[{"source":{"type":"url","url":"u"},"type":"image"}]`):                             {},
		said(`[{"type":"image","source":{"type":"file","file_id":"f"}}]`):                        {true, false},
		said(`[{"type":"container_upload","file_id":"f"}]`):                                      {true, false},
		said(`[{"type":"tool_result","content":[{"type":"document","source":{"type":"url"}}]}]`): {true, false},
		said(`[{"type":"document","source":{"type":"text","data":"a"}}]`):                        {},
	} {
		r := parse(t, Messages, `{"model":"m","temperature":0,`+more+`}`)
		if r.HasHiddenContext() != want.hidden || r.Continues() != want.continues || r.Deterministic() == want.continues {
			t.Errorf("%s: hidden %t, continues %t, deterministic %t", more, r.HasHiddenContext(), r.Continues(), r.Deterministic())
		}
	}
}

func TestKeyOfMessages(t *testing.T) {
	key := func(body, beta string) string {
		r := parse(t, Messages, body)
		r.Header = map[string]string{"Anthropic-Version": "1", "Anthropic-Beta": beta}
		return string(r.Key())
	}
	one := key(`{"model":"m","messages":[{}],"metadata":{"user_id":"a"}}`, "x")
	if key(`{"messages":[{}],"model":"m","metadata":{"user_id":"b"}}`, "x") != one {
		t.Error("users have different keys")
	}
	if key(`{"model":"m","messages":[{}]}`, "y") == one || key(`{"model":"m","messages":[{}],"top_k":1}`, "x") == one {
		t.Error("different requests have one key")
	}
}

func TestParseMessageReply(t *testing.T) {
	for body, want := range map[string]Reply{
		`{"id":"msg_1","type":"message","content":[{"type":"thinking","thinking":"why","signature":"AAAA"},{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"tool_use","name":"f","input":{"x":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"cache_read_input_tokens":20,"cache_creation_input_tokens":100,"output_tokens":7,"output_tokens_details":{"thinking_tokens":2},"server_tool_use":{"web_search_requests":1}}}`: {
			Text: "ab", Bytes: 3 + 2 + 1 + 7, Usage: &Usage{Prompt: 123, Completion: 7, Cached: 20, CacheWrite: 100, Reasoning: 2},
		},
		`{"content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":null,"output_tokens":1}}`: {Usage: &Usage{Prompt: 3, Completion: 1}},
		`{"content":[{"type":"text","text":"a"}]}`:                                                   {Text: "a", Bytes: 1},
		`{"content":[{"type":"text","text":"a"}],"usage":{"input_tokens":"many"}}`:                   {Text: "a", Bytes: 1},
	} {
		got, err := Standard().ParseReply(Messages, []byte(body))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
	for body, want := range map[string]error{`{`: ErrForm, `{"content":"a"}`: ErrForm, `{}`: ErrNone, `{"type":"error","error":{"type":"overloaded_error","message":"later"}}`: ErrNone} {
		if r, err := Standard().ParseReply(Messages, []byte(body)); !errors.Is(err, want) {
			t.Errorf("%s: %v, %+v", body, err, r)
		}
	}
	if r, err := Standard().ParseReply(Tokens, AppendTokens(nil, Tokens, 12)); err != nil || r.Usage == nil || *r.Usage != (Usage{}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Standard().ParseReply(Tokens, []byte(`{"input_tokens":"x"}`)); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	cut := []byte(`AAA"}],"usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3}}`)
	if diff := cmp.Diff(&Usage{Prompt: 3, Cached: 2, Completion: 3}, LastUsage(Messages, cut)); diff != "" {
		t.Error(diff)
	}
}

func TestParseMessageEvent(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Event
	}{
		{"message_start", `{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":1}}}`, Event{Usage: &Usage{Prompt: 12, Cached: 7, Completion: 1}}},
		{"", `{"type":"message_start","message":"x"}`, Event{}},
		{"content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"get","input":{}}}`, Event{Bytes: 3}},
		{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`, Event{Deltas: []Delta{{0, "hello"}}, Bytes: 5}},
		{"content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`, Event{Bytes: 4}},
		{"content_block_delta", `{"type":"content_block_delta","index":2,"delta":{"type":"thinking_delta","thinking":"why"}}`, Event{Bytes: 3}},
		{"content_block_delta", `{"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"AAAA"}}`, Event{}},
		{"content_block_stop", `{"type":"content_block_stop","index":2}`, Event{Ended: []int{2}}},
		{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, Event{Usage: &Usage{Completion: 9}}},
		{"message_stop", `{"type":"message_stop"}`, Event{Done: true}},
		{"ping", `{"type":"ping"}`, Event{}},
		{"new", `{"type":"new","delta":{"text":"x"}}`, Event{}},
		{"error", `{"type":"error","error":{"type":"overloaded_error","message":"later"},"request_id":"r"}`, Event{Done: true, Typed: true, Failed: Fault{Message: "later", Type: "overloaded_error"}}},
		{"", `{"type":"error"}`, Event{Done: true, Typed: true, Failed: Fault{Message: unknown}}},
		{"error", `{"message":"later"}`, Event{Done: true, Failed: Fault{Message: "later"}}},
		{"", `{"error":{"message":"later"}}`, Event{Done: true, Failed: Fault{Message: "later"}}},
	} {
		got := Event{Deltas: make([]Delta, 1), Ended: make([]int, 1)}
		err := Standard().ParseEvent(Messages, Frame{Name: []byte(c.name), Data: []byte(c.data)}, &got)
		if len(got.Deltas) == 0 {
			got.Deltas = nil
		}
		if len(got.Ended) == 0 {
			got.Ended = nil
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.data, err, diff)
		}
	}
	var v Event
	for _, bad := range []string{`{`, `[]`, `{}`, `{"delta":{"text":"x"}}`} {
		if err := Standard().ParseEvent(Messages, data(bad), &v); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestLatest: the usage of a stream comes in parts.
func TestLatest(t *testing.T) {
	start, delta := &Usage{Prompt: 12, Cached: 7, Completion: 1}, &Usage{Completion: 9, Reasoning: 2}
	if diff := cmp.Diff(&Usage{Prompt: 12, Cached: 7, Completion: 9, Reasoning: 2}, Messages.Latest(start, delta)); diff != "" {
		t.Error(diff)
	}
	if Messages.Latest(start, nil) != start || Messages.Latest(nil, delta) != delta || Chat.Latest(start, delta) != delta || Chat.Latest(start, nil) != start {
		t.Error("one of two is not the latest")
	}
}

func TestMessageFaults(t *testing.T) {
	for _, c := range []struct {
		status int
		param  string
		f      Fault
		want   string
	}{
		{401, "", Fault{Message: "no key"}, `{"error":{"message":"no key","type":"authentication_error"},"request_id":null,"type":"error"}`},
		{404, "model", Fault{Message: `model: "x"`, ID: "r1"}, `{"error":{"message":"model: \"x\"","type":"not_found_error"},"request_id":"r1","type":"error"}`},
		{400, "tools", Fault{Message: "too many", Type: "server_error"}, `{"error":{"message":"tools: too many","type":"invalid_request_error"},"request_id":null,"type":"error"}`},
		{499, "", Fault{}, `{"error":{"message":"","type":"invalid_request_error"},"request_id":null,"type":"error"}`},
		{502, "", Fault{Message: "x"}, `{"error":{"message":"x","type":"api_error"},"request_id":null,"type":"error"}`},
		{502, "", Fault{Message: "x", Type: "overloaded_error"}, `{"error":{"message":"x","type":"overloaded_error"},"request_id":null,"type":"error"}`},
	} {
		if got := string(AppendFault(nil, Messages, c.status, c.param, c.f)); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	const want = "event: error\ndata: " + `{"error":{"message":"cut","type":"api_error"},"request_id":null,"type":"error"}` + "\n\n"
	if got := string(AppendFailure(nil, Messages, 502, Fault{Message: "cut"}, nil, 3)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
