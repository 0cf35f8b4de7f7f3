package embedding_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/dialecttest"
	"dyno/services/bot/dialect/embedding"
	"dyno/services/bot/openai"
)

// TestRequests: what each form's request becomes for a server of the other, with what it uses that the other does not have,
// and which field is at fault.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		form, to           embedding.Form
		body, server, uses string
	}{
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":"a<b"}`, `{"requests":[{"content":{"parts":[{"text":"a<b"}]},"model":"models/own"}]}`, "[]"},
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":["a","b"],"dimensions":64,"encoding_format":"base64","user":"u","x":1}`, `{"requests":[{"content":{"parts":[{"text":"a"}]},"model":"models/own","outputDimensionality":64},{"content":{"parts":[{"text":"b"}]},"model":"models/own","outputDimensionality":64}]}`, "[{user user} {other x}]"},
		{embedding.Single, embedding.OpenAI, `{"model":"models/m","content":{"role":"user","parts":[{"text":"a"}]},"taskType":"CLUSTERING","outputDimensionality":8}`, `{"dimensions":8,"encoding_format":"float","input":["a"],"model":"own"}`, "[{other taskType}]"},
		{embedding.Batch, embedding.OpenAI, `{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"output_dimensionality":8,"task_type":null},{"content":{"parts":[{"text":"","thought":true}],"x":1},"outputDimensionality":8,"title":"t"}],"y":{}}`, `{"dimensions":8,"encoding_format":"float","input":["a",""],"model":"own"}`, "[{other requests[1].content.parts[0].thought} {other requests[1].content.x} {other requests[1].title} {other y}]"},
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":[1,2]}`, "input: want a list of strings", ""},
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":[]}`, "input: want a text, or a list of texts", ""},
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":"a","dimensions":0}`, "dimensions: must be from 1 to 134217728", ""},
		{embedding.OpenAI, embedding.Batch, `{"model":"m","input":"a","encoding_format":"int8"}`, "encoding_format: want float or base64", ""},
		{embedding.Batch, embedding.OpenAI, `{}`, "requests: want one at least", ""},
		{embedding.Batch, embedding.OpenAI, `{"requests":[{}]}`, "requests[0].content: must be there", ""},
		{embedding.Batch, embedding.OpenAI, `{"requests":[{"content":{"parts":[{"text":"a"},{"text":"b"}]}}]}`, "requests[0].content.parts: cannot be translated here: want one text", ""},
		{embedding.Single, embedding.OpenAI, `{"content":{"parts":[{"inlineData":{}}]}}`, "content.parts: cannot be translated here: want one text", ""},
		{embedding.Batch, embedding.OpenAI, `{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]},"outputDimensionality":8}]}`, "requests[1].outputDimensionality: want the same in all requests", ""},
	} {
		r, err := c.form.ReadRequest([]byte(c.body))
		if err != nil {
			if err.Error() != c.server {
				t.Errorf("%s: %v, want %s", c.body, err, c.server)
			}
			continue
		}
		uses := "["
		for i, u := range r.Uses() {
			uses += map[bool]string{true: " "}[i > 0] + "{" + string(u.Feature) + " " + u.Field + "}"
		}
		if got := string(c.to.AppendRequest(nil, r, "own")); got != c.server || uses+"]" != c.uses {
			t.Errorf("%s:\n%s %s]\nwant\n%s %s", c.body, got, uses, c.server, c.uses)
		}
	}
}

