package planfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
)

// written reads a plan next to files of a service and of users.
func written(t *testing.T, head, steps string) (*plan.Experiment, error) {
	t.Helper()
	dir := t.TempDir()
	proto, err := os.ReadFile("../protocols/testdata/echo.proto")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"echo.proto": string(proto), "users.csv": "email\nada\n", "m.json": `{"text": "{{ emial }}"}`, "x.yaml": head + steps + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadFile(filepath.Join(dir, "x.yaml"), Options{})
}

// Faults of a scenario's calls and of their methods are located.
func TestScenarioOfCallsFaults(t *testing.T) {
	const head = "name: x\ntarget: {protocol: grpc, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  call: {proto: [echo.proto]}\n  scenario:\n    data: {users: users.csv}\n    steps: "
	const say = "name: a, method: t.Echo/Say"
	for _, c := range []struct{ steps, want string }{
		{"[{name: a}]", "load.scenario.steps[0].method: is missing; such as method: pkg.Service/Method"},
		{"[{name: a, method: Say}]", `load.scenario.steps[0].method: "Say" is no method`},
		{"[{name: a, method: t.Echo/Sya}]", `x.yaml:8:31: load.scenario.steps[0].method: `},
		{"[{name: a, method: t.Echo/Sya}]", `service t.Echo has no method "Sya"; did you mean "Say"?`},
		{"[{" + say + ", message: '{\"txet\": \"\"}'}]", "load.scenario.steps[0].message: "},
		{"[{" + say + ", message: '{\"txet\": \"{{ email }}\"}'}]", "load.scenario.steps[0].message: "},
		{"[{" + say + ", message: '{\"text\": \"{{ emial }}\"}'}]", `load.scenario.steps[0].message: at offset 13: no variable "emial"; did you mean "email"?`},
		{"[{" + say + ", message_file: m.json}]", `load.scenario.steps[0].message_file: at offset 13: no variable "emial"`},
		{"[{" + say + ", message: '{}', message_file: m.json}]", "load.scenario.steps[0].message_file: message and message_file exclude each other"},
		{"[{" + say + ", path: /}]", "load.scenario.steps[0].path: is only for HTTP and WebSocket and LLM targets; say protocol: http or ws or llm, or of grpc use method"},
		{"[{" + say + ", assert: [{header: a, exists: true}]}]", "load.scenario.steps[0].assert[0].header: is only for HTTP and LLM targets; say protocol: http or llm, or of grpc use metadata or trailer"},
		{"[{" + say + ", assert: [{metadata: a, trailer: b, exists: true}]}]", "load.scenario.steps[0].assert[0].trailer: metadata and trailer exclude each other"},
		{"[{" + say + ", extract: {x: {trailer: a, json: $.b}}}]", "load.scenario.steps[0].extract.x.trailer: json and trailer exclude each other"},
		{"[{" + say + ", extract: {x: b}}]", "load.scenario.steps[0].extract.x.json: at offset 0: JSON path: a path begins with $"},
		{"[{" + say + ", status: NOT_FUOND}]", `load.scenario.steps[0].status: status "NOT_FUOND"; did you mean "NOT_FOUND"?`},
		{"[{" + say + ", status: 200}]", `load.scenario.steps[0].status: status "200"`},
		{"[{" + say + ", metadata: {a: 'é{{ email }}'}}]", "load.scenario.steps[0].metadata.a: a character that is no visible ASCII"},
		{"[{" + say + ", metadata: {grpc-x: a}}]", `load.scenario.steps[0]: metadata "grpc-x": want another name`},
		{"[{" + say + ", metadata: {x-bin: '{'}}]", "load.scenario.steps[0].metadata.x-bin: the value is not base64"},
		{"[{" + say + ", deadline: 1us}]", "load.scenario.steps[0].deadline: "},
		{"[{name: a, method: t.Echo/Collect, message: '{\"text\": \"{{ email }}\"}'}]", "load.scenario.steps[0].message: the messages of a stream of the client's cannot vary"},
		{"[{name: a, method: t.Echo/Collect, message: '[{\"txet\": 1}]'}]", "load.scenario.steps[0].message: "},
		{"[{" + say + "}]\n    cookies: true", "load.scenario.cookies: is only for HTTP targets"},
	} {
		_, err := written(t, head, c.steps)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.steps, err, c.want)
		}
	}
	for call, want := range map[string]string{
		"method: t.Echo/Say":    "load.call.method: is said by the steps of a scenario",
		"kind: unary":           "load.call.kind: the steps of a scenario take a description of the service",
		"web: binary":           "gRPC-Web has no streams of the client's",
		"proto: [none.proto]":   "none.proto",
		"metadata: {a: 'b\tc'}": `load.scenario.steps[0]: metadata "a": value "b\tc": want visible ASCII`,
	} {
		field := "proto: [echo.proto], " + call
		if strings.HasPrefix(call, "proto") {
			field = call
		}
		_, err := written(t, strings.Replace(head, "proto: [echo.proto]", field, 1), "[{name: a, method: t.Echo/Collect}]")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
	// Without a scenario, a call names its method.
	_, err := written(t, "name: x\ntarget: {protocol: grpc, url: 'http://127.0.0.1:1/'}\nload: {closed: {connections: 1}}", "")
	if err == nil || !strings.Contains(err.Error(), "load.call.method: is missing") {
		t.Error(err)
	}
	// Events are no requests.
	_, err = written(t, "name: x\ntarget: {protocol: sse, url: 'http://127.0.0.1:1/'}\nload:\n  subscribers: {connections: 1}\n  scenario: {steps: [{name: a}]}", "")
	if err == nil || !strings.Contains(err.Error(), "load.scenario: is only for HTTP and gRPC and TCP and WebSocket and LLM targets") {
		t.Error(err)
	}
}

