package dialecttest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"dyno/services/bot/dialect"
)

// uses has a change of a request for each feature, after which it uses the feature. What the feature needs is there, too.
var uses = map[dialect.Feature]func(r *dialect.Request){
	dialect.SystemMessage: func(r *dialect.Request) { r.System = []dialect.Block{{Text: "be brief"}} },
	dialect.LateSystem: func(r *dialect.Request) {
		r.Messages = append(r.Messages, message(dialect.System, dialect.Block{Text: "be brief"}))
	},
	dialect.SpeakerName: func(r *dialect.Request) { r.Messages[0].Name = "ann" },
	dialect.ImageData:   says(dialect.Block{Kind: dialect.Image, Source: dialect.Source{Data: "iVBORw0KGgo=", Type: "image/png"}}),
	dialect.ImageURL:    says(dialect.Block{Kind: dialect.Image, Source: dialect.Source{URL: "https://example.com/a.png"}}),
	dialect.ImageDetail: says(dialect.Block{Kind: dialect.Image, Source: dialect.Source{Data: "iVBORw0KGgo=", Type: "image/png", Detail: "low"}}),
	dialect.AudioData:   says(dialect.Block{Kind: dialect.Audio, Source: dialect.Source{Data: "UklGRg==", Type: "audio/wav"}}),
	dialect.FileData:    says(dialect.Block{Kind: dialect.File, Source: dialect.Source{Data: "JVBERi0=", Type: "application/pdf", Name: "a.pdf"}}),
	dialect.FileURL:     says(dialect.Block{Kind: dialect.File, Source: dialect.Source{URL: "https://example.com/a.pdf"}}),
	dialect.FileID:      says(dialect.Block{Kind: dialect.File, Source: dialect.Source{ID: "file-1"}}),
	dialect.Functions:   tools,
	dialect.StrictTools: func(r *dialect.Request) { tools(r); r.Tools[0].Strict = new(true) },
	dialect.CustomTools: func(r *dialect.Request) { r.Tools = []dialect.Tool{{Name: "run", Custom: true}} },
	dialect.VendorTools: func(r *dialect.Request) { r.Tools = []dialect.Tool{{Own: json.RawMessage(`{"type":"search"}`)}} },
	dialect.ChooseNone:  func(r *dialect.Request) { tools(r); r.Choice.Mode = dialect.NoTool },
	dialect.ChooseSome:  func(r *dialect.Request) { tools(r); r.Choice.Mode = dialect.SomeTool },
	dialect.ChooseOne:   func(r *dialect.Request) { tools(r); r.Choice = dialect.Choice{Mode: dialect.OneTool, Name: "weather"} },
	dialect.SingleCall:  func(r *dialect.Request) { tools(r); r.Parallel = new(false) },
	dialect.ResultImages: func(r *dialect.Request) {
		call(r, dialect.Block{Result: []dialect.Block{{Kind: dialect.Image, Source: dialect.Source{Data: "iVBORw0KGgo=", Type: "image/png"}}}})
	},
	dialect.ResultFailed: func(r *dialect.Request) { call(r, dialect.Block{Result: []dialect.Block{{Text: "no"}}, Failed: true}) },
	dialect.JSONObject:   func(r *dialect.Request) { r.Format = &dialect.Format{} },
	dialect.JSONSchema: func(r *dialect.Request) {
		r.Format = &dialect.Format{Name: "city", Schema: json.RawMessage(`{"type":"object"}`)}
	},
	dialect.MaxTokens:       func(r *dialect.Request) { r.MaxTokens = 77 },
	dialect.SetTemperature:  func(r *dialect.Request) { r.Temperature = new(0.25) },
	dialect.SetTopP:         func(r *dialect.Request) { r.TopP = new(0.75) },
	dialect.SetTopK:         func(r *dialect.Request) { r.TopK = new(40) },
	dialect.StopSequences:   func(r *dialect.Request) { r.Stop = []string{"END"} },
	dialect.SetSeed:         func(r *dialect.Request) { r.Seed = new(int64(7)) },
	dialect.FrequencyWeight: func(r *dialect.Request) { r.FrequencyPenalty = new(0.5) },
	dialect.PresenceWeight:  func(r *dialect.Request) { r.PresencePenalty = new(0.5) },
	dialect.ReasoningEffort: func(r *dialect.Request) { r.Reasoning = &dialect.Reasoning{Effort: "low"} },
	dialect.ReasoningBudget: func(r *dialect.Request) { r.Reasoning = &dialect.Reasoning{Budget: 2048} },
	dialect.ReasoningText:   func(r *dialect.Request) { r.Reasoning = &dialect.Reasoning{Summary: "auto"} },
	dialect.ThinkingBack:    answers(dialect.Block{Kind: dialect.Thinking, Text: "hm", Signature: "c2ln"}),
	dialect.RedactedBack:    answers(dialect.Block{Kind: dialect.Redacted, Signature: "c2ln"}),
	dialect.CacheMarks:      func(r *dialect.Request) { r.Messages[0].Blocks[0].Cache = "1h" },
	dialect.UserID:          func(r *dialect.Request) { r.User = "u1" },
	dialect.SetMetadata:     func(r *dialect.Request) { r.Metadata = map[string]string{"team": "a"} },
	dialect.Prefill: func(r *dialect.Request) {
		r.Messages = append(r.Messages, message(dialect.Assistant, dialect.Block{Text: "It is"}))
	},
	dialect.SeveralChoices: extra("n", "2"),
	dialect.TokenLogprobs:  extra("logprobs", "true"),
	dialect.LogitBias:      extra("logit_bias", `{"7":1}`),
	dialect.AudioAnswer:    extra("modalities", `["audio"]`),
	dialect.Stored:         extra("store", "true"),
	dialect.EarlierTurns:   extra("previous_response_id", `"resp_1"`),
	dialect.InBackground:   extra("background", "true"),
	dialect.ServiceTier:    extra("service_tier", `"auto"`),
	dialect.ServerSampling: extra("min_p", "0.25"),
	dialect.OtherField:     extra("other_field", "1"),
}