// TestFit: a user's ID and fields of one form alone are refused, or dropped.
func TestFit(t *testing.T) {
	r, err := embedding.OpenAI.ReadRequest([]byte(`{"model":"m","input":"a","user":"u","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = r.Fit(embedding.OpenAI, nil); err == nil || err.Error() != "x: openai cannot be asked for a field that only this form has" {
		t.Error(err)
	}
	if _, _, err = r.Fit(embedding.Batch, nil); err == nil || err.Error() != "user: gemini cannot be asked for the user's ID" {
		t.Error(err)
	}
	fitting, dropped, err := r.Fit(embedding.Batch, []dialect.Feature{dialect.UserID, dialect.OtherField})
	if err != nil || fitting.User != "" || strings.Join(dropped, " ") != "user x" {
		t.Error(fitting, dropped, err)
	}
}

// TestAnswers: what each server's answer becomes for a client of the other form. A vector that is missing is a fault.
func TestAnswers(t *testing.T) {
	told, estimated := openai.Usage{Prompt: 7}, openai.Usage{Prompt: 7, Estimated: true}
	two := embedding.Request{Request: &dialect.Request{Model: "m"}, Inputs: []string{"a", "b"}}
	one, packed := two, two
	one.Inputs, packed.Base64 = two.Inputs[:1], true
	for _, c := range []struct {
		server, form embedding.Form
		request      embedding.Request
		usage        openai.Usage
		body, client string
	}{
		{embedding.Batch, embedding.OpenAI, two, told, `{"embeddings":[{"values":[0.0023064255,-1]},{"values":[2e-9]}]}`, `{"data":[{"embedding":[0.0023064255,-1],"index":0,"object":"embedding"},{"embedding":[2e-9],"index":1,"object":"embedding"}],"model":"m","object":"list","usage":{"prompt_tokens":7,"total_tokens":7}}`},
		{embedding.Batch, embedding.OpenAI, packed, estimated, `{"embeddings":[{"values":[1,-2]},{"values":[0.5]}]}`, `{"data":[{"embedding":"AACAPwAAAMA=","index":0,"object":"embedding"},{"embedding":"AAAAPw==","index":1,"object":"embedding"}],"model":"m","object":"list","usage":{"prompt_tokens":7,"total_tokens":7}}`},
		{embedding.OpenAI, embedding.Batch, two, told, `{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}`, `{"embeddings":[{"values":[1]},{"values":[2]}],"usageMetadata":{"promptTokenCount":7}}`},
		{embedding.OpenAI, embedding.Single, one, estimated, `{"data":[{"index":0,"embedding":[1]}]}`, `{"embedding":{"values":[1]}}`},
		{embedding.OpenAI, embedding.Batch, two, told, `{"data":[{"index":0,"embedding":[1]}]}`, ""},
		{embedding.OpenAI, embedding.Batch, two, told, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, ""},
		{embedding.OpenAI, embedding.Batch, one, told, `{"data":[{"index":0,"embedding":"AACAPw=="}]}`, ""},
		{embedding.Batch, embedding.OpenAI, one, told, `{"embeddings":[{"values":[]}]}`, ""},
		{embedding.Batch, embedding.OpenAI, one, told, `{"embeddings":[{"values":[1]},{"values":[1]}]}`, ""},
		{embedding.Batch, embedding.OpenAI, one, told, `{"embeddings":[{"values":[1e99]}]}`, ""},
		{embedding.Batch, embedding.OpenAI, one, told, `cut`, ""},
	} {
		vectors, err := c.server.ReadAnswer(&c.request, []byte(c.body))
		if err != nil {
			if c.client != "" || !errors.Is(err, openai.ErrForm) {
				t.Errorf("%s: %v, want %s", c.body, err, c.client)
			}
			continue
		}
		if got := string(c.form.AppendAnswer(nil, &c.request, vectors, c.usage)); got != c.client {
			t.Errorf("%s:\n%s\nwant\n%s", c.body, got, c.client)
		}
	}
}

// TestRoundTrips: what one form writes, it reads unchanged.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom([]embedding.Form{embedding.OpenAI, embedding.Batch}).Draw(t, "form")
		want := &embedding.Request{Request: &dialect.Request{}, Inputs: rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "inputs"), Dimensions: rapid.IntRange(0, 4096).Draw(t, "dimensions")}
		if form == embedding.OpenAI {
			want.Model, want.User = "own", rapid.StringMatching(`[a-z]{0,4}`).Draw(t, "user")
		}
		body := form.AppendRequest(nil, want, "own")
		got, err := form.ReadRequest(body)
		if err != nil || dialecttest.Dump(got) != dialecttest.Dump(want) {
			t.Fatalf("%s: %v, %s", body, err, dialecttest.Dump(got))
		}
		vectors := make([][]float32, len(want.Inputs))
		for i := range vectors {
			vectors[i] = rapid.SliceOfN(rapid.Float32(), 1, 4).Draw(t, "vector")
		}
		body = form.AppendAnswer(nil, want, vectors, openai.Usage{})
		back, err := form.ReadAnswer(want, body)
		if diff := cmp.Diff(vectors, back); err != nil || diff != "" {
			t.Fatalf("%s: %v %s", body, err, diff)
		}
	})
}

// FuzzReadRequest: a request that is read has an input, and can be written for each server; otherwise a field is at fault.
func FuzzReadRequest(f *testing.F) {
	f.Add(`{"model":"m","input":["a"],"encoding_format":"base64","dimensions":9,"user":"u"}`)
	f.Add(`{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"outputDimensionality":9},{}]}`)
	f.Add(`{"content":{"role":"user","parts":[{"text":"a"}]},"task_type":"x"}`)
	f.Fuzz(func(t *testing.T, body string) {
		for form := embedding.OpenAI; form <= embedding.Single; form++ {
			r, err := form.ReadRequest([]byte(body))
			var fault *dialect.FieldError
			if err != nil {
				if !errors.As(err, &fault) || fault.Field == "" || fault.Text == "" {
					t.Errorf("%#v names no field", err)
				}
				continue
			}
			if len(r.Inputs) == 0 || !json.Valid(embedding.OpenAI.AppendRequest(nil, r, "m")) || !json.Valid(embedding.Batch.AppendRequest(nil, r, "m")) {
				t.Errorf("%+v", r)
			}
		}
	})
}

// FuzzReadAnswer: an answer that is read can be written in each form, or its form is at fault.
func FuzzReadAnswer(f *testing.F) {
	f.Add(`{"data":[{"index":0,"embedding":[1,2e-9]}]}`, 1)
	f.Add(`{"embeddings":[{"values":[1]},{"values":[-1]}]}`, 2)
	f.Fuzz(func(t *testing.T, body string, inputs int) {
		r := &embedding.Request{Request: &dialect.Request{}, Inputs: make([]string, max(inputs, 1)%8+1), Base64: inputs%2 == 0}
		vectors, err := embedding.OpenAI.ReadAnswer(r, []byte(body))
		if err != nil {
			if !errors.Is(err, openai.ErrForm) {
				t.Error(err)
			}
			return
		}
		for form := embedding.OpenAI; form <= embedding.Single; form++ {
			if !json.Valid(form.AppendAnswer(nil, r, vectors, openai.Usage{})) {
				t.Error(form)
			}
		}
	})
}
