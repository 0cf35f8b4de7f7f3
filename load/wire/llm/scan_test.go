package llm

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for _, test := range []struct {
		data string
		want piece
		ok   bool
	}{
		// Chat completions.
		{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`, piece{}, true},
		{`{"choices":[{"delta":{"content":" keep"},"finish_reason":null}]}`, piece{holds: true}, true},
		{`{"choices":[{"delta":{"reasoning_content":"so"}}]}`, piece{holds: true, reasons: true}, true},
		{`{"choices":[{"delta":{"reasoning":"","reasoning_content":[{"text":"so"}],"content":null}}]}`, piece{holds: true, reasons: true}, true},
		{`{"choices":[{"delta":{"reasoning":"","content":"so"}}]}`, piece{holds: true}, true},
		{`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`, piece{holds: true}, true},
		{`{"choices":[{"delta":{"tool_calls":[]}}]}`, piece{}, true},
		{`{"choices":[{"delta":{},"finish_reason":"length"}]}`, piece{ended: true}, true},
		{`{"choices":[{"delta":{},"finish_reason":""}]}`, piece{}, true},
		{`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2,"x":1},"prompt_tokens_details":{"reasoning_tokens":7}}}`, piece{tokens: 3, reasoning: 2, prompt: 9}, true},
		{`{"choices":[],"usage":{"completion_tokens":3,"completion_tokens_details":null,"reasoning_tokens":7}}`, piece{tokens: 3}, true},
		{`{"choices":[],"usage":{"completion_tokens":99999999999999999999}}`, piece{tokens: 4294967295}, true},
		{`{"choices":[],"usage":{"completion_tokens":3.0,"prompt_tokens":1e1}}`, piece{tokens: 3, prompt: 10}, true},
		{`{"choices":[],"usage":{"completion_tokens":-3.0,"prompt_tokens":1e99}}`, piece{}, true},
		{`{"error":{"message":"overloaded"}}`, piece{failed: true}, true},
		{`{"choices":[{"delta":{},"error":{"code":502,"message":""}}]}`, piece{failed: true}, true},
		{`{"choices":[{"delta":{},"finish_reason":"error"}]}`, piece{ended: true, failed: true}, true},
		{`{"error":"overloaded"}`, piece{failed: true}, true},
		{`{"error":true}`, piece{failed: true}, true},
		{`{"error":-0.5e0}`, piece{failed: true}, true},
		{`{"error":["",{"details":["overloaded"]}]}`, piece{failed: true}, true},
		// An error without a text is none: servers send the member always.
		{`{"error":null}`, piece{}, true},
		{`{"error":""}`, piece{}, true},
		{`{"error":false}`, piece{}, true},
		{`{"error":0}`, piece{}, true},
		{`{"error":-0.0E12}`, piece{}, true},
		{`{"error":[]}`, piece{}, true},
		{`{"error":{}}`, piece{}, true},
		{`{"error":[{},null,""]}`, piece{}, true},
		{`{"error":{"message":"","type":"","param":null,"code":0,"details":[]},"choices":[{"delta":{"content":"a"},"error":""}]}`, piece{holds: true}, true},
		{`{"type":"response.completed","response":{"error":{"code":"","message":""}}}`, piece{ended: true}, true},
		// Completions.
		{`{"choices":[{"text":"a","finish_reason":"stop"}]}`, piece{holds: true, ended: true}, true},
		// Responses.
		{`{"type":"response.output_text.delta","delta":"at"}`, piece{holds: true}, true},
		{`{"delta":"at","type":"response.function_call_arguments.delta"}`, piece{holds: true}, true},
		{`{"delta":"so","type":"response.reasoning_text.delta"}`, piece{holds: true, reasons: true}, true},
		{`{"type":"response.output_text.done","text":"at"}`, piece{}, true},
		{`{"type":"response.completed","response":{"status":"completed","error":null,"usage":{"input_tokens":11,"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}}`, piece{ended: true, tokens: 2, reasoning: 1, prompt: 11}, true},
		{`{"type":"response.failed","response":{"error":{"code":"x"}}}`, piece{failed: true}, true},
		// Elsewhere the same names mean nothing.
		{`{"a":{"choices":[{"delta":{"content":"x"}}],"error":"x"},"delta":{"content":"x"}}`, piece{}, true},
		{" { } ", piece{}, true},
		// No JSON object.
		{``, piece{}, false},
		{`[]`, piece{}, false},
		{`{"choices":[{"delta":{"content":"x`, piece{}, false},
		{`{"choices":[{"delta":{"content":"x\`, piece{}, false},
		{`{"a":1}}`, piece{}, false},
		{`{"a":1,}`, piece{}, false},
		{`{"a":tru}`, piece{}, false},
		{`{"a":[`, piece{}, false},
		{"{\"a\":\"\n\"}", piece{}, false},
		{`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, piece{}, false},
	} {
		if got, _, ok := scan([]byte(test.data)); got != test.want || ok != test.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", test.data, got, ok, test.want, test.ok)
		}
	}
}

// It reads whatever the standard library reads; nothing makes it go beyond its input.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"delta":{"content":"a"}}]}`, `{"type":"response.completed","response":{"usage":{"output_tokens":2}}}`,
		`{"a":[{},[],"\u00e9",-1e5,true,false,null]}`, `{"a":"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, ok := scan(data)
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err == nil && object != nil && !ok && strings.Count(string(data), "[")+strings.Count(string(data), "{") < maxDepth {
			t.Errorf("%q is an object", data)
		}
	})
}
