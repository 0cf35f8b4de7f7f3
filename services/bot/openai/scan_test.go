package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// A reference is a message or a delta as encoding/json reads it.
type reference struct {
	Content          json.RawMessage
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage
	Refusal          json.RawMessage
	ToolCalls        []struct {
		Function, Custom struct{ Name, Arguments, Input json.RawMessage }
	} `json:"tool_calls"`
}

func (s *reference) read() (text string, bytes int) {
	length := func(value json.RawMessage) int {
		var text string
		_ = json.Unmarshal(value, &text)
		return len(text)
	}
	made := func(value json.RawMessage) int {
		if len(value) > 0 && (value[0] == '{' || value[0] == '[') {
			return len(value)
		}
		return length(value)
	}
	var list []json.RawMessage
	if bytes = made(s.Content); json.Unmarshal(s.Content, &text) != nil && json.Unmarshal(s.Content, &list) == nil {
		bytes = 0
		for _, each := range list {
			var part struct{ Text, Refusal, Thinking json.RawMessage }
			if json.Unmarshal(each, &part) != nil {
				bytes += len(each)
				continue
			}
			var piece string
			if json.Unmarshal(part.Text, &piece) == nil {
				text += piece
			}
			bytes += made(part.Text) + length(part.Refusal) + made(part.Thinking)
		}
	}
	bytes += max(length(s.ReasoningContent), length(s.Reasoning)) + length(s.Refusal)
	for _, call := range s.ToolCalls {
		bytes += length(call.Function.Name) + made(call.Function.Arguments) + length(call.Custom.Name) + made(call.Custom.Input)
	}
	return text, bytes
}

// agrees fails the test if a reply and an event are read otherwise than by encoding/json. It tells whether they are readable.
func agrees(t interface {
	Fatalf(format string, args ...any)
}, data []byte,
) (event, reply bool) {
	var v struct {
		Choices []struct {
			Index   json.RawMessage
			Finish  json.RawMessage `json:"finish_reason"`
			Delta   reference
			Message json.RawMessage
		}
		Usage json.RawMessage
	}
	event = json.Unmarshal(data, &v) == nil
	var got Event
	if err := got.parseChat(Standard(), data); (err == nil) != event {
		t.Fatalf("%q as an event: %v", data, err)
	}
	want := Event{Usage: usageOf(v.Usage), Failed: got.Failed, UsageOnly: len(v.Choices) == 0 && usageOf(v.Usage) != nil}
	for _, c := range v.Choices {
		index, _ := whole(c.Index)
		text, bytes := c.Delta.read()
		if text != "" {
			want.Deltas = append(want.Deltas, Delta{index, text})
		}
		var reason string
		if _ = json.Unmarshal(c.Finish, &reason); reason != "" {
			want.Ended = append(want.Ended, index)
		}
		want.Bytes += bytes
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); event && diff != "" {
		t.Fatalf("%q\n%s", data, diff)
	}

	var r struct {
		Choices []struct{ Message reference }
		Usage   json.RawMessage
	}
	reply = json.Unmarshal(data, &r) == nil && len(r.Choices) > 0
	answer, err := Standard().ParseReply(Chat, data)
	if (err == nil) != reply {
		t.Fatalf("%q as a reply: %v", data, err)
	}
	whole := Reply{Usage: usageOf(r.Usage)}
	for i, c := range r.Choices {
		text, bytes := c.Message.read()
		if i == 0 {
			whole.Text = text
		}
		whole.Bytes += bytes
	}
	if diff := cmp.Diff(whole, answer); reply && diff != "" {
		t.Fatalf("%q\n%s", data, diff)
	}
	return event, reply
}

