package messages

import (
	"encoding/base64"

	"dyno/services/bot/dialect"
)

// ReadRequest implements dialect.Client.
func (Client) ReadRequest(body []byte) (*dialect.Request, error) {
	o, err := dialect.ReadObject(body)
	if err != nil {
		return nil, err
	}
	r := reader{&dialect.Request{Model: o.Model("model"), MaxTokens: o.Tokens("max_tokens"), IncludeUsage: true}}
	if r.MaxTokens > 0 {
		o.Note(r.Request, dialect.MaxTokens, "max_tokens")
	} else {
		o.Fail("max_tokens", "must be there")
	}
	r.system(o.Parts("system", "text"))
	r.messages(o)
	r.markLast(o.CacheMark(r.Request))
	for _, t := range o.Objects("tools") {
		r.tool(t)
	}
	if c := o.Object("tool_choice"); c != nil {
		r.choice(c)
	}
	var g dialect.Reasoning
	if thinking := o.Object("thinking"); thinking != nil {
		r.thinking(thinking, &g)
	}
	if config := o.Object("output_config"); config != nil {
		r.effort(config, &g)
		r.format(config.Object("format"))
		config.NoteLeft(r.Request)
	}
	r.format(o.Object("output_format")) // of earlier SDKs
	if g != (dialect.Reasoning{}) {
		r.Reasoning = &g
	}
	if m := o.Object("metadata"); m != nil {
		if m.Take("user_id", &r.User) {
			m.Note(r.Request, dialect.UserID, "user_id")
		}
		m.NoteLeft(r.Request)
	}
	if o.Take("stop_sequences", &r.Stop) {
		o.Note(r.Request, dialect.StopSequences, "stop_sequences")
	}
	o.Options(r.Request)
	o.Extra(r.Request)
	return r.Request, o.Err()
}

// A reader makes a request from the client's fields.
type reader struct{ *dialect.Request }

// system reads a message of the system at the beginning.
func (r reader) system(parts []*dialect.Object) {
	for _, part := range parts {
		part.Note(r.Request, dialect.SystemMessage, "")
		r.System = append(r.System, r.block(part, dialect.System))
	}
}

func (r reader) messages(o *dialect.Object) {
	list := o.Objects("messages")
	for _, m := range list {
		role := dialect.Role(m.Text("role"))
		if role != dialect.User && role != dialect.Assistant && role != dialect.System {
			m.Fail("role", "want user, assistant or system")
		}
		if !m.Has("content") {
			m.Fail("content", "must be there")
		}
		parts := m.Parts("content", "text")
		m.NoteLeft(r.Request)
		if role == dialect.System {
			if len(r.Messages) == 0 {
				r.system(parts)
				continue
			}
			m.Note(r.Request, dialect.LateSystem, "")
		}
		message := dialect.Message{Role: role}
		for _, part := range parts {
			message.Blocks = append(message.Blocks, r.block(part, role))
		}
		r.Messages = append(r.Messages, message)
	}
	if len(r.Messages) == 0 {
		o.Fail("messages", "want a message of the user")
	} else if r.Messages[len(r.Messages)-1].Role == dialect.Assistant {
		list[len(list)-1].Note(r.Request, dialect.Prefill, "")
	}
}

// inResult is the place of a block in a tool's result.
const inResult dialect.Role = "tool"

// block reads a part of a message of a role.
func (r reader) block(o *dialect.Object, in dialect.Role) (b dialect.Block) {
	switch kind := o.Required("type"); {
	case kind == "text":
		b.Text = o.Text("text")
	case kind == "image" && in != dialect.System:
		b.Kind = dialect.Image
		if r.source(o, &b); in == inResult {
			o.Note(r.Request, dialect.ResultImages, "")
		}
	case kind == "document" && in != dialect.System:
		b.Kind, b.Source.Name = dialect.File, o.Text("title")
		r.source(o, &b)
		if c := o.Object("citations"); c != nil {
			c.Default("enabled", "false")
			c.NoteLeft(r.Request)
		}
	case kind == "tool_use" && in == dialect.Assistant:
		b.Kind, b.ID, b.Name, b.Input = dialect.ToolCall, o.Required("id"), o.Required("name"), o.Schema("input")
		if b.Input == nil {
			o.Fail("input", "must be there")
		}
		if c := o.Object("caller"); c != nil && c.Text("type") != "direct" {
			c.Fail("type", "want direct: other callers are tools of the vendor")
		}
	case kind == "tool_result" && in == dialect.User:
		b.Kind, b.ID = dialect.ToolResult, o.Required("tool_use_id")
		for _, part := range o.Parts("content", "text") {
			b.Result = append(b.Result, r.block(part, inResult))
		}
		if o.Take("is_error", &b.Failed); b.Failed {
			o.Note(r.Request, dialect.ResultFailed, "is_error")
		}
	case kind == "thinking" && in == dialect.Assistant:
		b.Kind, b.Text, b.Signature = dialect.Thinking, o.Text("thinking"), o.Text("signature")
		o.Note(r.Request, dialect.ThinkingBack, "")
	case kind == "redacted_thinking" && in == dialect.Assistant:
		b.Kind, b.Signature = dialect.Redacted, o.Required("data")
		o.Note(r.Request, dialect.RedactedBack, "")
	default:
		o.Fail("type", "%q cannot be translated here", kind)
	}
	b.Cache = o.CacheMark(r.Request)
	o.NoteLeft(r.Request)
	return b
}

