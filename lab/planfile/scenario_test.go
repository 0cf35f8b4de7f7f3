package planfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// A plan's variables go into a scenario, and its own templates stay.
func TestScenarioTemplates(t *testing.T) {
	e, err := ReadFile("testdata/good/scenario.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Warnings) > 0 {
		t.Errorf("%v", e.Warnings)
	}
	for i, v := range e.Variants {
		model := map[string]string{"one": "a", "one.control": "a", "two": "b"}[v.Name]
		s := e.Variants[i].Load.Scenario
		want := []scenario.Header{{Name: "Accept", Value: "application/json"}, {Name: "X-Model", Value: model}}
		if diff := cmp.Diff(want, s.Headers); diff != "" {
			t.Error(diff)
		}
		if got, want := s.Flows[0].Steps[1].Path, "{{ base }}/items?user={{ urlencode(email) }}&n={{number}}"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := e.Variants[0].Load.Scenario
	if s.Users != 50 || !s.Restart || !s.Cookies || s.Variables["number"] != "7" || s.Flows[0].Weight != 3 || s.Flows[1].Weight != 1 {
		t.Errorf("%+v", s)
	}
	want := []scenario.Data{
		{Name: "users", File: "testdata/data/users.csv", Format: "auto", Order: "shuffled", End: "stop", Per: "user"},
		{Name: "items", File: "testdata/data/items.jsonl", Format: "auto", Order: "sequential", End: "wrap", Per: "auto", Columns: []string{"title"}, Paths: map[string]string{"item": "$.item.id"}},
	}
	if diff := cmp.Diff(want, s.Data); diff != "" {
		t.Error(diff)
	}
	news := s.Flows[1].Steps[1]
	if news.Weight != 1 || news.Think.Uniform == nil || *news.Think.Uniform != (pace.Span{From: time.Second, To: 2 * time.Second}) {
		t.Errorf("%+v", news)
	}
}

// Plan, data and URL make the users' requests over HTTP/1.1 and HTTP/2.
func TestScenarioCodecs(t *testing.T) {
	e, err := ReadFile("testdata/good/scenario.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := &e.Variants[2]
	codecs, err := protocols.CodecsOf(t.Context(), v, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range codecs.Scenario.Steps() {
		names = append(names, step.Name)
	}
	if got := strings.Join(names, " "); got != "login list order front news" {
		t.Errorf("%s", got)
	}
	if diff := cmp.Diff([]string{"set-cookie", "etag", "location", "content-encoding"}, codecs.Scenario.HeaderNames()); diff != "" {
		t.Error(diff)
	}
	list := codecs.Scenario.Outlines()[2]
	want := []scenario.OutlineField{{Name: "X-Model", Value: "b"}, {Name: "Authorization", Varies: true}, {Name: "accept", Value: "text/plain"}}
	if diff := cmp.Diff(want, list.Header); diff != "" || list.Method != "GET" || !list.VariesPath {
		t.Errorf("%+v: %s", list, diff)
	}
	if err := codecs.Close(); err != nil {
		t.Error(err)
	}
	if err := codecs.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// The run-time variables are filled in, and nothing else is.
func TestScenarioFill(t *testing.T) {
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.Start = []string{"x"}
	v.Load.Scenario = &scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/{{port}}/{{ port }}/{{ name }}/{{ counter() }}/{{ 'a' }}{{", Body: "}}{{admin}}"}}}
	before := v.Load.Scenario
	if err := v.Fill(map[string]string{"port": "80", "admin": "81"}); err != nil {
		t.Fatal(err)
	}
	got := v.Load.Scenario.Steps[0]
	if got.Path != "/80/80/{{ name }}/{{ counter() }}/{{ 'a' }}{{" || got.Body != "}}81" {
		t.Errorf("%q, %q", got.Path, got.Body)
	}
	if strings.Contains(before.Steps[0].Path, "80") {
		t.Error("the plan itself was changed")
	}
}

// Faults in the data, and contradictions in a scenario, are located.
func TestScenarioFaults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"users.csv": "email,email2\na,b\n", "broken.csv": "a,b\n1\n", "other.csv": "email\nx\n", "body.json": `{"email":"é{{ emial }}"}`, "large.bin": strings.Repeat("x", plan.MaxText+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "name: x\ntarget: {protocol: http, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  scenario:\n"
	for _, c := range []struct{ scenario, want string }{
		{"    data: {users: users.csv}\n    steps: [{name: a, path: '/{{ emial }}'}]", `x.yaml:7:29: load.scenario.steps[0].path: at offset 4: no variable "emial"; did you mean "email"?`},
		{"    data: {users: broken.csv}\n    steps: [{name: a, path: '/'}]", "x.yaml:6:19: load.scenario.data.users.file: broken.csv:2:1: "},
		{"    data: {users: none.csv}\n    steps: [{name: a, path: '/'}]", "x.yaml:6:19: load.scenario.data.users: cannot be read"},
		{"    data: {users: users.csv, more: other.csv}\n    steps: [{name: a, path: '/{{ email }}'}]", `"email" is a column of several feeds; want one of users.email, more.email`},
		{"    variables: {email: a}\n    data: {users: users.csv}\n    steps: [{name: a, path: '/'}]", `column "email" of `},
		{"    steps: [{name: a, path: '/{{ port }}'}]", `load.scenario.steps[0].path: at offset 4: no variable "port"`},
		{"    flows: {f: {steps: [{name: a, path: '/'}, {name: b, path: '/{{ x }}', extract: {x: $.y}}]}}", `load.scenario.flows.f.steps[1].path: at offset 4: variable "x" is set only by the response to this very step`},
		{"    steps: [{name: a, path: '/', assert: [{json: 'x', exists: true}]}]", `load.scenario.steps[0].assert[0].json: `},
		{"    steps: [{name: a, path: '/', extract: {x: {pattern: '(a)', group: 2}}}]", `load.scenario.steps[0].extract.x.group: `},
		{"    headers: {X: '{{ y }}'}\n    steps: [{name: a, path: '/', headers: {Z: '{{ y }}'}}]", `x.yaml:6:18: load.scenario.headers.X: at offset 3: no variable "y"`},
		{"    variables: {y: a}\n    steps: [{name: a, path: '/', headers: {Host: '{{ uuid() }}'}}]", "steps[0].headers.Host: host varies"},
		{"    steps: [{name: a, path: '/'}, {name: a, path: '/'}]", `load.scenario.steps[1].name: "a" is taken`},
		{"    steps:\n    - {name: a, path: '/', extract: {n: $.n}}\n    - {name: b, path: '/', if: n > '3'}", `x.yaml:8:32: load.scenario.steps[1].if: at offset 4: a text in quotes, which is compared as a number; leave out the quotes`},
		{"    cookies: true", "load.scenario.steps: none given"},
		{"    steps: [{name: a, path: '/', body_file: none.json}]", "x.yaml:6:45: load.scenario.steps[0].body_file: cannot be read: "},
		{"    steps: [{name: a, path: '/', body_file: .}]", "x.yaml:6:45: load.scenario.steps[0].body_file: not a regular file"},
		{"    steps: [{name: a, path: '/', body: x, body_file: users.csv}]", "load.scenario.steps[0].body_file: body and body_file exclude each other"},
		{"    steps: [{name: a, path: '/', body_file: body.json}]", `x.yaml:6:45: load.scenario.steps[0].body_file: at offset 15: no variable "emial"`},
		{"    flows: {f: {steps: [{name: a, path: '/', body_file: large.bin}]}}", `load.scenario.flows.f.steps[0].body_file: large.bin: has more than 1048576 bytes`},
	} {
		path := filepath.Join(dir, "x.yaml")
		if err := os.WriteFile(path, []byte(head+c.scenario+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path, Options{})
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+"/", ""), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.scenario, err, c.want)
		}
	}
}

func TestReadScenario(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shop.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("data: {users: users.csv}\nsteps:\n  - {name: a, path: '/{{ email }}', extract: {x: $.y}}\n")
	s, err := ReadScenario(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &scenario.Spec{
		Data:  []scenario.Data{plan.DefaultData("users", filepath.Join(dir, "users.csv"))},
		Steps: []scenario.Step{{Name: "a", Path: "/{{ email }}", Extract: []scenario.Extraction{{Variable: "x", JSON: "$.y"}}}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	write("stepz: []\nsteps: [{name: a, path: /, once: 3}]\n")
	_, err = ReadScenario(path)
	for _, want := range []string{`shop.yaml:1:1: stepz: unknown field; did you mean "steps"?`, "shop.yaml:2:34: steps[0].once: want true or false"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := ReadScenario(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

// A request's content may stand in a file of its own. Both kinds of templates are filled in there.
func TestScenarioBodyFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users.csv":  "email\na@b.c\n",
		"order.json": `{"who":"{{ email }}","size":{{size}},"id":"{{ uuid() }}","as":"{{ 'is' }}"}`,
		"x.yaml": "name: x\ntarget: {protocol: http, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  scenario:\n    data: {users: users.csv}\n" +
			"    steps: [{name: a, path: '/', body_file: order.json}, {name: b, path: '/', method: PUT, body_file: order.json}]\nsweep: {size: [1, 22]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := ReadFile(filepath.Join(dir, "x.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []string{"1", "22"} {
		codecs, err := protocols.CodecsOf(t.Context(), &e.Variants[i], 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		u := codecs.Scenario.Worker(pace.Whole(), 1).User()
		for n, method := range []string{"POST", "PUT"} {
			var r scenario.Request
			if ok, err := u.Next(0, &r); !ok || err != nil {
				t.Fatal(ok, err)
			}
			body := string(r.Parts[len(r.Parts)-1])
			if o := codecs.Scenario.Outlines()[r.Outline]; o.Method != method || !o.VariesBody ||
				!strings.HasPrefix(o.Body+body, `{"who":"a@b.c","size":`+size+`,"id":"`) || !strings.HasSuffix(body, `","as":"is"}`) {
				t.Errorf("step %d: %s %q", n, o.Method, o.Body+body)
			}
			u.Failed()
		}
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Over HTTP/2 only the steps that look into the body have it delivered.
func TestScenarioContent(t *testing.T) {
	v := plan.DefaultVariant(plan.HTTP)
	v.Target.URL = "http://127.0.0.1:1/"
	v.Load.HTTP2.Use = plan.HTTP2Always
	v.Load.Scenario = &scenario.Spec{Cookies: true, Steps: []scenario.Step{{Name: "large", Path: "/"}, {Name: "login", Path: "/", Extract: []scenario.Extraction{{Variable: "x", JSON: "$.x"}}}}}
	codecs, err := protocols.CodecsOf(t.Context(), &v, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	mux := codecs.Muxes(0)()
	var sent []string
	for i, o := range codecs.Scenario.Outlines() {
		sent = append(sent, codecs.Scenario.Steps()[o.Step].Name)
		parts := make([][]byte, 0)
		if i%2 == 1 {
			parts = append(parts, []byte("a=b")) // the cookies
		}
		mux.Reset()
		mux.Wrote(len(mux.Output()))
		if err := mux.Begin(0, i, parts); err != nil {
			t.Fatal(i, err)
		}
		mux.Wrote(len(mux.Output()))
		var content string
		for in := []byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88" + "\x00\x00\x02\x00\x01\x00\x00\x00\x01hi"); ; {
			var e wire.MuxEvent
			n, err := mux.Input(in, &e)
			if err != nil {
				t.Fatal(err)
			}
			content += string(e.Data)
			if e.Kind == wire.MuxEnded {
				if e.Bytes != 2 {
					t.Errorf("%d bytes are counted", e.Bytes)
				}
				break
			}
			if in = in[n:]; len(in) == 0 && e.Kind == wire.MuxNothing {
				t.Fatal("the response has not ended")
			}
		}
		if want := map[string]string{"large": "", "login": "hi"}[sent[i]]; content != want {
			t.Errorf("step %s has %q delivered, want %q", sent[i], content, want)
		}
	}
	if len(sent) != 4 {
		t.Errorf("%v", sent)
	}
}
