package resource

import (
	"errors"
	"testing"
)

func TestDecodeRefusesNull(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                              "#",
		`{"a":null}`:                        "#/a",
		`{"a":[1,{"b":"null"},{"c":null}]}`: "#/a/2/c",
		`{"a":{"b":[]},"c/d":[[],[null]]}`:  "#/c~1d/1/0",
		`{"null":"null"}`:                   "",
		`["null",{"a":{}},[],{"b":true}]`:   "",
		`"null"`:                            "",
	} {
		var into any
		err := Decode([]byte(text), &into)
		var faults Invalid
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (!errors.As(err, &faults) || len(faults) != 1 || faults[0].Pointer != want):
			t.Errorf("%s: %v, want one fault at %s", text, err, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	for text, want := range map[string]bool{
		"text/plain": true, "application/vnd.x+json": true, "text/plain; charset=utf-8": true, "a/b;c=\"d\\\"e\";f=g": true,
		"text": false, "/": false, "a/b;": false, "a/b; c": false, "a/b;c=\"": false, "a/b\r\nX: y": false, "a/b;c=\"\n\"": false, "a b/c": false,
	} {
		c := Config{Namespace: "n", Name: "c", ContentType: text}
		if err := c.Check(DefaultLimits()); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDecodeWholeNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		`{"n":1.0}`: 1, `{"n":-0.0}`: 0, `{"n":1e3}`: 1000, `{"n":12.5e1}`: 125, `{"s":"\\\" 1.0","n":2.00}`: 2, `{"n":-4.5e18}`: -4500000000000000000,
	} {
		var into struct {
			N int64  `json:"n"`
			S string `json:"s"`
		}
		if err := Decode([]byte(text), &into); err != nil || into.N != want {
			t.Errorf("%s: %d, %v", text, into.N, err)
		}
		if into.S != "" && into.S != `\" 1.0` {
			t.Errorf("%s: %q", text, into.S)
		}
	}
	for _, text := range []string{`{"n":1.5}`, `{"n":1e-400}`, `{"n":1e19}`, `{"n":1e999999999}`, `{"n":9223372036854775808}`, `{"n":"1.0"}`} {
		var into struct {
			N int64 `json:"n"`
		}
		if err := Decode([]byte(text), &into); err == nil {
			t.Errorf("%s: %d", text, into.N)
		}
	}
}

// TestDecodeRefusesTwoReadings: what two readers of one document would read differently is
// refused, at its place.
func TestDecodeRefusesTwoReadings(t *testing.T) {
	for text, want := range map[string]Fault{
		`{"rules":[{"action":"deny","Action":"allow"}]}`: {"#/rules/0/Action", "is not a field of this document"},
		`{"rules":[{"action":"deny"}],"rules":[]}`:       {"#/rules", "is given twice"},
		`{"labels":{"a":"1","b":"2","\u0061":"3"}}`:      {"#/labels/a", "is given twice"},
		`{"RULES":[]}`:                   {"#/RULES", "is not a field of this document"},
		`{"ruleſ":[]}`:                   {"#/ruleſ", "is not a field of this document"},
		"{\"labels\":{\"a\":\"x\xff\"}}": {"#/labels/a", "must be UTF-8, and is not at byte 18"},
		"{\"labels\":{\"a\xfe\":\"x\"}}": {"#/labels", "must be UTF-8, and is not at byte 14"},
		`{"name":"\ud800"}`:              {"#/name", "is not JSON: invalid surrogate pair `\\ud800\"}` in string, at byte 10"},
		`{"rules":[{"action":"route","route":[{"Weight":1,"weight":2}]}]}`: {"#/rules/0/route/0/Weight", "is not a field of this document"},
		`{"rules":[]} {"rules":[]}`:                                        {"#", "there is more after the document, at byte 13"},
		`{"rules":[]}}`:                                                    {"#", "there is more after the document, at byte 12"},
		`{"rules":[`:                                                       {"#", "is cut off"},
		` `:                                                                {"#", "is empty, and must be a JSON document"},
		`{"version":1.5}`:                                                  {"#/version", "is 1.5 and must be a whole number"},
		`{"version":"1"}`:                                                  {"#/version", "is a string and must be a whole number"},
		`{"rules":{}}`:                                                     {"#/rules", "is an object and must be a list"},
		`{"labels":[]}`:                                                    {"#/labels", "is a list and must be an object"},
		`{"name":true}`:                                                    {"#/name", "is a boolean and must be a string"},
		`{"changed_at":"today"}`:                                           {"#/changed_at", "must be a time such as 2026-01-02T03:04:05Z"},
	} {
		var faults Invalid
		if err := Decode([]byte(text), &Policy{}); !errors.As(err, &faults) || len(faults) != 1 || faults[0] != want {
			t.Errorf("%q: %q, want %q", text, faults, want)
		}
	}
}

func TestDecodeNeedsAMember(t *testing.T) {
	for text, want := range map[string]bool{
		`{"content":""}`: true, `{"labels":{"content":"x"},"content_base64":"AA=="}`: true, "{\"\\u0063ontent\":\"x\"}": true,
		`{}`: false, `{"labels":{"content":"x"}}`: false, `{"name":"content"}`: false,
	} {
		err := Decode([]byte(text), &Config{}, Configs.Traits().Needs...)
		if want != (err == nil) || err != nil && err.Error() != "#/content: must be given" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