func message(role dialect.Role, blocks ...dialect.Block) dialect.Message {
	return dialect.Message{Role: role, Blocks: blocks}
}

// says adds a block to the user's message.
func says(b dialect.Block) func(r *dialect.Request) {
	return func(r *dialect.Request) { r.Messages[0].Blocks = append(r.Messages[0].Blocks, b) }
}

// answers adds an earlier answer with a block.
func answers(b dialect.Block) func(r *dialect.Request) {
	return func(r *dialect.Request) {
		r.Messages = append(r.Messages, message(dialect.Assistant, b, dialect.Block{Text: "a"}), message(dialect.User, dialect.Block{Text: "q"}))
	}
}

func tools(r *dialect.Request) {
	r.Tools = []dialect.Tool{{Name: "weather", Schema: json.RawMessage(`{"type":"object"}`)}}
}

// call adds a call of a tool, and its result.
func call(r *dialect.Request, result dialect.Block) {
	tools(r)
	result.Kind, result.ID = dialect.ToolResult, "call_1"
	r.Messages = append(r.Messages, message(dialect.Assistant, dialect.Block{Kind: dialect.ToolCall, ID: "call_1", Name: "weather", Input: json.RawMessage("{}")}), message(dialect.User, result))
}

func extra(field, value string) func(r *dialect.Request) {
	return func(r *dialect.Request) { r.Extra = map[string]json.RawMessage{field: json.RawMessage(value)} }
}

// Features checks each feature of the table: a server writes a fragment for it, which golden has, or says that it does
// not have the feature, and the request does not fit. A fragment is an object with some fields of one in the request;
// that of a feature without fields is {}.
func Features(t *testing.T, s dialect.Server, golden map[dialect.Feature]string) {
	body := func(t *testing.T, f dialect.Feature, use func(r *dialect.Request)) (body string, err error) {
		r := &dialect.Request{Model: "m", Messages: []dialect.Message{message(dialect.User, dialect.Block{Text: "hi"})}}
		use(r)
		r.Note(f, "field")
		if r, _, err = r.Fit(s, nil); err != nil {
			return "", err
		}
		b, err := s.AppendRequest(nil, r, "m")
		if err != nil {
			t.Fatal(err)
		}
		return string(b), nil
	}
	for _, f := range dialect.Features() {
		t.Run(string(f), func(t *testing.T) {
			use, ok := uses[f]
			if !ok {
				t.Fatal("no request uses it")
			}
			fragment, has := golden[f]
			got, err := body(t, f, use)
			var unsaid *dialect.Unsaid
			switch {
			case !has && (!errors.As(err, &unsaid) || unsaid.Feature != f):
				t.Errorf("want it refused, not %s, %v", got, err)
			case has && (err != nil || !within(decoded(t, got), decoded(t, fragment))):
				t.Errorf("%s, %v; want %s", got, err, fragment)
			case has && fragment != "{}":
				plain, _ := body(t, dialect.MaxTokens, func(*dialect.Request) {})
				if plain != "" && within(decoded(t, plain), decoded(t, fragment)) {
					t.Errorf("%s has %s without the feature", plain, fragment)
				}
			}
		})
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(text, err)
	}
	return v
}

// within reports whether a value, or one somewhere in it, has the fragment.
func within(v, fragment any) bool {
	if has(v, fragment) {
		return true
	}
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return within(e, fragment) })
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(e any) bool { return within(e, fragment) })
	}
	return false
}

// has reports whether a value has all fields of a fragment; lists have no other elements.
func has(v, fragment any) bool {
	switch fragment := fragment.(type) {
	case map[string]any:
		v, ok := v.(map[string]any)
		for name, value := range fragment {
			within, there := v[name]
			ok = ok && there && has(within, value)
		}
		return ok
	case []any:
		v, ok := v.([]any)
		return ok && slices.EqualFunc(v, fragment, has)
	}
	return v == fragment
}
