package protocols

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dyno/internal/textfile"
	"dyno/lab/plan"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/llm"
)

// apiPaths are where each is below the base URL.
var apiPaths = map[string]string{plan.APIChat: "/chat/completions", plan.APICompletions: "/completions", plan.APIResponses: "/responses"}

// Bounds of the prompts that are prepared before the load.
const (
	madeUpPrompts  = 1000
	leastLengths   = 100 // questions for answers of different lengths
	maxPrompts     = 1_000_000
	maxPromptBytes = 1 << 30
	maxPromptLine  = 16 << 20
)

// llmCodecs makes what asks the questions in turn.
func llmCodecs(ctx context.Context, v *plan.Variant, seed uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	a := ask{v.Load.Ask}
	config := llm.Config{Step: workers, MaxHeader: int64(v.Load.MaxHeader)}
	if v.Load.Scenario != nil {
		err = playAsks(ctx, v, &c, &config, end)
	} else {
		config.Requests, err = a.requests(seed, end)
	}
	if err != nil {
		return c, err
	}
	c.Clients, err = perWorker(func(worker int) llm.Config {
		mine := config
		mine.First = worker
		return mine
	}, llm.NewTemplate, func(t *llm.Template) wire.Client { return t.Client() })
	if err != nil {
		return c, fmt.Errorf("load.ask: %w", err)
	}
	c.Messages = &Messages{FirstToken: a.FirstToken, TokenTime: a.TokenTime}
	if end.Secure {
		c.TLS, err = tlsConfig(v.Target.TLS, end, []string{"http/1.1"})
	}
	return c, err
}

// modelBase returns the base URL's path: without the path of an API, and /v1 if there is
// none.
func modelBase(path string) string {
	path = strings.TrimSuffix(path, "/")
	for _, api := range []string{plan.APIChat, plan.APICompletions, plan.APIResponses} { // chat before what it ends in
		if base, ok := strings.CutSuffix(path, apiPaths[api]); ok {
			return base
		}
	}
	return cmp.Or(path, "/v1")
}

// ModelsPath returns where a server lists its models, for the path of a base URL or of an API.
func ModelsPath(path string) string { return modelBase(path) + "/models" }

// ModelsTLS returns how the connection is secured on which a target is asked for its models: as the
// load does. It is nil without TLS.
func ModelsTLS(t *plan.Target) (*tls.Config, error) {
	end, err := http1.ParseURL(t.URL)
	if err != nil || !end.Secure {
		return nil, err
	}
	return standardTLS(t.TLS, end, []string{"http/1.1"})
}

// An ask makes requests from a model's questions.
type ask struct{ *plan.Ask }

// target returns the API's request target for the URL's.
func (a ask) target(of string) string {
	path, query, asked := strings.Cut(of, "?")
	path = modelBase(path) + apiPaths[a.API]
	if asked {
		path += "?" + query
	}
	return path
}

// A prompt is one question.
type prompt struct {
	Prompt    string          `json:"prompt"`
	Messages  json.RawMessage `json:"messages"`
	MaxTokens int             `json:"max_tokens"`
}

// all returns the prompts.
func (a ask) all(seed uint64) (prompts []prompt, err error) {
	switch {
	case a.Prompts != "":
		if prompts, err = readPrompts(a.Prompts); err != nil {
			return nil, fmt.Errorf("load.ask.prompts: %w", err)
		}
	case a.Prompt != "":
		prompts = []prompt{{Prompt: a.Prompt}}
	default:
		prompts = madeUpWords(seed, a.Words, max(a.Words, a.WordsTo))
	}
	if a.MaxTo == 0 {
		return prompts, nil
	}
	if n := len(prompts); n < leastLengths {
		prompts = slices.Repeat(prompts, (leastLengths+n-1)/n)
	}
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // to be repeated, not to be secret
	for i := range prompts {
		if p := &prompts[i]; p.MaxTokens == 0 {
			p.MaxTokens = between(random, a.MaxTokens, a.MaxTo)
		}
	}
	return prompts, nil
}

// between returns a number of a range, each as likely as another.
func between(random *rand.Rand, least, most int) int { return least + random.IntN(most-least+1) }

// syllables are what made-up words consist of.
var syllables = [...]string{"ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va"}

