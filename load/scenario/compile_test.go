package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// rows writes a new file of rows.
func rows(tb testing.TB, name, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// extract is an extraction of JSON.
func extract(name, path string) []Extraction {
	return []Extraction{{Variable: name, JSON: path}}
}

func TestFaults(t *testing.T) {
	users := rows(t, "users.csv", "email,pass word,id\na@b.c,x,1\n")
	items := rows(t, "items.csv", "id,title\n1,x\n")
	step := func(s Step) []Step {
		if s.Name == "" {
			s.Name = "s"
		}
		if s.Path == "" {
			s.Path = "/"
		}
		return []Step{s}
	}
	for _, tt := range []struct {
		name string
		spec Spec
		want []string
	}{
		{"nothing", Spec{}, []string{"steps: none given; want at least one"}},
		{"names of steps", Spec{Flows: []Flow{{Name: "a", Steps: step(Step{})}, {Name: "b", Steps: step(Step{})}}}, []string{
			`flows.b.steps[0].name: "s" is taken; want a name that no other step has`,
		}},
		{"references", Spec{
			Variables: map[string]string{"base": "/x"},
			Data:      []Data{{Name: "users", File: users}},
			Steps: step(Step{
				Path:    "/{{ emial }}/{{ base }}",
				Headers: []Header{{"A", "ok"}, {"B", "x {{ uuid }} {{ zzzzzz }}"}},
				Body:    `{{ column("pass wrd") }}{{ base() }}{{ urlencod(email) }}{{ zzzzzz() }}`,
			}),
		}, []string{
			`steps[0].path: at offset 4: no variable "emial"; did you mean "email"?`,
			`steps[0].headers.B: at offset 5: "uuid" is a function; want it as in uuid()`,
			`steps[0].headers.B: at offset 16: no variable "zzzzzz"; known here: base, email, id, pass word; write {{ "{{" }} for the braces themselves`,
			`steps[0].body: at offset 10: no variable "pass wrd"; did you mean "pass word"?`,
			`steps[0].body: at offset 27: "base" is a variable; want it without parentheses: {{ base }}`,
			`steps[0].body: at offset 39: no function "urlencod"; did you mean "urlencode"?`,
			`steps[0].body: at offset 60: no function "zzzzzz"; known here: base64, base64url, column`,
		}},
		{"arguments", Spec{
			Variables: map[string]string{"a": ""},
			Steps: step(Step{Body: `{{ uuid(1) }}{{ random_int(5) }}{{ random_int(5, 1) }}{{ random_int("1", a) }}{{ random_string(0) }}{{ random_string(65537, "") }}` +
				`{{ timestamp("min") }}{{ timestamp(5) }}{{ counter(a) }}{{ column(a) }}{{ base64() }}`}),
		}, []string{
			"steps[0].body: at offset 3: uuid with 1 arguments; want it as in uuid()",
			"at offset 16: random_int with 1 arguments; want it as in random_int(1, 100)",
			"at offset 35: random_int from 5 to 1; want the smaller number first",
			`at offset 68: argument 1 of random_int: want a number; as in random_int(1, 100)`,
			`at offset 73: argument 2 of random_int: want a number`,
			"argument 1 of random_string: 0; want 1 to 65536",
			"argument 1 of random_string: 65537; want 1 to 65536",
			"no characters to choose from; want at least one",
			`no unit "min" of time; known here: s, ms, us, ns, rfc3339`,
			"argument 1 of timestamp: want a string in quotes",
			"argument 1 of counter: want a string in quotes",
			"argument 1 of column: want a string in quotes",
			"base64 with 0 arguments",
		}},
		{"order of steps", Spec{Steps: []Step{
			{Name: "list", Path: "/{{ token }}", Extract: extract("id", "$.id")},
			{Name: "own", Path: "/{{ own }}", Extract: extract("own", "$.own")},
			{Name: "post", Path: "/{{ id }}", Extract: extract("token", "$.t")},
		}}, []string{
			`steps[0].path: at offset 4: variable "token" is set only by a later step, "post"; set it in an earlier step, or give it a first value: variables: {token: ...}`,
			`steps[1].path: at offset 4: variable "own" is set only by the response to this very step`,
		}},
		{"once comes before", Spec{Steps: []Step{
			{Name: "list", Path: "/{{ token }}", Extract: extract("id", "$.id")},
			{Name: "login", Once: true, Path: "/{{ id }}", Extract: extract("token", "$.t")},
		}}, []string{`steps[1].path: at offset 4: variable "id" is set only by a later step, "list"`}},
		{"keep without a value", Spec{Steps: []Step{
			{Name: "list", Path: "/", Extract: []Extraction{{Variable: "id", JSON: "$.id", Keep: true}}},
			{Name: "post", Path: "/{{ id }}"},
		}}, []string{`steps[1].path: at offset 4: variable "id" may have no value: step "list" keeps the earlier one when it finds nothing, and there is none`}},
		{"drawn by weight", Spec{Steps: []Step{
			{Name: "post", Weight: 1, Path: "/{{ id }}"},
			{Name: "list", Weight: 1, Path: "/", Extract: extract("id", "$.id")},
			{Name: "more", Weight: 1, Path: "/{{ id }}"},
		}}, []string{
			`steps[0].path: at offset 4: variable "id" is set by step "list", which need not come before this one, as an iteration is only one of the steps`,
			`steps[2].path: at offset 4: variable "id" is set by step "list", which need not`,
		}},
		{"another flow", Spec{Flows: []Flow{
			{Name: "a", Steps: []Step{{Name: "list", Path: "/", Extract: extract("id", "$.id")}}},
			{Name: "b", Steps: []Step{{Name: "post", Path: "/{{ id }}"}}},
		}}, []string{`flows.b.steps[0].path: at offset 4: variable "id" is set in another flow only, by step "list"`}},
		{"weights", Spec{Steps: []Step{
			{Name: "a", Once: true, Weight: 2, Path: "/"},
			{Name: "b", Weight: 3, Path: "/"},
			{Name: "c", Path: "/"},
		}}, []string{
			"steps[0].weight: given to a step that is carried out once or in turn; leave it out",
			"steps[2].weight: none, but others have one; want one for each step that is not carried out once",
		}},
		{"in turn", Spec{InTurn: true, Steps: []Step{
			{Name: "a", Weight: 2, Path: "/{{ id }}"},
			{Name: "b", Path: "/", Extract: extract("id", "$.id")},
		}}, []string{
			"steps[0].weight: given to a step that is carried out once or in turn; leave it out",
			`steps[0].path: at offset 4: variable "id" is set by step "b", which need not come before this one, as an iteration is only one of the steps`,
		}},
		{"feeds", Spec{
			Variables: map[string]string{"email": "x"},
			Data:      []Data{{Name: "users", File: users}},
			Steps:     step(Step{}),
		}, []string{"data.users: column \"email\" of "}},
		{"columns of several feeds", Spec{
			Data:  []Data{{Name: "users", File: users}, {Name: "items", File: items}, {Name: "more", File: items}},
			Steps: step(Step{Body: "{{ id }}{{ users.id }}{{ items.id }}{{ more.title }}{{ users.email }}{{ email }}{{ title }}"}),
		}, []string{
			`steps[0].body: at offset 3: "id" is a column of several feeds; want one of users.id, items.id, more.id`,
			`"title" is a column of several feeds; want one of items.title, more.title`,
		}},
		{"rows per iteration for what is done once", Spec{
			Data:  []Data{{Name: "users", File: users, Per: "iteration"}},
			Steps: step(Step{Once: true, Body: "{{ email }}"}),
		}, []string{`steps[0].body: at offset 3: "email" is of a feed with a row per iteration, and the step is carried out once; want a row per user`}},
		{"extractions", Spec{
			Data: []Data{{Name: "users", File: users}},
			Steps: step(Step{Extract: []Extraction{
				{Variable: "email", JSON: "$.x"},
				{Variable: "a", JSON: "$..x"},
				{Variable: "b", Pattern: "a(b"},
				{Variable: "c", Pattern: "a(b)", Group: 2},
				{Variable: "d", Pattern: strings.Repeat("x", MaxExpression+1)},
				{Variable: "e", Pattern: strings.Repeat("a{1000}", 11)},
				{Variable: "f", JSON: "$.x", Group: 1},
			}}),
		}, []string{
			`steps[0].extract.email: "email" is a column of`,
			"steps[0].extract.a.json: at offset 1: JSON path: .. selects several values; want a path to one value",
			"steps[0].extract.b.pattern: at offset 0: missing closing ): \"a(b\"; want a regular expression (RE2), without look-around",
			"steps[0].extract.c.group: 2, and the expression has 1; want one of its groups, from 1",
			"steps[0].extract.d.pattern: an expression of 4097 bytes; want at most 4096",
			"steps[0].extract.e.pattern: an expression that is too large; want one of at most 10000 instructions",
			"steps[0].extract.f.group: 1; want it with a pattern only",
		}},
		{"assertions", Spec{
			Steps: step(Step{
				Assert: []Assertion{
					{JSON: "a", Exists: true},
					{Exists: true},
					{Equals: new("{{ uuid() }}")},
					{Equals: new("{{ nothing }}")},
					{Matches: "(?<=a)b"},
				},
			}),
		}, []string{
			"steps[0].assert[0].json: at offset 0: JSON path: a path begins with $",
			"steps[0].assert[1]: a body exists always; want equals, contains or matches",
			"steps[0].assert[2].equals: a function that says something else each time; want variables only",
			`steps[0].assert[3].equals: at offset 3: no variable "nothing"`,
			"steps[0].assert[4].matches: at offset 0: invalid named capture: \"(?<=a)b\"; want a regular expression (RE2), without look-around",
		}},
		{"requests", Spec{
			Variables: map[string]string{"empty": ""},
			Cookies:   true,
			Steps: []Step{
				{Name: "a", Method: "GE T", Path: "x", Headers: []Header{{"Cookie", "x"}, {"A", "x\ny"}}},
				{Name: "b", Path: "/a b", Headers: []Header{{"A", " x"}, {"B", "{{ empty }}y {{ counter() }}\t"}, {"C", " {{ counter() }}"}}},
				{Name: "c", Path: "{{ empty }}"},
				{Name: "d", Path: "{{ counter() }}"},
				{Name: "e", Path: "/", Headers: []Header{{"Accept-Encoding", "gzip;q=1.0, DEFLATE, br,x-gzip , zstd, identity, *;q=0"}, {"accept-encoding", "br, compress;q=0.5"}}, Extract: extract("x", "$")},
				{Name: "f", Path: "/", Headers: []Header{{"Accept-Encoding", "compress"}}},
			},
		}, []string{
			`steps[0].method: "GE T"; want a token such as GET`,
			"steps[0].path: it does not begin with /; want / at the beginning",
			"steps[0].headers.Cookie: Cookie is given, and cookies are kept by themselves",
			"steps[0].headers.A: a line end or another control character",
			`steps[1].path: "/a b" holds a character that must be percent-encoded; want no blanks`,
			`steps[1].headers.A: " x" begins or ends with a blank; leave it out`,
			`steps[1].headers.B: "\t" begins or ends with a blank`,
			`steps[1].headers.C: " " begins or ends with a blank`,
			"steps[2].path: it is empty; want one that begins with /",
			"steps[3].path: it does not begin with /",
			`steps[4].headers.accept-encoding: Accept-Encoding offers "compress", and the step looks into the body; want gzip, deflate, br, zstd or identity`,
		}},
		{"too much", Spec{Steps: make([]Step, MaxSteps+1)}, []string{"steps: 1001 in all, in 0 flows; want at most 1000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compileFor(t, tt.spec, Protocol{Host: "h"})
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(strings.TrimPrefix(err.Error(), "scenario: "), "\n")
			if len(got) != len(tt.want) {
				t.Errorf("%d faults, want %d:\n%v", len(got), len(tt.want), err)
			}
			for i := range min(len(got), len(tt.want)) {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("fault %q, want %q", got[i], tt.want[i])
				}
			}
			if f := (*Fault)(nil); !errors.As(err, &f) || f.Path == "" {
				t.Errorf("%T, want a Fault with a path", err)
			}
		})
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, err := Compile(&Spec{Steps: make([]Step, 300)}, Protocol{}) // steps without a name or path of their own
	got := strings.Split(err.Error(), "\n")
	if len(got) != maxFaults+1 || got[maxFaults] != "and 499 more" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestSteps(t *testing.T) {
	s := mustCompile(t, Spec{
		Cookies: true,
		Flows: []Flow{
			{Name: "a", Steps: []Step{{Name: "login", Once: true, Path: "/", Body: "x", Extract: extract("t", "$.t"), MaxBody: 10}, {Name: "get", Path: "/{{ t }}"}}},
			{Name: "b", Steps: []Step{{Name: "put", Method: "PUT", Path: "/", Assert: []Assertion{
				{Header: "ETag", Exists: true}, {Header: "etag", Matches: "x"}, {Contains: "y"},
			}}}},
		},
	})
	want := []Info{
		{Name: "login", Path: "flows.a.steps[0]", Once: true, Method: "POST", WantsBody: true, MaxBody: 10},
		{Name: "get", Path: "flows.a.steps[1]", Method: "GET", MaxBody: DefaultMaxBody},
		{Name: "put", Path: "flows.b.steps[0]", Method: "PUT", WantsBody: true, MaxBody: DefaultMaxBody},
	}
	if got := s.Steps(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := s.HeaderNames(), []string{"set-cookie", "etag", "content-encoding"}; !slices.Equal(got, want) {
		t.Errorf("header fields %q, want %q", got, want)
	}
}

// An outline has what is the same each time, and says where the parts go.
func TestOutlines(t *testing.T) {
	spec := Spec{
		Variables: map[string]string{"base": "/v1", "v": "x"},
		Steps: []Step{
			{Name: "fixed", Path: "{{ base }}/a", Headers: []Header{{"A", "{{ base }}!"}, {"B", ""}}, Body: "{{ 'b' }}{{ base }}"},
			{Name: "varies", Path: "/{{ v }}", Headers: []Header{{"A", "1"}, {"B", "{{ counter() }}"}, {"C", "{{ v }}"}}, Body: "{{ uuid() }}", Extract: extract("v", "$")},
		},
	}
	fixed := Outline{Step: 0, Method: "POST", Path: "/v1/a", Header: []OutlineField{{Name: "A", Value: "/v1!"}, {Name: "B"}}, Body: "b/v1"}
	varies := Outline{
		Step: 1, Method: "POST", VariesPath: true, VariesBody: true,
		Header: []OutlineField{{Name: "A", Value: "1"}, {Name: "B", Varies: true}, {Name: "C", Varies: true}},
	}
	check := func(s *Scenario, want []Outline) {
		t.Helper()
		if got := s.Outlines(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	check(mustCompile(t, spec), []Outline{fixed, varies})

	spec.Cookies = true
	cookie := func(o Outline) Outline {
		o.Header = slices.Concat(o.Header, []OutlineField{{Name: "Cookie", Varies: true}})
		return o
	}
	check(mustCompile(t, spec), []Outline{fixed, cookie(fixed), varies, cookie(varies)})

	check(mustCompileFor(t, Spec{Steps: []Step{{Name: "a", Body: "x"}, {Name: "b", Body: "{{ counter() }}"}}}, Protocol{BodyOnly: true}),
		[]Outline{{Step: 0, Body: "x"}, {Step: 1, VariesBody: true}})
}

func TestParseStatus(t *testing.T) {
	const text = "200-299, 404 ,5xx"
	got, err := ParseStatus(text)
	if want := []StatusRange{{200, 299}, {404, 404}, {500, 599}}; err != nil || !slices.Equal(got, want) || got[0].String() != "200-299" || got[1].String() != "404" {
		t.Errorf("%q: %v, %v; want %v", text, got, err, want)
	}
	for _, text := range []string{"", "x", "200,", "99", "1000", "300-200", "xx", "0xx", "20x", "200-", "-200"} {
		if got, err := ParseStatus(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
