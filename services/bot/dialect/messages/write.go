package messages

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/services/bot/dialect"
)

// defaultTokens is what all models accept as a bound.
const defaultTokens = 4096

// AppendRequest implements dialect.Server. The error is a *dialect.FieldError.
func (s Server) AppendRequest(b []byte, r *dialect.Request, model string) ([]byte, error) {
	w := writer{r: r}
	body := w.prompt(s, model)
	budget, _ := w.thinking["budget_tokens"].(int)
	if body["max_tokens"] = r.MaxTokens; r.MaxTokens == 0 {
		body["max_tokens"] = cmp.Or(s.MaxTokens, defaultTokens) + budget
	} else if r.MaxTokens <= budget {
		w.fail(dialect.MaxTokens, "must be more than the %d tokens of reasoning", budget)
	}
	if r.User != "" {
		body["metadata"] = dialect.Fields{"user_id": r.User}
	}
	body.Set("stop_sequences", r.Stop).Set("temperature", r.Temperature).Set("top_p", r.TopP).Set("top_k", r.TopK).Set("stream", r.Stream)
	body.Set("service_tier", w.tier())
	if w.check(); w.fault != nil {
		return b, w.fault
	}
	return dialect.Append(b, body), nil
}

// A writer makes a request's body.
type writer struct {
	r        *dialect.Request
	thinking dialect.Fields
	fault    *dialect.FieldError // the first
}

// fail records a fault, at the client's field of a feature.
func (w *writer) fail(f dialect.Feature, text string, values ...any) {
	field := string(f)
	for _, u := range w.r.Uses() {
		if u.Feature == f {
			field = u.Field
			break
		}
	}
	if w.fault == nil {
		w.fault = &dialect.FieldError{Field: field, Text: fmt.Sprintf(text, values...)}
	}
}

// prompt has what the model reads.
func (w *writer) prompt(s Server, model string) dialect.Fields {
	r := w.r
	messages := []dialect.Fields{}
	for _, m := range turns(r.Messages) {
		messages = append(messages, dialect.Fields{"role": m.Role, "content": w.blocks(m.Blocks)})
	}
	var tools []dialect.Fields
	for _, t := range r.Tools {
		schema := t.Schema
		if s := string(bytes.TrimSpace(schema)); s == "" || s == "{}" {
			schema = json.RawMessage(`{"type":"object"}`) // the API requires its type
		}
		f := dialect.Fields{"name": t.Name, "input_schema": schema}
		tools = append(tools, f.Set("description", t.Description).Set("strict", t.Strict).Set("cache_control", cacheOf(t.Cache)))
	}
	output := w.reasoning(s)
	if r.Format != nil {
		output["format"] = dialect.Fields{"type": "json_schema", "schema": r.Format.Schema}
	}
	body := dialect.Fields{"model": model, "messages": messages}
	if len(output) > 0 {
		body["output_config"] = output
	}
	return body.Set("system", w.blocks(r.System)).Set("tools", tools).Set("tool_choice", w.choice()).Set("thinking", w.thinking)
}

// turns orders messages by the API's rules (see the package's comment), and leaves out what says nothing to it. A
// message of the system without a place after the user's stays where it is: the API refuses it.
func turns(list []dialect.Message) (turns []dialect.Message) {
	add := func(role dialect.Role, blocks []dialect.Block) {
		if last := len(turns) - 1; last >= 0 && turns[last].Role == role {
			turns[last].Blocks = append(turns[last].Blocks, blocks...)
		} else if len(blocks) > 0 {
			turns = append(turns, dialect.Message{Role: role, Blocks: blocks})
		}
	}
	var system []dialect.Block // that waits for the end of the user's messages
	for _, m := range list {
		blocks := slices.DeleteFunc(slices.Clone(m.Blocks), saysNothing)
		switch m.Role {
		case dialect.System:
			system = append(system, blocks...)
			continue
		case dialect.Assistant:
			add(dialect.System, system)
			system = nil
		}
		add(m.Role, blocks)
	}
	add(dialect.System, system)
	for _, m := range turns {
		slices.SortStableFunc(m.Blocks, func(a, b dialect.Block) int { return place(a) - place(b) })
	}
	return turns
}

func saysNothing(b dialect.Block) bool {
	switch b.Kind {
	case dialect.Text, dialect.Refusal:
		return b.Text == ""
	case dialect.Thinking:
		return b.Signature == ""
	}
	return false
}

// place is 0 for blocks that come first in a message.
func place(b dialect.Block) int {
	if b.Kind == dialect.ToolResult {
		return 0
	}
	return 1
}

func (w *writer) blocks(list []dialect.Block) (blocks []dialect.Fields) {
	for i := range list {
		if b := &list[i]; !saysNothing(*b) {
			blocks = append(blocks, w.block(b).Set("cache_control", cacheOf(b.Cache)))
		}
	}
	return blocks
}

func (w *writer) block(b *dialect.Block) dialect.Fields {
	switch b.Kind {
	case dialect.Image:
		return dialect.Fields{"type": "image", "source": sourceOf(b.Source)}
	case dialect.File:
		return dialect.Fields{"type": "document", "source": w.document(b.Source)}.Set("title", b.Source.Name)
	case dialect.ToolResult:
		return dialect.Fields{"type": "tool_result", "tool_use_id": b.ID}.Set("content", w.blocks(b.Result)).Set("is_error", b.Failed)
	}
	return outputBlock(b)
}

