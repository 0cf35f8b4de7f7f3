package chat

import (
	"encoding/json"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
)

var form = dialecttest.Form{
	Kinds:  []dialect.Kind{dialect.Redacted, dialect.Thinking, dialect.Text, dialect.Image, dialect.Refusal, dialect.ToolCall},
	Stops:  []dialect.Stop{dialect.End, dialect.Length, dialect.Filtered, dialect.Sequence},
	Signed: []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall},
	Custom: true,
	Silent: []dialect.Feature{dialect.ReasoningText},
}

func TestRoundTrips(t *testing.T) {
	for _, v := range []Variant{OpenAI, Azure, VLLM} {
		t.Run(string(v), func(t *testing.T) { dialecttest.RoundTrips(t, Client, New(Options{Variant: v}), form, nil) })
	}
}

func TestGolden(t *testing.T) { dialecttest.Golden(t, "", Client, New(Options{Variant: VLLM})) }

func FuzzReadRequest(f *testing.F) {
	dialecttest.FuzzReadRequest(f, Client, dialecttest.Seeds("request")...)
}

func FuzzReadAnswer(f *testing.F) {
	dialecttest.FuzzReadAnswer(f, Client, New(Options{Variant: VLLM}), dialecttest.Seeds("answer")...)
}

func FuzzReader(f *testing.F) {
	dialecttest.FuzzReader(f, Client, New(Options{Variant: VLLM}), dialecttest.Seeds("stream")...)
}

