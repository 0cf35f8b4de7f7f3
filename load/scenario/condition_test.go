package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// conditional returns a scenario whose second step has a condition. The first sets x if it can.
func conditional(condition string) Spec {
	return Spec{
		Variables: []Variable{{"n", "10"}, {"status", "vip"}, {"empty", ""}, {"half", "0.5"}, {"big", "1e100"}, {"x", ""}, {"not-a", "b"}},
		Steps: []Step{
			{Name: "first", Path: "/", Extract: []Extraction{{Name: "x", From: JSON, Of: "$.x", Otherwise: Keep}}},
			{Name: "asked", Path: "/", If: condition},
		},
	}
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		condition, x string // x is what the first step finds; "": nothing
		want         bool
	}{
		{`x == "vip"`, `"vip"`, true},
		{`x == 'vip'`, `"no"`, false},
		{`x != "vip"`, `"no"`, true},
		{`x == status`, `"vip"`, true},
		{`x == ""`, "", true},
		{`x == "3"`, "3", true},
		{`x == "3"`, "3.0", false},
		{`x == 3`, "3.0", true},
		{`3==x`, "3.0", true},
		{`x != 3`, `"three"`, true},
		{`x == 3`, `"three"`, false},
		{`x > 3`, "3", false},
		{`x > 3`, "3.01", true},
		{`x >= 3`, "3", true},
		{`x < 3`, "-3", true},
		{`x <= -3.5`, "-3.5e0", true},
		{`x < n`, "9", true}, // not as texts
		{`x < 3`, `"three"`, false},
		{`x >= 0`, `"three"`, false},
		{`x >= 0`, "", false},
		{`x > 0`, `"1_000"`, false},
		{`x > 0`, `"0x10"`, false},
		{`x > 0`, `"+1"`, false},
		{`x > 0`, `"1."`, false},
		{`x > 0`, `"1e"`, false},
		{`x > 0`, `"` + strings.Repeat("1", maxNumber) + `"`, true},
		{`x > 0`, `"` + strings.Repeat("1", maxNumber+1) + `"`, false},
		{`x == big`, `"1e100"`, true},
		{`x > half`, "0.6", true},
		{`defined(x)`, "1", true},
		{`defined(x)`, "", false},
		{`not defined(x)`, "", true},
		{`not not defined(x)`, "1", true},
		{`defined(status) and not defined(empty)`, "", true},
		{`x == 1 or x == 2 and n == 11`, "1", true},
		{`(x == 1 or x == 2) and n == 11`, "1", false},
		{`( x==1 or (x==2) )and n==10`, "2", true},
		{`not (x == 1) and not x == 2`, "3", true},
		{`not x == 1`, "1", false},
		{`column("not-a") == "b"`, "", true},
		{`not-a == "b" and random_int(5, 5) == 5`, "", true},
		{`base64(x) == "eA=="`, `"x"`, true},
	} {
		u := mustCompile(t, conditional(tt.condition)).Worker(whole, 1).User()
		var r Request
		if ok, err := u.Next(0, &r); !ok || err != nil {
			t.Fatal(ok, err)
		}
		body := "{}"
		if tt.x != "" {
			body = `{"x":` + tt.x + `}`
		}
		_ = u.Response(0, answer(200, body))
		if ok, err := u.Next(0, &r); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := !r.Idle; got != tt.want || got == slices.Contains(r.Skipped, 1) {
			t.Errorf("%s with x %s: %v, skipped %v, want %v", tt.condition, tt.x, got, r.Skipped, tt.want)
		}
	}
}

func TestConditionFaults(t *testing.T) {
	deep := strings.Repeat("(", maxNesting+2)
	for _, tt := range []struct{ condition, want string }{
		{`status`, `at offset 6: the end where a comparison is wanted; want ==, !=, <, <=, > or >= and what to compare with, or defined(name)`},
		{`status = "vip"`, `at offset 7: '=' where a comparison is wanted`},
		{`status == `, `at offset 10: the end where an operand is wanted; want a variable, a number or a text in quotes`},
		{`status == "vip" && n > 3`, `at offset 16: '&' where and, or or the end is wanted; want a condition such as`},
		{`{{ status }} == "vip"`, `at offset 0: '{' where an operand is wanted`},
		{`state == "vip"`, `at offset 0: no variable "state"; did you mean "status"?`},
		{`n > "3"`, `at offset 4: a text in quotes, which is compared as a number; leave out the quotes`},
		{`n == 3x`, `at offset 5: "3x" is no number`},
		{`(n == 3`, `at offset 7: the end where ) is wanted`},
		{`not`, `at offset 3: the end where an operand is wanted`},
		{`defined("n")`, `at offset 0: defined without a variable; want it as in defined(token)`},
		{`defined()`, `at offset 0: defined without a variable`},
		{`defined(m)`, `at offset 8: no variable "m"`},
		{`n == random(1)`, `at offset 5: no function "random"`},
		{`status == "vip`, `at offset 10: the quote is never closed`},
		{deep, "at offset 17: conditions nested too deep; want at most 16 levels"},
		{strings.Repeat("not ", maxNesting+2), "at offset 68: conditions nested too deep"},
		{strings.Repeat(" ", MaxExpression+1), "a condition of 4097 bytes; want at most 4096"},
	} {
		_, err := Compile(conditional(tt.condition))
		if err == nil || !strings.Contains(err.Error(), "steps[1].if: "+tt.want) {
			t.Errorf("%s: %v, want %s", tt.condition, err, tt.want)
		}
	}
}

