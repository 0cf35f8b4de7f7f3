package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"dyno/internal/strict"
)

// A Unit is what an operation uses apart from tokens.
type Unit string

// The units. Documents are those that were ranked, or search units if the upstream says how many.
const (
	NoUnit     Unit = ""
	Images     Unit = "images"
	Seconds    Unit = "seconds" // of a recording
	Characters Unit = "characters"
	Documents  Unit = "documents"
)

// An Operation is an endpoint whose requests and answers pass as they are, apart from the model's name. Those of embeddings
// are translated for an upstream of another form.
type Operation struct {
	Name string // in the ledger and in metrics
	Path string // below a base URL that ends in /v1; of the Gemini API, the end of a path that has the model, with its colon
	Unit Unit
	// Upload says that the body is a form, multipart/form-data. That of others is one JSON object.
	Upload bool
	// Answers says that the model writes text or draws: the answer has tokens.
	Answers bool
	// Kind is that of the object that it is about; "" is none.
	Kind     string
	Beta     string // the header field OpenAI-Beta
	Method   string // "" is POST
	Contents bool   // the answer has the contents of a file
}

// Operations are those that ask a model.
var Operations = []*Operation{
	{Name: "completions", Path: "/completions", Answers: true},
	{Name: "embeddings", Path: "/embeddings"},
	{Name: "embed_content", Path: ":embedContent"},
	{Name: "batch_embed_contents", Path: ":batchEmbedContents"},
	{Name: "moderations", Path: "/moderations"},
	{Name: "rerank", Path: "/rerank", Unit: Documents},
	{Name: "images", Path: "/images/generations", Unit: Images, Answers: true},
	{Name: "image_edits", Path: "/images/edits", Unit: Images, Upload: true, Answers: true},
	{Name: "image_variations", Path: "/images/variations", Unit: Images, Upload: true, Answers: true},
	{Name: "speech", Path: "/audio/speech", Unit: Characters},
	{Name: "transcriptions", Path: "/audio/transcriptions", Unit: Seconds, Upload: true, Answers: true},
	{Name: "translations", Path: "/audio/translations", Unit: Seconds, Upload: true, Answers: true},
}

// HasModel reports whether the path has the model's name.
func (o *Operation) HasModel() bool { return o.Path[0] == ':' }

// A Call is a request of an operation.
type Call struct {
	Operation *Operation
	Model     string
	Stream    bool
	// Estimate is what it may use. Without tokens of an answer that has some, their number is unknown.
	Estimate Usage

	codec  Codec
	fields map[string]json.RawMessage
	body   []byte // of the Gemini API
}

// Bounds and defaults of calls.
const (
	completionTokens = 16 // of a text of /v1/completions whose request has no bound
	maxImages        = 128
)

// secondBytes is how many bytes of an upload are taken for a second of a recording, if the upstream does not tell its
// length: 128 kbit/s. Speech mostly has fewer.
const secondBytes = 16 << 10

// CallFields are the fields of a form that ParseForm reads, with the bytes that each may have.
var CallFields = map[string]int64{"model": maxModel, "stream": 16, "n": 16, "prompt": 128 << 10, "purpose": 64}

// ParseForm reads a call that is a form, by its CallFields and its size. The error is a *RequestError.
func (c Codec) ParseForm(o *Operation, form map[string]string, size int64) (*Call, error) {
	fields := map[string]json.RawMessage{}
	for name, value := range form {
		if fields[name] = json.RawMessage(value); name == "model" || name == "prompt" || !json.Valid(fields[name]) {
			fields[name] = c.appendString(nil, value)
		}
	}
	q, err := c.ParseCall(o, "", c.encode(fields))
	if err != nil {
		return nil, err
	}
	if o.Unit == Seconds {
		q.Estimate.Units = int(min(size/secondBytes+1, maxCount))
	}
	return q, nil
}

// ParseCall reads the body of a call; model is that of the path, if it has one. The error is a *RequestError.
func (c Codec) ParseCall(o *Operation, model string, body []byte) (*Call, error) {
	var fault *strict.Error
	if err := strict.Check(body, callMembers); errors.As(err, &fault) {
		return nil, &RequestError{"body", fault.Error()}
	}
	var v struct {
		Model     string            `json:"model"`
		Stream    bool              `json:"stream"`
		N         int               `json:"n"`
		BestOf    int               `json:"best_of"`
		MaxTokens *int              `json:"max_tokens"`
		MaxChat   *int              `json:"max_completion_tokens"`
		MaxOutput *int              `json:"max_output_tokens"`
		Documents []json.RawMessage `json:"documents"`
	}
	q := &Call{Operation: o, codec: c}
	if err := errors.Join(c.JSON.Unmarshal(body, &q.fields), c.JSON.Unmarshal(body, &v)); err != nil {
		return nil, &RequestError{"body", "want a call of " + o.Path + ": " + err.Error()}
	}
	if q.Model, q.Stream = v.Model, v.Stream; o.HasModel() {
		q.Model, q.body = model, body
	}
	most, several := 0, max(v.N, v.BestOf, 1)
	if o.Path == "/completions" {
		most = completionTokens
	}
	for _, bound := range []*int{v.MaxTokens, v.MaxChat, v.MaxOutput} {
		if bound != nil {
			most = *bound
		}
	}
	switch {
	case q.Model == "" || len(q.Model) > maxModel:
		return nil, &RequestError{"model", fmt.Sprintf("must have 1 to %d bytes", maxModel)}
	case v.N < 0 || v.BestOf < 0 || several > maxImages:
		return nil, &RequestError{"n", fmt.Sprintf("must be from 1 to %d", maxImages)}
	case most < 0 || most > maxTokens:
		return nil, &RequestError{"max_tokens", fmt.Sprintf("must be from 0 to %d", maxTokens)}
	}
	for _, name := range valuesOf(q.body, "model") {
		if strings.TrimPrefix(c.textOf(name), "models/") != model {
			return nil, &RequestError{"model", "want that of the path, models/" + model}
		}
	}
	u := &q.Estimate
	for _, name := range []string{"prompt", "input", "query", "documents", "messages", "instructions", "tools"} {
		u.Prompt += estimateTokens(q.fields[name])
	}
	for _, text := range valuesOf(q.body, "text") {
		u.Prompt += estimateTokens(text)
	}
	switch o.Unit {
	case Images:
		u.Units = max(v.N, 1)
	case Characters:
		*u = Usage{Units: utf8.RuneCountInString(c.textOf(q.fields["input"]))}
	case Documents:
		u.Units = max(len(v.Documents), 1)
	case Seconds:
	case NoUnit:
		var prompts []json.RawMessage
		if o.Answers {
			if c.JSON.Unmarshal(q.fields["prompt"], &prompts) != nil || len(prompts) > 0 && prompts[0][0]-'0' < 10 {
				prompts = nil // one prompt, as a text or as its tokens
			}
			u.Completion = min(most*several*max(len(prompts), 1), maxTokens)
		}
	}
	return q, nil
}

var callMembers = strict.Names("model", "stream", "n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens", "prompt", "input", "query", "documents", "messages", "instructions", "tools", "content", "requests")

// Body returns the body with an upstream's name of the model.
func (q *Call) Body(model string) []byte {
	if b := q.body; b != nil {
		for at, name := range valuesOf(q.body, "model") {
			b = slices.Concat(b[:at], q.codec.appendString(nil, "models/"+model), b[at+len(name):])
		}
		return b
	}
	fields := maps.Clone(q.fields)
	fields["model"] = q.codec.appendString(nil, model)
	return q.codec.encode(fields)
}
