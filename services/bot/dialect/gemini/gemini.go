// Package gemini is both sides of Google's Gemini API, generateContent and streamGenerateContent of v1beta. Sources: the reference "Generating content" and the guides "Thinking", "Thought signatures", "Function
// calling" and "OpenAI compatibility" of ai.google.dev, and the types of google.golang.org/genai, of 2026-08.
package gemini

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"dyno/services/bot/dialect"
)

// Client is the form of the endpoint.
type Client struct{}

// Server is the form of Gemini's servers.
type Server struct{}

var (
	_ dialect.Client = Client{}
	_ dialect.Server = Server{}
)

// Name implements dialect.Client.
func (Client) Name() string { return "contents" }

// Name implements dialect.Server.
func (Server) Name() string { return "gemini" }

var says = []dialect.Feature{
	dialect.SystemMessage, dialect.ImageData, dialect.ImageURL, dialect.AudioData, dialect.FileData, dialect.FileURL, dialect.FileID,
	dialect.Functions, dialect.ChooseNone, dialect.ChooseSome, dialect.ChooseOne, dialect.ResultImages, dialect.ResultFailed,
	dialect.JSONObject, dialect.JSONSchema, dialect.MaxTokens, dialect.SetTemperature, dialect.SetTopP, dialect.SetTopK,
	dialect.StopSequences, dialect.SetSeed, dialect.FrequencyWeight, dialect.PresenceWeight,
	dialect.ReasoningEffort, dialect.ReasoningBudget, dialect.ReasoningText, dialect.ThinkingBack,
}

// Says implements dialect.Server.
func (Server) Says(f dialect.Feature) bool { return slices.Contains(says, f) }

// Path implements dialect.Server. The provider's URL ends with /v1beta.
func (Server) Path(model string, stream bool) string {
	if stream {
		return "/models/" + url.PathEscape(model) + ":streamGenerateContent?alt=sse"
	}
	return "/models/" + url.PathEscape(model) + ":generateContent"
}

// modes are the server's names of choices.
var modes = map[dialect.ChoiceMode]string{dialect.Auto: "AUTO", dialect.NoTool: "NONE", dialect.SomeTool: "ANY", dialect.OneTool: "ANY"}

// AppendRequest implements dialect.Server.
func (Server) AppendRequest(b []byte, r *dialect.Request, model string) ([]byte, error) {
	config := dialect.Fields{}
	config.Set("maxOutputTokens", r.MaxTokens).Set("stopSequences", r.Stop).Set("seed", r.Seed)
	config.Set("temperature", r.Temperature).Set("topP", r.TopP).Set("topK", r.TopK)
	config.Set("presencePenalty", r.PresencePenalty).Set("frequencyPenalty", r.FrequencyPenalty)
	config.Set("thinkingConfig", thinking(r.Reasoning, model))
	if r.Format != nil {
		config.Set("responseMimeType", "application/json").Set("responseJsonSchema", r.Format.Schema)
	}
	w := dialect.Fields{"contents": contents(r, model), "generationConfig": config}
	w.Set("systemInstruction", content{Parts: parts(r.System)})
	if len(r.Tools) > 0 {
		list := make([]dialect.Fields, len(r.Tools))
		for i, t := range r.Tools {
			list[i] = dialect.Fields{"name": t.Name}.Set("description", t.Description).Set("parametersJsonSchema", t.Schema)
		}
		w["tools"] = []dialect.Fields{{"functionDeclarations": list}}
		if mode := modes[r.Choice.Mode]; mode != "" {
			calling := dialect.Fields{"mode": mode}
			if r.Choice.Mode == dialect.OneTool {
				calling["allowedFunctionNames"] = []string{r.Choice.Name}
			}
			w["toolConfig"] = dialect.Fields{"functionCallingConfig": calling}
		}
	}
	return dialect.Append(b, w), nil
}

// unsigned is the signature of a call whose own is lost.
const unsigned = "skip_thought_signature_validator"

// A content is a message.
type content struct {
	Role  string           `json:"role,omitempty"` // user or model
	Parts []dialect.Fields `json:"parts"`
}

