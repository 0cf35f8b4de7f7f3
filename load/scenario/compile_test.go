package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/load/feed"
	"dyno/load/pace"
)

// table opens a new file of rows.
func table(tb testing.TB, name, text string) *feed.Table {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	t, err := feed.Open(path, feed.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := t.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

// extract is an extraction of JSON.
func extract(name, path string) []Extraction {
	return []Extraction{{Name: name, From: JSON, Of: path}}
}

func TestFaults(t *testing.T) {
	users := table(t, "users.csv", "email,pass word,id\na@b.c,x,1\n")
	items := table(t, "items.csv", "id,title\n1,x\n")
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
		{"steps and flows", Spec{Steps: step(Step{}), Flows: []Flow{{Name: "a", Steps: step(Step{Name: "b"})}}}, []string{
			"flows: given together with steps; want either",
		}},
		{"flows", Spec{Flows: []Flow{{Weight: -1}, {Name: "a", Weight: MaxWeight + 1, Steps: step(Step{})}, {Name: "a", Steps: step(Step{})}}}, []string{
			`flows[0].name: ""; want a name that no other flow has`,
			"flows[0].steps: none given",
			`flows[2].name: "a"`,
			`flows[2].steps[0].name: "s" is taken; want a name that no other step has`,
			"flows[0].weight: -1; want 1 to 1000000",
			"flows[1].weight: 1000001",
		}},
		{"names of steps", Spec{Steps: []Step{{Path: "/"}, {Name: "a", Path: "/"}, {Name: "a", Path: "/"}}}, []string{
			"steps[0].name: none given; want one, as results are told by it",
			`steps[2].name: "a" is taken`,
		}},
		{"variables", Spec{Variables: []Variable{{"a b", ""}, {"a", ""}, {"a", ""}}, Steps: step(Step{})}, []string{
			`variables[0]: name "a b"; want a letter or _, then letters, digits, _, - and .`,
			`variables[2]: "a" is given twice; want each once`,
		}},
		{"references", Spec{
			Variables: []Variable{{"base", "/x"}},
			Feeds:     []Feed{{Name: "users", Table: users}},
			Steps: step(Step{
				Path:   "/{{ emial }}/{{ base }}",
				Header: []Field{{"A", "ok"}, {"B", "x {{ uuid }} {{ zzzzzz }}"}},
				Body:   `{{ column("pass wrd") }}{{ base() }}{{ urlencod(email) }}{{ zzzzzz() }}`,
			}),
		}, []string{
			`steps[0].path: at offset 4: no variable "emial"; did you mean "email"?`,
			`steps[0].header[1].value: at offset 5: "uuid" is a function; want it as in uuid()`,
			`steps[0].header[1].value: at offset 16: no variable "zzzzzz"; known here: base, email, id, pass word; write {{ "{{" }} for the braces themselves`,
			`steps[0].body: at offset 10: no variable "pass wrd"; did you mean "pass word"?`,
			`steps[0].body: at offset 27: "base" is a variable; want it without parentheses: {{ base }}`,
			`steps[0].body: at offset 39: no function "urlencod"; did you mean "urlencode"?`,
			`steps[0].body: at offset 60: no function "zzzzzz"; known here: base64, base64url, column`,
		}},
		{"arguments", Spec{
			Variables: []Variable{{"a", ""}},
			Steps: step(Step{Body: `{{ uuid(1) }}{{ random_int(5) }}{{ random_int(5, 1) }}{{ random_int("1", a) }}{{ random_string(0) }}{{ random_string(65537, "") }}` +
				`{{ timestamp("min") }}{{ timestamp(5) }}{{ path_entropy(65) }}{{ counter(a) }}{{ column(a) }}{{ base64() }}`}),
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
			"argument 1 of path_entropy: 65; want 1 to 64",
			"argument 1 of counter: want a string in quotes",
			"argument 1 of column: want a string in quotes",
			"base64 with 0 arguments",
		}},
		{"syntax", Spec{Steps: step(Step{Path: "/{{", Body: "{{ a b }}", Header: []Field{{"A", "{{ }}"}}})}, []string{
			"steps[0].path: at offset 1: {{ without }}",
			"steps[0].header[0].value: at offset 3: '}' where an expression is wanted",
			"steps[0].body: at offset 5: 'b' where }} is wanted",
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
			{Name: "list", Path: "/", Extract: []Extraction{{Name: "id", From: JSON, Of: "$.id", Otherwise: Keep}}},
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
		}}, []string{`flows[1].steps[0].path: at offset 4: variable "id" is set in another flow only, by step "list"`}},
		{"weights", Spec{Steps: []Step{
			{Name: "a", Once: true, Weight: 2, Path: "/"},
			{Name: "b", Weight: 3, Path: "/"},
			{Name: "c", Path: "/"},
			{Name: "d", Weight: -1, Path: "/"},
		}}, []string{
			"steps[0].weight: given to a step that is carried out once or in turn; leave it out",
			"steps[2].weight: none, but others have one; want one for each step that is not carried out once",
			"steps[3].weight: -1; want 1 to 1000000",
		}},
		{"in turn", Spec{InTurn: true, Steps: []Step{
			{Name: "a", Weight: 2, Path: "/{{ id }}"},
			{Name: "b", Path: "/", Extract: extract("id", "$.id")},
		}}, []string{
			"steps[0].weight: given to a step that is carried out once or in turn; leave it out",
			`steps[0].path: at offset 4: variable "id" is set by step "b", which need not come before this one, as an iteration is only one of the steps`,
		}},
		{"feeds", Spec{
			Variables: []Variable{{"email", "x"}},
			Feeds:     []Feed{{Name: "users", Table: users}, {Name: "users", Table: items, Per: 9}, {Name: "9"}},
			Steps:     step(Step{}),
		}, []string{
			"feeds[0]: column \"email\" of ",
			`feeds[1].name: "users" is taken; want another`,
			"feeds[1].per: 9; want PerNeed, PerIteration or PerUser",
			`feeds[2].name: "9"; want a letter`,
			"feeds[2].table: none given; want an open table",
		}},
		{"columns of several feeds", Spec{
			Feeds: []Feed{{Name: "users", Table: users}, {Name: "items", Table: items}, {Name: "more", Table: items}},
			Steps: step(Step{Body: "{{ id }}{{ users.id }}{{ items.id }}{{ more.title }}{{ users.email }}{{ email }}{{ title }}"}),
		}, []string{
			`steps[0].body: at offset 3: "id" is a column of several feeds; want one of users.id, items.id, more.id`,
			`"title" is a column of several feeds; want one of items.title, more.title`,
		}},
		{"rows per iteration for what is done once", Spec{
			Feeds: []Feed{{Name: "users", Table: users, Per: PerIteration}},
			Steps: step(Step{Once: true, Body: "{{ email }}"}),
		}, []string{`steps[0].body: at offset 3: "email" is of a feed with a row per iteration, and the step is carried out once; want a row per user`}},
		{"extractions", Spec{
			Feeds: []Feed{{Name: "users", Table: users}},
			Steps: step(Step{Extract: []Extraction{
				{Name: "email", From: JSON, Of: "$.x"},
				{Name: "a b", From: JSON, Of: "$..x"},
				{Name: "a", From: Header, Of: "X Y"},
				{Name: "b", From: Body, Pattern: "a(b"},
				{Name: "c", From: Body, Pattern: "a(b)", Group: 2},
				{Name: "d", From: Body, Of: "x", Group: -1},
				{Name: "e", From: Body, Pattern: strings.Repeat("x", MaxExpression+1)},
				{Name: "f", From: Body, Pattern: "((a{100}){100}){100}"},
				{Name: "g", From: Body, Pattern: strings.Repeat("a{1000}", 11)},
				{Name: "h", From: JSON, Of: "$.x", Group: 1, Otherwise: 9, Default: "x"},
				{Name: "i", From: 9, Of: "$.x", Otherwise: Keep, Default: "x"},
			}}),
		}, []string{
			`steps[0].extract[0].name: "email" is a column of`,
			`steps[0].extract[1].name: "a b"; want a letter`,
			"steps[0].extract[1].of: at offset 1: JSON path: .. selects several values; want a path to one value",
			`steps[0].extract[2].of: header field "X Y"; want a name such as Location`,
			"steps[0].extract[3].pattern: at offset 0: missing closing ): \"a(b\"; want a regular expression (RE2), without look-around",
			"steps[0].extract[4].group: 2, and the expression has 1; want one of its groups, from 1",
			`steps[0].extract[5].of: "x", of the body; leave it out`,
			"steps[0].extract[5].group: -1; want one of the pattern's groups, from 1",
			"steps[0].extract[6].pattern: an expression of 4097 bytes; want at most 4096",
			"steps[0].extract[7].pattern: at offset 3: invalid repeat count: \"{100}\"",
			"steps[0].extract[8].pattern: an expression that is too large; want one of at most 10000 instructions",
			"steps[0].extract[9].group: 1; want it with a pattern only",
			"steps[0].extract[9].otherwise: 9; want Fail, Keep or UseDefault",
			"steps[0].extract[10].of: part 9 of the response; want Body, Header, JSON or Trailer",
			"steps[0].extract[10].default: given, and not used; leave it out, or have it used",
		}},
		{"assertions", Spec{
			Steps: step(Step{
				Status: []StatusRange{{200, 299}, {500, 400}, {99, 100}},
				Assert: []Assertion{
					{Of: Header, Name: "", Is: Exists},
					{Of: JSON, Name: "a", Is: Exists},
					{Of: Body, Is: Exists},
					{Of: Body, Name: "x", Is: Contains},
					{Of: Body, Is: Equals, Value: "{{ uuid() }}"},
					{Of: Body, Is: Equals, Value: "{{ nothing }}"},
					{Of: Body, Is: Matches, Value: "(?<=a)b"},
					{Of: JSON, Name: "$", Is: Exists, Value: "x"},
					{Of: 9, Is: 9},
				},
			}),
		}, []string{
			"steps[0].status[1]: 500-400; want statuses from 100 to 999, the lower one first",
			"steps[0].status[2]: 99-100",
			`steps[0].assert[0].name: header field ""`,
			"steps[0].assert[1].name: at offset 0: JSON path: a path begins with $",
			"steps[0].assert[2].is: a body exists always; want Equals, Contains or Matches",
			`steps[0].assert[3].name: "x", of the body; leave it out`,
			"steps[0].assert[3].value: nothing; want what must be contained",
			"steps[0].assert[4].value: a function that says something else each time; want variables only",
			`steps[0].assert[5].value: at offset 3: no variable "nothing"`,
			"steps[0].assert[6].value: at offset 0: invalid named capture: \"(?<=a)b\"; want a regular expression (RE2), without look-around",
			`steps[0].assert[7].value: "x", which exists does not use`,
			"steps[0].assert[8].name: part 9 of the response",
			"steps[0].assert[8].is: comparison 9; want Equals",
		}},
		{"requests", Spec{
			Variables: []Variable{{"empty", ""}},
			Cookies:   true, Host: "h",
			Steps: []Step{
				{Name: "a", Method: "GE T", Path: "x", Header: []Field{{"a b", ""}, {"Cookie", "x"}, {"A", "x\ny"}}, MaxBody: -1},
				{Name: "b", Path: "/a b", Header: []Field{{"A", " x"}, {"B", "{{ empty }}y {{ counter() }}\t"}, {"C", " {{ counter() }}"}}},
				{Name: "c", Path: "{{ empty }}"},
				{Name: "d", Path: "{{ counter() }}"},
				{Name: "e", MaxBody: MaxBody + 1, Think: pace.Think{Mean: -time.Second, Max: 1}},
				{Name: "f", Path: "/", Header: []Field{{"Accept-Encoding", "gzip"}}, Extract: extract("x", "$")},
			},
		}, []string{
			`steps[0].method: "GE T"; want a token such as GET`,
			"steps[0].path: it does not begin with /; want / at the beginning",
			`steps[0].header[0].name: "a b"; want a token such as Content-Type`,
			"steps[0].header[1].name: Cookie is given, and cookies are kept by themselves",
			"steps[0].header[2].value: a line end or another control character",
			"steps[0].max_body: -1; want 1 to 67108864 bytes",
			`steps[1].path: "/a b" holds a character that must be percent-encoded; want no blanks`,
			`steps[1].header[0].value: " x" begins or ends with a blank; leave it out`,
			`steps[1].header[1].value: "\t" begins or ends with a blank`,
			`steps[1].header[2].value: " " begins or ends with a blank`,
			"steps[2].path: it is empty; want one that begins with /",
			"steps[3].path: it does not begin with /",
			"steps[4].path: it is empty",
			"steps[4].think: mean: -1s, want 0 to 24h0m0s",
			"steps[4].think: max: 1ns, but constant think time does not use it",
			"steps[4].max_body: 67108865",
			"steps[5].header[0]: Accept-Encoding is given, and the step looks into the body, which is not decoded; want identity",
		}},
		{"bodies alone", Spec{BodyOnly: true, Cookies: true, Steps: []Step{{
			Name: "a", Method: "GET", Path: "/", Header: []Field{{"A", "b"}}, Status: []StatusRange{{200, 200}},
			Assert: []Assertion{{Of: Header, Name: "A", Is: Exists}},
		}}}, []string{
			"host: none given; want the host of the requests, as cookies belong to it",
			"cookies: there is no header",
			"steps[0].method: given; want the body only, as the protocol has nothing else",
			"steps[0].path: given", "steps[0].header: given", "steps[0].status: given",
			"steps[0].assert[0].name: there is no header",
		}},
		{"too much", Spec{
			Variables: make([]Variable, MaxList+1), Feeds: make([]Feed, MaxFeeds+1), Steps: make([]Step, MaxSteps+1),
		}, []string{
			"variables: 1001 entries; want at most 1000", "feeds: 17 entries; want at most 16", "steps: 1001 in all, in 0 flows; want at most 1000 steps",
		}},
		{"too much in a step", Spec{Steps: step(Step{
			Header: make([]Field, MaxList+1), Assert: make([]Assertion, MaxList+1), Status: make([]StatusRange, MaxList+1),
		})}, []string{
			"steps[0].header: 1001 entries", "steps[0].status: 1001 entries", "steps[0].assert: 1001 entries",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(tt.spec)
			if err == nil {
				if len(tt.want) > 0 {
					t.Fatal("no error")
				}
				return
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
	_, err := Compile(Spec{Steps: make([]Step, 300)})
	got := strings.Split(err.Error(), "\n")
	if len(got) != maxFaults+1 || got[maxFaults] != "and 500 more" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestSteps(t *testing.T) {
	s := mustCompile(t, Spec{
		Cookies: true, Host: "h",
		Flows: []Flow{
			{Name: "a", Steps: []Step{{Name: "login", Once: true, Path: "/", Body: "x", Extract: extract("t", "$.t"), MaxBody: 10}, {Name: "get", Path: "/{{ t }}"}}},
			{Name: "b", Steps: []Step{{Name: "put", Method: "PUT", Path: "/", Assert: []Assertion{
				{Of: Header, Name: "ETag", Is: Exists}, {Of: Header, Name: "etag", Is: Matches, Value: "x"}, {Of: Body, Is: Contains, Value: "y"},
			}}}},
		},
	})
	want := []Info{
		{Name: "login", Once: true, Method: "POST", WantsBody: true, MaxBody: 10},
		{Name: "get", Method: "GET", MaxBody: DefaultMaxBody},
		{Name: "put", Method: "PUT", WantsBody: true, MaxBody: DefaultMaxBody},
	}
	if got := s.Steps(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := s.HeaderNames(), []string{"set-cookie", "etag"}; !slices.Equal(got, want) {
		t.Errorf("header fields %q, want %q", got, want)
	}
}

// An outline has what is the same each time, and says where the parts go.
func TestOutlines(t *testing.T) {
	spec := Spec{
		Variables: []Variable{{"base", "/v1"}, {"v", "x"}},
		Steps: []Step{
			{Name: "fixed", Path: "{{ base }}/a", Header: []Field{{"A", "{{ base }}!"}, {"B", ""}}, Body: "{{ 'b' }}{{ base }}"},
			{Name: "varies", Path: "/{{ v }}", Header: []Field{{"A", "1"}, {"B", "{{ counter() }}"}, {"C", "{{ v }}"}}, Body: "{{ uuid() }}", Extract: extract("v", "$")},
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

	spec.Cookies, spec.Host = true, "h"
	cookie := func(o Outline) Outline {
		o.Header = slices.Concat(o.Header, []OutlineField{{Name: "Cookie", Varies: true}})
		return o
	}
	check(mustCompile(t, spec), []Outline{fixed, cookie(fixed), varies, cookie(varies)})

	check(mustCompile(t, Spec{BodyOnly: true, Steps: []Step{{Name: "a", Body: "x"}, {Name: "b", Body: "{{ counter() }}"}}}),
		[]Outline{{Step: 0, Body: "x"}, {Step: 1, VariesBody: true}})
}

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []StatusRange
	}{
		{"200", []StatusRange{{200, 200}}},
		{"200, 300-304 ,5xx", []StatusRange{{200, 200}, {300, 304}, {500, 599}}},
		{"100-999", []StatusRange{{100, 999}}},
	} {
		got, err := ParseStatus(tt.text)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v; want %v", tt.text, got, err, tt.want)
		}
		var texts []string
		for _, r := range got {
			texts = append(texts, r.String())
		}
		if again, err := ParseStatus(strings.Join(texts, ",")); err != nil || !slices.Equal(again, got) {
			t.Errorf("%v read again: %v, %v", texts, again, err)
		}
	}
	for _, text := range []string{"", "x", "200,", "99", "1000", "300-200", "xx", "0xx", "20x", "200-", "-200"} {
		if got, err := ParseStatus(text); err == nil || !strings.Contains(err.Error(), "want statuses from 100 to 999, such as 200, 204, 300-304 or 5xx") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
