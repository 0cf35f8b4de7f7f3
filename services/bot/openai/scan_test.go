package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// event is what the standard library reads of an event.
func event(data []byte) (v Event, err error) {
	err = Standard().parseChat(data, &v)
	return v, err
}

// agrees fails the test if what is read in one go is something else than the standard library
// reads. It tells whether it was read.
func agrees(t interface {
	Fatalf(format string, args ...any)
}, data []byte,
) (events, replies bool) {
	var got Event
	if events = scanEvent(data, &got); events {
		want, err := event(data)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q: %v\n%s", data, err, diff)
		}
	} else if diff := cmp.Diff(Event{Deltas: got.Deltas[:0], Ended: got.Ended[:0]}, got); diff != "" {
		t.Fatalf("%q: something is left\n%s", data, diff)
	}
	reply, replies := scanReply(data)
	if replies {
		want, err := Standard().parseReply(data)
		if diff := cmp.Diff(want, reply); err != nil || diff != "" {
			t.Fatalf("%q: %v\n%s", data, err, diff)
		}
	}
	return events, replies
}

// The usual forms are read in one go. All others are left to the standard library, and nothing is
// read otherwise.
func TestScan(t *testing.T) {
	chunk := func(choice string) string {
		return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + `],"usage":null}`
	}
	for data, want := range map[string]bool{
		chunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`): true,
		chunk(`{"index":0,"delta":{"content":" keep"},"finish_reason":null}`):                               true,
		chunk(`{"index":2,"delta":{"content":"\"\u00e9\\ é 天"},"finish_reason":null}`):                      true,
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`):                                              true,
		chunk(`{"delta":{"content":null,"x":[1,-2.5e3,{"A":true}]}},{"index":1,"delta":{"content":"b"}}`):   true,
		chunk(``): true,
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"details":{"x":[]}}}`: true,
		" { } ": true,
		chunk(`{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}`):                    false,
		chunk(`{"index":0,"delta":{"tool_calls":null,"content":"a"}}`):                                              true,
		chunk(`{"index":0,"delta":{"content":null,"reasoning_content":"w\u0068y","reasoning":"why","refusal":""}}`): true,
		chunk(`{"index":0,"delta":{"reasoning":{"a":[]},"reasoning_content":null,"refusal":"no"}}`):                 true,
		chunk(`{"index":0,"delta":{"refusal":"no","refusal":"yes"}}`):                                               false,
		chunk(`{"Index":1,"delta":{"content":"a"}}`):                                                                false,
		chunk(`{"index":1,"index":2,"delta":{"content":"a"}}`):                                                      false,
		chunk(`{"index":-1,"delta":{"content":"a"}}`):                                                               false,
		chunk(`{"index":1073741825,"delta":{"content":"a"}}`):                                                       false,
		chunk(`{"index":1.0,"delta":{"content":"a"}}`):                                                              false,
		chunk(`{"index":01,"delta":{"content":"a"}}`):                                                               false,
		chunk("{\"delta\":{\"content\":\"\xff\"}}"):                                                                 true,
		`{"error":{"message":"overloaded"}}`:                                                                        false,
		`{"error":null}`:                                                                                            true,
		`{"detail":"overloaded"}`:                                                                                   false,
		`{"message":"overloaded"}`:                                                                                  false,
		`{"usage":{"prompt_tokens":9}}`:                                                                             false,
		`{"usage":{"prompt_tokens":1073741825,"completion_tokens":3}}`:                                              false,
		`{"usage":{"prompt_tokens":-1,"completion_tokens":3}}`:                                                      false,
		`{"usage":{"prompt_tokens":9,"completion_tokens":3,"input_tokens":1}}`:                                      true,
		`{"choices":[],"choices":[]}`:                                                                               false,
		`{"choices":[`:                                                                                              false,
		`{"a":1}}`:                                                                                                  false,
		`{"a":"\x"}`:                                                                                                false,
		`{"a":"\u12g4"}`:                                                                                            false,
		`{"a":-}`:                                                                                                   false,
		`{"a":01}`:                                                                                                  false,
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`:                                         false,
	} {
		if events, _ := agrees(t, []byte(data)); events != want {
			t.Errorf("%s was read: %v", data, events)
		}
	}
	for data, want := range map[string]bool{
		`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","refusal":null,"content":"to \"keep\""},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`: true,
		`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`:               true,
		`{"choices":[{"message":{"content":"a","reasoning":"why","refusal":7}}]}`:             true,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f"}}]}}]}`: false,
		`{"choices":[{"message":{"content":"a"},"message":{"content":"b"}}]}`:                 false,
		`{"choices":[]}`: false,
		`{"choices":[{"message":{"content":1}}]}`: false,
	} {
		if _, replies := agrees(t, []byte(data)); replies != want {
			t.Errorf("%s was read: %v", data, replies)
		}
	}
}

func TestScanAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(`"a"`), rapid.Just("null"), rapid.Just(`"\ud83d\ude00"`), rapid.Just("1"), rapid.Map(rapid.String(), func(s string) string {
			b, _ := json.Marshal(s)
			return string(b)
		}))
		number := rapid.OneOf(rapid.Just("0"), rapid.Just("null"), rapid.Map(rapid.IntRange(-3, 1<<31), func(n int) string { return fmt.Sprint(n) }))
		key := rapid.SampledFrom([]string{"index", "delta", "content", "finish_reason", "tool_calls", "usage", "choices", "prompt_tokens", "completion_tokens", "error", "message", "detail", "reasoning_content", "reasoning", "refusal", "Content", "x"})
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
				for range rapid.IntRange(0, 3).Draw(t, "fields") {
					fields = append(fields, `"`+key.Draw(t, "key")+`": `+value(depth-1))
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
	f.Fuzz(func(t *testing.T, data []byte) { agrees(t, data) })
}
