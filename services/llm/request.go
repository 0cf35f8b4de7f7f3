package llm

import (
	"encoding/json"
	"fmt"
	"slices"
)

// An endpoint is one of the protocol's ways to ask a model.
type endpoint int

const (
	chat        endpoint = iota // POST /v1/chat/completions
	responses                   // POST /v1/responses
	completions                 // POST /v1/completions
	endpoints                   // how many there are
)

func (e endpoint) String() string { return [...]string{"chat", "responses", "completions"}[e] }

// Bounds of a request in addition to those of Config.
const (
	maxModelName = 256
	maxMessages  = 4096
	maxTools     = 256
	maxPrompts   = 128 // the most choices that OpenAI's answers have
)

// A request has the used parts of a client's request.
type request struct {
	endpoint     endpoint
	model        string
	stream       bool
	usage        bool // the stream's end has the usage
	limit        int  // tokens of each choice at most; 0 is no bound
	promptTokens int
	hash         uint64   // of all that the answer follows from
	seeds        []uint64 // the same of each choice, of /v1/completions: one for each prompt
	tool         string   // to be called; "" is none
	arguments    string   // of the call, as JSON
}

// choices returns the answer's number of choices.
func (q *request) choices() int { return max(len(q.seeds), 1) }

// A badRequest is one that is answered with 400. Its text names the field.
type badRequest struct{ param, text string }

func (e *badRequest) Error() string { return e.param + ": " + e.text }

func bad(param, format string, args ...any) error {
	return &badRequest{param, fmt.Sprintf(format, args...)}
}

// A tool is one that the model may call. /v1/responses has the function's fields in
// the tool itself.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
	function
}

type function struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// A message is one of either endpoint. A tool's result is a message of role tool, or an item of type
// function_call_output.
type message struct {
	Role string `json:"role"`
	Type string `json:"type"`
}

