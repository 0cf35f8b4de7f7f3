package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dyno/internal/fields"
	"dyno/internal/nearest"
	"dyno/load/scenario"
)

// LLM is the protocol of questions to language models, by OpenAI's API over HTTP/1.1, whose
// answers are streamed.
const LLM = "llm"

var llmProtocol = protocol{
	name: LLM, title: "LLM", validator: LLMLoad{},
	groups: []string{Loaded, withURL, exchanges, scripted, requests, statuses},
}

// An LLMLoad is what a load has for language models.
type LLMLoad struct {
	Ask *Ask `yaml:"ask" default:"{}" doc:"what a language model is asked"`
}

// An Ask is what a language model is asked, again and again.
type Ask struct {
	Model     string            `yaml:"model,required" kind:"word" flag:"model" doc:"the model's name"`
	API       string            `yaml:"api" oneof:"chat completions responses" default:"chat" flag:"api" doc:"which of OpenAI's APIs; chat: /chat/completions; completions: /completions; responses: /responses"`
	Prompt    string            `yaml:"prompt,orfile" kind:"word" flag:"prompt" otherwise:"made-up words" doc:"the prompt; the same one each time, which a server may keep ready (prefix cache)"`
	Prompts   string            `yaml:"prompts" kind:"path" flag:"prompts" doc:"a file of prompts, asked in turn, in place of prompt: one a line, or, if its name ends in .jsonl, objects with prompt (a text) or messages (a list), and max_tokens if it is another"`
	Words     int               `yaml:"words" range:"1..100000" default:"32" flag:"prompt-words" doc:"words of a made-up prompt; there are 1,000 prompts, no two of which begin with the same word"`
	WordsTo   int               `yaml:"words_to" range:"1..100000" otherwise:"all have as many" flag:"prompt-words-to" doc:"made-up prompts have a random number of words, from words up to this"`
	MaxTokens int               `yaml:"max_tokens" range:"1..10000000" default:"64" flag:"max-tokens" doc:"the most tokens that an answer may have"`
	MaxTo     int               `yaml:"max_tokens_to" range:"1..10000000" otherwise:"all have the same" flag:"max-tokens-to" doc:"an answer has a random limit, from max_tokens up to this, which depends on the prompt"`
	MaxField  string            `yaml:"max_tokens_field" oneof:"max_tokens max_completion_tokens" default:"max_tokens" flag:"max-tokens-field" doc:"the member of a request's body that holds the most tokens; the API responses has max_output_tokens, whatever this says"`
	Options   string            `yaml:"options,orfile" kind:"word" flag:"options" doc:"a JSON object whose members are added to the body of each request, such as {temperature: 0} in JSON"`
	Usage     bool              `yaml:"usage" default:"true" flag:"usage" doc:"the server is asked for the number of tokens of each answer (stream_options.include_usage); without, pieces are counted"`
	Headers   []scenario.Header `yaml:"headers" names:"token" flag:"header,H" doc:"header fields of each request, in this order"`

	FirstToken time.Duration `yaml:"first_token" range:"1us..1h" otherwise:"no such bound" flag:"slo-first-token" doc:"the goal of an answer, for goodput: the time from when the request was due until the first token"`
	TokenTime  time.Duration `yaml:"token_time" range:"1us..1h" otherwise:"no such bound" flag:"slo-token-time" doc:"the goal of an answer, for goodput: the time per token after the first, on average over the answer"`
}

// The APIs of language models.
const (
	APIChat        = "chat"
	APICompletions = "completions"
	APIResponses   = "responses"
)

// validate judges what is asked. The trial reads the file of prompts.
func (LLMLoad) validate(i *inspector, _ *Experiment, v *Variant) {
	const path = "load.ask"
	i.tls(&v.Target)
	if v.Load.Scenario != nil {
		i.asksOfScenario(v)
	}
	a, started := v.Load.Ask, len(v.Target.Start) > 0
	if a == nil {
		i.fault(path, "is missing", "such as ask: {model: NAME}")
		return
	}
	i.headers(path, a.Headers, started)
	if a.Prompt != "" && a.Prompts != "" {
		i.fault(path+".prompts", "prompt and prompts exclude each other", "keep one of them")
	}
	for _, to := range []struct {
		field      string
		from, upTo int
	}{{"words_to", a.Words, a.WordsTo}, {"max_tokens_to", a.MaxTokens, a.MaxTo}} {
		if to.upTo > 0 && to.upTo < to.from {
			i.fault(path+"."+to.field, fmt.Sprintf("%d is less than %s, %d", to.upTo, strings.TrimSuffix(to.field, "_to"), to.from), "swap them")
		}
	}
	if a.WordsTo > 0 && (a.Prompt != "" || a.Prompts != "") {
		i.fault(path+".words_to", "applies to made-up prompts only", "remove it, or what is asked")
	}
	if a.Options != "" {
		var object map[string]json.RawMessage
		switch err := json.Unmarshal([]byte(i.sent(a.Options)), &object); {
		case err != nil || object == nil:
			i.fault(path+".options", fmt.Sprintf("%q is no JSON object", nearest.Clip(a.Options)), `such as '{"temperature": 0}'`)
		case object["stream"] != nil || object["model"] != nil:
			i.fault(path+".options", "dyno sets stream and model itself", "remove them")
		}
	}
	if !started {
		i.ownPorts(path+".prompt", a.Prompt)
	}
}

// asksOfScenario validates what a scenario asks: load.ask says what all questions have in
// common, the steps say what is asked.
func (i *inspector) asksOfScenario(v *Variant) {
	const path = "load.ask"
	a := v.Load.Ask
	if a == nil {
		return // which is a fault of its own
	}
	for _, f := range []struct {
		field string
		given bool
	}{
		{"prompt", a.Prompt != ""},
		{"prompts", a.Prompts != ""},
		{"words", a.Words != DefaultVariant(LLM).Load.Ask.Words},
		{"words_to", a.WordsTo > 0},
		{"max_tokens_to", a.MaxTo > 0},
	} {
		if f.given {
			i.fault(path+"."+f.field, "is said by the steps of a scenario", "move it into a step, or remove it")
		}
	}
	i.scenario(v)
	v.Load.Scenario.EachStep(func(at string, st *scenario.Step) {
		at = fields.Join("load.scenario", at)
		plain := st.Path != "" || st.Method != "" || st.Body != "" || st.BodyFile != ""
		switch {
		case st.Prompt != "" && len(st.Messages) > 0:
			i.fault(at+".messages", "prompt and messages exclude each other", "keep one of them")
		case st.IsQuestion() && plain:
			i.fault(at, "a question has neither method, path nor body", "they are of a request that no model answers: give that a step of its own")
		case plain && st.Path == "":
			i.fault(at+".path", "is missing", "such as path: /v1/login")
		case !plain && !st.IsQuestion():
			i.fault(at+".prompt", "is missing", "or messages, or the path of a request that no model answers")
		case st.MaxTokens > 0 && plain:
			i.fault(at+".max_tokens", "is only for questions", "remove it")
		case len(st.Messages) > 0 && a.API == APICompletions:
			i.fault(at+".messages", "the API completions takes prompts, not messages", "use prompt")
		}
	})
}
