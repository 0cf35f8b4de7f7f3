// Package messages is the form of Anthropic's Messages API (API reference and Python SDK 2.14.0, November 2026): as
// Client for its SDKs, as Server for Anthropic itself and for servers with the same endpoint.
//
// The API has a few rules that other forms do not have. A Server orders messages by them: messages of one role in a row
// become one, results of tools come first in it, and a message of the system comes after those of the user. It refuses
// requests that the API refuses for every model, and names the client's field: a temperature above 1; while the model
// thinks, another temperature than 1, top_k, top_p below 0.95, a required tool and the beginning of the answer. What
// only some models refuse is left to the API, such as any temperature, images, or messages of the system in the middle.
//
// Reasoning has two settings. output_config.effort is Reasoning.Effort: minimal is low, none disables thinking. thinking
// is Reasoning.Budget, or Reasoning.Adapt; a request for the text of the reasoning switches it on. Some models know only
// one setting: see Thinking.
//
// The API has no place for these, and a Server leaves them out: empty texts, thinking without a signature, the name, the
// description and the strictness of an answer's schema (answers always follow it), and the kind of a summary.
package messages

import (
	"slices"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// Client is the form for clients.
type Client struct{}

// A Server is the form for servers.
type Server struct {
	MaxTokens int // of answers to requests without a bound: the API requires one; 0 is 4,096
	Thinking  Thinking
}

// Thinking says which settings of reasoning a server's models know.
type Thinking int

// The settings.
const (
	AsAsked  Thinking = iota // both: an effort and a budget are sent as the client says
	ByBudget                 // no effort, such as models before Claude Opus 4.5
	ByEffort                 // no budget, such as models from Claude Opus 4.7 on
)

// efforts stand for budgets: the first for the API's smallest, each other one for twice as many tokens.
var efforts = []string{"minimal", "low", "medium", "high", "xhigh", "max"}

// minBudget is the API's smallest budget, in tokens.
const minBudget = 1024

// budgetOf returns 0 for an effort that is not known.
func budgetOf(effort string) int {
	if step := slices.Index(efforts, effort); step >= 0 {
		return minBudget << step
	}
	return 0
}

// effortOf returns the smallest effort with at least that budget.
func effortOf(budget int) string {
	for _, effort := range efforts {
		if budget <= budgetOf(effort) {
			return effort
		}
	}
	return efforts[len(efforts)-1]
}

var (
	_ dialect.Client = Client{}
	_ dialect.Server = Server{}
)

// Name implements dialect.Client.
func (Client) Name() string { return "messages" }

// Name implements dialect.Server.
func (Server) Name() string { return "anthropic" }

// Path implements dialect.Server.
func (Server) Path(string, bool) string { return openai.Messages.Path() }

// Says implements dialect.Server. Tools of the vendor have blocks of their own in answers, which the neutral form does
// not have.
func (Server) Says(f dialect.Feature) bool {
	switch f {
	case dialect.SystemMessage, dialect.LateSystem, dialect.ImageData, dialect.ImageURL, dialect.FileData, dialect.FileURL, dialect.FileID,
		dialect.Functions, dialect.StrictTools, dialect.ChooseNone, dialect.ChooseSome, dialect.ChooseOne, dialect.SingleCall,
		dialect.ResultImages, dialect.ResultFailed, dialect.JSONSchema, dialect.MaxTokens, dialect.SetTemperature, dialect.SetTopP,
		dialect.SetTopK, dialect.StopSequences, dialect.ReasoningEffort, dialect.ReasoningBudget, dialect.ReasoningText,
		dialect.ThinkingBack, dialect.RedactedBack, dialect.CacheMarks, dialect.UserID, dialect.Prefill, dialect.ServiceTier:
		return true
	}
	return false
}

// stopNames are the reasons of an answer's end, as they are written.
var stopNames = [...]string{
	dialect.End: "end_turn", dialect.Length: "max_tokens", dialect.Sequence: "stop_sequence", dialect.ToolCalls: "tool_use",
	dialect.Filtered: "refusal", dialect.Refused: "refusal", dialect.Paused: "pause_turn",
}

// stops are the reasons, as they are read. Others are End.
var stops = map[string]dialect.Stop{
	"max_tokens": dialect.Length, "model_context_window_exceeded": dialect.Length, "stop_sequence": dialect.Sequence,
	"tool_use": dialect.ToolCalls, "refusal": dialect.Refused, "pause_turn": dialect.Paused,
}

// usageFields returns a usage for clients, which require one: it is zero if it is unknown.
func usageFields(u *openai.Usage) dialect.Fields {
	if u == nil {
		u = &openai.Usage{}
	}
	f := dialect.Fields{
		"input_tokens": max(0, u.Prompt-u.Cached-u.CacheWrite), "output_tokens": u.Completion,
		"cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.Cached,
	}
	if u.Reasoning > 0 {
		f["output_tokens_details"] = dialect.Fields{"thinking_tokens": u.Reasoning}
	}
	return f
}