// parse reads a request's body. Fields that it does not know are as welcome as they
// are with OpenAI.
func (e endpoint) parse(body []byte) (request, error) {
	var r struct {
		Model               string            `json:"model"`
		Messages            []json.RawMessage `json:"messages"`
		Input               json.RawMessage   `json:"input"`
		Prompt              json.RawMessage   `json:"prompt"`
		Instructions        json.RawMessage   `json:"instructions"`
		Stream              bool              `json:"stream"`
		N                   *int              `json:"n"`
		MaxTokens           *int              `json:"max_tokens"`
		MaxCompletionTokens *int              `json:"max_completion_tokens"`
		MaxOutputTokens     *int              `json:"max_output_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools      []tool          `json:"tools"`
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, bad("body", "want a JSON object: %v", err)
	}
	q := request{endpoint: e, model: r.Model, stream: r.Stream, usage: r.StreamOptions.IncludeUsage}
	switch {
	case r.Model == "" || len(r.Model) > maxModelName:
		return request{}, bad("model", "must have 1 to %d bytes", maxModelName)
	case r.N != nil && *r.N != 1:
		return request{}, bad("n", "%d: must be 1", *r.N)
	case len(r.Tools) > maxTools:
		return request{}, bad("tools", "must be %d at most", maxTools)
	}
	messages, most := r.Messages, maxMessages
	limits := []*int{r.MaxCompletionTokens, r.MaxTokens}
	var err error
	switch e {
	case responses:
		limits = []*int{r.MaxOutputTokens}
		q.usage = true // in its last event, unasked
		messages, err = input(r.Input)
	case completions:
		limits, most = []*int{r.MaxTokens}, maxPrompts
		messages, err = prompts(r.Prompt)
	}
	if err != nil {
		return request{}, err
	}
	if len(messages) == 0 || len(messages) > most {
		return request{}, bad(e.field(), "must be 1 to %d", most)
	}
	for _, limit := range limits {
		if limit == nil {
			continue
		}
		if *limit < 1 {
			return request{}, bad("max_tokens", "%d: must be 1 or more", *limit)
		}
		q.limit = *limit
		break
	}
	named := hash(fnvOffset, []byte(r.Model))
	q.hash = named
	for _, m := range slices.Concat(messages, []json.RawMessage{r.Instructions}) {
		if len(m) > 0 {
			q.hash = hash(q.hash, m)
			q.promptTokens += bytesAsTokens(len(m))
		}
	}
	if e == completions { // which knows no tools
		for _, m := range messages {
			q.seeds = append(q.seeds, hash(named, m)) // a prompt has the answer that it has alone
		}
		return q, nil
	}
	var last message
	_ = json.Unmarshal(messages[len(messages)-1], &last) // a string has neither role nor type
	if err := q.choose(r.Tools, r.ToolChoice, last); err != nil {
		return request{}, err
	}
	return q, nil
}

// field returns the endpoint's field with the texts.
func (e endpoint) field() string { return [...]string{"messages", "input", "prompt"}[e] }

// input returns the messages of a request to /v1/responses: a string, or a list.
func input(raw json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err == nil {
		return list, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, bad("input", "want a string or a list of items")
	}
	return []json.RawMessage{raw}, nil
}

// prompts returns those of a request to /v1/completions: a string, or a list of strings.
// Lists of tokens are as valid with OpenAI, but there is nothing here that they stand for.
func prompts(raw json.RawMessage) ([]json.RawMessage, error) {
	list := []json.RawMessage{raw}
	if len(raw) > 0 && raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, bad("prompt", "%v", err)
		}
	}
	for _, prompt := range list {
		if len(prompt) == 0 || prompt[0] != '"' {
			return nil, bad("prompt", "want a string or a list of strings")
		}
	}
	return list, nil
}

// choose decides on a tool to be called: the one that is named, or the first if the
// last message is a user's. An answer to a tool's result is text.
func (q *request) choose(tools []tool, choice json.RawMessage, last message) error {
	if len(tools) == 0 {
		return nil
	}
	mode, named := "auto", tool{}
	if len(choice) > 0 && json.Unmarshal(choice, &mode) != nil {
		mode = "named"
		if err := json.Unmarshal(choice, &named); err != nil {
			return bad("tool_choice", "want none, auto, required or a function")
		}
	}
	if mode == "none" || mode == "auto" && (last.Role == "tool" || last.Type == "function_call_output") {
		return nil
	}
	for _, t := range tools {
		f := t.signature()
		if mode == "named" && f.Name != named.signature().Name {
			continue
		}
		if f.Name == "" {
			return bad("tools", "a function has no name")
		}
		q.tool, q.arguments = f.Name, arguments(f.Parameters, q.hash)
		q.hash = hash(q.hash, []byte(f.Name))
		return nil
	}
	return bad("tool_choice", "%q is none of the tools", named.signature().Name)
}

// signature returns the function, wherever the endpoint has it.
func (t tool) signature() function {
	if t.Function.Name != "" {
		return t.Function
	}
	return t.function
}

// arguments returns JSON for a function's parameters: every property that its schema
// names, in their order by name.
func arguments(schema json.RawMessage, seed uint64) string {
	var s struct {
		Properties map[string]struct {
			Type any               `json:"type"`
			Enum []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // no schema that it knows has no properties
	values := map[string]any{}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		p := s.Properties[name]
		switch {
		case len(p.Enum) > 0:
			values[name] = p.Enum[0]
		case p.Type == "integer" || p.Type == "number":
			values[name] = i + 1
		case p.Type == "boolean":
			values[name] = true
		case p.Type == "array":
			values[name] = []string{}
		case p.Type == "object":
			values[name] = struct{}{}
		default:
			values[name] = words[word(seed, i)]
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "{}" // an enum's value is JSON already: nothing else can be wrong
	}
	return string(text)
}

// bytesAsTokens is how many tokens n bytes of JSON count for: four bytes each.
func bytesAsTokens(n int) int { return (n + 3) / 4 }

// FNV-1a with 64 bits (RFC 9923).
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hash(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime // no byte of UTF-8: what follows is another part
}

// words are the words of answers. There are 64, so that six bits choose one.
var words = [64]string{
	"able", "above", "again", "air", "all", "and", "answer", "are", "ask", "at", "back", "be", "begin", "blue", "both", "bring",
	"but", "by", "call", "can", "city", "clear", "close", "cold", "come", "day", "do", "each", "early", "east", "end", "even",
	"far", "few", "find", "for", "from", "give", "good", "half", "have", "here", "high", "hour", "if", "in", "just", "keep",
	"last", "light", "long", "make", "may", "more", "near", "next", "now", "of", "one", "open", "rain", "the", "to", "wind",
}

// word returns which word is the i-th of an answer (SplitMix64).
func word(seed uint64, i int) int {
	z := seed + uint64(i+1)*0x9e3779b97f4a7c15 //nolint:gosec // wraps by design
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) >> 58) //nolint:gosec // six bits
}

// appendToken adds the i-th token of an answer: a word, and the space before it.
func appendToken(b []byte, seed uint64, i int) []byte {
	if i > 0 {
		b = append(b, ' ')
	}
	return append(b, words[word(seed, i)]...)
}

// appendID adds an identifier: of the request, so that the same has the same.
func appendID(b []byte, prefix string, h uint64) []byte {
	b = append(b, prefix...)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[h>>shift&0xf])
	}
	return b
}