// markLast applies the mark of a whole request: it is one of the last block that may have one.
func (r reader) markLast(ttl string) {
	for i := len(r.Messages) - 1; i >= 0 && ttl != ""; i-- {
		blocks := r.Messages[i].Blocks
		for j := len(blocks) - 1; j >= 0 && ttl != ""; j-- {
			if k := blocks[j].Kind; k != dialect.Thinking && k != dialect.Redacted {
				blocks[j].Cache, ttl = ttl, ""
			}
		}
	}
}

// plainText is the type of documents that are sent as text.
const plainText = "text/plain"

// source reads where an image or a document is.
func (r reader) source(o *dialect.Object, b *dialect.Block) {
	from := o.Object("source")
	if from == nil {
		o.Fail("source", "must be there")
		return
	}
	switch s, kind := &b.Source, from.Text("type"); {
	case kind == "base64":
		s.Data, s.Type = from.Required("data"), from.Required("media_type")
	case kind == "text" && b.Kind == dialect.File:
		s.Data, s.Type = base64.StdEncoding.EncodeToString([]byte(from.Required("data"))), plainText
		from.Text("media_type") // always that
	case kind == "url":
		s.URL = from.Required("url")
	case kind == "file":
		s.ID = from.Required("file_id")
	default:
		from.Fail("type", "%q cannot be translated here", kind)
	}
	o.Note(r.Request, b.MediaFeature(), "source")
	from.NoteLeft(r.Request)
}

func (r reader) tool(o *dialect.Object) {
	if kind := o.Text("type"); kind != "" && kind != "custom" {
		o.Note(r.Request, dialect.VendorTools, "type")
		r.Tools = append(r.Tools, dialect.Tool{Own: o.Raw()})
		return
	}
	t := dialect.Tool{Name: o.Required("name"), Description: o.Text("description"), Schema: o.Schema("input_schema"), Cache: o.CacheMark(r.Request)}
	if t.Schema == nil {
		o.Fail("input_schema", "must be there")
	}
	if o.Take("strict", &t.Strict) && *t.Strict {
		o.Note(r.Request, dialect.StrictTools, "strict")
	}
	o.Note(r.Request, dialect.Functions, "")
	o.NoteLeft(r.Request)
	r.Tools = append(r.Tools, t)
}

// choices are the types of tool_choice, by their modes. The model's default has none.
var choices = [...]struct {
	kind string
	dialect.Feature
}{
	dialect.AnyChoice: {"", ""}, dialect.Auto: {"auto", ""}, dialect.NoTool: {"none", dialect.ChooseNone},
	dialect.SomeTool: {"any", dialect.ChooseSome}, dialect.OneTool: {"tool", dialect.ChooseOne},
}

// choice reads tool_choice.
func (r reader) choice(o *dialect.Object) {
	kind := o.Required("type")
	for mode, c := range choices {
		if c.kind == kind {
			if r.Choice.Mode = dialect.ChoiceMode(mode); c.Feature != "" {
				o.Note(r.Request, c.Feature, "type")
			}
		}
	}
	switch r.Choice.Mode {
	case dialect.AnyChoice:
		o.Fail("type", "want auto, any, tool or none")
	case dialect.OneTool:
		r.Choice.Name = o.Required("name")
	}
	var single bool
	if o.Take("disable_parallel_tool_use", &single) {
		if r.Parallel = new(!single); single {
			o.Note(r.Request, dialect.SingleCall, "disable_parallel_tool_use")
		}
	}
	o.NoteLeft(r.Request)
}

func (r reader) thinking(o *dialect.Object, g *dialect.Reasoning) {
	used := dialect.ReasoningBudget
	switch o.Text("type") {
	case "enabled":
		if g.Budget = o.Tokens("budget_tokens"); g.Budget < minBudget {
			o.Fail("budget_tokens", "must be %d or more", minBudget)
		}
	case "adaptive":
		g.Adapt = true
	case "disabled":
		g.Effort, used = "none", dialect.ReasoningEffort
	default:
		o.Fail("type", "want enabled, adaptive or disabled")
	}
	o.Note(r.Request, used, "type")
	switch o.Text("display") {
	case "":
	case "omitted":
		g.Hide = true
	case "summarized":
		g.Summary = "auto"
		o.Note(r.Request, dialect.ReasoningText, "display")
	default:
		o.Fail("display", "want summarized or omitted")
	}
	o.NoteLeft(r.Request)
}

// effort reads output_config.effort. The neutral form has none where thinking is disabled.
func (r reader) effort(o *dialect.Object, g *dialect.Reasoning) {
	switch effort := o.Text("effort"); {
	case effort == "":
	case budgetOf(effort) == 0 || effort == "minimal":
		o.Fail("effort", "want low, medium, high, xhigh or max")
	case g.Effort != "":
		o.Note(r.Request, dialect.OtherField, "effort")
	default:
		g.Effort = effort
		o.Note(r.Request, dialect.ReasoningEffort, "effort")
	}
}

// format reads the form of the answer's text.
func (r reader) format(o *dialect.Object) {
	if o == nil {
		return
	}
	if o.Text("type") != "json_schema" {
		o.Fail("type", "want json_schema")
	}
	if r.Format = (&dialect.Format{Schema: o.Schema("schema")}); r.Format.Schema == nil {
		o.Fail("schema", "must be there")
	}
	o.Note(r.Request, dialect.JSONSchema, "")
	o.NoteLeft(r.Request)
}