// TestVariants: each kind of server has fields and a path of its own.
func TestVariants(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"custom","custom":{"name":"run","input":"ls"},"extra_content":{"google":{"thought_signature":"x"}}}]},
		{"role":"tool","tool_call_id":"1","content":""},
		{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"a.pdf"}},{"type":"file","file":{"file_id":"f"}}]}],
		"tools":[{"type":"custom","custom":{"name":"run","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}],
		"tool_choice":{"type":"custom","custom":{"name":"run"}},"max_tokens":7,"store":true,"metadata":{"a":"b"},"service_tier":"flex"}`
	const want = `{"max_completion_tokens":7,"messages":[{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"custom","custom":{"name":"run","input":"ls"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":""},` +
		`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"a.pdf"}},{"type":"file","file":{"file_id":"f"}}]}],` +
		`"metadata":{"a":"b"},"model":"n","service_tier":"flex","store":true,"tool_choice":{"custom":{"name":"run"},"type":"custom"},` +
		`"tools":[{"custom":{"format":{"grammar":{"definition":"x","syntax":"lark"},"type":"grammar"},"name":"run"},"type":"custom"}]}`
	r, err := Client.ReadRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []Variant{OpenAI, Azure} {
		s := New(Options{Variant: v})
		fitting, dropped, err := r.Fit(s, nil)
		if err != nil || len(dropped) > 0 {
			t.Fatal(err, dropped)
		}
		if got, err := s.AppendRequest(nil, fitting, "n"); err != nil || string(got) != want {
			t.Errorf("%s: %v: %s, want %s", v, err, got, want)
		}
	}
	for want, o := range map[string]Options{
		"/chat/completions": {Variant: Azure},
		"/deployments/gpt%2F5/chat/completions?api-version=2026-01-01": {Variant: Azure, APIVersion: "2026-01-01"},
	} {
		if got := New(o).Path("gpt/5", true); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
}

// TestResultsFirst: results of tools come before the rest of a message.
func TestResultsFirst(t *testing.T) {
	result := dialect.Block{Kind: dialect.ToolResult, ID: "1", Result: []dialect.Block{{Text: "a"}}}
	r := &dialect.Request{Messages: []dialect.Message{{Role: dialect.User, Blocks: []dialect.Block{{Text: "b"}, result}}}}
	want := `{"messages":[{"role":"tool","tool_call_id":"1","content":"a"},{"role":"user","content":"b"}],"model":"m"}`
	if got, err := New(Options{Variant: OpenAI}).AppendRequest(nil, r, "m"); err != nil || string(got) != want {
		t.Errorf("%v: %s, want %s", err, got, want)
	}
}

// TestFaults: a fault of a request names the client's field.
func TestFaults(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"user","content":[{"type":"image_url","image_url":{}}]}`:                                       "messages[0].content[0].image_url.url: must be there and not be empty",
		`{"role":"user","content":[{"type":"file","file":{"filename":"a"}}]}`:                                   "messages[0].content[0].file: must have data or an ID",
		`{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}`:                                    "messages[0].function_call: is not supported: want tool_calls",
		`{"role":"assistant","tool_calls":[{"id":"1","type":"mcp"}]}`:                                           "messages[0].tool_calls[0].type: must be function or custom",
		`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":""}}]}`:                        "messages[0].tool_calls[0].id: must be there and not be empty",
		`{"role":"system","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}`: "messages[0].content: must be text",
		`{"role":"function","content":"x"}`:                                                                     "messages[0].role: must be system, developer, user, assistant or tool",
		`{"role":"system","content":"x"}`:                                                                       "messages: must have a message of the user",
	} {
		if _, err := Client.ReadRequest([]byte(`{"model":"m","messages":[` + message + `]}`)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", message, err, want)
		}
	}
}

// TestEcho: a client that sends an answer's message back sends all of its blocks.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := dialecttest.Answers(form).Draw(t, "answer")
		var answer struct {
			Choices []struct{ Message json.RawMessage }
		}
		if err := json.Unmarshal(Client.AppendAnswer(nil, &dialect.Request{}, want), &answer); err != nil {
			t.Fatal(err)
		}
		body := `{"model":"m","messages":[{"role":"user","content":"hi"},` + string(answer.Choices[0].Message) + `]}`
		r, err := Client.ReadRequest([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := dialecttest.Dump(r.Messages[1].Blocks); got != dialecttest.Dump(want.Blocks) {
			t.Fatalf("%s: %s, want %s", body, got, dialecttest.Dump(want.Blocks))
		}
	})
}

// TestFeatures: each feature has its field in a request, or is refused.
func TestFeatures(t *testing.T) {
	common := map[dialect.Feature]string{
		dialect.SystemMessage:   `{"role":"system","content":"be brief"}`,
		dialect.LateSystem:      `{"role":"system","content":"be brief"}`,
		dialect.SpeakerName:     `{"role":"user","name":"ann"}`,
		dialect.ImageData:       `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`,
		dialect.ImageURL:        `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`,
		dialect.ImageDetail:     `{"detail":"low"}`,
		dialect.AudioData:       `{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`,
		dialect.Functions:       `{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}`,
		dialect.StrictTools:     `{"strict":true}`,
		dialect.ChooseNone:      `{"tool_choice":"none"}`,
		dialect.ChooseSome:      `{"tool_choice":"required"}`,
		dialect.ChooseOne:       `{"tool_choice":{"type":"function","function":{"name":"weather"}}}`,
		dialect.SingleCall:      `{"parallel_tool_calls":false}`,
		dialect.JSONObject:      `{"response_format":{"type":"json_object"}}`,
		dialect.JSONSchema:      `{"response_format":{"type":"json_schema","json_schema":{"name":"city","schema":{"type":"object"}}}}`,
		dialect.MaxTokens:       `{"max_completion_tokens":77}`,
		dialect.SetTemperature:  `{"temperature":0.25}`,
		dialect.SetTopP:         `{"top_p":0.75}`,
		dialect.StopSequences:   `{"stop":["END"]}`,
		dialect.SetSeed:         `{"seed":7}`,
		dialect.FrequencyWeight: `{"frequency_penalty":0.5}`,
		dialect.PresenceWeight:  `{"presence_penalty":0.5}`,
		dialect.ReasoningEffort: `{"reasoning_effort":"low"}`,
		dialect.UserID:          `{"user":"u1"}`,
		dialect.LogitBias:       `{"logit_bias":{"7":1}}`,
	}
	openAI, vLLM := maps.Clone(common), maps.Clone(common)
	maps.Copy(openAI, map[dialect.Feature]string{
		dialect.FileData:    `{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"a.pdf"}}`,
		dialect.FileID:      `{"type":"file","file":{"file_id":"file-1"}}`,
		dialect.CustomTools: `{"type":"custom","custom":{"name":"run"}}`,
		dialect.SetMetadata: `{"metadata":{"team":"a"}}`,
		dialect.Stored:      `{"store":true}`,
		dialect.ServiceTier: `{"service_tier":"auto"}`,
	})
	maps.Copy(vLLM, map[dialect.Feature]string{
		dialect.MaxTokens:      `{"max_tokens":77}`,
		dialect.SetTopK:        `{"top_k":40}`,
		dialect.ServerSampling: `{"min_p":0.25}`,
		dialect.ThinkingBack:   `{"reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]}`,
		dialect.RedactedBack:   `{"thinking_blocks":[{"type":"redacted_thinking","data":"c2ln"}]}`,
		dialect.ReasoningText:  `{}`,
	})
	for v, golden := range map[Variant]map[dialect.Feature]string{OpenAI: openAI, Azure: openAI, VLLM: vLLM} {
		t.Run(string(v), func(t *testing.T) { dialecttest.Features(t, New(Options{Variant: v}), golden) })
	}
}
