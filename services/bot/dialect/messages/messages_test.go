package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/openai"
)

var server = Server{MaxTokens: 4096}

func TestRoundTrips(t *testing.T) {
	form := dialecttest.Form{
		Kinds:  []dialect.Kind{dialect.Thinking, dialect.Redacted, dialect.Text, dialect.ToolCall},
		Stops:  []dialect.Stop{dialect.End, dialect.Length, dialect.Sequence, dialect.Refused, dialect.Paused},
		Signed: []dialect.Kind{dialect.Thinking},
		Repeat: true, Untimed: true,
	}
	dialecttest.RoundTrips(t, Client{}, server, form, normalize)
}

// normalize changes a request to what this form says of it.
func normalize(r *dialect.Request) {
	r.Messages, r.IncludeUsage = turns(r.Messages), true
	if r.MaxTokens == 0 {
		r.Note(dialect.MaxTokens, "random")
	}
	r.MaxTokens = max(r.MaxTokens, server.MaxTokens)
	if r.Parallel != nil && r.Choice.Mode == dialect.AnyChoice {
		r.Choice.Mode = dialect.Auto
	}
	if r.Format != nil {
		r.Format.Name = ""
	}
	if r.Extra != nil {
		r.Extra = map[string]json.RawMessage{"service_tier": json.RawMessage(`"standard_only"`)}
	}
	if g := r.Reasoning; g != nil && (g.Budget > 0 || g.Summary != "") {
		if r.Reasoning.Adapt = g.Budget == 0; r.Reasoning.Adapt {
			r.Note(dialect.ReasoningBudget, "random")
		}
		*r = *without(r, dialect.SetTopK, dialect.SetTopP, dialect.SetTemperature, dialect.ChooseSome, dialect.ChooseOne)
	}
}

// without returns a request without features.
func without(r *dialect.Request, features ...dialect.Feature) *dialect.Request {
	c := dialect.Request{
		Model: r.Model, System: r.System, Messages: r.Messages, Tools: r.Tools, Choice: r.Choice, Parallel: r.Parallel, MaxTokens: r.MaxTokens,
		Stop: r.Stop, Format: r.Format, Reasoning: r.Reasoning, User: r.User, Stream: r.Stream, IncludeUsage: r.IncludeUsage, Extra: r.Extra,
	}
	if c.Choice.Mode == dialect.SomeTool || c.Choice.Mode == dialect.OneTool {
		c.Choice = dialect.Choice{Mode: dialect.Auto}
	}
	for _, u := range r.Uses() {
		if !slices.Contains(features, u.Feature) {
			c.Note(u.Feature, "%s", u.Field)
		}
	}
	return &c
}

func TestGolden(t *testing.T) { dialecttest.Golden(t, "", Client{}, server) }

