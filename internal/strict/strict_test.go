package strict

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var known = Members{"stream": nil, "max_tokens": nil, "options": Names("usage"), "items": {"kind": nil, "parts": Names("key")}}

// TestPasses: unambiguous JSON passes, with any unknown names.
func TestPasses(t *testing.T) {
	for _, text := range []string{
		`{}`,
		" \n{ \"stream\" :\ttrue } \n",
		`{"str\u0065am":true,"max_tokens":1e2}`,
		`{"other":{"Stream":1,"STREAM":2},"Other":3}`,
		`{"options":null,"items":"text"}`,
		`{"options":{"usage":true,"other":{"Usage":1}},"items":[1,"x",{"kind":"a","parts":[{"key":1},{"key":2,"Type":3}]}]}`,
		`{"x":"é\ud83d\ude00\u0000"}`,
	} {
		if err := Check([]byte(text), known); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := Check([]byte(`{"Stream":1,"stream":2}`), nil); err != nil {
		t.Errorf("nothing is known: %v", err)
	}
}

// TestFaults: what two readers could take for different things is refused, at every depth, with the member's name.
func TestFaults(t *testing.T) {
	for text, want := range map[string]Error{
		``:                                     {"", "want a JSON object"},
		`[]`:                                   {"", "want a JSON object"},
		`null`:                                 {"", "want a JSON object"},
		`{} {}`:                                {"", "want one JSON object, and nothing after it"},
		`{"a":1`:                               {"", "unexpected EOF"},
		`{"a":1,}`:                             {"", "invalid character"},
		`{"a" 1}`:                              {"", "invalid character"},
		`{"items":[}`:                          {"", "invalid character"},
		`{"items":[{]}`:                        {"", "invalid character"},
		`{"options":{"usage":]}`:               {"", "invalid character"},
		`{"count":01}`:                         {"", "invalid character"},
		`{"stream":1,"stream":1}`:              {"stream", "is there twice"},
		`{"stream":1,"str\u0065am":1}`:         {"stream", "is there twice"},
		`{"x":[{"y":1,"y":2}]}`:                {"x.0.y", "is there twice"},
		`{"options":{"usage":1,"usage":1}}`:    {"options.usage", "is there twice"},
		`{"Stream":1}`:                         {"Stream", `want "stream"`},
		`{"stream":1,"STREAM":1}`:              {"STREAM", `want "stream"`},
		"{\"\u017ftream\":1}":                  {"\u017ftream", `want "stream"`},
		"{\"max_to\u212aens\":1}":              {"max_to\u212aens", `want "max_tokens"`},
		`{"max_to\u212aens":1}`:                {"max_to\u212aens", `want "max_tokens"`},
		`{"options":{"Usage":1}}`:              {"options.Usage", `want "usage"`},
		`{"items":[{},{"KIND":1}]}`:            {"items.1.KIND", `want "kind"`},
		`{"items":{"parts":[{"\u212aey":1}]}}`: {"items.parts.0.\u212aey", `want "key"`},
		"{\"x\":\"a\xff\"}":                    {"", "invalid UTF-8"},
		"{\"a\xff\":1}":                        {"", "invalid UTF-8"},
		`{"x":"a\ud800"}`:                      {"", "surrogate"},
		`{"x":"\ude00\ud83d"}`:                 {"", "surrogate"},
		`{"a\ud800":1}`:                        {"", "surrogate"},
		`{"x":` + strings.Repeat("[", 20_000):  {"", "depth"},
	} {
		err := Check([]byte(text), known)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Text, want.Text) || want.Member != "" && e.Member != want.Member {
			t.Errorf("%.60s: %v, want %v", text, err, &want)
		}
	}
}

// FuzzCheck: what passes is JSON, and no reader changes the texts in it.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"stream":true}`, `{"items":[{"kind":"\u00e9"}]}`, `{"Stream":1}`, `{"x":"\ud800"}`, "{\"x\":\"\xff\"}", `{"a":{"b":[null,1.5e3,{}]}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Check([]byte(text), known) != nil {
			return
		}
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for name := range v {
			if strings.ContainsRune(name, '\uFFFD') && !strings.Contains(text, "\uFFFD") && !strings.Contains(strings.ToLower(text), `\ufffd`) {
				t.Errorf("%q was repaired", text)
			}
		}
	})
}
