package responses

import (
	"encoding/json"
	"fmt"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// A response is the object of an answer, as far as it depends on the answer.
type response struct {
	ID         string          `json:"id"`
	Created    float64         `json:"created_at"`
	Model      string          `json:"model"`
	Status     string          `json:"status"`
	Incomplete *incomplete     `json:"incomplete_details"`
	Output     []item          `json:"output"`
	Usage      json.RawMessage `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// The reasons of incomplete answers.
const (
	reasonLength = "max_output_tokens"
	reasonFilter = "content_filter"
)

// incompleteOf returns the details of a stop; nil if the answer is complete.
func incompleteOf(s dialect.Stop) *incomplete {
	switch s {
	case dialect.Length:
		return &incomplete{reasonLength}
	case dialect.Filtered, dialect.Refused:
		return &incomplete{reasonFilter}
	}
	return nil
}

// stop is the reason of the answer's end.
func (w *response) stop(calls bool) dialect.Stop {
	switch {
	case w.Incomplete != nil && w.Incomplete.Reason == reasonFilter:
		return dialect.Filtered
	case w.Status == "incomplete":
		return dialect.Length
	case calls:
		return dialect.ToolCalls
	}
	return dialect.End
}

// settings returns the fields of a response that repeat the request.
func settings(r *dialect.Request) map[string]any {
	none := func(there bool, value any) any {
		if there {
			return value
		}
		return nil
	}
	reasoning := map[string]any{"effort": nil, "summary": nil}
	if g := r.Reasoning; g != nil {
		reasoning["effort"], reasoning["summary"] = none(g.Effort != "", g.Effort), none(g.Summary != "", g.Summary)
	}
	metadata := r.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return map[string]any{
		"object": "response", "background": false, "error": nil, "instructions": nil, "metadata": metadata, "previous_response_id": nil,
		"max_output_tokens": none(r.MaxTokens > 0, r.MaxTokens), "parallel_tool_calls": r.Parallel == nil || *r.Parallel,
		"reasoning": reasoning, "service_tier": "default", "store": false, "temperature": r.Temperature, "text": map[string]any{"format": r.Format.Field(false)},
		"tool_choice": r.ChoiceField(false), "tools": r.ToolFields(false), "top_p": r.TopP, "truncation": "disabled", "user": none(r.User != "", r.User),
	}
}

// appendResponse appends a response with items that are encoded already; repeated has the encoded settings.
func appendResponse(b []byte, a *dialect.Answer, status string, output []json.RawMessage, repeated []byte) []byte {
	if output == nil {
		output = []json.RawMessage{}
	}
	own := struct {
		ID         string            `json:"id"`
		Created    int64             `json:"created_at"`
		Model      string            `json:"model"`
		Status     string            `json:"status"`
		Incomplete *incomplete       `json:"incomplete_details"`
		Output     []json.RawMessage `json:"output"`
		Usage      *usage            `json:"usage"`
	}{a.ID, a.Created, a.Model, status, nil, output, usageOf(a.Usage)}
	if status != inProgress {
		own.Incomplete = incompleteOf(a.Stop)
	}
	b = dialect.Append(b, own)
	return append(append(b[:len(b)-1], ','), repeated[1:]...)
}

const (
	inProgress = "in_progress"
	completed  = "completed"
)

func statusOf(s dialect.Stop) string {
	if incompleteOf(s) != nil {
		return "incomplete"
	}
	return completed
}

func (client) AppendAnswer(b []byte, r *dialect.Request, a *dialect.Answer) []byte {
	var output []json.RawMessage
	for _, block := range a.Blocks {
		for _, i := range itemsOf(&block) {
			i.identify(a.ID, len(output), completed)
			output = append(output, dialect.Append(nil, i))
		}
	}
	return appendResponse(b, a, statusOf(a.Stop), output, dialect.Append(nil, settings(r)))
}

func (server) ReadAnswer(body []byte) (*dialect.Answer, error) {
	if _, err := openai.Standard().ParseReply(openai.Responses, body); err != nil {
		return nil, err
	}
	var w response
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	a := &dialect.Answer{ID: w.ID, Model: w.Model, Created: int64(w.Created), Usage: dialect.UsageOf(openai.Responses, w.Usage)}
	calls := false
	for _, i := range w.Output {
		a.Blocks = i.appendBlocks(a.Blocks)
		calls = calls || i.CallID != ""
	}
	a.Stop = w.stop(calls)
	return a, nil
}
