package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/leak"
	"dyno/internal/pipes"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "rewrite the golden files")

// A bed is a server that serves.
type bed struct {
	*Server
	t      testing.TB
	client *http.Client
	end    func()
}

// serving runs a server on a real socket until the test ends.
func serving(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	return start(t, change, nil)
}

// piped runs a server whose connections are pipes: for bubbles, in which time is not
// the machine's.
func piped(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	return start(t, change, pipes.Listen())
}

func start(t testing.TB, change func(*Config), l *pipes.Listener) *bed {
	t.Helper()
	c := Defaults()
	c.Listen, c.DrainTimeout = "127.0.0.1:0", 0
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", s.Addr().String()) }
	if l != nil {
		s.Listener = l
		dial = func(context.Context, string, string) (net.Conn, error) { return l.Dial() }
	} else if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	b := &bed{Server: s, t: t, client: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	b.end = sync.OnceFunc(func() {
		stop()
		b.client.CloseIdleConnections()
		<-ended
	})
	t.Cleanup(b.end)
	return b
}

// post asks for an answer; fields are "Name: value".
func (b *bed) post(ctx context.Context, path, body string, fields ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (b *bed) ask(path, body string, fields ...string) (int, string) {
	b.t.Helper()
	resp := b.post(context.Background(), path, body, fields...)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const (
	pathChat        = "/v1/chat/completions"
	pathResponses   = "/v1/responses"
	pathCompletions = "/v1/completions"
	hello           = `{"model":"dyno-1","messages":[{"role":"user","content":"hello"}],"max_tokens":3`
	helloText       = `{"model":"dyno-1","prompt":"hello","max_tokens":3`
	helloTexts      = `{"model":"dyno-1","prompt":["hello","bye"],"max_tokens":3`
	usage           = `,"stream":true,"stream_options":{"include_usage":true}`
	weather         = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"单位":{"enum":["摄氏","华氏"]}}}}}]`
	weatherItem     = `"tools":[{"type":"function","name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
)

// created is what differs between two runs.
var created = regexp.MustCompile(`"(created|created_at)":[0-9]+`)

// TestGolden compares whole answers, byte for byte but for the time.
func TestGolden(t *testing.T) {
	b := serving(t, func(c *Config) { c.Tokens = 4 })
	for name, c := range map[string]struct{ path, body string }{
		"chat":                        {pathChat, hello + `}`},
		"chat_stream":                 {pathChat, hello + `,"stream":true}`},
		"chat_usage":                  {pathChat, hello + usage + `}`},
		"chat_tool":                   {pathChat, hello + `,` + weather + `}`},
		"chat_tool_stream":            {pathChat, hello + `,"stream":true,` + weather + `}`},
		"completions":                 {pathCompletions, helloText + `}`},
		"completions_stream":          {pathCompletions, helloText + `,"stream":true}`},
		"completions_list":            {pathCompletions, helloTexts + `}`},
		"completions_list_usage":      {pathCompletions, helloTexts + usage + `}`},
		"responses":                   {pathResponses, `{"model":"dyno-1","input":"hello"}`},
		"responses_stream":            {pathResponses, `{"model":"dyno-1","input":"hello","stream":true}`},
		"responses_incomplete":        {pathResponses, `{"model":"dyno-1","input":"hello","max_output_tokens":2}`},
		"responses_incomplete_stream": {pathResponses, `{"model":"dyno-1","input":"hello","max_output_tokens":2,"stream":true}`},
		"responses_tool":              {pathResponses, `{"model":"dyno-1","input":"hello","max_output_tokens":2,"stream":true,` + weatherItem + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			status, got := b.ask(c.path, c.body)
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, got)
			}
			if _, again := b.ask(c.path, c.body); created.ReplaceAllString(again, "") != created.ReplaceAllString(got, "") {
				t.Errorf("the same request has another answer:\n%s", again)
			}
			got = created.ReplaceAllString(got, `"$1":0`)
			if !strings.Contains(c.body, `"stream":true`) && !json.Valid([]byte(got)) {
				t.Errorf("no JSON: %s", got)
			}
			for _, line := range strings.Split(got, "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("no JSON: %s", data)
				}
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A completion is what a client reads.
type completion struct {
	Choices []struct {
		Index   int
		Text    string
		Message struct {
			Content   *string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Delta        struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
}

// TestStreamIsWhole: the tokens of a stream make the text that is answered without one,
// and usage counts them.
func TestStreamIsWhole(t *testing.T) {
	b := serving(t, nil)
	for _, limit := range []string{"", `,"max_tokens":1`, `,"max_completion_tokens":7`, `,"max_tokens":100`} {
		body := `{"model":"dyno-1","messages":[{"role":"user","content":"say it"}]` + limit
		_, text := b.ask(pathChat, body+"}")
		var whole completion
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		resp := b.post(t.Context(), pathChat, body+usage+"}")
		said, tokens, reason := "", 0, ""
		var last completion
		done := false
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if done = data == "[DONE]"; done {
				continue
			}
			last = completion{}
			if err := json.Unmarshal([]byte(data), &last); err != nil {
				t.Fatal(err)
			}
			for _, c := range last.Choices {
				if c.Delta.Content != "" {
					tokens++
				}
				said += c.Delta.Content
				reason += c.FinishReason
			}
		}
		if !done || said != *whole.Choices[0].Message.Content || reason != whole.Choices[0].FinishReason {
			t.Errorf("%s: streamed %q (%s, done: %v), whole %q (%s)", limit, said, reason, done, *whole.Choices[0].Message.Content, whole.Choices[0].FinishReason)
		}
		if last.Usage == nil || *last.Usage != *whole.Usage || last.Usage.CompletionTokens != tokens || last.Usage.TotalTokens != tokens+last.Usage.PromptTokens {
			t.Errorf("%s: %d tokens, usage %+v and %+v", limit, tokens, last.Usage, whole.Usage)
		}
		if want := map[bool]string{true: "stop", false: "length"}[limit == "" || strings.HasSuffix(limit, "100")]; reason != want {
			t.Errorf("%s: ended by %q, want %q", limit, reason, want)
		}
	}
}

// TestTools: a tool is called once, with arguments of its schema, and its result is
// answered with text.
func TestTools(t *testing.T) {
	b := serving(t, nil)
	for name, c := range map[string]struct{ more, want string }{
		"auto":     {weather, "weather"},
		"none":     {weather + `,"tool_choice":"none"`, ""},
		"required": {weather + `,"tool_choice":"required"`, "weather"},
		"named":    {weather + `,"tool_choice":{"type":"function","function":{"name":"weather"}}`, "weather"},
	} {
		_, text := b.ask(pathChat, hello+","+c.more+"}")
		var got completion
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		calls := got.Choices[0].Message.ToolCalls
		if c.want == "" {
			if len(calls) != 0 || got.Choices[0].FinishReason == "tool_calls" {
				t.Errorf("%s: %s", name, text)
			}
			continue
		}
		if len(calls) != 1 || calls[0].Function.Name != c.want || got.Choices[0].FinishReason != "tool_calls" || got.Choices[0].Message.Content != nil {
			t.Fatalf("%s: %s", name, text)
		}
		var arguments struct {
			City string
			Days int
			Unit string `json:"单位"`
		}
		if err := json.Unmarshal([]byte(calls[0].Function.Arguments), &arguments); err != nil || arguments.City == "" || arguments.Days == 0 || arguments.Unit != "摄氏" {
			t.Errorf("%s: arguments %s: %v", name, calls[0].Function.Arguments, err)
		}
	}
	after := `{"model":"dyno-1","messages":[{"role":"user","content":"x"},{"role":"tool","content":"sunny","tool_call_id":"1"}],` + weather + `}`
	if _, text := b.ask(pathChat, after); !strings.Contains(text, `"finish_reason":"stop"`) {
		t.Errorf("after a result: %s", text)
	}
	if status, text := b.ask(pathChat, hello+`,`+weather+`,"tool_choice":{"function":{"name":"other"}}}`); status != http.StatusBadRequest {
		t.Errorf("a tool that is not there: %d %s", status, text)
	}
}

func TestRefused(t *testing.T) {
	b := serving(t, func(c *Config) { c.MaxTokens, c.MaxBodyBytes = 100, 1000 })
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"no JSON":      {pathChat, `{`, 400, "want a JSON object"},
		"no model":     {pathChat, `{"messages":[{}]}`, 400, "model: must have"},
		"other model":  {pathChat, `{"model":"gpt","messages":[{}]}`, 404, "model_not_found"},
		"no messages":  {pathChat, `{"model":"dyno-1"}`, 400, "messages: must be"},
		"no input":     {pathResponses, `{"model":"dyno-1"}`, 400, "input: want"},
		"no prompt":    {pathCompletions, `{"model":"dyno-1"}`, 400, "prompt: want a string or a list of strings"},
		"null":         {pathCompletions, `{"model":"dyno-1","prompt":null}`, 400, "prompt: want"},
		"tokens":       {pathCompletions, `{"model":"dyno-1","prompt":[1,2]}`, 400, "prompt: want"},
		"no prompts":   {pathCompletions, `{"model":"dyno-1","prompt":[]}`, 400, "prompt: must be 1 to 128"},
		"many prompts": {pathCompletions, `{"model":"dyno-1","prompt":["x"` + strings.Repeat(`,"x"`, 128) + `]}`, 400, "prompt: must be 1 to 128"},
		"many in all":  {pathCompletions, `{"model":"dyno-1","prompt":["x","y"],"max_tokens":51}`, 400, "prompt: 2 of 51 tokens each: must be 100 together"},
		"the usual":    {pathCompletions, `{"model":"dyno-1","prompt":["x","y","z","z"]}`, 400, "prompt: 4 of 32 tokens each"},
		"two choices":  {pathChat, hello + `,"n":2}`, 400, "n: 2: must be 1"},
		"n":            {pathCompletions, helloText + `,"n":2}`, 400, "n: 2: must be 1"},
		"no tokens":    {pathChat, `{"model":"dyno-1","messages":[{}],"max_tokens":0}`, 400, "must be 1 or more"},
		"many tokens":  {pathChat, `{"model":"dyno-1","messages":[{}],"max_tokens":101}`, 400, "must be 100 at most"},
		"long":         {pathChat, hello + strings.Repeat(" ", 1000) + `}`, 413, "1000 bytes at most"},
		"nothing here": {"/v1/embeddings", `{}`, 404, "nothing is served"},
	} {
		status, text := b.ask(c.path, c.body)
		var e struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
			t.Errorf("%s: no error in OpenAI's form: %s", name, text)
		}
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.want)
		}
	}
}

