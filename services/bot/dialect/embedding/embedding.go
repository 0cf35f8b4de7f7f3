// Package embedding translates requests for embeddings, and their answers, between OpenAI's API and Google's Gemini API.
// Sources: the references "Create embeddings" of platform.openai.com and "Embeddings" of ai.google.dev (v1beta), of 2026-11.
package embedding

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// A Form is how requests and answers are written.
type Form int

// The forms.
const (
	None   Form = iota
	OpenAI      // /v1/embeddings
	Batch       // batchEmbedContents
	Single      // embedContent: of clients
)

// Of returns the form of an operation's path.
func Of(path string) Form {
	return map[string]Form{"/embeddings": OpenAI, ":batchEmbedContents": Batch, ":embedContent": Single}[path]
}

// Path returns the path below a provider's URL; "" if the model's name is not in it.
func (f Form) Path(model string) string {
	return [...]string{Batch: "/models/" + url.PathEscape(model) + ":batchEmbedContents", Single: "/models/" + url.PathEscape(model) + ":embedContent"}[f]
}

// Name implements dialect.Capable.
func (f Form) Name() string { return map[bool]string{true: "openai", false: "gemini"}[f == OpenAI] }

// Says implements dialect.Capable.
func (f Form) Says(feature dialect.Feature) bool { return f == OpenAI && feature == dialect.UserID }

// A Request asks for a vector of each input.
type Request struct {
	*dialect.Request

	Inputs     []string
	Dimensions int  // 0 is the model's default
	Base64     bool // the client wants vectors as the base64 of their float32
}

// ReadRequest reads a request, of whose path Google's has the model. The error is a *dialect.FieldError.
func (f Form) ReadRequest(body []byte) (*Request, error) {
	o, err := dialect.ReadObject(body)
	if err != nil {
		return nil, err
	}
	r, list := &Request{Request: &dialect.Request{Model: o.Text("model")}}, []*dialect.Object{o}
	if f == Batch {
		list = o.Objects("requests")
	}
	for _, q := range list {
		if f == OpenAI {
			r.readInput(q)
		} else {
			r.readContent(q.Camel())
		}
	}
	if o.NoteLeft(r.Request); len(r.Inputs) == 0 {
		o.Fail("requests", "want one at least")
	}
	return r, o.Err()
}

// readInput reads a request in OpenAI's form. Tokens as input have no place in the other.
func (r *Request) readInput(o *dialect.Object) {
	if o.HasText("input") {
		r.Inputs = []string{o.Text("input")}
	} else if o.Take("input", &r.Inputs); len(r.Inputs) == 0 {
		o.Fail("input", "want a text, or a list of texts")
	}
	r.Dimensions = o.Tokens("dimensions")
	format := o.Text("encoding_format")
	if r.Base64 = format == "base64"; !slices.Contains([]string{"", "float", "base64"}, format) {
		o.Fail("encoding_format", "want float or base64")
	}
	if r.User = o.Text("user"); r.User != "" {
		o.Note(r.Request, dialect.UserID, "user")
	}
}

// readContent reads what one vector is of, in Google's form. The other has one text for it, and one size for all.
func (r *Request) readContent(o *dialect.Object) {
	c := o.Object("content").Camel()
	if c == nil {
		o.Fail("content", "must be there")
		return
	}
	parts := c.Objects("parts")
	if len(parts) != 1 || !parts[0].HasText("text") {
		c.Fail("parts", "cannot be translated here: want one text")
		return
	}
	size := o.Tokens("outputDimensionality")
	if len(r.Inputs) > 0 && size != r.Dimensions {
		o.Fail("outputDimensionality", "want the same in all requests")
	}
	r.Inputs, r.Dimensions = append(r.Inputs, parts[0].Text("text")), size
	o.Text("model") // is the path's, and a role says nothing
	c.Text("role")
	for _, left := range []*dialect.Object{parts[0], c, o} {
		left.NoteLeft(r.Request)
	}
}

// AppendRequest writes a request for a server; model is its own name.
func (f Form) AppendRequest(b []byte, r *Request, model string) []byte {
	if f == OpenAI {
		return dialect.Append(b, dialect.Fields{"model": model, "input": r.Inputs, "encoding_format": "float"}.Set("dimensions", r.Dimensions).Set("user", r.User))
	}
	list := make([]dialect.Fields, len(r.Inputs))
	for i, text := range r.Inputs {
		list[i] = dialect.Fields{"model": "models/" + model, "content": dialect.Fields{"parts": []dialect.Fields{{"text": text}}}}.Set("outputDimensionality", r.Dimensions)
	}
	return dialect.Append(b, dialect.Fields{"requests": list})
}

// ReadAnswer reads a server's answer: a vector for each input of the request. The error is openai.ErrForm.
func (f Form) ReadAnswer(r *Request, body []byte) ([][]float32, error) {
	var a struct {
		Data []struct { // OpenAI's
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Embeddings []struct { // Google's
			Values []float32 `json:"values"`
		} `json:"embeddings"`
	}
	err := json.Unmarshal(body, &a)
	vectors := make([][]float32, len(r.Inputs))
	for _, d := range a.Data {
		if d.Index >= 0 && d.Index < len(vectors) {
			vectors[d.Index] = d.Embedding
		}
	}
	for i := range min(len(a.Embeddings), len(vectors)) {
		vectors[i] = a.Embeddings[i].Values
	}
	if err != nil || len(a.Data)+len(a.Embeddings) != len(vectors) || slices.ContainsFunc(vectors, func(v []float32) bool { return len(v) == 0 }) {
		return nil, fmt.Errorf("%w: want a vector for each of %d inputs", openai.ErrForm, len(vectors))
	}
	return vectors, nil
}

// AppendAnswer writes an answer for a client. Google's form says nothing of tokens that are estimated.
func (f Form) AppendAnswer(b []byte, r *Request, vectors [][]float32, u openai.Usage) []byte {
	list := make([]dialect.Fields, len(vectors))
	for i, v := range vectors {
		if list[i] = (dialect.Fields{"values": v}); f == OpenAI {
			list[i] = dialect.Fields{"object": "embedding", "index": i, "embedding": v}
		}
		if r.Base64 {
			bytes, _ := binary.Append(nil, binary.LittleEndian, v) // numbers always encode
			list[i]["embedding"] = base64.StdEncoding.EncodeToString(bytes)
		}
	}
	a := dialect.Fields{"embeddings": list}
	switch f {
	case OpenAI:
		a = dialect.Fields{"object": "list", "data": list, "model": r.Model, "usage": dialect.Fields{"prompt_tokens": u.Prompt, "total_tokens": u.Prompt}}
	case Single:
		a = dialect.Fields{"embedding": list[0]}
	}
	if f != OpenAI && !u.Estimated {
		a["usageMetadata"] = dialect.Fields{"promptTokenCount": u.Prompt}
	}
	return dialect.Append(b, a)
}
