package responses

import (
	"cmp"

	"dyno/services/bot/dialect"
)

// encrypted asks for the encrypted content of reasoning. Answers have it in any case.
const encrypted = "reasoning.encrypted_content"

func (client) ReadRequest(body []byte) (*dialect.Request, error) {
	o, err := dialect.ReadObject(body)
	if err != nil {
		return nil, err
	}
	r := &dialect.Request{Model: o.Model("model"), IncludeUsage: true}
	if text := o.Text("instructions"); text != "" {
		r.System = []dialect.Block{{Text: text}}
		r.Note(dialect.SystemMessage, "instructions")
	}
	if o.HasText("input") {
		r.Messages = []dialect.Message{{Role: dialect.User, Blocks: []dialect.Block{{Text: o.Text("input")}}}}
	}
	items := o.Objects("input")
	for _, i := range items {
		readItem(r, i)
		i.NoteLeft(r)
	}
	if n := len(r.Messages); n == 0 {
		o.Fail("input", "must have a message of the user")
	} else if last := r.Messages[n-1]; last.Role == dialect.Assistant && last.Blocks[len(last.Blocks)-1].Kind != dialect.ToolCall {
		items[len(items)-1].Note(r, dialect.Prefill, "")
	}
	o.Tools(r, false)
	o.Options(r)
	if r.MaxTokens = o.Tokens("max_output_tokens"); r.MaxTokens > 0 {
		r.Note(dialect.MaxTokens, "max_output_tokens")
	}
	if text := o.Object("text"); text != nil {
		text.Format(r, "format", false)
		text.Default("verbosity", `"medium"`)
		text.NoteLeft(r)
	}
	readReasoning(r, o.Object("reasoning"))
	var include []string
	o.Take("include", &include)
	for n, asked := range include {
		if asked == "message.output_text.logprobs" {
			r.Note(dialect.TokenLogprobs, "include[%d]", n)
		} else if asked != encrypted {
			r.Note(dialect.OtherField, "include[%d]", n)
		}
	}
	if options := o.Object("stream_options"); options != nil {
		options.Take("include_obfuscation", new(bool)) // no answer has it
		options.NoteLeft(r)
	}
	for _, d := range [][2]string{{"store", "false"}, {"background", "false"}, {"service_tier", `"auto"`}, {"truncation", `"disabled"`}, {"top_logprobs", "0"}} {
		o.Default(d[0], d[1])
	}
	o.Extra(r)
	return r, o.Err()
}

