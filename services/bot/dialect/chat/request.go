package chat

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"dyno/services/bot/dialect"
)

func (client) ReadRequest(body []byte) (*dialect.Request, error) {
	o, err := dialect.ReadObject(body)
	if err != nil {
		return nil, err
	}
	r := &dialect.Request{Model: o.Model("model")}
	messages := o.Objects("messages")
	for _, m := range messages {
		readMessage(r, m)
		m.NoteLeft(r)
	}
	if len(r.Messages) == 0 {
		o.Fail("messages", "must have a message of the user")
	} else if last := r.Messages[len(r.Messages)-1]; last.Role == dialect.Assistant && !calls(last.Blocks) {
		messages[len(messages)-1].Note(r, dialect.Prefill, "")
	}
	o.Tools(r, true)
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		if n := o.Tokens(field); n > 0 {
			r.MaxTokens = n
			o.Note(r, dialect.MaxTokens, field)
		}
	}
	o.Options(r)
	if o.HasText("stop") {
		r.Stop = []string{o.Text("stop")}
	} else {
		o.Take("stop", &r.Stop)
	}
	if len(r.Stop) > 0 {
		r.Note(dialect.StopSequences, "stop")
	}
	if effort := o.Text("reasoning_effort"); effort != "" {
		r.Reasoning = &dialect.Reasoning{Effort: effort}
		r.Note(dialect.ReasoningEffort, "reasoning_effort")
	}
	o.Format(r, "response_format", true)
	if options := o.Object("stream_options"); options != nil {
		options.Take("include_usage", &r.IncludeUsage)
		options.Take("include_obfuscation", new(bool)) // no answer has it
		options.NoteLeft(r)
	}
	for _, d := range [][2]string{{"n", "1"}, {"logprobs", "false"}, {"store", "false"}, {"service_tier", `"auto"`}, {"modalities", `["text"]`}} {
		o.Default(d[0], d[1])
	}
	o.Extra(r)
	return r, o.Err()
}

func calls(blocks []dialect.Block) bool {
	return slices.ContainsFunc(blocks, func(b dialect.Block) bool { return b.Kind == dialect.ToolCall })
}

func readMessage(r *dialect.Request, m *dialect.Object) {
	message := dialect.Message{Role: dialect.User}
	switch role := m.Text("role"); role {
	case "system", "developer":
		blocks := readParts(r, m)
		if dialect.HasMedia(blocks) {
			m.Fail("content", "must be text")
		}
		if len(r.Messages) == 0 {
			r.System = append(r.System, blocks...)
			m.Note(r, dialect.SystemMessage, "")
			return
		}
		m.Note(r, dialect.LateSystem, "")
		message.Role, message.Blocks = dialect.System, blocks
	case "user":
		message.Blocks = readParts(r, m)
	case "assistant":
		message.Role = dialect.Assistant
		message.Blocks = readAnswer(r, m)
	case "tool":
		result := dialect.Block{Kind: dialect.ToolResult, ID: m.Required("tool_call_id"), Result: readParts(r, m)}
		m.Text("name") // the call has it
		if dialect.HasMedia(result.Result) {
			m.Note(r, dialect.ResultImages, "content")
		}
		// The results of one answer are one message.
		if n := len(r.Messages); n > 0 && holdsResults(&r.Messages[n-1]) {
			r.Messages[n-1].Blocks = append(r.Messages[n-1].Blocks, result)
			return
		}
		message.Blocks = []dialect.Block{result}
	default:
		m.Fail("role", "must be system, developer, user, assistant or tool")
		return
	}
	if m.Has("name") && message.Role != dialect.System {
		message.Name = m.Text("name")
		m.Note(r, dialect.SpeakerName, "name")
	}
	r.Messages = append(r.Messages, message)
}

func holdsResults(m *dialect.Message) bool {
	return len(m.Blocks) > 0 && m.Blocks[0].Kind == dialect.ToolResult
}