func TestModels(t *testing.T) {
	b := serving(t, func(c *Config) { c.Models = []string{"a", "b/c"} })
	for path, want := range map[string]string{
		"/v1/models":       `{"object":"list","data":[{"id":"a","object":"model","created":0,"owned_by":"dyno"},{"id":"b/c","object":"model","created":0,"owned_by":"dyno"}]}`,
		"/v1/models/a":     `{"id":"a","object":"model","created":0,"owned_by":"dyno"}`,
		"/v1/models/b/c":   `{"id":"b/c","object":"model","created":0,"owned_by":"dyno"}`,
		"/v1/models/b%2Fc": `{"id":"b/c","object":"model","created":0,"owned_by":"dyno"}`,
		"/v1/models/d":     `{"error":{"message":"\"d\" is not served here","type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
	} {
		resp, err := b.client.Get("http://llm" + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
}

// TestFaults asks for each kind, streamed and not.
func TestFaults(t *testing.T) {
	b := serving(t, nil)
	for _, c := range []struct {
		path, body string
		streamed   bool
		first      int // events before the first token
	}{
		{pathChat, hello + "}", false, 0},
		{pathChat, hello + usage + "}", true, 1},
		{pathCompletions, helloText + "}", false, 0},
		{pathCompletions, helloText + usage + "}", true, 0},
	} {
		resp := b.post(t.Context(), c.path, c.body, FaultField+": 429;retry_after=7s")
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
		}
		if status, text := b.ask(c.path, c.body, FaultField+": 503"); status != http.StatusServiceUnavailable || !strings.Contains(text, "server_error") {
			t.Errorf("503: %d %s", status, text)
		}
		if status, text := b.ask(c.path, c.body, FaultField+": no_usage"); status != http.StatusOK || strings.Contains(text, "prompt_tokens") {
			t.Errorf("no_usage: %d %s", status, text)
		}
		if status, text := b.ask(c.path, c.body, FaultField+": burn"); status != http.StatusBadRequest {
			t.Errorf("an unknown one: %d %s", status, text)
		}
		for after := range 2 {
			resp = b.post(t.Context(), c.path, c.body, fmt.Sprintf("%s: cut;after=%d", FaultField, after))
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || !c.streamed && len(text) == 0 {
				t.Errorf("cut: %s, %q, %v", resp.Status, text, err)
			}
			if c.streamed && (strings.Count(string(text), "data: ") != c.first+after || bytes.Contains(text, []byte("[DONE]"))) {
				t.Errorf("cut after %d tokens: %q", after, text)
			}
		}
		for _, after := range []string{"1", "1000"} { // "1000" is later than the last token
			_, malformed := b.ask(c.path, c.body, FaultField+": malformed;after="+after)
			invalid := 0
			for _, line := range strings.Split(malformed, "\n") {
				data := strings.TrimPrefix(line, "data: ")
				if data != "" && data != "[DONE]" && !json.Valid([]byte(data)) {
					invalid++
				}
			}
			if invalid != 1 {
				t.Errorf("malformed after %s: %d pieces are no JSON: %s", after, invalid, malformed)
			}
		}
	}
}

// TestHang: an answer that never comes ends when the client goes.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm"+pathChat, strings.NewReader(hello+"}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(FaultField, "hang")
		failed := make(chan error)
		go func() {
			_, err := b.client.Do(r)
			failed <- err
		}()
		synctest.Wait()
		if s := b.Stats(); s.Active != 1 || s.Faults != 1 {
			t.Errorf("meanwhile: %+v", s)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		b.end()
		synctest.Wait() // with no time to drain, the server does not wait for its handlers
		if s := b.Stats(); s.Active != 0 || s.Aborted != 1 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// TestFaultsByChance: the same seed has the same faults in the same order, and about as
// many as were asked for.
func TestFaultsByChance(t *testing.T) {
	run := func(seed uint64) string {
		b := serving(t, func(c *Config) {
			c.Seed, c.Faults = seed, []FaultRate{{Fault{Kind: "429"}, 0.2}, {Fault{Kind: "500"}, 0.1}}
		})
		var statuses strings.Builder
		for range 200 {
			status, _ := b.ask(pathChat, hello+"}")
			fmt.Fprint(&statuses, status, " ")
		}
		return statuses.String()
	}
	one := run(1)
	if n := strings.Count(one, "429"); n < 20 || n > 60 {
		t.Errorf("%d of 200 are 429, want about 40", n)
	}
	if n := strings.Count(one, "500"); n < 5 || n > 40 {
		t.Errorf("%d of 200 are 500, want about 20", n)
	}
	if again := run(1); again != one {
		t.Errorf("the same seed has others:\n%s\n%s", one, again)
	}
	if other := run(2); other == one {
		t.Error("another seed has the same")
	}
}

// TestDelays: tokens come when they are due, and an answer that is no stream when its
// last one is.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(c *Config) {
			c.FirstToken, c.InterToken = Delay{A: 200 * ms}, Delay{A: 20 * ms}
		})
		for _, c := range []struct{ path, body, token string }{
			{pathChat, hello, `"delta":{"content":"`},
			{pathCompletions, helloText, `"finish_reason":null`},
			{pathCompletions, helloTexts, `"index":1,"text":"`}, // at the same time as those of the first choice
		} {
			began := time.Now()
			resp := b.post(t.Context(), c.path, c.body+`,"stream":true}`)
			if d := time.Since(began); d != 200*ms {
				t.Errorf("%s: the first byte after %v", c.path, d)
			}
			var tokens []time.Duration
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if strings.Contains(lines.Text(), c.token) && !strings.Contains(lines.Text(), `"length"`) {
					tokens = append(tokens, time.Since(began))
				}
			}
			if diff := cmp.Diff([]time.Duration{200 * ms, 220 * ms, 240 * ms}, tokens); diff != "" {
				t.Errorf("%s: tokens, -want +got:\n%s", c.path, diff)
			}
			began = time.Now()
			b.ask(c.path, c.body+"}")
			if d := time.Since(began); d != 240*ms {
				t.Errorf("%s: whole after %v", c.path, d)
			}
			began = time.Now()
			b.ask(c.path, c.body+"}", FaultField+": slow;delay=5s")
			if d := time.Since(began); d != 5240*ms {
				t.Errorf("%s: slow after %v", c.path, d)
			}
		}
		b.end()
	})
}

