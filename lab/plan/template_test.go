package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/nearest"
	"dyno/load/scenario"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"port": "80", "echo.addr": "127.0.0.1:7", "loop": "{{port}}"}
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain }}", "plain }}"},
		{"{{port}}", "80"},
		{"a{{ port }}b{{echo.addr}}", "a80b127.0.0.1:7"},
		{"{{loop}}", "{{port}}"},
		{`{{ "{{" }}none}} {{"{{"}}{{ '{{' }}{{port}}`, "{{none}} {{{{80"},
	} {
		if got, err := Expand(c.in, vars); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"{{", "{{}}", "{{port", "{{none}}", "{{echo.x}}", "{{.port}}", "{{1a}}", "{{-}}", "{{a.port.b}}", "{{a b}}", `{{ "{{" `, `{{ "{{' }}`, strings.Repeat("{{big}}", 1100)} {
		big := map[string]string{"big": strings.Repeat("x", 1000)}
		if got, err := Expand(bad, big); err == nil || got != "" {
			t.Errorf("%q: %q, want an error", nearest.Clip(bad), nearest.Clip(got))
		}
	}
	if _, err := Expand("{{none}}", vars); err == nil || !strings.Contains(err.Error(), `write {{ "{{" }} for the braces themselves`) {
		t.Errorf("%v", err)
	}
}

// Braces that are no template are written as one that says them.
func TestQuote(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{`{"a":"}}"}`, `{"a":"}}"}`},
		{"{{name}} {{ #if x }}{{", "{{name}} {{ #if x }}{{"},
		{`{{ "{{" }}`, `{{ "{{" }}`},
		{"{{{port}}}", "{{{port}}}"},
		{"{{port}} {{ port }} {{port.x}}", "80 80 {{port.x}}"},
	} {
		quoted := Quote(c.text, "port")
		if got, err := Expand(quoted, map[string]string{"port": "80"}); err != nil || got != c.want {
			t.Errorf("%q became %q, and that %q, %v; want %q", c.text, quoted, got, err, c.want)
		}
		if got, err := Expand(Quote(c.text), nil); err != nil || got != c.text {
			t.Errorf("%q became %q, %v", c.text, got, err)
		}
	}
}

// Run-time variables are filled in again for each trial, and never in the plan.
func TestFillVariables(t *testing.T) {
	v := DefaultVariant(HTTP)
	v.Target.Address, v.Target.URL, v.Target.Pprof = "127.0.0.1:{{port}}", "http://127.0.0.1:{{port}}/", "http://127.0.0.1:{{admin}}/p"
	v.Load.Request.Path, v.Load.Request.Body = "/{{echo.port}}", "{{port}}"
	v.Load.Request.Headers = []scenario.Header{{Name: "X", Value: "{{echo.addr}}"}}
	v.Observe = Observe{
		Runtime: "http://127.0.0.1:{{admin}}/metrics", Endpoints: []Endpoint{{URL: "http://{{echo.addr}}/"}},
		Commands: []Command{{Run: []string{"ask", "{{port}}"}}},
	}
	original := *v.Load.Request
	filled := v
	err := filled.Fill(map[string]string{"port": "80", "admin": "81", "echo.port": "82", "echo.addr": "127.0.0.1:82"})
	if err != nil {
		t.Fatal(err)
	}
	want := Request{Path: "/82", Body: "80", Headers: []scenario.Header{{Name: "X", Value: "127.0.0.1:82"}}}
	if diff := cmp.Diff(want, *filled.Load.Request); diff != "" {
		t.Error(diff)
	}
	if filled.Target.Address != "127.0.0.1:80" || filled.Target.URL != "http://127.0.0.1:80/" || filled.Target.Pprof != "http://127.0.0.1:81/p" {
		t.Errorf("%+v", filled.Target)
	}
	if o := filled.Observe; o.Runtime != "http://127.0.0.1:81/metrics" || o.Endpoints[0].URL != "http://127.0.0.1:82/" || o.Commands[0].Run[1] != "80" {
		t.Errorf("%+v", o)
	}
	if o := v.Observe; o.Endpoints[0].URL != "http://{{echo.addr}}/" || o.Commands[0].Run[1] != "{{port}}" {
		t.Errorf("the plan was changed: %+v", o)
	}
	// The plan is used again in the next round, with other ports.
	if v.Load.Request.Path != original.Path || v.Load.Request.Headers[0].Value != "{{echo.addr}}" {
		t.Errorf("the plan was changed: %+v", v.Load.Request)
	}
	if err := v.Fill(nil); err == nil || !strings.Contains(err.Error(), "variant default") {
		t.Errorf("%v, want an error that names the variant", err)
	}
}
