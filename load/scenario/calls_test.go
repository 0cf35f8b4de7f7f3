package scenario

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"dyno/load/pace"
	"dyno/load/wire"
)

// A bracketer encodes by putting what varies between brackets. It refuses what has a bracket.
type bracketer [][]byte

func (e bracketer) Append(dst []byte, parts [][]byte) ([]byte, error) {
	start := len(dst)
	dst = append(append(dst, '<'), e[0]...)
	for i, p := range parts {
		if bytes.IndexByte(p, '[') >= 0 {
			return dst[:start], errBracket
		}
		dst = append(append(append(append(dst, '['), p...), ']'), e[i+1]...)
	}
	return append(dst, '>'), nil
}

var errBracket = errors.New("a bracket")

func bracket(pieces ...[]byte) (Encoder, error) {
	if bytes.Contains(pieces[0], []byte("bad")) {
		return nil, errBracket
	}
	return bracketer(pieces), nil
}

var (
	errCall   = &wire.Error{Kind: wire.Status, Text: "called in vain"}
	someCalls = Protocol{
		Calls: &Calls{Statuses: []string{"OK", "ONE", "TWO"}, Error: func(int) *wire.Error { return errCall }},
		Request: func(st *Step) (StepRequest, error) {
			sent := StepRequest{Method: st.Method, Path: st.Path, Body: st.Message, Encode: bracket, Timeout: st.Deadline}
			if st.Status != "" {
				sent.Status = []StatusRange{{0, 0}, {2, 2}}
			}
			return sent, nil
		},
	}
)

// called is a scenario of calls: log in, and carry what came in the metadata of either end.
func called(t testing.TB) *Scenario {
	t.Helper()
	return mustCompileFor(t, Spec{
		Variables: map[string]string{"fixed": "f"},
		Steps: []Step{
			{
				Name: "login", Once: true, Method: "p.S/Login", Path: "/p.S/Login", Message: "{{ fixed }}!", Deadline: time.Second,
				Extract: []Extraction{{Variable: "token", JSON: "$.token"}, {Variable: "cost", Trailer: "X-Cost"}, {Variable: "id", Metadata: "x-id"}},
			},
			{
				Name: "get", Path: "/p.S/Get", Message: `a {{ token }}{{ counter() }}{{ "{{" }}`,
				Metadata: []Header{{"authorization", "Bearer {{ token }}"}, {"cost", "{{ cost }}"}, {"x", "y"}},
				Status:   "0, 2",
				Assert:   []Assertion{{Trailer: "x-id", Equals: new("{{ id }}")}},
			},
		},
	}, someCalls)
}

// of is metadata of a response.
func of(name int, value string) HeaderField { return HeaderField{Name: name, Value: []byte(value)} }

// Calls have their messages encoded, with what varies in its places, and are judged by statuses of
// their own; names of metadata at either end are distinguished.
func TestCalls(t *testing.T) {
	s := called(t)
	if got := strings.Join(s.HeaderNames(), " ") + "; " + strings.Join(s.TrailerNames(), " "); got != "x-id; x-cost x-id" {
		t.Fatalf("names %s", got)
	}
	if i := s.Steps()[0]; i.Timeout != time.Second || i.Method != "p.S/Login" || s.Outlines()[0].Body != "<f!>" {
		t.Errorf("%+v, %+v", i, s.Outlines()[0])
	}
	u := s.Worker(pace.Whole(), 1).User()
	m, err := next(u, 0)
	if err != nil || line(m) != "p.S/Login /p.S/Login <f!>" {
		t.Fatalf("%s, %v", line(m), err)
	}
	good := []HeaderField{of(0, "I"), of(1, "C")}
	if err := u.Response(0, answer(1, `{"token":"T"}`, good...)); err != errCall { //nolint:errorlint // the same pointer
		t.Error(err)
	}
	if m, err = next(u, 0); err != nil || line(m) != "p.S/Login /p.S/Login <f!>" {
		t.Fatalf("after a failure: %s, %v", line(m), err)
	}
	if err := u.Response(0, answer(0, `{"token":"T"}`, good...)); err != nil {
		t.Fatal(err)
	}
	for n, c := range []struct {
		status  int
		trailer string
		want    string
	}{{0, "I", ""}, {2, "I", ""}, {1, "I", `step "get": its status is not among OK, TWO`}, {0, "J", `step "get": its trailing metadata x-id does not equal "{{ id }}"`}} {
		m, err := next(u, 0)
		if want := " /p.S/Get authorization:Bearer T cost:C x:y <a [T][" + string(rune('0'+n)) + "]{{>"; err != nil || line(m) != want {
			t.Fatalf("%s, %v, want %s", line(m), err, want)
		}
		got := u.Response(0, answer(c.status, "", of(2, c.trailer), of(0, "I")))
		if got == nil && c.want != "" || got != nil && got.Text != c.want {
			t.Errorf("status %d: %v, want %q", c.status, got, c.want)
		}
	}
}

// Values that cannot be encoded, or be metadata, fail with kind generator; the user goes on.
func TestCallsThatCannotBeSent(t *testing.T) {
	s := called(t)
	for token, want := range map[string]string{`[`: "its message cannot be made", "é": "the metadata authorization begins or ends with a blank, or holds what is no visible ASCII"} {
		u := s.Worker(pace.Whole(), 1).User()
		if _, err := next(u, 0); err != nil {
			t.Fatal(err)
		}
		if err := u.Response(0, answer(0, `{"token":"`+token+`"}`, of(0, ""), of(1, ""))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := next(u, 0); err == nil || err.Kind != wire.Generator || !strings.Contains(err.Text, want) {
				t.Errorf("%v, want %s", err, want)
			}
			u.Failed()
		}
	}
}

// Faults of calls are located.
func TestFaultsOfCalls(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"steps[0].message: a bracket":                         func(s *Spec) { s.Steps[0].Message = "bad" },
		"steps[0].metadata.a: a character that is no visible": func(s *Spec) { s.Steps[0].Metadata = []Header{{"a", "é"}} },
		"steps[16].deadline: more than 16 different ones": func(s *Spec) {
			for i := range MaxTimeouts + 1 {
				st := s.Steps[0]
				st.Name, st.Deadline = strings.Repeat("x", i+2), time.Duration(i+1)
				s.Steps = append(s.Steps, st)
			}
			s.Steps = s.Steps[1:]
		},
	} {
		spec := Spec{Steps: []Step{{Name: "x", Path: "/p.S/M"}}}
		change(&spec)
		if _, err := Compile(&spec, someCalls); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
