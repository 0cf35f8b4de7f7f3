package scenario

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"dyno/load/pace"
)

// withSetup returns a scenario with a setup and a teardown.
func withSetup() *Spec {
	return &Spec{
		Headers:   []Header{{"Token", "{{ token }}"}, {"Kind", "{{ kind }}"}},
		Variables: map[string]string{"kind": "k", "first": "1"},
		Setup: []Step{
			{Name: "login", Path: "/login", Extract: []Extraction{{Variable: "token", JSON: "$.t"}, {Variable: "first", JSON: "$.f"}}},
			{Name: "rare", Path: "/rare", If: "kind == 'none'", Extract: []Extraction{{Variable: "maybe", JSON: "$.m"}}},
			{Name: "cart", Path: "/cart/{{ token }}"},
		},
		Steps:    []Step{{Name: "home", Path: "/{{ first }}", If: "not defined(maybe)"}},
		Teardown: []Step{{Name: "logout", Path: "/logout/{{ first }}"}},
	}
}

func compiledUser(t *testing.T, s *Spec) *User {
	t.Helper()
	c, err := Compile(s, Protocol{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Worker(pace.Whole(), 1).User()
}

func TestSetup(t *testing.T) {
	u := compiledUser(t, withSetup().OfPart(OfSetup))
	check(t, script(t, u, answer(200, `{"t":"T","f":2}`), answer(200, ""), answer(200, "")), []string{
		// The header field whose value setup is yet to find is left out.
		"GET /login Kind:k", "GET /cart/T Kind:k", "end",
	})
	values := u.Extracted()
	if want := map[string]string{"token": "T", "first": "2", "maybe": ""}; !maps.Equal(values, want) {
		t.Errorf("got %q, want %q", values, want)
	}
	after := withSetup().AfterSetup(values)
	check(t, script(t, compiledUser(t, after), answer(200, "")), []string{"GET /2 Token:T Kind:k"})
	check(t, script(t, compiledUser(t, after.OfPart(OfTeardown)), answer(200, ""), answer(200, "")), []string{"GET /logout/2 Token:T Kind:k", "end"})
	none := withSetup().AfterSetup(nil)
	if want := map[string]string{"token": "", "first": "1", "maybe": "", "kind": "k"}; !maps.Equal(none.Variables, want) {
		t.Errorf("without a response: got %q, want %q", none.Variables, want)
	}
}

// The first failure ends a setup, whatever the step.
func TestFailedSetup(t *testing.T) {
	for name, answers := range map[string][]*Response{
		"status":      {answer(500, "")},
		"no response": {nil},
		"extraction":  {answer(200, "{}")},
		"later":       {answer(200, `{"t":"T","f":2}`), answer(404, "")},
	} {
		u := compiledUser(t, withSetup().OfPart(OfSetup))
		sent := script(t, u, append(answers, answer(200, ""))...)
		if len(sent) != len(answers)+1 || sent[len(answers)] != "end" {
			t.Errorf("%s: sent %q", name, sent)
		}
	}
}

// All responses of a setup are kept, to be shown. One that no step looks into may be longer than what is kept.
func TestSetupKeepsResponses(t *testing.T) {
	c, err := Compile(withSetup().OfPart(OfSetup), Protocol{})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range c.Steps() {
		if !info.WantsBody {
			t.Errorf("%s: the response is not kept", info.Name)
		}
	}
	u := compiledUser(t, &Spec{Part: OfSetup, Steps: []Step{{Name: "a", Path: "/", Once: true}}})
	if _, err := next(u, 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Response(0, &Response{Status: 200, Body: []byte("a"), Size: 2}); err != nil {
		t.Errorf("a long response: %v", err)
	}
}

// Before setup is carried out, it is known which variables it gives values.
func TestVariablesOfSetup(t *testing.T) {
	for fault, change := range map[string]func(*Spec){
		`steps[0].body: at offset 3: variable "maybe" may have no value`: func(s *Spec) { s.Steps[0] = Step{Name: "home", Path: "/", Body: "{{ maybe }}"} },
		`steps[0].path: at offset 4: no variable "other"`:                func(s *Spec) { s.Steps[0].Path = "/{{ other }}" },
		`teardown[0].path: at offset 4: no variable "other"`:             func(s *Spec) { s.Teardown[0].Path = "/{{ other }}"; *s = *s.OfPart(OfTeardown) },
		`setup[2].path: at offset 4: no variable "other"`:                func(s *Spec) { s.Setup[2].Path = "/{{ other }}"; *s = *s.OfPart(OfSetup) },
		`setup[0].path: at offset 4: variable "token" is set only by`:    func(s *Spec) { s.Setup[0].Path = "/{{ token }}"; *s = *s.OfPart(OfSetup) },
		`setup[1].name: "login" is taken`:                                func(s *Spec) { s.Setup[1].Name = "login"; *s = *s.OfPart(OfSetup) },
		`setup[1].weight: given to a step that is carried out once`:      func(s *Spec) { s.Setup[1].Weight = 3; *s = *s.OfPart(OfSetup) },
	} {
		s := withSetup()
		change(s)
		_, err := Compile(s, Protocol{})
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %s", err, fault)
		}
		if f := (*Fault)(nil); !errors.As(err, &f) {
			t.Errorf("%v: no *Fault", err)
		}
	}
	for _, s := range []*Spec{withSetup(), withSetup().OfPart(OfSetup), withSetup().OfPart(OfTeardown)} {
		if _, err := Compile(s, Protocol{}); err != nil {
			t.Errorf("%q: %v", s.Part, err)
		}
	}
}
