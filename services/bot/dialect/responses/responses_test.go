package responses

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/openai"
)

var form = dialecttest.Form{
	Kinds:  []dialect.Kind{dialect.Redacted, dialect.Thinking, dialect.Text, dialect.Image, dialect.Refusal, dialect.ToolCall},
	Stops:  []dialect.Stop{dialect.End, dialect.Length, dialect.Filtered},
	Signed: []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall},
	Custom: true, Repeat: true,
}

func TestRoundTrips(t *testing.T) {
	dialecttest.RoundTrips(t, Client, Server, form, func(r *dialect.Request) { r.IncludeUsage = true })
}

func TestGolden(t *testing.T) { dialecttest.Golden(t, "", Client, Server) }

func FuzzReadRequest(f *testing.F) {
	dialecttest.FuzzReadRequest(f, Client, dialecttest.Seeds("request")...)
}

func FuzzReadAnswer(f *testing.F) {
	dialecttest.FuzzReadAnswer(f, Client, Server, dialecttest.Seeds("answer")...)
}

func FuzzReader(f *testing.F) {
	dialecttest.FuzzReader(f, Client, Server, dialecttest.Seeds("stream")...)
}

// TestFaults: a fault of a request names the client's field.
func TestFaults(t *testing.T) {
	for item, want := range map[string]string{
		`{"type":"web_search_call","id":"1"}`: "input[0].type: must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output or reasoning",
		`{"id":"msg_1"}`:                      "input[0]: refers to an item, and none is kept: want the item",
		`{"role":"user","content":[{"type":"input_file","filename":"a"}]}`: "input[0].content[0]: must have data or an ID",
		`{"role":"user","content":[{"type":"input_image"}]}`:               "input[0].content[0].image_url: must be there and not be empty",
		`{"role":"tool","content":"x"}`:                                    "input[0].role: must be system, developer, user or assistant",
		`{"type":"function_call","name":"f"}`:                              "input[0].call_id: must be there and not be empty",
		`{"role":"developer","content":"x"}`:                               "input: must have a message of the user",
	} {
		if _, err := Client.ReadRequest([]byte(`{"model":"m","input":[` + item + `]}`)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", item, err, want)
		}
	}
}

// TestFaultEvents: a stream that fails before its beginning ends with an error, later with a failed response.
func TestFaultEvents(t *testing.T) {
	w := Client.NewWriter(&dialect.Request{})
	fault := &dialect.Event{Kind: dialect.Fault, Fault: openai.Fault{Message: "no"}}
	if got, want := string(w.Append(nil, fault)), "event: error\ndata: {\"type\":\"error\",\"code\":null,\"message\":\"no\",\"param\":null,\"sequence_number\":0}\n\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	stream := w.Append(nil, &dialect.Event{Kind: dialect.Begin, Answer: dialect.Answer{ID: "resp_1", Model: "m"}})
	fold, err := dialecttest.Read(Server.NewReader(), w.Append(stream, fault))
	if err != nil || fold.Fault == nil || fold.Fault.Message != "no" || fold.Answer.ID != "resp_1" {
		t.Errorf("%v: %s", err, dialecttest.Dump(fold))
	}
}

// TestThinkingWithoutProof: it is not sent.
func TestThinkingWithoutProof(t *testing.T) {
	r := &dialect.Request{Messages: []dialect.Message{{Role: dialect.Assistant, Blocks: []dialect.Block{{Kind: dialect.Thinking, Text: "hm"}, {Text: "a"}}}}}
	want := `{"input":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}],"model":"m","store":false}`
	if got, err := Server.AppendRequest(nil, r, "m"); err != nil || string(got) != want {
		t.Errorf("%v: %s, want %s", err, got, want)
	}
}

// TestEcho: a client that sends an answer's items back sends all of its blocks.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := dialecttest.Answers(form).Draw(t, "answer")
		var answer struct{ Output []json.RawMessage }
		if err := json.Unmarshal(Client.AppendAnswer(nil, &dialect.Request{}, want), &answer); err != nil {
			t.Fatal(err)
		}
		input := append([]json.RawMessage{[]byte(`{"role":"user","content":"hi"}`)}, answer.Output...)
		body := dialect.Append(nil, map[string]any{"model": "m", "input": input})
		r, err := Client.ReadRequest(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := []dialect.Block{}
		if len(r.Messages) == 2 {
			got = r.Messages[1].Blocks
		}
		if got := dialecttest.Dump(got); got != dialecttest.Dump(want.Blocks) || len(r.Messages) > 2 {
			t.Fatalf("%s: %s, want %s", body, got, dialecttest.Dump(want.Blocks))
		}
	})
}

// TestFeatures: each feature has its field in a request, or is refused.
func TestFeatures(t *testing.T) {
	dialecttest.Features(t, Server, map[dialect.Feature]string{
		dialect.SystemMessage:   `{"instructions":"be brief"}`,
		dialect.LateSystem:      `{"type":"message","role":"developer","content":[{"type":"input_text","text":"be brief"}]}`,
		dialect.ImageData:       `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}`,
		dialect.ImageURL:        `{"type":"input_image","image_url":"https://example.com/a.png"}`,
		dialect.ImageDetail:     `{"type":"input_image","detail":"low"}`,
		dialect.FileData:        `{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0=","filename":"a.pdf"}`,
		dialect.FileURL:         `{"type":"input_file","file_url":"https://example.com/a.pdf"}`,
		dialect.FileID:          `{"type":"input_file","file_id":"file-1"}`,
		dialect.Functions:       `{"type":"function","name":"weather","parameters":{"type":"object"},"strict":false}`,
		dialect.StrictTools:     `{"type":"function","strict":true}`,
		dialect.CustomTools:     `{"type":"custom","name":"run"}`,
		dialect.ChooseNone:      `{"tool_choice":"none"}`,
		dialect.ChooseSome:      `{"tool_choice":"required"}`,
		dialect.ChooseOne:       `{"tool_choice":{"type":"function","name":"weather"}}`,
		dialect.SingleCall:      `{"parallel_tool_calls":false}`,
		dialect.ResultImages:    `{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_image"}]}`,
		dialect.JSONObject:      `{"text":{"format":{"type":"json_object"}}}`,
		dialect.JSONSchema:      `{"text":{"format":{"type":"json_schema","name":"city","schema":{"type":"object"}}}}`,
		dialect.MaxTokens:       `{"max_output_tokens":77}`,
		dialect.SetTemperature:  `{"temperature":0.25}`,
		dialect.SetTopP:         `{"top_p":0.75}`,
		dialect.ReasoningEffort: `{"reasoning":{"effort":"low"}}`,
		dialect.ReasoningText:   `{"reasoning":{"summary":"auto"}}`,
		dialect.ThinkingBack:    `{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"c2ln"}`,
		dialect.UserID:          `{"user":"u1"}`,
		dialect.SetMetadata:     `{"metadata":{"team":"a"}}`,
		dialect.Stored:          `{"store":true}`,
		dialect.ServiceTier:     `{"service_tier":"auto"}`,
	})
}
