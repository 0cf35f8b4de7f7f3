package gemini

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// A request is made of the client's fields.
type request struct {
	*dialect.Request

	calls int
	open  []dialect.Block // calls whose results have not come yet
}

// ReadRequest implements dialect.Client. The body has the model and stream of the path, too.
func (Client) ReadRequest(body []byte) (*dialect.Request, error) {
	o, err := dialect.ReadObject(body)
	if err != nil {
		return nil, err
	}
	o.Camel()
	r := &request{Request: &dialect.Request{Model: o.Model("model"), IncludeUsage: true}}
	o.Take("stream", &r.Stream)
	r.in(o, "systemInstruction", func(s *dialect.Object) {
		s.Text("role") // it says nothing
		s.Note(r.Request, dialect.SystemMessage, "")
		r.System = r.parts(s, dialect.System)
	})
	list := o.Objects("contents")
	for _, c := range list {
		role, known := map[string]dialect.Role{"": dialect.User, "user": dialect.User, "model": dialect.Assistant}[c.Text("role")]
		if !known {
			c.Fail("role", "want user or model")
		}
		r.Messages = append(r.Messages, dialect.Message{Role: role, Blocks: r.parts(c, role)})
		c.NoteLeft(r.Request)
	}
	if n := len(list); n == 0 {
		o.Fail("contents", "want a content of the user")
	} else if r.Messages[n-1].Role == dialect.Assistant {
		list[n-1].Note(r.Request, dialect.Prefill, "")
	}
	for _, t := range o.Objects("tools") {
		r.tools(t.Camel())
	}
	r.in(o, "toolConfig", func(c *dialect.Object) { r.in(c, "functionCallingConfig", r.choice) })
	r.in(o, "generationConfig", r.config)
	if o.Text("cachedContent") != "" {
		o.Note(r.Request, dialect.EarlierTurns, "cachedContent")
	}
	o.NoteLeft(r.Request)
	return r.Request, o.Err()
}

// in reads an object in a field, if it is there, and notes what is left of it.
func (r *request) in(o *dialect.Object, field string, read func(*dialect.Object)) {
	if within := o.Object(field).Camel(); within != nil {
		read(within)
		within.NoteLeft(r.Request)
	}
}

