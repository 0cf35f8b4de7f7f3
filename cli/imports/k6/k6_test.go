package k6

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
	"dyno/lab/planfile"
	"dyno/load/scenario"
)

// readScript imports a script of k6.
func readScript(t *testing.T, script string) (*draft.Result, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.js", []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	return draft.Read([]draft.Format{Format()}, draft.Source{Format: "k6", File: "in.js"})
}

// A script that cannot be read is refused with its line, and one that does not end is ended.
func TestScriptFaults(t *testing.T) {
	for script, want := range map[string]string{
		"export default function () {":                                                     "in.js: SyntaxError: Line 1:29",
		"import http from 'k6/http';\nthrow new Error('why')":                              "in.js: line 2: Error: why",
		"import x from './none.js';\nexport default () => {}":                              "none.js cannot be read",
		"export const options = {};":                                                       "default: the iteration ended early: the script exports no function default",
		"export const options = {duration: 'soon'}; export default () => {}":               `in.js: line 1: options: "soon" is no duration`,
		"import http from 'k6/http';\nexport default () => { for (;;) http.get('/x'); }":   "longer than 2000 requests and pauses",
		"export default () => { let a = []; a.push(a.length); throw 'no request before' }": "the iteration ended early: no request before",
		"const f = () => f(); export default () => f()":                                    "its calls are nested too deep",
		"import {x} from 'k6/http'; export default () => {}":                               "x",
	} {
		if _, err := readScript(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

// A script may have any name, and a printed one leaves parts out: what is listed has the script's own lines.
func TestScriptLines(t *testing.T) {
	t.Chdir(t.TempDir())
	const script = "import http from 'k6/http';\nexport default () => {\n  http.cookieJar().clear('http://h/');\n  http.post('http://h/', JSON.stringify({name: 'a', rules: [...], more: {…}}));\n};\n"
	if err := os.WriteFile("k6.js", []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := draft.Read([]draft.Format{Format()}, draft.Source{Format: "k6", File: "k6.js"})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, i := range got.Items {
		lines[i.What] = i.Line
	}
	if lines["cookieJar().clear"] != 3 || lines["[...]"] != 4 || lines["{…}"] != 4 {
		t.Errorf("listed %+v", got.Items)
	}
}

// Functions that check responses become what a step expects, or are listed.
func TestChecks(t *testing.T) {
	text := func(s string) *string { return &s }
	for source, want := range map[string]*scenario.Step{
		"(r) => r.status === 200":                                     {Status: "200"},
		"res => res.status == 204":                                    {Status: "204"},
		"function (r) { return r.status === 200; }":                   {Status: "200"},
		"(r) => { return r.status >= 200 && r.status < 400 }":         {Status: "200-399"},
		"(r) => r.status < 500":                                       {Status: "100-499"},
		"(r) => [200, 201].includes(r.status)":                        {Status: "200, 201"},
		"(r) => r.body.includes('a {{b}}')":                           {Assert: []scenario.Assertion{{Contains: `a {{ "{{" }}b}}`}}},
		`(r) => r.body.indexOf("ok") !== -1`:                          {Assert: []scenario.Assertion{{Contains: "ok"}}},
		"(r) => r.body === 'pong'":                                    {Assert: []scenario.Assertion{{Equals: text("pong")}}},
		"(r) => r.body.length > 0":                                    {Assert: []scenario.Assertion{{Matches: "."}}},
		"(r) => r.json('a.0.b') === 'x'":                              {Assert: []scenario.Assertion{{JSON: "$.a[0].b", Equals: text("x")}}},
		"(r) => r.json().a[0].b !== undefined":                        {Assert: []scenario.Assertion{{JSON: "$.a[0].b", Exists: true}}},
		"(r) => JSON.parse(r.body).ok === true":                       {Assert: []scenario.Assertion{{JSON: "$.ok", Equals: text("true")}}},
		"(r) => r.headers['Content-Type'].includes('json')":           {Assert: []scenario.Assertion{{Header: "Content-Type", Contains: "json"}}},
		"(r) => r.headers.Etag !== undefined":                         {Assert: []scenario.Assertion{{Header: "Etag", Exists: true}}},
		"(r) => r.status === 200 && r.json('id') != null":             {Status: "200", Assert: []scenario.Assertion{{JSON: "$.id", Exists: true}}},
		"(r) => r.status === 200 || r.status === 404":                 nil,
		"(r) => r.timings.duration < 500":                             nil,
		"(r) => r.status < 100":                                       nil,
		"(r) => r.json('id') === null":                                nil,
		"(r) => r.body.match(/x/)":                                    nil,
		"(r) => check2(r)":                                            nil,
		"([r]) => r.status === 200":                                   nil,
		"(r) => { const a = r.json(); return a.items.length === 10 }": nil,
	} {
		d, step := draft.New(draft.Source{File: "in.js"}), scenario.Step{Name: "s"}
		addCheck(d, &step, 1, "name", source, "R")
		switch {
		case want == nil && len(d.Items) == 0:
			t.Errorf("%s: not listed: %+v", source, step)
		case want != nil:
			want.Name = "s"
			if len(d.Items) > 0 || !equalSteps(step, *want) {
				t.Errorf("%s: %+v %v, want %+v", source, step, d.Items, *want)
			}
		}
	}
}

// equalSteps compares what steps expect.
func equalSteps(a, b scenario.Step) bool {
	e := func(s scenario.Step) string {
		out := s.Status
		for _, x := range s.Assert {
			out += "|" + x.JSON + "|" + x.Header + "|" + x.Contains + "|" + x.Matches
			if x.Equals != nil {
				out += "=" + *x.Equals
			}
			if x.Exists {
				out += "!"
			}
		}
		return out
	}
	return e(a) == e(b)
}

// Thresholds have the figures that k6 has, by other names.
func TestThresholds(t *testing.T) {
	for _, c := range []struct{ metric, text, want string }{
		{"http_req_duration", "p(95)<500", "service.p95 < 500ms"},
		{"http_req_duration", " p(99.9) <= 1500 ", "service.p999 <= 1500ms"},
		{"http_req_duration", "p(100)<1000", "service.max < 1000ms"},
		{"http_req_duration", "p(9.99)<5", "service.p0999 < 5ms"},
		{"http_req_duration", "p(5)<5", "service.p05 < 5ms"},
		{"http_req_duration", "p(90.0)<5", "service.p90 < 5ms"},
		{"http_req_duration", "p(0)<5", ""},
		{"http_req_duration", "p(99.9999999)<5", ""},
		{"http_req_duration{expected_response:false}", "p(95)<5", ""},
		{"http_req_duration", "avg<200", "service.mean < 200ms"},
		{"http_req_duration", "med<100.5", "service.p50 < 100.5ms"},
		{"http_req_duration{name:login}", "max<900", "service.max{step=login} < 900ms"},
		{"http_req_duration{expected_response:true}", "p(95)<500", "service.p95 < 500ms"},
		{"http_req_failed", "rate<0.01", "errors.ratio < 1%"},
		{"http_req_failed", "rate==0", "errors.ratio == 0%"},
		{"checks", "rate>=0.999", "errors.ratio <= 0.1%"},
		{"http_reqs", "rate>100", "throughput > 100/s"},
		{"http_reqs", "count>100", ""},
		{"http_req_duration", "min<5", ""},
		{"http_req_duration{group:::a}", "p(95)<5", ""},
		{"http_req_duration{group:::main}", "p(95)<5", "service.p95{step=login} < 5ms"},
		{"http_req_duration{type:api}", "p(95)<5", "service.p95{step=login} < 5ms; service.p95{step=home} < 5ms"},
		{"http_req_duration{type:api, group:::main}", "avg<5", "service.mean{step=login} < 5ms"},
		{"http_req_duration{method:POST}", "avg<5", "service.mean{step=page} < 5ms"},
		{"http_req_duration{type:api}", "p(95)>5", ""},
		{"http_reqs{type:api}", "rate>5", ""},
		{"http_req_waiting", "p(95)<5", "first_byte.p95 < 5ms"},
		{"wait", "p(90)<5", "service.p90{step=login} < 5ms"},
		{"bad", "rate<0.1", "errors.ratio{step=login} < 10%; errors.ratio{step=home} < 10%"},
		{"good", "rate>0.9", "errors.ratio{step=home} < 10%"},
		{"http_req_duration{name:none}", "p(95)<5", ""},
		{"iteration_duration", "p(95)<5", ""},
		{"http_req_duration", "p(95)", ""},
	} {
		steps := &stepsOf{byEvent: map[int]string{}, tags: map[string]tags{}, figures: map[string]ownFigure{
			"wait": {kind: "Trend", time: "service", steps: []string{"login"}}, "bad": {kind: "Rate", steps: []string{"login", "home"}}, "good": {kind: "Rate", isGood: true, steps: []string{"home"}},
		}}
		steps.add("login", &event{Name: "login", Tags: tags{"type": "api", "group": "::main"}})
		steps.add("home", &event{ID: 1, Tags: tags{"type": "api"}})
		steps.add("page", &event{ID: 2, Method: "POST"})
		all, err := thresholds(steps, c.metric, c.text)
		got := strings.Join(all, "; ")
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %s: %q, %v; want %q", c.metric, c.text, got, err, c.want)
		}
	}
}

// What a script does on a connection of WebSocket becomes steps, in the order of its time.
func TestExchanges(t *testing.T) {
	const module = "import ws from 'k6/ws'; import {WebSocket} from 'k6/websockets'; import http from 'k6/http';\n"
	connect := func(inner string) string {
		return module + "export default () => { ws.connect('ws://h/p', null, (s) => {\n" + inner + "\n}); };"
	}
	for script, want := range map[string]string{
		connect("s.on('open', () => { s.send('a'); s.close(); });"):                                                                            "/p; a nothing; close 1001",
		connect("s.on('open', () => s.send('a')); s.on('message', () => s.close(1000));"):                                                      "/p; a; close 1000",
		connect("s.on('open', () => { s.send('a'); s.send('b'); }); s.on('message', () => s.close());"):                                        "/p; a nothing; b; close 1001",
		connect("s.setInterval(() => s.send('a'), 1000); s.setTimeout(() => s.close(), 2500);"):                                                "/p 1s; a nothing 1s; a nothing 500ms; close 1001",
		connect("s.on('open', () => { s.ping(); s.setTimeout(() => { s.sendBinary(new Uint8Array([1]).buffer); s.close(); }, 1); });"):         "/p; pong 1ms; AQ== base64 nothing; close 1001",
		connect("s.on('open', () => s.send('a')); s.on('message', (m) => { s.send('got ' + m); s.close(); });"):                                "/p; a; got {{ content }} nothing; close 1001",
		connect("s.on('open', () => s.send('a')); s.on('message', (m) => console.log(`${m}`)); s.setTimeout(() => s.close(), 5);"):             "/p; a nothing 5ms; close 1001",
		connect("s.on('message', () => s.close());"):                                                                                           "/p; listen; close 1001 | connection to ws://h/p",
		connect("s.on('open', () => s.send('a'));"):                                                                                            "/p; a nothing | connection to ws://h/p",
		connect("s.on('open', () => s.send('')); s.setTimeout(() => s.close(), 5);"):                                                           "/p 5ms; close 1001 | send",
		connect("s.on('open', () => s.send('{id}')); s.setTimeout(() => s.close(), 5);"):                                                       "/p; {id} nothing 5ms; close 1001 | {id}",
		connect("s.on('open', () => s.send('a')); s.on('message', (m) => { const v = JSON.parse(m); if (v.ok) s.close(); else s.close(); });"): "/p; a; close 1001 | on message",
		module + "export default () => { http.get('http://h/'); const w = new WebSocket('wss://h/p'); w.onopen = () => w.close(); };":          "/p; close 1000 | GET http://h/",
		module + "export default () => { const w = new WebSocket('ws://h/p'); w.send('early'); };":                                             "/p | default",
		module + "export default () => { const w = new WebSocket('ws://h/p'); new WebSocket('ws://other/'); w.onopen = () => w.close(); };":    "/p | connection to ws://other/ GET http://other/",
	} {
		got, err := readScript(t, script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		e, err := planfile.Parse("experiment.yaml", got.Text, planfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, st := range e.Variants[0].Load.Scenario.Steps {
			does := []string{st.Path, st.Message, st.Encoding, st.Await}
			if st.Close > 0 {
				does = append(does, "close", strconv.Itoa(st.Close))
			}
			if st.Name == "listen" {
				does = append(does, st.Name)
			}
			if st.Think.Constant > 0 {
				does = append(does, st.Think.Constant.String())
			}
			steps = append(steps, strings.Join(slices.DeleteFunc(does, func(s string) bool { return s == "" }), " "))
		}
		var listed []string
		for _, i := range got.Items {
			if !slices.Contains(listed, i.What) {
				listed = append(listed, i.What)
			}
		}
		text := strings.Join(steps, "; ")
		if len(listed) > 0 {
			text += " | " + strings.Join(listed, " ")
		}
		if text != want {
			t.Errorf("%s:\n%s, want\n%s", script, text, want)
		}
	}
}

// Scripts whose timers and answers have no end are carried over in part, which is listed.
func TestEndlessScripts(t *testing.T) {
	for script, want := range map[string]string{
		"import http from 'k6/http'; export default () => { setInterval(() => http.get('http://h/'), 10); };":                                                             "setInterval",
		"import http from 'k6/http'; export default () => { http.get('http://h/'); const f = () => setTimeout(f, 10); f(); };":                                            "default",
		"import ws from 'k6/ws'; export default () => { ws.connect('ws://h/', null, (s) => { s.on('open', () => s.send('a')); s.on('message', () => s.send('b')); }); };": "on message",
	} {
		got, err := readScript(t, script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
		} else if !slices.ContainsFunc(got.Items, func(i draft.Item) bool { return i.What == want }) {
			t.Errorf("%s: listed %+v, want %s", script, got.Items, want)
		}
	}
}

// Numbers of users and iterations, and values of JSON that is sent, become expressions of templates. What cannot is listed.
func TestNumbers(t *testing.T) {
	const begin = "import http from 'k6/http'; import exec from 'k6/execution'; let token, n = 0;\nexport const setup = () => http.get('http://h/s').json('n');\nexport default (data) => { "
	for script, want := range map[string]string{
		"http.get(`http://h/${__VU}/${__ITER}?a=${exec.scenario.iterationInTest}`);":                                      `/{{ user() }}/{{ iteration() }}?a={{ iteration("all") }}`,
		"http.post('http://h/', JSON.stringify({u: __VU, name: 'u' + __VU, one: 1}));":                                    `/ {"u":{{ user() }},"name":"u{{ user() }}","one":1}`,
		"http.post('http://h/', {u: 'u ' + exec.vu.idInTest, i: exec.vu.iterationInScenario});":                           `/ i={{ iteration() }}&u=u+{{ user() }}`,
		"http.get('http://h/' + Math.random() + '/' + __VU);":                                                             `/0/{{ user() }} | GET-0-x`,
		"http.get('http://h/' + (__VU + 1));":                                                                             `/2 | GET-2`,
		"http.get('http://h/' + n++);":                                                                                    `/0 | GET-0`,
		"http.get('http://h/70411/' + 80513);":                                                                            `/70411/80513`,
		"if (__ITER === 0) { http.get('http://h/first'); } http.get('http://h/');":                                        `/first once; /`,
		"if (!token) { token = http.post('http://h/first').json('t'); } http.get('http://h/' + token);":                   `/first once; /{{ t }}`,
		"http.get('http://h/'); if (__ITER === 0) { http.get('http://h/first'); }":                                        `/; /first | default`,
		"if (__VU === 1 && __ITER === 0) { http.get('http://h/first'); } http.get('http://h/');":                          `/first; / | default`,
		"if (Math.random() < 0.5) { http.get('http://h/first'); } http.get('http://h/');":                                 `/first; / | default`,
		"http.post('http://h/', JSON.stringify({n: data, s: `${data}`}));":                                                `/ {"n":{{ n_2 }},"s":"{{ json_escape(n) }}"}`,
		"const id = http.get('http://h/').json('id'); http.post('http://h/' + id, JSON.stringify([id, [id], {id}, 1]));":  `/; /{{ id }} [{{ id_2 }},[{{ id_2 }}],{"id":{{ id_2 }}},1]`,
		"http.get('http://h/', {timeout: '3s'}); http.get('http://h/', {timeout: 4000});":                                 `/ 3s; / 4s`,
		"http.post('http://h/', 'a', {compression: 'br'});":                                                               `/ a | params.compression`,
		"http.get('http://h/').submitForm({formSelector: '#f', fields: {a: 'x y', b: `${__VU}`}});":                       `/; /{{ action }} {{ hidden }}&a=x+y&b={{ user() }}`,
		"http.get('http://h/').submitForm({formSelector: 'div > form'}); http.get('http://h/').submitForm({params: {}});": `/; /; /{{ action }} {{ hidden }} | find div > form`,
	} {
		got, err := readScript(t, begin+script+" };")
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		e, err := planfile.Parse("experiment.yaml", got.Text, planfile.Options{})
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, got.Text)
		}
		var steps, listed []string
		for _, st := range e.Variants[0].Load.Scenario.Steps {
			text := strings.TrimSpace(st.Path + " " + st.Body)
			if st.Once {
				text += " once"
			}
			if st.Deadline > 0 {
				text += " " + st.Deadline.String()
			}
			steps = append(steps, text)
		}
		for _, i := range got.Items {
			if i.Line > 0 || i.What == "default" {
				listed = append(listed, i.What)
			}
		}
		text := strings.Join(steps, "; ")
		if len(listed) > 0 {
			text += " | " + strings.Join(listed, " ")
		}
		if text != want {
			t.Errorf("%s:\n%s, want\n%s", script, text, want)
		}
	}
}

// What is done once stands apart, whatever the number of scenarios that use it. It has the rows that it has in k6.
func TestSetup(t *testing.T) {
	got, err := readScript(t, `import http from 'k6/http';
import {SharedArray} from 'k6/data';
const users = new SharedArray('users', () => [{name: 'ada'}]);
export const options = {scenarios: {a: {executor: 'constant-vus', vus: 1, duration: '1s', exec: 'a'}, b: {executor: 'constant-vus', vus: 1, duration: '1s', exec: 'b'}}};
export const setup = () => ({token: http.post('http://h/login', users[0].name).json('token')});
export const a = (data) => http.get('http://h/a', {headers: {Token: data.token}});
export const b = (data) => http.get('http://h/b/' + data.token);
export const teardown = (data) => { http.del('http://h/' + data.token); throw 'late' };
`)
	if err != nil {
		t.Fatal(err)
	}
	e, err := planfile.Parse("experiment.yaml", got.Text, planfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := e.Variants[0].Load.Scenario
	if len(s.Setup) != 1 || s.Setup[0].Body != "ada" || len(s.Setup[0].Extract) != 1 || s.Setup[0].Once {
		t.Errorf("setup %+v", s.Setup)
	}
	if len(s.Flows) != 2 || len(s.Flows[0].Steps) != 1 || s.Flows[1].Steps[0].Path != "/b/{{ urlencode(token) }}" && s.Flows[1].Steps[0].Path != "/b/{{ token }}" {
		t.Errorf("flows %+v", s.Flows)
	}
	if len(s.Teardown) != 1 || s.Teardown[0].Method != "DELETE" || len(s.Data) != 0 {
		t.Errorf("teardown %+v, data %+v", s.Teardown, s.Data)
	}
	if !slices.ContainsFunc(got.Items, func(i draft.Item) bool { return i.What == "teardown" && strings.Contains(i.Why, "late") }) {
		t.Errorf("listed %+v", got.Items)
	}
}