// TestConcurrency: beyond the bound, requests are refused, and let in again afterwards.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(c *Config) { c.MaxConcurrent, c.FirstToken = 2, Delay{A: time.Minute} })
		var answered sync.WaitGroup
		for range 2 {
			answered.Go(func() { b.ask(pathChat, hello+"}") })
		}
		synctest.Wait()
		resp := b.post(t.Context(), pathChat, hello+"}")
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
		}
		answered.Wait()
		synctest.Wait() // a place is free a moment after its answer
		if status, _ := b.ask(pathChat, hello+"}"); status != http.StatusOK {
			t.Errorf("afterwards: %d", status)
		}
		b.end()
	})
}

// TestDrain: answers under way are finished, or cut at the deadline.
func TestDrain(t *testing.T) {
	for _, drain := range []time.Duration{time.Second, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := piped(t, func(c *Config) { c.DrainTimeout, c.FirstToken = drain, Delay{A: time.Minute} })
			answered := make(chan error)
			go func() {
				r, err := b.client.Post("http://llm"+pathChat, "application/json", strings.NewReader(hello+"}"))
				if err == nil {
					_, err = io.ReadAll(r.Body)
					r.Body.Close()
				}
				answered <- err
			}()
			synctest.Wait()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b.end()
			}()
			if err := <-answered; (err == nil) != (drain > time.Minute) {
				t.Errorf("drained for %v: %v", drain, err)
			}
			<-ended // a second call of end would wait in a way that holds the clock
		})
	}
}