// parts reads the parts of a message of a role. Pieces of a thought, as a stream has them, are one block.
func (r *request) parts(o *dialect.Object, role dialect.Role) (blocks []dialect.Block) {
	for _, p := range o.Objects("parts") {
		b, thought, last := dialect.Block{Signature: unsealed(p.Camel().Text("thoughtSignature"))}, false, len(blocks)-1
		p.Take("thought", &thought)
		switch {
		case p.HasText("text"):
			if b.Text = p.Text("text"); thought {
				b.Kind = dialect.Thinking
				p.Note(r.Request, dialect.ThinkingBack, "thought")
			}
		case p.Has("inlineData"):
			r.in(p, "inlineData", func(o *dialect.Object) { r.media(o, &b) })
		case p.Has("fileData"):
			r.in(p, "fileData", func(o *dialect.Object) { r.media(o, &b) })
		case p.Has("functionCall") && role == dialect.Assistant:
			r.in(p, "functionCall", func(o *dialect.Object) {
				b.Kind, b.Name, b.Input = dialect.ToolCall, o.Required("name"), dialect.Arguments(string(o.Schema("args")))
				b.ID = cmp.Or(o.Text("id"), fmt.Sprint("call_unnamed_", r.calls)) // it may have none, next to one that has call_1
				r.calls, r.open = r.calls+1, append(r.open, b)
			})
		case p.Has("functionResponse") && role == dialect.User:
			r.in(p, "functionResponse", func(o *dialect.Object) { r.result(o, &b) })
		default:
			p.Fail("", "cannot be translated here: want text, inlineData, fileData, functionCall of the model or functionResponse of the user")
		}
		p.NoteLeft(r.Request)
		switch {
		case b.Kind == dialect.Text && b.Text+b.Signature == "":
		case b.Kind == dialect.Thinking && last >= 0 && blocks[last].Kind == dialect.Thinking && blocks[last].Signature == "":
			blocks[last].Text, blocks[last].Signature = blocks[last].Text+b.Text, b.Signature
		default:
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Google's libraries take signatures for bytes, and send them and data in base64 for URLs. So a signature, which others
// take for a text, is that text in base64.
func sealed(signature string) string { return base64.StdEncoding.EncodeToString([]byte(signature)) }

var forURLs = strings.NewReplacer("-", "+", "_", "/")

// unsealed returns the text; "" for what a Gemini model has made.
func unsealed(signature string) string {
	text, err := base64.StdEncoding.DecodeString(forURLs.Replace(signature))
	if err != nil || !utf8.Valid(text) {
		return ""
	}
	return string(text)
}

// media reads inlineData or fileData.
func (r *request) media(o *dialect.Object, b *dialect.Block) {
	b.Kind, b.Source = dialect.File, dialect.Source{Type: o.Text("mimeType"), Name: o.Text("displayName"), URL: o.Text("fileUri")}
	if b.Source.URL == "" {
		b.Source.Data = forURLs.Replace(o.Required("data"))
	}
	switch kind, _, _ := strings.Cut(b.Source.Type, "/"); {
	case kind == "image":
		b.Kind = dialect.Image
	case kind == "audio" && b.Source.URL == "":
		b.Kind = dialect.Audio
	}
	o.Note(r.Request, b.MediaFeature(), "")
}

// result reads what a function has returned. Without an ID it is of the first call of its name that has no result.
func (r *request) result(o *dialect.Object, b *dialect.Block) {
	name, id, response := o.Required("name"), o.Text("id"), o.Schema("response")
	if at := slices.IndexFunc(r.open, func(c dialect.Block) bool { return c.ID == id || id == "" && c.Name == name }); at >= 0 {
		id = r.open[at].ID
		r.open = slices.Delete(r.open, at, at+1)
	} else if id == "" {
		o.Fail("name", "there is no call of %q without a result", name)
	}
	text, fields := string(response), map[string]json.RawMessage{}
	if json.Unmarshal(response, &fields) != nil {
		o.Fail("response", "must be there")
	}
	for field, value := range fields {
		if len(fields) == 1 && slices.Contains([]string{"output", "result", "error"}, field) {
			text, b.Failed = dialect.ArgumentText(value), field == "error"
		}
	}
	b.Kind, b.ID, b.Result = dialect.ToolResult, id, append([]dialect.Block{{Text: text}}, r.parts(o, "tool")...)
	if b.Failed {
		o.Note(r.Request, dialect.ResultFailed, "response")
	}
	if dialect.HasMedia(b.Result) {
		o.Note(r.Request, dialect.ResultImages, "parts")
	}
}

// tools reads functions. What they return goes into their descriptions: other forms have no place for it.
func (r *request) tools(o *dialect.Object) {
	for _, f := range o.Objects("functionDeclarations") {
		t := dialect.Tool{Name: f.Camel().Required("name"), Description: f.Text("description"), Schema: schemaOf(f, "parametersJsonSchema", "parameters")}
		if returns := schemaOf(f, "responseJsonSchema", "response"); returns != nil {
			t.Description = strings.TrimSpace(t.Description + "\nIt returns: " + string(returns))
		}
		f.Note(r.Request, dialect.Functions, "")
		f.NoteLeft(r.Request)
		r.Tools = append(r.Tools, t)
	}
	o.Left(func(field string, value json.RawMessage) {
		o.Note(r.Request, dialect.VendorTools, field)
		r.Tools = append(r.Tools, dialect.Tool{Own: value})
	})
}

func (r *request) choice(o *dialect.Object) {
	names := []string{""}
	if o.Take("allowedFunctionNames", &names); len(names) > 1 {
		o.Note(r.Request, dialect.OtherField, "allowedFunctionNames")
	}
	mode := o.Text("mode")
	used, known := map[string]dialect.Feature{"": "", "AUTO": "", "NONE": dialect.ChooseNone, "ANY": dialect.ChooseSome}[mode]
	r.Choice.Mode = map[string]dialect.ChoiceMode{"AUTO": dialect.Auto, "NONE": dialect.NoTool, "ANY": dialect.SomeTool}[mode]
	if mode == "ANY" && len(names) == 1 && names[0] != "" {
		r.Choice, used = dialect.Choice{Mode: dialect.OneTool, Name: names[0]}, dialect.ChooseOne
	}
	if !known {
		o.Fail("mode", "want AUTO, ANY or NONE")
	} else if used != "" {
		o.Note(r.Request, used, "mode")
	}
}

func (r *request) config(o *dialect.Object) {
	var topK *float64 // libraries write 40.0
	var other json.RawMessage
	o.Default("candidateCount", "1")
	o.Default("responseModalities", `["TEXT"]`)
	o.Default("responseLogprobs", "false")
	for _, option := range []struct {
		field string
		dialect.Feature
		to any
	}{
		{"temperature", dialect.SetTemperature, &r.Temperature}, {"topP", dialect.SetTopP, &r.TopP}, {"topK", dialect.SetTopK, &topK},
		{"seed", dialect.SetSeed, &r.Seed}, {"stopSequences", dialect.StopSequences, &r.Stop},
		{"presencePenalty", dialect.PresenceWeight, &r.PresencePenalty}, {"frequencyPenalty", dialect.FrequencyWeight, &r.FrequencyPenalty},
		{"candidateCount", dialect.SeveralChoices, &other}, {"responseModalities", dialect.AudioAnswer, &other},
		{"responseLogprobs", dialect.TokenLogprobs, &other}, {"logprobs", dialect.TokenLogprobs, &other},
	} {
		if o.Take(option.field, option.to) {
			o.Note(r.Request, option.Feature, option.field)
		}
	}
	if topK != nil {
		r.TopK = new(int(*topK))
	}
	if r.MaxTokens = o.Tokens("maxOutputTokens"); r.MaxTokens > 0 {
		o.Note(r.Request, dialect.MaxTokens, "maxOutputTokens")
	}
	schema, used := schemaOf(o, "responseJsonSchema", "responseSchema"), dialect.JSONSchema
	switch kind := o.Text("responseMimeType"); {
	case kind == "application/json":
		if r.Format = (&dialect.Format{Schema: schema}); schema == nil {
			used = dialect.JSONObject
		}
		o.Note(r.Request, used, "responseMimeType")
	case kind != "" && kind != "text/plain", schema != nil:
		o.Note(r.Request, dialect.OtherField, "responseMimeType")
	}
	r.in(o, "thinkingConfig", r.thinking)
	o.NoteLeft(r.Request)
}

func (r *request) thinking(o *dialect.Object) {
	g, shown := &dialect.Reasoning{Effort: strings.ToLower(o.Text("thinkingLevel")), Hide: true}, false
	if r.Reasoning = g; o.Take("thinkingBudget", &g.Budget) {
		switch {
		case g.Budget == 0:
			g.Effort = "none"
		case g.Budget < 0: // as much as the model decides
			g.Budget, g.Adapt = 0, true
		}
	}
	if o.Take("includeThoughts", &shown); shown {
		g.Summary, g.Hide = "auto", false
		o.Note(r.Request, dialect.ReasoningText, "includeThoughts")
	}
	for used, is := range map[dialect.Feature]bool{dialect.ReasoningEffort: g.Effort != "", dialect.ReasoningBudget: g.Budget > 0 || g.Adapt} {
		if is {
			o.Note(r.Request, used, "")
		}
	}
}

// schemaOf takes out a schema: one in JSON Schema, or else one in the API's form.
func schemaOf(o *dialect.Object, field, own string) json.RawMessage {
	schema, given := o.Schema(field), map[string]any{}
	if form := o.Schema(own); schema == nil && json.Unmarshal(form, &given) == nil {
		schema = dialect.Append(nil, jsonSchema(given))
	}
	return schema
}

// jsonSchema translates a schema of the API's form, a part of OpenAPI 3.0. Its objects have no other properties.
func jsonSchema(v any) any {
	if list, ok := v.([]any); ok {
		for i := range list {
			list[i] = jsonSchema(list[i])
		}
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	s := dialect.Fields{}
	for name, value := range fields {
		properties, _ := value.(map[string]any)
		kind, _ := value.(string)
		switch name = openai.InCamel(name); {
		case name == "properties":
			for _, property := range slices.Collect(maps.Keys(properties)) {
				properties[property] = jsonSchema(properties[property])
			}
			s[name], s["additionalProperties"] = properties, false
		case name == "type":
			s[name] = strings.ToLower(kind)
		case name != "propertyOrdering" && name != "nullable":
			s[name] = jsonSchema(value)
		}
	}
	if fields["nullable"] == true {
		s["type"] = []any{s["type"], "null"}
	}
	return s
}