// readAnswer reads an assistant's message of an earlier turn.
func readAnswer(r *dialect.Request, m *dialect.Object) (blocks []dialect.Block) {
	thoughts := m.Objects("thinking_blocks")
	for _, t := range thoughts {
		t.Take("index", new(int))
		switch kind := t.Text("type"); kind {
		case "thinking":
			blocks = append(blocks, dialect.Block{Kind: dialect.Thinking, Text: t.Text("thinking"), Signature: t.Text("signature")})
			t.Note(r, dialect.ThinkingBack, "")
		case redacted:
			blocks = append(blocks, dialect.Block{Kind: dialect.Redacted, Signature: t.Required("data")})
			t.Note(r, dialect.RedactedBack, "")
		default:
			t.Fail("type", "must be thinking or %s", redacted)
		}
		t.NoteLeft(r)
	}
	for _, field := range []string{"reasoning_content", "reasoning"} { // one text under both names
		if text := m.Text(field); text != "" && len(blocks) == 0 {
			blocks = append(blocks, dialect.Block{Kind: dialect.Thinking, Text: text})
			m.Note(r, dialect.ThinkingBack, field)
		}
	}
	m.Default("annotations", "[]")
	m.Default("tool_calls", "[]")
	blocks = sign(append(blocks, readParts(r, m)...), readSignature(r, m))
	blocks = append(blocks, readList(r, m.Objects("images"))...)
	if refusal := m.Text("refusal"); refusal != "" {
		blocks = append(blocks, dialect.Block{Kind: dialect.Refusal, Text: refusal})
	}
	if m.Has("audio") {
		m.Note(r, dialect.AudioAnswer, "audio")
		m.Take("audio", &map[string]json.RawMessage{})
	}
	if m.Has("function_call") {
		m.Fail("function_call", "is not supported: want tool_calls")
	}
	for _, c := range m.Objects("tool_calls") {
		b := dialect.Block{Kind: dialect.ToolCall, ID: c.Required("id")}
		c.Take("index", new(int))
		switch kind := cmp.Or(c.Text("type"), "function"); kind {
		case "function", "custom":
			of := c.Object(kind)
			if of == nil {
				c.Fail(kind, "must be there")
				return nil
			}
			if b.Name = of.Required("name"); kind == "function" {
				b.Input = dialect.Arguments(of.Text("arguments"))
			} else {
				b.Custom, b.Input = true, dialect.Append(nil, of.Text("input"))
				of.Note(r, dialect.CustomTools, "")
			}
			of.NoteLeft(r)
		default:
			c.Fail("type", "must be function or custom")
		}
		b.Signature = readSignature(r, c)
		c.NoteLeft(r)
		blocks = append(blocks, b)
	}
	return blocks
}

// readParts reads the content of a message.
func readParts(r *dialect.Request, m *dialect.Object) (blocks []dialect.Block) {
	return readList(r, m.Parts("content", "text"))
}

func readList(r *dialect.Request, parts []*dialect.Object) (blocks []dialect.Block) {
	for _, p := range parts {
		p.Take("index", new(int))
		var b dialect.Block
		switch kind := p.Text("type"); kind {
		case "text":
			if b.Text = p.Text("text"); b.Text == "" {
				continue
			}
		case "refusal":
			b.Kind, b.Text = dialect.Refusal, p.Text("refusal")
		case "image_url", "input_audio", "file":
			within := p.Object(kind)
			if within == nil {
				p.Fail(kind, "must be there")
				return nil
			}
			readMedia(r, kind, within, &b)
			within.NoteLeft(r)
		default:
			p.Fail("type", "must be text, image_url, input_audio, file or refusal")
		}
		b.Cache = p.CacheMark(r)
		p.NoteLeft(r)
		blocks = append(blocks, b)
	}
	return blocks
}

func readMedia(r *dialect.Request, kind string, o *dialect.Object, b *dialect.Block) {
	switch kind {
	case "image_url":
		b.Kind = dialect.Image
		b.Source.SetURL(o.Required("url"))
		if o.Default("detail", `"auto"`); o.Has("detail") {
			b.Source.Detail = o.Text("detail")
			o.Note(r, dialect.ImageDetail, "detail")
		}
	case "input_audio":
		b.Kind, b.Source = dialect.Audio, dialect.Source{Data: o.Required("data"), Type: "audio/" + o.Required("format")}
	case "file":
		*b = o.File()
	}
	o.Note(r, b.MediaFeature(), "")
}