// contents translates the messages. Those of one role in a row become one: the results of one turn's calls must come
// together. Models from Gemini 3 on want a signature for the first of these calls: if the client's form has lost it, the
// one that the guide "Thought signatures" has for that.
func contents(r *dialect.Request, model string) (all []content) {
	for _, m := range r.NamedResults() {
		role, list := "user", parts(m.Blocks)
		if m.Role == dialect.Assistant {
			role = "model"
		}
		call := slices.IndexFunc(list, func(p dialect.Fields) bool { return p["functionCall"] != nil })
		if m.Role == dialect.Assistant && call >= 0 && list[call]["thoughtSignature"] == nil && !strings.Contains(model, "gemini-2") {
			list[call]["thoughtSignature"] = unsigned
		}
		if n := len(all); n > 0 && all[n-1].Role == role {
			all[n-1].Parts = append(all[n-1].Parts, list...)
		} else if list != nil {
			all = append(all, content{role, list})
		}
	}
	return all
}

// parts translates blocks. The server refuses empty texts, unless they have a signature.
func parts(list []dialect.Block) (all []dialect.Fields) {
	for _, b := range list {
		p := dialect.Fields{}
		switch s := b.Source; b.Kind {
		case dialect.Text, dialect.Refusal, dialect.Thinking:
			if b.Text+b.Signature == "" {
				continue
			}
			p.Set("thought", b.Kind == dialect.Thinking)["text"] = b.Text
		case dialect.Image, dialect.Audio, dialect.File:
			if s.Data != "" {
				p["inlineData"] = dialect.Fields{"mimeType": cmp.Or(s.Type, "application/pdf"), "data": s.Data} // OpenAI's files may have no type
			} else {
				p["fileData"] = dialect.Fields{"fileUri": s.URL + s.ID}.Set("mimeType", s.Type)
			}
		case dialect.ToolCall:
			p["functionCall"] = dialect.Fields{"id": b.ID, "name": b.Name, "args": b.Input}
		case dialect.ToolResult:
			p["functionResponse"] = result(b)
		case dialect.Redacted: // dialect.Request.Fit refuses it
			continue
		}
		all = append(all, p.Set("thoughtSignature", b.Signature))
	}
	return all
}

// result translates a result: its texts, and its files next to these.
func result(b dialect.Block) dialect.Fields {
	var texts []string
	var files []dialect.Fields
	for _, p := range parts(b.Result) {
		if text, ok := p["text"].(string); ok {
			texts = append(texts, text)
		} else {
			files = append(files, p)
		}
	}
	field := map[bool]string{false: "output", true: "error"}[b.Failed]
	return dialect.Fields{"id": b.ID, "name": b.Name, "response": dialect.Fields{field: strings.Join(texts, "\n")}}.Set("parts", files)
}

// efforts are the budgets and levels for efforts. Models before Gemini 3 do not know levels, and others always think.
var efforts = map[string]struct {
	budget int
	level  string
}{
	"none": {0, "MINIMAL"}, "minimal": {1024, "MINIMAL"}, "low": {1024, "LOW"}, "medium": {8192, "MEDIUM"}, "high": {24576, "HIGH"}, "xhigh": {24576, "HIGH"}, "max": {24576, "HIGH"},
}

// thinking translates the reasoning. The server takes a budget or a level, not both. Clients that ask for thinking as
// Anthropic's do see its text, unless they hide it.
func thinking(g *dialect.Reasoning, model string) dialect.Fields {
	if g == nil {
		return nil
	}
	t := dialect.Fields{}.Set("includeThoughts", g.Summary != "" || (g.Budget > 0 || g.Adapt) && !g.Hide)
	effort, known := efforts[g.Effort]
	switch byBudget := strings.Contains(model, "gemini-2"); {
	case g.Budget > 0:
		t["thinkingBudget"] = g.Budget
	case known && byBudget:
		t["thinkingBudget"] = effort.budget
	case g.Effort != "":
		if t["thinkingLevel"] = cmp.Or(effort.level, g.Effort); effort.level == "MINIMAL" && strings.Contains(model, "-pro") {
			t["thinkingLevel"] = "LOW" // the least that these do
		}
	case g.Adapt && byBudget: // others do so without being asked
		t["thinkingBudget"] = -1
	}
	return t
}
