// Package openai is the codec of the protocols of model servers and their clients: /v1/chat/completions and
// /v1/responses, as OpenAI documents them, Anthropic's /v1/messages, and Google's generateContent. It does no I/O. The gateway changes only the
// necessary fields of a request. Unknown fields, and numbers beyond 2^53, stay unchanged.
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

// An Endpoint is one of the endpoints for models.
type Endpoint int

// The endpoints.
const (
	Chat          Endpoint = iota // POST /chat/completions
	Responses                     // POST /responses
	Messages                      // POST /messages
	Tokens                        // POST /messages/count_tokens: of a request to Messages
	Contents                      // POST /models/MODEL:generateContent, or :streamGenerateContent
	ContentTokens                 // POST /models/MODEL:countTokens: of a request to Contents
	Endpoints     = iota          // their number
)

// Path returns the endpoint's path below a base URL that ends in /v1, or its beginning if the path has the model.
func (e Endpoint) Path() string {
	return [Endpoints]string{"/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/models/", "/models/"}[e]
}

func (e Endpoint) String() string {
	return [Endpoints]string{"chat", "responses", "messages", "count_tokens", "contents", "content_tokens"}[e]
}

// HasModel reports whether the path has the model's name.
func (e Endpoint) HasModel() bool { return e == Contents || e == ContentTokens }

// Counts reports whether it only counts the tokens of a request.
func (e Endpoint) Counts() bool { return e == Tokens || e == ContentTokens }

// EndsByChoice reports whether a stream is complete when all of its choices are: no event of its own says so.
func (e Endpoint) EndsByChoice() bool { return e == Chat || e == Contents }

// Bounds of a request.
const (
	maxModel  = 256 // bytes
	maxChoice = 16
	maxTokens = 1 << 27 // their price must not overflow
)

// A Request is a client's request. After parsing, only Bound, Forget, Header and the estimate of PromptTokens change it.
type Request struct {
	Endpoint     Endpoint
	Model        string
	Stream       bool
	IncludeUsage bool // the stream's end must have the usage
	Choices      int  // answers that are wanted: 1 or more
	MaxTokens    int  // of each; 0 is no bound
	// PromptTokens estimates the tokens that the model reads: a quarter of the bytes of texts and of tools'
	// descriptions. Images count 1,500 each, recordings and files a 64th of their bytes.
	PromptTokens int
	// References are the objects that the request names.
	References []Reference
	// Maker is the deployment that keeps what the request refers to; "" is unknown.
	Maker string
	// Background says that a client of /v1/responses accepts an answer that is not complete yet: it goes on without
	// the client.
	Background bool
	// Header has the client's header fields that a server of the endpoint gets.
	Header map[string]string

	limited bool // the answer must not have more than MaxTokens
	added   bool // MaxTokens is a bound that the client has not set
	codec   Codec
	// fields has model and stream, too, if the path has them.
	fields  map[string]json.RawMessage
	options map[string]json.RawMessage // of the stream, or of the Gemini API
}

// A RequestError is a fault of a request: the field, and what it should be.
type RequestError struct{ Field, Text string }

func (e *RequestError) Error() string { return e.Field + ": " + e.Text }

// part has the members of a message's part that are examined.
var part = strict.Members{
	"type": nil, "text": nil, "file_id": nil, "file_url": nil, "file_data": nil, "source": source, "content": strict.Members{"type": nil, "text": nil, "source": source},
	"file": strict.Names("file_id", "file_url", "file_data"), "image_url": strict.Names("url"), "input_audio": strict.Names("data"),
}

// content has the members of a content of the Gemini API that are examined.
var content = strict.Members{"role": nil, "parts": strict.Names("text", "inlineData", "inline_data", "fileData", "file_data")}

// config has its options that are examined.
var config = strict.Names("maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count", "temperature")

// source has the members of an image or a document of /v1/messages that are examined.
var source = strict.Names("type", "media_type", "data", "url", "file_id")

// message has the members of a message, or of an item of input, that are examined.
var message = strict.Members{"id": nil, "type": nil, "role": nil, "content": part, "output": part}

// members are the examined members of a request, of all endpoints: an upstream may accept any of the names.
var members = withNamed(strict.Members{
	"model": nil, "stream": nil, "stream_options": strict.Names("include_usage"), "n": nil,
	"max_tokens": nil, "max_completion_tokens": nil, "max_output_tokens": nil, "temperature": nil,
	"messages": message, "input": message, "tools": strict.Names("type"),
	"instructions": nil, "functions": nil, "response_format": nil, "text": nil, "prediction": nil, "prompt": nil,
	"background": nil, "store": nil, "conversation": nil, "previous_response_id": nil, "web_search_options": nil,
	"user": nil, "metadata": nil, "safety_identifier": nil, "prompt_cache_key": nil,
	"contents": content, "systemInstruction": nil, "system_instruction": nil, "generationConfig": config, "generation_config": config, "cachedContent": nil, "cached_content": nil,
	"system": part, "output_config": nil, "container": nil, "thread": nil, "mcp_servers": nil,
})