// madeUpWords makes prompts of least to most words. The first ones are the prompt's number in
// syllables, so that no two prompts begin with the same word.
func madeUpWords(seed uint64, least, most int) []prompt {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated, not to be secret
	prompts := make([]prompt, madeUpPrompts)
	for n := range prompts {
		var b strings.Builder
		for digit := n; ; digit /= len(syllables) {
			b.WriteString(syllables[digit%len(syllables)])
			if digit < len(syllables) {
				break
			}
		}
		words := least
		if most > least { // without a range, nothing is drawn for it
			words = between(random, least, most)
		}
		for range words - 1 {
			b.WriteByte(' ')
			for range 1 + random.IntN(3) {
				b.WriteString(syllables[random.IntN(len(syllables))])
			}
		}
		prompts[n].Prompt = b.String()
	}
	return prompts
}

// readPrompts reads a file of prompts.
func readPrompts(name string) (prompts []prompt, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	objects := strings.EqualFold(filepath.Ext(name), ".jsonl")
	lines := textfile.NewScanner(name, f, maxPromptLine)
	size := 0
	for lines.Scan() {
		line, number := bytes.TrimSpace(lines.Bytes()), lines.Line()
		if len(line) == 0 {
			continue
		}
		p := prompt{Prompt: string(line)}
		if objects {
			p = prompt{}
			if err := json.Unmarshal(line, &p); err != nil {
				return nil, fmt.Errorf("%s:%d: want an object in JSON with prompt (a text) or messages (a list), and perhaps max_tokens (a whole number)", name, number)
			}
			if (p.Prompt == "") == (len(p.Messages) == 0) {
				return nil, fmt.Errorf("%s:%d: want either prompt or messages", name, number)
			}
			if p.MaxTokens < 0 {
				return nil, fmt.Errorf("%s:%d: max_tokens %d: want a positive number", name, number, p.MaxTokens)
			}
		}
		if size += len(line); size > maxPromptBytes || len(prompts) == maxPrompts {
			return nil, fmt.Errorf("%s:%d: want at most %d prompts and %d MiB", name, number, maxPrompts, maxPromptBytes>>20)
		}
		prompts = append(prompts, p)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(prompts) == 0 {
		return nil, fmt.Errorf("%s: there are no prompts in it", name)
	}
	return prompts, nil
}

// requests makes those that ask all prompts.
func (a ask) requests(seed uint64, end http1.Endpoint) (all []http1.Request, err error) {
	prompts, err := a.all(seed)
	if err != nil {
		return nil, err
	}
	for _, p := range prompts {
		r, err := a.request(p, end)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// askedIn are the members of a request's body that hold what is asked, by the API.
var askedIn = map[string]string{plan.APIChat: "messages", plan.APICompletions: "prompt", plan.APIResponses: "input"}

// body returns a request's body without what is asked.
func (a ask) body(limit int) (map[string]any, error) {
	body := map[string]any{"model": a.Model, "stream": true}
	bound := cmp.Or(a.MaxField, "max_tokens")
	if a.API == plan.APIResponses {
		bound = "max_output_tokens"
	}
	body[bound] = limit
	if a.Usage && a.API != plan.APIResponses { // which says it without being asked
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	if a.Options != "" {
		if err := json.Unmarshal([]byte(a.Options), &body); err != nil {
			return nil, fmt.Errorf("load.ask.options: %w", err)
		}
	}
	if body["max_completion_tokens"] != nil && bound == "max_tokens" && body[bound] == any(limit) {
		delete(body, bound) // the options have it by its other name, and servers refuse both together
	}
	return body, nil
}

// request makes the request that asks a prompt.
func (a ask) request(p prompt, end http1.Endpoint) (r http1.Request, err error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, err := a.body(cmp.Or(p.MaxTokens, a.MaxTokens))
	if err != nil {
		return r, err
	}
	var asked any = p.Messages
	switch {
	case p.Prompt != "" && a.API == plan.APIChat:
		asked = []message{{"user", p.Prompt}}
	case p.Prompt != "":
		asked = p.Prompt
	case a.API == plan.APICompletions:
		return r, errors.New("load.ask.prompts: the API completions takes prompts, not messages")
	}
	if member := askedIn[a.API]; body[member] == nil {
		body[member] = asked
	}
	r = http1.Request{
		Method: "POST", Target: a.target(end.Target), Host: end.Host,
		Header: []http1.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Accept", Value: "text/event-stream"}},
	}
	addHeaders(&r, a.Headers)
	if r.Body, err = json.Marshal(body); err != nil {
		return r, fmt.Errorf("load.ask: %w", err)
	}
	return r, nil
}
