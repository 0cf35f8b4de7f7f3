package experiment

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// asked are the bodies of the requests that a load sends.
func asked(t *testing.T, a Ask, url string) (bodies []map[string]any, target string) {
	t.Helper()
	end, err := http1.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := a.all(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		r, err := a.request(p, end)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies, target = append(bodies, body), r.Target
	}
	return bodies, target
}

func TestAskRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(file, []byte(`{"prompt":"a"}`+"\n\n"+`{"messages":[{"role":"system","content":"b"}],"max_tokens":9}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		ask  Ask
		want string // the bodies, in JSON
	}{
		{"chat", Ask{Model: "m", API: APIChat, Prompt: "p", MaxTokens: 5, Usage: true},
			`[{"max_tokens":5,"messages":[{"content":"p","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}]`},
		{"completions", Ask{Model: "m", API: APICompletions, Prompt: "p", MaxTokens: 5}, `[{"max_tokens":5,"model":"m","prompt":"p","stream":true}]`},
		{"responses", Ask{Model: "m", API: APIResponses, Prompt: "p", MaxTokens: 5, Usage: true}, `[{"input":"p","max_output_tokens":5,"model":"m","stream":true}]`},
		{"options", Ask{Model: "m", API: APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_tokens":7,"temperature":0}`},
			`[{"max_tokens":7,"model":"m","prompt":"p","stream":true,"temperature":0}]`},
		{"the newer name", Ask{Model: "m", API: APICompletions, Prompt: "p", MaxTokens: 5, MaxField: "max_completion_tokens"},
			`[{"max_completion_tokens":5,"model":"m","prompt":"p","stream":true}]`},
		{"the newer name as an option", Ask{Model: "m", API: APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_completion_tokens":7}`},
			`[{"max_completion_tokens":7,"model":"m","prompt":"p","stream":true}]`},
		{"both names as options", Ask{Model: "m", API: APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_completion_tokens":7,"max_tokens":9}`},
			`[{"max_completion_tokens":7,"max_tokens":9,"model":"m","prompt":"p","stream":true}]`},
		{"a file", Ask{Model: "m", API: APIChat, Prompts: file, MaxTokens: 5},
			`[{"max_tokens":5,"messages":[{"content":"a","role":"user"}],"model":"m","stream":true},` +
				`{"max_tokens":9,"messages":[{"content":"b","role":"system"}],"model":"m","stream":true}]`},
	} {
		bodies, _ := asked(t, test.ask, "http://h/v1")
		if got, err := json.Marshal(bodies); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

func TestAskTargets(t *testing.T) {
	for _, test := range []struct{ url, api, want, models string }{
		{"http://h", APIChat, "/v1/chat/completions", "/v1/models"},
		{"http://h/", APIResponses, "/v1/responses", "/v1/models"},
		{"http://h/v1", APICompletions, "/v1/completions", "/v1/models"},
		{"http://h/api/v1/", APIChat, "/api/v1/chat/completions", "/api/v1/models"},
		{"http://h/v1/chat/completions", APIChat, "/v1/chat/completions", "/v1/models"},
		{"http://h/v1/completions?version=1", APICompletions, "/v1/completions?version=1", "/v1/models"},
		{"http://h/v1/chat/completions", APIResponses, "/v1/responses", "/v1/models"},
	} {
		_, got := asked(t, Ask{Model: "m", API: test.api, Prompt: "p", MaxTokens: 1}, test.url)
		path, _, _ := strings.Cut(strings.TrimPrefix(test.url, "http://h"), "?")
		if models := ModelsPath(path); got != test.want || models != test.models {
			t.Errorf("%s, %s: %s and %s, want %s and %s", test.url, test.api, got, models, test.want, test.models)
		}
	}
}

// Made-up prompts are repeated by their seed, have as many words as they should, and none
// begins like another.
func TestMadeUpPrompts(t *testing.T) {
	prompts, again := madeUpWords(7, 5, 5), madeUpWords(7, 5, 5)
	seen := map[string]bool{}
	for n, p := range prompts {
		words := strings.Fields(p.Prompt)
		if len(words) != 5 || seen[words[0]] || p.Prompt != again[n].Prompt {
			t.Fatalf("prompt %d: %q", n, p.Prompt)
		}
		seen[words[0]] = true
	}
	if len(prompts) != madeUpPrompts || madeUpWords(8, 5, 5)[0].Prompt == prompts[0].Prompt {
		t.Errorf("%d prompts, and another seed begins alike", len(prompts))
	}
}

// Lengths of prompts and answers are drawn from their ranges, and repeated by the seed.
func TestLengths(t *testing.T) {
	for _, a := range []Ask{
		{Words: 3, WordsTo: 6, MaxTokens: 10, MaxTo: 12},
		{Prompt: "one two three", MaxTokens: 10, MaxTo: 12},
	} {
		prompts, err := a.all(7)
		again, _ := a.all(7)
		other, _ := a.all(8)
		if err != nil || !reflect.DeepEqual(prompts, again) || reflect.DeepEqual(prompts, other) {
			t.Errorf("%+v: %v, or a seed that does not repeat them", a, err)
		}
		words, tokens := map[int]bool{}, map[int]bool{}
		for _, p := range prompts {
			words[len(strings.Fields(p.Prompt))] = true
			tokens[p.MaxTokens] = true
		}
		wantWords := []int{3}
		if a.WordsTo > 0 {
			wantWords = []int{3, 4, 5, 6}
		}
		if got := slices.Sorted(maps.Keys(words)); !slices.Equal(got, wantWords) {
			t.Errorf("%+v: prompts of %v words", a, got)
		}
		if got := slices.Sorted(maps.Keys(tokens)); !slices.Equal(got, []int{10, 11, 12}) {
			t.Errorf("%+v: answers of up to %v tokens", a, got)
		}
	}
}

func TestPromptFileFaults(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a.txt", "\n \n", "there are no prompts in it"},
		{"a.jsonl", `{"prompt":"a"}` + "\n{\n", "a.jsonl:2: "},
		{"a.jsonl", `{"prompt":"a","messages":[]}` + "\n" + `{"prompt":"a","messages":[{}]}`, "a.jsonl:1: want either prompt or messages"},
		{"a.jsonl", `{"prompt":"a","max_tokens":-1}`, "a.jsonl:1: max_tokens -1"},
	} {
		file := filepath.Join(t.TempDir(), test.name)
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPrompts(file); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.text, err, test.want)
		}
	}
	if _, err := readPrompts(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	a := Ask{API: APICompletions}
	if _, err := a.request(prompt{Messages: json.RawMessage("[]")}, http1.Endpoint{}); err == nil || !strings.Contains(err.Error(), "takes prompts") {
		t.Error(err)
	}
}

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
		{"[{name: a, prompt: b, message: c}]", "load.scenario.steps[0].message: is only for"},
	} {
		if _, err := written(t, askingHead, c.steps); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.steps, err, c.want)
		}
	}
	for ask, want := range map[string]string{
		"prompt: a":          "load.ask.prompt: is said by the steps of a scenario",
		"words: 5":           "load.ask.words: is said by the steps of a scenario",
		"prompts: users.csv": "load.ask.prompts: is said by the steps of a scenario",
		"api: completions":   "load.scenario.steps[0].messages: the API completions takes prompts",
	} {
		if _, err := written(t, strings.Replace(askingHead, "model: m", "model: m, "+ask, 1), "[{name: a, messages: [{role: user, content: c}]}]"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", ask, err, want)
		}
	}
}

// What users ask is JSON whatever is in their data, and has what load.ask says of all questions.
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
		codecs, err := e.Variants[0].Codecs(1, 1)
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