// What a step sets that may be skipped has a value only behind a condition that asks for it.
func TestConditionsAndValues(t *testing.T) {
	spec := func(second, third string) Spec {
		return Spec{Variables: []Variable{{"kind", "a"}}, Steps: []Step{
			{Name: "login", Path: "/login", If: second, Extract: extract("token", "$.token")},
			{Name: "order", Path: "/order/{{ token }}", If: third},
		}}
	}
	for _, condition := range []string{`defined(token)`, `kind == "b" and (defined(token) and token != "-")`, `defined(token) and kind == "a" or token == "b" and defined(token)`} {
		mustCompile(t, spec(`not defined(token)`, condition))
	}
	for _, condition := range []string{``, `kind == "a"`, `not defined(token)`, `defined(token) or kind == "a"`} {
		_, err := Compile(spec(`not defined(token)`, condition))
		if want := `steps[1].path: at offset 10: variable "token" may have no value: step "login", which sets it, may be skipped; ` +
			`set it in an earlier step, or give it a first value: variables: {token: ...}; or ask for it: if: defined(token)`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", condition, err)
		}
	}
	// A user who could not log in goes on, and skips what needs it.
	u := mustCompile(t, spec(`not defined(token)`, `defined(token)`)).Worker(whole, 1).User()
	check(t, turns(t, u, answer(500, ""), answer(200, `{"token":"t"}`), answer(200, ""), answer(200, "")), []string{
		"login", "over [1]", "login", "order", "order [0]", "order [0]",
	})
}

// turns answers a user's requests, and returns what the user did: a step's name or "over", with the
// steps that were skipped before.
func turns(t *testing.T, u *User, answers ...*Response) (did []string) {
	t.Helper()
	names := u.w.s.Steps()
	var r Request
	for i := 0; ; {
		ok, err := u.Next(0, &r)
		if err != nil {
			t.Fatal(err)
		}
		what := "end"
		switch {
		case ok && r.Idle:
			what = "over"
		case ok:
			what = names[r.Step].Name
		}
		if len(r.Skipped) > 0 {
			what += fmt.Sprint(" ", r.Skipped)
		}
		did = append(did, what)
		switch {
		case !ok || i == len(answers) && !r.Idle || len(did) > 20:
			return did
		case !r.Idle:
			_ = u.Response(0, answers[i])
			i++
		}
	}
}

// Steps that are skipped take no row, unless their conditions ask for one. With weights, a draw of a
// step that is skipped is an iteration.
func TestSkippedSteps(t *testing.T) {
	data := Feed{Name: "d", Table: table(t, "d.csv", "kind,id\na,1\nb,2\nc,3\na,4\n")}
	ok := answer(200, "")
	for _, tt := range []struct {
		name  string
		steps []Step
		want  []string
	}{
		{"by rows", []Step{
			{Name: "a", Path: "/{{ id }}", If: `kind == "a"`},
			{Name: "b", Path: "/{{ id }}", If: `kind == "b"`},
		}, []string{"a", "over [1]", "b [0]", "over [0 1]", "a", "over [1]", "a"}},
		{"no row for what is skipped", []Step{
			{Name: "never", Path: "/{{ id }}", If: "1 > 2"},
			{Name: "a", Path: "/", If: `kind == "a"`},
		}, []string{"a [0]", "over [0 1]", "over [0 1]", "a [0]", "a [0]", "over [0 1]", "over [0 1]", "a [0]"}},
		{"once", []Step{
			{Name: "no", Once: true, Path: "/", If: "1 > 2"},
			{Name: "login", Once: true, Path: "/"},
			{Name: "last", Once: true, Path: "/", If: "1 > 2"},
			{Name: "loop", Path: "/"},
		}, []string{"login [0]", "loop [2]", "loop", "loop"}},
		{"nothing but that", []Step{{Name: "no", Once: true, Path: "/", If: "1 > 2"}}, []string{"end [0]"}},
		{"drawn", []Step{
			{Name: "no", Path: "/", Weight: 1, If: "1 > 2"},
			{Name: "yes", Path: "/", Weight: 1},
		}, []string{"over [0]", "yes", "yes", "yes", "yes"}},
	} {
		u := mustCompile(t, Spec{Feeds: []Feed{data}, Steps: tt.steps}).Worker(whole, 1).User()
		got := turns(t, u, ok, ok, ok)
		if tt.name == "drawn" { // in an order that the seed decides
			slices.Sort(got)
			got = slices.Compact(got)
			tt.want = []string{"over [0]", "yes"}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whatever stands in a condition, it is refused with a place in it, or can be asked.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{`x == "vip" and not (n > 3 or defined(x))`, `1e5<=-3.5`, `status != x`, `not`, `((`, `defined(column("x"))`, `base64(x, n) == 'é'`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Compile(conditional(text))
		if err != nil {
			for _, fault := range flatten(errors.Unwrap(err)) {
				var at *Fault
				if !errors.As(fault, &at) || at.Path != "steps[1].if" || at.Offset > len(text) {
					t.Errorf("%q: %v", text, fault)
				}
			}
			return
		}
		turns(t, s.Worker(whole, 1).User(), answer(200, `{"x":"1"}`), answer(200, "{}"))
	})
}
