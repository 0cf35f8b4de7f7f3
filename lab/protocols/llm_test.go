package protocols

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dyno/lab/plan"
	"dyno/load/wire/http1"
)

// asked are the bodies of the requests that a load sends.
func asked(t *testing.T, a plan.Ask, url string) (bodies []map[string]any, target string) {
	t.Helper()
	end, err := http1.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := ask{&a}.all(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		r, err := ask{&a}.request(p, end)
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
		ask  plan.Ask
		want string // the bodies, in JSON
	}{
		{"chat", plan.Ask{Model: "m", API: plan.APIChat, Prompt: "p", MaxTokens: 5, Usage: true},
			`[{"max_tokens":5,"messages":[{"content":"p","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true}}]`},
		{"completions", plan.Ask{Model: "m", API: plan.APICompletions, Prompt: "p", MaxTokens: 5}, `[{"max_tokens":5,"model":"m","prompt":"p","stream":true}]`},
		{"responses", plan.Ask{Model: "m", API: plan.APIResponses, Prompt: "p", MaxTokens: 5, Usage: true}, `[{"input":"p","max_output_tokens":5,"model":"m","stream":true}]`},
		{"options", plan.Ask{Model: "m", API: plan.APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_tokens":7,"temperature":0}`},
			`[{"max_tokens":7,"model":"m","prompt":"p","stream":true,"temperature":0}]`},
		{"the newer name", plan.Ask{Model: "m", API: plan.APICompletions, Prompt: "p", MaxTokens: 5, MaxField: "max_completion_tokens"},
			`[{"max_completion_tokens":5,"model":"m","prompt":"p","stream":true}]`},
		{"the newer name as an option", plan.Ask{Model: "m", API: plan.APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_completion_tokens":7}`},
			`[{"max_completion_tokens":7,"model":"m","prompt":"p","stream":true}]`},
		{"both names as options", plan.Ask{Model: "m", API: plan.APICompletions, Prompt: "p", MaxTokens: 5, Options: `{"max_completion_tokens":7,"max_tokens":9}`},
			`[{"max_completion_tokens":7,"max_tokens":9,"model":"m","prompt":"p","stream":true}]`},
		{"a file", plan.Ask{Model: "m", API: plan.APIChat, Prompts: file, MaxTokens: 5},
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
		{"http://h", plan.APIChat, "/v1/chat/completions", "/v1/models"},
		{"http://h/", plan.APIResponses, "/v1/responses", "/v1/models"},
		{"http://h/v1", plan.APICompletions, "/v1/completions", "/v1/models"},
		{"http://h/api/v1/", plan.APIChat, "/api/v1/chat/completions", "/api/v1/models"},
		{"http://h/v1/chat/completions", plan.APIChat, "/v1/chat/completions", "/v1/models"},
		{"http://h/v1/completions?version=1", plan.APICompletions, "/v1/completions?version=1", "/v1/models"},
		{"http://h/v1/chat/completions", plan.APIResponses, "/v1/responses", "/v1/models"},
	} {
		_, got := asked(t, plan.Ask{Model: "m", API: test.api, Prompt: "p", MaxTokens: 1}, test.url)
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
	for _, a := range []plan.Ask{
		{Words: 3, WordsTo: 6, MaxTokens: 10, MaxTo: 12},
		{Prompt: "one two three", MaxTokens: 10, MaxTo: 12},
	} {
		prompts, err := ask{&a}.all(7)
		again, _ := ask{&a}.all(7)
		other, _ := ask{&a}.all(8)
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

// Prompts are the same whatever their lines end in, with a byte order mark or without.
func TestPromptFileForms(t *testing.T) {
	for _, text := range []string{"a\n\n b\nc", "\xef\xbb\xbfa\r\n\r\n b\r\nc\r\n", "a\r\rb\rc\r"} {
		file := filepath.Join(t.TempDir(), "a.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readPrompts(file)
		if err != nil || len(got) != 3 || got[0].Prompt != "a" || got[1].Prompt != "b" || got[2].Prompt != "c" {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestPromptFileFaults(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a.txt", "\n \n", "there are no prompts in it"},
		{"a.jsonl", `{"prompt":"a"}` + "\n{\n", "a.jsonl:2: "},
		{"a.jsonl", `{"prompt":"a","messages":[]}` + "\n" + `{"prompt":"a","messages":[{}]}`, "a.jsonl:1: want either prompt or messages"},
		{"a.jsonl", `{"prompt":"a","max_tokens":-1}`, "a.jsonl:1: max_tokens -1"},
		{"a.jsonl", `{"prompt":"a"}` + "\r\n{\r\n", "a.jsonl:2: "},
		{"a.txt", "a\rb\xe9", "a.txt:2:2: the byte 0xe9 is not UTF-8"},
		{"a.txt", "\xff\xfea\x00", "a.txt:1:1: the text is UTF-16"},
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
	a := ask{&plan.Ask{API: plan.APICompletions}}
	if _, err := a.request(prompt{Messages: json.RawMessage("[]")}, http1.Endpoint{}); err == nil || !strings.Contains(err.Error(), "takes prompts") {
		t.Error(err)
	}
}
