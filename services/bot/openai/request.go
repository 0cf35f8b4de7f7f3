// Package openai is the codec of the protocol that model servers and their clients
// speak: /v1/chat/completions and /v1/responses, as OpenAI documents them. It does no
// I/O. A request is passed on as the client wrote it, but for what the gateway must
// change: fields that are not known here, and numbers beyond 2^53, stay as they are.
package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"dyno/internal/strict"
)

// An Endpoint is one of the protocol's ways to ask a model.
type Endpoint int

// The endpoints.
const (
	Chat      Endpoint = iota // POST /chat/completions
	Responses                 // POST /responses
)

// Path is the endpoint's below a base URL that ends in /v1.
func (e Endpoint) Path() string { return [...]string{"/chat/completions", "/responses"}[e] }

func (e Endpoint) String() string { return [...]string{"chat", "responses"}[e] }

// Bounds of a request.
const (
	maxModel  = 256 // bytes
	maxChoice = 16
	maxTokens = 1 << 27 // what they cost must be a number
)

// A Request is what a client asks. It is not changed once it is parsed, but for Bound, Forget and the estimate of
// PromptTokens.
type Request struct {
	Endpoint     Endpoint
	Model        string
	Stream       bool
	IncludeUsage bool // a stream is to say at its end what was used
	Choices      int  // answers that are wanted: 1 or more
	MaxTokens    int  // of each; 0 is no bound
	// PromptTokens is about how many tokens the model has to read: a quarter of the
	// bytes of what is said and of the tools' descriptions. Images count 1,500 each, recordings
	// and files a 64th of their bytes.
	PromptTokens int
	// Background tells whether the client is content with an answer that is still to come, of
	// /v1/responses: it goes on without the client.
	Background bool

	bounded bool // MaxTokens must be what the upstream is told
	codec   Codec
	fields  map[string]json.RawMessage
	options map[string]json.RawMessage // of the stream
}

// A RequestError is a fault of a request: the field, and what would be right.
type RequestError struct{ Field, Text string }

func (e *RequestError) Error() string { return e.Field + ": " + e.Text }

// part is what is looked at of a part of a message.
var part = strict.Members{
	"type": nil, "text": nil, "file_id": nil, "file_url": nil, "file_data": nil,
	"file": strict.Names("file_id", "file_url", "file_data"), "image_url": strict.Names("url"), "input_audio": strict.Names("data"),
}

// message is what is looked at of a message, or of an item of input.
var message = strict.Members{"id": nil, "type": nil, "role": nil, "content": part, "output": part}

// members are what is looked at of a request, at either endpoint: an upstream may look at the same under other names.
var members = strict.Members{
	"model": nil, "stream": nil, "stream_options": strict.Names("include_usage"), "n": nil,
	"max_tokens": nil, "max_completion_tokens": nil, "max_output_tokens": nil, "temperature": nil,
	"messages": message, "input": message, "tools": strict.Names("type"),
	"instructions": nil, "functions": nil, "response_format": nil, "text": nil, "prediction": nil, "prompt": nil,
	"background": nil, "store": nil, "conversation": nil, "previous_response_id": nil, "web_search_options": nil,
	"user": nil, "metadata": nil, "safety_identifier": nil, "prompt_cache_key": nil,
}

