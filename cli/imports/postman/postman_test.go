package postman

import (
	"encoding/json"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// Variables are replaced as Postman does, whatever their values consist of. Variables without a value
// are listed.
func TestPostmanVariables(t *testing.T) {
	values := map[string]any{
		"plain": "17", "id": "id-{{$guid}}", "deep": "{{id}}.{{plain}}", "none": "{{missing}}-x", "a": "{{b}}", "b": "{{a}}",
		"odd": "a b", "quote": `q"q`, "name": "plain", "number": 1.50, "null": nil, "bomb": "{{bomb}}{{bomb}}",
	}
	for _, c := range []struct{ text, want, listed string }{
		{"{{plain}}", "{{ plain }}", ""},
		{"{{id}}", "id-{{ uuid() }}", ""},
		{"{{deep}}", "id-{{ uuid() }}.{{ plain }}", ""},
		{"{{none}}", "{{ missing }}-x", ""},
		{"{{a}}", "{{a}}", "{{a}}: the variable stands for itself"},
		{"{{odd}}", "a b", ""},
		{"{{quote}}", `q"q`, ""},
		{"{{{{name}}}}", "{{ plain }}", ""},
		{"{{number}}{{null}}", "{{ number }}{{ null }}", ""},
		{"{{ plain }}", "{{ plain }}", "it is sent as text, as Postman does"},
		{"{{$randomColor}}", "{{$randomColor}}", "dyno has no such made-up value: it is sent as text"},
		{"{{bomb}}", "{{bomb}}", "its variables stand for too much text"},
	} {
		p := &reader{d: draft.New(draft.Source{File: "c.json"}), values: map[string]string{}, set: map[string]bool{}}
		for name, value := range values {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			p.values[name] = variableText(text)
		}
		got := p.d.Expand(p.text(1, c.text, literalInURL), "")
		listed := ""
		for _, i := range p.d.Items {
			listed += i.What + ": " + i.Why + "\n"
		}
		if got != c.want || !strings.Contains(listed, c.listed) || (listed == "") != (c.listed == "") {
			t.Errorf("%s: %s, want %s; listed %s", c.text, got, c.want, listed)
		}
	}
}
