package planfile

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"dyno/lab/protocols"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
)

const askingHead = "name: x\ntarget: {protocol: llm, url: 'http://127.0.0.1:1/v1'}\nload:\n  closed: {connections: 1}\n  ask: {model: m}\n  scenario:\n    data: {users: users.csv}\n    steps: "

func TestScenarioOfQuestionsFaults(t *testing.T) {
	for _, c := range []struct{ steps, want string }{
		{"[{name: a}]", "load.scenario.steps[0].prompt: is missing; or messages, or the path of a request that no model answers"},
		{"[{name: a, prompt: b, messages: [{role: user, content: c}]}]", "load.scenario.steps[0].messages: prompt and messages exclude each other"},
		{"[{name: a, prompt: b, path: /}]", "load.scenario.steps[0]: a question has neither method, path nor body"},
		{"[{name: a, body: b}]", "load.scenario.steps[0].path: is missing"},
		{"[{name: a, path: /, max_tokens: 5}]", "load.scenario.steps[0].max_tokens: is only for questions"},
		{"[{name: a, messages: [{role: nobody, content: c}]}]", "load.scenario.steps[0].messages[0].role"},
		{"[{name: a, messages: [{role: user, content: '{{ 5 }}'}]}]", "load.scenario.steps[0].messages[0].content: at offset 3: a number by itself"},
		{"[{name: a, prompt: 'a {{ emial }}'}]", `load.scenario.steps[0].prompt: no variable "emial"; did you mean "email"?`},
		{"[{name: a, messages: [{role: user, content: '{{ emial }}'}]}]", `load.scenario.steps[0].messages: no variable "emial"`},
		{"[{name: a, prompt: b}]\n    cookies: true", "load.scenario.cookies: is only for HTTP targets"},
	} {
		if _, err := written(t, askingHead, c.steps); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.steps, err, c.want)
		}
	}
	for ask, want := range map[string]string{
		"prompt: a":        "load.ask.prompt: is said by the steps of a scenario",
		"api: completions": "load.scenario.steps[0].messages: the API completions takes prompts",
	} {
		if _, err := written(t, strings.Replace(askingHead, "model: m", "model: m, "+ask, 1), "[{name: a, messages: [{role: user, content: c}]}]"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", ask, err, want)
		}
	}
}

// Users' questions are JSON, whatever their data, and have everything that load.ask says.
func TestScenarioOfQuestionsBodies(t *testing.T) {
	for _, test := range []struct{ ask, step, want string }{
		{"", `prompt: 'say "{{ email }}"'`, `{"max_tokens":64,"messages":[{"content":"say \"ada\"","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{"usage: false, options: '{\"temperature\": 0, \"messages\": []}'", "messages: [{role: system, content: s}, {role: user, content: '{{ email }}'}], max_tokens: 9",
			`{"max_tokens":9,"messages":[{"content":"s","role":"system"},{"content":"ada","role":"user"}],"model":"m","stream":true,"temperature":0}`},
		{"api: responses", "prompt: '{{ email }}'", `{"input":"ada","max_output_tokens":64,"model":"m","stream":true}`},
		{"api: completions, usage: false", "prompt: a", `{"max_tokens":64,"model":"m","prompt":"a","stream":true}`},
	} {
		e, err := written(t, strings.Replace(askingHead, "model: m", "headers: {X-All: a}, model: m, "+test.ask, 1), "[{name: a, "+test.step+", headers: {Accept: b}, extract: {x: $.text}}, {name: login, path: /login}]")
		if err != nil {
			t.Fatal(err)
		}
		codecs, err := protocols.CodecsOf(t.Context(), &e.Variants[0], 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(codecs.Answers, []bool{true, false}) || codecs.Messages == nil {
			t.Errorf("%v are answers", codecs.Answers)
		}
		u := codecs.Scenario.Worker(pace.Whole(), 1).User()
		var r scenario.Request
		if ok, err := u.Next(0, &r); !ok || err != nil {
			t.Fatal(ok, err)
		}
		request := string(codecs.Clients(0)().(wire.Composer).Compose(r.Outline, r.Parts))
		header, body, _ := strings.Cut(request, "\r\n\r\n")
		var got any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if text, _ := json.Marshal(got); string(text) != test.want {
			t.Errorf("%s: %s, want %s", test.step, text, test.want)
		}
		for _, want := range []string{"POST /v1/", "X-All: a", "Accept: b", "Content-Type: application/json"} {
			if !strings.Contains(header, want) {
				t.Errorf("%s: no %s", header, want)
			}
		}
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}
}
