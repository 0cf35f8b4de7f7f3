package template

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	golangjwt "github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"dyno/load/pace"
)

// A names is a Scope of variables with texts. One of them varies.
type names struct {
	texts    map[string]string
	varies   string
	counters []string
}

func (n *names) Variable(name string) (Variable, bool) {
	text, found := n.texts[name]
	return Variable{Text: text, Varies: found && name == n.varies}, found
}

func (n *names) Names() []string { return slices.Sorted(maps.Keys(n.texts)) }

func (n *names) Counter(name string) int {
	if i := slices.Index(n.counters, name); i >= 0 {
		return i
	}
	n.counters = append(n.counters, name)
	return len(n.counters) - 1
}

// state returns the state of a user with one value, for the variable that varies.
func (n *names) state() *State {
	return &State{
		Worker: &Worker{Shard: pace.Whole(), Counters: make([]uint64, len(n.counters))},
		RNG:    pace.NewRNG(1, 0), Now: instant, Values: [][]byte{[]byte(n.texts[n.varies])},
	}
}

// say compiles a template and returns what it says to one user, several times in a row.
func say(tb testing.TB, text string, variables map[string]string, n int) (said []string) {
	tb.Helper()
	scope := &names{texts: variables}
	compiled, _, faults := Compile(text, scope)
	if len(faults) > 0 {
		tb.Fatalf("%s: %+v", text, faults)
	}
	state := scope.state()
	for range n {
		said = append(said, string(compiled.Append(nil, state)))
	}
	return said
}

// instant is 2024-02-03T04:05:06.789012345Z.
const instant = 1706933106_789012345

