package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A value set by a step that may be skipped exists only under a condition that asks for it.
func TestConditionsAndValues(t *testing.T) {
	spec := func(second, third string) Spec {
		return Spec{Variables: map[string]string{"kind": "a"}, Steps: []Step{
			{Name: "login", Path: "/login", If: second, Extract: extract("token", "$.token")},
			{Name: "order", Path: "/order/{{ token }}", If: third},
		}}
	}
	for _, condition := range []string{`defined(token)`, `kind == "b" and (defined(token) and token != "-")`, `defined(token) and kind == "a" or token == "b" and defined(token)`} {
		mustCompile(t, spec(`not defined(token)`, condition))
	}
	for _, condition := range []string{``, `kind == "a"`, `not defined(token)`, `defined(token) or kind == "a"`} {
		_, err := compileFor(t, spec(`not defined(token)`, condition), Protocol{})
		if want := `steps[1].path: at offset 10: variable "token" may have no value: step "login", which sets it, may be skipped; ` +
			`set it in an earlier step, or give it a first value: variables: {token: ...}; or ask for it: if: defined(token)`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", condition, err)
		}
	}
	// A user who could not log in goes on, and skips what needs it.
	u := mustCompile(t, spec(`not defined(token)`, `defined(token)`)).Worker(whole, 1).User()
	check(t, answerAll(t, u, answer(500, ""), answer(200, `{"token":"t"}`), answer(200, ""), answer(200, "")), []string{
		"login", "over [1]", "login", "order", "order [0]", "order [0]",
	})
}

// answerAll answers a user's requests, and returns what the user did: a step's name or "over", with the
// steps that were skipped before.
func answerAll(t *testing.T, u *User, answers ...*Response) (did []string) {
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
	data := Data{Name: "d", File: rows(t, "d.csv", "kind,id\na,1\nb,2\nc,3\na,4\n")}
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
		u := mustCompile(t, Spec{Data: []Data{data}, Steps: tt.steps}).Worker(whole, 1).User()
		got := answerAll(t, u, ok, ok, ok)
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