// Parse reads a request's body. The error is a *RequestError.
func (c Codec) Parse(e Endpoint, body []byte) (*Request, error) {
	var fault *strict.Error
	if err := strict.Check(body, members); errors.As(err, &fault) {
		return nil, &RequestError{cmp.Or(fault.Member, "body"), fault.Text}
	}
	r := &Request{Endpoint: e, Choices: 1, codec: c}
	if err := c.JSON.Unmarshal(body, &r.fields); err != nil || r.fields == nil {
		return nil, &RequestError{"body", "want a JSON object"}
	}
	var max1, max2, max3 int
	for _, f := range []struct {
		name string
		to   any
		want string
	}{
		{"model", &r.Model, "a string"}, {"stream", &r.Stream, "a boolean"}, {"n", &r.Choices, "a number"}, {optionsField, &r.options, "an object"},
		{"max_tokens", &max1, "a number"}, {"max_completion_tokens", &max2, "a number"}, {"max_output_tokens", &max3, "a number"},
	} {
		raw, ok := r.fields[f.name]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := c.JSON.Unmarshal(raw, f.to); err != nil {
			return nil, &RequestError{f.name, "want " + f.want}
		}
	}
	if e == Chat {
		max3 = 0 // no server of this endpoint looks at it
	} else {
		max1, max2 = 0, 0
	}
	for _, n := range []int{max1, max2, max3} {
		if n < 0 || n > maxTokens {
			return nil, &RequestError{"max_tokens", fmt.Sprintf("must be from 1 to %d", maxTokens)}
		}
		r.MaxTokens = max(r.MaxTokens, n)
	}
	switch {
	case r.Model == "" || len(r.Model) > maxModel:
		return nil, &RequestError{"model", fmt.Sprintf("must have 1 to %d bytes", maxModel)}
	case r.Choices < 1 || r.Choices > maxChoice:
		return nil, &RequestError{"n", fmt.Sprintf("must be from 1 to %d", maxChoice)}
	}
	said := saidIn(e)
	if raw := bytes.TrimSpace(r.fields[said]); len(raw) < 2 || string(raw) == "null" || string(raw) == "[]" || e == Chat && raw[0] != '[' {
		return nil, &RequestError{said, "must be there and not be empty"}
	}
	// All that a model reads.
	for _, name := range []string{said, "instructions", "tools", "functions", "response_format", "text", "prediction", "prompt"} {
		r.PromptTokens += estimateSaid(r.fields[name])
	}
	if e == Chat {
		_ = c.JSON.Unmarshal(r.options["include_usage"], &r.IncludeUsage) // absent, or refused by the upstream
	} else {
		r.IncludeUsage = true // in its last event, unasked
		r.Background = r.says("background")
	}
	return r, nil
}

// MaxCompletion is how many tokens its answers may have in all; 0 is no bound.
func (r *Request) MaxCompletion() int { return r.MaxTokens * r.Choices }

// EstimateTokens estimates how many tokens that many bytes are: four bytes each.
func EstimateTokens(n int) int { return (n + 3) / 4 }

// A BoundField is how an upstream is told how many tokens its answer may have, at /v1/chat/completions.
type BoundField string

// The fields. Servers that do not know the second one mostly ignore it; some models refuse the first one.
const (
	MaxTokens           BoundField = "max_tokens"
	MaxCompletionTokens BoundField = "max_completion_tokens"
)

// Body returns what an upstream is asked: by its own name of the model, with a bound in the field that it knows,
// and with a stream that says at its end what was used, if the upstream knows options of streams: otherwise it is sent none.
func (r *Request) Body(model string, bound BoundField, streamOptions bool) []byte {
	fields, own := r.fields, false
	remove := func(name string) {
		if _, ok := fields[name]; !ok {
			return
		}
		if !own {
			fields, own = maps.Clone(fields), true
		}
		delete(fields, name)
	}
	change := func(name string, v any) {
		text, err := r.codec.JSON.Append(nil, v)
		if err != nil {
			return // strings and JSON are JSON
		}
		if !own {
			fields, own = maps.Clone(fields), true
		}
		fields[name] = text
	}
	if model != r.Model {
		change("model", model)
	}
	if r.Endpoint == Chat && r.bounded {
		change(string(bound), r.MaxTokens)
		for _, other := range []BoundField{MaxTokens, MaxCompletionTokens} {
			if other != bound {
				remove(string(other)) // anyElement refuse both
			}
		}
	}
	switch {
	case r.Endpoint != Chat || !r.Stream:
	case !streamOptions:
		remove(optionsField)
	case !r.IncludeUsage:
		options := map[string]json.RawMessage{}
		maps.Copy(options, r.options)
		options["include_usage"] = json.RawMessage("true")
		change(optionsField, options)
	}
	return r.codec.encode(fields)
}

// optionsField has the options of a stream, of which some servers do not know any.
const optionsField = "stream_options"

// MayDropOptions tells whether the stream is the same to the client without its options: the upstream is asked for nothing by
// them but what was used.
func (r *Request) MayDropOptions() bool {
	if r.Endpoint != Chat || !r.Stream {
		return false
	}
	for name := range r.options {
		if name != "include_usage" {
			return false
		}
	}
	return true
}

// NamesOptions tells whether an upstream's refusal names the options of streams.
func NamesOptions(refusal []byte) bool {
	return bytes.Contains(refusal, []byte(optionsField)) || bytes.Contains(refusal, []byte("include_usage"))
}

