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

// TestDecodePointer: a fault's place is one of the document, not of the program.
func TestDecodePointer(t *testing.T) {
	type listed struct {
		Acks []struct {
			Ref
			State string `json:"state"`
		} `json:"acks"`
	}
	for text, c := range map[string]struct {
		into any
		want string
	}{
		`{"version":"x"}`:               {&Policy{}, "#/version"},
		`{"changed_by":1}`:              {&Instance{}, "#/changed_by"},
		`{"rules":[{"limit":1}]}`:       {&Policy{}, "#/rules/limit"},
		`{"acks":[{"namespace":true}]}`: {&listed{}, "#/acks/namespace"},
		`[]`:                            {&Policy{}, "#"},
	} {
		var faults Invalid
		if err := Decode([]byte(text), c.into); !errors.As(err, &faults) || faults[0].Pointer != c.want {
			t.Errorf("%s: %v, want %s", text, err, c.want)
		}
	}
}