func TestFeatures(t *testing.T) {
	dialecttest.Features(t, server, map[dialect.Feature]string{
		dialect.SystemMessage:   `{"system":[{"type":"text","text":"be brief"}]}`,
		dialect.LateSystem:      `{"role":"system","content":[{"type":"text","text":"be brief"}]}`,
		dialect.ImageData:       `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`,
		dialect.ImageURL:        `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`,
		dialect.FileData:        `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="},"title":"a.pdf"}`,
		dialect.FileURL:         `{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}`,
		dialect.FileID:          `{"type":"document","source":{"type":"file","file_id":"file-1"}}`,
		dialect.Functions:       `{"tools":[{"name":"weather","input_schema":{"type":"object"}}]}`,
		dialect.StrictTools:     `{"strict":true}`,
		dialect.ChooseNone:      `{"tool_choice":{"type":"none"}}`,
		dialect.ChooseSome:      `{"tool_choice":{"type":"any"}}`,
		dialect.ChooseOne:       `{"tool_choice":{"type":"tool","name":"weather"}}`,
		dialect.SingleCall:      `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
		dialect.ResultImages:    `{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png"}}]}`,
		dialect.ResultFailed:    `{"content":[{"type":"text","text":"no"}],"is_error":true}`,
		dialect.JSONSchema:      `{"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`,
		dialect.MaxTokens:       `{"max_tokens":77}`,
		dialect.SetTemperature:  `{"temperature":0.25}`,
		dialect.SetTopP:         `{"top_p":0.75}`,
		dialect.SetTopK:         `{"top_k":40}`,
		dialect.StopSequences:   `{"stop_sequences":["END"]}`,
		dialect.ReasoningEffort: `{"output_config":{"effort":"low"}}`,
		dialect.ReasoningBudget: `{"thinking":{"type":"enabled","budget_tokens":2048}}`,
		dialect.ReasoningText:   `{"thinking":{"type":"adaptive","display":"summarized"}}`,
		dialect.ThinkingBack:    `{"type":"thinking","thinking":"hm","signature":"c2ln"}`,
		dialect.RedactedBack:    `{"type":"redacted_thinking","data":"c2ln"}`,
		dialect.CacheMarks:      `{"cache_control":{"type":"ephemeral","ttl":"1h"}}`,
		dialect.UserID:          `{"metadata":{"user_id":"u1"}}`,
		dialect.Prefill:         `{"role":"assistant","content":[{"type":"text","text":"It is"}]}`,
		dialect.ServiceTier:     `{"service_tier":"auto"}`,
	})
}

func text(text string) dialect.Block { return dialect.Block{Text: text} }

// TestTurns: messages keep the API's rules.
func TestTurns(t *testing.T) {
	result := dialect.Block{Kind: dialect.ToolResult, ID: "1"}
	for _, c := range []struct {
		list []dialect.Message
		want string // roles, and texts or the kind of blocks
	}{
		{[]dialect.Message{{Role: dialect.User, Blocks: []dialect.Block{text("a")}}, {Role: dialect.User, Blocks: []dialect.Block{text("b")}}}, "user a b"},
		{[]dialect.Message{
			{Role: dialect.User, Blocks: []dialect.Block{text("a")}}, {Role: dialect.Assistant, Blocks: []dialect.Block{text(""), {Kind: dialect.ToolCall}}},
			{Role: dialect.System, Blocks: []dialect.Block{text("s")}}, {Role: dialect.User, Blocks: []dialect.Block{text("b")}}, {Role: dialect.User, Blocks: []dialect.Block{result}},
		}, "user a, assistant tool call, user tool result b, system s"},
		{[]dialect.Message{
			{Role: dialect.User, Blocks: []dialect.Block{text("a")}}, {Role: dialect.System, Blocks: []dialect.Block{text("s")}}, {Role: dialect.System, Blocks: []dialect.Block{text("t")}},
			{Role: dialect.Assistant, Blocks: []dialect.Block{{Kind: dialect.Thinking, Text: "unsigned"}}}, {Role: dialect.User, Blocks: []dialect.Block{text("b")}},
		}, "user a, system s t, user b"},
	} {
		var got []string
		for _, m := range turns(c.list) {
			said := string(m.Role)
			for _, b := range m.Blocks {
				if said += " " + b.Text; b.Text == "" {
					said += b.Kind.String()
				}
			}
			got = append(got, said)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestRefusals: what the API refuses is refused at the client's field.
func TestRefusals(t *testing.T) {
	thinking := &dialect.Reasoning{Budget: 2048}
	tools := []dialect.Tool{{Name: "f"}}
	for _, c := range []struct {
		request dialect.Request
		dialect.Feature
		want string
	}{
		{dialect.Request{Temperature: new(1.5)}, dialect.SetTemperature, "must be from 0 to 1"},
		{dialect.Request{Temperature: new(0.5), Reasoning: thinking}, dialect.SetTemperature, "must be 1 while the model thinks"},
		{dialect.Request{TopP: new(0.5), Reasoning: &dialect.Reasoning{Adapt: true}}, dialect.SetTopP, "must be from 0.95 to 1 while the model thinks"},
		{dialect.Request{TopK: new(5), Reasoning: thinking}, dialect.SetTopK, "must not be there while the model thinks"},
		{dialect.Request{Tools: tools, Choice: dialect.Choice{Mode: dialect.SomeTool}, Reasoning: thinking}, dialect.ChooseSome, "must be auto or none while the model thinks"},
		{dialect.Request{Tools: tools, Choice: dialect.Choice{Mode: dialect.OneTool}, Reasoning: thinking}, dialect.ChooseOne, "must be auto or none while the model thinks"},
		{dialect.Request{Messages: []dialect.Message{{Role: dialect.Assistant, Blocks: []dialect.Block{text("It")}}}, Reasoning: thinking}, dialect.Prefill, "must not be the last message while the model thinks"},
		{dialect.Request{MaxTokens: 2048, Reasoning: thinking}, dialect.MaxTokens, "must be more than the 2048 tokens of reasoning"},
		{dialect.Request{Extra: map[string]json.RawMessage{"service_tier": json.RawMessage(`"flex"`)}}, dialect.ServiceTier, "want auto, default or standard_only"},
		{dialect.Request{Messages: []dialect.Message{{Role: dialect.User, Blocks: []dialect.Block{{Kind: dialect.File, Source: dialect.Source{Data: "AA==", Type: "image/tiff"}}}}}}, dialect.FileData, `want a file of type application/pdf or text/plain, not "image/tiff"`},
		{dialect.Request{Messages: []dialect.Message{{Role: dialect.User, Blocks: []dialect.Block{{Kind: dialect.File, Source: dialect.Source{Data: "/w==", Type: "text/csv"}}}}}}, dialect.FileData, "want a text in UTF-8, in base64"},
	} {
		c.request.Note(c.Feature, "the.field")
		var fault *dialect.FieldError
		if _, err := server.AppendRequest(nil, &c.request, "m"); !errors.As(err, &fault) || fault.Field != "the.field" || fault.Text != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestThinking: an effort and a budget replace each other for models that know one of them.
func TestThinking(t *testing.T) {
	for _, c := range []struct {
		Thinking
		dialect.Reasoning
		most int
		want string
	}{
		{AsAsked, dialect.Reasoning{Effort: "minimal"}, 0, `{"max_tokens":4096,"output_config":{"effort":"low"}}`},
		{AsAsked, dialect.Reasoning{Effort: "none"}, 0, `{"max_tokens":4096,"thinking":{"type":"disabled"}}`},
		{AsAsked, dialect.Reasoning{Effort: "high", Adapt: true, Hide: true}, 0, `{"max_tokens":4096,"output_config":{"effort":"high"},"thinking":{"display":"omitted","type":"adaptive"}}`},
		{AsAsked, dialect.Reasoning{Effort: "low", Summary: "detailed"}, 0, `{"max_tokens":4096,"output_config":{"effort":"low"},"thinking":{"display":"summarized","type":"adaptive"}}`},
		{ByBudget, dialect.Reasoning{Effort: "low"}, 0, `{"max_tokens":6144,"thinking":{"budget_tokens":2048,"type":"enabled"}}`},
		{ByBudget, dialect.Reasoning{Effort: "high"}, 4000, `{"max_tokens":4000,"thinking":{"budget_tokens":2000,"type":"enabled"}}`},
		{ByBudget, dialect.Reasoning{Adapt: true}, 0, `{"max_tokens":8192,"thinking":{"budget_tokens":4096,"type":"enabled"}}`},
		{ByBudget, dialect.Reasoning{Effort: "none"}, 0, `{"max_tokens":4096,"thinking":{"type":"disabled"}}`},
		{ByEffort, dialect.Reasoning{Budget: 8000}, 0, `{"max_tokens":4096,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}}`},
		{ByEffort, dialect.Reasoning{Budget: 1024}, 0, `{"max_tokens":4096,"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}}`},
		{ByEffort, dialect.Reasoning{Budget: 1 << 20}, 0, `{"max_tokens":4096,"output_config":{"effort":"max"},"thinking":{"type":"adaptive"}}`},
	} {
		body, err := Server{Thinking: c.Thinking}.AppendRequest(nil, &dialect.Request{Model: "m", MaxTokens: c.most, Reasoning: &c.Reasoning}, "m")
		var fields map[string]any
		if err != nil || json.Unmarshal(body, &fields) != nil {
			t.Fatal(err)
		}
		delete(fields, "messages")
		delete(fields, "model")
		if got := string(dialect.Append(nil, fields)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.Reasoning, got, c.want)
		}
	}
}

// TestHidden: a client that wants no text of the reasoning gets only its signature.
func TestHidden(t *testing.T) {
	r := &dialect.Request{Reasoning: &dialect.Reasoning{Adapt: true, Hide: true}}
	a := &dialect.Answer{Blocks: []dialect.Block{{Kind: dialect.Thinking, Text: "secret", Signature: "c2ln"}, {Text: "seven"}}}
	w, stream := Client{}.NewWriter(r), []byte(nil)
	a.Events(func(e *dialect.Event) { stream = w.Append(stream, e) })
	whole := Client{}.AppendAnswer(nil, r, a)
	for _, got := range []string{string(whole), string(stream)} {
		if strings.Contains(got, "secret") || !strings.Contains(got, "c2ln") || !strings.Contains(got, "seven") {
			t.Error(got)
		}
	}
}

// TestNoPlace: blocks that answers of this form cannot have are left out, and the others are counted from 0.
func TestNoPlace(t *testing.T) {
	a := &dialect.Answer{ID: "a", Model: "m", Blocks: []dialect.Block{{Kind: dialect.Audio, Text: "spoken"}, {Text: "seven"}, {Kind: dialect.Refusal, Text: "no"}}}
	const want = `{"ID":"a","Model":"m","Blocks":[{"Text":"seven"},{"Text":"no"}]}`
	got, err := server.ReadAnswer(Client{}.AppendAnswer(nil, &dialect.Request{}, a))
	if err != nil {
		t.Fatal(err)
	}
	w, stream := Client{}.NewWriter(&dialect.Request{}), []byte(nil)
	a.Events(func(e *dialect.Event) { stream = w.Append(stream, e) })
	fold, err := dialecttest.Read(server.NewReader(), stream)
	if err != nil || !strings.Contains(string(stream), `"index":0`) {
		t.Fatal(err, string(stream))
	}
	for _, a := range []*dialect.Answer{got, &fold.Answer} {
		var blocks []string
		for _, b := range a.Blocks {
			blocks = append(blocks, b.Kind.String()+" "+b.Text)
		}
		if s := fmt.Sprint(blocks); s != "[text seven text no]" {
			t.Errorf("%s, want %s", s, want)
		}
	}
}

// seeds returns the first sections of that name in testdata.
func seeds(f *testing.F, section string) (list []string) {
	names, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if first := txtar.Parse(text).Files[0]; first.Name == section {
			list = append(list, string(first.Data))
		}
	}
	return list
}

func FuzzReadRequest(f *testing.F) {
	dialecttest.FuzzReadRequest(f, Client{}, seeds(f, "request")...)
}

func FuzzReadAnswer(f *testing.F) {
	dialecttest.FuzzReadAnswer(f, Client{}, server, seeds(f, "answer")...)
}

func FuzzReader(f *testing.F) {
	dialecttest.FuzzReader(f, Client{}, server, seeds(f, "stream")...)
}

// TestFieldErrors: what the form does not know is refused, with the field's path.
func TestFieldErrors(t *testing.T) {
	for content, want := range map[string]string{
		`[{"type":"image"}]`:                                                         "messages[0].content[0].source: must be there",
		`[{"type":"image","source":{"type":"content"}}]`:                             `messages[0].content[0].source.type: "content" cannot be translated here`,
		`[{"type":"image","source":{"type":"text","data":"a"}}]`:                     `messages[0].content[0].source.type: "text" cannot be translated here`,
		`[{"type":"tool_use","id":"1","name":"f","input":{}}]`:                       `messages[0].content[0].type: "tool_use" cannot be translated here`,
		`[{"type":"tool_result","tool_use_id":"1","content":[{"type":"thinking"}]}]`: `messages[0].content[0].content[0].type: "thinking" cannot be translated here`,
		`"hi"}],"tool_choice":{"type":"all"},"x":[{"y":1`:                            "tool_choice.type: want auto, any, tool or none",
		`"hi"}],"tools":[{"name":"f"}],"x":[{"y":1`:                                  "tools[0].input_schema: must be there",
		`"hi"}],"thinking":{"type":"between_tools"},"x":[{"y":1`:                     "thinking.type: want enabled, adaptive or disabled",
		`"hi"}],"output_config":{"effort":"minimal"},"x":[{"y":1`:                    "output_config.effort: want low, medium, high, xhigh or max",
		`"hi"}],"output_config":{"format":{"type":"json_object"}},"x":[{"y":1`:       "output_config.format.type: want json_schema",
		`"hi"},{"role":"tool","content":"a"}],"x":[{"y":1`:                           "messages[1].role: want user, assistant or system",
		`"hi"},{"role":"user"}],"x":[{"y":1`:                                         "messages[1].content: must be there",
		`"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{},"caller":{"type":"a"}}]}],"x":[{"y":1`: "messages[1].content[0].caller.type: want direct: other callers are tools of the vendor",
		`"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"a"}]}],"x":[{"y":1`:                      "messages[1].content[0].input: want an object",
		`"hi"}],"thinking":{"type":"adaptive","display":"full"},"x":[{"y":1`:                                                           "thinking.display: want summarized or omitted",
		`"hi","content":"hi"`: "messages.0.content: is there twice",
	} {
		body := `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":` + content + `}]}`
		var fault *dialect.FieldError
		if _, err := (Client{}).ReadRequest([]byte(body)); !errors.As(err, &fault) || fault.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	if _, err := (Client{}).ReadRequest([]byte(`{"model":"m","max_tokens":5,"messages":[{"role":"system","content":"a"}]}`)); err == nil || err.Error() != "messages: want a message of the user" {
		t.Error(err)
	}
}

// TestArguments: the API requires an object as a call's input, and a model of another vendor may have written none.
func TestArguments(t *testing.T) {
	for input, want := range map[string]string{`"{oops"`: `{"arguments":"{oops"}`, `""`: `{}`, `{"a": 1}`: `{"a":1}`, ``: `{}`, `"{\"a\":1}"`: `{"a":1}`} {
		block := outputBlock(&dialect.Block{Kind: dialect.ToolCall, Input: json.RawMessage(input)})
		if got := string(dialect.Append(nil, block["input"])); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
}

// TestDocuments: the API reads PDF files and texts.
func TestDocuments(t *testing.T) {
	for _, c := range []struct {
		dialect.Source
		want string
	}{
		{dialect.Source{Data: "JVBERi0=", Type: ""}, `{"data":"JVBERi0=","media_type":"application/pdf","type":"base64"}`},
		{dialect.Source{Data: "YSxi", Type: "text/csv; charset=utf-8"}, `{"data":"a,b","media_type":"text/plain","type":"text"}`},
		{dialect.Source{ID: "file_1", Type: "image/tiff"}, `{"file_id":"file_1","type":"file"}`},
	} {
		w := writer{r: &dialect.Request{}}
		if got := string(dialect.Append(nil, w.document(c.Source))); got != c.want || w.fault != nil {
			t.Errorf("%s, %v; want %s", got, w.fault, c.want)
		}
	}
}

// TestTier: OpenAI's default is the API's standard_only.
func TestTier(t *testing.T) {
	for tier, want := range map[string]string{`"default"`: "standard_only", `"standard_only"`: "standard_only", `"auto"`: "auto"} {
		w := writer{r: &dialect.Request{Extra: map[string]json.RawMessage{"service_tier": json.RawMessage(tier)}}}
		if got := w.tier(); got != want {
			t.Errorf("%s: %s, want %s", tier, got, want)
		}
	}
}

// TestDisabledEffort: an effort next to disabled thinking is noted, as the neutral form does not have it.
func TestDisabledEffort(t *testing.T) {
	r, err := Client{}.ReadRequest([]byte(`{"model":"m","max_tokens":5,"thinking":{"type":"disabled"},"output_config":{"effort":"low"},"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil || r.Reasoning.Effort != "none" || !slices.Contains(r.Uses(), dialect.Use{Feature: dialect.OtherField, Field: "output_config.effort"}) {
		t.Error(r, err)
	}
}

// TestInvalidStreams: what is no event of the API is a fault of the stream, or an error.
func TestInvalidStreams(t *testing.T) {
	const begin = `data: {"type":"message_start","message":{"id":"a"}}` + "\n\n"
	for stream, want := range map[string]error{
		begin + "data: {\n\n":                                        openai.ErrForm,
		begin + `data: {"index":1}` + "\n\n":                         openai.ErrForm,
		begin + `data: {"type":"message_delta","delta":{}}` + "\n\n": openai.ErrCut,
		begin + `data: {"type":"message_stop"}` + "\n\n" + `data: {"type":"message_start"}` + "\n\n": nil,
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n":                 nil,
	} {
		if _, err := dialecttest.Read(server.NewReader(), []byte(stream)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", stream, err, want)
		}
	}
	fold, err := dialecttest.Read(server.NewReader(), []byte(begin+`data: {"error":{"message":"busy"}}`+"\n\n"))
	if err != nil || fold.Fault == nil || fold.Fault.Message != "busy" {
		t.Error(fold, err)
	}
	if _, err := server.ReadAnswer([]byte(`{"content":{}}`)); !errors.Is(err, openai.ErrForm) {
		t.Error(err)
	}
}