// Plan, data and the service's description make the users' gRPC calls.
func TestScenarioOfCallsCodecs(t *testing.T) {
	e, err := written(t, "name: x\ntarget: {protocol: grpc, url: 'http://127.0.0.1:1/proxy/'}\nload:\n  closed: {connections: 1}\n  call: {proto: [echo.proto], deadline: 2s, check: true, metadata: {X-All: a, x-own: b}}\n  scenario:\n    data: {users: users.csv}\n    steps:\n", `
      - {name: say, method: t.Echo.Say, message: '{"text": "{{ email }}"}', metadata: {X-Own: "{{ email }}", x-bin: AP8=}, deadline: 1s, status: "OK, 3-5"}
      - {name: fixed, method: t.Echo/Say, message: '{"text": "abc"}', extract: {x: {trailer: T}}}
      - {name: expand, method: t.Echo/Expand, assert: [{matches: a}]}
      - {name: collect, method: t.Echo/Collect, message: '{"text": "a"} {"text": "b"}'}
`)
	if err != nil {
		t.Fatal(err)
	}
	codecs, err := protocols.CodecsOf(t.Context(), &e.Variants[0], 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}()
	if codecs.Exchanges != 1 || codecs.Messages != nil || codecs.Timeout != 0 || codecs.Clients != nil {
		t.Errorf("%+v", codecs)
	}
	u := codecs.Scenario.Worker(pace.Whole(), 1).User()
	mux := codecs.Muxes(0)()
	for i, want := range [][]string{
		{"\x00\x00\x00\x00\x05\x0a\x03ada"}, {"\x00\x00\x00\x00\x05\x0a\x03abc"}, {"\x00\x00\x00\x00\x00"}, {"\x00\x00\x00\x00\x03\x0a\x01a", "\x00\x00\x00\x00\x03\x0a\x01b"},
	} {
		var r scenario.Request
		if ok, err := u.Next(0, &r); !ok || err != nil {
			t.Fatal(ok, err)
		}
		mux.Reset()
		if err := mux.Begin(0, r.Outline, r.Parts); err != nil {
			t.Fatal(i, err)
		}
		sent := string(mux.Output())
		for _, w := range want {
			if !strings.Contains(sent, w) {
				t.Errorf("step %d: %q, want %q", i, sent, w)
			}
		}
		u.Failed()
	}
	steps := codecs.Scenario.Steps()
	if steps[0].Timeout.Seconds() != 1 || steps[1].Timeout.Seconds() != 2 || steps[1].WantsBody || !steps[2].WantsBody {
		t.Errorf("%+v", steps)
	}
}

// Faults of a TCP message are located, and its notation is decoded.
func TestScenarioOfMessages(t *testing.T) {
	head := func(framing string) string {
		return "name: x\ntarget: {protocol: tcp, address: '127.0.0.1:1'}\nload:\n  closed: {connections: 1}\n  framing: " + framing + "\n  scenario:\n    data: {users: users.csv}\n    steps: "
	}
	for _, c := range []struct{ framing, steps, want string }{
		{"echo", "[{name: a}]", "load.scenario.steps[0].message: is missing; as many bytes are awaited as are sent"},
		{"line", "[{name: a, message: \"a\\nb\"}]", "load.scenario.steps[0].message: it has a line feed inside"},
		{"line", "[{name: a, message: '0a', encoding: hex}]", "load.scenario.steps[0].message: it has a line feed inside"},
		{"line", "[{name: a, message: '0', encoding: hex}]", "load.scenario.steps[0].message: it is not hexadecimal"},
		{"line", "[{name: a, message: '.', encoding: base64}]", "load.scenario.steps[0].message: it is no base64"},
		{"line", "[{name: a, path: /}]", "load.scenario.steps[0].path: is only for HTTP and WebSocket and LLM targets; say protocol: http or ws or llm, or of grpc use method, of tcp message"},
		{"line", "[{name: a, message: '{{ x }}'}]", `load.scenario.steps[0].message: at offset 3: no variable "x"`},
		{"line\n  payload: 10", "[{name: a}]", "load.payload: payload and scenario exclude each other"},
	} {
		_, err := written(t, head(c.framing), c.steps)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\n%v\nwant %s", c.framing, c.steps, err, c.want)
		}
	}
	for framing, want := range map[string]string{"line": "ada\x01\n", "length-prefixed": "\x00\x00\x00\x04ada\x01", "echo": "ada\x01"} {
		for encoding, message := range map[string]string{"hex": "616461{{ '01' }}", "base64": "YWRh{{ 'AQ==' }}", "text": "{{ email }}\\x01"} {
			e, err := written(t, head(framing), `[{name: a, message: "`+message+`{{ random_string(1, 'x') }}", encoding: `+encoding+`}, {name: b, message: "`+message+`", encoding: `+encoding+`}]`)
			if err != nil {
				t.Fatal(err)
			}
			codecs, err := protocols.CodecsOf(t.Context(), &e.Variants[0], 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			u := codecs.Scenario.Worker(pace.Whole(), 1).User()
			var r scenario.Request
			_, bad := u.Next(0, &r)
			if (bad != nil) != (encoding != "text") || bad != nil && bad.Kind != wire.Generator {
				t.Errorf("%s: %v", encoding, bad)
			}
			u.Failed()
			if ok, err := u.Next(0, &r); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if got := string(codecs.Clients(0)().(wire.Composer).Compose(r.Outline, r.Parts)); got != want {
				t.Errorf("%s, %s: %q, want %q", framing, encoding, got, want)
			}
			if err := codecs.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
