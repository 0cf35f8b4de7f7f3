package messages

import (
	"encoding/json"
	"fmt"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// A message is a whole answer, or the beginning of a stream.
type message struct {
	ID       string          `json:"id"`
	Model    string          `json:"model"`
	Content  []block         `json:"content"`
	Stop     string          `json:"stop_reason"`
	Sequence string          `json:"stop_sequence"`
	Usage    json.RawMessage `json:"usage"`
}

// A block is a part of an answer, of any type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
}

// ReadAnswer implements dialect.Server. It leaves out blocks of the vendor's tools, and citations.
func (Server) ReadAnswer(body []byte) (*dialect.Answer, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	if m.Content == nil {
		_, err := openai.Standard().ParseReply(openai.Messages, body)
		return nil, err
	}
	a := &dialect.Answer{ID: m.ID, Model: m.Model, Stop: stops[m.Stop], Sequence: m.Sequence, Usage: dialect.UsageOf(openai.Messages, m.Usage)}
	for i := range m.Content {
		if b, ok := m.Content[i].neutral(); ok {
			a.Blocks = append(a.Blocks, b)
		}
	}
	return a, nil
}

// neutral returns false for a block that the neutral form does not have.
func (p *block) neutral() (dialect.Block, bool) {
	switch p.Type {
	case "text":
		return dialect.Block{Text: p.Text}, true
	case "tool_use":
		return dialect.Block{Kind: dialect.ToolCall, ID: p.ID, Name: p.Name, Input: dialect.Arguments(dialect.ArgumentText(p.Input))}, true
	case "thinking":
		return dialect.Block{Kind: dialect.Thinking, Text: p.Thinking, Signature: p.Signature}, true
	case "redacted_thinking":
		return dialect.Block{Kind: dialect.Redacted, Signature: p.Data}, true
	}
	return dialect.Block{}, false
}

// AppendAnswer implements dialect.Client. It leaves out images and recordings, which answers of this form cannot have.
func (Client) AppendAnswer(b []byte, r *dialect.Request, a *dialect.Answer) []byte {
	content := []dialect.Fields{}
	for i := range a.Blocks {
		if block := &a.Blocks[i]; !hasNoPlace(block) {
			content = append(content, shown(r, block))
		}
	}
	m := messageFields(a)
	m["content"], m["stop_reason"] = content, stopNames[a.Stop]
	return dialect.Append(b, m.Set("stop_sequence", a.Sequence))
}

// messageFields returns an answer without its blocks and its end.
func messageFields(a *dialect.Answer) dialect.Fields {
	return dialect.Fields{
		"id": a.ID, "type": "message", "role": "assistant", "model": a.Model, "content": []dialect.Fields{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usageFields(a.Usage),
	}
}

func hasNoPlace(b *dialect.Block) bool {
	return b.Kind == dialect.Image || b.Kind == dialect.Audio || b.Kind == dialect.File
}

// shown returns a block for the client.
func shown(r *dialect.Request, b *dialect.Block) dialect.Fields {
	f := outputBlock(b)
	if b.Kind == dialect.Thinking && hides(r) {
		f["thinking"] = ""
	}
	return f
}

// hides reports whether the client wants no text of the reasoning.
func hides(r *dialect.Request) bool { return r.Reasoning != nil && r.Reasoning.Hide }
