package openai

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParseFault: servers say in many forms why there is no answer.
func TestParseFault(t *testing.T) {
	for text, want := range map[string]Fault{
		`{"error":{"message":"used up","type":"insufficient_quota","code":"insufficient_quota"}}`: {Message: "used up", Type: "insufficient_quota", Code: "insufficient_quota"},
		`{"error":{"message":"used up","code":429}}`:                                              {Message: "used up"},
		`{"error":"used up"}`:                                    {Message: "used up"},
		`{"error":"Bad Request","message":"no such field"}`:      {Message: "Bad Request: no such field"},
		`{"error":"used up","message":"used up"}`:                {Message: "used up"},
		`{"error":["used up"],"error_type":"x"}`:                 {Message: "used up"},
		`{"error":{"type":"overloaded_error"}}`:                  {Type: "overloaded_error"},
		`{"type":"error","error":{"type":"a","message":"b"}}`:    {Message: "b", Type: "a"},
		`{"message":"used up","type":"rate"}`:                    {Message: "used up", Type: "rate"},
		`{"detail":"used up"}`:                                   {Message: "used up"},
		`{"detail":[{"loc":["body"],"msg":"is extra"}]}`:         {Message: "is extra"},
		`{"errors":[{"message":"used up"}]}`:                     {Message: "used up"},
		`{"error":"denied","error_description":"no such scope"}`: {Message: "denied: no such scope"},
		`[{"error":{"code":400,"message":"used up"}}]`:           {Message: "used up"},
		`"used up"`:                 {Message: "used up"},
		" used up\n":                {Message: "used up"},
		"<html>used up</html>":      {},
		`{"error":{"message":"used`: {},
		"\x1f\x8b\x08":              {},
		`{"error":{"message":"x","code":"` + strings.Repeat("c", 100) + `"}}`: {Message: "x"},
		strings.Repeat(`{"error":`, 9) + `"deep"` + strings.Repeat("}", 9):    {},
		"": {}, "null": {}, "{}": {}, "[]": {}, `{"error":null}`: {}, `{"message":{"role":"assistant"}}`: {},
	} {
		if got := Standard().ParseFault([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// TestNoAnswer: a body that says why it is no answer is told from one that is not understood.
func TestNoAnswer(t *testing.T) {
	for _, e := range []Endpoint{Chat, Responses} {
		_, err := Standard().ParseReply(e, []byte(`{"error":{"message":"full","code":"busy"}}`))
		var none *NoneError
		if !errors.As(err, &none) || none.Message != "full" || none.Code != "busy" || !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", e, err)
		}
		if _, err := Standard().ParseReply(e, []byte(`{"choices":7,"output":7}`)); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v", e, err)
		}
		if _, err := Standard().ParseReply(e, []byte(`{}`)); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// TestErrorEvent: an event of that name is the end, whatever its data is.
func TestErrorEvent(t *testing.T) {
	for data, want := range map[string]Fault{
		`{"message":"overloaded","type":"overloaded_error"}`: {Message: "overloaded", Type: "overloaded_error"},
		"overloaded": {Message: "overloaded"}, "{}": {Message: "without a reason"},
	} {
		for _, e := range []Endpoint{Chat, Responses} {
			var v Event
			if err := Standard().ParseEvent(e, Frame{Name: []byte("error"), Data: []byte(data)}, &v); err != nil || v.Failed != want {
				t.Errorf("%s: %s: %+v, %v", e, data, v, err)
			}
		}
	}
}

func TestBrief(t *testing.T) {
	if got := Brief("short"); got != "short" {
		t.Error(got)
	}
	if got := Brief(strings.Repeat("天", maxBrief)); len(got) > maxBrief+3 || !utf8.ValidString(got) || !strings.HasSuffix(got, "天…") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestWithID: an event that ends a stream has the ID, and once.
func TestWithID(t *testing.T) {
	for data, want := range map[string]string{
		`{"type":"error","error":{"message":"m"}}`:                       `{"error":{"message":"m"},"request_id":"r","type":"error"}`,
		`{"type":"error","error":{},"request_id":"theirs"}`:              "",
		`{"type":"error","error":{},"request_id":null}`:                  `{"error":{},"request_id":"r","type":"error"}`,
		"{\"type\":\"response.failed\",\n\"response\":{\"id\":\n1e400}}": `{"request_id":"r","response":{"id":1e400},"type":"response.failed"}`,
		`null`:   "",
		`[DONE]`: "",
		`{"a`:    "",
	} {
		f := Frame{Name: []byte("n"), Data: []byte(data), Raw: []byte("as it came")}
		got := f.WithID("r")
		wantRaw := "event: n\ndata: " + want + "\n\n"
		if want == "" {
			want, wantRaw = data, "as it came"
		}
		if string(got.Data) != want || string(got.Raw) != wantRaw || string(f.Data) != data {
			t.Errorf("%s: %s, %s", data, got.Data, got.Raw)
		}
	}
}
