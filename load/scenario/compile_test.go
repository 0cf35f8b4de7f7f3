package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

// place finds where a fault is: its path, and the offset in a template.
var place = regexp.MustCompile(`^(\S*?): (?:at offset (\d+))?`)

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
		want string // where the faults are, with the offsets in templates
	}{
		{"nothing", Spec{}, "steps"},
		{"names of steps", Spec{Flows: []Flow{{Name: "a", Steps: step(Step{})}, {Name: "b", Steps: step(Step{})}}}, "flows.b.steps[0].name"},
		{"references", Spec{
			Variables: map[string]string{"base": "/x"},
			Data:      []Data{{Name: "users", File: users}},
			Steps: step(Step{
				Path:    "/{{ emial }}/{{ base }}",
				Headers: []Header{{"A", "ok"}, {"B", "x {{ uuid }} {{ zzzzzz }}"}},
				Body:    `{{ column("pass wrd") }}{{ base() }}{{ urlencod(email) }}{{ zzzzzz() }}`,
			}),
		}, "steps[0].path@4 steps[0].headers.B@5 steps[0].headers.B@16 steps[0].body@10 steps[0].body@27 steps[0].body@39 steps[0].body@60"},
		{"arguments", Spec{
			Variables: map[string]string{"a": ""},
			Steps: step(Step{Body: `{{ uuid(1) }}{{ random_int(5) }}{{ random_int(5, 1) }}{{ random_int("1", a) }}{{ random_string(0) }}{{ random_string(65537, "") }}` +
				`{{ timestamp("min") }}{{ timestamp(5) }}{{ counter(a) }}{{ column(a) }}{{ base64() }}`}),
		}, "steps[0].body@3 steps[0].body@16 steps[0].body@35 steps[0].body@68 steps[0].body@73 steps[0].body@95 steps[0].body@117 steps[0].body@124 steps[0].body@143 steps[0].body@165 steps[0].body@181 steps[0].body@196 steps[0].body@204"},
		{"order of steps", Spec{Steps: []Step{
			{Name: "list", Path: "/{{ token }}", Extract: extract("id", "$.id")},
			{Name: "own", Path: "/{{ own }}", Extract: extract("own", "$.own")},
			{Name: "post", Path: "/{{ id }}", Extract: extract("token", "$.t")},
		}}, "steps[0].path@4 steps[1].path@4"},
		{"once comes before", Spec{Steps: []Step{
			{Name: "list", Path: "/{{ token }}", Extract: extract("id", "$.id")},
			{Name: "login", Once: true, Path: "/{{ id }}", Extract: extract("token", "$.t")},
		}}, "steps[1].path@4"},
		{"keep without a value", Spec{Steps: []Step{
			{Name: "list", Path: "/", Extract: []Extraction{{Variable: "id", JSON: "$.id", Keep: true}}},
			{Name: "post", Path: "/{{ id }}"},
		}}, "steps[1].path@4"},
		{"drawn by weight", Spec{Steps: []Step{
			{Name: "post", Weight: 1, Path: "/{{ id }}"},
			{Name: "list", Weight: 1, Path: "/", Extract: extract("id", "$.id")},
			{Name: "more", Weight: 1, Path: "/{{ id }}"},
		}}, "steps[0].path@4 steps[2].path@4"},
		{"another flow", Spec{Flows: []Flow{
			{Name: "a", Steps: []Step{{Name: "list", Path: "/", Extract: extract("id", "$.id")}}},
			{Name: "b", Steps: []Step{{Name: "post", Path: "/{{ id }}"}}},
		}}, "flows.b.steps[0].path@4"},
		{"weights", Spec{Steps: []Step{
			{Name: "a", Once: true, Weight: 2, Path: "/"},
			{Name: "b", Weight: 3, Path: "/"},
			{Name: "c", Path: "/"},
		}}, "steps[0].weight steps[2].weight"},
		{"in turn", Spec{InTurn: true, Steps: []Step{
			{Name: "a", Weight: 2, Path: "/{{ id }}"},
			{Name: "b", Path: "/", Extract: extract("id", "$.id")},
		}}, "steps[0].weight steps[0].path@4"},
		{"feeds", Spec{
			Variables: map[string]string{"email": "x"},
			Data:      []Data{{Name: "users", File: users}},
			Steps:     step(Step{}),
		}, "data.users"},
		{"columns of several feeds", Spec{
			Data:  []Data{{Name: "users", File: users}, {Name: "items", File: items}, {Name: "more", File: items}},
			Steps: step(Step{Body: "{{ id }}{{ users.id }}{{ items.id }}{{ more.title }}{{ users.email }}{{ email }}{{ title }}"}),
		}, "steps[0].body@3 steps[0].body@83"},
		{"rows per iteration for what is done once", Spec{
			Data:  []Data{{Name: "users", File: users, Per: "iteration"}},
			Steps: step(Step{Once: true, Body: "{{ email }}"}),
		}, "steps[0].body@3"},
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
		}, "steps[0].extract.email steps[0].extract.a.json@1 steps[0].extract.b.pattern@0 steps[0].extract.c.group steps[0].extract.d.pattern steps[0].extract.e.pattern steps[0].extract.f.group"},
		{"as JSON", Spec{Steps: step(Step{Extract: []Extraction{{Variable: "a", As: "json"}, {Variable: "b", Header: "X", As: "json"}, {Variable: "c", JSON: "$.c", As: "json"}}})}, "steps[0].extract.a.as steps[0].extract.b.as"},
		{"iterations", Spec{Steps: step(Step{Body: `{{ iteration("any") }}{{ iteration(1) }}{{ user(1) }}`})}, "steps[0].body@13 steps[0].body@35 steps[0].body@43"},
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
		}, "steps[0].assert[0].json@0 steps[0].assert[1] steps[0].assert[2].equals steps[0].assert[3].equals@3 steps[0].assert[4].matches@0"},
		{"requests", Spec{
			Variables: map[string]string{"empty": ""},
			Cookies:   true,
			Steps: []Step{
				{Name: "a", Method: "GE T", Path: "x", Headers: []Header{{"Cookie", "x\ny"}, {"A", "x\ny"}}},
				{Name: "b", Path: "/a b", Headers: []Header{{"A", " x"}, {"B", "{{ empty }}y {{ counter() }}\t"}, {"C", " {{ counter() }}"}}},
				{Name: "c", Path: "{{ empty }}"},
				{Name: "d", Path: "{{ counter() }}"},
				{Name: "e", Path: "/", Headers: []Header{{"Accept-Encoding", "gzip;q=1.0, DEFLATE, br,x-gzip , zstd, identity, *;q=0"}, {"accept-encoding", "br, compress;q=0.5"}}, Extract: extract("x", "$")},
				{Name: "f", Path: "/", Headers: []Header{{"Accept-Encoding", "compress"}}},
			},
		}, "steps[0].method steps[0].path steps[0].headers.Cookie steps[0].headers.A steps[1].path steps[1].headers.A steps[1].headers.B steps[1].headers.C steps[2].path steps[3].path steps[4].headers.accept-encoding"},
		{"too much", Spec{Steps: make([]Step, MaxSteps+1)}, "steps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compileFor(t, tt.spec, Protocol{Host: "h"})
			var places []string
			for _, line := range strings.Split(strings.TrimPrefix(fmt.Sprint(err), "scenario: "), "\n") {
				at := place.FindStringSubmatch(line)
				places = append(places, strings.Trim(at[1]+"@"+at[2], "@"))
			}
			if got := strings.Join(places, " "); got != tt.want {
				t.Errorf("faults at %s\nwant      %s\n%v", got, tt.want, err)
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