// add adds blocks to the last message if it is of that role, and holds the same kind of blocks; else as a new one.
// Items of an answer are one message, and so are the results of its tools.
func add(r *dialect.Request, role dialect.Role, results bool, blocks ...dialect.Block) {
	if role == dialect.Assistant && len(blocks) == 0 {
		return
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role && (role == dialect.Assistant || results) {
		last := &r.Messages[n-1]
		if role == dialect.Assistant || len(last.Blocks) > 0 && last.Blocks[0].Kind == dialect.ToolResult {
			last.Blocks = append(last.Blocks, blocks...)
			return
		}
	}
	r.Messages = append(r.Messages, dialect.Message{Role: role, Blocks: blocks})
}

func readItem(r *dialect.Request, i *dialect.Object) {
	kind := i.Text("type")
	if kind == "" && i.Has("role") {
		kind = "message"
	}
	if i.Text("status"); kind != "item_reference" {
		i.Text("id") // nothing is kept by it
	}
	switch kind {
	case "message":
		readMessage(r, i)
	case "reasoning":
		t := readThinking(r, i)
		if signature, ok := t.signs(); ok && len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == dialect.Assistant {
			last := r.Messages[len(r.Messages)-1].Blocks
			last[len(last)-1].Signature = signature
			return
		}
		for _, b := range t.appendBlocks(nil) {
			f := dialect.ThinkingBack
			if b.Kind == dialect.Redacted {
				f = dialect.RedactedBack
			}
			i.Note(r, f, "")
			add(r, dialect.Assistant, false, b)
		}
	case imageCall:
		image := item{Type: imageCall, Format: i.Text("output_format")}
		if data := i.Text("result"); data != "" {
			image.Result = &data
			i.Note(r, dialect.ImageData, "result")
		}
		add(r, dialect.Assistant, false, image.appendBlocks(nil)...)
	case "function_call":
		add(r, dialect.Assistant, false, dialect.Block{
			Kind: dialect.ToolCall, ID: i.Required("call_id"), Name: i.Required("name"), Input: dialect.Arguments(i.Text("arguments")),
		})
	case "custom_tool_call":
		i.Note(r, dialect.CustomTools, "")
		add(r, dialect.Assistant, false, dialect.Block{
			Kind: dialect.ToolCall, ID: i.Required("call_id"), Name: i.Required("name"), Custom: true, Input: dialect.Append(nil, i.Text("input")),
		})
	case "function_call_output", "custom_tool_call_output":
		result := dialect.Block{Kind: dialect.ToolResult, ID: i.Required("call_id"), Result: readParts(r, i, "output")}
		if dialect.HasMedia(result.Result) {
			i.Note(r, dialect.ResultImages, "output")
		}
		add(r, dialect.User, true, result)
	case "item_reference", "":
		i.Fail("", "refers to an item, and none is kept: want the item")
	default:
		i.Fail("type", "must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output or reasoning")
	}
}

func readMessage(r *dialect.Request, i *dialect.Object) {
	role := i.Text("role")
	blocks := readParts(r, i, "content")
	switch role {
	case "system", "developer":
		if dialect.HasMedia(blocks) {
			i.Fail("content", "must be text")
		}
		if len(r.Messages) == 0 {
			r.System = append(r.System, blocks...)
			i.Note(r, dialect.SystemMessage, "")
			return
		}
		i.Note(r, dialect.LateSystem, "")
		add(r, dialect.System, false, blocks...)
	case "user":
		add(r, dialect.User, false, blocks...)
	case "assistant":
		add(r, dialect.Assistant, false, blocks...)
	default:
		i.Fail("role", "must be system, developer, user or assistant")
	}
}

// readThinking reads an item of reasoning.
func readThinking(r *dialect.Request, i *dialect.Object) *item {
	t := &item{Type: "reasoning", Encrypted: i.Text("encrypted_content")}
	for _, of := range []struct {
		field string
		to    **[]part
	}{{"summary", &t.Summary}, {"content", &t.Content}} {
		parts := []part{}
		for _, p := range i.Objects(of.field) {
			p.Text("type") // follows from the list
			text := p.Text("text")
			parts = append(parts, part{Text: &text})
			p.NoteLeft(r)
		}
		*of.to = &parts
	}
	return t
}

// readParts reads the content of a message, or the output of a tool.
func readParts(r *dialect.Request, i *dialect.Object, field string) (blocks []dialect.Block) {
	for _, p := range i.Parts(field, "input_text") {
		var b dialect.Block
		switch kind := p.Text("type"); kind {
		case "input_text", "output_text", "text":
			p.Default("annotations", "[]")
			p.Default("logprobs", "[]")
			if b.Text = p.Text("text"); b.Text == "" {
				continue
			}
		case "refusal":
			b.Kind, b.Text = dialect.Refusal, p.Text("refusal")
		case "input_image":
			b.Kind, b.Source.ID = dialect.Image, p.Text("file_id")
			if b.Source.ID == "" {
				b.Source.SetURL(p.Required("image_url"))
			}
			p.Default("detail", `"auto"`)
			if b.Source.Detail = p.Text("detail"); b.Source.Detail != "" {
				p.Note(r, dialect.ImageDetail, "detail")
			}
			p.Note(r, b.MediaFeature(), "")
		case "input_file":
			b = p.File()
			p.Note(r, b.MediaFeature(), "")
		default:
			p.Fail("type", "must be input_text, input_image, input_file, output_text or refusal")
		}
		b.Cache = p.CacheMark(r)
		p.NoteLeft(r)
		blocks = append(blocks, b)
	}
	return blocks
}

func readReasoning(r *dialect.Request, o *dialect.Object) {
	if o == nil {
		return
	}
	g := dialect.Reasoning{Effort: o.Text("effort"), Summary: cmp.Or(o.Text("summary"), o.Text("generate_summary"))}
	if g.Effort != "" {
		r.Note(dialect.ReasoningEffort, "reasoning.effort")
	}
	if g.Summary != "" {
		r.Note(dialect.ReasoningText, "reasoning.summary")
	}
	if g != (dialect.Reasoning{}) {
		r.Reasoning = &g
	}
	o.Default("context", `"auto"`)
	o.Default("mode", `"standard"`)
	o.NoteLeft(r)
}

func (server) AppendRequest(b []byte, r *dialect.Request, model string) ([]byte, error) {
	body := r.Options()
	body["model"] = model
	var input []item
	switch len(r.System) {
	case 0:
	case 1:
		body["instructions"] = r.System[0].Text
	default:
		input = append(input, message("developer", r.System))
	}
	var thinks bool
	body["input"], thinks = appendItems(input, r)
	if _, ok := body["store"]; !ok {
		body["store"] = false // the next request has this answer's items
	}
	if thinks || r.Reasoning != nil {
		body["include"] = []string{encrypted}
	}
	if len(r.Tools) > 0 {
		body["tools"] = r.ToolFields(false)
	}
	if r.Choice.Mode != dialect.AnyChoice {
		body["tool_choice"] = r.ChoiceField(false)
	}
	if r.MaxTokens > 0 {
		body["max_output_tokens"] = r.MaxTokens
	}
	if r.Format != nil {
		body["text"] = map[string]any{"format": r.Format.Field(false)}
	}
	if g := r.Reasoning; g != nil {
		reasoning := map[string]string{}
		if g.Effort != "" {
			reasoning["effort"] = g.Effort
		}
		if g.Summary != "" {
			reasoning["summary"] = g.Summary
		}
		body["reasoning"] = reasoning
	}
	return dialect.Append(b, body), nil
}

// appendItems appends the items of the messages, and reports whether there is thinking. Thinking without a signature is
// not sent: servers accept only what they have made.
func appendItems(list []item, r *dialect.Request) (_ []item, thinks bool) {
	custom := map[string]bool{} // calls
	for _, m := range r.Messages {
		var texts []dialect.Block // since the last item
		flush := func() {
			if len(texts) > 0 {
				list = append(list, message(string(m.Role), texts))
			}
			texts = nil
		}
		for _, b := range m.Blocks {
			switch kind := b.Kind; {
			case kind == dialect.Image && m.Role == dialect.Assistant:
				flush()
				i := itemOf(&b)
				i.identify("", len(list), completed)
				list = append(list, i)
			case kind == dialect.Thinking:
				if flush(); b.Signature != "" {
					list, thinks = append(list, itemOf(&b)), true
				}
			case kind == dialect.ToolCall:
				flush()
				custom[b.ID] = b.Custom
				list = append(list, itemOf(&b))
			case kind == dialect.ToolResult:
				flush()
				output := "function_call_output"
				if custom[b.ID] {
					output = "custom_tool_call_output"
				}
				i := item{Type: output, CallID: b.ID}
				if parts := partsOf(b.Result, false); len(parts) == 1 && parts[0].Text != nil {
					i.Output = *parts[0].Text
				} else if i.Output = parts; len(parts) == 0 {
					i.Output = ""
				}
				list = append(list, i)
			default:
				texts = append(texts, b)
			}
		}
		if flush(); len(m.Blocks) == 0 {
			list = append(list, message(string(m.Role), nil))
		}
	}
	return list, thinks
}

func message(role string, blocks []dialect.Block) item {
	if role == string(dialect.System) {
		role = "developer"
	}
	parts := partsOf(blocks, role == string(dialect.Assistant))
	return item{Type: "message", Role: role, Content: &parts}
}

func partsOf(blocks []dialect.Block, assistant bool) []part {
	list := []part{}
	for _, b := range blocks {
		switch s := &b.Source; b.Kind {
		case dialect.Image:
			list = append(list, part{Type: "input_image", ImageURL: s.DataURL(), FileID: s.ID, Detail: cmp.Or(s.Detail, "auto")})
		case dialect.File:
			p := part{Type: "input_file", FileURL: s.URL, FileID: s.ID, FileName: s.Name}
			if s.Data != "" {
				p.FileData = s.DataURL()
			}
			list = append(list, p)
		case dialect.Refusal:
			list = append(list, part{Type: "refusal", Refusal: &b.Text})
		default:
			kind := "input_text"
			if assistant {
				kind = "output_text"
			}
			list = append(list, part{Type: kind, Text: &b.Text})
		}
	}
	return list
}