// Parse reads a request's body. The error is a *RequestError.
func (c Codec) Parse(e Endpoint, body []byte) (*Request, error) { return c.parse(e, body, nil) }

// parse reads a request's body. Path has the fields that its path says.
func (c Codec) parse(e Endpoint, body []byte, path map[string]json.RawMessage) (*Request, error) {
	var fault *strict.Error
	if err := strict.Check(body, members); errors.As(err, &fault) {
		return nil, &RequestError{cmp.Or(fault.Member, "body"), fault.Text}
	}
	r := &Request{Endpoint: e, Choices: 1, codec: c}
	if err := c.JSON.Unmarshal(body, &r.fields); err != nil || r.fields == nil {
		return nil, &RequestError{"body", "want a JSON object"}
	}
	options := optionsField
	if e.HasModel() {
		var twice string
		if r.fields, twice = InCamels(r.fields); twice != "" {
			return nil, &RequestError{twice, "is there twice"}
		}
		maps.Copy(r.fields, path)
		options = configField
	}
	var max1, max2, max3 int
	for _, f := range []struct {
		name string
		to   any
		want string
	}{
		{"model", &r.Model, "a string"}, {"stream", &r.Stream, "a boolean"}, {"n", &r.Choices, "a number"}, {options, &r.options, "an object"},
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
	switch e { // servers of an endpoint ignore the fields of others
	case Chat:
		max3 = 0
	case Responses:
		max1, max2 = 0, 0
	case Messages:
		max2, max3, r.Choices = 0, 0, 1
	case Tokens:
		max1, max2, max3, r.Choices, r.Stream = 0, 0, 0, 1, false
	case Contents, ContentTokens:
		max1, max2, max3, r.Choices = 0, 0, 0, 1
		if err := r.configure(); err != nil {
			return nil, err
		}
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
	said := inputField(e)
	if raw := bytes.TrimSpace(r.fields[said]); len(raw) < 2 || string(raw) == "null" || string(raw) == "[]" || e != Responses && raw[0] != '[' {
		return nil, &RequestError{said, "must be there and not be empty"}
	}
	// Everything that a model reads.
	for _, name := range []string{said, "system", "instructions", "tools", "functions", "response_format", "text", "prediction", "prompt", "output_config", "systemInstruction", configField} {
		r.PromptTokens += estimateTokens(r.fields[name])
	}
	r.IncludeUsage = true // in its last events, unasked
	switch e {
	case Chat:
		r.IncludeUsage = false
		_ = c.JSON.Unmarshal(r.options["include_usage"], &r.IncludeUsage) // absent, or refused by the upstream
	case Responses:
		r.Background = r.says("background")
	}
	var err error
	r.References, err = references(r.fields, named[Form(e.Path())])
	return r, err
}

// MaxCompletion bounds the tokens of all its answers together; 0 is no bound.
func (r *Request) MaxCompletion() int { return r.MaxTokens * r.Choices }

// EstimateTokens estimates the tokens of n bytes: four bytes each.
func EstimateTokens(n int) int { return (n + 3) / 4 }

// A BoundField is the field of /v1/chat/completions that bounds an answer's tokens.
type BoundField string

// The fields. Servers that do not know the second one mostly ignore it; some models refuse the first one.
const (
	MaxTokens           BoundField = "max_tokens"
	MaxCompletionTokens BoundField = "max_completion_tokens"
)

// A Bound says how a server is told the bound on an answer's tokens.
type Bound struct {
	Field BoundField
	// Only says that the server obeys no other field: it gets this one in addition to the client's.
	Only bool
}

// Body returns the body for an upstream, with its name of the model, and the gateway's bound in its field. A stream requests
// the usage at its end, unless the upstream does not know streamOptions.
func (r *Request) Body(model string, bound Bound, streamOptions bool) []byte {
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
			return // strings and JSON always encode
		}
		if !own {
			fields, own = maps.Clone(fields), true
		}
		fields[name] = text
	}
	if r.Endpoint.HasModel() {
		remove("model")
		remove("stream")
	} else if model != r.Model {
		change("model", model)
	}
	if r.Endpoint == Chat && (r.added || r.limited && bound.Only && !r.says(string(bound.Field))) {
		change(string(bound.Field), r.MaxTokens)
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

// optionsField has the options of a stream, which some servers do not know.
const optionsField = "stream_options"

// MayDropOptions reports whether the client's stream is the same without its options: they request only the usage.
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

// NamesOptions reports whether an upstream's refusal names the options of streams.
func NamesOptions(refusal []byte) bool {
	return bytes.Contains(refusal, []byte(optionsField)) || bytes.Contains(refusal, []byte("include_usage"))
}

// Bound bounds the answer to a request that has no bound, and keeps the bound of another. It reports whether it has
// added one.
func (r *Request) Bound(tokens int) bool {
	if r.limited = true; r.MaxTokens > 0 {
		return false
	}
	r.added, r.MaxTokens = true, tokens
	switch bound := strconv.AppendInt(nil, int64(tokens), 10); r.Endpoint {
	case Responses:
		r.fields["max_output_tokens"] = bound
	case Messages:
		r.fields["max_tokens"] = bound
	case Contents:
		r.options["maxOutputTokens"] = bound
		r.fields[configField] = r.codec.encode(r.options)
	}
	return true
}

// Added reports whether the bound is one that the gateway has added.
func (r *Request) Added() bool { return r.added }

// Encoded returns the client's request.
func (r *Request) Encoded() []byte { return r.codec.encode(r.fields) }

// Forget frees the request's fields once an upstream answers: a stream may last long. Do not use Body, Key,
// Continues, HasHiddenContext and Deterministic afterwards.
func (r *Request) Forget() { r.fields, r.options = nil, nil }

// Key is equal for equal requests, whatever the order of their fields. It ignores the user, except at /v1/responses,
// whose answers repeat the user.
func (r *Request) Key() []byte {
	fields := maps.Clone(r.fields)
	switch r.Endpoint {
	case Chat:
		for _, name := range []string{"user", "metadata", "store", "safety_identifier", "prompt_cache_key"} {
			delete(fields, name)
		}
	case Messages:
		delete(fields, "metadata")
	}
	b := []byte(r.Endpoint.String() + "\n")
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		b = append(b, name+": "+r.Header[name]+"\n"...)
	}
	return append(b, r.codec.encode(fields)...)
}

// inputField returns the field with the model's messages or input.
func inputField(e Endpoint) string {
	switch e {
	case Responses:
		return "input"
	case Contents, ContentTokens:
		return "contents"
	}
	return "messages"
}

// says reports whether a field is present and not empty.
func (r *Request) says(name string) bool {
	v := string(r.fields[name])
	return v != "" && v != "null" && v != "false"
}

// NoPreviousResponse is the code of a refusal of a request that continues a response that the server does not have.
const NoPreviousResponse = "previous_response_not_found"

// Continues reports whether the request refers to data that only one upstream keeps.
func (r *Request) Continues() bool {
	switch r.Endpoint {
	case Responses:
		return r.says("conversation") || r.says("previous_response_id")
	case Messages:
		return r.says("container") || r.says("thread")
	case Contents, ContentTokens:
		return r.says("cachedContent")
	}
	return false
}

// Deterministic reports whether the client wants equal answers to equal requests. That excludes answers that the
// upstream keeps, or that continue another one.
func (r *Request) Deterministic() bool {
	if r.Continues() || r.Endpoint == Responses && (string(r.fields["store"]) != "false" || r.Background) || r.Endpoint == Chat && r.says("store") || r.Endpoint.Counts() {
		return false
	}
	options := r.fields
	if r.Endpoint.HasModel() {
		options = r.options
	}
	var temperature json.Number
	err := r.codec.JSON.Unmarshal(options["temperature"], &temperature)
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
		if len(fields[name]) == 0 { // some libraries return this for null
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
		return append(b, `""`...) // a string always encodes
	}
	return quoted
}

// A Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Tokens estimates the tokens of a message.
func (m Message) Tokens() int { return EstimateTokens(len(m.Content)) + messageTokens }

// messageTokens is the overhead of a message.
const messageTokens = 4

// NewChat makes a request from a conversation; 0 maxTokens is no bound.
func (c Codec) NewChat(model string, messages []Message, stream bool, maxTokens int) (*Request, error) {
	if len(messages) == 0 {
		return nil, errors.New("no messages")
	}
	size := 2
	for _, m := range messages {
		size += len(m.Content) + len(m.Content)/8 + 48 // its overhead, and some escapes
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
	r := &Request{Endpoint: Chat, Model: model, Stream: stream, Choices: 1, MaxTokens: maxTokens, PromptTokens: EstimateTokens(len(said)), added: maxTokens > 0, codec: c}
	r.fields = map[string]json.RawMessage{"model": c.appendString(nil, model), "messages": said}
	if stream {
		r.fields["stream"] = json.RawMessage("true")
	}
	return r, nil
}
