package chat

import (
	"encoding/json"
	"fmt"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// An answer is the message of a whole answer.
type answer struct {
	Role      string    `json:"role"`
	Content   *text     `json:"content"`
	Refusal   *text     `json:"refusal"`
	Reasoning text      `json:"reasoning_content,omitempty"`
	Other     text      `json:"reasoning,omitempty"` // the same text, or its only name
	Thoughts  []thought `json:"thinking_blocks,omitempty"`
	Images    []part    `json:"images,omitempty"`
	Calls     []call    `json:"tool_calls,omitempty"`
	Extra     *extra    `json:"extra_content,omitempty"` // of the content
}

type choice struct {
	Index      int             `json:"index"`
	Message    answer          `json:"message"`
	Logprobs   *struct{}       `json:"logprobs"`
	Finish     string          `json:"finish_reason"`
	StopReason json.RawMessage `json:"stop_reason,omitempty"` // of vLLM: the sequence
}

type completion struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created float64         `json:"created"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

// usage is openai.Usage as this form has it.
type usage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	Total         int `json:"total_tokens"`
	PromptDetails struct {
		Cached     int `json:"cached_tokens"`
		CacheWrite int `json:"cache_write_tokens,omitempty"`
		Audio      int `json:"audio_tokens"`
		Image      int `json:"image_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	Details struct {
		Reasoning int `json:"reasoning_tokens"`
		Audio     int `json:"audio_tokens"`
		Image     int `json:"image_tokens,omitempty"`
	} `json:"completion_tokens_details"`
}

func usageOf(u *openai.Usage) json.RawMessage {
	if u == nil {
		return nil
	}
	w := usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total()}
	w.PromptDetails.Cached, w.PromptDetails.CacheWrite = u.Cached, u.CacheWrite
	w.PromptDetails.Audio, w.PromptDetails.Image = u.PromptAudio, u.PromptImage
	w.Details.Reasoning, w.Details.Audio, w.Details.Image = u.Reasoning, u.CompletionAudio, u.CompletionImage
	return dialect.Append(nil, w)
}

// finish returns the word of a stop.
func finish(s dialect.Stop) string {
	switch s {
	case dialect.Length:
		return "length"
	case dialect.ToolCalls:
		return "tool_calls"
	case dialect.Filtered, dialect.Refused:
		return "content_filter"
	}
	return "stop"
}

// stopOf reads a word, and the sequence that ended the answer. Some servers say that an answer stops which calls tools.
func stopOf(word string, reason json.RawMessage, calls bool) (s dialect.Stop, sequence string) {
	switch word {
	case "length":
		return dialect.Length, ""
	case "content_filter":
		return dialect.Filtered, ""
	}
	switch {
	case calls:
		return dialect.ToolCalls, ""
	case json.Unmarshal(reason, &sequence) == nil && sequence != "":
		return dialect.Sequence, sequence
	}
	return dialect.End, ""
}

func (client) AppendAnswer(b []byte, _ *dialect.Request, a *dialect.Answer) []byte {
	w := completion{ID: a.ID, Object: "chat.completion", Created: float64(a.Created), Model: a.Model, Usage: usageOf(a.Usage)}
	c := choice{Finish: finish(a.Stop), Message: answer{Role: "assistant"}}
	if a.Sequence != "" {
		c.StopReason = dialect.Append(nil, a.Sequence)
	}
	write := func(to **text, t string) {
		if *to == nil {
			*to = new(text)
		}
		**to += text(t)
	}
	for _, block := range a.Blocks {
		switch block.Kind {
		case dialect.Text:
			write(&c.Message.Content, block.Text)
			c.Message.Extra = signed(block.Signature)
		case dialect.Image:
			c.Message.Images = append(c.Message.Images, imagePart(&block.Source))
		case dialect.Refusal:
			write(&c.Message.Refusal, block.Text)
		case dialect.ToolCall:
			c.Message.Calls = append(c.Message.Calls, callOf(&block, dialect.ArgumentText(block.Input)))
		}
	}
	var reasoning string
	reasoning, c.Message.Thoughts = thoughtsOf(a.Blocks)
	c.Message.Reasoning = text(reasoning)
	w.Choices = []choice{c}
	return dialect.Append(b, w)
}

func (s server) ReadAnswer(body []byte) (*dialect.Answer, error) {
	var w completion
	if err := json.Unmarshal(body, &w); err != nil || len(w.Choices) == 0 {
		if _, fault := openai.Standard().ParseReply(openai.Chat, body); fault != nil {
			return nil, fault
		}
		return nil, fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	c := w.Choices[0]
	a := &dialect.Answer{ID: w.ID, Model: w.Model, Created: int64(w.Created), Usage: dialect.UsageOf(openai.Chat, w.Usage)}
	add := func(kind dialect.Kind, t *text) {
		if t != nil && *t != "" {
			a.Blocks = append(a.Blocks, dialect.Block{Kind: kind, Text: string(*t)})
		}
	}
	for _, t := range c.Message.Thoughts {
		a.Blocks = append(a.Blocks, t.block())
	}
	if len(a.Blocks) == 0 {
		if c.Message.Reasoning == "" {
			c.Message.Reasoning = c.Message.Other
		}
		add(dialect.Thinking, &c.Message.Reasoning)
	}
	add(dialect.Text, c.Message.Content)
	a.Blocks = sign(a.Blocks, c.Message.Extra.signature())
	for _, p := range c.Message.Images {
		a.Blocks = append(a.Blocks, p.block())
	}
	add(dialect.Refusal, c.Message.Refusal)
	for _, t := range c.Message.Calls {
		block, input := t.block()
		if block.Input = dialect.Arguments(input); block.Custom {
			block.Input = dialect.Append(nil, input)
		}
		a.Blocks = append(a.Blocks, block)
	}
	a.Stop, a.Sequence = stopOf(c.Finish, c.StopReason, len(c.Message.Calls) > 0)
	return a, nil
}

func (t *thought) block() dialect.Block {
	if t.Type == redacted {
		return dialect.Block{Kind: dialect.Redacted, Signature: t.Data}
	}
	return dialect.Block{Kind: dialect.Thinking, Text: t.Thinking, Signature: t.Signature}
}

func (p *part) block() dialect.Block {
	b := dialect.Block{Kind: dialect.Image}
	if p.ImageURL != nil {
		b.Source.SetURL(p.ImageURL.URL)
	}
	return b
}

// block returns the block of a call, and the text of its input.
func (c *call) block() (b dialect.Block, input string) {
	b = dialect.Block{Kind: dialect.ToolCall, ID: c.ID, Signature: c.Extra.signature()}
	switch {
	case c.Custom != nil:
		b.Custom, b.Name, input = true, c.Custom.Name, string(c.Custom.Input)
	case c.Function != nil:
		b.Name, input = c.Function.Name, string(c.Function.Arguments)
	}
	return b, input
}