// outputBlock returns a block as the model says it.
func outputBlock(b *dialect.Block) dialect.Fields {
	switch b.Kind {
	case dialect.ToolCall:
		input := dialect.Arguments(dialect.ArgumentText(b.Input))
		if input[0] != '{' { // the API requires an object
			input = dialect.Append(nil, dialect.Fields{"arguments": input})
		}
		return dialect.Fields{"type": "tool_use", "id": b.ID, "name": b.Name, "input": input}
	case dialect.Thinking:
		return dialect.Fields{"type": "thinking", "thinking": b.Text, "signature": b.Signature}
	case dialect.Redacted:
		return dialect.Fields{"type": "redacted_thinking", "data": b.Signature}
	}
	return dialect.Fields{"type": "text", "text": b.Text}
}

// cacheOf returns a mark for the cache; nil is none.
func cacheOf(ttl string) dialect.Fields {
	switch ttl {
	case "":
		return nil
	case "5m": // the default
		return dialect.Fields{"type": "ephemeral"}
	}
	return dialect.Fields{"type": "ephemeral", "ttl": ttl}
}

func sourceOf(s dialect.Source) dialect.Fields {
	switch {
	case s.URL != "":
		return dialect.Fields{"type": "url", "url": s.URL}
	case s.ID != "":
		return dialect.Fields{"type": "file", "file_id": s.ID}
	}
	return dialect.Fields{"type": "base64", "media_type": s.Type, "data": s.Data}
}

// document returns the source of a file. The API reads PDF files and texts.
func (w *writer) document(s dialect.Source) dialect.Fields {
	switch kind, _, _ := strings.Cut(s.Type, ";"); {
	case s.Data == "", kind == "application/pdf":
	case kind == "" && strings.HasPrefix(s.Data, "JVBERi"): // %PDF
		s.Type = "application/pdf"
	case strings.HasPrefix(kind, "text/"):
		text, err := base64.StdEncoding.DecodeString(s.Data)
		if err != nil || !utf8.Valid(text) {
			w.fail(dialect.FileData, "want a text in UTF-8, in base64")
		}
		return dialect.Fields{"type": "text", "media_type": plainText, "data": string(text)}
	default:
		w.fail(dialect.FileData, "want a file of type application/pdf or text/plain, not %q", s.Type)
	}
	return sourceOf(s)
}

// choice returns tool_choice; nil is the model's default. The API knows none without tools.
func (w *writer) choice() dialect.Fields {
	r := w.r
	c := dialect.Fields{"type": cmp.Or(choices[r.Choice.Mode].kind, "auto")}
	switch c.Set("name", r.Choice.Name); {
	case len(r.Tools) == 0 || r.Choice.Mode == dialect.AnyChoice && r.Parallel == nil:
		return nil
	case r.Parallel != nil && r.Choice.Mode != dialect.NoTool:
		c["disable_parallel_tool_use"] = !*r.Parallel
	}
	return c
}

// reasoning sets thinking, and returns output_config with the effort.
func (w *writer) reasoning(s Server) dialect.Fields {
	g := w.r.Reasoning
	if g == nil {
		return dialect.Fields{}
	}
	effort, budget, adapt := g.Effort, g.Budget, g.Adapt || g.Summary != ""
	switch {
	case effort == "none":
		w.thinking = dialect.Fields{"type": "disabled"}
		return dialect.Fields{}
	case s.Thinking == ByEffort && budget > 0:
		effort, budget, adapt = cmp.Or(effort, effortOf(budget)), 0, true
	case s.Thinking == ByBudget:
		if budget = cmp.Or(budget, budgetOf(effort), budgetOf("medium")); g.Budget == 0 && w.r.MaxTokens > 0 {
			budget = max(min(budget, w.r.MaxTokens/2), minBudget)
		}
		effort = ""
	}
	if effort == "minimal" { // the API has none below low
		effort = "low"
	}
	if budget > 0 {
		w.thinking = dialect.Fields{"type": "enabled", "budget_tokens": budget}
	} else if adapt {
		w.thinking = dialect.Fields{"type": "adaptive"}
	}
	if w.thinking != nil && g.Hide {
		w.thinking["display"] = "omitted"
	} else if w.thinking != nil && g.Summary != "" {
		w.thinking["display"] = "summarized"
	}
	return dialect.Fields{}.Set("effort", effort)
}

// check refuses what no model accepts.
func (w *writer) check() {
	r := w.r
	if t := r.Temperature; t != nil && (*t < 0 || *t > 1) {
		w.fail(dialect.SetTemperature, "must be from 0 to 1")
	}
	if w.thinking == nil || w.thinking["type"] == "disabled" {
		return
	}
	for _, c := range []struct {
		refused bool
		dialect.Feature
		text string
	}{
		{r.Temperature != nil && *r.Temperature != 1, dialect.SetTemperature, "must be 1"},
		{r.TopP != nil && *r.TopP < 0.95, dialect.SetTopP, "must be from 0.95 to 1"},
		{r.TopK != nil, dialect.SetTopK, "must not be there"},
		{r.Choice.Mode == dialect.SomeTool, dialect.ChooseSome, "must be auto or none"},
		{r.Choice.Mode == dialect.OneTool, dialect.ChooseOne, "must be auto or none"},
		{len(r.Messages) > 0 && r.Messages[len(r.Messages)-1].Role == dialect.Assistant, dialect.Prefill, "must not be the last message"},
	} {
		if c.refused {
			w.fail(c.Feature, "%s while the model thinks", c.text)
		}
	}
}

// tier returns service_tier, in which OpenAI's default is standard_only.
func (w *writer) tier() (tier string) {
	raw, ok := w.r.Extra["service_tier"]
	switch _ = json.Unmarshal(raw, &tier); {
	case tier == "default":
		return "standard_only"
	case ok && tier != "auto" && tier != "standard_only":
		w.fail(dialect.ServiceTier, "want auto, default or standard_only")
	}
	return tier
}
