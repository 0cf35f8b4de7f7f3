// Package ollama writes requests in the form of Ollama's own API, /api/chat, and reads its answers, whole and streamed
// as lines of JSON. Sources: docs/api.md, docs/api/errors.mdx and api/types.go of github.com/ollama/ollama, of 2026-08.
package ollama

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// Server is the form of Ollama's servers.
type Server struct{}

// Name implements dialect.Server.
func (Server) Name() string { return "ollama" }

var says = []dialect.Feature{
	dialect.SystemMessage, dialect.LateSystem, dialect.ImageData, dialect.Functions, dialect.ChooseNone,
	dialect.JSONObject, dialect.JSONSchema, dialect.MaxTokens, dialect.SetTemperature, dialect.SetTopP, dialect.SetTopK,
	dialect.StopSequences, dialect.SetSeed, dialect.FrequencyWeight, dialect.PresenceWeight,
	dialect.ReasoningEffort, dialect.ReasoningText, dialect.ThinkingBack,
}

// Says implements dialect.Server.
func (Server) Says(f dialect.Feature) bool { return slices.Contains(says, f) }

// Path implements dialect.Server.
func (Server) Path(string, bool) string { return "/api/chat" }

// AppendRequest implements dialect.Server.
func (Server) AppendRequest(b []byte, r *dialect.Request, model string) ([]byte, error) {
	list := translate(nil, dialect.Message{Role: dialect.System, Blocks: r.System})
	for _, m := range r.NamedResults() {
		list = translate(list, m)
	}
	options := dialect.Fields{}
	options.Set("num_predict", r.MaxTokens).Set("stop", r.Stop).Set("seed", r.Seed)
	options.Set("temperature", r.Temperature).Set("top_p", r.TopP).Set("top_k", r.TopK)
	options.Set("presence_penalty", r.PresencePenalty).Set("frequency_penalty", r.FrequencyPenalty)
	w := dialect.Fields{"model": model, "messages": list, "stream": r.Stream, "options": options}
	// There is no choice of tools. Without tools, there are no calls.
	if len(r.Tools) > 0 && r.Choice.Mode != dialect.NoTool {
		tools := make([]dialect.Fields, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = dialect.Fields{"type": "function", "function": dialect.Fields{"name": t.Name}.Set("description", t.Description).Set("parameters", t.Schema)}
		}
		w["tools"] = tools
	}
	if r.Format != nil {
		w.Set("format", "json").Set("format", r.Format.Schema)
	}
	if g := r.Reasoning; g != nil && g.Effort != "" {
		w["think"] = cmp.Or(levels[g.Effort], any(g.Effort))
	} else if g != nil && g.Summary != "" {
		w["think"] = true // an answer has all of its thinking
	}
	return dialect.Append(b, w), nil
}

// levels are the server's names of efforts that have others.
var levels = map[string]any{"none": false, "minimal": "low", "xhigh": "max"}

// translate adds the messages for one. Results of tools have messages of their own. Texts are joined as the server joins
// messages.
func translate(list []dialect.Fields, m dialect.Message) []dialect.Fields {
	var texts, thoughts, images []string
	var calls []dialect.Fields
	flush := func() {
		if len(texts)+len(thoughts)+len(images)+len(calls) > 0 {
			w := dialect.Fields{"role": m.Role, "content": strings.Join(texts, "\n\n")}
			list = append(list, w.Set("thinking", strings.Join(thoughts, "\n\n")).Set("images", images).Set("tool_calls", calls))
		}
		texts, thoughts, images, calls = nil, nil, nil, nil
	}
	for _, b := range m.Blocks {
		switch b.Kind {
		case dialect.Text, dialect.Refusal:
			texts = append(texts, b.Text)
		case dialect.Thinking:
			thoughts = append(thoughts, b.Text)
		case dialect.Image:
			images = append(images, b.Source.Data)
		case dialect.ToolCall:
			calls = append(calls, dialect.Fields{"id": b.ID, "function": dialect.Fields{"name": b.Name, "arguments": b.Input}})
		case dialect.ToolResult:
			flush()
			for _, t := range b.Result {
				texts = append(texts, t.Text)
			}
			list = append(list, dialect.Fields{"role": "tool", "tool_name": b.Name, "tool_call_id": b.ID, "content": strings.Join(texts, "\n\n")})
			texts = nil
		case dialect.Audio, dialect.File, dialect.Redacted: // dialect.Request.Fit refuses them
		}
	}
	flush()
	return list
}

// ReadAnswer implements dialect.Server. A whole answer has the form of a line.
func (s Server) ReadAnswer(body []byte) (*dialect.Answer, error) {
	return dialect.ReadWhole(s.NewReader(), body)
}

// NewReader implements dialect.Server.
func (Server) NewReader() dialect.Reader { return &reader{} }

// A line is a part of an answer, or a fault.
type line struct {
	Model   string `json:"model"`
	Created string `json:"created_at"` // of this line
	Message struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"` // absent in old versions
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done   bool             `json:"done"`
	Reason string           `json:"done_reason"` // absent in old versions
	Prompt int              `json:"prompt_eval_count"`
	Answer int              `json:"eval_count"`
	Error  *json.RawMessage `json:"error"`
}

// A reader reads a stream. Its last line is done.
type reader struct{ dialect.Emitter }

// Read implements dialect.Reader.
func (r *reader) Read(f openai.Frame, each func(*dialect.Event)) error {
	var l line
	if r.Ended {
		return nil
	}
	if err := json.Unmarshal(f.Data, &l); err != nil {
		return fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	r.Each = each
	if l.Error != nil {
		r.Fail(openai.Standard().ParseFault(f.Data))
		return nil
	}
	if !r.Began {
		a := dialect.Answer{Model: l.Model}
		if at, err := time.Parse(time.RFC3339Nano, l.Created); err == nil {
			a.Created, a.ID = at.Unix(), strconv.FormatInt(at.UnixNano(), 36) // hardly any other answer began then
		}
		r.Begin(a, a.ID)
	}
	r.Piece(dialect.Thinking, l.Message.Thinking, "")
	r.Piece(dialect.Text, l.Message.Content, "")
	for _, c := range l.Message.ToolCalls {
		r.Call(c.ID, c.Function.Name, string(c.Function.Arguments), "")
	}
	if r.Stopped = l.Done; l.Answer > 0 { // the prompt's count is absent if all of it was cached
		r.Last.Usage = &openai.Usage{Prompt: l.Prompt, Completion: l.Answer}
	}
	switch l.Reason {
	case "load", "unload":
		r.Fail(openai.Fault{Message: "the server did not answer, but did only: " + l.Reason})
	case "length":
		r.Last.Stop = dialect.Length
	}
	return nil
}
