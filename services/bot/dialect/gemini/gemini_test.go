package gemini_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/gemini"
	"dyno/services/bot/openai"
)

var server dialect.Server = gemini.Server{}

func TestPath(t *testing.T) {
	for want, got := range map[string]string{
		"/models/gemini-3-flash:generateContent":               server.Path("gemini-3-flash", false),
		"/models/gemini-3-flash:streamGenerateContent?alt=sse": server.Path("gemini-3-flash", true),
		"/models/a%2F..%3Fb:generateContent":                   server.Path("a/..?b", false),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestThinking: models before Gemini 3 get budgets, others levels; none gets both.
func TestThinking(t *testing.T) {
	for _, c := range []struct {
		model, want string
		reasoning   dialect.Reasoning
	}{
		{"gemini-3-flash", `{"thinkingLevel":"MINIMAL"}`, dialect.Reasoning{Effort: "none"}},
		{"gemini-3.1-pro-preview", `{"thinkingLevel":"LOW"}`, dialect.Reasoning{Effort: "minimal"}},
		{"gemini-3-flash", `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`, dialect.Reasoning{Effort: "medium", Adapt: true}},
		{"gemini-3-flash", `{"includeThoughts":true,"thinkingLevel":"HIGH"}`, dialect.Reasoning{Effort: "xhigh", Summary: "concise"}},
		{"gemini-3-flash", `{"includeThoughts":true,"thinkingBudget":2048}`, dialect.Reasoning{Effort: "low", Budget: 2048}},
		{"gemini-3-flash", `{}`, dialect.Reasoning{Adapt: true, Hide: true}},
		{"gemini-3-flash", `{"thinkingLevel":"extreme"}`, dialect.Reasoning{Effort: "extreme"}},
		{"gemini-2.5-flash", `{"thinkingBudget":0}`, dialect.Reasoning{Effort: "none"}},
		{"gemini-2.5-pro", `{"thinkingBudget":8192}`, dialect.Reasoning{Effort: "medium"}},
		{"gemini-2.5-pro", `{"includeThoughts":true,"thinkingBudget":-1}`, dialect.Reasoning{Adapt: true}},
	} {
		body, err := server.AppendRequest(nil, &dialect.Request{Reasoning: &c.reasoning}, c.model)
		if err != nil || !strings.Contains(string(body), `"thinkingConfig":`+c.want+"}") {
			t.Errorf("%s, %+v: %s, %v; want %s", c.model, c.reasoning, body, err, c.want)
		}
	}
}

// TestParts: the blocks of one role in a row are one message, signatures go back where they came from, and empty texts
// without one are left out.
func TestParts(t *testing.T) {
	text := func(s string) dialect.Block { return dialect.Block{Text: s} }
	call := func(id, signature string) dialect.Block {
		return dialect.Block{Kind: dialect.ToolCall, ID: id, Name: "now", Input: json.RawMessage(`{}`), Signature: signature}
	}
	result := func(id, s string) dialect.Message {
		return dialect.Message{Role: dialect.User, Blocks: []dialect.Block{{Kind: dialect.ToolResult, ID: id, Result: []dialect.Block{text(s), text("b")}}}}
	}
	body, err := server.AppendRequest(nil, &dialect.Request{Messages: []dialect.Message{
		{Role: dialect.User, Blocks: []dialect.Block{text(""), text("a<b"), {Kind: dialect.File, Source: dialect.Source{Data: "JVBERi0="}}}},
		{Role: dialect.Assistant, Blocks: []dialect.Block{text(""), call("1", "c2ln"), call("2", "")}},
		result("1", "x"), result("2", "y"),
		{Role: dialect.Assistant, Blocks: []dialect.Block{{Kind: dialect.Refusal, Text: "no"}, {Signature: "ZW5k"}}},
		{Role: dialect.User, Blocks: []dialect.Block{text("")}},
	}}, "m")
	want := `{"contents":[` + strings.Join([]string{
		`{"role":"user","parts":[{"text":"a<b"},{"inlineData":{"data":"JVBERi0=","mimeType":"application/pdf"}}]}`,
		`{"role":"model","parts":[{"functionCall":{"args":{},"id":"1","name":"now"},"thoughtSignature":"c2ln"},{"functionCall":{"args":{},"id":"2","name":"now"}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"now","response":{"output":"x\nb"}}},{"functionResponse":{"id":"2","name":"now","response":{"output":"y\nb"}}}]}`,
		`{"role":"model","parts":[{"text":"no"},{"text":"","thoughtSignature":"ZW5k"}]}`,
	}, ",") + `],"generationConfig":{}}`
	if err != nil || string(body) != want {
		t.Errorf("%s, %v\nwant\n%s", body, err, want)
	}
}

// TestUnsignedCalls: the first call of a turn has a signature for models from Gemini 3 on, but none is replaced.
func TestUnsignedCalls(t *testing.T) {
	const skip = "skip_thought_signature_validator"
	for _, c := range []struct {
		model       string
		first       string // the signature of the first of two calls
		want, want2 string
	}{
		{"gemini-3-flash", "c2ln", "c2ln", ""},
		{"gemini-3-flash", "", skip, ""},
		{"gemini-2.5-flash", "", "", ""},
	} {
		blocks := []dialect.Block{
			{Text: "a"},
			{Kind: dialect.ToolCall, ID: "1", Name: "f", Input: json.RawMessage(`{}`), Signature: c.first},
			{Kind: dialect.ToolCall, ID: "2", Name: "f", Input: json.RawMessage(`{}`)},
		}
		body, err := server.AppendRequest(nil, &dialect.Request{Messages: []dialect.Message{{Role: dialect.Assistant, Blocks: blocks}}}, c.model)
		var w apiRequest
		if err != nil || json.Unmarshal(body, &w) != nil {
			t.Fatal(string(body), err)
		}
		for i, want := range []string{"", c.want, c.want2} {
			if got := w.Contents[0].Parts[i].ThoughtSignature; got != want {
				t.Errorf("%+v: part %d has %q, want %q", c, i, got, want)
			}
		}
	}
}

// TestEnds: reasons of ends, prompts that are blocked, and faults. A whole answer and a stream of it agree.
func TestEnds(t *testing.T) {
	answer := func(reason, more string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"` + reason + `"` + more + `}]}`
	}
	for body, want := range map[string]any{
		answer("STOP", ""):                           dialect.End,
		answer("MAX_TOKENS", ""):                     dialect.Length,
		answer("RECITATION", ""):                     dialect.Filtered,
		`{"candidates":[{"finishReason":"SAFETY"}]}`: dialect.Filtered,
		`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":null}`:                       dialect.Filtered,
		answer("MALFORMED_FUNCTION_CALL", `,"finishMessage":"call(now"`):                                     "the model stopped: MALFORMED_FUNCTION_CALL: call(now",
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`:       dialect.ToolCalls,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"MAX_TOKENS"}]}`: dialect.Length,
		answer("OTHER", ""): "the model stopped: OTHER",
		`{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}`: "Quota exceeded",
		`{"error":{"code":500}}`: "without a reason",
		`{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}],"error":null}`: openai.ErrCut,
		`{"usageMetadata":{"promptTokenCount":1}}`:                            openai.ErrCut,
		`{"candidates":{}}`: openai.ErrForm,
		`[]`:                openai.ErrForm,
	} {
		whole, wholeErr := server.ReadAnswer([]byte(body))
		fold, streamErr := dialecttest.Read(server.NewReader(), []byte("data: "+body+"\n\n"))
		var none *openai.NoneError
		switch want := want.(type) {
		case dialect.Stop:
			if wholeErr != nil || whole.Stop != want || dialecttest.Dump(whole) != dialecttest.Dump(fold.Answer) {
				t.Errorf("%s: %s, %v; stream %s, %v; want %s", body, dialecttest.Dump(whole), wholeErr, dialecttest.Dump(fold), streamErr, want)
			}
		case string:
			if !errors.As(wholeErr, &none) || none.Message != want || fold.Fault == nil || *fold.Fault != none.Fault {
				t.Errorf("%s: %v; stream %s, %v; want %s", body, wholeErr, dialecttest.Dump(fold), streamErr, want)
			}
		case error:
			if !errors.Is(wholeErr, openai.ErrNone) && !errors.Is(wholeErr, want) || !errors.Is(streamErr, want) {
				t.Errorf("%s: %v; stream %v; want %v", body, wholeErr, streamErr, want)
			}
		}
	}
	for code, body := range map[string]string{"UNAVAILABLE": `{"error":{"message":"m","status":"UNAVAILABLE"}}`, "SPACE": answer("SPACE", "")} {
		if _, err := server.ReadAnswer([]byte(body)); !strings.Contains(dialecttest.Dump(err), `"Code":"`+code+`"`) {
			t.Error(body, dialecttest.Dump(err))
		}
	}
	// Some proxies end a stream as OpenAI's does.
	if fold, err := dialecttest.Read(server.NewReader(), []byte("data: "+answer("STOP", "")+"\n\ndata: [DONE]\n\n")); err != nil || !fold.Done {
		t.Error(fold, err)
	}
}

// TestUsage: thoughts are a part of the answer's tokens, and an impossible usage is none.
func TestUsage(t *testing.T) {
	for usage, want := range map[string]string{
		`{"promptTokenCount":10,"toolUsePromptTokenCount":2,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":7,"promptTokensDetails":[{"modality":"TEXT","tokenCount":3},{"modality":"AUDIO","tokenCount":6},{"modality":"IMAGE","tokenCount":1}],"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":5}]}`: `{"Cached":4,"Completion":12,"CompletionImage":5,"Prompt":12,"PromptAudio":6,"PromptImage":1,"Reasoning":7}`,
		`{"promptTokenCount":-1}`:         "",
		`{"promptTokenCount":2000000000}`: "",
	} {
		a, err := server.ReadAnswer([]byte(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":` + usage + `}`))
		got := ""
		if err == nil && a.Usage != nil {
			got = dialecttest.Dump(a.Usage)
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", usage, got, err, want)
		}
	}
}
