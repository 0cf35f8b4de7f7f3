package template

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParseFaults(t *testing.T) {
	for _, tt := range []struct {
		text   string
		offset int
		want   string
	}{
		{"ab{{", 2, `{{ without }}; close it; write {{ "{{" }} for the braces themselves`},
		{"ab{{ a", 2, "{{ without }}"},
		{"{{ }}", 3, "'}' where an expression is wanted; want a variable or a function"},
		{"{{ a b }}", 5, "'b' where }} is wanted"},
		{"{{ a } }", 5, "'}' where }} is wanted"},
		{"{{ é }}", 3, "'é' where an expression is wanted"},
		{"{{ 5 }}", 3, "a number by itself; leave the braces out"},
		{"{{ f(1x) }}", 5, `"1x" is no whole number of 64 bits`},
		{"{{ f(-) }}", 5, `"-" is no whole number`},
		{"{{ f(9223372036854775808) }}", 5, "is no whole number of 64 bits"},
		{"{{ f(1 2) }}", 7, "'2' where , or ) is wanted; close the arguments of f with )"},
		{"{{ f(1", 6, "the end where , or ) is wanted"},
		{"{{ f(1,) }}", 7, "')' where an expression is wanted"},
		{`{{ "a }}`, 3, "the quote is never closed"},
		{`{{ "a\n" }}`, 5, `a backslash before neither a quote nor a backslash; write \\ for a backslash`},
		{`{{ "a\`, 5, "a backslash before neither"},
		{"{{ f(" + strings.Repeat("f(", 20), 37, "functions nested too deep; want at most 16 levels"},
		{"{{ f(" + strings.Repeat("1,", MaxArguments+1), 2005, "too many arguments; want at most 1000"},
		{strings.Repeat("x", MaxText+1), 0, "1048577 bytes are too long; want at most 1048576"},
	} {
		_, fault := parse(tt.text)
		if fault == nil {
			t.Errorf("%.40q: no fault", tt.text)
			continue
		}
		if got := fault.Problem + "; " + fault.Hint; fault.Offset != tt.offset || !strings.Contains(got, tt.want) {
			t.Errorf("%.40q: %q at %d, want %q at %d", tt.text, got, fault.Offset, tt.want, tt.offset)
		}
	}
}

// FuzzTemplate: any text is either in order or has one located fault; and what is in order
// and compiles can be rendered.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"", "x", "{{a}}", `{"n":{{ random_int(1, 9) }}}`, `{{ base64(a, ":", 'b') }}`, "{{", "}}", `{{ "{{" }}`, "{{ counter('x') }}", "{{ f(", "{{ timestamp('rfc3339') }}",
		"{{ random_string(3, 'é') }}", "{{ random_choice(a, uuid(), 5) }}", `{{ column("a") }}`, "{{ urlencode(json_escape(a)) }}", "{{ uuid7() }}",
	} {
		f.Add(s, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		nodes, fault := parse(text)
		if fault != nil {
			if fault.Offset < 0 || fault.Offset > len(text) || fault.Problem == "" || fault.Hint == "" {
				t.Fatalf("%q: %#v", text, fault)
			}
			return
		}
		var literal strings.Builder
		for _, n := range nodes {
			if n.offset < 0 || n.offset >= len(text) {
				t.Fatalf("%q: %+v", text, nodes)
			}
			literal.WriteString(n.text)
		}
		if !strings.Contains(text, "{{") && literal.String() != text {
			t.Fatalf("%q became %q", text, literal.String())
		}
		scope := &names{texts: map[string]string{"a": value}, varies: "a"}
		compiled, _, faults := Compile(text, scope)
		if len(faults) > 0 {
			return
		}
		state := scope.state()
		for range 3 {
			compiled.Append(nil, state)
		}
	})
}

// A template of a text in JSON renders what the text itself renders, between quotes.
func TestInJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"a \"b\"\n\\":           `a \"b\"\n\\`,
		"{{ a }}":               "{{ json_escape(a) }}",
		"x{{a}}\t{{ uuid() }}é": `x{{ json_escape(a) }}\t{{ json_escape(uuid()) }}é`,
		`{{ column("a b") }}`:   `{{ json_escape(column("a b")) }}`,
		`{{ "{{" }}}} {`:        `{{ json_escape("{{") }}}} {`,
		"a } b }} c":            "a } b }} c",
	} {
		if got, err := InJSON(text); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"ab {{": "at offset 3: {{ without }}", "{{ 5 }}": "at offset 3: a number by itself", strings.Repeat("x", MaxText+1): "too long"} {
		if _, err := InJSON(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func TestInJSONIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.Just("{{ a }}"), rapid.StringMatching(`[^{]*`)), 0, 5).Draw(t, "pieces")
		text := strings.Join(pieces, "")
		inside, err := InJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		said := func(text string) []byte {
			scope := &names{texts: map[string]string{"a": value}, varies: "a"}
			compiled, _, faults := Compile(text, scope)
			if len(faults) > 0 {
				t.Fatalf("%q: %+v", text, faults)
			}
			return compiled.Append(nil, scope.state())
		}
		var got string
		if err := json.Unmarshal(said(`"`+inside+`"`), &got); err != nil {
			t.Fatalf("%q: %v", inside, err)
		}
		if want := strings.ToValidUTF8(string(said(text)), "\uFFFD"); strings.ToValidUTF8(got, "\uFFFD") != want && utf8.ValidString(string(said(text))) {
			t.Fatalf("%q became %q", want, got)
		}
	})
}