func TestTemplates(t *testing.T) {
	vars := map[string]string{"a": "x y", "b.c-d": "é\"", "empty": ""}
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"plain }}", "plain }}"},
		{"{{a}}{{ b.c-d }}{{empty}}!", "x yé\"!"},
		{`{{ column("b.c-d") }}`, "é\""},
		{`{{ "{{a}}" }}`, "{{a}}"},
		{`{{ base64(a, ":", "p") }}`, base64.StdEncoding.EncodeToString([]byte("x y:p"))},
		{`{{ base64url("\\??>") }}`, base64.RawURLEncoding.EncodeToString([]byte(`\??>`))},
		{`{{ urlencode(b.c-d, "a-._~/ +", 1) }}`, "%C3%A9%22a-._~%2F%20%2B1"},
		{`{{ json_escape(b.c-d, "\\	") }}`, `é\"\\\t`},
		{`{{ formencode("é a+b*~", "c-d._&=", 1) }}`, "%C3%A9+a%2Bb*%7Ec-d._%26%3D1"},
		{`{{ urlencode(base64("é?"), urlencode("&")) }}`, "w6k%2F%2526"},
		{"{{ timestamp() }} {{ timestamp('s') }}", "1706933106 1706933106"},
		{"{{ timestamp('ms') }} {{ timestamp('us') }} {{ timestamp('ns') }}", "1706933106789 1706933106789012 1706933106789012345"},
		{"{{ timestamp('rfc3339') }}", "2024-02-03T04:05:06.789Z"},
		{"{{ timestamp('s', 600) }} {{ timestamp('ms', -1) }} {{ timestamp('rfc3339', 60) }}", "1706933706 1706933106788 2024-02-03T04:06:06.789Z"},
		{"{{ random_int(7, 7) }}{{ random_string(3, 'x') }}{{ random_choice(a) }}", "7xxxx y"},
		{"{{ random_int(-9223372036854775808, -9223372036854775808) }}", "-9223372036854775808"},
	} {
		if got := say(t, tt.text, vars, 1)[0]; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// Another library verifies tokens, and finds the claims in them.
func TestTokens(t *testing.T) {
	vars := map[string]string{"key": "a key of both sides", "name": `a "name"`}
	for _, algorithm := range []string{"HS256", "HS384", "HS512"} {
		text := say(t, `{{ jwt("`+algorithm+`", key, '{"sub":"', json_escape(name), '","exp":', timestamp("s", 600), "}") }}`, vars, 1)[0]
		now := golangjwt.WithTimeFunc(func() time.Time { return time.Unix(0, instant) })
		token, err := golangjwt.Parse(text, func(*golangjwt.Token) (any, error) { return []byte(vars["key"]), nil }, golangjwt.WithValidMethods([]string{algorithm}), now)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		subject, _ := token.Claims.GetSubject()
		expires, err := token.Claims.GetExpirationTime()
		if err != nil || subject != vars["name"] || expires.Unix() != 1706933706 {
			t.Errorf("%s: the claims are %v, %v", algorithm, token.Claims, err)
		}
	}
}

func TestCounters(t *testing.T) {
	got := say(t, `{{ counter() }} {{ counter("a") }} {{ counter() }} {{ counter('') }}`, nil, 2)
	if want := []string{"0 0 1 2", "3 1 4 5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestUUIDs(t *testing.T) {
	for _, tt := range []struct{ text, form string }{
		{"{{uuid()}}", `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
		{"{{uuid7()}}", `^018d6d24-3865-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`}, // 1706933106789 ms
	} {
		form, seen := regexp.MustCompile(tt.form), map[string]bool{}
		for _, id := range say(t, tt.text, nil, 1000) {
			if !form.MatchString(id) || seen[id] {
				t.Fatalf("%s: %s, of another form or the second time", tt.text, id)
			}
			seen[id] = true
		}
	}
	if got := fmt.Sprintf("%012x", instant/int64(time.Millisecond)); got != "018d6d243865" {
		t.Errorf("the test's time is %s", got)
	}
	if got := string(appendUUID(nil, 4, math.MaxUint64, math.MaxUint64)); got != "ffffffff-ffff-4fff-bfff-ffffffffffff" {
		t.Errorf("all ones: %s", got)
	}
}

// Random values stay within their bounds and reach all of them about equally often: chi-squared at the
// 0.1 % level, with a fixed seed.
func TestRandomValues(t *testing.T) {
	const n = 20_000
	for _, tt := range []struct {
		text   string
		values []string
		limit  float64
	}{
		{"{{ random_int(-2, 2) }}", []string{"-2", "-1", "0", "1", "2"}, 18.5},
		{"{{ random_choice('a', 5, x, '') }}", []string{"a", "5", "X", ""}, 16.3},
		{"{{ random_string(1, 'aé😀') }}", []string{"a", "é", "😀"}, 13.8},
		{"{{ random_string(1) }}", strings.Split(alphanumeric, ""), 101},
	} {
		counts := map[string]int{}
		for _, v := range say(t, tt.text, map[string]string{"x": "X"}, n) {
			counts[v]++
		}
		mean, chi := float64(n)/float64(len(tt.values)), 0.0
		for _, v := range tt.values {
			d := float64(counts[v]) - mean
			chi += d * d / mean
			delete(counts, v)
		}
		if len(counts) > 0 || chi > tt.limit {
			t.Errorf("%s: chi-squared %.1f, want at most %.1f; unexpected: %v", tt.text, chi, tt.limit, counts)
		}
	}
	for _, v := range say(t, "{{ random_int(-9223372036854775808, 9223372036854775807) }}", nil, 100) {
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			t.Error(err)
		}
	}
}

// Other decoders return the encoded text.
func TestEncodersAgreeWithOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\x00\x1f\x7f\"\\/\n\r\t &=%+é😀\u2028")))).Draw(t, "text")
		if got, err := url.QueryUnescape(string(appendURL(nil, []byte(text)))); err != nil || got != text {
			t.Fatalf("urlencode of %q says %q, %v", text, got, err)
		}
		if got, err := url.PathUnescape(string(appendURL(nil, []byte(text)))); err != nil || got != text {
			t.Fatalf("urlencode of %q says %q in a path, %v", text, got, err)
		}
		var got string
		if err := json.Unmarshal([]byte(`"`+string(appendJSON(nil, []byte(text)))+`"`), &got); err != nil || got != text {
			t.Fatalf("json_escape of %q says %q, %v", text, got, err)
		}
	})
}

// The descriptions of functions are true: their examples can be used as they stand.
func TestFunctionsAreDescribed(t *testing.T) {
	vars := map[string]string{"name": "n", "user": "u", "password": "p", "secret": "s"}
	for i, f := range Functions() {
		if f.Meaning == "" || i > 0 && Functions()[i-1].Name >= f.Name {
			t.Errorf("%s: want a meaning, and names in order", f.Name)
		}
		for _, call := range strings.Split(f.Example, " or ") {
			if !strings.HasPrefix(call, f.Name+"(") || f.Arguments == "" && call != f.Name+"()" {
				t.Errorf("%s(%s): the example is %s", f.Name, f.Arguments, call)
			}
			if f.Name == "column" {
				call = strings.Replace(call, "any name", "name", 1) // which only a column can have
			}
			if got := say(t, "{{ "+call+" }}", vars, 1)[0]; got == "" {
				t.Errorf("%s says nothing", call)
			}
		}
	}
}
