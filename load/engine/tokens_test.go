package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/messages"
	"dyno/load/engine/record"
	"dyno/load/engine/users"
	"dyno/load/hist"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/llm"
)

const (
	answerPieces = 5
	answerTokens = 1009 // by the server's account
	answerHidden = 1000 // of these: reasoning, which is not sent
	promptTokens = 7    // of the question; it is not said of each fourth answer
)

// serveAnswers streams answers of five pieces, by net/http. Each piece comes a pause after
// the one before, the first after three.
func serveAnswers(t *testing.T, pause time.Duration) string {
	t.Helper()
	var answers atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		prompt := ""
		if answers.Add(1)%4 != 0 {
			prompt = fmt.Sprintf(`"prompt_tokens":%d,`, promptTokens)
		}
		flush := http.NewResponseController(w).Flush
		<-time.After(2 * pause)
		for range answerPieces {
			<-time.After(pause)
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			_ = flush()
		}
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{%s\"completion_tokens\":%d,\"completion_tokens_details\":{\"reasoning_tokens\":%d}}}\n\ndata: [DONE]\n\n", prompt, answerTokens, answerHidden)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func askers(t *testing.T) func(int) func() wire.Client {
	t.Helper()
	c := llm.Config{
		Requests: []http1.Request{{Method: "POST", Target: "/", Host: "h", Body: []byte("{}")}},
	}
	return func(int) func() wire.Client {
		template, err := llm.NewTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}

// The tokens of answers are counted, and timed from the first piece to the last.
func TestTokens(t *testing.T) {
	const pause = 2 * time.Millisecond
	r := run(t, config.Config{
		Address: serveAnswers(t, pause), NewClients: askers(t), Connections: 4, Requests: 40,
		Messages: &messages.Config{Goal: record.Goal{First: time.Hour, Each: time.Hour}},
	})
	count := func(tag record.Tag) int64 { return r.Latency[tag].Count() }
	if r.Counts.OK != 40 || count(record.FirstToken) != 40 || count(record.TokenTime) != 40 ||
		count(record.FirstMessage) != 40 || count(record.MessageGap) != 40*(answerPieces-1) {
		t.Fatalf("%+v, %v; %d first tokens, %d times per token, %d gaps", r.Counts, r.Failures, count(record.FirstToken), count(record.TokenTime), count(record.MessageGap))
	}
	if r.Tokens == nil || r.Tokens.Count != r.Completed*answerTokens || r.Tokens.Within != r.Completed || r.Completed == 0 {
		t.Errorf("%+v of %d answers", r.Tokens, r.Completed)
	}
	if with := r.Completed - r.Tokens.NoPrompt; r.Tokens.NoPrompt == 0 || with == 0 || r.Tokens.Prompt != with*promptTokens {
		t.Errorf("%+v of %d answers: tokens of prompts", r.Tokens, r.Completed)
	}
	// Timers of the server may be late; single ones can make up for each other. Four gaps are
	// divided by the eight tokens after the first that were sent.
	if first := time.Duration(r.Latency[record.FirstToken].Quantile(0)); first < 3*pause {
		t.Errorf("the first token came after %v at the earliest", first)
	}
	if each := time.Duration(r.Latency[record.TokenTime].Quantile(0.5)); each < pause/4 {
		t.Errorf("the median time per token is %v", each)
	}
}

// A model that answers nothing has no goodput, which is a figure; other loads have none.
func TestTokensOfNothing(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	c := config.Config{Address: s.Listener.Addr().String(), NewClients: askers(t), Requests: 4, Messages: &messages.Config{}}
	if r := run(t, c); r.Tokens == nil || *r.Tokens != (record.Tokens{}) || r.Counts.ByKind[wire.Status] != 4 {
		t.Errorf("%+v, %+v", r.Tokens, r.Counts)
	}
	c.NewClients = get(t, "h")
	if r := run(t, c); r.Tokens != nil {
		t.Errorf("%+v", r.Tokens)
	}
}

// An answer is within the goal if it keeps both bounds.
func TestGoodput(t *testing.T) {
	const pause = 20 * time.Millisecond // several pieces come at once if the generator has no CPU for that long
	address := serveAnswers(t, pause)
	for _, test := range []struct {
		name string
		goal record.Goal
		all  bool
	}{
		{"none", record.Goal{}, true},
		{"the first token too late", record.Goal{First: pause}, false},
		{"tokens too slow", record.Goal{First: time.Hour, Each: pause / 100}, false},
	} {
		r := run(t, config.Config{
			Address: address, NewClients: askers(t), Connections: 4, Requests: 8, Messages: &messages.Config{Goal: test.goal},
		})
		if r.Completed == 0 || r.Tokens == nil || (r.Tokens.Within == r.Completed) != test.all {
			t.Errorf("%s: %+v of %d answers", test.name, r.Tokens, r.Completed)
		}
	}
}

// The first token's time runs from when the request was due: what waits for a connection
// waits for its token. From the write, nothing of that is seen.
func TestFirstTokenIsFromTheSchedule(t *testing.T) {
	const pause = 2 * time.Millisecond
	schedule, err := pace.New(pace.Steady(1000, 0), pace.Constant, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, config.Config{
		Address: serveAnswers(t, pause), NewClients: askers(t), Schedule: schedule, Connections: 1, Requests: 20,
		Messages: &messages.Config{},
	})
	due, written := last(r.Latency[record.FirstToken]), last(r.Latency[record.FirstMessage])
	if r.Counts.OK != 20 || due < 10*7*int64(pause) || written > due/2 {
		t.Errorf("%+v: the last of the first tokens came %v after it was due, %v after the write", r.Counts, time.Duration(due), time.Duration(written))
	}
}

func last(h *hist.Histogram) int64 { return h.Quantile(1) }

// Tokens of each user's step are counted and timed by step, but only for steps that a model answers.
// The next question can use the model's words.
func TestAnswersOfSteps(t *testing.T) {
	var wrong atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/login" {
			fmt.Fprint(w, `{"token":"T"}`)
			return
		}
		if want := map[string]string{"/first": "T", "/second": `T said x\"x`}[r.URL.Path]; string(body) != want {
			wrong.Add(1)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			if r.URL.Path == "/first" {
				fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"\"}}]}\n\n")
				fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
				break
			}
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	plan := compile(t, scenario.Spec{Variables: map[string]string{"token": "", "answer": ""}, Steps: []scenario.Step{
		{Name: "login", Once: true, Path: "/login", Extract: []scenario.Extraction{{Variable: "token", JSON: "$.token"}}},
		{Name: "first", Path: "/first", Method: "POST", Body: "{{ token }}", Extract: []scenario.Extraction{{Variable: "answer", JSON: "$.text"}}},
		{Name: "second", Path: "/second", Method: "POST", Body: "{{ token }} said {{ json_escape(answer) }}"},
	}})
	settings := llm.Config{Accept: func(int) bool { return true }}
	for _, o := range plan.Outlines() {
		info := plan.Steps()[o.Step]
		r := http1.Request{Method: o.Method, Target: o.Path, Host: "h", Body: []byte(o.Body), VariesBody: o.VariesBody}
		settings.Requests = append(settings.Requests, r)
		settings.Expects = append(settings.Expects, llm.Expect{Plain: info.Name == "login", Keep: info.MaxBody})
	}
	c := config.Config{
		Address: s.Listener.Addr().String(), Connections: 2, Requests: 41, Threads: options.Threads{Workers: 2}, Messages: &messages.Config{Goal: record.Goal{First: time.Hour}},
		Users: &users.Config{Scenario: plan, Count: 3, Answers: []bool{false, true, true}},
		NewClients: func(int) func() wire.Client {
			template, err := llm.NewTemplate(settings)
			if err != nil {
				panic(err)
			}
			return func() wire.Client { return template.Client() }
		},
	}
	r := carryOut(t, c)
	if wrong.Load() > 0 || r.Counts.OK != 41 {
		t.Errorf("%d questions were not as they should be; %+v, %v", wrong.Load(), r.Counts, r.Failures)
	}
	var sum record.Tokens
	for _, name := range []string{"first", "second"} {
		st := step(t, r, name)
		each := map[string]uint64{"first": 3, "second": 2}[name]
		if st.Tokens == nil || st.Tokens.Count != each*st.Completed || st.Tokens.Within != st.Completed || uint64(st.FirstToken.Count()) != st.Counts.OK { //nolint:gosec // not negative
			t.Errorf("%s: %+v of %d answers", name, st.Tokens, st.Completed)
			continue
		}
		if st.TokenTime.Count() != st.FirstToken.Count() {
			t.Errorf("%s: %d times per token of %d answers", name, st.TokenTime.Count(), st.FirstToken.Count())
		}
		sum.Count += st.Tokens.Count
		sum.Within += st.Tokens.Within
		sum.Prompt += st.Tokens.Prompt
		sum.NoPrompt += st.Tokens.NoPrompt
	}
	if login := step(t, r, "login"); login.Tokens != nil || login.FirstToken != nil || login.Counts.OK != 3 {
		t.Errorf("%+v", login)
	}
	if *r.Tokens != sum || sum.Count == 0 {
		t.Errorf("%+v in all, the steps add up to %+v", r.Tokens, sum)
	}
	c.Users.Answers = []bool{true}
	if err := c.Validate(); err == nil {
		t.Error("answers of a step in three were accepted")
	}
}