// What is read is what encoding/json reads, but for names in capitals and members that come twice.
func TestScan(t *testing.T) {
	chunk := func(choice string) string {
		return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + `],"usage":null}`
	}
	for data, want := range map[string]bool{
		chunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`): true,
		chunk(`{"index":2,"delta":{"content":"\"\u00e9\\ é 天"},"finish_reason":null}`):                      true,
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`):                                              true,
		chunk(`{"delta":{"content":null,"x":[1,-2.5e3,{"A":true}]}},{"index":1,"delta":{"content":"b"}}`):   true,
		chunk(``): true,
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"details":{"x":[]}}}`: true,
		" { } ": true,
		chunk(`{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},null,{"custom":{"name":"g","input":{"a":1}}}]}}`): true,
		chunk(`{"index":0,"delta":{"tool_calls":null,"content":"a"}}`):                                                                        true,
		chunk(`{"index":0,"delta":{"content":null,"reasoning_content":"w\u0068y","reasoning":"why","refusal":""}}`):                           true,
		chunk(`{"index":0,"delta":{"reasoning":{"a":[]},"reasoning_content":null,"refusal":"no"}}`):                                           true,
		chunk(`{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"refusal":"b"},{"thinking":[1]},"c",null]}}`):                       true,
		chunk(`{"\u0069ndex":1,"delta":{"content":7}}`):                                                                                       true,
		chunk(`{"index":-1,"delta":{"content":"a"}}`):                                                                                         true,
		chunk(`{"index":1073741825,"delta":{"content":"a"}}`):                                                                                 true,
		chunk(`{"index":1.0,"delta":{"content":{"a":"b"}}}`):                                                                                  true,
		chunk(`{"index":01,"delta":{"content":"a"}}`):                                                                                         false,
		chunk(`{"delta":"a"}`):                                 false,
		chunk("{\"delta\":{\"content\":\"\xff\"}}"):            true,
		`{"error":null}`:                                       true,
		`{"usage":{"prompt_tokens":9}}`:                        true,
		`{"usage":{"prompt_tokens":-1,"completion_tokens":3}}`: true,
		`{"choices":{}}`:                                       false,
		`{"choices":[`:                                         false,
		`{"a":1}}`:                                             false,
		`{"a":"\x"}`:                                           false,
		`{"a":"\u12g4"}`:                                       false,
		`{"a":-}`:                                              false,
		`{"a":01}`:                                             false,
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: true,
	} {
		if event, _ := agrees(t, []byte(data)); event != want {
			t.Errorf("%s was read: %v", data, event)
		}
	}
	for data, want := range map[string]bool{
		`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","refusal":null,"content":"to \"keep\""},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`: true,
		`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`:               true,
		`{"choices":[{"message":{"content":"a","reasoning":"why","refusal":7}}]}`:             true,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f"}}]}}]}`: true,
		`{"choices":[null]}`:                      true,
		`{"choices":[]}`:                          false,
		`{"choices":[{"message":{"content":1}}]}`: true,
	} {
		if _, reply := agrees(t, []byte(data)); reply != want {
			t.Errorf("%s was read: %v", data, reply)
		}
	}
	deep := strings.Repeat("[", 2*maxNesting) + strings.Repeat("]", 2*maxNesting)
	if _, err := Standard().ParseReply(Chat, []byte(`{"a":`+deep+`}`)); !errors.Is(err, ErrForm) {
		t.Errorf("too deep: %v", err)
	}
}

func TestScanAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(`"a"`), rapid.Just("null"), rapid.Just(`"\ud83d\ude00"`), rapid.Just("1"), rapid.Map(rapid.String(), func(s string) string {
			b, _ := json.Marshal(s)
			return string(b)
		}))
		number := rapid.OneOf(rapid.Just("0"), rapid.Just("null"), rapid.Map(rapid.IntRange(-3, 1<<31), func(n int) string { return fmt.Sprint(n) }))
		key := rapid.SampledFrom([]string{"index", "delta", "content", "finish_reason", "tool_calls", "usage", "choices", "prompt_tokens", "completion_tokens", "error", "message", "detail", "reasoning_content", "reasoning", "refusal", "x"})
		var value func(depth int) string
		value = func(depth int) string {
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0:
				return text.Draw(t, "text")
			case kind == 1 || depth == 0:
				return number.Draw(t, "number")
			case kind == 2:
				var items []string
				for range rapid.IntRange(0, 2).Draw(t, "items") {
					items = append(items, value(depth-1))
				}
				return "[" + strings.Join(items, ", ") + "]"
			default:
				var fields []string
				for _, name := range rapid.SliceOfNDistinct(key, 0, 3, rapid.ID).Draw(t, "names") {
					fields = append(fields, `"`+name+`": `+value(depth-1))
				}
				return "{" + strings.Join(fields, ",") + "}"
			}
		}
		agrees(t, []byte(value(5)))
		agrees(t, fmt.Appendf(nil, `{"choices":[{"index":%s,"delta":{"content":%s,"reasoning":%s,"reasoning_content":%s},"message":{"content":%s,"refusal":%s},"finish_reason":%s}],"usage":%s}`,
			number.Draw(t, "index"), text.Draw(t, "content"), value(1), value(1), text.Draw(t, "message"), value(1), text.Draw(t, "reason"), value(2)))
	})
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"index":0,"delta":{"content":"a\n"},"finish_reason":null}]}`, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"a":[{},[],"\u00e9",-1.5e+5,true,false,null]}`, `{"a":"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if json.Unmarshal(data, &value) == nil { // names that come once, and have no capitals
			if data, _ = json.Marshal(value); bytes.Equal(data, bytes.ToLower(data)) {
				agrees(t, data)
				return
			}
		}
		var v Event
		for e := range Endpoint(Endpoints) {
			_, _ = Standard().ParseReply(e, data)
			_ = Standard().ParseEvent(e, Frame{Data: data}, &v)
		}
	})
}
