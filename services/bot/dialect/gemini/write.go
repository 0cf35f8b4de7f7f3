package gemini

import (
	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// reasons are the API's names of ends. It has none for calls and sequences.
var reasons = map[dialect.Stop]string{dialect.Length: "MAX_TOKENS", dialect.Filtered: "SAFETY", dialect.Refused: "SAFETY", dialect.Paused: "OTHER"}

// AppendAnswer implements dialect.Client.
func (Client) AppendAnswer(b []byte, r *dialect.Request, a *dialect.Answer) []byte {
	var list []dialect.Fields
	for _, block := range a.Blocks {
		list = append(list, shown(r, block)...)
	}
	return dialect.Append(b, answerFields(a, list, true))
}

// answerFields returns an answer, or a part of one in a stream.
func answerFields(a *dialect.Answer, parts []dialect.Fields, ended bool) dialect.Fields {
	if len(parts) == 0 {
		parts = []dialect.Fields{{"text": ""}}
	}
	c := dialect.Fields{"index": 0, "content": content{"model", parts}}
	f := dialect.Fields{"candidates": []dialect.Fields{c}}
	if u := a.Usage; u != nil {
		f["usageMetadata"] = dialect.Fields{
			"promptTokenCount": u.Prompt, "candidatesTokenCount": max(0, u.Completion-u.Reasoning), "totalTokenCount": u.Total(),
		}.Set("thoughtsTokenCount", u.Reasoning).Set("cachedContentTokenCount", u.Cached)
	}
	if ended {
		c["finishReason"] = "STOP"
		c.Set("finishReason", reasons[a.Stop])
	}
	return f.Set("modelVersion", a.Model).Set("responseId", a.ID)
}

// shown returns the parts of a block of an answer.
func shown(r *dialect.Request, b dialect.Block) []dialect.Fields {
	if b.Kind == dialect.Thinking && r.Reasoning != nil && r.Reasoning.Hide {
		b.Text = ""
	}
	if b.Signature != "" {
		b.Signature = sealed(b.Signature)
	}
	if b.Kind == dialect.ToolCall && b.Input[0] != '{' { // the API has objects only
		b.Input = dialect.Append(nil, dialect.Fields{"arguments": b.Input})
	}
	return parts([]dialect.Block{b})
}

// A stream writes a stream.
type stream struct {
	r         *dialect.Request
	answer    dialect.Answer // without Usage, until its end
	block     dialect.Block  // the open one
	arguments []byte         // of a call, which is sent as a whole
}

// NewWriter implements dialect.Client.
func (Client) NewWriter(r *dialect.Request) dialect.Writer { return &stream{r: r} }

// Append implements dialect.Writer.
func (w *stream) Append(b []byte, e *dialect.Event) []byte {
	call := w.block.Kind == dialect.ToolCall
	switch e.Kind {
	case dialect.Begin:
		w.answer = e.Answer
		w.answer.Usage = nil
	case dialect.Open:
		if w.block, w.arguments = e.Block, w.arguments[:0]; e.Block.Kind == dialect.Image {
			return w.frame(b, e.Block)
		}
	case dialect.Piece:
		if !call {
			return w.frame(b, dialect.Block{Kind: w.block.Kind, Text: e.Text, Signature: e.Signature})
		}
		w.block.Signature += e.Signature
		if len(w.arguments) <= openai.MaxEvent { // the reader of the stream refuses more
			w.arguments = append(w.arguments, e.Text...)
		}
	case dialect.Close:
		if call {
			w.block.Input = dialect.Arguments(string(w.arguments))
			b = w.frame(b, w.block)
		}
		w.block = dialect.Block{}
	case dialect.Finish:
		w.answer.Stop, w.answer.Usage = e.Answer.Stop, e.Answer.Usage
		return openai.AppendFrame(b, "", dialect.Append(nil, answerFields(&w.answer, nil, true)))
	case dialect.Fault:
		return openai.AppendFailure(b, openai.Contents, 500, e.Fault, nil, 0)
	}
	return b
}

// frame appends an event with a block, unless nothing of it is shown.
func (w *stream) frame(b []byte, block dialect.Block) []byte {
	list := shown(w.r, block)
	if len(list) == 0 || block.Kind == dialect.Thinking && list[0]["text"] == "" && block.Signature == "" {
		return b
	}
	return openai.AppendFrame(b, "", dialect.Append(nil, answerFields(&w.answer, list, false)))
}
