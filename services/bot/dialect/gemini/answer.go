package gemini

import (
	"encoding/json"
	"fmt"
	"strings"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// ReadAnswer implements dialect.Server. A whole answer has the form of an event.
func (s Server) ReadAnswer(body []byte) (*dialect.Answer, error) {
	return dialect.ReadWhole(s.NewReader(), body)
}

// NewReader implements dialect.Server.
func (Server) NewReader() dialect.Reader { return &reader{} }

type (
	// An event is a part of an answer.
	event struct {
		ID         string      `json:"responseId"`
		Model      string      `json:"modelVersion"`
		Candidates []candidate `json:"candidates"`
		Feedback   struct {
			Reason string `json:"blockReason"` // why a prompt has no answer
		} `json:"promptFeedback"`
		Usage json.RawMessage `json:"usageMetadata"` // so far
		Error *struct {
			Message string `json:"message"`
			Status  string `json:"status"` // such as RESOURCE_EXHAUSTED
		} `json:"error"`
	}
	candidate struct {
		Content struct {
			// Parts of Google's own tools, which no request asks for, are left out.
			Parts []struct {
				Text      string `json:"text"`
				Thought   bool   `json:"thought"`
				Signature string `json:"thoughtSignature"`
				Call      *struct {
					ID   string          `json:"id"` // models before Gemini 3 give none
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
				Inline *struct {
					Type string `json:"mimeType"`
					Data string `json:"data"`
				} `json:"inlineData"`
			} `json:"parts"`
		} `json:"content"`
		Reason  string `json:"finishReason"`
		Message string `json:"finishMessage"`
	}
)

// stops are the reasons of ends that are no failures.
var stops = map[string]dialect.Stop{
	"STOP": dialect.End, "MAX_TOKENS": dialect.Length,
	"SAFETY": dialect.Filtered, "RECITATION": dialect.Filtered, "BLOCKLIST": dialect.Filtered, "PROHIBITED_CONTENT": dialect.Filtered,
	"SPII": dialect.Filtered, "IMAGE_SAFETY": dialect.Filtered, "IMAGE_PROHIBITED_CONTENT": dialect.Filtered, "IMAGE_RECITATION": dialect.Filtered,
}

// A reader reads a stream. Nothing in it says which event is the last.
type reader struct{ dialect.Emitter }

// Read implements dialect.Reader.
func (r *reader) Read(f openai.Frame, each func(*dialect.Event)) error {
	var e event
	if f.End() || r.Ended {
		return nil
	}
	if err := json.Unmarshal(f.Data, &e); err != nil {
		return fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	r.Each = each
	if e.Error != nil {
		r.Fail(openai.Fault{Message: e.Error.Message, Code: e.Error.Status})
		return nil
	}
	if len(e.Usage) > 0 {
		r.Last.Usage = dialect.UsageOf(openai.Contents, e.Usage)
	}
	blocked := e.Feedback.Reason != ""
	if !r.Began && (blocked || len(e.Candidates) > 0) {
		r.Begin(dialect.Answer{ID: e.ID, Model: e.Model, Usage: r.Last.Usage}, e.ID)
	}
	if blocked {
		r.Stopped, r.Last.Stop = true, dialect.Filtered
	}
	for i := range e.Candidates {
		r.read(&e.Candidates[i]) // there is one: no request asks for more
	}
	return nil
}

func (r *reader) read(c *candidate) {
	for i := range c.Content.Parts {
		switch p := &c.Content.Parts[i]; {
		case p.Call != nil:
			r.Call(p.Call.ID, p.Call.Name, string(p.Call.Args), p.Signature)
		case p.Inline != nil:
			r.Open(dialect.Block{Kind: dialect.Image, Source: dialect.Source{Type: p.Inline.Type, Data: p.Inline.Data}, Signature: p.Signature})
			r.Close()
		case p.Thought:
			r.Piece(dialect.Thinking, p.Text, p.Signature)
		default:
			r.Piece(dialect.Text, p.Text, p.Signature)
		}
	}
	if stop, known := stops[c.Reason]; known {
		r.Stopped, r.Last.Stop = true, stop
	} else if c.Reason != "" {
		r.Fail(openai.Fault{Message: strings.TrimSuffix("the model stopped: "+c.Reason+": "+c.Message, ": "), Code: c.Reason})
	}
}