// Bound has the upstream told a bound: the request's own, or that many tokens if it has none.
func (r *Request) Bound(tokens int) {
	if r.bounded = true; r.MaxTokens > 0 {
		return
	}
	r.MaxTokens = tokens
	if r.Endpoint == Responses {
		r.fields["max_output_tokens"] = strconv.AppendInt(nil, int64(tokens), 10)
	}
}

// Forget frees what is asked, once an upstream answers: a stream goes on for long. Body, Key,
// Continues, HasHiddenContext and Deterministic are not to be used any more.
func (r *Request) Forget() { r.fields, r.options = nil, nil }

// Key is the same for requests that ask the same: whatever the order of their fields,
// and whoever asks by /v1/chat/completions. An answer of /v1/responses repeats who asks.
func (r *Request) Key() []byte {
	fields := maps.Clone(r.fields)
	if r.Endpoint == Chat {
		for _, name := range []string{"user", "metadata", "store", "safety_identifier", "prompt_cache_key"} {
			delete(fields, name)
		}
	}
	return append([]byte(r.Endpoint.String()+"\n"), r.codec.encode(fields)...)
}

// saidIn is the field of what a model is told.
func saidIn(e Endpoint) string {
	if e == Responses {
		return "input"
	}
	return "messages"
}

// says tells whether a field is there that says something.
func (r *Request) says(name string) bool {
	v := string(r.fields[name])
	return v != "" && v != "null" && v != "false"
}

// Continues tells whether the request names something that an upstream keeps: what another one does not have.
func (r *Request) Continues() bool {
	return r.Endpoint == Responses && (r.says("conversation") || r.says("previous_response_id"))
}

// Deterministic tells whether the client wants the same answer to the same question. An answer that the upstream is to
// keep, or that goes on from another, is like no other.
func (r *Request) Deterministic() bool {
	if r.Endpoint == Responses && (string(r.fields["store"]) != "false" || r.Continues() || r.Background) || r.Endpoint == Chat && r.says("store") {
		return false
	}
	var temperature json.Number
	err := r.codec.JSON.Unmarshal(r.fields["temperature"], &temperature)
	n, bad := temperature.Float64()
	return err == nil && bad == nil && n == 0 && r.Choices == 1
}

// encode writes an object with its fields in order. Spaces in values stay.
func (c Codec) encode(fields map[string]json.RawMessage) []byte {
	size := 2
	for name, v := range fields {
		size += len(name) + len(v) + 4
	}
	b := append(make([]byte, 0, size), '{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(c.appendString(b, name), ':')
		if len(fields[name]) == 0 { // as some libraries have null
			b = append(b, "null"...)
		}
		b = append(b, fields[name]...)
	}
	return append(b, '}')
}

// appendString adds a JSON string.
func (c Codec) appendString(b []byte, text string) []byte {
	quoted, err := c.JSON.Append(b, text)
	if err != nil {
		return append(b, `""`...) // a string always is JSON
	}
	return quoted
}

// A Message is one of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Tokens is about how many tokens a message is.
func (m Message) Tokens() int { return EstimateTokens(len(m.Content)) + messageTokens }

// messageTokens are those around a message.
const messageTokens = 4

// NewChat makes a request of a conversation. maxTokens is 0 for no bound.
func (c Codec) NewChat(model string, messages []Message, stream bool, maxTokens int) (*Request, error) {
	if len(messages) == 0 {
		return nil, errors.New("no messages")
	}
	size := 2
	for _, m := range messages {
		size += len(m.Content) + len(m.Content)/8 + 48 // what is around it, and some escapes
	}
	said := append(make([]byte, 0, size), '[')
	for i, m := range messages {
		if i > 0 {
			said = append(said, ',')
		}
		said = append(c.appendString(append(said, `{"role":`...), m.Role), `,"content":`...)
		said = append(c.appendString(said, m.Content), '}')
	}
	said = append(said, ']')
	r := &Request{Endpoint: Chat, Model: model, Stream: stream, Choices: 1, MaxTokens: maxTokens, PromptTokens: EstimateTokens(len(said)), bounded: maxTokens > 0, codec: c}
	r.fields = map[string]json.RawMessage{"model": c.appendString(nil, model), "messages": said}
	if stream {
		r.fields["stream"] = json.RawMessage("true")
	}
	return r, nil
}