// A message is a message of a request.
type message struct {
	Role      string    `json:"role"`
	Name      string    `json:"name,omitempty"`
	CallID    string    `json:"tool_call_id,omitempty"`
	Content   any       `json:"content,omitempty"` // a string or a list of parts
	Refusal   string    `json:"refusal,omitempty"`
	Reasoning string    `json:"reasoning_content,omitempty"`
	Other     string    `json:"reasoning,omitempty"` // the name that vLLM prefers, of the same text
	Thoughts  []thought `json:"thinking_blocks,omitempty"`
	Images    []part    `json:"images,omitempty"`
	Calls     []call    `json:"tool_calls,omitempty"`
	Extra     *extra    `json:"extra_content,omitempty"`
}

func (s server) AppendRequest(b []byte, r *dialect.Request, model string) ([]byte, error) {
	body := r.Options()
	body["model"], body["messages"] = model, s.messages(r)
	if len(r.Tools) > 0 {
		body["tools"] = r.ToolFields(true)
	}
	if r.Choice.Mode != dialect.AnyChoice {
		body["tool_choice"] = r.ChoiceField(true)
	}
	if r.Format != nil {
		body["response_format"] = r.Format.Field(true)
	}
	maxField := "max_completion_tokens"
	if s.Variant == VLLM {
		maxField = "max_tokens"
	}
	if r.MaxTokens > 0 {
		body[maxField] = r.MaxTokens
	}
	if len(r.Stop) > 0 {
		body["stop"] = r.Stop
	}
	if r.Reasoning != nil && r.Reasoning.Effort != "" {
		body["reasoning_effort"] = r.Reasoning.Effort
	}
	if r.Stream && r.IncludeUsage {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	return dialect.Append(b, body), nil
}

func (s server) messages(r *dialect.Request) (list []message) {
	if len(r.System) > 0 {
		list = append(list, message{Role: "system", Content: contentOf(r.System)})
	}
	for _, m := range r.Messages {
		if m.Role == dialect.Assistant {
			list = append(list, s.assistant(&m))
			continue
		}
		var rest []dialect.Block
		for _, b := range m.Blocks {
			if b.Kind != dialect.ToolResult {
				rest = append(rest, b)
				continue
			}
			list = append(list, message{Role: "tool", CallID: b.ID, Content: contentOf(b.Result)})
		}
		if len(rest) > 0 || len(m.Blocks) == 0 {
			list = append(list, message{Role: string(m.Role), Name: m.Name, Content: contentOf(rest)})
		}
	}
	return list
}

func (s server) assistant(m *dialect.Message) message {
	a := message{Role: string(m.Role), Name: m.Name}
	var parts []dialect.Block
	for _, b := range m.Blocks {
		switch b.Kind {
		case dialect.Thinking, dialect.Redacted:
		case dialect.ToolCall:
			a.Calls = append(a.Calls, callOf(&b, dialect.ArgumentText(b.Input)))
		case dialect.Refusal:
			a.Refusal += b.Text
		case dialect.Image:
			a.Images = append(a.Images, imagePart(&b.Source))
		default:
			parts = append(parts, b)
			a.Extra = signed(b.Signature)
		}
	}
	if s.Variant != VLLM { // others refuse signatures, and their models have made none
		a.Extra = nil
		for i := range a.Calls {
			a.Calls[i].Extra = nil
		}
	}
	a.Reasoning, a.Thoughts = thoughtsOf(m.Blocks)
	if a.Other = a.Reasoning; len(parts) > 0 || len(a.Calls) == 0 && a.Refusal == "" {
		a.Content = contentOf(parts)
	}
	return a
}

// contentOf writes texts and media; one text is a string.
func contentOf(blocks []dialect.Block) any {
	if len(blocks) == 0 {
		return ""
	}
	if len(blocks) == 1 && blocks[0].Kind == dialect.Text {
		return blocks[0].Text
	}
	var list []part
	for _, b := range blocks {
		switch b.Kind {
		case dialect.Image:
			list = append(list, imagePart(&b.Source))
		case dialect.Audio:
			list = append(list, part{Type: "input_audio", Audio: &audio{b.Source.Data, strings.TrimPrefix(b.Source.Type, "audio/")}})
		case dialect.File:
			list = append(list, part{Type: "file", File: &file{b.Source.DataURL(), b.Source.ID, b.Source.Name}})
		default:
			list = append(list, part{Type: "text", Text: &b.Text})
		}
	}
	return list
}
