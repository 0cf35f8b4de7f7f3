package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/gemini"
	"dyno/services/bot/openai"
)

// The types of this file are the API's, apart from those of the package.

type apiRequest struct {
	Contents          []apiContent `json:"contents"`
	SystemInstruction apiContent   `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []struct {
			Name                 string          `json:"name"`
			Description          string          `json:"description"`
			ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		FunctionCallingConfig struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	GenerationConfig struct {
		MaxOutputTokens    int             `json:"maxOutputTokens"`
		Temperature        *float64        `json:"temperature"`
		TopP               *float64        `json:"topP"`
		TopK               *int            `json:"topK"`
		StopSequences      []string        `json:"stopSequences"`
		Seed               *int64          `json:"seed"`
		PresencePenalty    *float64        `json:"presencePenalty"`
		FrequencyPenalty   *float64        `json:"frequencyPenalty"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ThinkingConfig     struct {
			ThinkingBudget  int    `json:"thinkingBudget"`
			ThinkingLevel   string `json:"thinkingLevel"`
			IncludeThoughts bool   `json:"includeThoughts"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

type apiContent struct {
	Role  string    `json:"role,omitempty"`
	Parts []apiPart `json:"parts"`
}

type apiPart struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
	InlineData       *apiData          `json:"inlineData,omitempty"`
	FileData         *apiData          `json:"fileData,omitempty"`
	FunctionCall     *apiFunctionCall  `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type apiData struct {
	MIMEType string `json:"mimeType,omitempty"`
	Data     string `json:"data,omitempty"`
	FileURI  string `json:"fileUri,omitempty"`
}

type apiFunctionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Parts    []apiPart `json:"parts"`
	Response struct {
		Output *string `json:"output"`
		Error  *string `json:"error"`
	} `json:"response"`
}

// readRequest reads a request by the API's types.
func readRequest(t *rapid.T, body []byte) *dialect.Request {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var w apiRequest
	if err := d.Decode(&w); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	c, calling := w.GenerationConfig, w.ToolConfig.FunctionCallingConfig
	r := &dialect.Request{
		System: readParts(t, w.SystemInstruction.Parts), MaxTokens: c.MaxOutputTokens, Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK,
		Stop: c.StopSequences, Seed: c.Seed, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
	}
	for _, m := range w.Contents {
		role := map[string]dialect.Role{"user": dialect.User, "model": dialect.Assistant}[m.Role]
		r.Messages = append(r.Messages, dialect.Message{Role: role, Blocks: readParts(t, m.Parts)})
	}
	for _, set := range w.Tools {
		for _, f := range set.FunctionDeclarations {
			r.Tools = append(r.Tools, dialect.Tool{Name: f.Name, Description: f.Description, Schema: f.ParametersJSONSchema})
		}
	}
	r.Choice.Mode = map[string]dialect.ChoiceMode{"AUTO": dialect.Auto, "NONE": dialect.NoTool, "ANY": dialect.SomeTool}[calling.Mode]
	if len(calling.AllowedFunctionNames) == 1 {
		r.Choice = dialect.Choice{Mode: dialect.OneTool, Name: calling.AllowedFunctionNames[0]}
	}
	if c.ResponseMIMEType == "application/json" {
		r.Format = &dialect.Format{Schema: c.ResponseJSONSchema}
	}
	reasoning := dialect.Reasoning{Effort: strings.ToLower(c.ThinkingConfig.ThinkingLevel), Budget: c.ThinkingConfig.ThinkingBudget}
	if c.ThinkingConfig.IncludeThoughts {
		reasoning.Summary = "auto"
	}
	if reasoning != (dialect.Reasoning{}) {
		r.Reasoning = &reasoning
	}
	return r
}

func readParts(t *rapid.T, list []apiPart) (blocks []dialect.Block) {
	for _, p := range list {
		b := dialect.Block{Signature: strings.TrimPrefix(p.ThoughtSignature, "skip_thought_signature_validator")}
		switch {
		case p.Text != nil && p.Thought:
			b.Kind, b.Text = dialect.Thinking, *p.Text
		case p.Text != nil:
			b.Text = *p.Text
		case p.InlineData != nil:
			b.Kind, b.Source = dialect.File, dialect.Source{Type: p.InlineData.MIMEType, Data: p.InlineData.Data}
			switch kind, _, _ := strings.Cut(p.InlineData.MIMEType, "/"); kind {
			case "image":
				b.Kind = dialect.Image
			case "audio":
				b.Kind = dialect.Audio
			}
		case p.FileData != nil:
			b.Kind, b.Source = dialect.File, dialect.Source{Type: p.FileData.MIMEType, URL: p.FileData.FileURI}
		case p.FunctionCall != nil:
			b.Kind, b.ID, b.Name, b.Input = dialect.ToolCall, p.FunctionCall.ID, p.FunctionCall.Name, p.FunctionCall.Args
		case p.FunctionResponse != nil:
			f := p.FunctionResponse
			b.Kind, b.ID, b.Name, b.Failed = dialect.ToolResult, f.ID, f.Name, f.Response.Error != nil
			for _, text := range []*string{f.Response.Output, f.Response.Error} {
				if text != nil {
					b.Result = append(b.Result, dialect.Block{Text: *text})
				}
			}
			b.Result = append(b.Result, readParts(t, f.Parts)...)
		default:
			t.Fatalf("an empty part: %+v", p)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// normalized returns what is left of a request in the API's form.
func normalized(r *dialect.Request) *dialect.Request {
	r.Messages = r.NamedResults()
	r.Model, r.Stream, r.IncludeUsage = "", false, false
	if r.Format != nil {
		r.Format.Name = ""
	}
	if r.Reasoning != nil && r.Reasoning.Budget > 0 {
		r.Reasoning.Effort, r.Reasoning.Summary = "", "auto"
	}
	var messages []dialect.Message
	for _, m := range r.Messages {
		for i := range m.Blocks {
			switch s := &m.Blocks[i].Source; {
			case s.URL != "" || s.ID != "":
				m.Blocks[i].Kind, *s = dialect.File, dialect.Source{URL: s.URL + s.ID}
			default:
				s.Name = ""
			}
		}
		if n := len(messages); n > 0 && messages[n-1].Role == m.Role {
			messages[n-1].Blocks = append(messages[n-1].Blocks, m.Blocks...)
		} else {
			messages = append(messages, m)
		}
	}
	r.Messages = messages
	return r
}

// TestRequests: all of a request is in the API's form, in fields that the API has.
func TestRequests(t *testing.T) {
	s := gemini.Server{}
	rapid.Check(t, func(t *rapid.T) {
		r := dialecttest.Requests(s.Says).Draw(t, "request")
		body, err := s.AppendRequest([]byte("x"), r, "gemini-3-flash")
		if err != nil || body[0] != 'x' {
			t.Fatal(err)
		}
		if got, want := dialecttest.Dump(readRequest(t, body[1:])), dialecttest.Dump(normalized(r)); got != want {
			t.Fatalf("%s\n%s\nwant\n%s", body, got, want)
		}
	})
}

// A writer writes answers in the API's form: each event is one of a stream.
type writer struct {
	kind dialect.Kind
	call apiFunctionCall
	sign string // of the call
}

func (w *writer) event(e *dialect.Event) string {
	var p apiPart
	switch e.Kind {
	case dialect.Open:
		w.kind, w.call, w.sign = e.Block.Kind, apiFunctionCall{ID: e.Block.ID, Name: e.Block.Name}, ""
		return ""
	case dialect.Piece:
		if w.kind == dialect.ToolCall { // whole, at its end
			w.call.Args, w.sign = append(w.call.Args, e.Text...), w.sign+e.Signature
			return ""
		}
		p = apiPart{Text: &e.Text, Thought: w.kind == dialect.Thinking, ThoughtSignature: e.Signature}
	case dialect.Close:
		if w.kind != dialect.ToolCall {
			return ""
		}
		p = apiPart{FunctionCall: &w.call, ThoughtSignature: w.sign}
	case dialect.Finish:
		reason := map[dialect.Stop]string{dialect.Length: "MAX_TOKENS", dialect.Filtered: "SAFETY"}[e.Answer.Stop]
		if reason == "" {
			reason = "STOP"
		}
		return fmt.Sprintf(`"candidates":[{"finishReason":%q}]`, reason) + usageText(e.Answer.Usage)
	default:
		return ""
	}
	return fmt.Sprintf(`"candidates":[{"content":{"parts":[%s]}}]`, dialect.Append(nil, p))
}

func usageText(u *openai.Usage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"cachedContentTokenCount":%d}`,
		u.Prompt, u.Completion-u.Reasoning, u.Reasoning, u.Cached)
}

// TestAnswers: whole answers and streams, cut anywhere, are read as they were written.
func TestAnswers(t *testing.T) {
	s := gemini.Server{}
	kinds := []dialect.Kind{dialect.Thinking, dialect.Text, dialect.ToolCall}
	stops := []dialect.Stop{dialect.End, dialect.Length, dialect.Filtered}
	for name, form := range map[string]dialecttest.Form{
		"signed": {Kinds: kinds, Stops: stops, Signed: kinds, Repeat: true}, // a signature ends a text
		"plain":  {Kinds: kinds, Stops: stops},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a := dialecttest.Answers(form).Draw(t, "answer")
				a.Created = 0
				head := fmt.Sprintf(`{"responseId":%q,"modelVersion":%q,`, a.ID, a.Model)
				var stream, parts []string
				w := &writer{}
				dialecttest.Split(t, a, func(e *dialect.Event) {
					if event := w.event(e); event != "" {
						stream = append(stream, "data: "+head+event+"}\n\n")
					}
				})
				a.Events(func(e *dialect.Event) {
					if _, part, ok := strings.Cut(w.event(e), `"parts":[`); ok {
						parts = append(parts, strings.TrimSuffix(part, "]}}]"))
					}
				})
				end := w.event(&dialect.Event{Kind: dialect.Finish, Answer: *a})
				whole := head + strings.Replace(end, `[{`, `[{"content":{"parts":[`+strings.Join(parts, ",")+`]},`, 1) + "}"

				got, err := s.ReadAnswer([]byte(whole))
				if err != nil || dialecttest.Dump(got) != dialecttest.Dump(a) {
					t.Fatalf("%s\n%s, %v\nwant\n%s", whole, dialecttest.Dump(got), err, dialecttest.Dump(a))
				}
				fold, err := dialecttest.Read(s.NewReader(), []byte(strings.Join(stream, "")))
				if err != nil || dialecttest.Dump(fold.Answer) != dialecttest.Dump(a) {
					t.Fatalf("%s\n%s, %v\nwant\n%s", stream, dialecttest.Dump(fold.Answer), err, dialecttest.Dump(a))
				}
				if _, err := dialecttest.Read(s.NewReader(), []byte(strings.Join(slices.Delete(stream, len(stream)-1, len(stream)), ""))); err == nil {
					t.Fatal("a stream without its end is complete")
				}
			})
		})
	}
}