func TestValidate(t *testing.T) {
	c := Config{Listen: ":1", AdminListener: serve.AdminListener{Admin: "x"}, InterToken: Delay{Shape: "odd"}, DrainTimeout: -1,
		Models: []string{""}, Faults: []FaultRate{{Fault{Kind: "429"}, 0.7}, {Fault{Kind: "500"}, 0.7}, {Fault{Kind: "odd"}, 0}}}
	err := c.Validate()
	for _, want := range []string{"listen: ", "admin: ", "models[0]: ", "max_tokens: 0", "tokens: 0", "max_body: 0B", "max_concurrent: 0", "inter_token: ",
		"faults[2]: ", "drain_timeout: -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	c = Defaults()
	c.Faults = []FaultRate{{Fault{Kind: "429"}, 0.7}, {Fault{Kind: "500"}, 0.7}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "faults: the probabilities add up to 1.4") {
		t.Errorf("likely faults: %v", err)
	}
	if err := Defaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New accepts what Validate does not")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{hello + "}", hello + "," + weather + "}", `{"model":"m","input":[{"role":"user"}],` + weatherItem + "}", "{", "null", `{"model":"m","input":""}`,
		helloText + "}", helloTexts + usage + "}", `{"model":"m","prompt":[null]}`} {
		for e := range endpoints {
			f.Add([]byte(s), byte(e))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which byte) {
		e := endpoint(which) % endpoints
		q, err := e.parse(body)
		if err != nil {
			return
		}
		a := newAnswer(q, 4, 0, true)
		if whole := a.whole(nil); !json.Valid(whole) {
			t.Errorf("%s: answered with what is no JSON: %s", body, whole)
		}
		stream := a.begin(nil)
		for i := range a.tokens {
			stream = a.token(stream, i)
		}
		for _, line := range bytes.Split(a.end(stream), []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && string(data) != "[DONE]" && !json.Valid(data) {
				t.Errorf("%s: streamed what is no JSON: %s", body, data)
			}
		}
	})
}
